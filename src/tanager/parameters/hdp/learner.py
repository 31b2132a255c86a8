"""The learner: checks its options, runs one inference per family, and reports."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Real

import numpy as np

from tanager.counts import ContextTree
from tanager.engines import FitContext
from tanager.estimator import is_whole
from tanager.numerics import Floats
from tanager.parameters.hdp import fixed_point
from tanager.parameters.hdp.fixed_point import (
    TYINGS,
    Estimate,
    Prior,
    count_discounts,
    solve_discounted,
    spell_unseen,
    tie,
)
from tanager.parameters.hdp.sampler import WINDOW, Budget, Pace, sample
from tanager.parameters.learner import CountLearner
from tanager.parameters.spread import spread_of_families
from tanager.parameters.tables import FamilyTable, Tables

TOLERANCE = {"fixed-point": 1e-4, "gibbs": 5e-3}
# Beyond this many cells (1 GiB while sampling) values never seen in a context share its
# remaining mass in proportion to the parent's means, instead of each being averaged.
MAX_SPELLED = 1 << 24
COUNTS = ("max_sweeps", "thinning", "n_chains", "concentration_interval")
LEAST = {**dict.fromkeys(COUNTS, 1), "burn_in": 0, "window": 2}
STREAM = 7  # key of the sampler's random streams


@dataclass(eq=False, repr=False)
class HDP(CountLearner):
    r"""Estimates from a hierarchical Dirichlet process: back-off learned from the data.

    Every context's distribution has a Dirichlet prior centred on that of the context without its
    last parent, up to the feature's marginal. How closely each level follows the one above (its
    concentration) is learned, so there's no smoothing constant to choose, and rare contexts
    borrow as much from shorter ones as the data suggest. The best generative choice.

    Parameters
    ----------
    inference : {'fixed-point', 'gibbs'}
        'fixed-point' iterates conditional means until convergence: deterministic,
        milliseconds per table, any weights. 'gibbs' averages samples, takes ten to a hundred
        times longer, and lowers the log-loss by about one per cent on small data.
    tying : {'level', 'parent', 'single'}
        Which nodes of a family's tree share a concentration: those of a level,
        the children of one node, or all.
    shape, rate : float
        The Gamma prior on every concentration. ``shape=0, rate=0`` is the improper
        prior of the paper's text, which leaves levels with one or two nodes undetermined.
    class_rate : float or None
        The rate for the class level, on which classification depends most: a larger one
        keeps the classes further apart. None uses `rate`; unused with ``tying='single'``.
    root_concentration : float
        Concentration of the feature's marginal around the uniform distribution; fixed.
    tolerance : float or None
        'fixed-point': stop once a sweep changes no predictive probability by
        more; None is 1e-4. 'gibbs': stop once their standard error (root mean
        square over the training rows) is below it; None is 5e-3.
    max_sweeps : int
        Maximum number of sweeps; a `ConvergenceWarning` is issued if they weren't enough.
    burn_in, thinning, n_chains : int
        'gibbs' only: sweeps before the first state is recorded, sweeps between
        recorded states, and independent chains.
    start : {'fixed-point', 'prior'}
        'gibbs' only: the chains' initial concentrations, those of the fixed point or the prior's
        mean, `shape` over `rate`, as in the authors' program.
    concentration_interval : int
        'gibbs' only: sweeps of the tables between two draws of the concentrations;
        the authors' program uses 5.
    window : int
        'gibbs' only: the number of adjacent table counts a cell chooses from
        in one sweep.
    discount : float or "counted"
        Discount of a Pitman-Yor process, from 0 (the Dirichlet process) to less than 1.
        For features with dozens of values or more, most of them rare. "counted"
        ('fixed-point' only) estimates one per level from the numbers of cells
        seen once and twice. With a discount the fixed point costs 20 to 150
        times more, about as much as the sampler with the same discount.

    Notes
    -----
    ``info_["parameters"]`` reports per family the number of sweeps, the trace of
    the criterion bounded by `tolerance`, and the concentrations. One pass over the data
    (the counts). Values never seen in a context are averaged over the samples like the
    others, up to 16 million cells per family (see `unseen_averaged` in ``info_``).
    Time is proportional to the number of cells with a count; a sweep of the
    sampler takes about 0.1 microseconds for each with two rows or more.
    Every family has its own random stream, so the number of threads doesn't
    matter. `docs/hdp.md` has the model, the choice of prior and the
    measurements.

    References
    ----------
    F. Petitjean, W. Buntine, G. I. Webb and N. Zaidi (2018), "Accurate parameter
    estimation for Bayesian network classifiers using hierarchical Dirichlet
    processes", Machine Learning 107, https://doi.org/10.1007/s10994-018-5718-0,
    section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from tanager import BayesNetClassifier
    >>> X, y = [["a"]] * 22 + [["b"]] * 5, [0] * 2 + [1] * 25
    >>> clf = BayesNetClassifier("naive", HDP(shape=2.0, class_rate=1.0)).fit(X, y)
    >>> np.exp(clf.network_.tables.families[0].log_prob).round(2).tolist()
    [[0.88, 0.8], [0.12, 0.2]]
    """

    inference: str = "fixed-point"
    tying: str = "level"
    _: KW_ONLY
    shape: float = 2.5
    rate: float = 0.03
    class_rate: float | None = 0.1
    root_concentration: float = 1.0
    tolerance: float | None = None
    max_sweeps: int = 2000
    burn_in: int = 25
    thinning: int = 2
    n_chains: int = 2
    start: str = "fixed-point"
    concentration_interval: int = 1
    window: int = WINDOW
    discount: float | str = 0.0

    def from_counts(
        self,
        class_counts: Floats,
        trees: Sequence[ContextTree],
        context: FitContext,
        *,
        intervals: bool = True,
    ) -> Tables:
        """Learn the tables from class counts (n_classes,) and each family's tree."""
        self._check()
        streams = [context.generator(STREAM, at) for at in range(len(trees))]
        estimate_at = partial(_estimate_at, self, trees, intervals)
        learned = context.engine.map(
            estimate_at, enumerate(streams), context.progress, "parameters"
        )
        estimates, tables, spreads = zip(*learned, strict=True) if learned else ((), (), ())
        self._report(estimates, context)
        spread = spread_of_families(1.0 / np.maximum(class_counts, 1.0), spreads)
        return Tables(self.log_prior(class_counts), tables, spread=spread)

    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family from its tree."""
        self._check()
        return self.estimate(tree, FitContext().generator(STREAM, 0))[1]

    def log_prior(self, class_counts: Floats) -> Floats:
        """Estimate the class prior: one virtual row, spread evenly over the classes."""
        shared = class_counts + 1.0 / class_counts.shape[0]
        return np.asarray(np.log(shared / (class_counts.sum() + 1.0)))

    def estimate(
        self, tree: ContextTree, generator: np.random.Generator
    ) -> tuple[Estimate, FamilyTable]:
        """Estimate one family; also return diagnostics."""
        fixed = 0.0 if isinstance(self.discount, str) else self.discount
        prior = Prior(self.shape, self.rate, self.root_concentration, self.class_rate, fixed)
        tolerance = TOLERANCE[self.inference] if self.tolerance is None else self.tolerance
        if self.inference == "fixed-point":
            flat, most = tie(tree, self.tying), self.max_sweeps
            if self.discount == 0:
                estimate = fixed_point.solve(tree, flat, prior, tolerance, most)
            else:
                counted = self.discount == "counted"
                levels = np.full(tree.depth + 1, fixed)
                discounts = count_discounts(tree, flat) if counted else levels
                estimate = solve_discounted(tree, flat, prior, discounts, tolerance, most)
            return estimate, estimate.table(tree).compact()
        spelled = tree.n_nodes * int(tree.node_start[1]) <= MAX_SPELLED
        tree = spell_unseen(tree) if spelled else tree
        pace = Pace(self.thinning, self.concentration_interval, self.window)
        budget = Budget(tolerance, self.max_sweeps, self.burn_in, self.n_chains, pace, self.start)
        estimate = sample(tree, tie(tree, self.tying), prior, budget, generator)
        estimate.info["unseen_averaged"] = spelled
        return estimate, estimate.table(tree).compact()

    def _report(self, estimates: Sequence[Estimate], context: FitContext) -> None:
        record = context.record("parameters")
        record["inference"] = self.inference
        record["families"] = [estimate.info for estimate in estimates]
        late = [at for at, estimate in enumerate(estimates) if not estimate.converged]
        record["converged"] = not late
        if late:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(
                f"{len(late)} of {len(estimates)} families didn't converge in "
                f"max_sweeps={self.max_sweeps}; info_['parameters'] has their traces. "
                "Raise max_sweeps or tolerance.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _check(self) -> None:
        self._choose("inference", TOLERANCE)
        self._choose("tying", TYINGS)
        self._allow_numbers("root_concentration")
        self._allow_numbers("tolerance", none=True)
        self._allow_numbers("shape", "rate", zero=True)
        self._allow_numbers("class_rate", zero=True, none=True)
        for name, least in LEAST.items():
            whole = is_whole(getattr(self, name), least)
            self._allow(name, whole, f"a whole number from {least} on")
        self._choose("start", ("fixed-point", "prior"))
        proper = self.shape > 0 and self.rate > 0 and self.class_rate != 0
        fitting = self.start != "prior" or proper
        self._allow(
            "start", fitting, "'fixed-point', since a prior with shape or rate 0 has no mean"
        )
        number = isinstance(self.discount, Real) and 0 <= self.discount < 1
        counted = self.discount == "counted" and self.inference == "fixed-point"
        allowed = "a number from 0 to below 1, or 'counted' with inference='fixed-point'"
        self._allow("discount", number or counted, allowed)


def _estimate_at(
    learner: HDP,
    trees: Sequence[ContextTree],
    intervals: bool,
    item: tuple[int, np.random.Generator],
) -> tuple[Estimate, FamilyTable, FamilyTable | None]:
    # Trees are built one at a time, then dropped; only the report of the estimate is kept.
    at, generator = item
    tree = trees[at]
    estimate, table = learner.estimate(tree, generator)
    spread = estimate.spread(tree, learner.tying) if intervals else None
    return replace(estimate, log_prob=np.empty(0), log_escape=np.empty(0)), table, spread
