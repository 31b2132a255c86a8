"""Tests for drift of columns, pairs of features, class shares and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tanager.codes import Codebook, Column, NumericColumn
from tanager.codes.columns import show_cuts
from tanager.network.reference import (
    Recalibration,
    Reference,
    calibration_test,
    estimate_shares,
    log_likelihood_of,
    recalibrate,
)
from tanager.numerics import Floats, Ints

LEAST_EXPECTED = 5.0  # rows per cell in either table, for a chi-square test
MOST_CELLS = 20  # per column in one test
MOST_SHOWN = 12  # categories of a column in its profile


class Shift(NamedTuple):
    """The result of one test for drift.

    For a column: "values" (the distribution of known values), "missing" (the rate), "outside"
    (numbers outside the training range) or "unseen" (categories). Otherwise "pair" (the dependence
    of two features), "given class" (of a feature and the class), "classes" (their shares), or
    "calibration" (of probabilities).
    """

    kind: str
    columns: tuple[str, ...]  # or the class, for calibration
    effect: float  # the share of rows that would have to change, or how far probabilities are off
    p_value: float  # adjusted for the number of tests (Holm)
    moved: bool = False  # significant, and large enough to matter
    words: str = ""  # description of the change


class Profile(NamedTuple):
    """A column's distribution in training and now: the share of rows per interval or value."""

    column: str
    labels: tuple[str, ...]
    before: tuple[float, ...]
    now: tuple[float, ...]


def profile_column(column: Column, ends: Floats, old: Floats, new: Floats) -> Profile:
    """Return a column's shares by interval, or of its most frequent categories and the rest."""
    both = np.stack([old / max(float(old.sum()), 1.0), new / max(float(new.sum()), 1.0)])
    known = both[:, :-3]
    labels = [_interval(ends, at, column) for at in range(len(ends))]
    labels = labels or column.labels()[: known.shape[1]]
    if known.shape[1] > MOST_SHOWN and not isinstance(column, NumericColumn):
        order = np.sort(np.argsort(-known.sum(axis=0), kind="stable")[: MOST_SHOWN - 1])
        labels = [*(labels[at] for at in order), "others"]
        shown = known[:, order]
        known = np.column_stack([shown, known.sum(axis=1) - shown.sum(axis=1)])
    names = ("below", "above" if len(ends) else "never seen", "missing")
    for name, part in zip(names, both[:, -3:].T, strict=True):
        if part.any():
            known, labels = np.column_stack([known, part]), [*labels, name]
    return Profile(column.name, tuple(labels), *map(tuple, known.tolist()))


def correct_shifts(
    tests: Sequence[Shift], alpha: float, least: float, allowed: float
) -> tuple[Shift, ...]:
    """Adjust p-values by Holm's procedure, those that moved first; `allowed` is for calibration."""
    p = np.array([test.p_value for test in tests])
    order, adjusted = np.argsort(p, kind="stable"), np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    shifts = []
    for test, q in zip(tests, adjusted.tolist(), strict=True):
        enough = max(least, allowed) if test.kind == "calibration" else least
        shifts.append(test._replace(p_value=q, moved=q <= alpha and test.effect >= enough))
    return tuple(sorted(shifts, key=lambda shift: (not shift.moved, -shift.effect)))


def find_column_shifts(column: Column, ends: Floats, old: Floats, new: Floats) -> list[Shift]:
    """Test a column's values, its missing rate and its unseen values."""
    name, n_old, n_new = (column.name,), float(old.sum()), float(new.sum())
    known_old, known_new = float(old[:-3].sum()), float(new[:-1].sum())
    before, now = float(old[-1]) / max(n_old, 1.0), float(new[-1]) / max(n_new, 1.0)
    p_missing = _compare_shares(float(old[-1]), n_old, float(new[-1]), n_new)
    words = f"{_percent(before)} → {_percent(now)} missing"
    tests = [Shift("missing", name, abs(now - before), p_missing, words=words)]
    below, above, size = float(new[-3]), float(new[-2]), max(known_new, 1.0)
    if len(ends):
        p = [_exceedance(k, known_old, known_new) for k in (below, above)]
        words = _say_outside(column, ends, below / size, above / size)
        effect = (below + above) / size
        tests.append(Shift("outside", name, effect, min(1.0, 2 * min(p)), words=words))
    elif not isinstance(column, NumericColumn):
        # In training, rows with a unique value were new when they occurred, too.
        alone = float(((old[:-3] > 0) & (old[:-3] <= 1)).sum())
        strange, usual = above / size, alone / max(known_old, 1.0)
        p_unseen = _compare_shares(alone, known_old, above, known_new) if strange > usual else 1.0
        words = f"{_percent(strange)} of values never seen in training"
        tests.append(Shift("unseen", name, max(strange - usual, 0.0), p_unseen, words=words))
    ordered = isinstance(column, NumericColumn) or column.n_ordered > 0
    joined = _join_cells(old[:-3], new[:-3], ordered)
    if joined.shape[1] > 1:
        words = _say_values(column, ends, old, new)
        tests.append(Shift("values", name, *_chi_square(joined), words=words))
    return tests


