r"""Discriminative parameters: tables that maximise the conditional likelihood, and their variances.

Around its optimum the penalised conditional likelihood is approximately Gaussian, and its
precision is the curvature

.. math:: E^\top \Big( \sum_i w_i M_i^\top (\operatorname{diag} p_i - p_i p_i^\top) M_i
          + \epsilon I \Big) E + \Lambda,

with :math:`M_i` the cells of row i, :math:`p_i` its posterior, E the derivative of scores by free
parameters, :math:`\Lambda` the prior, and :math:`\epsilon` a very weak one on every score, so that
directions the rows don't determine have a finite variance. Draws are solutions for random
right-hand sides, by conjugate gradients on a sample of rows
(`tanager.parameters.layered.pool` does the same for smooth scores).

The generative tables are uncertain, too. Each draw perturbs them within their own variances: scores
that are weights times their logarithms follow, as far as the weights don't compensate, and
so does a prior centred on them. Cells without rows have the generative variances.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from math import ceil
from numbers import Real

import numpy as np

from tanager.codes.hashing import sample_rows
from tanager.counts import Counts
from tanager.estimator import is_whole
from tanager.loglinear.optimiser import METHODS, climb, solve_linear, strengths
from tanager.loglinear.rows import RowCells
from tanager.numerics import Floats, one_blas_thread
from tanager.parameters import CountLearner, ParameterLearner
from tanager.parameters.discriminative.forms import Direct, Weighted
from tanager.parameters.discriminative.problem import MAX_FOLDS, Problem, Strengths, resolve_base
from tanager.parameters.proper_network import to_network
from tanager.parameters.scores import UNSEEN, fill_tables
from tanager.parameters.spread import LEAST, of_scores, scale_entries, spread_of_families
from tanager.parameters.tables import Tables, posterior
from tanager.structure import FitPlan, Structure

GRID = strengths(-5, 7)  # strengths to try
STRONGEST = 1e12  # with it nothing moves; beyond, rounding is all that's left
ENOUGH_ROWS = 5_000  # held-out rows that suffice to choose among a few strengths
ALLOWED: dict[str, tuple[object, ...]] = {
    "form": ("weighted", "direct", "extended"),
    "level": (1, 2, 3, 4),
    "init": ("generative", "zero"),
    "towards": ("generative", "zero"),
    "objective": ("cll", "mse"),
    "optimiser": METHODS,
    "unseen": UNSEEN,
}

KEY = 6_002  # key of the random streams
MOST_ROWS = 2_000
DRAWS = 16
STEPS = 25  # of conjugate gradients
LEAST_PRECISION = 0.01  # of any score


@dataclass(eq=False, repr=False)
class Discriminative(ParameterLearner):
    r"""Tables that maximise the conditional log-likelihood :math:`\sum \log P(y \mid x)`.

    Choose it if you have many rows per parameter, or if the structure's independence
    assumptions are far from true, where generative tables suffer from fitting P(x). Three forms
    reach the same optimum; ``form="weighted"`` with a low `level` is a model with few parameters
    that corrects generative tables and suits small data best.

    Parameters
    ----------
    form : {"weighted", "direct", "extended"}
        Weights on generative log-probabilities, free scores, or scores normalised to probabilities.
    level : {1, 2, 3, 4}
        What shares a weight: a feature, a value, a value and class, or nothing.
        Levels 1 to 3 are for ``form="weighted"``.
    init : {"generative", "zero"}
        Where the optimiser starts.
    l2 : float or "cv"
        Precision of a Gaussian prior on the free parameters; "cv" chooses it by held-out loss, on
        as many of five folds as it takes for 5,000 rows.
    towards : {"generative", "zero"}
        The prior's centre.
    base : str or ParameterLearner
        The generative tables; "m-estimate" is the m-estimate with m=1.
    crossfit : int or "auto"
        Number of folds for cross-fitting the generative tables, so that no weight learns from its
        row's own count; 0 uses one set of tables from all rows. "auto" is 5 for levels 1 to 3.
    correction : float, "cv" or None
        Precision of the prior, centred at 0, of a free number per value and class added to the
        weighted terms; None for no such numbers. For ``form="weighted"``.
    smooth : bool
        Whether adjacent values of ordered features (numbers, dates, ordered categories) have
        similar scores: with ``form="direct"``, along the feature and its parents, or for the
        corrections of ``form="weighted"``. They are then curves, whose coefficients the prior
        (`l2`, or `correction`) keeps small. Use it with fine bins: ``bins="fine"``.
    objective : {"cll", "mse"}
        Conditional log-likelihood, or the squared error of the posterior.
    fit_prior : bool
        Whether the class parameters are also free.
    unseen : {"coarser", "generative", "nothing"}
        What cells without training rows contribute: the mean of the trained parameters of the same
        value under the longest prefix of the parents with which it was seen, the generative tables'
        estimate, or nothing. Levels 1 to 3 share weights and don't need it.
    optimiser : {"lbfgs", "cg", "gradient", "sgd"}
        L-BFGS, conjugate gradients, gradient descent (which some papers stop at ``max_iter=20``),
        or stochastic gradient descent, whose iterations go through the rows in 50 batches.
    max_iter : int
        Maximum number of iterations; reaching it issues a ConvergenceWarning.
    tol : float
        Relative improvement of the objective at which the optimiser stops.

    Notes
    -----
    In the direct and weighted forms the objective is convex in the free parameters. If the parents
    of each feature are connected to each other (naive, TAN, kDB with k=1, k-trees) its optimum is
    that of the structure's networks, and the extended form reaches the same. The result is then
    converted to a proper network with the same posterior, so unknown values can be summed out and
    tables read and exported.

    Otherwise (kDB with k > 1) the networks' own problem isn't convex: the extended form may stop at
    a local optimum, and the other two fit a log-linear model of the families, whose posterior may
    not be that of any network. `Tables.normalized` is then False, and rows with unknown values are
    classified approximately.

    Each evaluation of the objective is one pass over the rows. Families with an unknown member
    don't contribute to training. Memory: a few numbers per parameter, one byte per row with folds.

    ``info_["parameters"]`` has the history: `objective`, `loss` and `gradient_norm` per iteration,
    `passes`, `converged` and `reason`.

    References
    ----------
    Zaidi, Webb, Carman, Petitjean, Buntine, Hynes and De Sterck (2017), "Efficient parameter
    learning of Bayesian network classifiers", Machine Learning 106, DOI 10.1007/s10994-016-5619-z:
    equations 7 to 21.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "u"], ["a", "v"], ["b", "u"], ["b", "v"], ["b", "v"]]
    >>> clf = BayesNetClassifier("naive", Discriminative(l2=1.0)).fit(X, [0, 0, 1, 1, 0])
    >>> clf.predict_proba([["a", "u"]]).round(3).tolist()
    [[0.869, 0.131]]
    """

    form: str = "weighted"
    level: int = 4
    init: str = "generative"
    l2: float | str = 0.0
    towards: str = "generative"
    _: KW_ONLY
    base: str | ParameterLearner = "m-estimate"
    crossfit: int | str = "auto"
    correction: float | str | None = None
    smooth: bool = False
    objective: str = "cll"
    fit_prior: bool = True
    unseen: str = "coarser"
    optimiser: str = "lbfgs"
    max_iter: int = 10_000
    tol: float = 2.2e-9

    @property
    def reads_prior_counts(self) -> bool:
        """Whether the prior's centre, if it matters, comes from tables estimated from counts."""
        drawn = self.form == "weighted" or self.towards == "generative"
        return drawn and self.l2 != 0 and isinstance(resolve_base(self.base), CountLearner)

    @one_blas_thread()
    def learn(self, structure: Structure, counts: Counts, plan: FitPlan) -> Tables:
        """Learn the tables: generative ones, then weights or scores on them."""
        self._check()
        problem = Problem.of(self, structure, counts, plan)
        if counts.domain.n_classes == 1:
            return problem.base  # nothing to discriminate
        strengths = _choose_strengths(problem)
        form, sets = problem.final()
        free, told = problem.solve(form, sets, strengths, progress=plan.context.progress)
        told |= strengths._asdict() | {"n_parameters": form.n_free}
        plan.context.record("parameters").update(told)
        tables = problem.fill(problem.form(problem.all_rows).expand(free)[0])
        if structure.is_moral() and not tables.normalized:
            tables = to_network(structure, tables, problem.base)
        return with_spread(tables, problem, free, strengths) if plan.intervals else tables

    def _check(self) -> None:
        """Raise a ConfigurationError for invalid options."""
        for name, words in ALLOWED.items():
            self._allow(name, getattr(self, name) in words, ", ".join(map(repr, words)))
        weighted = self.form == "weighted"
        for name, plain in {"level": (4,), "correction": (None,), "crossfit": ("auto", 0)}.items():
            allowed = f"{plain[0]!r}; others are for weights on generative tables, form='weighted'"
            self._allow(name, weighted or getattr(self, name) in plain, allowed)
        prior = self.l2 if self.form == "direct" else weighted and self.correction
        self._allow(
            "smooth",
            self.smooth is False or (self.smooth is True and bool(prior)),
            "False; or True for form='direct' with an l2 above 0, or 'weighted' with a correction",
        )
        for name in ("l2", "correction"):
            given = getattr(self, name)
            number = isinstance(given, Real) and not isinstance(given, bool)
            word = given == "cv" or (given is None and name == "correction")
            good = word or (number and 0 <= given <= STRONGEST)
            self._allow(name, good, f"a number from 0 to {STRONGEST:g}, or 'cv'")
        folds = self.crossfit
        good = folds in ("auto", 0) or (is_whole(folds, 2) and int(folds) <= MAX_FOLDS)
        self._allow("crossfit", good, f"'auto', 0, or 2 to {MAX_FOLDS} folds")
        self._allow_whole("max_iter", least=1)
        self._allow_flags("fit_prior")
        self._allow_numbers("tol", zero=True)


