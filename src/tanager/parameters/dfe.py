"""Discriminative frequency estimates: each row is weighted by the model's error on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tanager import native
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.numerics import Floats
from tanager.parameters import ParameterLearner
from tanager.parameters.frequencies import MEstimate
from tanager.parameters.scores import Layout, fill_tables
from tanager.parameters.tables import Tables
from tanager.structure import FitPlan, Structure

COPIES = 8  # of each number while converting frequencies to tables


@dataclass(eq=False, repr=False)
class DFE(ParameterLearner):
    r"""Frequencies in which each row is weighted by its error under the tables so far.

    A cheap baseline between counting and `Discriminative`: going through the rows in
    order, a row of class y adds :math:`1 - P(y \mid x)` instead of 1 to its counts.

    Parameters
    ----------
    n_passes : int
        Number of passes over the rows.
    m : float
        Weight of the uniform distribution in the m-estimates of the frequencies.

    Notes
    -----
    The result depends on the order of the rows; the passes run in one thread. A context to which no
    row has added uses the m-estimate of the plain counts. Families with an unknown member are
    skipped for that row.

    References
    ----------
    Su, Zhang, Ling and Matwin (2008), "Discriminative parameter learning for Bayesian networks",
    ICML.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X, y = [["a", "u"], ["a", "v"], ["b", "u"], ["b", "v"]], [0, 0, 1, 1]
    >>> BayesNetClassifier("naive", DFE()).fit(X, y).predict([["b", "u"]]).tolist()
    [1]
    """

    n_passes: int = 4
    m: float = 1.0

    def learn(self, structure: Structure, counts: Counts, plan: FitPlan) -> Tables:
        """Read the rows `n_passes` times."""
        context = plan.context
        self._allow_whole("n_passes", least=1)
        self._allow_numbers("m")
        trees = list(counts.trees(structure))
        layout = Layout.of(structure, counts.domain, trees)
        layout.check_memory(context, COPIES)
        frequencies = self._count(layout, counts, context)
        base = MEstimate(m=self.m).learn(structure, counts, plan)
        logs = np.zeros_like(frequencies)
        logs[0] = self._log_share(frequencies[0], axis=0)
        for family in layout.families:
            table = frequencies[family.cells].reshape(-1, family.arity, layout.n_classes)
            logs[family.cells] = self._log_share(table, axis=1).reshape(-1, layout.n_classes)
        return fill_tables(layout, logs, layout.counts(trees), base, "generative", normalized=True)

    def _count(self, layout: Layout, counts: Counts, context: FitContext) -> Floats:
        """Return the frequencies, shape (n_cells, n_classes)."""
        held = [[f.start, f.arity, f.n_contexts] for f in layout.families]
        sizes = np.array(held, np.int64).reshape(-1, 3)
        frequencies = np.zeros((layout.n_cells, layout.n_classes))
        totals = np.zeros((1 + int(sizes[:, 2].sum()), layout.n_classes))
        rows, misses = counts.rows, list[float]()
        context.progress.start("parameters", self.n_passes * rows.n_rows)
        for _ in range(self.n_passes):
            total_missed, missed = 0.0, np.zeros(1)
            for chunk in rows.chunks():
                given = layout.locate(chunk.codes), sizes, chunk.labels, chunk.row_weights
                native.add_misses(*given, self.m, frequencies, totals, missed)
                total_missed += float(missed[0])
                context.progress.advance(chunk.n_rows)
            misses.append(total_missed / rows.total_weight if rows.total_weight > 0 else 0.0)
        context.progress.finish()
        context.record("parameters").update(passes=self.n_passes, mean_miss=misses)
        return frequencies

    def _log_share(self, frequencies: Floats, axis: int) -> Floats:
        """Return the log of the m-estimate along an axis."""
        added = frequencies + self.m / frequencies.shape[axis]
        return np.asarray(np.log(added / (frequencies.sum(axis=axis, keepdims=True) + self.m)))
