"""Training rows with unknown values: expectation-maximisation, and sampled completions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Groups, Rows
from tanager.codes.groups import group_codes, group_rows, learn_groups, tells_all
from tanager.codes.rows import exact_weights
from tanager.counts import Counts, count_expected
from tanager.engines import FitContext, Piece
from tanager.errors import ApproximationWarning
from tanager.numerics import Floats
from tanager.parameters import HDP, CountLearner, Tables
from tanager.parameters.tables import posterior
from tanager.parameters.unknown import Unknown, uniforms
from tanager.structure import TAN, FitPlan, Structure

ROUNDS, TOL = 100, 1e-6  # of EM; the gain in log-likelihood per row below which it stops
DRAFT_ROUNDS, DRAFT_TOL = 20, 1e-4  # of the network that only completes rows
MAX_TABLE = 1 << 16  # numbers in one of its tables
MOST_DRAWS = 4
DRAWN_ROWS = 40_000  # completed rows beyond which each gets fewer draws
POOLED = 5.0  # weight, in rows, of the distribution over all classes within a group
DRAWS_KEY = 6_304  # of the random stream of the draws


def expect_and_maximise(
    learner: CountLearner,
    structure: Structure,
    counts: Counts,
    plan: FitPlan,
    rounds: int = ROUNDS,
    tol: float = TOL,
) -> tuple[Tables, Counts, dict[str, Any]]:
    """Learn tables from their own expected counts, by exact inference, until convergence.

    Starts from the rows without gaps in a family, and stops once the log-likelihood per row changes
    by less than `tol` nats. If the learner's tables aren't probabilities, HDP tables compute the
    expectations. Returns the tables, their expected counts, and a record.
    """
    expected, trace, by = counts, list[float](), learner if learner.generative else HDP()
    draft = replace(plan, intervals=False)
    while True:
        tables = by.learn(structure, expected, draft.inner())
        following, log_likelihood, n_left_out = add_expected(counts, structure, tables)
        trace.append(log_likelihood)
        converged = len(trace) > 1 and abs(trace[-1] - trace[-2]) <= tol * counts.rows.total_weight
        if converged or len(trace) > rounds:
            break
        expected = following
    inner = plan.inner()  # with intervals, if they are wanted, and by the learner itself
    tables = learner.learn(structure, expected, inner)
    plan.context.record("parameters").update(inner.context.info.get("parameters", {}))
    if n_left_out:
        warnings.warn(
            f"{n_left_out} training rows lack so many features that depend on one another that "
            "these can't be summed out: their families aren't counted in those rows. "
            "Use a structure with fewer parents, or missing='value'.",
            ApproximationWarning,
            stacklevel=2,
        )
    record = {"rounds": len(trace) - 1, "converged": converged, "log_likelihood": trace}
    return tables, expected, record


def add_expected(counts: Counts, structure: Structure, tables: Tables) -> tuple[Counts, float, int]:
    """Return the counts with expected counts for gaps, the log-likelihood, and rows left out."""
    unknown = Unknown(structure, tables, counts.domain.arities)
    found = count_expected(counts.rows, structure.families, unknown, counts.context)
    filled = counts.with_expected(structure, found.families)
    return filled, found.log_likelihood, found.n_left_out


def complete_rows(counts: Counts, plan: FitPlan, most_draws: int = MOST_DRAWS) -> Rows:
    """Return the rows, with a few completed copies in place of each row with gaps.

    Unknown values are drawn from P(unknown | known, class) of a tree-augmented network with HDP
    tables over groups of values, learned by EM; a first network completes the rows from which the
    second one's tree is learned. Copies share their row's weight, and its index, to stay in a fold.
    Held-out rows (`Rows.held_out`) are drawn without the class, which would leak into evaluation.
    """
    rows, domain, context = counts.rows, counts.domain, plan.context
    with context.stage("gaps") as record:
        groups = tuple(map(learn_groups, counts.values, domain.n_ordered))
        missing = sum(1.0 - values.sum() / counts.classes.sum() for values in counts.values)
        n_drawn = min(1.0, missing) * rows.n_rows  # at most this many rows have a gap
        n_draws = most_draws
        while n_draws > 1 and n_draws * n_drawn > DRAWN_ROWS:
            n_draws //= 2
        grouped = Counts(group_rows(rows, groups), context)
        draft = replace(plan.inner(), limits=None, prior=None, intervals=False)
        source, within = grouped, tuple(map(_within, counts.values, groups))
        tree = TAN(root="information", adjusted=True)
        for _ in range(2):
            structure = tree.learn(source, draft).within(grouped.domain, MAX_TABLE)
            learned = HDP(), structure, grouped, draft, DRAFT_ROUNDS, DRAFT_TOL
            tables, _, em = expect_and_maximise(*learned)
            unknown = Unknown(structure, tables, grouped.domain.arities)
            seed = context.row_seed(DRAWS_KEY)
            complete = _Completion(unknown, groups, within, seed, n_draws, rows.total_weight)
            completed = complete.rows(rows, context)
            source = Counts(group_rows(completed, groups), context)
        completed.held_out = replace(complete, blind=True).rows(rows, context)
        record.update(draws=n_draws, completed_rows=completed.n_rows, em=em)
    return completed


def _within(values: Floats, groups: Groups) -> Floats | None:
    """Return the cumulative P(value | group, class), (n_groups * n_classes, arity), if needed."""
    if tells_all(groups):
        return None
    inside = groups == np.arange(groups.max() + 1)[:, None]  # (n_groups, arity)
    pooled = inside * values.sum(axis=1)
    pooled = np.where(pooled.any(axis=1, keepdims=True), pooled, inside)
    shares = POOLED * pooled / pooled.sum(axis=1, keepdims=True)
    by_class = (inside * values.T[:, None] + shares).transpose(1, 0, 2)
    return np.ascontiguousarray(by_class.reshape(-1, len(groups)).cumsum(axis=1))


@dataclass(frozen=True, eq=False)
class _Completion:
    """Completes the rows of a piece: draws groups of values, then a value within each group."""

    unknown: Unknown
    groups: tuple[Groups, ...]
    within: tuple[Floats | None, ...]
    seed: int
    n_draws: int
    total_weight: float
    blind: bool = False  # whether to draw each row's values without its class

    def rows(self, rows: Rows, context: FitContext) -> Rows:
        """Return the completed rows, stored like coded rows."""
        limit, progress = context.rows_limit, context.progress
        pieces = context.engine.keep(self, rows.pieces(), limit, progress, "complete rows")
        return Rows(rows.domain, pieces, weighted=True)

    def __call__(self, piece: Piece[Chunk]) -> Iterator[Chunk]:
        return map(self._complete, piece.chunks())

    def _complete(self, chunk: Chunk) -> Chunk:
        grouped = chunk._replace(codes=group_codes(chunk.codes, self.groups))
        if self.blind:
            grouped = grouped._replace(labels=self._guess(grouped))
        source, drawn = self.unknown.draw(grouped, self.n_draws, self.seed)
        first = np.append(True, source[1:] != source[:-1])
        draw = np.arange(len(source)) - np.flatnonzero(first)[np.cumsum(first) - 1]
        codes = np.ascontiguousarray(chunk.codes[:, source])
        labels, indices = grouped.labels[source], chunk.indices[source]
        arities, n_groups = [len(g) for g in self.groups], self.unknown.arities
        for at, cumulative in enumerate(self.within):
            filled = (codes[at] >= arities[at]) & (drawn[at] < n_groups[at])
            values = drawn[at, filled]
            if cumulative is not None and len(values):
                n_classes = len(cumulative) // int(n_groups[at])
                contexts = values.astype(np.int64) * n_classes + labels[filled]
                numbers = uniforms(self.seed + 1 + at, indices[filled] * MOST_DRAWS + draw[filled])
                values = np.empty(len(contexts), np.uint16)
                native.draw_values(contexts, cumulative, numbers, values)
            codes[at, filled] = values
        weights = chunk.row_weights
        weights = (weights / np.bincount(source, minlength=chunk.n_rows))[source]
        weights = exact_weights(weights, self.total_weight)
        return Chunk(codes, chunk.labels[source], weights, chunk.start, indices)

    def _guess(self, grouped: Chunk) -> NDArray[np.uint16]:
        """Draw each row's class given its known values."""
        by, rows = self.unknown, np.arange(grouped.n_rows)
        joint = by.tables.log_joint(by.structure, grouped.codes, by.arities)
        joint += np.nan_to_num(by.log_sums(grouped.codes))
        cumulative, labels = posterior(joint).cumsum(axis=1), np.empty(len(rows), np.uint16)
        native.draw_values(rows, cumulative, uniforms(self.seed - 1, grouped.indices), labels)
        return labels