def _choose_strengths(problem: Problem) -> Strengths:
    """Return the priors' strengths; those set to "cv" are chosen in turn by held-out loss."""
    given = {name: getattr(problem.options, name) for name in Strengths._fields}
    middle = len(GRID) // 2
    known = {n: GRID[middle] if one == "cv" else float(one or 0.0) for n, one in given.items()}
    chosen = Strengths(**known)
    if "cv" not in given.values():
        return chosen
    n_judging = ceil(ENOUGH_ROWS * problem.n_folds / max(problem.counts.rows.n_rows, 1))
    parts = [problem.held_out(fold) for fold in range(min(n_judging, problem.n_folds))]
    free = [problem.start(form) for form, _, _ in parts]

    @cache
    def loss(strengths: Strengths) -> float:
        total = 0.0
        for at, (form, train, score) in enumerate(parts):
            # Each fit starts from the previous one on its fold.
            free[at], _ = problem.solve(form, train, strengths, start=free[at], rough=True)
            total += problem.objective(form, score, None)(free[at])[0]
        return total

    for name in ("correction", "l2"):
        if given[name] == "cv":
            ways = [chosen._replace(**{name: strength}) for strength in GRID]

            def gain(before: int, after: int, ways: list[Strengths] = ways) -> float:
                return loss(ways[before]) - loss(ways[after])

            chosen = ways[climb(gain, middle, len(GRID))]
    return chosen


