"""Discriminative search with everything evaluated afresh, row by row."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np


class PlainScore:
    """Classification rate or conditional log-likelihood of a whole structure."""

    def __init__(self, codes, labels, arities, n_classes, weights=None, folds=None, **options):
        self.codes, self.labels, self.arities, self.n_classes = codes, labels, arities, n_classes
        self.weights = np.ones(labels.shape[0]) if weights is None else weights
        self.folds = np.zeros(labels.shape[0], int) if folds is None else folds
        self.cross = folds is not None
        self.kind = options.get("score", "cr")
        self.epsilon = options.get("epsilon", 1e-5)
        self.known_terms = {}
        self.grid = options["grid"]  # log-probabilities are rounded to multiples of it, in nats

    def round(self, log_p):
        return np.rint(log_p / self.grid) * self.grid

    def train(self, row):
        """Rows from which this row's tables come."""
        return self.folds != self.folds[row] if self.cross else slice(None)

    def frequencies(self, counts):
        p = counts / counts.sum()
        zeros = (counts == 0).sum()
        return np.where(counts > 0, p, self.epsilon) / (1 + self.epsilon * zeros)

    def term(self, row, child, parents, c):
        """Log P(x | c, parents) of one row; rows with equal values share it."""
        values = tuple(self.codes[[child, *parents], row].tolist())
        key = child, tuple(parents), values, c, int(self.folds[row])
        if key not in self.known_terms:
            self.known_terms[key] = self.fresh_term(row, child, parents, c)
        return self.known_terms[key]

    def fresh_term(self, row, child, parents, c):
        """The frequency under the longest prefix of known, seen parents."""
        x = self.codes[child, row]
        if x == self.arities[child]:
            return 0.0
        rows = self.train(row)
        codes, labels, weights = self.codes[:, rows], self.labels[rows], self.weights[rows]
        match = (labels == c) & (codes[child] < self.arities[child])
        known = []
        for p in parents:
            if self.codes[p, row] == self.arities[p]:
                break
            known.append(p)
        for length in range(len(known), -1, -1):
            hit = match.copy()
            for p in known[:length]:
                hit &= codes[p] == self.codes[p, row]
            counts = np.bincount(codes[child, hit], weights[hit], self.arities[child])
            if counts.sum() > 0:
                return self.round(np.log(self.frequencies(counts)[x]))
        return self.round(-np.log(self.arities[child]))

    def log_joint(self, parents):
        """All rows and classes, from nothing."""
        out = np.empty((self.labels.shape[0], self.n_classes))
        for row in range(out.shape[0]):
            rows = self.train(row)
            prior = np.bincount(self.labels[rows], self.weights[rows], self.n_classes)
            out[row] = self.round(np.log(self.frequencies(prior)))
            for c in range(self.n_classes):
                out[row, c] += sum(self.term(row, i, ps, c) for i, ps in enumerate(parents))
        return out

    def __call__(self, parents):
        log_joint = self.log_joint(parents)
        if self.kind == "cr":
            return float(self.weights[log_joint.argmax(axis=1) == self.labels].sum())
        true = log_joint[np.arange(self.labels.shape[0]), self.labels]
        evidence = np.logaddexp.reduce(log_joint, axis=1)
        return float((self.weights * (true - evidence)).sum())


def plain_greedy(score, n, tolerance=0.0):
    """Every allowed edge in full in every round."""
    parents = [()] * n
    current = score(parents)
    while True:
        best = None
        for child in range(n):
            if parents[child]:
                continue
            for p in range(n):
                if p == child or child in ancestors(parents, p):
                    continue
                trial = list(parents)
                trial[child] = (p,)
                value = score(trial)
                if value > current + tolerance and (best is None or value > best[0] + tolerance):
                    best = value, child, p
        if best is None:
            return parents
        current, child, p = best
        parents[child] = (p,)


def ancestors(parents, node):
    """All ancestors of a node."""
    found = set()
    front = list(parents[node])
    while front:
        p = front.pop()
        if p not in found:
            found.add(p)
            front.extend(parents[p])
    return found


def plain_order_based(score, order, max_parents=1, tolerance=0.0):
    """Every clique of earlier features in full."""
    parents = [()] * len(order)
    current = score(parents)
    edges = set()

    def gain(child, family):
        trial = list(parents)
        trial[child] = family
        return score(trial) - current

    for place, child in enumerate(order):
        earlier = list(order[:place])
        single = {p: gain(child, (p,)) for p in earlier}
        ranked = sorted(earlier, key=lambda p: (-single[p], earlier.index(p)))
        best, chosen = 0.0, ()
        for size in range(1, max_parents + 1):
            for clique in combinations(earlier if size == 1 else ranked, size):
                if all(frozenset(pair) in edges for pair in combinations(clique, 2)):
                    value = gain(child, clique)
                    if value > best + tolerance:
                        best, chosen = value, clique
        if chosen:
            parents[child] = chosen
            edges |= {frozenset((child, p)) for p in chosen}
            current = score(parents)
    return parents


def conditional_information(codes, labels, weights, feature, given):
    """I(C; X | given) by dictionaries of patterns."""

    def entropy(columns):
        cells = Counter()
        for row, w in enumerate(weights):
            cells[tuple(int(column[row]) for column in columns)] += w
        p = np.array(list(cells.values())) / weights.sum()
        p = p[p > 0]
        return float(-(p * np.log(p)).sum())

    a, b = [codes[feature]], [codes[g] for g in given]
    return entropy([labels, *b]) - entropy(b) - entropy([labels, *a, *b]) + entropy([*a, *b])


def plain_information_order(codes, labels, weights, max_conditioning):
    """Equation 5 of Pernkopf and Bilmes, with the cap."""
    remaining, order = list(range(codes.shape[0])), []
    while remaining:
        given = order[:max_conditioning]
        gains = [
            round(conditional_information(codes, labels, weights, i, given), 9) for i in remaining
        ]
        order.append(remaining.pop(int(np.argmax(gains))))
    return order
