"""Drift: how new rows differ from those a model was trained on.

One pass over the new rows makes the same counts as `tanager.network.reference` for the training
rows, and keeps the class scores of a sample. Then all columns, edges of the network, class shares
and (with labels) the calibration are tested. Holm's procedure corrects for the number of tests; a
shift that has *moved* is both significant and large enough to matter. No model is perfect, so class
shares and calibration must differ both from their ideal and from what they were in training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import (
    CategoricalColumn,
    Chunk,
    Codebook,
    Codes,
    Column,
    MatchedTable,
    NumericColumn,
)
from tanager.codes.hashing import row_hash
from tanager.engines import Engine, resolve_engine
from tanager.errors import ConfigurationError, DataError
from tanager.network import shifts
from tanager.network.answers import SHOWN, align_columns
from tanager.network.decisions import is_number
from tanager.network.propagation import require_probabilities
from tanager.network.reference import (
    code_groups,
    count_pairs,
    count_with_class,
    labelled_rows,
    reference_of,
)
from tanager.network.shifts import Profile, Shift
from tanager.numerics import Floats, Ints, log_softmax, log_sum_exp
from tanager.progress import Progress

if TYPE_CHECKING:
    from tanager.network.network import Network

SCORED = 1_000_000  # class scores kept: number of rows times classes
MOST_SCORED = 100_000  # rows
CALIBRATION_EFFECT = 0.05  # least deviation of probabilities, in addition to one over the root
# of the number of training rows, the deviation of the model itself


@dataclass(frozen=True, eq=False)
class Watch:
    """How the raw values of one feature become cells, using finer codes than the model's."""

    column: Column  # codes raw values, with separate codes for "missing" and for unseen values
    codes: NDArray[np.uint16]  # (column.arity + 1,): the model's code for each of these codes
    cells: NDArray[np.int64]  # the cell of each code

    @classmethod
    def of(cls, column: Column, ends: Floats) -> Watch:
        """Return how to watch a column of a codebook; `ends` as in `Reference`."""
        watching: Column
        if isinstance(column, CategoricalColumn):
            n = len(column.values)
            watching, coarse, places = replace(column, missing_code=n), np.arange(n), np.arange(n)
        else:
            cuts, n = column.cuts, len(ends) or len(column.cuts) + 1
            bounds = np.concatenate([[np.nextafter(ends[0], -np.inf)], ends]) if len(ends) else cuts
            fine = np.union1d(cuts, bounds)
            coarse, places = (np.searchsorted(some, [*fine, np.inf]) for some in (cuts, bounds))
            if len(ends):  # the one below all intervals comes first
                places = np.where(places == 0, n, np.where(places > n, n + 1, places - 1))
            watching = NumericColumn(column.name, fine, len(fine) + 1, column.temporal)
        codes = np.array([*coarse, column.null_code, column.arity], np.uint16)
        return cls(watching, codes, np.array([*places, n + 2, n + 1]))


def watch_codebook(network: Network) -> tuple[list[Watch], Codebook]:
    """Return how to watch each feature, and a codebook with their columns."""
    codebook = network.codebook
    pairs = zip(codebook.columns, reference_of(network).ends, strict=True)
    watches = [Watch.of(column, ends) for column, ends in pairs]
    return watches, replace(codebook, columns=tuple(watch.column for watch in watches))


def find_unseen(network: Network, fine: Codes) -> tuple[Codes, Floats]:
    """Return the network's codes of watched rows, and log-probabilities of values never seen.

    Both are (n_features, n_rows): such values are unknown codes, others have 0; see `familiarity`.
    """
    reference, (watches, _) = reference_of(network), network.watching
    codes = np.empty(fine.shape, network.codebook.dtype)
    log_unseen, used = np.zeros(fine.shape), set(network.structure.selected)
    for at, (watch, cells) in enumerate(zip(watches, reference.cells, strict=True)):
        place = watch.cells[fine[at]]
        strange = (place >= len(cells) - 3) & (place < len(cells) - 1)
        codes[at] = np.where(strange, watch.codes[-1], watch.codes[fine[at]])
        if at in used and not network.codebook.leaves_out(watch.column.name):
            log_unseen[at, strange] = reference.log_unseen(at)
    return codes, log_unseen


def _log_probability(network: Network, codes: Codes, log_unseen: Floats) -> Floats:
    """Return log P(x) of rows, including unseen values, shape (n_rows,)."""
    joint = network.log_joint_of_codes(codes)
    return np.asarray(log_sum_exp(joint, axis=1) + log_unseen.sum(axis=0))


