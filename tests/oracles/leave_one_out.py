"""Leave-one-out by refitting on all other rows: the twin of `structure.leave_one_out`."""

from __future__ import annotations

from math import log, sqrt


def estimate(rows, feature, arities, parents, y, row, lean, m=1.0):
    """Return P(x | y, parents) from the empty context down.

    With `lean` every context below the class is blended with the one before;
    without, it is the m-estimate of the longest context that was seen. Rows in
    which x is unknown are not counted, and say nothing themselves; the context
    of a row ends before its first unknown parent.
    """
    codes, labels, weights, kept = rows
    arity = int(arities[feature])
    if codes[feature][row] == arity:
        return 1.0
    unknown = [p for p in parents if codes[p][row] == arities[p]]
    parents = parents[: parents.index(unknown[0])] if unknown else parents
    members = [labels, *(codes[p] for p in parents)]
    values = [y, *(codes[p][row] for p in parents)]
    x = codes[feature]
    answer = None
    for length in range(len(values) + 1):
        pairs = list(zip(members, values, strict=True))[:length]
        inside = [
            r
            for r in range(len(labels))
            if x[r] < arity and all(int(v[r]) == int(c) for v, c in pairs)
        ]
        total = sum(weights[r] * kept[r] for r in inside)
        same = sum(weights[r] * kept[r] for r in inside if x[r] == x[row])
        if length == 0 or (total > 1e-12 and (length == 1 or not lean)):
            answer = (same + m / arity) / (total + m)
        elif length > 1 and lean:
            answer = (same + lean * answer) / (total + lean)
    return answer


def surface(codes, labels, weights, shares, arities, n_classes, families, max_k, score, lean=0.0):
    """Return the loss of every (k', n') as nested lists; families in order of selection."""
    n_rows = len(labels)
    losses = [[0.0] * len(families) for _ in range(max_k + 1)]
    for row in range(n_rows):
        kept = [1.0] * n_rows
        kept[row] = 1.0 - shares[row] / weights[row]
        rows = (codes, labels, weights, kept)
        prior = [
            sum(weights[r] * kept[r] for r in range(n_rows) if labels[r] == y) + 1.0 / n_classes
            for y in range(n_classes)
        ]
        for k in range(max_k + 1):
            joint = list(prior)
            for at, (feature, parents) in enumerate(families):
                for y in range(n_classes):
                    joint[y] *= estimate(rows, feature, arities, parents[:k], y, row, lean)
                posterior = [j / sum(joint) for j in joint]
                losses[k][at] += weights[row] * loss(posterior, int(labels[row]), score)
    total = sum(weights)
    root = score.startswith("rmse")
    return [[sqrt(v / total) if root else v / total for v in line] for line in losses]


def loss(posterior, own, score):
    """Return one row's loss."""
    if score == "rmse":
        return (1 - posterior[own]) ** 2
    if score == "log-loss":
        return -log(posterior[own])
    if score == "zero-one":
        return float(posterior.index(max(posterior)) != own)
    return sum((p - (c == own)) ** 2 for c, p in enumerate(posterior)) / len(posterior)
