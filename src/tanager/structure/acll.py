"""Trees by approximate conditional log-likelihood (aCLL), and the slope of its approximation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np

from tanager import native
from tanager.counts import ContextTree, Counts, PairCells, PairScore
from tanager.errors import invalid
from tanager.numerics import Floats, Ints
from tanager.structure.structure import FitPlan, Structure, StructureLearner
from tanager.structure.tan import maximum_arborescence, maximum_branching


def dirichlet_beta(n_classes: int, a: float, b: float) -> float:
    r"""Return the approximation's slope under Dir(a, ..., a, b), in closed form.

    The paper estimates it by Monte Carlo, but covariances of log-Dirichlet variables are trigamma
    functions, and the sum of the first s components is Beta(sa, b):

    .. math:: \beta = -\frac{\psi'(sa) - \psi'(sa + b)}{\psi'(a) - s\,\psi'(sa + b)}

    >>> round(dirichlet_beta(2, 1, 1000), 5)
    -0.39194
    """
    from scipy.special import polygamma

    rest = polygamma(1, n_classes * a + b)
    return float(-(polygamma(1, n_classes * a) - rest) / (polygamma(1, a) - n_classes * rest))


def uniform_beta(n_classes: int) -> float:
    r"""Return the slope under the uniform distribution on a cube of any size.

    Closed forms for two classes (equation 13) and three (example 3.4, whose printed form lacks the
    leading minus sign); for more, with :math:`\log S = \int_0^\infty (e^{-t} - e^{-tS}) \, dt / t`,

    .. math::
        \beta = -\int_0^\infty \varphi(t)^{s-1}
            \left[\frac{\mathrm{Ein}(t)}{t} - \varphi(t)\right] \frac{dt}{t},
        \qquad \varphi(t) = \frac{1 - e^{-t}}{t},

    a single smooth integral for any number of classes.

    >>> [round(uniform_beta(s), 8) for s in (2, 3, 10)]
    [-0.33876648, -0.20017316, -0.05240725]
    """
    if n_classes == 2:
        return float((np.pi**2 - 18) / 24)
    if n_classes == 3:
        return _ternary_uniform_beta()
    return -integrate(lambda t: mean_exp(t) ** (n_classes - 1) * _log_excess(t) / t)


def _ternary_uniform_beta() -> float:
    from scipy.special import spence  # spence(z) = Li2(1 - z)

    log2, log3 = np.log(2), np.log(3)
    dilogarithms = 72 * spence(3.0) + 24 * spence(0.75)  # 72 Li2(-2) + 24 Li2(1/4)
    inner = -11 + 9 * log3 - 12 * log2 + 60 * log2**2 + dilogarithms
    return float(15 * np.pi**2 + 2 * inner) / 36


def mean_exp(t: float) -> float:
    """Return E[exp(-tU)] for U uniform on [0, 1]."""
    return float(-np.expm1(-t) / t)


def _log_excess(t: float) -> float:
    """Return Ein(t)/t - E[exp(-tU)], by its series t/4 - t²/9 + ... near zero."""
    from scipy.special import exp1

    if t < 0.1:
        return t * (1 / 4 - t * (1 / 9 - t * (1 / 32 - t * (1 / 150 - t * (1 / 864 - t / 5880)))))
    return float((np.euler_gamma + np.log(t) + exp1(t)) / t) - mean_exp(t)


def integrate(function: Callable[[float], float]) -> float:
    """Integrate over (0, inf), split where the behaviour of the integrands changes."""
    from scipy.integrate import quad

    ends = (0.0, 1.0, 10.0, 100.0)
    pieces = [
        quad(function, low, high, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
        for low, high in zip(ends, (*ends[1:], np.inf), strict=True)
    ]
    return float(np.sum(pieces))


@dataclass(eq=False, repr=False)
class ACLL(StructureLearner):
    r"""The tree that maximises the approximate conditional log-likelihood.

    A discriminative TAN at the cost of a generative one: the score decomposes over families, so the
    best tree is found exactly, from the pair counts alone. It ignores dependences that are the same
    in every class, which works well where features are nearly independent, like positions in DNA;
    elsewhere, as in most tables, that double-counts evidence and `TAN` is better.

    Parameters
    ----------
    assumption : {"dirichlet", "uniform"} or float
        Assumed distribution of a row's joint probabilities
        :math:`P(x, 1), \dots, P(x, s)`: Dir(1, ..., 1, N) for N rows, or uniform on a
        cube; or the slope :math:`\beta` of another one, such as
        `tanager_papers.carvalho_constants` estimates from draws.
    pseudo_count : float
        :math:`N'`, the minimum weight of a value in a context, without which there's no optimum.

    Notes
    -----
    A family with weights :math:`w_{jck} = N_{jck} + \beta \sum_{c'} N_{jc'k}` has the score
    :math:`\sum_{jck} w_{jck} \log \theta_{jck}` with :math:`\theta_{jck} \propto \max(w_{jck}, N')`
    over the feature's values k (equations 25 to 28). Reversing an edge changes the score, so the
    tree is a maximum arborescence over all roots, not a spanning tree. One pass gathers the pair
    counts; the scores take :math:`O(n^2 v^2 C)` time for n features with v values.

    References
    ----------
    Carvalho, Adão and Mateus (2013), Entropy 15(7), doi:10.3390/e15072716.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a", "u"], ["b", "b", "u"], ["a", "b", "u"], ["b", "a", "u"]] * 9
    >>> clf = BayesNetClassifier("acll", "laplace").fit(X, [0, 0, 1, 1] * 9)
    >>> dict(clf.structure_.parents)
    {'x0': (), 'x1': ('x0',), 'x2': ('x0',)}
    """

    assumption: str | float = "dirichlet"
    pseudo_count: float = 5.0

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn the tree from the pair counts."""
        self._allow_numbers("pseudo_count")
        floor, domain = float(self.pseudo_count), counts.domain
        beta = resolve_beta(self.assumption, counts.classes)
        score, alone = _EdgeScore(beta, floor), np.empty(domain.n_features)
        for at, joint in enumerate(counts.values):
            score.joint(joint[None], alone[at : at + 1])
        gains = counts.score_pairs(score, decimals=None) - alone  # [parent, child]
        if plan.limits is None:
            parents = maximum_arborescence(gains)
        else:
            plan.limits.check_learner(1, "ACLL")
            parents = maximum_branching(gains, plan.limits)
        edges = [(int(p), child) for child, p in enumerate(parents) if p >= 0]
        families = float(alone.sum() + sum(gains[edge] for edge in edges))
        weight = counts.classes + beta * counts.classes.sum()  # the class's term in equation 28
        clipped = np.maximum(weight, floor)
        families += float((weight * np.log(clipped / clipped.sum())).sum())
        plan.context.record("structure").update(beta=beta, score=families)
        return Structure.from_tree(domain.names, parents)


