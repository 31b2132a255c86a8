"""Conditional likelihood by plain loops: the slow, obvious twin of the discriminative pass."""

from __future__ import annotations

from math import exp, log


def row_scores(codes, arities, row, class_scores, families):
    """Return one row's score of each class.

    families: (members, table) with members the parents then the child and table
    a nested array over their values and the class.
    """
    scores = [float(s) for s in class_scores]
    for members, table in families:
        values = [int(codes[m][row]) for m in members]
        if all(v < arities[m] for v, m in zip(values, members, strict=True)):
            for c in range(len(scores)):
                scores[c] += float(table[(*values, c)])
    return scores


def posterior(scores):
    """Return softmax(scores)."""
    top = max(scores)
    exps = [exp(s - top) for s in scores]
    return [e / sum(exps) for e in exps]


def loss(codes, arities, labels, weights, class_scores, families, kind):
    """Return the weighted sum of -log P(y | x), or of the posterior's squared error."""
    total = 0.0
    for row, label in enumerate(labels):
        p = posterior(row_scores(codes, arities, row, class_scores, families))
        if kind == "cll":
            value = -log(p[label])
        else:
            value = sum((q - (c == label)) ** 2 for c, q in enumerate(p))
        total += float(weights[row]) * value
    return total


def frequency_estimates(codes, labels, n_classes, families, arities, n_passes, m):
    """Discriminative frequency estimates (Su et al. 2008), with one dict per family."""
    class_counts = [0.0] * n_classes
    counts = [{} for _ in families]
    totals = [{} for _ in families]
    for _ in range(n_passes):
        for row, label in enumerate(labels):
            keys = [tuple(int(codes[m_][row]) for m_ in members) for members in families]
            scores = []
            for c in range(n_classes):
                score = log((class_counts[c] + m / n_classes) / (sum(class_counts) + m))
                for f, key in enumerate(keys):
                    arity = arities[families[f][-1]]
                    n = counts[f].get((key, c), 0.0)
                    score += log((n + m / arity) / (totals[f].get((key[:-1], c), 0.0) + m))
                scores.append(score)
            miss = 1.0 - posterior(scores)[label]
            class_counts[label] += miss
            for f, key in enumerate(keys):
                counts[f][key, label] = counts[f].get((key, label), 0.0) + miss
                totals[f][key[:-1], label] = totals[f].get((key[:-1], label), 0.0) + miss
    return class_counts, counts
