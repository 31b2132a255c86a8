"""Parameters estimated with hierarchical Dirichlet processes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tanager import native
from tanager.counts import ContextTree
from tanager.engines import FitContext
from tanager.numerics import Floats, Ints
from tanager.parameters import STREAM, CountLearner
from tanager.parameters.spread import count_spread
from tanager.parameters.tables import FamilyTable, TreeTable

TYINGS = ("level", "parent", "single")
KNOWN = 1e12  # rows of a node whose estimate is treated as known
# If two levels explain the same variation the fixed point isn't unique. From a low start the deep
# levels explain it first, and the redundant levels end as copies of their parents; from a high
# start the leaves do (occupation_k3 of docs/measurements/hdp.md: 2.1464 instead of 2.1420).
START = 2.0


@dataclass(eq=False, repr=False)
class HDP(CountLearner):
    r"""Estimates from a hierarchical Dirichlet process: back-off learned from the data.

    Every context's distribution has a Dirichlet prior centred on that of the context without its
    last parent, up to the feature's marginal. How closely each level follows the one above (its
    concentration) is learned, so there's no smoothing constant to choose, and rare contexts
    borrow as much from shorter ones as the data suggest. The best generative choice.

    Parameters
    ----------
    tying : {'level', 'parent', 'single'}
        Which nodes of a family's tree share a concentration: a level, a node's children, or all.
    shape, rate : float
        The Gamma prior on every concentration. ``shape=0, rate=0`` is the improper
        prior of the paper's text, which leaves levels with one or two nodes undetermined.
    class_rate : float or None
        The rate for the class level, on which classification depends most: a larger one
        keeps the classes further apart. None uses `rate`; unused with ``tying='single'``.
    root_concentration : float
        Concentration of the feature's marginal around the uniform distribution; fixed.
    tolerance : float
        Stop once a sweep changes no predictive probability by more.
    max_sweeps : int
        Maximum number of sweeps; a `ConvergenceWarning` is issued if they weren't enough.

    Notes
    -----
    Conditional means are iterated until convergence, which is deterministic, takes milliseconds
    per table and allows any row weights. ``info_["parameters"]`` reports per family the number of
    sweeps, the trace of the criterion bounded by `tolerance`, and the concentrations. One pass
    over the data (the counts); time is proportional to the number of cells with a count.
    `docs/hdp.md` has the model, the choice of prior and the measurements.

    References
    ----------
    F. Petitjean, W. Buntine, G. I. Webb and N. Zaidi (2018), "Accurate parameter estimation for
    Bayesian network classifiers using hierarchical Dirichlet processes", Machine Learning 107,
    https://doi.org/10.1007/s10994-018-5718-0, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from tanager import BayesNetClassifier
    >>> X, y = [["a"]] * 22 + [["b"]] * 5, [0] * 2 + [1] * 25
    >>> clf = BayesNetClassifier("naive", HDP(shape=2.0, class_rate=1.0)).fit(X, y)
    >>> np.exp(clf.network_.tables.families[0].log_prob).round(2).tolist()
    [[0.88, 0.8], [0.12, 0.2]]
    """

    tying: str = "level"
    _: KW_ONLY
    shape: float = 2.5
    rate: float = 0.03
    class_rate: float | None = 0.1
    root_concentration: float = 1.0
    tolerance: float = 1e-4
    max_sweeps: int = 2000

    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family from its tree."""
        self._check()
        return self.learn_family(tree, FitContext().generator(STREAM, 0), intervals=False)[0]

    def learn_family(
        self, tree: ContextTree, generator: np.random.Generator, *, intervals: bool
    ) -> tuple[FamilyTable, FamilyTable | None, Any]:
        """Return one family's table, its variances if `intervals`, and how it was estimated."""
        estimate = self.estimate(tree, generator)
        spread = estimate.spread() if intervals else None
        return estimate.table().compact(), spread, (estimate.info, estimate.converged)

    def log_prior(self, class_counts: Floats) -> Floats:
        """Estimate the class prior: one virtual row, spread evenly over the classes."""
        shared = class_counts + 1.0 / class_counts.shape[0]
        return np.asarray(np.log(shared / (class_counts.sum() + 1.0)))

    def estimate(self, tree: ContextTree, generator: np.random.Generator) -> Estimate:  # noqa: ARG002
        """Estimate one family; learners that sample use the generator."""
        return solve(tie(tree, self.tying), self.prior, self.tolerance, self.max_sweeps)

    @property
    def prior(self) -> Prior:
        """The prior on the concentrations."""
        return Prior(self.shape, self.rate, self.root_concentration, self.class_rate)

    def report(self, notes: Sequence[Any], context: FitContext) -> None:
        """Record each family's sweeps and concentrations, and warn if some did not converge."""
        record = context.record("parameters")
        record["families"] = [info for info, _ in notes]
        late = [at for at, (_, converged) in enumerate(notes) if not converged]
        record["converged"] = not late
        if late:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(
                f"{len(late)} of {len(notes)} families didn't converge in "
                f"max_sweeps={self.max_sweeps}; info_['parameters'] has their traces. "
                "Raise max_sweeps or tolerance.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _check(self) -> None:
        self._choose("tying", TYINGS)
        self._allow_numbers("root_concentration", "tolerance")
        self._allow_numbers("shape", "rate", zero=True)
        self._allow_numbers("class_rate", zero=True, none=True)
        self._allow_whole("max_sweeps", least=1)


class Prior(NamedTuple):
    """Gamma(shape, rate) on every concentration below the root, whose own is fixed."""

    shape: float
    rate: float
    root_concentration: float
    class_rate: float | None = None  # for the class level's concentration; None: same as the others

    def rates(self, n_groups: int, class_group: int) -> Floats:
        """Return the rate for each concentration, with the class level's own, if any."""
        rates = np.full(n_groups, float(self.rate))
        if self.class_rate is not None and class_group >= 0:
            rates[class_group] = self.class_rate
        return rates


class TiedTree(NamedTuple):
    """A `ContextTree` with each node's concentration."""

    tree: ContextTree
    node_group: Ints  # (n_nodes,): which concentration; the root's entry is unused
    n_groups: int  # number of distinct concentrations
    class_group: int  # the one used only by the class level's nodes; -1 if none


def tie(tree: ContextTree, tying: str) -> TiedTree:
    """Tie concentrations: one for a level's nodes, a node's children, or all but the root."""
    if tying == "level":
        depth = np.repeat(np.arange(-1, tree.depth), np.diff(tree.level_node))
        return TiedTree(tree, np.maximum(depth, 0), tree.depth, 0)
    if tying == "parent":
        return TiedTree(tree, tree.node_parent, int(tree.level_node[-2]), 0)
    return TiedTree(tree, np.zeros(tree.n_nodes, np.int64), 1, -1)


@dataclass(frozen=True)
class Estimate:
    """The estimates for every node of one family's tree."""

    tied: TiedTree
    log_prob: Floats  # (n_cells,): for every (context, value) seen, at every depth
    log_escape: Floats  # (n_nodes,): log share of the parent's estimate in unseen values
    converged: bool
    info: dict[str, Any] = field(default_factory=dict)  # concentrations, sweeps and the trace

    def table(self) -> TreeTable:
        """Return the estimates as a table on the tree."""
        contexts = self.tied.tree.without_counts()
        return TreeTable(contexts, self.log_prob, self.log_escape, inherit=True)

    def spread(self) -> FamilyTable | None:
        """Return the variances of the estimates."""
        tree, node = self.tied.tree, self.tied.tree.cell_nodes()
        phi, escape = np.exp(self.log_prob), np.exp(self.log_escape)
        alpha = self.info["concentration"][self.tied.node_group]
        total = alpha / escape  # the node's rows plus its concentration
        total[0] = KNOWN
        above = phi[tree.cell_parent]
        inside = np.bincount(node, above, minlength=tree.n_nodes)
        n_rest = np.maximum(tree.node_start[1] - np.diff(tree.node_start), 1)
        unseen = alpha * np.maximum(1.0 - inside, 0.0) / n_rest
        shares = np.minimum(escape[node] * above / phi, 1.0)
        # A concentration is known to about a factor of e: the squared derivative of the estimate.
        doubt = (escape[node] * (above / phi - 1.0)) ** 2
        return count_spread(tree, phi * total[node], unseen, total, shares=shares, doubt=doubt)


def solve(tied: TiedTree, prior: Prior, tolerance: float, max_sweeps: int) -> Estimate:
    """Estimate one family; `max_sweeps` bounds the work, `tolerance` the last change."""
    tree, alpha = tied.tree, np.full(tied.n_groups, START)
    phi, escape = np.empty(tree.n_cells), np.empty(tree.n_nodes)
    trace = np.zeros(max_sweeps)
    nodes = tree.level_node, tree.level_cell, tree.node_start, tied.node_group
    gamma = prior.shape, prior.rates(tied.n_groups, tied.class_group)
    model = *nodes, tree.cell_parent, tree.cell_count, tree.arity, prior.root_concentration, *gamma
    out = alpha, phi, escape, trace
    n_sweeps = native.solve_fixed_point(*model, tolerance, max_sweeps, *out)
    converged = bool(trace[n_sweeps - 1] < tolerance)
    info = {"sweeps": int(n_sweeps), "trace": trace[:n_sweeps].copy(), "concentration": alpha}
    return Estimate(tied, phi, escape, converged, info)