def familiarity(model: Any, X: Any) -> Floats:
    """Return, per row, the share of training rows that are no more probable.

    Near 0 for a row unlike the training rows; shape (n_rows,), accurate to half a percent.

    Notes
    -----
    The probability is P(x), with the class summed out. A category never seen in training
    contributes the probability of a new category, (n1 + 1) / (n + 1) if n1 of them
    occurred once in n rows; a number outside the training range contributes 1 / (n + 1).

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["rain", "cold"]] * 8 + [["sun", "warm"]] * 8 + [["sun", "cold"]] * 4
    >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1] * 8 + [0] * 12).network_
    >>> network.familiarity([["rain", "cold"], ["sun", "cold"], ["hail", "warm"]]).round(2)
    array([0.6, 0.2, 0. ])
    """
    network: Network = model._asked()
    require_probabilities(network)
    reference = reference_of(network)
    if reference.edited:
        raise ConfigurationError(
            "The network was edited after its fit, so how probable it finds the training rows "
            "isn't known. Ask the network as it was before, or use log_probability or surprise."
        )
    rows = find_unseen(network, network.watching[1].encode(X))
    return reference.familiarity(_log_probability(network, *rows))


def surprise(model: Any, X: Any) -> Floats:
    """Return log P(x_i | the rest of the row), exact: which features make a row unusual.

    The lower, the more unusual the value given the others; shape (n_rows, n_features).
    Missing values that are summed out, and features the network doesn't use, are 0;
    values never seen in training count as in `familiarity`.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["rain", "cold"]] * 8 + [["sun", "warm"]] * 8 + [["sun", "cold"]] * 4
    >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1] * 8 + [0] * 12).network_
    >>> network.surprise([["rain", "cold"], ["rain", "warm"]]).round(2)
    array([[-0.48, -0.15],
           [-2.01, -1.96]])
    """
    network: Network = model._asked()
    require_probabilities(network)
    codes, log_unseen = find_unseen(network, network.watching[1].encode(X))
    total, out = _log_probability(network, codes, log_unseen), log_unseen.T.copy()
    for feature in network.structure.selected:
        arity = network.codebook.columns[feature].arity
        known = np.flatnonzero(codes[feature] < arity)
        others = np.ascontiguousarray(codes[:, known])
        others[feature] = arity
        out[known, feature] = total[known] - _log_probability(network, others, log_unseen[:, known])
    return out


