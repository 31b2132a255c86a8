"""Propagate one row of evidence through a network, feature by feature.

Every family is a factor over the views of its unknown members: groups of values that no table
distinguishes (`tanager.network.views`). Features are eliminated one after the other; the product
in each step before it's summed (or maximised) is kept, and defines how the feature depends on
those that remain. Backwards, the steps draw rows from P(unknown | evidence), or find
the most probable completion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tanager.codes import Groups
from tanager.errors import ConfigurationError, check_cells, listed
from tanager.numerics import Floats, log_sum_exp

if TYPE_CHECKING:
    from tanager.network.network import Network

MAX_CELLS = 1 << 25  # cells of one row's intermediate factor: 256 MiB

Factor = tuple[tuple[int, ...], Floats]  # features; logs (n_classes, *their views)


class EliminationStep(NamedTuple):
    """How a feature depends on those that are eliminated after it."""

    feature: int
    given: tuple[int, ...]  # the features it depends on, in addition to the class
    logs: Floats  # (n_classes, n_values, *values of `given`), up to a term without the feature


class Inner(NamedTuple):
    """The values of one feature within their views."""

    views: Groups  # (arity,): the view of each value
    logs: Floats  # (arity, n_classes): what a value adds to its family's term, and to the evidence


class Propagation:
    """The result of eliminating all unknown features except those that are kept."""

    def __init__(
        self,
        network: Network,
        known: Mapping[int, int],  # codes of features
        log_likelihoods: Mapping[int, Floats],  # of features, known ones included, (arity,)
        log_classes: Floats,  # (n_classes,): log-likelihoods of the classes
        kept: tuple[int, ...] = (),  # features that aren't eliminated
        *,
        maximise: bool = False,  # keep the most probable value of a feature, not the sum over all
        to_draw: bool = False,  # only draw: without evidence, families are used as they are
    ) -> None:
        require_probabilities(network)
        self.structure, self.views = network.structure, network.views
        self.known, self.log_likelihoods = known, log_likelihoods
        self.kept, self.maximise = kept, maximise
        self.inner: dict[int, Inner] = {}  # of each unknown feature
        self.steps: list[EliminationStep] = []  # traversed backwards to draw or to complete
        selected, n_classes = self.structure.selected, len(log_classes)
        known_views = {f: int(self.views.groups[f][code]) for f, code in known.items()}
        factors = [self._factor(at, known_views) for at in range(len(selected))]
        # (n_classes, *views of those kept): log P(class, kept, evidence), or of the best completion
        self.log_top = (network.log_prior + log_classes).reshape(-1, *(1,) * len(kept))
        if to_draw and not known and not log_likelihoods:
            for at in reversed(self.structure.topological_order()):
                scope, logs = factors[at]
                given = tuple(f for f in scope if f != selected[at])
                logs = align(scope, logs, (selected[at], *given))
                self.steps.append(EliminationStep(selected[at], given, logs))
            return

        def size(features: Iterable[int]) -> int:
            return prod(int(self.views.sizes[f]) for f in features) * n_classes

        unknown = [f for f in selected if f not in known and f not in kept]
        scopes = [scope for scope, _ in factors]
        for feature in elimination_order(unknown, scopes, size, MAX_CELLS, self.structure.names):
            scope, joined = _multiply([f for f in factors if feature in f[0]])
            given = tuple(f for f in scope if f != feature)
            logs = align(scope, joined, (feature, *given))  # sums are fast over early axes
            self.steps.append(EliminationStep(feature, given, logs))
            left = logs.max(axis=1) if maximise else log_sum_exp(logs, axis=1)
            factors = [*(f for f in factors if feature not in f[0]), (given, left)]
        scope, logs = _multiply(factors or [((), np.zeros(n_classes))])
        self.log_top = self.log_top + align(scope, logs, kept)

    def _factor(self, at: int, known_views: Mapping[int, int]) -> Factor:
        """Return log P(x | y, parents) over the unknown members, (n_classes, *views)."""
        feature = self.structure.selected[at]
        logs, within = self.views.spell(at, known_views), self.views.within[at]
        likelihood = self.log_likelihoods.get(feature)
        if feature in self.known:
            code = self.known[feature]
            logs = logs if within is None else logs + within[code]
            logs = logs if likelihood is None else logs + likelihood[code]
        else:
            groups, n_classes = self.views.groups[feature], logs.shape[-1]
            inside = np.zeros((len(groups), n_classes)) if within is None else within
            inside = inside if likelihood is None else inside + likelihood[:, None]
            self.inner[feature] = Inner(groups, inside)
            if likelihood is not None or self.maximise:
                logs = logs + self._by_view(self.inner[feature])
        members = (*self.structure.parent_indices[at], feature)
        scope = tuple(m for m in members if m not in self.known)
        return scope, np.moveaxis(logs, -1, 0).copy()

    def _by_view(self, inner: Inner) -> Floats:
        """Return what each view adds to its family's term, (n_views, n_classes)."""
        n_views = int(inner.views.max()) + 1
        if n_views == len(inner.views):
            return inner.logs
        top = np.full((n_views, inner.logs.shape[1]), -np.inf)
        np.maximum.at(top, inner.views, inner.logs)
        if self.maximise:
            return top
        base = np.where(np.isneginf(top), 0.0, top)
        sums = np.zeros_like(top)
        np.add.at(sums, inner.views, np.exp(inner.logs - base[inner.views]))
        with np.errstate(divide="ignore"):
            return base + np.log(sums)

    @property
    def log_evidence(self) -> float:
        """Logarithm of P(evidence)."""
        return float(log_sum_exp(self.log_top.ravel(), axis=0))

    def best(self) -> tuple[float, int, dict[int, int]]:
        """Return the most probable completion, after maximising: its logarithm, class and codes."""
        label, views, codes = int(np.argmax(self.log_top)), dict[int, int](), dict[int, int]()
        for feature, given, logs in reversed(self.steps):
            held = logs[label].reshape(logs.shape[1], -1)
            at = np.ravel_multi_index([views[f] for f in given], logs.shape[2:]) if given else 0
            views[feature] = int(np.argmax(held[:, at]))
            inner = self.inner[feature]
            logs_inside = np.where(inner.views == views[feature], inner.logs[:, label], -np.inf)
            codes[feature] = int(np.argmax(logs_inside))
        return float(self.log_top[label]), label, codes

    @cached_property
    def of_kept(self) -> Floats:
        """P(kept, class | evidence), (n_classes, *views of those kept)."""
        return np.exp(self.log_top - self.log_evidence)

    @cached_property
    def joints(self) -> dict[int, Floats]:
        """P(feature, kept, class | evidence) of each other one, (n_classes, n_views, *kept's)."""
        # A second pass, down the elimination tree: features eliminated last pass theirs on.
        kept, joints, beliefs = self.kept, {}, dict[int, Factor]()
        rank = {step.feature: at for at, step in enumerate(self.steps)}
        for feature, given, logs in reversed(self.steps):
            above = tuple(f for f in given if f not in kept)
            around = self.of_kept
            if above:
                # All that the step depends on is joined where the first of them is eliminated.
                scope, around = beliefs[min(above, key=rank.__getitem__)]
                gone = tuple(1 + at for at, f in enumerate(scope) if f not in above + kept)
                left = tuple(f for f in scope if f in above + kept)
                around = align(left, around.sum(axis=gone), above + kept)
            whole = (feature, *above, *kept)
            share = np.exp(logs - log_sum_exp(logs, axis=1, keepdims=True))
            belief = align((feature, *given), share, whole) * around[:, None]
            beliefs[feature] = whole, belief
            joints[feature] = belief.sum(axis=tuple(range(2, 2 + len(above))))
        return joints

    def values(self, features: tuple[int, ...], joint: Floats) -> Floats:
        """Return a joint by views, (n_classes, *views), by values: (n_cells, n_classes)."""
        for axis, feature in enumerate(features):
            inner = self.inner[feature]
            share = np.exp(inner.logs - self._by_view(inner)[inner.views])  # P(value | view, class)
            joint = np.take(joint, inner.views, axis=1 + axis)
            after = joint.ndim - axis - 2
            joint = joint * share.T.reshape(-1, *(1,) * axis, len(share), *(1,) * after)
        return np.ascontiguousarray(joint.reshape(len(joint), -1).T)