def _join_cells(old: Floats, new: Floats, ordered: bool) -> Floats:
    """Merge cells with few rows, shape (2, n_joined); ordered cells merge with neighbours."""
    both = np.stack([old, new])  # together, they determine the cells: that keeps the test valid
    total, sizes = both.sum(axis=0), both.sum(axis=1)
    if sizes.min() <= 0:
        return both[:, :0]
    enough = LEAST_EXPECTED * sizes.sum() / sizes.min()
    if ordered:
        enough = max(enough, total.sum() / MOST_CELLS)
        cells, rest = list[Floats](), np.zeros(2)
        for column in both.T:
            rest = rest + column
            if rest.sum() >= enough:
                cells.append(rest)
                rest = np.zeros(2)
        kept = np.array(cells).reshape(-1, 2).T
    else:
        most = np.argsort(-total, kind="stable")[: MOST_CELLS - 1]
        kept = both[:, most[total[most] >= enough]]
        rest = sizes - kept.sum(axis=1)
        if rest.sum() >= enough or not kept.size:
            return np.column_stack([kept, rest])
    kept[:, -1:] += rest[:, None]
    return kept


def _chi_square(table: Floats) -> tuple[float, float]:
    """Return the total variation distance of two rows, and the p-value of Pearson's test."""
    from scipy.special import chdtrc

    sizes = table.sum(axis=1, keepdims=True)
    expected = sizes * table.sum(axis=0) / table.sum()
    statistic = float((np.square(table - expected) / expected).sum())
    distance = float(np.abs(np.diff(table / sizes, axis=0)).sum()) / 2
    return distance, float(chdtrc(table.shape[1] - 1, statistic))


def _compare_shares(a: float, n: float, b: float, m: float) -> float:
    """Return the p-value for a of n and b of m being equal shares; binomial for small counts."""
    from scipy.special import bdtr, bdtrc

    total, size = a + b, n + m
    if total <= 0 or total >= size or min(n, m) <= 0:
        return 1.0
    if min(total, size - total) * min(n, m) / size >= LEAST_EXPECTED:
        return _chi_square(np.array([[a, n - a], [b, m - b]]))[1]
    if total > size - total:  # count the rarer of the two
        a, b, total = n - a, m - b, size - total
    share, k, trials = n / size, np.floor(a), int(np.rint(total))
    low = bdtr(k, trials, share)
    high = bdtrc(k - 1, trials, share) if k > 0 else 1.0
    return float(min(1.0, 2 * min(low, high)))


def _exceedance(k: float, n: float, m: float) -> float:
    """Return the probability that the k most extreme of n + m exchangeable rows are among m."""
    from scipy.special import gammaln

    if k <= 0:
        return 1.0
    logs = gammaln(m + 1) - gammaln(m - k + 1) + gammaln(n + m - k + 1) - gammaln(n + m + 1)
    return float(np.exp(logs))


def _say_values(column: Column, ends: Floats, old: Floats, new: Floats) -> str:
    """Describe how a column's known values moved."""
    before, now = old[:-3] / old[:-3].sum(), new[:-3] / new[:-3].sum()
    if len(ends):
        middle = [ends[np.searchsorted(np.cumsum(one), 0.5 - 1e-12)] for one in (before, now)]
        texts = [show_cuts(np.array([one]), column.temporal)[0] for one in middle]
        if texts[0] != texts[1]:
            return f"median about {texts[0]} → {texts[1]}"
    most = int(np.abs(now - before).argmax())
    label = _interval(ends, most, column) if len(ends) else column.labels()[most]
    return f"{label}: {_percent(before[most])} → {_percent(now[most])}"


def _say_outside(column: Column, ends: Floats, below: float, above: float) -> str:
    """Describe the shares of values below and above those of training."""
    low, high = (show_cuts([end], column.temporal)[0] for end in ends[[0, -1]])
    if below and above:
        shares = f"{_percent(below)} of values below {low} and {_percent(above)} above {high}"
        return f"{shares}, the smallest and the largest in training"
    if below:
        return f"{_percent(below)} of values below {low}, the smallest in training"
    return f"{_percent(above)} of values above {high}, the largest in training"


def _interval(ends: Floats, at: int, column: Column) -> str:
    low, high = (show_cuts([end], column.temporal)[0] for end in ends[[max(at - 1, 0), at]])
    return high if at == 0 else f"({low}, {high}]"


def _percent(share: float) -> str:
    shown = f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.1f} %"
    return "< 0.01 %" if 0 < share < 1e-4 else shown