@dataclass(frozen=True)
class Drift:
    """How new rows differ from those a model was trained on."""

    shifts: tuple[Shift, ...]  # all tests: those that moved first, then by effect
    n_rows: int  # new rows
    n_training: int
    classes: tuple[Any, ...]
    expected_shares: tuple[float, ...]  # the share of each class expected by the model
    shares: tuple[float, ...]  # the share in the new rows: counted, or estimated (EM on the prior)
    labelled: bool  # whether labels were passed
    # The share of new rows that are no more probable than the least probable 1, 5, 25 and 50 % of
    # training rows; empty if the network has no P(x)
    familiarity: tuple[float, ...]
    alpha: float
    least: float
    profiles: tuple[Profile, ...] = ()

    @property
    def moved(self) -> tuple[Shift, ...]:
        """The shifts worth looking at, the largest first."""
        return tuple(shift for shift in self.shifts if shift.moved)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose own distribution moved, the largest shift first."""
        kinds = ("values", "missing", "outside", "unseen")
        found = (shift.columns[0] for shift in self.moved if shift.kind in kinds)
        return tuple(dict.fromkeys(found))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        facts = {**vars(self), "columns": self.columns}
        facts["profiles"] = [profile._asdict() for profile in self.profiles]
        facts["shifts"] = [{**s._asdict(), "columns": list(s.columns)} for s in self.shifts]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()}

    def to_pandas(self) -> Any:
        """Return all tests as a DataFrame; needs pandas."""
        import pandas as pd

        return pd.DataFrame(self.shifts, columns=Shift._fields)

    def __str__(self) -> str:
        head = f"{self.n_rows:,} rows compared with {self.n_training:,} training rows"
        n_tests, shown = len(self.shifts), self.moved[:SHOWN]
        if not shown:
            return f"{head}: no drift found in {n_tests} tests."
        p_values = ("< 0.001" if s.p_value < 0.001 else f"{s.p_value:.3f}" for s in shown)
        pairs = zip(shown, p_values, strict=True)
        rows = [(" × ".join(s.columns), s.kind, f"{s.effect:.3f}", p) for s, p in pairs]
        names, *lines = align_columns([("what", "how", "effect", "p"), *rows], 2)
        said = [f"{line}  {s.words}" for line, s in zip(lines, shown, strict=True)]
        rest = len(self.moved) - len(shown)
        more = [f"... {rest:,} more in `shifts`"] if rest else []
        found = f"{head}: {len(self.moved)} of {n_tests} tests found drift."
        return "\n".join([found, names, *said, *more])


def find_drift(
    network: Network,
    X: Any,
    y: Any = None,
    *,
    alpha: float = 0.05,
    least: float = 0.02,
    n_jobs: int | None = 1,
    engine: Engine | str = "local",
    progress: Progress | None = None,
) -> Drift:
    """Compare rows with the training rows, in one pass.

    Tests every column (values, missing rate, numbers outside the training range, categories never
    seen), every edge of the network, and the class shares.

    Parameters
    ----------
    X : table
        Read once, so paths to files larger than memory work too.
    y : array-like or str, optional
        Classes, or the name of their column in X. Class shares are then counted instead of
        estimated, and calibration and each feature's dependence on the class are tested too.
    alpha : float, default=0.05
        The probability of reporting any shift when nothing has changed.
    least : float, default=0.02
        The smallest effect to report: in large tables, even tiny changes are significant.
    n_jobs, engine, progress
        As for the classifier, but on one thread by default; the result doesn't depend on them.

    Returns
    -------
    Drift
        ``moved``, ``shifts``, ``columns``, ``to_dict``, ``to_pandas``.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [[float(i), "ab"[i % 2]] for i in range(200)]
    >>> clf = BayesNetClassifier("tan", "laplace").fit(X, [0, 1] * 100)
    >>> print(clf.network_.drift([[100 * a, b] for a, b in X]))
    200 rows compared with 200 training rows: 1 of 7 tests found drift.
    what  how      effect        p
    x0    outside   0.990  < 0.001  99.0 % of values above 199, the largest in training
    """
    _, codebook = network.watching
    for name, value in (("alpha", alpha), ("least", least)):
        if not (is_number(value) and 0 <= value < 1):
            raise ConfigurationError(f"{name}={value!r}. Allowed: a number from 0 to below 1.")
    target = y if isinstance(y, str) else None
    table = MatchedTable.of(codebook, X, target=target, ignore_extra=True)
    labels = None if y is None or target is not None else codebook.encode_labels(y)
    n_rows = table.source.n_rows
    if labels is not None and len(labels) != n_rows:
        raise DataError(f"X has {n_rows} rows, but y has {len(labels)} labels.")
    rows = labelled_rows(table, labels)
    most = min(MOST_SCORED, SCORED // len(codebook.classes))
    gathering = DriftPass(network, most / max(rows.n_rows, 1), y is not None)
    run = resolve_engine(engine, n_jobs).run
    return _judge(network, run(gathering, rows, progress or Progress(), "drift"), alpha, least)


class Gathered(NamedTuple):
    """The result of one pass over new rows: counts as in `Reference`, and scores of a sample."""

    cells: list[Floats]
    pairs: Floats
    with_class: Floats
    classes: Floats
    # Row indices, log-joints, labels and log P(x), with that of values never seen in training
    sample: list[tuple[Ints, Floats, Ints, Floats]]


@dataclass(frozen=True, eq=False)
class DriftPass:
    """Counts new rows as `Reference` counts the training rows; all counts are whole numbers."""

    network: Network
    share: float  # share of rows that are scored, chosen by a hash of their index
    labelled: bool

    def zero(self) -> Gathered:
        """Return empty counts."""
        reference, (watches, _) = reference_of(self.network), self.network.watching
        with_class = reference.class_counts if self.labelled else reference.class_counts[:0]
        cells = [np.zeros(len(watch.cells)) for watch in watches]
        every = (reference.pair_counts, with_class, reference.classes)
        pairs, by_class, classes = map(np.zeros_like, every)
        return Gathered(cells, pairs, by_class, classes, [])

    def update(self, state: Gathered, chunk: Chunk) -> Gathered:
        """Add the rows of a chunk."""
        reference, (watches, _) = reference_of(self.network), self.network.watching
        columns, groups = self.network.codebook.columns, []
        for at, (watch, codes) in enumerate(zip(watches, chunk.codes, strict=True)):
            state.cells[at] += np.bincount(codes, minlength=len(watch.cells))
            groups.append(code_groups(reference.bounds[at], columns[at])[watch.codes][codes])
        state.pairs[:] += count_pairs(groups, reference.pairs)
        indices, labels = chunk.indices, chunk.labels
        if self.labelled:
            n_classes = len(state.classes)
            state.classes[:] += np.bincount(labels, minlength=n_classes)
            state.with_class[:] += count_with_class(groups, labels, n_classes)
        taken = np.arange(chunk.n_rows)
        if self.share < 1:
            taken = np.flatnonzero(row_hash(0, indices) < np.uint64(int(self.share * 2**64)))
        fine = chunk.codes[:, taken]
        codes = np.empty(fine.shape, self.network.codebook.dtype)
        for watch, some, out in zip(watches, fine, codes, strict=True):
            out[:] = watch.codes[some]
        joint = self.network.log_joint_of_codes(codes)
        log_x = log_sum_exp(joint, axis=1)
        if len(reference.scores):
            known, log_unseen = find_unseen(self.network, fine)
            odd = np.flatnonzero((known != codes).any(axis=0) | log_unseen.any(axis=0))
            some = np.ascontiguousarray(known[:, odd])
            log_x[odd] = _log_probability(self.network, some, log_unseen[:, odd])
        state.sample.append((indices[taken], joint, labels[taken].astype(np.int64), log_x))
        return state

    def merge(self, a: Gathered, b: Gathered) -> Gathered:
        """Return the sum of both counts."""
        cells = [x + y for x, y in zip(a.cells, b.cells, strict=True)]
        summed = (a.pairs + b.pairs, a.with_class + b.with_class, a.classes + b.classes)
        return Gathered(cells, *summed, a.sample + b.sample)

    def finish(self, state: Gathered) -> Gathered:
        """Convert codes to cells, and sort the sample in table order."""
        trained, (watches, _) = reference_of(self.network).cells, self.network.watching
        every = zip(watches, state.cells, trained, strict=True)
        cells = [np.bincount(w.cells, n, len(old)).astype(np.float64) for w, n, old in every]
        order = np.argsort(np.concatenate([part[0] for part in state.sample]))
        parts = zip(*state.sample, strict=True)
        indices, joint, labels, log_x = (np.concatenate(part)[order] for part in parts)
        return state._replace(cells=cells, sample=[(indices, joint, labels, log_x)])


def _judge(network: Network, found: Gathered, alpha: float, least: float) -> Drift:
    """Run all tests, and correct for their number."""
    reference, codebook = reference_of(network), network.codebook
    names, target = codebook.domain.names, codebook.target.name
    tests, profiles, labelled = list[Shift](), list[Profile](), len(found.with_class) > 0
    counts = zip(codebook.columns, reference.ends, reference.cells, found.cells, strict=True)
    for column, *counted in counts:
        if not codebook.leaves_out(column.name):
            tests += shifts.find_column_shifts(column, *counted)
            profiles.append(shifts.profile_column(column, *counted))
    for (i, j), *both in zip(reference.pairs, reference.pair_counts, found.pairs, strict=True):
        tests.append(shifts.find_pair_shift("pair", (names[i], names[j]), *both))
    _, joint, labels, log_x = found.sample[0]
    posteriors = np.exp(log_softmax(joint, axis=1))
    n_training = float(reference.classes.sum())
    if labelled:
        for i in network.structure.selected:
            old, new = reference.class_counts[i], found.with_class[i]
            tests.append(shifts.find_pair_shift("given class", (names[i], target), old, new))
        shares = found.classes / found.classes.sum()
        tests.append(shifts.find_class_shift(reference, found.classes, codebook))
        if not reference.edited:
            tests += shifts.find_calibration_shifts(posteriors, labels, reference, codebook)
    else:
        shares, by_em = shifts.find_estimated_shift(posteriors, reference, codebook)
        if not reference.edited:
            tests.append(by_em)
    familiar: tuple[float, ...] = ()
    if len(reference.scores):
        found_at = reference.familiarity(log_x)
        familiar = tuple(float((found_at <= level).mean()) for level in (0.01, 0.05, 0.25, 0.5))
    return Drift(
        shifts.correct_shifts(tests, alpha, least, CALIBRATION_EFFECT + n_training**-0.5),
        int(found.cells[0].sum()),
        round(n_training),
        tuple(codebook.classes.tolist()),
        tuple(reference.expected.tolist()),
        tuple(shares.tolist()),
        labelled,
        familiar,
        alpha,
        least,
        tuple(profiles),
    )