def _multiply(factors: list[Factor]) -> Factor:
    """Multiply factors, overwriting their arrays; the scope of the result is sorted."""
    left: list[Factor] = []
    for scope, values in sorted(factors, key=lambda factor: -factor[1].size):
        wider = next((f for f in left if set(scope) <= set(f[0])), None)
        if wider is None:
            left.append((scope, values))
        else:
            np.add(wider[1], align(scope, values, wider[0]), out=wider[1])
    scope, total = left.pop()
    for more, values in reversed(left):  # small ones first
        joined = tuple(sorted({*scope, *more}))
        total = align(scope, total, joined) + align(more, values, joined)
        scope = joined
    ordered = tuple(sorted(scope))
    return ordered, align(scope, total, ordered)


def require_probabilities(network: Network) -> None:
    """Raise if a network's tables are scores, for which P(x) isn't known."""
    if not network.tables.normalized:
        raise ConfigurationError(
            "This network's tables are scores: they give P(class | row), but no distribution of "
            "the features, because some feature has parents that aren't connected. "
            "Fit with structure='tan' or 'ktree', or with parameters='hdp', to ask about features."
        )


def align(scope: tuple[int, ...], values: Floats, wanted: tuple[int, ...]) -> Floats:
    """Reorder and extend axes (..., *scope) to a wider scope, with length 1 for what is new."""
    first = values.ndim - len(scope)
    places = [first + scope.index(f) for f in wanted if f in scope]
    moved = values.transpose(*range(first), *places)
    return moved[(..., *(slice(None) if f in scope else None for f in wanted))]


