"""Discriminative trees in closed form: the approximate conditional log-likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.counts import ContextTree, Counts, PairCells, PairCounts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.structure.acll_constants import (
    Constants,
    JointSampler,
    dirichlet_constants,
    monte_carlo_constants,
    uniform_constants,
)
from tanager.structure.arborescence import maximum_arborescence, maximum_branching
from tanager.structure.learner import StructureLearner
from tanager.structure.plan import FitPlan
from tanager.structure.structure import Structure

_SAMPLER_STREAM = 0xAC11  # key of the random stream that a given sampler draws from


class ACLL(StructureLearner):
    r"""The tree that maximises the approximate conditional log-likelihood.

    A discriminative TAN at the price of a generative one: the score
    decomposes over families, so the best tree is found exactly, from the pair
    counts alone. It leaves out dependences that are the same in every class.
    That serves where features are nearly independent, as positions in DNA are;
    where they depend strongly on one another whatever the class, as in most
    tables, ignoring it double-counts evidence and `TAN` has the better
    conditional likelihood.

    Parameters
    ----------
    assumption : {"dirichlet", "uniform"} or callable
        How the joint probabilities :math:`P(x, 1), \dots, P(x, s)` of a row are
        taken to be distributed: Dir(1, ..., 1, N) for N rows, uniform on a
        cube, or as a symmetric distribution given as
        ``sampler(generator, n_samples, n_classes)`` that returns positive draws
        of shape (n_samples, n_classes), for which the constants are found by
        regression.
    pseudo_count : float
        :math:`N'`, the least weight of a value in a context. It bounds the
        probabilities away from zero, and the optimum below exists only with it.
    n_samples : int
        Draws from a given sampler.

    Notes
    -----
    A family with weights :math:`w_{jck} = N_{jck} + \beta \sum_{c'} N_{jc'k}`
    scores :math:`\sum_{jck} w_{jck} \log \theta_{jck}` with
    :math:`\theta_{jck} \propto \max(w_{jck}, N')` over the feature's values k
    (equations 25 to 28). Reversing an edge changes the score, so the tree is a
    maximum arborescence over all roots, not a spanning tree. One pass gathers
    the pair counts; the scores take :math:`O(n^2 v^2 C)` time for n features
    with v values.

    References
    ----------
    Carvalho, Adão and Mateus (2013), Efficient approximation of the conditional
    relative entropy with applications to discriminative learning of Bayesian
    network classifiers, Entropy 15(7), doi:10.3390/e15072716.

    Examples
    --------
    >>> import numpy as np
    >>> from tanager.codes import Domain, Rows
    >>> from tanager.structure import ACLL, FitPlan
    >>> codes = np.array([[0, 0, 1, 1] * 9, [0, 1, 0, 1] * 9, [0] * 36], np.uint8)
    >>> domain = Domain(("a", "b", "c"), np.array([2, 2, 1]), 2)
    >>> rows = Rows.in_memory(domain, codes, (codes[0] ^ codes[1]).astype(np.uint16))
    >>> context = FitContext()
    >>> dict(ACLL().learn(Counts(rows, context), FitPlan(context)).parents)
    {'a': (), 'b': ('a',), 'c': ('a',)}
    """

    def __init__(
        self,
        assumption: str | JointSampler = "dirichlet",
        pseudo_count: float = 5.0,
        n_samples: int = 100_000,
    ) -> None:
        self.assumption = assumption
        self.pseudo_count = pseudo_count
        self.n_samples = n_samples

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn the tree from the pair counts."""
        context = plan.context
        floor = check_pseudo_count(self.pseudo_count)
        domain = counts.domain
        constants = resolve_constants(
            self.assumption, counts.classes.sum(), domain.n_classes, self.n_samples, context
        )
        beta = constants.beta
        alone = _score_families([joint[None] for joint in counts.values], beta, floor)
        scores = counts.score_pairs(_EdgeScore(beta, floor), decimals=None)
        gains = scores - alone  # [parent, child]
        if plan.limits is None:
            parents = maximum_arborescence(gains)
        else:
            plan.limits.check_learner(1, "ACLL")
            parents = maximum_branching(gains, plan.limits)
        edges = [(int(p), child) for child, p in enumerate(parents) if p >= 0]
        record = context.record("structure")
        record["beta"], record["gamma"] = constants.beta, constants.gamma
        record["standard_error"] = constants.standard_error
        families = float(alone.sum() + sum(gains[edge] for edge in edges))
        record["score"] = families + _prior_score(counts.classes, beta, floor)
        return Structure.from_parents(domain.names, [(int(p),) if p >= 0 else () for p in parents])


