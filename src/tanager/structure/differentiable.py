"""Structure and parameters learned jointly by gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import product
from math import isqrt
from numbers import Integral, Real
from typing import Any

import numpy as np

from tanager.counts import Counts
from tanager.errors import ConfigurationError, invalid
from tanager.losses import Loss
from tanager.numerics import Floats, Ints
from tanager.structure.constraints import Limits
from tanager.structure.order_based import given_order
from tanager.structure.simple import parents_by_index
from tanager.structure.structure import FitPlan, JointLearner, JointTables, Structure
from tanager.structure.tan import maximum_arborescence
from tanager.training import ParentSearch, Trained, Training, most_probable
from tanager.training.model import NO_PARENT, Slots, TrainingRows

IMAGE_ORDERS = ("A", "B", "C")
CANDIDATE_STREAM, TRAINING_STREAM = 801, 802
# Log-weights further than this below a feature's best are raised to this bound: a cycle of
# best edges gives a Laplacian whose condition number is the exponential of the gap.
FLOOR = -20.0


class Arborescence(ParentSearch):
    r"""All features jointly take the heaviest forest: acyclic, with edges in either direction.

    The class is the root, so "no parent" is an edge like any other. With Gumbel noise on
    every edge this is perturb-and-MAP: not an exact draw, but one with the right mode. Backwards,
    the marginals over all forests replace the softmax: by the matrix-tree theorem the edge from
    p to i has :math:`\mu_{pi} = w_{pi} (B_{ii} - B_{ip})`, where :math:`w` are the exponentiated
    scores and B is the inverse of the Laplacian :math:`L_{ii} = \sum_p w_{pi},\ L_{pi} = -w_{pi}`.
    So an edge that would close a cycle with likely ones gets no gradient of its own.
    """

    def __init__(self, slots: Slots, *schedule: Any) -> None:
        super().__init__(*schedule)
        n, used = slots.column.shape[0], slots.used()
        self._child, self._slot = np.nonzero(used)
        self._parent = np.where(slots.column[used] == NO_PARENT, n, slots.column[used])
        self._slot_of = np.zeros((n, n + 1), np.int64)
        self._slot_of[self._child, self._parent] = self._slot
        self._n = n

    def choose(self, scores: Floats) -> Ints:
        """Return the chosen slots."""
        n = self._n
        weights = np.full((n + 1, n + 1), -np.inf)
        weights[self._parent, self._child] = scores[self._child, self._slot]
        return self._slot_of[np.arange(n), maximum_arborescence(weights, root=n)[:n]]

    def backward(self, scores: Floats, by_choice: Floats, tau: float) -> Floats:
        """Go back through the marginals: their Jacobian, the Gibbs covariance, is symmetric."""
        n, child, parent = self._n, self._child, self._parent
        log_weights = (scores - scores.max(axis=1, keepdims=True)) / tau
        weights, moved = np.zeros((n + 1, n)), np.zeros((n + 1, n))
        weights[parent, child] = np.exp(np.maximum(log_weights, FLOOR)[child, self._slot])
        moved[parent, child] = weights[parent, child] * by_choice[child, self._slot]
        inverse: Floats = np.linalg.inv(_laplacian(weights)).astype(np.float64, copy=False)
        change: Floats = -inverse @ _laplacian(moved) @ inverse
        by_edge = moved * _across(inverse) + weights * _across(change)
        by_scores = np.zeros_like(scores)
        by_scores[child, self._slot] = by_edge[parent, child] / tau
        return by_scores


def _two(values: Any, kind: type[Any]) -> bool:
    """Return whether this is a pair of positive, finite numbers."""
    pair = isinstance(values, Sequence) and len(values) == 2
    return pair and all(isinstance(one, kind) and 0 < one < np.inf for one in values)


def _laplacian(weights: Floats) -> Floats:
    """Return the Laplacian (n, n) of weights (n + 1, n) from parents, the root in the last row."""
    laplacian: Floats = np.diag(weights.sum(axis=0)) - weights[:-1]
    return laplacian


def _across(inverse: Floats) -> Floats:
    """Return inverse[i, i] - inverse[i, p] for every edge p -> i, shape (n + 1, n)."""
    across = np.tile(np.diag(inverse), (inverse.shape[0] + 1, 1))
    across[:-1] -= inverse.T
    return across


@dataclass(eq=False, repr=False)
class Differentiable(Trained, JointLearner):
    r"""Learn a TAN structure by gradient descent, under any loss.

    As in [1]_, each feature has a categorical distribution over candidate parents and "no parent",
    with logits :math:`\phi`. Every mini-batch draws one structure (Gumbel noise, then argmax), is
    classified with it, and propagates the loss's gradient to the drawn tables and, straight through
    a softmax, to all :math:`\phi`. In the end the structure is the most probable one, whose tables
    ``parameters="hybrid"`` keeps. Choose it when accuracy matters more than training time, and for
    images (``candidates="neighbours"``). TAN takes one pass where this takes hundreds.

    Parameters
    ----------
    candidates : {"subset", "all", "neighbours"} or mapping, default="subset"
        "subset": at most `k` features drawn at random; "all": every feature; "neighbours": the `k`
        nearest pixels of an image; or the names of candidates by feature (none if unlisted).
    k : int, default=8
        Candidates per feature. Memory and time are linear in it.
    ordering : {"fixed", "free"}, default="fixed"
        "fixed": candidates precede the feature in `order`, as in [1]_. "free": candidates may be
        anywhere in the order, and every draw is a maximum arborescence over all features
        (perturb-and-MAP): acyclic, yet every direction is possible.
    order : {"auto", "random", "columns", "A", "B", "C"} or sequence, default="auto"
        The ordering, or all features by name or index in that order; A, B, C are the image
        orderings of [1]_, section 4.4. "auto" is "C" with ``candidates="neighbours"``, else
        "random".
    image_shape : (height, width) or None
        For "neighbours"; None assumes a square image.
    loss : {"hybrid", "margin", "cll", "nll", "rps"} or callable, default="hybrid"
        See `tanager.losses`; any ``loss(log_joint, y) -> (value, gradient)``.
    init : {"random", "generative"}, default="random"
        The first tables: near uniform, as in [1]_, or smoothed frequencies, so that all candidates
        compete from the first batch on. Choose "generative" with thousands of rows, if the tables
        learned with the structure are kept.
    structure_learning_rate : float, default=0.01
        For the logits over parents, constant. [1]_ uses 0.001 with 500 epochs.
    temperature : (float, float), default=(10, 0.1)
        Of the softmax, in the first and the last epoch; geometric in between.
    training : Training or None, default=None
        Epochs, learning rate, dropout; None uses `tanager.training.Training` with its defaults.

    Notes
    -----
    Tables are logits minus logsumexp over the child's values, initialised from U(-0.1, 0.1) with
    ``init="random"``. Each (table, parent value) pair takes its own step, with its own step count,
    in every batch where the table was drawn and a row has that parent value; otherwise it stays as
    it is, moments included. If a parent is unknown, its row uses the class alone; an unknown child
    contributes nothing.

    ``info_["structure"]`` has ``trace`` (per epoch loss, accuracy, temperature, entropy of the
    distribution over parents, learning_rate), ``probabilities`` (of the structure's parents) and
    ``search``; `tanager_papers.plot_training` plots it. All rows are held in memory, one byte per
    value; training runs on one thread.

    References
    ----------
    .. [1] Roth, Pernkopf (2020). Differentiable TAN structure learning for Bayesian network
       classifiers. PMLR 138 (PGM 2020).

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 50
    >>> learner = Differentiable(order="columns", training=Training(20, batch_size=50))
    >>> clf = BayesNetClassifier(learner, "hybrid").fit(X, [0, 0, 1, 1] * 50)
    >>> dict(clf.structure_.parents)
    {'x0': (), 'x1': ('x0',)}
    """

    candidates: str | Mapping[str, Sequence[str]] = "subset"
    k: int = 8
    _: KW_ONLY
    ordering: str = "fixed"
    order: str | Sequence[str] = "auto"
    image_shape: tuple[int, int] | None = None
    loss: str | Loss = "hybrid"
    init: str = "random"
    structure_learning_rate: float = 0.01
    temperature: tuple[float, float] = (10.0, 0.1)
    training: Training | None = None

    def learn_jointly(self, counts: Counts, plan: FitPlan) -> tuple[Structure, JointTables]:
        """Learn the most probable structure, and its tables."""
        context, domain = plan.context, counts.domain
        self._choose("ordering", ("fixed", "free"))
        self._choose("init", ("random", "generative"))
        self._allow_numbers("structure_learning_rate", most=1)
        self._allow_whole("k", least=1)
        self._allow("temperature", _two(self.temperature, Real), "two positive numbers")
        self._allow(
            "image_shape",
            self.image_shape is None or _two(self.image_shape, Integral),
            "None, or two whole numbers: the height and the width",
        )
        self.resolve_training()
        if domain.n_features == 0:
            return Structure((), (), ()), JointTables((), np.zeros(domain.n_classes), ())
        limits = plan.limits or Limits.none(domain.names)
        limits.check_learner(1, "Differentiable")
        candidates = resolve_candidates(self, limits, context.generator(CANDIDATE_STREAM))
        parents = [list(required) for required in limits.required]
        for i, among in enumerate(candidates):
            parents[i] = parents[i] or [NO_PARENT, *(among if limits.most[i] else ())]
        sizes = [[1 if p == NO_PARENT else int(domain.arities[p]) for p in ps] for ps in parents]
        given = domain.arities, domain.n_classes, domain.names, context.check_tables
        slots = Slots.build(parents, sizes, *given)
        first, last = self.temperature
        schedule = self.structure_learning_rate, (first, last)
        free = self.ordering == "free"
        search = Arborescence(slots, *schedule) if free else ParentSearch(*schedule)
        rows = TrainingRows.of(counts.rows.gather(), range(domain.n_features))
        model, info = self.train_tables(
            *(slots, rows, context),
            parents=search,
            key=(TRAINING_STREAM,),
            stage="structure by gradient",
            generative=self.init == "generative",
        )
        chosen = most_probable(model, slots, search)
        at = np.arange(domain.n_features), chosen
        structure = Structure.from_tree(domain.names, slots.column[at])
        tables = [model.table(slots, i, slot).copy() for i, slot in enumerate(chosen.tolist())]
        log_prob = tuple(
            table if above else table[0]
            for table, above in zip(tables, structure.parent_indices, strict=True)
        )
        shares = np.exp(model.log_choice(slots))
        context.record("structure").update(info | {"probabilities": shares[at].tolist()})
        return structure, JointTables(structure.parent_indices, model.prior.copy(), log_prob)


def resolve_candidates(
    learner: Differentiable, limits: Limits, rng: np.random.Generator
) -> list[list[int]]:
    """Return each feature's candidate parents; those for a smaller `k` are a subset."""
    names, free = limits.names, learner.ordering == "free"
    if isinstance(learner.candidates, Mapping):
        return _given(learner.candidates, limits, free=free)
    if learner.candidates not in ("subset", "all", "neighbours"):
        allowed = "'subset', 'all', 'neighbours', or a mapping from features to candidate parents"
        raise invalid("candidates", learner.candidates, allowed)
    pixels = learner.candidates == "neighbours"
    shape = (learner.image_shape or (isqrt(len(names)), isqrt(len(names)))) if pixels else None
    if shape is not None and shape[0] * shape[1] != len(names):
        raise ConfigurationError(
            f"The {len(names)} features are not the pixels of a {shape[0]} x {shape[1]} image. "
            "Hint: give image_shape=(height, width), or candidates='subset'."
        )
    order = limits.arrange(feature_order(learner.order, names, shape, rng)).tolist()
    chosen: list[list[int]] = [[] for _ in names]
    for place, feature in enumerate(order):
        required = list(limits.required[feature])
        others = [p for p in order if p != feature] if free else order[:place]
        pool = [p for p in others if limits.allowed[feature, p] and p not in required]
        if learner.candidates == "subset":
            pool = [int(j) for j in rng.permutation(pool)[: learner.k]] if pool else []
        elif shape is not None:
            pool = _nearest(feature, pool, shape[1])[: learner.k]
        chosen[feature] = required + pool
    return chosen


def feature_order(
    order: str | Sequence[str],
    names: Sequence[str],
    shape: tuple[int, int] | None,
    rng: np.random.Generator,
) -> list[int]:
    """Return the features in the requested order; parents come before children."""
    n = len(names)
    if isinstance(order, str) or not isinstance(order, Iterable):
        choice = ("C" if shape is not None else "random") if order == "auto" else order
        if choice == "random":
            return [int(i) for i in rng.permutation(n)]
        if choice == "columns":
            return list(range(n))
        if choice in IMAGE_ORDERS and shape is not None:
            return image_order(choice, *shape)
        allowed = "'auto', 'random', 'columns', a sequence of all features, and with "
        raise invalid("order", order, allowed + "candidates='neighbours' 'A', 'B' or 'C'")
    return [int(i) for i in given_order(order, names)]


def image_order(choice: str, height: int, width: int) -> list[int]:
    """Return pixel numbers (row by row) in ordering A, B or C of Roth and Pernkopf, section 4.4.

    A goes row by row; B, through the lower triangle row by row, each pixel followed by its mirror
    image; C, outwards from the central pixel or four: around a region first the rows above and
    below, then the columns left and right, then the corners. B and C are for square images.

    >>> image_order("B", 3, 3)
    [0, 3, 1, 4, 6, 2, 7, 5, 8]
    >>> image_order("C", 3, 3)
    [4, 1, 7, 3, 5, 0, 2, 6, 8]
    """
    if choice == "A":
        return list(range(height * width))
    if height != width:
        raise ConfigurationError(
            f"order={choice!r} needs a square image, not {height} x {width}. Hint: use 'A'."
        )
    key = _diagonal if choice == "B" else partial(_outwards, width)
    pixels = sorted(product(range(width), range(width)), key=key)
    return [row * width + column for row, column in pixels]


def _diagonal(pixel: tuple[int, int]) -> tuple[Any, ...]:
    """Sort by the larger coordinate, then the smaller, the lower triangle first."""
    return max(pixel), min(pixel), pixel[1] > pixel[0]


def _outwards(side: int, pixel: tuple[int, int]) -> tuple[Any, ...]:
    """Sort by ring around the centre; in a ring rows first, then columns, then corners."""
    above, beside = (max((side - 1) // 2 - at, at - side // 2, 0) for at in pixel)
    return (
        max(above, beside),
        above == beside,
        beside > above,
        pixel[:: -1 if beside > above else 1],
    )


def _nearest(feature: int, pool: list[int], width: int) -> list[int]:
    """Sort a pool by Euclidean distance in the image; ties go to the earlier."""
    row, column = divmod(feature, width)
    distance = [(j // width - row) ** 2 + (j % width - column) ** 2 for j in pool]
    return [pool[at] for at in np.argsort(distance, kind="stable")]


def _given(asked: Mapping[str, Sequence[str]], limits: Limits, *, free: bool) -> list[list[int]]:
    names = limits.names
    chosen = parents_by_index(asked, names, "candidates")
    kept = [[p for p in pool if limits.allowed[i, p]] for i, pool in enumerate(chosen)]
    for child, parents in enumerate(chosen):
        of = f"The candidates of {names[child]!r}"
        if child in parents or len(set(parents)) != len(parents):
            raise ConfigurationError(f"{of} must be distinct features other than itself.")
        if not set(limits.required[child]) <= set(kept[child]):
            raise ConfigurationError(f"{of} lack a parent that the constraints require. Add it.")
    if not free:
        try:
            Structure.from_parents(names, chosen)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"The candidates admit no order of the features. {error} "
                "Hint: ordering='free' allows any candidates and still returns no cycle."
            ) from None
    return kept