class FamilyWeights(NamedTuple):
    """Weights of log theta for the observed values in each context of a family."""

    cell: Ints  # (n_tree_cells,); the row below for each cell of the tree's last level
    label: Ints  # (n_tree_cells,); the cell's class
    context: Ints  # (n_cells,); of each (context, value) pair observed, numbered from 0
    weight: Floats  # (n_cells, n_classes); N_jck + beta * sum over classes; else it's zero
    log_mass: Floats  # (n_contexts, n_classes); log of the clipped weights' sum over all values


def family_weights(tree: ContextTree, beta: float, pseudo_count: float) -> FamilyWeights:
    """Gather a family's weights from the cells of its tree's last level."""
    last, (plain, place) = tree.levels[-1], tree.without_class()
    node, context = last.cell_nodes(), place[tree.nodes(tree.depth)]
    cells = context[node] - plain.level_node[-2], last.cell_value
    label, shape = tree.values(tree.depth)[0][node], (tree.arity, tree.context_arities[0])
    return _weigh(*cells, label, last.cell_count, shape, beta, pseudo_count)


def _weigh(
    context: Ints,
    value: Ints,
    label: Ints,
    count: Floats,
    shape: tuple[int, int],
    beta: float,
    pseudo_count: float,
) -> FamilyWeights:
    """Return the weights of the observed cells; `shape` is (arity, n_classes)."""
    arity, n_classes = shape
    cells, cell = np.unique(np.stack([context, value]), axis=1, return_inverse=True)
    weight = np.zeros((cells.shape[1], n_classes))
    np.add.at(weight, (cell.ravel(), label), count)
    weight += beta * weight.sum(axis=1, keepdims=True)
    mass = np.full((int(cells[0].max(initial=-1)) + 1, n_classes), arity * pseudo_count)
    np.add.at(mass, cells[0], np.maximum(weight - pseudo_count, 0.0))
    return FamilyWeights(cell.ravel(), label, cells[0], weight, np.log(mass))


@dataclass(frozen=True)
class _EdgeScore(PairScore):
    """The score of the family with parent i and child j."""

    beta: float
    pseudo_count: float
    symmetric = False

    def joint(self, joint: Floats, out: Floats) -> None:
        native.score_acll(joint, self.beta, self.pseudo_count, out)

    def cells(self, cells: PairCells) -> float:
        _, context = np.unique(cells.left, return_inverse=True)
        given = cells.right, cells.label, cells.counts, cells.shape[1:]
        found = _weigh(context, *given, self.beta, self.pseudo_count)
        log_theta = np.log(np.maximum(found.weight, self.pseudo_count))
        return float((found.weight * (log_theta - found.log_mass[found.context])).sum())


def resolve_beta(assumption: str | float, class_counts: Floats) -> float:
    """Return the slope under an assumption, for these rows and classes."""
    if isinstance(assumption, str) and assumption == "dirichlet":
        return dirichlet_beta(len(class_counts), 1.0, max(float(class_counts.sum()), 1.0))
    if isinstance(assumption, str) and assumption == "uniform":
        return uniform_beta(len(class_counts))
    if isinstance(assumption, Real) and -1 <= assumption < 0:
        return float(assumption)
    raise invalid("assumption", assumption, "'dirichlet', 'uniform', or a slope between -1 and 0")
