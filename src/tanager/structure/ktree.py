"""A k-tree in which each feature gets the parents it interacts with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes.groups import finest_sizes, group_codes, table_room
from tanager.counts import Counts
from tanager.estimator import is_whole
from tanager.loglinear.curves import SHRINK
from tanager.loglinear.fits import MAX_ROWS, find_residuals
from tanager.numerics import Floats, Ints
from tanager.structure.constraints import Limits
from tanager.structure.structure import FitPlan, Structure, StructureLearner

THIRD_PARENT_ROWS = 1_000  # needed to distinguish a third parent from noise
MANY_PARENTS_ROWS = 5_000  # needed for more without a limit on their tables
WIDEST = 5  # maximum number of parents without that limit, and of those only P(x) needs
MOST_PARENTS = 8  # maximum number of parents whose tables have room
MAX_WORK = 1 << 28  # pairs times rows times classes
MOST_PAIRED = 256  # maximum number of features considered in pairs
ROOMY_PARENTS = 2  # a third only if its table has room for fine groups
CELLS_PER_ROW = 0.5  # most in a table with more than three parents
THINNING_KEY = 7_303  # key of the random stream that subsamples residuals
INFORMATION = 0.3  # weight of conditional information relative to the gain


@dataclass(eq=False, repr=False)
class KTree(StructureLearner):
    r"""A k-tree in which each feature gets the parents it interacts with.

    Each feature has up to `max_parents` parents, which are connected to each other. For each fold
    an additive model, with one score per value and class, is fitted on the other folds; the fold's
    rows then show how much a table for each pair of features would gain on the model's residuals.
    The tree grows from the heaviest pair: each feature joins the clique with which it has the most
    weight. The weight is the gain plus, to a lesser degree, :math:`I(X_i; X_j \mid Y)` minus what's
    expected by chance, which decides where no pair gains; both are scaled to a maximum of one.

    Choose it with parameters that are trained on P(y | x) and select depth themselves, above all
    ``"layered"``: generative tables benefit more from the dependences found by `TAN` and `KDB`.

    Parameters
    ----------
    max_parents : int or "auto"
        Maximum number of parents. "auto": 2, 3 from 1,000 and 5 from 5,000 rows on; more if
        constraints require more, including those that connect required parents. With parameters
        that group values, up to 8 from 1,000 rows on: a third if the full table has room for fine
        groups, more if it has no more cells than half the rows. For ``"layered"``, which uses only
        as many as pay off, up to 5 from the same cliques, for P(x) where steep scores need them.

    Notes
    -----
    Three fits of an additive model and one scan of all pairs on at most 20,000 rows, fewer if there
    are very many pairs and classes. With more than 256 features, only those individually most
    informative about the class can have parents and children.

    References
    ----------
    Lou, Caruana, Gehrke and Hooker (2013), "Accurate intelligible models with
    pairwise interactions", KDD, DOI 10.1145/2487575.2487579: ranks pairs by their
    gain on an additive model's residuals.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a", "u"], ["b", "b", "u"], ["a", "b", "v"], ["b", "a", "v"]] * 9
    >>> clf = BayesNetClassifier(KTree(max_parents=1), "m-estimate").fit(X, [0, 0, 1, 1] * 9)
    >>> clf.structure_.max_parents
    1
    """

    max_parents: int | str = "auto"

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn the tree."""
        domain = counts.domain
        auto = isinstance(self.max_parents, str)
        room = Room.of(plan) if auto else None
        most = self.most(max(plan.n_rows, counts.rows.n_rows), roomy=room is not None)
        if plan.limits is not None and not auto:
            plan.limits.check_learner(most, f"KTree(max_parents={most})")
        if most == 0 or domain.n_features == 1 or domain.n_classes == 1:
            return Structure.from_parents(domain.names, [()] * domain.n_features)
        paired = _paired(counts, plan.limits)
        gains = np.maximum(_gains(counts, paired, plan), 0.0)
        some = None if len(paired) == domain.n_features else paired
        information = counts.cmi(some, adjusted=True)
        weights = _scaled(gains) + INFORMATION * _scaled(information)
        # Sorted by name, so that column order has no effect.
        by_name = np.array(sorted(range(len(paired)), key=lambda at: domain.names[paired[at]]))
        features, square = paired[by_name], np.ix_(by_name, by_name)
        gains, weights = gains[square], weights[square]
        limits = (plan.limits or Limits.none(domain.names)).take(features)
        limits = limits.moral(limits.arrange(np.arange(len(features))))
        k = max(most, limits.n_required) if auto else most
        limits.check_learner(k, f"KTree(max_parents={k})")
        tree = heaviest_tree(weights, k, limits, None if room is None else room.take(features))
        tree = tree if room is None else widened(tree, limits)
        first = [(at, tree[at][0]) for at in np.argsort(features) if tree[at]]
        found = [
            {"feature": limits.names[i], "parent": limits.names[p], "gain": float(gains[i, p])}
            for i, p in sorted(first, key=lambda pair: -gains[pair])
        ]
        plan.context.record("structure").update(max_parents=most, gains=found)
        parents: list[tuple[int, ...]] = [()] * domain.n_features
        for feature, held in zip(features, tree, strict=True):
            parents[feature] = tuple(int(features[at]) for at in held)
        return Structure.from_parents(domain.names, parents)

    def most(self, n_rows: int, *, roomy: bool = True) -> int:
        """Return how many parents rows can tell from noise; if `roomy`, the third needs `Room`."""
        given = self.max_parents
        if isinstance(given, str) and given == "auto":
            if n_rows < THIRD_PARENT_ROWS:
                return ROOMY_PARENTS
            if roomy:
                return MOST_PARENTS
            return ROOMY_PARENTS + 1 if n_rows < MANY_PARENTS_ROWS else WIDEST
        self._allow("max_parents", is_whole(given, 0), "'auto', or a whole number from 0 on")
        return int(given)