def eliminate(
    features: Iterable[int], scopes: Iterable[Iterable[int]], size: Callable[[Iterable[int]], int]
) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield features in min-fill order, each with those it's joined to at that time.

    `scopes` are the sets of features that share a table, including those that stay; `size` returns
    the number of combinations of some features' values, and breaks ties.

    >>> [f for f, around in eliminate([0, 1, 2], [(0, 1), (1, 2)], len)]
    [0, 1, 2]
    """
    waiting = set(features)
    neighbours = {f: set[int]() for f in waiting}
    for scope in scopes:
        for f in scope:
            neighbours.setdefault(f, set()).update(set(scope) - {f})

    def cost(feature: int) -> tuple[int, int, int]:
        near = neighbours[feature]
        fill = sum(b not in neighbours[a] for a, b in combinations(near, 2))
        return fill, size(near), feature

    while waiting:
        best = min(waiting, key=cost)
        waiting.remove(best)
        around = frozenset(neighbours.pop(best))
        for f in around:
            neighbours[f] |= around - {f}
            neighbours[f].discard(best)
        yield best, around


def elimination_order(
    features: Iterable[int],
    scopes: Iterable[Iterable[int]],
    size: Callable[[Iterable[int]], int],
    bound: int,
    names: Sequence[str],
) -> list[int]:
    """Return features in elimination order; raise if a step needs more cells than the limit."""
    order = []
    for feature, around in eliminate(features, scopes, size):
        together = sorted((feature, *around))
        if size(together) > bound:
            unknown = listed((names[f] for f in together), len(together))
            what = f"The unknown features {unknown} depend on one another: summing them out takes"
            remedy = "Give the value of some of them, or learn a structure with fewer parents."
            check_cells(what, size(together), bound, remedy)
        order.append(feature)
    return order
