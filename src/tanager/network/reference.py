r"""The reference: counts of the training rows, to recognise them and compare others with them.

It stores counts, not rows. Each feature's values are counted in *cells*: a category's values, a
number's intervals between quantiles (`tanager.codes.columns.SeenNumbers`), and three more::

    cells      0 .. K-1   values or intervals seen in training
               K          below the smallest number in training
               K+1        above the largest; for a category: a value never seen
               K+2        missing

For pairs, the model's codes are merged into at most `MOST_GROUPS` groups of similar weight.

The class shares of rows without labels are estimated by EM on the prior: with posteriors
:math:`p_{rc}` under the shares :math:`\pi^0`, the shares :math:`\pi` that maximise
:math:`\sum_r \log \sum_c p_{rc} \pi_c / \pi^0_c` (Saerens, Latinne and Decaestecker 2002,
DOI 10.1162/089976602753284446). EM is slow if classes are hard to distinguish: SQUAREM extrapolates
its steps (Varadhan and Roland 2008, DOI 10.1111/j.1467-9469.2007.00585.x).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Chunk, Column, MatchedTable, NumericColumn, Rows
from tanager.codes.columns import SeenNumbers
from tanager.codes.hashing import sample_rows
from tanager.counts import Counts, fingerprint_counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.numerics import Floats, log_softmax, log_sum_exp
from tanager.parameters.tables import HeldOutRows
from tanager.sources import Fragment

if TYPE_CHECKING:
    from tanager.network.network import Network

Bytes = NDArray[np.uint8]

MOST_GROUPS = 5  # of a feature's cells, in pairs
SAMPLE_ROWS = 100_000  # training rows used to count pairs and compute log P(x)
FEW_ROWS, FEW_CELLS = 20_000, 200_000  # of these, for class shares and calibration
BLOCK_CELLS = 1 << 19  # rows times classes of the log-joints in memory at a time
LEVELS = np.union1d([0.0005, 0.001, 0.002, 0.003, 0.004], np.linspace(0.0, 1.0, 201))
INSIDE = 1e-9, 1 - 1e-9  # probabilities with a finite logit
STILL = 1e-9  # change in a share or calibration that counts as converged
_KEY = 0xD2


@dataclass(frozen=True, eq=False)
class Reference:
    """Counts of the training rows."""

    classes: Floats  # (n_classes,): rows of each class
    expected: Floats  # the class shares of future rows: those in training, or ``class_prior``
    assumed: Floats  # the shares that posteriors assume: the expected ones times ``class_weight``
    # The shares of training rows estimated by `estimate_shares`; empty for an edited network
    estimated: Floats
    calibration: Floats  # (n_classes, 2): intercept and slope of each class's `Recalibration`
    ends: tuple[Floats, ...]  # per feature, the intervals of a number; empty if cells are codes
    cells: tuple[Floats, ...]  # per feature, the rows in each cell, (K + 3,)
    bounds: tuple[NDArray[np.int64], ...]  # the first code of every group except the first
    pairs: tuple[tuple[int, int], ...]  # parent and child in the network
    pair_counts: Floats  # (n_pairs, MOST_GROUPS, MOST_GROUPS): rows of a sample by both groups
    class_counts: Floats  # (n_features, MOST_GROUPS, n_classes): its rows by group and class
    scores: Floats  # quantiles of its log P(x) at `LEVELS`; empty for scores

    @property
    def edited(self) -> bool:
        """Whether the network was edited since, so its results on training rows are unknown."""
        return not len(self.estimated)

    def after_edit(self, log_prior: Floats) -> Reference:
        """Return what remains valid for an edited network: the counts of training rows."""
        nothing, assumed = np.zeros(0), np.exp(log_softmax(log_prior, axis=0))
        return replace(self, assumed=assumed, estimated=nothing, scores=nothing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a model file."""
        found = {name: _plain(value) for name, value in vars(self).items()}
        return {**found, "calibration": self.calibration.tolist()}

    def log_unseen(self, feature: int) -> float:
        """Return the log-probability of observing a value of a feature that wasn't in training."""
        known = self.cells[feature][:-3]
        once = 0 if len(self.ends[feature]) else int(((known > 0) & (known <= 1)).sum())
        return float(np.log((once + 1) / (max(float(known.sum()), once) + 1)))

    def familiarity(self, log_probability: Floats) -> Floats:
        """Return the share of training rows at most as probable, to half a percent."""
        log_probability = log_probability + 1e-9  # so that rounding doesn't separate equal rows
        place = np.searchsorted(self.scores, log_probability, side="right")
        low = np.append(-np.inf, self.scores)[place]
        high = np.append(self.scores, np.inf)[place]
        with np.errstate(invalid="ignore"):
            inside = np.nan_to_num((log_probability - low) / (high - low))
        levels = np.concatenate([[0.0], LEVELS, [1.0]])
        return np.asarray(levels[place] + inside * (levels[place + 1] - levels[place]))