def with_spread(tables: Tables, problem: Problem, free: Floats, strengths: Strengths) -> Tables:
    """Return the tables for these free parameters, with the variances of their entries.

    A squared error isn't a likelihood, and generative tables without variances leave cells without
    rows undetermined: there are no variances then.
    """
    layout, base = problem.layout, problem.base.spread
    if problem.options.objective != "cll" or base is None:
        return tables
    context, form = problem.plan.context, problem.form(problem.all_rows)
    chunk = sample_rows(problem.counts.rows, context.row_seed(KEY), MOST_ROWS, context).gather()
    weights = chunk.row_weights
    weights = weights * (problem.counts.rows.total_weight / max(float(weights.sum()), LEAST))
    cells = RowCells.of(np.ascontiguousarray(layout.locate(chunk.codes).T))
    chances = posterior(cells.totals(form.expand(free)[0]))
    curvature = _Curvature(problem, free, strengths, cells, chances, weights, base)
    entries, wanted = np.zeros((layout.n_cells, layout.n_classes)), np.zeros_like(chances)
    others = 1.0 - np.eye(layout.n_classes)
    rest = np.maximum(chances @ others, 1e-150)
    for draw in range(DRAWS):
        moved = curvature.draw(context.generator(KEY, draw))
        by_row = cells.totals(moved)
        wanted += (by_row - (chances * by_row) @ others / rest) ** 2 / DRAWS
        moved -= moved.mean(axis=1, keepdims=True)
        for family in layout.families:
            # Constants belong to the class node: each family has mean zero over its rows.
            mass = curvature.mass[family.cells, None]
            moved[family.cells] -= (mass * moved[family.cells]).sum(axis=0) / max(mass.sum(), LEAST)
        entries += moved**2 / DRAWS
    wanted = of_scores(wanted, chances)
    entries = scale_entries(np.maximum(entries, LEAST), cells, wanted)
    filled = fill_tables(layout, entries, problem.seen(), base, "generative")
    families = [
        found if type(found) is type(table) else found.to_dense()
        for found, table in zip(filled.families, tables.families, strict=True)
    ]
    return replace(tables, spread=spread_of_families(filled.log_prior, families))