class Room(NamedTuple):
    """The maximum size of a tree's tables; all fields are logarithms."""

    sizes: Floats  # (n_features,): maximum number of groups of each feature
    third: float  # for a table with three parents
    more: float  # for a table with more than three

    @classmethod
    def of(cls, plan: FitPlan) -> Room | None:
        """Return the room for tables of groups; None if features are used value by value."""
        if plan.groups is None or plan.rows is None:
            return None
        domain = plan.rows.domain
        third = table_room(plan.rows.n_rows, domain.n_classes) / domain.n_classes
        more = min(third, CELLS_PER_ROW * plan.n_rows)
        return cls(np.log(finest_sizes(domain)), float(np.log(third)), float(np.log(more)))

    def take(self, features: Ints) -> Room:
        """Return the room for some features."""
        return self._replace(sizes=self.sizes[features])

    def holds(self, feature: int, parents: Sequence[int]) -> bool:
        """Return whether a table with all these parents fits."""
        limit = self.third if len(parents) <= ROOMY_PARENTS + 1 else self.more
        return float(self.sizes[[feature, *parents]].sum()) <= limit

    def held(self, chosen: Ints) -> NDArray[np.bool_]:
        """Return which of some parents each feature has room for, both (n_features, n_parents)."""
        total = self.sizes[:, None] + np.cumsum(self.sizes[chosen], axis=1)
        before = np.arange(chosen.shape[1])
        limit = np.where(before == ROOMY_PARENTS, self.third, self.more)
        return (before < ROOMY_PARENTS) | (total <= limit)


def heaviest_tree(
    weights: Floats, k: int, limits: Limits | None = None, room: Room | None = None
) -> list[tuple[int, ...]]:
    """Return up to k parents per feature in a k-tree of high weight.

    Grown from the heaviest pair: the next feature is the one with the most weight to the best k of
    one feature in the tree and its parents. Parents are sorted by decreasing weight, required ones
    first; ties go to the earlier column. With limits, a feature waits for its required parents,
    which required arcs must join (`Limits.moral`), and, if possible, for earlier tiers. A feature
    has no parents beyond the second that its table has no `room` for, unless required.

    >>> heaviest_tree(np.array([[0, 3, 1], [3, 0, 2], [1, 2, 0.0]]), 1)
    [(), (0,), (1,)]
    """
    n = weights.shape[0]
    limits = limits or Limits.none([""] * n)
    weights = _ranked(weights, limits)
    parents: dict[int, tuple[int, ...]] = {}
    best, clique = np.full(n, -np.inf), np.zeros((n, min(k, n)), np.int64)
    size = np.zeros(n, np.int64)
    n_required = np.array([len(required) for required in limits.required])

    def attach(feature: int, held: tuple[int, ...]) -> None:
        parents[feature] = held
        members = np.array([feature, *held])
        order = np.argsort(-weights[:, members], axis=1, kind="stable")[:, :k]
        chosen = members[order]
        worth = np.take_along_axis(weights[:, members], order, axis=1)
        kept = np.arange(worth.shape[1]) < limits.most[:, None]
        kept &= worth > -np.inf
        if room is not None:
            kept &= room.held(chosen) | (np.arange(worth.shape[1]) < n_required[:, None])
        n_kept = kept.sum(axis=1)
        total = np.where(n_kept > 0, np.where(kept, worth, 0.0).sum(axis=1), -np.inf)
        better = total > best
        best[better], size[better] = total[better], n_kept[better]
        clique[better, : chosen.shape[1]] = chosen[better]

    first, second = _first_pair(weights, limits)
    attach(first, ())
    if second >= 0:
        attach(second, (first,))
    while len(parents) < n:
        feature = _next(best, parents, limits)
        attach(feature, tuple(int(p) for p in clique[feature, : size[feature]]))
    return [parents[feature] for feature in range(n)]


