r"""The objective of every batch fit; the fit of terms, and the residuals of an additive model.

**The objective** of free parameters z is the loss of the rows plus a ridge with a centre,

.. math:: F(z) = \sum_i w_i \, \ell(s_i(z), y_i) + \tfrac12 \sum_j \lambda_j \delta_j^2,
          \qquad \delta = z - c,

with one precision :math:`\lambda` per parameter, shared within a layer. How z becomes the rows'
scores :math:`s_i`, and gradients w.r.t. scores become those w.r.t. z:

========  ==============================  ===========================================
array     shape                           by
========  ==============================  ===========================================
z         (n_free,)                       the optimiser
scores    (n_sets, n_cells, n_columns)    a parametrisation: `Terms` (free, smooth, or
                                          monotone), `Direct`, `Extended`, `Weighted`
tables    (n_sets, n_tables, n_columns)   `Joint`: sums of families in one look-up
s         (n_rows, n_columns)             `LocatedTable`: one cell per table and row
========  ==============================  ===========================================

all float64 and C-contiguous. There is one column per class, or a single one for two classes. The
loss is a pass over the rows; everything else has the size of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Codes, Rows
from tanager.codes.hashing import Fold, sample_rows
from tanager.engines import FitContext, LocalEngine
from tanager.loglinear.cells import Terms
from tanager.loglinear.joining import Columns
from tanager.loglinear.optimiser import Curvature, Function, minimise, remembered, solve_linear
from tanager.loglinear.rows import LocatedTerms, RowCells
from tanager.numerics import Floats, Ints, one_blas_thread

LEAST_SHARE = 1e-9  # assigned to a class without rows
FAMILY_PRIOR = 4.0  # weight, in parameters, of the prior that a layer's families are alike
RELATIVE = (0.03, 300.0)  # bounds of a family's precision, relative to its layer's
WORKING = 8  # approximate number of parameter vectors in a fit, besides its memory
CLASS_PRECISION = 1e-4  # of the class node, around the class shares: ensures an optimum

STEPS = 12  # of conjugate gradients, to draw parameters

# Of the additive model whose residuals are wanted:
MAX_ROWS, LEAST_ROWS = 20_000, 2_000  # sampled: as many as
MAX_NUMBERS = 1 << 22  # allows, as rows times classes
N_FOLDS = 3
STRENGTH = 1.0  # of the prior on the additive scores
ROWS_KEY, FOLDS_KEY = 7_301, 7_302  # keys of the random streams


class Penalty(NamedTuple):
    """A Gaussian prior."""

    strength: Floats  # (n_free,): the precision of each parameter
    centre: Floats  # (n_free,)

    def value(self, free: Floats) -> tuple[float, Floats]:
        """Return the penalty and its gradient."""
        away = free - self.centre
        gradient = self.strength * away
        return 0.5 * float(np.dot(gradient, away)), gradient


def penalised(
    loss: Function, penalty: Penalty | None, frozen: NDArray[np.bool_] | None = None
) -> Function:
    """Return the penalised loss, with its gradient, as a function of free parameters (n_free,).

    `loss` returns a new array; `frozen`, (n_free,), are parameters that keep their initial value.
    """

    def objective(free: Floats) -> tuple[float, Floats]:
        value, gradient = loss(free)
        if penalty is not None:
            extra, pull = penalty.value(free)
            value += extra
            gradient += pull
        if frozen is not None:
            gradient[frozen] = 0.0
        return value, gradient

    return objective


class Settings(NamedTuple):
    """When the optimiser stops: by number of iterations, or by relative improvement."""

    max_iter: int = 40
    tol: float = 1e-3

    def finer(self, factor: float) -> Settings:
        """Return the settings for a final fit, as opposed to one only scored on held-out rows."""
        return Settings(2 * self.max_iter, self.tol / factor)


class ScaledCurvature(NamedTuple):
    """The curvature of an objective in scaled parameters, with its prior and the scale."""

    curvature: Curvature
    precision: Floats  # (n_cells, 1)
    scale: Floats  # (n_cells, n_columns)

    def under(self, precision: Floats, scale: Floats) -> Curvature:
        """Return the curvature of the same loss under another prior and scale."""
        ratio = (self.scale / scale).ravel()
        stiffer = ((precision - self.precision) * self.scale * scale).ravel()
        steps, changes = self.curvature.steps, self.curvature.changes
        others, extra = np.empty_like(changes), np.empty(len(ratio))
        for step, change, other in zip(steps, changes, others, strict=True):  # row by row: cached
            np.divide(change, ratio, out=other)
            other += np.multiply(stiffer, step, out=extra)
        return self.curvature.moved(steps * ratio, others)


class Fit(NamedTuple):
    """Fitted parameters."""

    free: Floats  # (n_cells, n_columns)
    objective: float
    passes: int  # evaluations of the objective, each one pass over the rows
    converged: bool
    curvature: ScaledCurvature | None = None  # estimated second derivatives
    # (n_families,): the precision of each family's prior relative to its layer's
    relative: Floats | None = None


def fit_bytes(terms: Terms, names: Sequence[str]) -> dict[str, int]:
    """Return the approximate bytes that a fit of terms takes, by the feature they are of."""
    each = 8 * terms.n_columns * (2 * remembered(terms.n_cells * terms.n_columns) + WORKING)
    cells = np.bincount(terms.owners[1:], minlength=len(terms.families)).tolist()
    sizes = dict.fromkeys(names, 0)
    for family, number in zip(terms.families, cells, strict=True):
        sizes[names[family[-1] % len(names)]] += each * number
    return sizes


@one_blas_thread()
def fit_scores(
    terms: Terms,
    rows: LocatedTerms,
    strengths: Sequence[float],
    class_shares: Floats,
    *,
    settings: Settings,
    start: Floats | Fit | None = None,
    adapt: bool = False,
) -> Fit:
    """Fit the parameters of terms by penalised conditional likelihood.

    strengths: precision of the Gaussian prior for the layers with 0, 1, ... parents.
    class_shares: shape (n_classes,); the approximate class shares: they scale the parameters, and
        the class node starts at their logarithms, the centre of its prior.
    start: shape (n_cells, n_columns); the optimiser's starting point; None uses only class shares.
        A fit of the same terms also gives its curvature, and the relative precisions.
    adapt: whether each family has its own precision, relative to its layer's, estimated from the
        fit given as `start` or, if that isn't a fit, from a first one.

    Parameters are scaled by the square root of their approximate second derivative: the rows'
    weight in each cell, through the bases, plus the prior.
    """
    relative = start.relative if isinstance(start, Fit) else None
    given = terms, rows, strengths, class_shares, settings
    if not adapt:
        return _descend(*given, start, None)
    passes = 0
    if relative is None:
        start = _descend(*given, start, None)
        passes, relative = start.passes, relative_precisions(terms, start, strengths, class_shares)
    fit = _descend(*given, start, relative)
    relative = relative_precisions(terms, fit, strengths, class_shares, relative)
    return fit._replace(passes=fit.passes + passes, relative=relative)


def cell_precisions(
    terms: Terms, strengths: Sequence[float], relative: Floats | None = None
) -> Floats:
    """Return the precision of each cell's prior, (n_cells,), from those of layers."""
    out = np.array([CLASS_PRECISION, *strengths])[terms.depths + 1]
    if relative is not None:
        out[1:] *= relative[terms.owners[1:]]
    # Two classes share one column, each half of it: the same prior on both halves.
    return out * (0.5 if terms.n_columns == 1 else 1.0)