def find_pair_shift(kind: str, names: tuple[str, str], old: Floats, new: Floats) -> Shift:
    """Test whether two variables depend on each other as before, regardless of their own shares.

    Pearson's test of no three-way interaction between table, first and second variable. A cell
    in which less than one row is expected counts as if one were, which is conservative.
    """
    from scipy.special import chdtrc

    used = [(old.sum(axis=k) > 0) & (new.sum(axis=k) > 0) for k in (1, 0)]
    both = np.stack([old, new])[:, used[0]][:, :, used[1]]
    n, m = both.sum(axis=(1, 2))
    if min(both.shape) < 2 or min(n, m) <= 0:
        return Shift(kind, names, 0.0, 1.0, words="one value")
    fitted = _fit_margins(np.ones_like(both), both)
    statistic = float((np.square(both - fitted) / np.maximum(fitted, 1.0)).sum())
    p_value = float(chdtrc((both.shape[1] - 1) * (both.shape[2] - 1), statistic))
    kept = _fit_margins(both[0] + 0.5, both[1])  # the old dependence with the new shares
    effect = float(np.abs(both[1] - kept).sum() / (2 * m))
    words = f"Cramér's V {_association(both[0]):.2f} → {_association(both[1]):.2f}"
    return Shift(kind, names, effect, p_value, words=words)


def _fit_margins(table: Floats, wanted: Floats) -> Floats:
    """Scale a table until it has the given margins (iterative proportional fitting)."""
    for _ in range(60):
        before = table
        for axis in range(table.ndim):
            have, sums = table.sum(axis=axis), wanted.sum(axis=axis)
            ratio = np.divide(sums, have, out=np.zeros_like(have), where=have > 0)
            table = table * np.expand_dims(ratio, axis)
        if np.abs(table - before).max() < 1e-6:
            break
    return table


def _association(table: Floats) -> float:
    """Return Cramér's V of a table of counts."""
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    phi = float((np.square(table - expected) / expected).sum() / table.sum())
    return float(np.sqrt(phi / max(min(table.shape) - 1, 1)))


def find_estimated_shift(
    posteriors: Floats, reference: Reference, codebook: Codebook
) -> tuple[Floats, Shift]:
    """Estimate the class shares without labels, and test them by their likelihood ratio."""
    from scipy.special import chdtrc

    name, assumed, expected = (codebook.target.name,), reference.assumed, reference.expected
    if len(assumed) < 2:
        return expected, Shift("classes", name, 0.0, 1.0, words="one class")
    shares = estimate_shares(posteriors, assumed)
    best = log_likelihood_of(shares, posteriors, assumed)
    # The model has an error of the same kind from its training rows.
    error = 1 + len(posteriors) / float(reference.classes.sum())
    p_values, effects = [], []
    for usual in [expected] if reference.edited else [expected, reference.estimated]:
        gain = 2 * (best - log_likelihood_of(usual, posteriors, assumed)) / error
        p_values.append(float(chdtrc(max(int((usual > 0).sum()) - 1, 1), max(gain, 0.0))))
        effects.append(float(np.abs(shares - usual).sum()) / 2)
    words = f"{_say_shares(codebook, expected, shares)} (estimated)"
    return shares, Shift("classes", name, min(effects), max(p_values), words=words)


def _say_shares(codebook: Codebook, before: Floats, now: Floats) -> str:
    most = int(np.abs(now - before).argmax())
    return f"{codebook.classes[most]}: {_percent(before[most])} → {_percent(now[most])}"


def find_class_shift(reference: Reference, counted: Floats, codebook: Codebook) -> Shift:
    """Test the class shares of labelled rows against the expected ones."""
    expected = reference.expected * float(reference.classes.sum())
    joined = _join_cells(expected, counted, ordered=False)
    found = _chi_square(joined) if joined.shape[1] > 1 else (0.0, 1.0)
    words = _say_shares(codebook, reference.expected, counted / counted.sum())
    return Shift("classes", (codebook.target.name,), *found, words=words)


def find_calibration_shifts(
    posteriors: Floats, labels: Ints, reference: Reference, codebook: Codebook
) -> list[Shift]:
    """Test, per class, whether its probabilities are still calibrated."""
    from scipy.special import chdtrc

    tests, n_classes = [], posteriors.shape[1]
    error = 1 + len(labels) / float(reference.classes.sum())
    for c in [1] if n_classes == 2 else range(n_classes):
        p, hit = posteriors[:, c], (labels == c).astype(np.float64)
        if not 0 < hit.sum() < len(hit):
            continue
        usual = Recalibration(*reference.calibration[c].tolist()).apply(p)
        statistics, effects = zip(*(calibration_test(one, hit) for one in (p, usual)), strict=True)
        p_value = max(float(chdtrc(2, statistic / error)) for statistic in statistics)
        shares = (_percent(float(one.mean())) for one in (p, hit))
        words = "predicted {}, observed {}, slope {:.2f}".format(*shares, recalibrate(p, hit).slope)
        name = (str(codebook.classes[c]),)
        tests.append(Shift("calibration", name, min(effects), p_value, words=words))
    return tests
