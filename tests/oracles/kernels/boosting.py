"""Twin of boosting.c."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

CLEARLY = 1.0 + 1e-9


def _best_split(rows, features, given):
    """Return gain, feature and mask of the best split of some rows; a gain of 0 for none."""
    codes, sizes, ordered, weights, slopes, curvatures, ridge, least = given
    found = 0.0, -1, 0
    if weights[rows].sum() < 2 * least:
        return found

    def worth(some):
        return slopes[some].sum() ** 2 / (curvatures[some].sum() + ridge)

    for feature in sorted(features):
        own = codes[feature, rows]
        groups = list(range(sizes[feature]))
        if not ordered[feature]:
            held = {g: rows[own == g] for g in groups if weights[rows[own == g]].sum() > 0}
            steps = {
                g: slopes[some].sum() / (curvatures[some].sum() + ridge) for g, some in held.items()
            }
            groups = sorted(held, key=steps.__getitem__)
        for k in range(1, len(groups)):
            if weights[rows[own == groups[k - 1]]].sum() <= 0:
                continue
            inside = np.isin(own, groups[:k])
            left, right = rows[inside], rows[~inside]
            if min(weights[left].sum(), weights[right].sum()) < least:
                continue
            gain = worth(left) + worth(right) - worth(rows)
            if gain > max(found[0] * CLEARLY, 1e-6):
                found = gain, feature, sum(1 << g for g in groups[:k])
    return found


def boost_groups(
    codes, labels, weights, held, sizes, ordered, clique_starts, cliques, n_rounds, n_splits,
    rate, ridge, least, scores, held_scores, features, masks, children, values,
):  # fmt: skip
    """Add trees on the gradient of the log-loss; each path splits the features of one clique."""
    n_rows, n = scores.shape
    weights = weights if len(weights) else np.ones(n_rows)
    sets = [set(cliques[a:b].tolist()) for a, b in pairwise(clique_starts)]
    tree = 0
    for _ in range(n_rounds):
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        for c in range(1 if n == 2 else 0, n):
            p = shares[:, c]
            slopes = weights * (p - (labels == c))
            curvatures = weights * p * (1 - p) * (1.0 if n == 2 else n / (n - 1))
            rows_of, split = [np.arange(n_rows)], {}
            paths = [frozenset()]

            given = codes, sizes, ordered, weights, slopes, curvatures, ridge, least
            known = [_best_split(rows_of[0], set().union(*sets), given)]
            while len(split) < n_splits:
                leaves = [at for at in range(len(known)) if at not in split and known[at][0] > 0]
                if not leaves:
                    break
                best = leaves[0]
                for at in leaves[1:]:
                    if known[at][0] > known[best][0] * CLEARLY:
                        best = at
                _, feature, mask = known[best]
                split[best] = feature, mask, len(known)
                left = np.array([mask >> int(v) & 1 for v in codes[feature, rows_of[best]]], bool)
                for side in (left, ~left):
                    rows_of.append(rows_of[best][side])
                    paths.append(paths[best] | {feature})
                    usable = set().union(*(one for one in sets if paths[-1] <= one))
                    known.append(_best_split(rows_of[-1], usable, given))
            features[tree], masks[tree], children[tree], values[tree] = -2, 0, 0, 0.0
            for at, rows in enumerate(rows_of):
                features[tree, at], masks[tree, at], children[tree, at] = split.get(at, (-1, 0, 0))
                values[tree, at] = -rate * slopes[rows].sum() / (curvatures[rows].sum() + ridge)
                if at not in split:
                    scores[rows, c] += values[tree, at]
            for row in range(len(held_scores)):
                at = 0
                while at in split:
                    feature, mask, child = split[at]
                    at = child + (not mask >> int(held[feature, row]) & 1)
                held_scores[row, c] += values[tree, at]
            tree += 1