def _plain(value: Any) -> Any:
    """Return arrays as flat lists, whole numbers as integers, and tuples as lists."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if not isinstance(value, np.ndarray):
        return value
    whole = (value == np.rint(value)).all() and np.abs(value).max(initial=0) < 2**53
    return (value.astype(np.int64) if whole else value).ravel().tolist()


def code_groups(bounds: NDArray[np.int64], column: Column) -> Bytes:
    """Return the group of each code of a feature; `MOST_GROUPS` for missing and unknown."""
    n_known = column.arity - (column.missing_code is not None)
    found = np.searchsorted(bounds, np.arange(column.arity + 1), side="right")
    found[n_known:] = MOST_GROUPS
    return found.astype(np.uint8)


def _join_codes(known: Floats) -> NDArray[np.int64]:
    """Return the first code of every group except the first: neighbours of similar weight."""
    middle = np.cumsum(known) - known / 2
    joined = np.floor(middle * MOST_GROUPS / max(float(known.sum()), 1e-300))
    return np.searchsorted(joined, np.arange(1, MOST_GROUPS))


def reference_of(network: Network) -> Reference:
    """Return a network's reference; raise if it has none."""
    if network.reference is None:
        raise ConfigurationError(
            "This model doesn't know what its training rows were like: it was saved by an earlier "
            "release of Tanager, was updated by partial_fit, or wasn't fitted to rows. Fit it "
            "again to compare rows with them."
        )
    return network.reference