def widened(tree: Sequence[tuple[int, ...]], limits: Limits) -> list[tuple[int, ...]]:
    """Append parents to the features of a k-tree, from the largest clique with each one's own.

    >>> widened([(), (0,), (0,), (0,)], Limits.none("abcd"))
    [(), (0,), (0, 1), (0, 2, 1)]
    """
    structure = Structure.from_parents([str(at) for at in range(len(tree))], tree)
    found: dict[int, tuple[int, ...]] = {}
    for feature in structure.topological_order():
        held = tree[feature]
        cliques = [(one, *parents) for one, parents in reversed(found.items())]
        clique = max((one for one in cliques if set(held) <= set(one)), key=len, default=())
        more = [one for one in clique if one not in held and limits.allowed[feature, one]]
        room = min(WIDEST, int(limits.most[feature])) - len(held)
        found[feature] = (*held, *more[: max(room, 0)])
    return [found[feature] for feature in range(len(tree))]


def _ranked(weights: Floats, limits: Limits) -> Floats:
    """Return weights [child, parent]: required parents ranked first, disallowed ones excluded."""
    ranked = np.where(limits.allowed & (limits.most > 0)[:, None], weights, -np.inf)
    np.fill_diagonal(ranked, -np.inf)
    lift = float(np.abs(weights).sum()) + 1.0
    for child, required in enumerate(limits.required):
        ranked[child, list(required)] += lift
    return ranked


def _first_pair(weights: Floats, limits: Limits) -> tuple[int, int]:
    """Return the heaviest arc a tree may start with, or a root and -1."""
    n = weights.shape[0]
    needed = limits.before | limits.needed  # [earlier, later]
    waits = needed.sum(axis=0)
    # The parent waits for no feature, and the child at most for the parent.
    ready = (waits == 0)[:, None] & (waits - needed <= 0)
    arcs = np.where(ready, weights.T, -np.inf)  # [parent, child]
    if np.isfinite(arcs).any():
        first, second = divmod(int(np.argmax(arcs)), n)
        return first, second
    return _next(np.full(n, -np.inf), (), limits), -1


def _next(best: Floats, parents: Collection[int], limits: Limits) -> int:
    """Return the heaviest feature that may join the tree."""
    outside = np.ones(best.shape[0], np.bool_)
    outside[list(parents)] = False
    ready = outside & ~limits.needed[outside].any(axis=0)
    early = ready & ~limits.before[outside].any(axis=0)
    among = early if early.any() else ready
    chosen = int(np.argmax(np.where(among, best, -np.inf)))
    return chosen if among[chosen] else int(np.argmax(among))


def _paired(counts: Counts, limits: Limits | None) -> Ints:
    """Return the features that may have parents, ascending: all, or the most informative."""
    # Pairs grow with the square of the features, and the largest of very many gains is chance.
    if counts.domain.n_features <= MOST_PAIRED:
        return np.arange(counts.domain.n_features)
    arcs = enumerate(limits.required if limits is not None else ())
    required = {feature for child, parents in arcs for feature in (child, *parents) if parents}
    told = np.argsort(-counts.mi(adjusted=True), kind="stable")[:MOST_PAIRED].tolist()
    return np.array(sorted({*told, *required}), np.int64)


def _gains(counts: Counts, paired: Ints, plan: FitPlan) -> Floats:
    """Return each pair's information beyond that of both features alone, (n_paired, n_paired)."""
    domain, n_pairs = counts.domain, max(len(paired) * (len(paired) - 1) // 2, 1)
    most = min(MAX_ROWS, max(MAX_WORK // (n_pairs * domain.n_classes), 500))
    if plan.groups is None:
        rows = find_residuals(counts.rows, plan.context, most)
    else:
        rows = plan.residuals
        if len(rows.weights) > most:
            drawn = plan.context.generator(THINNING_KEY).permutation(len(rows.weights))
            rows = rows.take(np.sort(drawn[:most]))
        rows = rows._replace(codes=group_codes(rows.codes, plan.groups))
    singles, gains = np.zeros(len(paired)), np.zeros((len(paired),) * 2)
    given = np.ascontiguousarray(rows.codes[paired]), domain.arities[paired]
    native.score_gains(*given, rows.residuals, rows.spreads, rows.weights, SHRINK, singles, gains)
    own = np.maximum(singles, 0.0)
    gains -= own + own[:, None]
    np.fill_diagonal(gains, 0.0)
    return gains


def _scaled(matrix: Floats) -> Floats:
    """Scale to a maximum of 1, rounded so that the order of sums doesn't decide between ties."""
    top = float(np.abs(matrix).max())
    return np.round(matrix / top, 9) if top > 0 else matrix
