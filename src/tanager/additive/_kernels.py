"""Loss and derivatives of additive scores over rows."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def evaluate(cells, starts, labels, weights, scores, slopes):
    """Return the loss of all rows; write its derivatives by the scores.

    Parameters
    ----------
    cells : (n_rows, n_families) of uint16
        Each family's cell, counted from `starts`.
    starts : (n_families,)
    labels : (n_rows,)
    weights : (n_rows,), or empty where every weight is one
    scores : (n_cells, n_columns)
        Row 0 is the class node. One column: that of the second of two classes,
        less that of the first.
    slopes : (n_cells, n_columns)
        Written.
    """
    slopes[:] = 0.0
    if scores.shape[1] == 1:
        return _evaluate_two(cells, starts, labels, weights, scores[:, 0], slopes[:, 0])
    return _evaluate_many(cells, starts, labels, weights, scores, slopes)


@njit(cache=True, nogil=True)
def _evaluate_two(cells, starts, labels, weights, scores, slopes):
    """Do the same for two classes: one score tells them apart."""
    n_rows, n_families = cells.shape
    weighted = weights.shape[0] > 0
    loss = 0.0
    for r in range(n_rows):
        total = scores[0]
        for t in range(n_families):
            total += scores[starts[t] + cells[r, t]]
        w = weights[r] if weighted else 1.0
        s = total if labels[r] == 1 else -total
        # log(1 + exp(-s)) without overflow
        small = np.exp(-abs(s))
        loss += w * (np.log1p(small) + max(-s, 0.0))
        miss = w * (1.0 if s < 0 else small) / (1.0 + small)
        slope = -miss if labels[r] == 1 else miss
        slopes[0] += slope
        for t in range(n_families):
            slopes[starts[t] + cells[r, t]] += slope
    return loss


@njit(cache=True, nogil=True)
def _evaluate_many(cells, starts, labels, weights, scores, slopes):
    """Do the same for more classes: one score each."""
    n_rows, n_families = cells.shape
    n_columns = scores.shape[1]
    weighted = weights.shape[0] > 0
    total = np.empty(n_columns)
    loss = 0.0
    for r in range(n_rows):
        w = weights[r] if weighted else 1.0
        total[:] = scores[0]
        for t in range(n_families):
            cell = starts[t] + cells[r, t]
            for c in range(n_columns):
                total[c] += scores[cell, c]
        top = total[0]
        for c in range(1, n_columns):
            top = max(top, total[c])
        own, norm = total[labels[r]], 0.0
        for c in range(n_columns):
            total[c] = np.exp(total[c] - top)
            norm += total[c]
        loss += w * (np.log(norm) + top - own)
        for c in range(n_columns):
            total[c] *= w / norm
        total[labels[r]] -= w
        slopes[0] += total
        for t in range(n_families):
            cell = starts[t] + cells[r, t]
            for c in range(n_columns):
                slopes[cell, c] += total[c]
    return loss


@njit(cache=True, nogil=True)
def add_up(cells, starts, scores, out):
    """Write the sum of each row's scores to out (n_rows, n_columns)."""
    n_rows, n_families = cells.shape
    n_columns = scores.shape[1]
    for r in range(n_rows):
        for c in range(n_columns):
            out[r, c] = scores[0, c]
        for t in range(n_families):
            cell = starts[t] + cells[r, t]
            for c in range(n_columns):
                out[r, c] += scores[cell, c]
