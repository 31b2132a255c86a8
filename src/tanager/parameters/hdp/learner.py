"""The learner: checks its options, runs one inference per family, reports."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tanager.counts import ContextTree
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters.hdp import fixed_point
from tanager.parameters.hdp.estimate import Estimate
from tanager.parameters.hdp.layout import flatten
from tanager.parameters.hdp.prior import Prior
from tanager.parameters.learner import CountLearner
from tanager.parameters.tables import FamilyTable, Tables

__all__ = ["HDP"]


class HDP(CountLearner):
    r"""Estimates from a hierarchical Dirichlet process: back-off learned from the data.

    Every context's distribution is drawn from a Dirichlet around that of the
    context without its last parent, up to the feature's marginal. How closely
    each level follows the one above (its concentration) is learned, so a table
    needs no smoothing constant, and a context seen twice leans on its
    neighbours as much as the data say it should. The default choice.

    Parameters
    ----------
    inference : {'fixed-point'}
        'fixed-point' iterates conditional means to a standstill: deterministic,
        milliseconds a table.
    tying : {'level', 'parent', 'single'}
        Which nodes of a family's tree share a concentration: those of a level,
        the children of one node, or all.
    shape, rate : float
        The Gamma prior on every concentration.
    root_concentration : float
        Of the feature's marginal around the uniform distribution; fixed.
    tolerance : float
        Stop once a sweep changes no predictive probability by more.
    max_sweeps : int
        Budget; a `ConvergenceWarning` tells where it was not enough.

    Notes
    -----
    ``info_["parameters"]`` reports per family the sweeps taken, the trace of the
    largest change and the concentrations. One pass over the data (the counts);
    time is proportional to the number of cells with a count.

    References
    ----------
    F. Petitjean, W. Buntine, G. I. Webb and N. Zaidi (2018), "Accurate parameter
    estimation for Bayesian network classifiers using hierarchical Dirichlet
    processes", Machine Learning 107, https://doi.org/10.1007/s10994-018-5718-0,
    section 4.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X, y = [["a"]] * 22 + [["b"]] * 5, [0] * 2 + [1] * 25
    >>> clf = BayesNetClassifier("naive", HDP(shape=2.0, rate=1.0)).fit(X, y)
    >>> clf.network_.table("x0").round(2)  # doctest: +SKIP
    """

    def __init__(
        self,
        inference: str = "fixed-point",
        tying: str = "level",
        *,
        shape: float = 1.0,
        rate: float = 0.0,
        root_concentration: float = 1.0,
        tolerance: float = 1e-4,
        max_sweeps: int = 1000,
    ) -> None:
        self.inference = inference
        self.tying = tying
        self.shape = shape
        self.rate = rate
        self.root_concentration = root_concentration
        self.tolerance = tolerance
        self.max_sweeps = max_sweeps

    def from_counts(
        self,
        class_counts: NDArray[np.float64],
        trees: Sequence[ContextTree],
        context: FitContext,
    ) -> Tables:
        """Learn the tables from class counts (n_classes,) and each family's tree."""
        self._check()
        learned = context.engine.map(self._estimate, trees, context.progress, "parameters")
        self._report([estimate for estimate, _ in learned], context)
        return Tables(self.log_prior(class_counts), tuple(table for _, table in learned))

    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family from its tree."""
        self._check()
        return self._estimate(tree)[1]

    def log_prior(self, class_counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimate the class prior: one virtual row, spread evenly over the classes."""
        n_classes = class_counts.shape[0]
        log_prior: NDArray[np.float64] = np.log(
            (class_counts + 1.0 / n_classes) / (class_counts.sum() + 1.0)
        )
        return log_prior

    def _estimate(self, tree: ContextTree) -> tuple[Estimate, FamilyTable]:
        flat = flatten(tree, self.tying)
        prior = Prior(self.shape, self.rate, self.root_concentration)
        estimate = fixed_point.solve(tree, flat, prior, self.tolerance, self.max_sweeps)
        return estimate, estimate.table(tree, flat).compact()

    def _report(self, estimates: Sequence[Estimate], context: FitContext) -> None:
        record = context.info.setdefault("parameters", {})
        record["inference"] = self.inference
        record["families"] = [estimate.info for estimate in estimates]
        late = [at for at, estimate in enumerate(estimates) if not estimate.converged]
        record["converged"] = not late
        if late:
            warnings.warn(
                f"{len(late)} of {len(estimates)} families did not settle within "
                f"max_sweeps={self.max_sweeps}; info_['parameters'] has their traces. "
                "Raise max_sweeps or tolerance.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _check(self) -> None:
        if self.inference not in ("fixed-point",):
            raise ConfigurationError(
                f"inference={self.inference!r} is not known. Allowed: 'fixed-point'."
            )
        for name in ("root_concentration", "tolerance", "shape", "max_sweeps"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(
                    f"{name}={getattr(self, name)!r} is not allowed. It must be greater than zero."
                )
        if self.rate < 0:
            raise ConfigurationError(f"rate={self.rate!r} is not allowed. Use 0 or more.")
