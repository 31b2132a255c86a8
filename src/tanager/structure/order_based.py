"""Discriminative trees and k-trees along an order of the features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from tanager import native
from tanager.codes import Chunk, Domain
from tanager.counts import Counts, PairCells, PairScore
from tanager.counts.information import DECIMALS
from tanager.engines import FitContext
from tanager.errors import ConfigurationError, invalid
from tanager.estimator import is_whole
from tanager.numerics import Floats, Ints, starts_of
from tanager.progress import Progress
from tanager.structure.constraints import Limits
from tanager.structure.joint import SCORES, RunningJoint
from tanager.structure.structure import FitPlan, Structure, StructureLearner

Parents = tuple[int, ...]

_FOLD_STREAM, _ORDER_STREAM = 0x0F01D, 0x0DE4  # keys of the random streams
# Candidates are scored in up to this many tasks, with at least this many per task; within
# a task each is pruned by the best before it.
_TASKS, _LEAST_BLOCK = 8, 8
ROWS_PER_CELL = 5  # minimum average rows per class and pattern of earlier features
MOST_FOLDS = 256  # a row's fold is one byte


@dataclass(eq=False, repr=False)
class OrderBased(StructureLearner):
    r"""Parents chosen by classification rate, along an order of the features.

    A discriminative structure for a generative model: it still handles missing features exactly,
    but its edges are those that separate the classes. Choose it where naive Bayes or TAN leave room
    for improvement; `Greedy` searches all edges at once and costs a few times more.

    Parameters
    ----------
    order : {"cmi", "cmisp", "random"} or sequence
        ``"cmi"``: each feature is the most informative about the class given all earlier ones;
        ``"cmisp"``: given the best single earlier one; ``"random"``; or all features by name or
        index.
    score : {"cr", "cl"}
        Classification rate or conditional log-likelihood on the training rows.
    max_parents : int
        1 gives trees, k gives k-trees: the parents of a feature are connected to each other, so
        that missing features can be summed out in :math:`O(v^{k+1})`.
    n_orders : int
        Number of orders to try with ``order="random"``. The structure with the best score on the
        training rows is kept; ``info_["structure"]["orders"]`` has all of them.
    candidates : int or None
        Consider only this many earlier features as parents, those with the highest
        :math:`I(X_i; X_j \mid C)`; None considers all.
    max_conditioning : int or None
        With ``order="cmi"``: the most features to condition on; None stops when their patterns
        leave fewer than five rows per class on average.
    n_folds : int or None
        Score every row with tables from the other folds, so that only parents that help on unseen
        rows are added. None: five for k-trees, which overfit without, none for trees. 0: never.
    epsilon : float
        Replaces zero frequencies while scoring.

    Notes
    -----
    Starting from naive Bayes, each feature in turn takes the clique of up to k earlier features
    that raises the score most, or none if nothing does; ties go to the smaller clique, then to the
    one whose members come first. The log-joint of the current model is kept, so a candidate costs
    one look-up per row. All rows are held in memory, and up to 512 MiB of tables. Order ``"cmi"``
    takes :math:`O(N n)` per conditioning feature, the search :math:`O(N n^2)` for a tree and
    :math:`O(N n^2 2^k)` for a k-tree.

    References
    ----------
    Pernkopf and Bilmes (2008), Order-based discriminative structure learning
    for Bayesian network classifiers, ISAIM; section 4, equations 5 and 6.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a", "u"], ["b", "b", "u"], ["a", "b", "u"], ["b", "a", "u"]] * 9
    >>> clf = BayesNetClassifier("order", "laplace").fit(X, [0, 0, 1, 1] * 9)
    >>> dict(clf.structure_.parents)
    {'x0': (), 'x1': ('x0',), 'x2': ()}
    """

    order: str | Sequence[str] | Sequence[int] = "cmi"
    score: str = "cr"
    max_parents: int = 1
    n_orders: int = 1
    candidates: int | None = None
    max_conditioning: int | None = None
    n_folds: int | None = None
    epsilon: float = 1e-5

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Order the features, then give each the parents that raise the score most."""
        context, memory = plan.context, plan.context.tables_limit
        self._check()
        rows = counts.rows.gather()
        folds = self._folds(rows, context)
        known = plan.limits or Limits.none(counts.domain.names)
        known.check_learner(int(self.max_parents), f"OrderBased(max_parents={self.max_parents})")
        nearness = None if self.candidates is None else counts.cmi()
        orders = self._orders(counts, rows, context)
        context.progress.start("parents", len(orders) * counts.domain.n_features, unit="features")
        joint = RunningJoint(
            counts.domain, rows, score=self.score, epsilon=self.epsilon, folds=folds, memory=memory
        )
        searches = []
        for number, order in enumerate(orders):
            if number:
                joint.restart()
            order = known.arrange(order)
            required, most = known.moral(order), int(self.max_parents)
            required.check_learner(most, "OrderBased")
            search = _Search(order, joint, context, most, self.candidates, nearness, required)
            search.run()
            searches.append(search)
        context.progress.finish()
        best = max(searches, key=attrgetter("score"))  # ties go to the first
        record = context.record("structure")
        record["order"] = [counts.domain.names[i] for i in best.order]
        record["score"] = best.score
        record["edges"] = sum(map(len, best.parents))
        record["families_scored"] = sum(search.n_scored for search in searches)
        if len(searches) > 1:
            record["orders"] = [search.report() for search in searches]
        return Structure.from_parents(counts.domain.names, best.parents)

    def _check(self) -> None:
        self._allow_whole("max_parents", "n_orders", least=1)
        self._allow_whole("candidates", "max_conditioning", "n_folds", least=0, none=True)
        few = self.n_folds is None or int(self.n_folds) <= MOST_FOLDS
        self._allow("n_folds", few, f"None, or a whole number from 0 to {MOST_FOLDS}")
        self._choose("score", SCORES)
        self._allow_numbers("epsilon", below=1)
        random = isinstance(self.order, str) and self.order == "random"
        self._allow("n_orders", self.n_orders == 1 or random, "1, and more with order='random'")

    def _folds(self, rows: Chunk, context: FitContext) -> Ints | None:
        """Assign the rows of each class to folds at random."""
        wanted = (5 if self.max_parents > 1 else 0) if self.n_folds is None else self.n_folds
        n_folds = min(int(wanted), rows.n_rows)
        if n_folds < 2:
            return None
        shuffled = context.generator(_FOLD_STREAM).permutation(rows.n_rows)
        dealt = shuffled[np.argsort(rows.labels[shuffled], kind="stable")]
        folds = np.empty(rows.n_rows, np.int64)
        folds[dealt] = np.arange(rows.n_rows) % n_folds
        return folds

    def _orders(self, counts: Counts, rows: Chunk, context: FitContext) -> list[Ints]:
        """Return the orders to try."""
        domain = counts.domain
        if isinstance(self.order, Iterable) and not isinstance(self.order, str):
            return [given_order(self.order, domain.names)]
        if self.order == "cmi":
            return [order_by_class_information(domain, rows, context, self.max_conditioning)]
        if self.order == "cmisp":
            return [order_by_single_condition(counts)]
        if self.order == "random":
            streams = [context.generator(_ORDER_STREAM, k) for k in range(self.n_orders)]
            return [stream.permutation(domain.n_features) for stream in streams]
        raise invalid("order", self.order, "'cmi', 'cmisp', 'random', or a list of all features")