class _Curvature:
    """The Hessian of the penalised loss on some rows, with respect to the free parameters."""

    def __init__(
        self,
        problem: Problem,
        free: Floats,
        strengths: Strengths,
        cells: RowCells,
        chances: Floats,
        weights: Floats,
        base: Tables,
    ) -> None:
        self.form, self.free = problem.form(problem.all_rows), free
        self.chances, self.weights = chances, weights[:, None]
        self.cells, self.n_cells = cells, problem.layout.n_cells
        penalty = problem.penalty(self.form, strengths)
        self.precision = np.zeros(self.form.n_free) if penalty is None else penalty.strength
        frozen = problem.frozen(self.form)
        self.moving = np.ones(self.form.n_free) if frozen is None else 1.0 - frozen
        self.mass: Floats = self._back(self.weights)[:, 0]
        self.generative = np.sqrt(problem.layout.read(base))  # standard deviations
        self.generative[-1] = 0.0
        self.towards_generative = problem.options.towards == "generative"
        steep = self._back(self.weights * chances * (1.0 - chances)) + LEAST_PRECISION
        self.scale = 1.0 / (self.form.pull_squares(steep[None]) + self.precision + LEAST)

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw scores, (n_cells, n_classes), with mean zero."""
        part = np.sqrt(self.chances) * rng.standard_normal(self.chances.shape)
        noise = part - self.chances * part.sum(axis=1, keepdims=True)
        by_cell = self._back(np.sqrt(self.weights) * noise)
        by_cell += np.sqrt(LEAST_PRECISION) * rng.standard_normal(by_cell.shape)
        wanted = self._pull(by_cell)
        wanted += np.sqrt(self.precision) * rng.standard_normal(wanted.shape)
        logs = self.generative * rng.standard_normal(by_cell.shape)
        moved = np.zeros_like(by_cell)
        if isinstance(self.form, Weighted):
            moved = self.form.weights(self.free) * logs
            wanted -= self._pull(self._by_cell(moved))
        elif self.towards_generative and isinstance(self.form, Direct):
            wanted += self.precision * self.form.free_of(logs)
        wanted = (self.moving * wanted)[:, None]
        found = solve_linear(self._times, wanted, self.scale[:, None], STEPS)
        return moved + self.form.push(self.free, found[:, 0])[0]

    def _times(self, step: Floats) -> Floats:
        by_cell = self._by_cell(self.form.push(self.free, step[:, 0])[0])
        return (self.moving * (self._pull(by_cell) + self.precision * step[:, 0]))[:, None]

    def _by_cell(self, scores: Floats) -> Floats:
        """Multiply scores by the Hessian of the rows' loss, plus the minimum precision."""
        by_row = self.chances * self.cells.totals(scores)
        by_row -= self.chances * by_row.sum(axis=1, keepdims=True)
        return self._back(self.weights * by_row) + LEAST_PRECISION * scores

    def _pull(self, by_cell: Floats) -> Floats:
        return self.form.pull(self.free, by_cell[None])

    def _back(self, rows: Floats) -> Floats:
        """Return what rows (n_rows, n) add to each cell, (n_cells, n)."""
        return self.cells.share(rows, self.n_cells)
