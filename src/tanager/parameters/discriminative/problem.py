"""One optimisation problem: rows, cells, generative tables, and how to solve it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes, Rows
from tanager.counts import ContextTree, Counts, FoldPlan
from tanager.engines import FitContext
from tanager.errors import MemoryBoundError
from tanager.loglinear.curves import fill_order
from tanager.loglinear.fits import Penalty, penalised
from tanager.loglinear.joining import Columns, Joint, join_families, weigh_joints
from tanager.loglinear.optimiser import Function, minimise, remembered
from tanager.loglinear.rows import LocatedTable
from tanager.numerics import Floats, Ints
from tanager.parameters import N_FOLDS, PARAMETERS, ParameterLearner
from tanager.parameters.discriminative.forms import Curves, Direct, Extended, Form, Weighted
from tanager.parameters.scores import MAX_NUMBER, FamilyCells, Layout, fill_tables
from tanager.parameters.tables import Tables
from tanager.progress import Progress
from tanager.structure import FitPlan, Structure

if TYPE_CHECKING:
    from tanager.parameters.discriminative import Discriminative

FoldTables = Ints  # (n_folds,): the set of tables each fold uses, -1 for none

ROUGH_ITERATIONS, ROUGH_TOL = 200, 1e-7
LEFT = 0.3  # of tol, as minimum improvement: further ones would add up to more
SHARP = 0.9  # remaining share of the slope after a step: without scales, first steps are short
FOLDS_KEY = 6_001  # key of the folds' random stream
WORKING = 20  # sets of scores in memory during a fit, besides generative ones and remembered steps
MAX_FOLDS = 255  # a row's fold is one byte
MOST_BATCHES = 50  # for stochastic gradient descent
MAX_JOINT = 1 << 16  # joint values are stored as uint16


class Strengths(NamedTuple):
    """Precisions of the Gaussian priors: on weights or scores, and on corrections."""

    l2: float
    correction: float = 0.0


@dataclass
class Problem:
    """The optimisation problem of `Discriminative`."""

    options: Discriminative
    layout: Layout
    trees: list[ContextTree]  # each family's counts
    base: Tables  # the generative tables of all rows
    counts: Counts  # by fold if rows are held out or left out
    plan: FitPlan

    @classmethod
    def of(
        cls, options: Discriminative, structure: Structure, counts: Counts, plan: FitPlan
    ) -> Problem:
        """Learn the generative tables and lay out the cells."""
        context, n_crossfit = plan.context, _n_crossfit(options)
        held_out = n_crossfit or "cv" in (options.l2, options.correction)
        if held_out and counts.folds is None:
            n_folds = min(n_crossfit or N_FOLDS, max(counts.rows.n_rows, 1))
            counts = Counts(counts.rows, context, FoldPlan(context.row_seed(FOLDS_KEY), n_folds))
        trees = list(counts.trees(structure))
        layout = Layout.of(structure, counts.domain, trees)
        n_sets = counts.folds.n_folds if held_out and counts.folds else 1
        # Below level 4 the parameters that the optimiser remembers steps of are few.
        n_steps = remembered(layout.n_cells * layout.n_classes) if options.level == 4 else 0
        layout.check_memory(context, n_sets + 2 * n_steps + WORKING)
        inner = plan.inner()
        base = resolve_base(options.base).learn(structure, counts, inner)
        if "parameters" in inner.context.info:
            context.record("parameters")["base"] = inner.context.info["parameters"]
        return cls(options, layout, trees, base, counts, plan)

    @cached_property
    def all_rows(self) -> Floats:
        """Logarithms of the generative tables of all rows, (1, n_cells, n_classes)."""
        return self.layout.read(self.base)[None]

    @cached_property
    def crossfitted(self) -> Floats:
        """Logarithms of cross-fitted tables, (n_folds, n_cells, n_classes)."""
        n_folds = self.n_folds
        if n_folds * self.layout.n_cells > MAX_NUMBER:
            raise MemoryBoundError(
                f"{n_folds} sets of {self.layout.n_cells:,} parameters per class exceed the limit "
                f"of {MAX_NUMBER:,}. Use fewer parents per feature, or crossfit=0."
            )
        learn, out = resolve_base(self.options.base).learn, []
        for fold in range(n_folds):
            given = self.layout.structure, self.counts.without(fold), self.plan.inner()
            out.append(self.layout.read(learn(*given)))
        return np.stack(out)

    @property
    def n_folds(self) -> int:
        """Number of folds; one if no rows are held out."""
        return 1 if self.counts.folds is None else self.counts.folds.n_folds

    def form(self, logs: Floats) -> Form:
        """Return the parameterisation on top of sets of generative tables."""
        options = self.options
        if options.form == "direct":
            return Direct(logs, self.curves)
        if options.form == "extended":
            return Extended(self.layout, logs)
        corrected, given = options.correction is not None, (self.layout, logs, options.level)
        return Weighted(*given, correction=corrected, curves=self.curves)

    @cached_property
    def curves(self) -> list[Curves]:
        """The families' cells as curves, or their values if corrections are smooth."""
        found, first, ordered = list[Curves](), 1, self.layout.domain.n_ordered
        for family in self.layout.families if self.options.smooth else ():
            along = tuple(ordered[member] for member in family.members.tolist())
            if self.options.form == "weighted":
                rows = slice(first, first + family.arity)
                found.append(Curves(rows, (family.arity,), along[-1:]))
                first = rows.stop
            elif family.contexts is None:
                found.append(Curves(family.cells, family.shape, along))
            else:
                shape = family.n_contexts, family.arity
                found.append(Curves(family.cells, shape, (0, along[-1])))
        return found

    @cached_property
    def joint(self) -> Joint:
        """The tables used by rows."""
        return join_layout(self.layout, self.counts.rows, self.plan.context)

    @cached_property
    def located(self) -> LocatedTable:
        """The rows as cells of those tables, with folds, each cut into batches, if needed."""
        context, folds = self.plan.context, self.counts.folds
        if self.n_batches > 1:
            seed = context.row_seed(FOLDS_KEY) if folds is None else folds.seed
            folds = FoldPlan(seed, self.n_folds * self.n_batches)
        return LocatedTable(self.joint, self.counts.rows, context, folds)

    @property
    def n_batches(self) -> int:
        """Number of batches per fold; one if every step uses all rows."""
        many = self.options.optimiser == "sgd"
        return min(MOST_BATCHES, MAX_FOLDS // self.n_folds) if many else 1

    def final(self) -> tuple[Form, FoldTables]:
        """Return the parameterisation of the final fit, and the tables each fold uses."""
        if not _n_crossfit(self.options):
            return self.form(self.all_rows), np.zeros(self.n_folds, np.int64)
        return self.form(self.crossfitted), np.arange(self.n_folds)

    def held_out(self, fold: int) -> tuple[Form, FoldTables, FoldTables]:
        """Return the parameterisation, and the tables to train without a fold and to score it."""
        folds, fitted = np.arange(self.n_folds), bool(_n_crossfit(self.options))
        form = self.form(self.crossfitted if fitted else self.crossfitted[fold : fold + 1])
        own, inside = folds * fitted, folds == fold
        return form, np.where(inside, -1, own), np.where(inside, own, -1)

    def objective(
        self, form: Form, sets: FoldTables, chosen: Strengths | None, batch: int | None = None
    ) -> Function:
        """Return the penalised objective, or a batch's part of it; without strengths, the loss."""
        sets = np.repeat(sets, self.n_batches)
        if batch is not None:
            sets[np.arange(len(sets)) % self.n_batches != batch] = -1
        loss = partial(self._loss, form, sets)
        if chosen is None:
            return loss
        penalty = self.penalty(form, chosen)
        if penalty is not None and batch is not None:
            penalty = penalty._replace(strength=penalty.strength * (1 / self.n_batches))
        return penalised(loss, penalty, self.frozen(form))

    def _loss(self, form: Form, sets: FoldTables, free: Floats) -> tuple[float, Floats]:
        """Return the loss of the rows, and its gradient in a form's free parameters."""
        scores, squared = form.expand(free), self.options.objective == "mse"
        two = scores.shape[2] == 2
        columns = scores[:, :, 1:] - scores[:, :, :1] if two else scores
        tables = np.stack([self.joint.expand(one) for one in columns])
        value, slopes = self.located.sums(tables, sets, squared=squared)
        found = np.stack([self.joint.pull(one) for one in slopes])
        if two:
            found = np.concatenate([-found, found], axis=2)
        return value, form.pull(free, found)

    def start(self, form: Form) -> Floats:
        """Return the optimiser's starting point."""
        if self.options.init == "generative":
            return form.generative.copy()
        frozen = self.frozen(form)
        return np.where(False if frozen is None else frozen, form.generative, 0.0)

    def solve(
        self,
        form: Form,
        tables: FoldTables,
        strengths: Strengths,
        *,
        start: Floats | None = None,
        progress: Progress | None = None,
        rough: bool = False,
    ) -> tuple[Floats, dict[str, Any]]:
        """Return the free parameters that minimise the penalised loss, and a record of the descent.

        It has the objective, its part without the penalty and the largest absolute gradient entry,
        before the first and after each step. Use `rough` if only held-out loss is wanted.
        """
        max_iter, tol = self.options.max_iter, self.options.tol
        if rough:
            max_iter, tol = min(max_iter, ROUGH_ITERATIONS), max(tol, ROUGH_TOL)
        progress, penalty = progress or Progress(), self.penalty(form, strengths)
        history: list[tuple[float, float, float]] = []

        def note(free: Floats, value: float, gradient: Floats) -> None:
            added = 0.0 if penalty is None else penalty.value(free)[0]
            history.append((value, value - added, float(np.abs(gradient).max(initial=0.0))))
            if len(history) > 1:
                progress.advance(1, objective=value)

        progress.start("parameters", None, unit="iterations")
        found = minimise(
            self.objective(form, tables, strengths),
            self.start(form) if start is None else start,
            method=self.options.optimiser,
            max_iter=max_iter,
            tol=LEFT * tol,
            first_step=None,
            sharp=SHARP,
            batches=[self.objective(form, tables, strengths, at) for at in range(self.n_batches)],
            report=note,
        )
        progress.finish()
        if not (found.converged or rough):
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(
                f"The discriminative parameters did not converge in {max_iter} iterations. Raise "
                "max_iter, or add a prior (l2 > 0), with which an optimum always exists.",
                ConvergenceWarning,
                stacklevel=2,
            )
        values, losses, norms = (list(column) for column in zip(*history, strict=True))
        return found.at, {
            "objective": values,
            "loss": losses,
            "gradient_norm": norms,
            "iterations": len(values) - 1,
            "passes": found.evaluations,
            "converged": found.converged,
            "reason": found.reason,
        }

    def penalty(self, form: Form, strengths: Strengths) -> Penalty | None:
        """Return the prior on a form's free parameters; None if there is none."""
        centre = np.zeros(form.n_free) if self.options.towards == "zero" else form.generative
        strength = np.full(form.n_free, strengths.l2)
        if isinstance(form, Weighted):
            strength[form.n_weights :] = strengths.correction
        return Penalty(strength, centre) if strength.any() else None

    def fill(self, scores: Floats) -> Tables:
        """Turn scores (n_cells, n_classes) into tables that cover every context."""
        options, normalized = self.options, self.options.form == "extended"
        if not normalized:
            # A term shared by all classes cancels in P(y | x): the generative tables' is the
            # starting point of the network's P(x).
            means = self.all_rows[0].mean(axis=1, keepdims=True)
            scores = scores - scores.mean(axis=1, keepdims=True) + means
        given, shared = (self.layout, scores, self.seen(), self.base), options.level < 4
        return fill_tables(*given, options.unseen, normalized=normalized, shared=shared)

    def seen(self) -> Floats:
        """Return how often each cell was seen, with a small amount if others of its curve were."""
        counts = self.layout.counts(self.trees)
        for rows, shape, n_ordered in self.curves if self.options.form == "direct" else ():
            own = counts[rows].reshape(shape)
            for axis, known in enumerate(n_ordered):
                own = fill_order(own, axis, known) if known > 2 else own
            counts[rows] = own.ravel()
        return counts

    def frozen(self, form: Form) -> NDArray[np.bool_] | None:
        """Return the mask of class parameters if they are held fixed."""
        if self.options.fit_prior:
            return None
        frozen, n_classes = np.zeros(form.n_free, np.bool_), self.layout.n_classes
        frozen[: 1 if self.options.level == 1 else n_classes] = True
        if isinstance(form, Weighted):
            frozen[form.n_weights : form.n_weights + n_classes] = True  # its corrections, if any
        return frozen


def resolve_base(base: str | ParameterLearner) -> ParameterLearner:
    """Return the learner of the generative tables."""
    return PARAMETERS.resolve("m-estimate(m=1)" if base == "m-estimate" else base)


def _n_crossfit(options: Discriminative) -> int:
    """Return the number of folds for cross-fitting; 0 if all rows use the same tables."""
    if options.crossfit == "auto":
        return 0 if options.level == 4 else N_FOLDS
    return int(options.crossfit)


def join_layout(layout: Layout, rows: Rows, context: FitContext) -> Joint:
    """Return the tables used by rows: small families joined, those with many values separate."""
    columns = Columns.of(layout.domain)
    narrow, apart = list[FamilyCells](), list[FamilyCells]()
    for family in layout.families:
        joint_size = prod(arity + 1 for arity in family.shape)
        (narrow if family.contexts is None and joint_size <= MAX_JOINT else apart).append(family)
    families = [tuple(family.members.tolist()) for family in narrow]
    n_columns = 1 if layout.n_classes == 2 else layout.n_classes
    tables = join_families(families, columns, rows.n_rows, n_columns)
    weighed = weigh_joints(tables, columns, rows, context)
    blank = layout.n_cells - 1

    def find(at: int, digits: Sequence[Ints]) -> NDArray[np.integer]:
        start = narrow[at].start
        return start + narrow[at].find(digits, blank - start)

    wide = [np.append(np.arange(one.cells.start, one.cells.stop), blank) for one in apart]
    given = families, columns, tables, weighed, find, layout.n_cells
    return Joint.summed(*given, wide, partial(_locate_wide, apart))


def _locate_wide(
    families: Sequence[FamilyCells], starts: Sequence[int], codes: Codes
) -> NDArray[np.int32]:
    """Return each row's cell in families with their own tables, (n_rows, n_families)."""
    out = np.empty((codes.shape[1], len(families)), np.int32)
    for at, (family, start) in enumerate(zip(families, starts, strict=True)):
        out[:, at] = start + family.find(codes[family.members], family.n_contexts * family.arity)
    return out
