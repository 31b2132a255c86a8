"""The smallest change to a row that changes the decision."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes
from tanager.errors import ConfigurationError, listed, nearest
from tanager.network.decisions import Costs, read_costs
from tanager.network.evidence import check_count, find_feature, one_row, read_names
from tanager.network.propagation import require_probabilities
from tanager.numerics import Floats, log_sum_exp
from tanager.parameters import posterior

if TYPE_CHECKING:
    from tanager.network.network import Network

Ints = NDArray[np.intp]

MOST_ROWS = 1 << 22  # most combinations for a number of changes to try exhaustively
BATCH_ROWS = 1 << 16
BEAM = 256  # rows kept if not all combinations are tried


@dataclass(frozen=True)
class Change:
    """A changed row with another decision.

    Attributes
    ----------
    changes : dict of str to tuple of str
        From each changed feature to its old and new value.
    before, after : object
        The decisions.
    probabilities : tuple of float
        P(class | changed row).
    ratio : float
        P(changed row) / P(row): how much more or less common the changed row is.
    exact : bool
        Whether all combinations were tried, so no change is smaller or more probable.
    """

    changes: dict[str, tuple[str, str]]
    before: Any
    after: Any
    probabilities: tuple[float, ...]
    ratio: float
    exact: bool

    def __str__(self) -> str:
        steps = "; ".join(f"{name}: {old} -> {new}" for name, (old, new) in self.changes.items())
        return f"{steps or 'no change'}: {self.after}"

    __repr__ = __str__


def find_nearest(
    model: Any,
    row: Any,
    to: Any = None,
    *,
    fixed: Sequence[str] = (),
    costs: Any = None,
    max_changes: int = 3,
    n: int = 3,
) -> list[Change]:
    """Return changes to a row that change the decision: the fewest first, of these the likeliest.

    Parameters
    ----------
    row : mapping, Series or one-row table
        What is known, one value per feature. Unknown features stay unknown.
    to : class or action, optional
        The desired decision; by default, any other than that for the row.
    fixed : sequence of str
        Features that can't be changed.
    costs : optional
        As for `decide`; without costs, the decision is the most probable class.
    max_changes : int, default=3
        How many features may change.
    n : int, default=3
        How many changes to return, each of a different set of features.

    Returns
    -------
    list of Change
        All with the same, smallest number of changes; empty if `max_changes` isn't enough.

    Notes
    -----
    Up to four million combinations are tried exhaustively, and `Change.exact` is then True. Beyond
    that, a beam search keeps the 256 rows nearest to the decision for each number of changes. No
    feature is changed to missing. Rows are ranked by the network's P(row). The result isn't causal:
    it's what the network would predict for a different row.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
    >>> clf = BayesNetClassifier("tan", "laplace").fit(X, ["wet", "wet", "dry", "dry"] * 5)
    >>> clf.nearest({"x0": "rain", "x1": "mild"}, "dry")
    [x0: rain -> sun: dry]
    """
    network: Network = model._asked()
    table = read_costs(network, "error" if costs is None else costs)
    require_probabilities(network)
    check_count("max_changes", max_changes, 0)
    check_count("n", n, 1)
    known = one_row(network, row)
    if known.likelihoods or (known.classes < 1.0).any():
        raise ConfigurationError(
            "nearest changes values of features: give one value per feature, and leave the others "
            "and the class out."
        )
    search = _Search(network, np.ascontiguousarray(known.codes), table, to)
    free = _free(network, known.codes[:, 0], fixed)
    sizes, exact = [len(codes) for codes in free.values()], True
    search.look((), search.start)
    for size in range(1, max_changes + 1):
        if search.found:
            break
        beam = search.next_beam()
        exact = exact and _n_combinations(sizes, size) <= MOST_ROWS
        if exact:
            for some in combinations(free, size):
                search.look(some, *_grid(search.start, some, free))
            continue
        for some, codes in beam:
            for feature in sorted(free.keys() - some):
                search.look((*some, feature), *_grid(codes, (feature,), free))
    return search.changes(n, exact)


def _free(network: Network, codes: Codes, fixed: Sequence[str]) -> dict[int, Codes]:
    """Return the features that may change, each with the codes it may change to."""
    names, out = network.structure.names, {}
    held = {find_feature(names, name, "fixed") for name in read_names(fixed, "fixed")}
    for feature in sorted({*network.structure.selected} - held):
        column, own = network.codebook.columns[feature], codes[feature]
        others = np.arange(column.arity, dtype=codes.dtype)
        others = others[(others != own) & (others != column.null_code)]
        if own < column.arity and len(others):
            out[feature] = others
    return out


def _n_combinations(sizes: Sequence[int], k: int) -> int:
    """Return the number of rows with k changes: the elementary symmetric polynomial.

    >>> _n_combinations([2, 3, 4], 2)
    26
    """
    sums = [1] + [0] * k
    for size in sizes:
        for at in range(k, 0, -1):
            sums[at] += size * sums[at - 1]
    return sums[k]


def _grid(start: Codes, some: tuple[int, ...], free: dict[int, Codes]) -> Iterator[Codes]:
    """Yield all rows with other values of some features, (n_features, n_rows), in batches."""
    shape = [len(free[f]) for f in some]
    for low in range(0, prod(shape), BATCH_ROWS):
        places = np.unravel_index(np.arange(low, min(low + BATCH_ROWS, prod(shape))), shape)
        codes = np.repeat(start, len(places[0]), axis=1)
        for feature, at in zip(some, places, strict=True):
            codes[feature] = free[feature][at]
        yield codes


class _Search:
    """The rows found with the desired decision, and those closest to it."""

    def __init__(self, network: Network, start: Codes, costs: Costs, to: Any) -> None:
        self.network, self.start, self.costs = network, start, costs
        joint = network.log_joint_of_codes(start)
        self.log_start = float(log_sum_exp(joint, axis=1)[0])
        self.own = int(costs.best(costs.expected(posterior(joint.copy())))[0])
        if to is not None and str(to) not in costs.names:
            known = f"{listed(costs.names)}.{nearest(to, costs.names)}"
            message = f"to={to!r} is not one of the decisions {known}"
            raise ConfigurationError(message, parameter="to")
        self.to = None if to is None else costs.names.index(str(to))
        # The most probable row by set of changed features: its log-probability, row and joint.
        self.found: dict[tuple[int, ...], tuple[float, Codes, Floats]] = {}
        # The rows nearest to the decision: how far they fall short, and their changed features.
        self.near: dict[tuple[Any, ...], tuple[float, tuple[int, ...], Codes]] = {}

    def look(self, some: tuple[int, ...], *batches: Codes) -> None:
        """Examine rows with some features changed."""
        key = tuple(sorted(some))
        for codes in batches:
            joint = self.network.log_joint_of_codes(codes)
            chosen, short = self._decide(joint)
            hits = np.flatnonzero((chosen != self.own) if self.to is None else (chosen == self.to))
            if len(hits):
                logs = log_sum_exp(joint[hits], axis=1)
                at, log = hits[np.argmax(logs)], float(logs.max())
                if key not in self.found or log > self.found[key][0]:
                    self.found[key] = log, codes[:, at : at + 1], joint[at]
            if not self.found:
                for at in np.argsort(short, kind="stable")[:BEAM]:
                    one = codes[:, at : at + 1]
                    self.near.setdefault((key, one.tobytes()), (float(short[at]), key, one))
        if len(self.near) > 8 * BEAM:
            self._trim()

    def next_beam(self) -> list[tuple[tuple[int, ...], Codes]]:
        """Return and remove the rows from which further changes start."""
        self._trim()
        beam = [(some, codes) for _, some, codes in self.near.values()]
        self.near = {}
        return beam

    def changes(self, n: int, exact: bool) -> list[Change]:
        """Return the changes found, most probable first."""
        network, actions = self.network, self.costs.actions
        out = []
        ranked = sorted(self.found.items(), key=lambda pair: (-pair[1][0], pair[0]))
        for some, (log, codes, joint) in ranked[:n]:
            changes = {}
            for feature in some:
                labels = network.codebook.columns[feature].labels()
                old, new = (labels[row[feature, 0]] for row in (self.start, codes))
                changes[network.structure.names[feature]] = old, new
            after = actions[int(self._decide(joint[None])[0][0])]
            shares = tuple(posterior(joint[None].copy())[0].tolist())
            ratio = float(np.exp(log - self.log_start))
            out.append(Change(changes, actions[self.own], after, shares, ratio, exact))
        return out

    def _decide(self, joint: Floats) -> tuple[Ints, Floats]:
        """Return the decision on each row, and by how much the desired one falls short."""
        expected = self.costs.expected(posterior(joint.copy()))
        one = self.own if self.to is None else self.to
        ahead = np.delete(expected, one, axis=1).min(axis=1, initial=np.inf) - expected[:, one]
        return self.costs.best(expected), ahead if self.to is None else -ahead

    def _trim(self) -> None:
        """Keep the nearest rows; in case of ties, the first."""
        self.near = dict(heapq.nsmallest(BEAM, self.near.items(), key=lambda item: item[1][0]))