@dataclass
class _Search:
    """Chooses parents along one order."""

    order: Ints
    joint: RunningJoint
    context: FitContext
    max_parents: int
    n_candidates: int | None
    nearness: Floats | None  # I(X_i; X_j | C), if candidates are restricted
    limits: Limits
    n_scored: int = 0

    def run(self) -> None:
        """Choose each feature's parents."""
        self.parents: list[Parents] = [()] * len(self.order)
        self.adjacent: list[set[int]] = [set() for _ in self.order]
        for place, child in enumerate(self.order.tolist()):
            parents = self._choose(child, self._near(child, self.order[:place]))
            if parents:
                self.joint.add(child, parents, self.joint.change(child, parents))
                self.parents[child] = parents
                self.adjacent[child].update(parents)
                for p in parents:
                    self.adjacent[p].add(child)
            self.context.progress.advance(1, score=round(self.joint.mean_score, 4))
        self.score = self.joint.mean_score

    def report(self) -> dict[str, Any]:
        """Return the score, the order and the parents, by name."""
        names = self.limits.names
        return {
            "score": self.score,
            "order": [names[i] for i in self.order],
            "parents": [[names[p] for p in parents] for parents in self.parents],
        }

    def _near(self, child: int, earlier: Ints) -> list[int]:
        """Return the earlier features that may become parents, in order."""
        earlier = earlier[self.limits.allowed[child, earlier]]
        if self.nearness is not None:
            best = np.argsort(-self.nearness[child, earlier], kind="stable")[: self.n_candidates]
            earlier = earlier[np.sort(best)]
        return [int(p) for p in earlier]

    def _choose(self, child: int, earlier: list[int]) -> Parents:
        """Return the required parents and the others that raise the score most, all joined."""
        required = self.limits.required[child]
        room = min(self.max_parents, int(self.limits.most[child])) - len(required)
        families, floor = list[Parents](), 0.0
        if required:
            joined = set.intersection(*(self.adjacent[p] for p in required))
            earlier = [p for p in earlier if p in joined and p not in required]
            families, floor = [required], -np.inf
        families += [(*required, p) for p in earlier] if room > 0 else []
        # Gains of single parents rank the members of larger cliques, so in that case
        # none of them is cut short.
        gains = self._score(child, families, floor if room == 1 else -np.inf)
        # Ties go to the first.
        found = max([(floor, required), *zip(gains, families, strict=True)], key=itemgetter(0))
        if room > 1:
            if not required:
                earlier = [earlier[i] for i in np.argsort(np.negative(gains), kind="stable")]
            larger = [(*required, *clique) for clique in self._cliques(earlier, room)]
            gains = self._score(child, larger, found[0])
            found = max([found, *zip(gains, larger, strict=True)], key=itemgetter(0))
        return found[1]

    def _cliques(self, ranked: list[int], most: int) -> Iterator[Parents]:
        """Iterate over the cliques of 2 to `most` features, smaller ones first, members by rank."""
        layer: list[tuple[Parents, list[int]]] = [((), ranked)]
        for size in range(1, min(most, len(ranked)) + 1):
            grown = []
            for clique, others in layer:
                for at, p in enumerate(others):
                    rest = [q for q in others[at + 1 :] if q in self.adjacent[p]]
                    grown.append(((*clique, p), rest))
            layer = grown
            if size > 1:
                yield from (clique for clique, _ in layer)

    def _score(self, child: int, families: list[Parents], floor: float) -> list[float]:
        """Return the families' gains; bounds for those that can't win."""
        size = max(_LEAST_BLOCK, -(-len(families) // _TASKS))
        self.n_scored += len(families)
        blocks = [families[start : start + size] for start in range(0, len(families), size)]
        score = partial(_score_block, self.joint, child, floor)
        found = self.context.engine.map(score, blocks, Progress(), "parents")
        return [gain for gains in found for gain in gains]


def _score_block(
    joint: RunningJoint, child: int, floor: float, families: list[Parents]
) -> list[float]:
    """Return the gains of some families; bounds for those that can't win."""
    if all(len(parents) == 1 for parents in families):
        alone = [parents[0] for parents in families]
        return joint.single_gains(child, alone, floor, prune=bool(np.isfinite(floor))).tolist()
    gains, best = [], floor
    for parents in families:
        gains.append(joint.gain(child, parents, joint.change(child, parents), best))
        best = max(best, gains[-1]) if np.isfinite(floor) else floor
    return gains


class _Patterns:
    """Rows grouped by their pattern over some features; initially one group."""

    def __init__(self, domain: Domain, rows: Chunk) -> None:
        self.domain = domain
        self._codes, self._labels, self._weights = rows.codes, rows.labels, rows.row_weights
        self.n_rows = float(self._weights.sum())  # a weight of 2 counts as two rows
        self._group(np.zeros(rows.n_rows, np.int64))

    def refine(self, feature: int, most: float = np.inf) -> bool:
        """Split the patterns by one more feature, unless that gives more than `most`."""
        key = self._pattern * (int(self.domain.arities[feature]) + 1) + self._codes[feature]
        seen, pattern = np.unique(key, return_inverse=True)
        if seen.shape[0] <= most:
            self._group(pattern.astype(np.int64))
        return seen.shape[0] <= most

    def _group(self, pattern: Ints) -> None:
        self._pattern, self._rows = pattern, np.argsort(pattern, kind="stable")
        self._start = starts_of(np.bincount(pattern))
        key = pattern * self.domain.n_classes + self._labels
        sums = (np.bincount(keys, self._weights) for keys in (pattern, key))
        alone, with_class = (_n_log_n(one.astype(np.float64)) for one in sums)
        self._base = alone - with_class

    def information(self, feature: int) -> float:
        """Return I(C; X | pattern) in nats, with "unknown" as an extra value of X."""
        width, n_classes = int(self.domain.arities[feature]) + 1, self.domain.n_classes
        terms = np.zeros(2)
        rows = (self._codes[feature], self._labels, self._weights, self._rows)
        native.sum_groups(self._start, *rows, width, n_classes, terms)
        with_class, without = terms.tolist()
        return round((self._base + with_class - without) / max(self.n_rows, 1e-300), DECIMALS)


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

    Equation 5 by joint entropies of the patterns that occur:
    :math:`I(C; A \mid B) = H(C, B) - H(B) - H(C, A, B) + H(A, B)`.
    """
    patterns, remaining = _Patterns(domain, rows), list(range(domain.n_features))
    order: list[int] = []
    enough = patterns.n_rows / (ROWS_PER_CELL * max(domain.n_classes, 1))
    while remaining:
        found = context.engine.map(patterns.information, remaining, Progress(), "feature order")
        ranked = np.argsort(np.negative(found), kind="stable").tolist()
        best = remaining[ranked[0]]
        if max_conditioning is None:
            finer = patterns.refine(best, enough)
        else:
            finer = len(order) < max_conditioning and patterns.refine(best)
        if not finer:
            order += [remaining[i] for i in ranked]
            break
        order.append(remaining.pop(ranked[0]))
    return np.array(order, np.int64)


def order_by_single_condition(counts: Counts) -> Ints:
    r"""Order features by :math:`\max I(C; X \mid X')` over the earlier :math:`X'` (equation 6)."""
    given, n = counts.score_pairs(_ClassInformation()), counts.domain.n_features
    best = counts.mi()
    outside, order = np.ones(n, bool), np.empty(n, np.int64)
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
