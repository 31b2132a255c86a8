r"""Uncertainty of discriminative scores, as variances of the tables' entries.

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

from dataclasses import replace

import numpy as np

from tanager.codes.hashing import sample_rows
from tanager.loglinear.optimiser import solve_linear
from tanager.loglinear.rows import RowCells
from tanager.numerics import Floats
from tanager.parameters.discriminative.forms import Direct, Weighted
from tanager.parameters.discriminative.problem import Problem, Strengths
from tanager.parameters.scores import fill_tables
from tanager.parameters.spread import LEAST, of_scores, scale_entries, spread_of_families
from tanager.parameters.tables import Tables, posterior

KEY = 6_002  # key of the random streams
MOST_ROWS = 2_000
DRAWS = 16
STEPS = 25  # of conjugate gradients
LEAST_PRECISION = 0.01  # of any score


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
        found = self._pull(by_cell) + self.precision * step[:, 0]
        return (self.moving * found)[:, None]

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
