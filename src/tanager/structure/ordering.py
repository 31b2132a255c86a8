r"""Feature orders by the information each feature adds about the class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tanager import native
from tanager.codes import Chunk, Domain
from tanager.counts import Counts, PairCells, PairScore
from tanager.counts.statistics import DECIMALS
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.estimator import is_whole
from tanager.numerics import Floats, Ints, starts_of
from tanager.progress import Progress

ROWS_PER_CELL = 5  # minimum average rows per class and pattern of earlier features


class _Patterns:
    """Rows grouped by their pattern over some features; initially one group."""

    def __init__(self, domain: Domain, rows: Chunk) -> None:
        self.domain = domain
        self._codes = rows.codes
        self._labels = rows.labels
        self._weights = rows.row_weights
        self.n_rows = float(self._weights.sum())  # a weight of 2 counts as two rows
        self._pattern = np.zeros(rows.n_rows, np.int64)
        self._group()

    def refine(self, feature: int, most: float = np.inf) -> bool:
        """Split the patterns by one more feature, unless that gives more than `most`."""
        key = self._pattern * (int(self.domain.arities[feature]) + 1) + self._codes[feature]
        seen, pattern = np.unique(key, return_inverse=True)
        if seen.shape[0] > most:
            return False
        self._pattern = pattern.astype(np.int64)
        self._group()
        return True

    def _group(self) -> None:
        n_patterns, n_classes = int(self._pattern.max(initial=-1)) + 1, self.domain.n_classes
        self._rows = np.argsort(self._pattern, kind="stable")
        sizes = np.bincount(self._pattern, minlength=n_patterns)
        self._start = starts_of(sizes)
        key = self._pattern * n_classes + self._labels
        self._base = _n_log_n(self._sums(self._pattern)) - _n_log_n(self._sums(key))

    def _sums(self, key: Ints) -> Floats:
        return np.bincount(key, self._weights).astype(np.float64)

    def information(self, feature: int) -> float:
        """Return I(C; X | pattern) in nats, with "unknown" as an extra value of X."""
        width, n_classes = int(self.domain.arities[feature]) + 1, self.domain.n_classes
        terms = np.zeros(2)
        rows = (self._codes[feature], self._labels, self._weights, self._rows)
        native.sum_groups(self._start, *rows, width, n_classes, terms)
        with_class, without = terms.tolist()
        total = max(float(self._weights.sum()), 1e-300)
        return round((self._base + with_class - without) / total, DECIMALS)


def _n_log_n(counts: Floats) -> float:
    seen = counts[counts > 0]
    return float((seen * np.log(seen)).sum())


def given_order(order: Iterable[str | int], names: Sequence[str]) -> Ints:
    """Return the features of an order that lists all of them, by name or index, as indices."""
    given, index = list(order), {name: at for at, name in enumerate(names)}
    found = [int(one) if is_whole(one, 0) else index.get(str(one), -1) for one in given]
    if sorted(found) != list(range(len(names))):
        known = len(set(found) & set(range(len(names))))
        raise ConfigurationError(
            f"order must name each of the {len(names)} features once, by name or index; it has "
            f"{len(given)} entries with {known} of the features."
        )
    return np.array(found, np.int64)


def order_by_class_information(
    domain: Domain, rows: Chunk, context: FitContext, max_conditioning: int | None = None
) -> Ints:
    r"""Order features greedily by :math:`I(C; X \mid \text{all earlier})`; ties by column.

    `max_conditioning` is the most features to condition on; None stops before the
    patterns leave fewer than five rows per pattern and class. Equation 5 by joint entropies of
    the patterns that occur: :math:`I(C; A \mid B) = H(C, B) - H(B) - H(C, A, B) + H(A, B)`.
    """
    patterns = _Patterns(domain, rows)
    remaining = list(range(domain.n_features))
    order: list[int] = []
    enough = patterns.n_rows / (ROWS_PER_CELL * max(domain.n_classes, 1))
    while remaining:
        gains = np.array(
            context.engine.map(patterns.information, remaining, Progress(), "feature order")
        )
        order.append(remaining.pop(int(np.argmax(gains))))
        if max_conditioning is None:
            finer = patterns.refine(order[-1], enough)
        else:
            finer = len(order) <= max_conditioning and patterns.refine(order[-1])
        if not finer:
            rest = np.delete(gains, int(np.argmax(gains)))
            order.extend(remaining[i] for i in np.argsort(-rest, kind="stable"))
            break
    return np.array(order, np.int64)


def order_by_single_condition(counts: Counts) -> Ints:
    r"""Order features by :math:`\max I(C; X \mid X')` over the earlier :math:`X'` (equation 6)."""
    given = counts.score_pairs(_ClassInformation())
    n = counts.domain.n_features
    best = counts.mi()
    outside = np.ones(n, bool)
    order = np.empty(n, np.int64)
    for place in range(n):
        chosen = int(np.argmax(np.where(outside, best, -np.inf)))
        order[place] = chosen
        outside[chosen] = False
        best = given[:, chosen] if place == 0 else np.maximum(best, given[:, chosen])
    return order


class _ClassInformation(PairScore):
    """I(Y; X_i | X_j)."""

    symmetric = False

    def joint(self, joint: Floats, out: Floats) -> None:
        native.score_class_information(joint, out)

    def cells(self, cells: PairCells) -> float:
        if cells.counts.shape[0] == 0:
            return 0.0
        left, right, label, count, _ = cells
        ratio = count * cells.margin(right) / cells.margin(left, right) / cells.margin(right, label)
        return float((count * np.log(ratio)).sum() / count.sum())