def relative_precisions(
    terms: Terms,
    fit: Fit,
    strengths: Sequence[float],
    class_shares: Floats,
    relative: Floats | None = None,
) -> Floats:
    r"""Estimate the precision of each family's prior from its fitted parameters, (n_families,).

    The evidence for a precision is maximal at :math:`\lambda = \gamma / \sum_j z_j^2` with
    :math:`\gamma = \sum_j h_j / (h_j + \lambda)` the number of parameters determined by the rows,
    not by the prior (MacKay 1992, DOI 10.1162/neco.1992.4.3.415, section 4.4). `FAMILY_PRIOR`
    pseudo-parameters that agree with the layer are added. The result is relative to the layer's
    median: its overall strength is chosen on held-out rows.
    """
    own = cell_precisions(terms, strengths, relative)[:, None]
    steep = _curvature(terms, class_shares)
    told = (steep / (steep + own)).sum(axis=1)[1:]
    size = (fit.free[1:] ** 2).sum(axis=1)
    owners, n_families = terms.owners[1:], len(terms.families)
    layer = np.asarray(strengths)[terms.n_parents]
    told = np.bincount(owners, told, n_families) + FAMILY_PRIOR
    size = np.bincount(owners, size, n_families) + FAMILY_PRIOR / layer
    out = np.log(told / size)
    for depth in range(len(strengths)):
        own = np.sort(out[terms.n_parents == depth])
        if own.size:  # the median: NumPy's own takes as long as everything else here
            out[terms.n_parents == depth] -= 0.5 * (own[(own.size - 1) // 2] + own[own.size // 2])
    return np.exp(np.clip(out, *np.log(RELATIVE)))


def _descend(
    terms: Terms,
    rows: LocatedTerms,
    strengths: Sequence[float],
    class_shares: Floats,
    settings: Settings,
    start: Floats | Fit | None,
    relative: Floats | None,
) -> Fit:
    """Minimise the loss of the rows plus a penalty with known precisions."""
    shape = (terms.n_cells, terms.n_columns)
    precision = cell_precisions(terms, strengths, relative)[:, None]
    # With it no direction is much steeper than another.
    scale = 1.0 / np.sqrt(_curvature(terms, class_shares) + precision)
    units, centre = scale.ravel(), np.zeros(shape)
    logs = np.log(np.maximum(class_shares, LEAST_SHARE))  # the class node's scores alone
    centre[0] = logs[1:] - logs[:1] if terms.n_columns == 1 else logs - logs.mean()
    spread = np.broadcast_to(precision, shape).ravel()

    def loss(scaled: Floats) -> tuple[float, Floats]:
        value, slopes = rows.evaluate((scaled * units).reshape(shape))
        return value, slopes.ravel() * units

    known = start.curvature if isinstance(start, Fit) else None
    first = start.free if isinstance(start, Fit) else centre if start is None else start
    steps = terms.steps
    found = minimise(
        penalised(loss, Penalty(spread * units * units, centre.ravel() / units)),
        (first / scale).ravel(),
        **settings._asdict(),
        # A step that's safe for one table is too long for the sum of many.
        first_step=1.0 / (1.0 + len(terms.families)) ** 0.5,
        curvature=known and known.under(precision, scale),
        # The bounds are zero or infinite, so scaling the parameters doesn't change them.
        bounds=None if steps is None else (steps.low.ravel(), steps.high.ravel()),
    )
    free = found.at.reshape(shape) * scale
    kept = None if found.curvature is None else ScaledCurvature(found.curvature, precision, scale)
    return Fit(free, found.value, found.evaluations, found.converged, kept)


def _curvature(terms: Terms, class_shares: Floats) -> Floats:
    """Return approximate second derivatives of the loss, (n_cells, n_columns)."""
    spread = class_shares * (1.0 - class_shares) + 0.01
    return 0.5 * terms.parameter_mass[:, None] * (spread[1:2] if terms.n_columns == 1 else spread)


def draw_parameters(
    terms: Terms,
    cells: RowCells,
    curvature: Floats,
    precision: Floats,
    n_draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Draw parameters from their posterior given rows, (n_cells, n_draws), with mean zero.

    `curvature`, (n_rows,), is the weight times the variance of each row's class, `precision`,
    (n_cells,), that of the prior.
    """
    mean = curvature.sum() / max(float(terms.mass[0]), 1e-300)
    scale = 1.0 / (terms.parameter_mass * mean + precision)[:, None]

    def back(rows: Floats) -> Floats:
        return terms.pull(cells.share(rows, terms.joint.n_cells))

    def times(free: Floats) -> Floats:
        rows = cells.totals(terms.expand(free))
        rows *= curvature[:, None]
        return back(rows) + precision[:, None] * free

    noise = rng.standard_normal((len(curvature), n_draws)) * np.sqrt(curvature)[:, None]
    prior = np.sqrt(precision)[:, None] * rng.standard_normal((terms.n_cells, n_draws))
    wanted = back(noise) + prior
    wanted[terms.blank] = 0.0  # not parameters
    return solve_linear(times, wanted, scale, STEPS)


class Residuals(NamedTuple):
    """Rows with the residuals of a model that wasn't trained on them."""

    codes: Codes  # (n_features, n_rows)
    residuals: Floats  # (n_rows, n_classes): [own class] - posterior, times the row's weight
    spreads: Floats  # (n_rows, n_classes): their variances, times the row's weight
    weights: Floats  # (n_rows,)

    def take(self, rows: Ints) -> Residuals:
        """Return some of the rows."""
        codes = np.ascontiguousarray(self.codes[:, rows])
        return Residuals(codes, self.residuals[rows], self.spreads[rows], self.weights[rows])


@one_blas_thread()
def find_residuals(rows: Rows, context: FitContext, max_rows: int = MAX_ROWS) -> Residuals:
    """Fit additive models, smooth along order, to a sample; return out-of-fold residuals."""
    max_rows = min(max_rows, max(MAX_NUMBERS // rows.domain.n_classes, LEAST_ROWS))
    rows = sample_rows(rows, context.row_seed(ROWS_KEY), max_rows, context)
    here, domain, chunk = replace(context, engine=LocalEngine()), rows.domain, rows.gather()
    alone = [(feature,) for feature in range(domain.n_features)]
    terms = Terms(alone, Columns.of(domain), rows, here)
    context.check_tables(fit_bytes(terms, domain.names), domain.n_classes)
    seed = context.row_seed(FOLDS_KEY)
    folds = [Fold(seed, N_FOLDS, fold, inside=False) for fold in range(N_FOLDS)]
    located = LocatedTerms(terms, rows, here, folds[0])
    shares = np.bincount(chunk.labels, chunk.weights, domain.n_classes) / rows.total_weight
    said = np.zeros((rows.n_rows, domain.n_classes))
    for fold in folds:
        without = located.other(fold)
        fit = fit_scores(terms, without, [STRENGTH], shares, settings=Settings(30, 1e-4))
        scores = without.log_joint(fit.free, left_out=True)
        native.normalize(scores, False)
        said[~fold(chunk.indices)] = scores
    weights = chunk.row_weights
    spreads, residuals = said * (1.0 - said) * weights[:, None], -said
    residuals[np.arange(chunk.n_rows), chunk.labels] += 1.0
    residuals *= weights[:, None]
    return Residuals(chunk.codes, residuals, spreads, weights)