class FamilyWeights(NamedTuple):
    """Weights of log theta for the values seen in each context of a family."""

    # (n_tree_cells,); for each cell of the tree's last level the row of the arrays below
    cell: NDArray[np.int64]
    label: NDArray[np.int64]  # (n_tree_cells,); and its class
    # (n_cells,); context of each (context, value) pair seen with any class, numbered from 0
    context: NDArray[np.int64]
    value: NDArray[np.int64]  # (n_cells,)
    # (n_cells, n_classes); N_jck + beta * sum over classes; every other value of a context weighs
    # nothing
    weight: NDArray[np.float64]
    # (n_contexts, n_classes); log of the clipped weights' sum over all values
    log_mass: NDArray[np.float64]


def family_weights(tree: ContextTree, beta: float, pseudo_count: float) -> FamilyWeights:
    """Gather a family's weights from the cells of its tree's last level."""
    last = tree.levels[-1]
    label, *parents = tree.values(tree.depth)[:, last.cell_nodes()]  # the class is the first split
    context = np.zeros_like(label)
    if parents:
        _, context = np.unique(np.stack(parents), axis=1, return_inverse=True)
    return _weigh(
        context.ravel(),
        last.cell_value,
        label,
        last.cell_count,
        (tree.arity, tree.context_arities[0]),
        beta,
        pseudo_count,
    )


def _weigh(
    context: NDArray[np.int64],
    value: NDArray[np.int64],
    label: NDArray[np.int64],
    count: NDArray[np.float64],
    shape: tuple[int, int],
    beta: float,
    pseudo_count: float,
) -> FamilyWeights:
    """Return the weights of the cells seen; `shape` is (arity, n_classes)."""
    arity, n_classes = shape
    cells, cell = np.unique(np.stack([context, value]), axis=1, return_inverse=True)
    weight = np.zeros((cells.shape[1], n_classes))
    np.add.at(weight, (cell.ravel(), label), count)
    weight += beta * weight.sum(axis=1, keepdims=True)
    mass = np.full((int(cells[0].max(initial=-1)) + 1, n_classes), arity * pseudo_count)
    np.add.at(mass, cells[0], np.maximum(weight - pseudo_count, 0.0))
    return FamilyWeights(cell.ravel(), label, cells[0], cells[1], weight, np.log(mass))


def _prior_score(class_counts: NDArray[np.float64], beta: float, pseudo_count: float) -> float:
    """Return the class's own part of equation 28."""
    weight = class_counts + beta * class_counts.sum()
    clipped = np.maximum(weight, pseudo_count)
    return float((weight * np.log(clipped / clipped.sum())).sum())


def _score_families(
    joints: Sequence[NDArray[np.float64]], beta: float, pseudo_count: float
) -> NDArray[np.float64]:
    """Return the score of each family's counts (n_contexts, arity, n_classes)."""
    out = np.empty((len(joints), 1))
    for joint, score in zip(joints, out, strict=True):
        native.score_acll(joint, beta, pseudo_count, score)
    return out[:, 0]


@dataclass(frozen=True)
class _EdgeScore:
    """The score of the family with parent i and child j."""

    beta: float
    pseudo_count: float
    symmetric: bool = False

    def joints(self, pairs: PairCounts) -> NDArray[np.float64]:
        joints = [joint for _, _, joint in pairs.joints()]
        swapped = [np.ascontiguousarray(joint.transpose(1, 0, 2)) for joint in joints]
        return _score_families(joints + swapped, self.beta, self.pseudo_count)

    def cells(self, cells: PairCells) -> float:
        _, context = np.unique(cells.left, return_inverse=True)
        found = _weigh(
            context,
            cells.right,
            cells.label,
            cells.counts,
            cells.shape[1:],
            self.beta,
            self.pseudo_count,
        )
        log_theta = np.log(np.maximum(found.weight, self.pseudo_count))
        return float((found.weight * (log_theta - found.log_mass[found.context])).sum())


def resolve_constants(
    assumption: str | JointSampler,
    n_rows: float,
    n_classes: int,
    n_samples: int,
    context: FitContext,
) -> Constants:
    """Return the constants under an assumption, for that many rows and classes."""
    if isinstance(assumption, str):
        if assumption == "dirichlet":
            return dirichlet_constants(n_classes, 1.0, max(float(n_rows), 1.0))
        if assumption == "uniform":
            return uniform_constants(n_classes)
    elif callable(assumption):
        generator = context.generator(_SAMPLER_STREAM)
        return monte_carlo_constants(assumption, n_classes, n_samples, generator)
    raise ConfigurationError(
        f"assumption={assumption!r} is not known. Allowed: 'dirichlet', 'uniform', or a sampler "
        "called as sampler(generator, n_samples, n_classes)."
    )


def check_pseudo_count(pseudo_count: float) -> float:
    """Return a valid pseudo-count."""
    if not pseudo_count > 0:
        raise ConfigurationError(
            f"pseudo_count={pseudo_count!r} must be positive: without a lower bound on the "
            "probabilities the score has no maximum. Hint: 5 is usual."
        )
    return float(pseudo_count)