def few_rows(n_classes: int) -> slice:
    """Return the rows on which class shares and calibration are measured, by number of classes."""
    return slice(max(1, min(FEW_ROWS, FEW_CELLS // n_classes)))


def measure_reference(
    network: Network,
    rows: Rows,
    counts: Counts,
    shares: tuple[Floats, Floats],
    held: HeldOutRows | None,
    context: FitContext,
) -> Reference:
    """Return the reference of a network that was just fitted.

    Features are counted in all training `rows`; pairs and log P(x) in a sample. `shares` are the
    expected and the assumed class shares, up to a factor; class shares and calibration are measured
    on the held-out rows if there are any, otherwise on the sample.
    """
    columns, structure = network.codebook.columns, network.structure
    ends, cells, bounds, total = [], [], [], float(counts.classes.sum())
    for column, by_class in zip(columns, counts.values, strict=True):
        values = by_class.sum(axis=1)[: len(by_class) - (column.missing_code is not None)]
        seen = column.seen if isinstance(column, NumericColumn) else None
        seen = seen or SeenNumbers(np.zeros(0), values)
        # Intervals of large tables are counted in a sample, with the same share of gaps.
        known = float(values.sum())
        missing = (total - known) * float(seen.counts.sum()) / known if known > 0 else total
        ends.append(seen.ends)
        cells.append(np.array([*seen.counts, 0.0, 0.0, np.rint(missing)]))
        bounds.append(_join_codes(values))
    pairs = [(parent, child) for child, parents in structure.families for parent in parents]
    n_classes = len(counts.classes)
    expected, assumed = (one / one.sum() for one in shares)
    taken = sample_rows(rows, context.row_seed(_KEY), SAMPLE_ROWS, context).gather()
    groups = [
        code_groups(bound, column)[np.minimum(codes, column.arity)]
        for bound, column, codes in zip(bounds, columns, taken.codes, strict=True)
    ]
    scores = np.zeros(0)
    if network.tables.normalized:
        parts = taken.split(BLOCK_CELLS // n_classes)
        logs = [log_sum_exp(network.log_joint_of_codes(part.codes), axis=1) for part in parts]
        log_x = np.concatenate(logs)
        scores = np.quantile(log_x, LEVELS, method="inverted_cdf", weights=taken.weights)
    few = few_rows(n_classes)
    if held is None:
        log_posteriors = log_softmax(network.log_joint_of_codes(taken.codes[:, few]), axis=1)
        held = HeldOutRows(log_posteriors, taken.labels[few], taken.row_weights[few])
    posteriors, labels = np.exp(held.log_posteriors[few]), held.labels[few]
    calibration = [
        recalibrate(posteriors[:, c], (labels == c).astype(np.float64), held.weights[few])
        for c in range(n_classes)
    ]
    return Reference(
        np.array(counts.classes),
        expected,
        assumed,
        estimate_shares(posteriors, assumed, 100),
        np.array(calibration),
        tuple(ends),
        tuple(cells),
        tuple(bounds),
        tuple(pairs),
        count_pairs(groups, pairs, taken.weights),
        count_with_class(groups, taken.labels, n_classes, taken.weights),
        np.asarray(scores, np.float64),
    )


def count_pairs(
    groups: Sequence[Bytes], pairs: Sequence[tuple[int, int]], weights: Floats | None = None
) -> Floats:
    """Count rows by the groups of each pair, (n_pairs, MOST_GROUPS, MOST_GROUPS)."""
    side = MOST_GROUPS + 1  # the last is for unknown values
    out = np.zeros((len(pairs), side, side))
    for at, (i, j) in enumerate(pairs):
        out[at].flat = np.bincount(groups[i] * np.uint8(side) + groups[j], weights, side * side)
    return out[:, :-1, :-1]


def count_with_class(
    groups: Sequence[Bytes], labels: NDArray[Any], n_classes: int, weights: Floats | None = None
) -> Floats:
    """Count rows by group and class for each feature, (n_features, MOST_GROUPS, n_classes)."""
    return np.stack([count_values(one, labels, MOST_GROUPS, n_classes, weights) for one in groups])


def count_values(
    codes: NDArray[Any],
    labels: NDArray[Any],
    arity: int,
    n_classes: int,
    weights: Floats | None = None,
) -> Floats:
    """Return N(x, y) of one feature, shape (arity, n_classes), without unknown values."""
    cells, size = codes.astype(np.int64) * n_classes + labels, arity * n_classes
    return np.bincount(cells, weights, size)[:size].reshape(arity, n_classes).astype(np.float64)


def estimate_shares(posteriors: Floats, assumed: Floats, n_steps: int = 500) -> Floats:
    """Return the class shares of rows without labels, by EM on the prior.

    `posteriors`, (n_rows, n_classes), assume the shares `assumed`; `n_steps` is the largest number
    of extrapolated steps.

    >>> posteriors = np.array([[0.9, 0.1]] * 30 + [[0.1, 0.9]] * 70)
    >>> estimate_shares(posteriors, np.array([0.5, 0.5])).round(3)
    array([0.25, 0.75])
    """
    ratios = posteriors / np.where(assumed > 0, assumed, np.inf)

    def step(shares: Floats) -> Floats:
        total = np.maximum(ratios @ shares, 1e-300)
        return np.asarray(shares * ((1.0 / total) @ ratios) / len(ratios))

    shares = np.array(assumed, np.float64)
    for _ in range(n_steps):
        once = step(shares)
        twice = step(once)
        change, bend = once - shares, twice - 2 * once + shares
        if np.abs(change).max() < STILL:
            break
        ratio = np.linalg.norm(change).item() / max(np.linalg.norm(bend).item(), 1e-300)
        length = min(max(1.0, ratio), 1e3)
        far = shares + 2 * length * change + length**2 * bend
        # An extrapolation beyond the simplex isn't a distribution, so use the plain step.
        shares = step(far / far.sum()) if (far > 0).all() else twice
    return shares


def log_likelihood_of(shares: Floats, posteriors: Floats, assumed: Floats) -> float:
    """Return the log-likelihood of class shares, up to a constant."""
    ratios = posteriors / np.where(assumed > 0, assumed, np.inf)
    return float(np.log(np.maximum(ratios @ shares, 1e-300)).sum())


class Recalibration(NamedTuple):
    """Relates observed classes to predicted probabilities: logit q = intercept + slope logit p."""

    intercept: float
    slope: float

    def apply(self, p: Floats) -> Floats:
        """Return the probabilities q."""
        return _expit(self.intercept + self.slope * _logit(p))


def _logit(p: Floats) -> Floats:
    p = np.clip(p, *INSIDE)
    return np.log(p) - np.log1p(-p)


def _expit(logits: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -logits))


def recalibrate(p: Floats, hit: Floats, weights: Floats | None = None) -> Recalibration:
    """Return Cox's recalibration of the probabilities of one class, by Newton's method.

    `hit` is 1 if the row is of the class, otherwise 0. A normal prior around (0, 1) with the weight
    of about one row keeps it finite if the probabilities separate the classes.
    """
    w = np.ones(len(p)) if weights is None else weights / max(float(weights.mean()), 1e-300)
    design = np.column_stack([np.ones(len(p)), _logit(p)])
    at = ideal = np.array([0.0, 1.0])
    for _ in range(50):
        q = _expit(design @ at)
        slope = design.T @ (w * (hit - q)) - (at - ideal)
        curvature = (design * (w * q * (1 - q))[:, None]).T @ design + np.eye(2)
        change = np.linalg.solve(curvature, slope)
        at = at + np.clip(change, -1.0, 1.0)
        if np.abs(change).max() < STILL:
            break
    return Recalibration(*at.tolist())


def calibration_test(p: Floats, hit: Floats) -> tuple[float, float]:
    """Return the score test's statistic against Cox's recalibration, and how far that moves p."""
    p = np.clip(p, *INSIDE)
    design = np.column_stack([np.ones(len(p)), _logit(p)])
    slope = design.T @ (hit - p)
    curvature = (design * (p * (1 - p))[:, None]).T @ design + 1e-9 * np.eye(2)
    statistic = float(slope @ np.linalg.solve(curvature, slope))
    return statistic, float(np.abs(recalibrate(p, hit).apply(p) - p).mean())


def own_rows(info: Mapping[str, Any], rows: Rows) -> bool | None:
    """Return whether rows are those of the fit that reported `info`; None if it can't be told."""
    stored = info.get("codes", {})
    if "fingerprint" not in stored:
        return None
    if stored.get("rows") != rows.n_rows:
        return False
    domain = rows.domain
    classes = np.zeros(domain.n_classes)  # N(y), and N(x, y) of every feature
    values = [np.zeros((arity, domain.n_classes)) for arity in domain.arities.tolist()]
    for chunk in rows.chunks():
        classes += np.bincount(chunk.labels, minlength=domain.n_classes)
        for known, column in zip(values, chunk.codes, strict=True):
            known += count_values(column, chunk.labels, *known.shape)
    return bool(stored["fingerprint"] == fingerprint_counts(classes, values))


def labelled_rows(table: MatchedTable, labels: NDArray[np.uint16] | None = None) -> Rows:
    """Return a table's rows, coded when read; labels are passed, its target column, or zeros."""
    pieces = [
        _LabelledPiece(table, one, labels if labels is None else labels[one.start :][: one.n_rows])
        for one in table.source.fragments()
    ]
    return Rows(table.codebook.domain, pieces, weighted=False)


@dataclass(frozen=True, eq=False)
class _LabelledPiece:
    """Where to read some rows."""

    table: MatchedTable
    fragment: Fragment
    labels: NDArray[np.uint16] | None  # of the fragment's rows, if they aren't a column

    @property
    def n_rows(self) -> int:
        return self.fragment.n_rows

    def chunks(self) -> Iterator[Chunk]:
        for batch in self.table.code(self.fragment):
            labels = np.zeros(batch.n_rows, np.uint16)
            if self.table.target is not None:
                labels = self.table.labels(batch)
            elif self.labels is not None:
                labels = self.labels[batch.start - self.fragment.start :][: batch.n_rows]
            yield Chunk(batch.codes, labels, None, batch.start)
