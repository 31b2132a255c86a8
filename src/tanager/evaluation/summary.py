"""Summary of an experiment by one metric: significance tests, intervals, a table, a verdict."""

from __future__ import annotations

from itertools import combinations
from math import isclose
from typing import Any, NamedTuple

import numpy as np

from tanager.escaping import abridged
from tanager.evaluation import statistics
from tanager.evaluation.metrics import known_number
from tanager.evaluation.results import Results, Scores
from tanager.evaluation.statistics import FriedmanTest, Nemenyi, WinDrawLoss

ALPHA = 0.05  # significance level
MAX_NAMED = 4  # classifiers named individually


class Pair(NamedTuple):
    """Two classifiers over the same datasets."""

    a: str
    b: str
    record: WinDrawLoss  # of `a` against `b`; its `p_value` is the sign test's
    wilcoxon_p: float  # two-sided signed-rank test over datasets
    # Geometric mean of a's loss over b's; None if no dataset has both positive, and for
    # metrics where higher is better.
    ratio: float | None
    # With one dataset: Nadeau and Bengio's corrected t-test over its cells. None if there
    # is only one cell, and for pooled metrics.
    corrected_p: float | None = None


class Summary(NamedTuple):
    """Means and tests of one metric."""

    scores: Scores
    ranks: dict[str, float]  # average rank of each classifier, best first
    friedman: FriedmanTest | None  # with three classifiers or more
    nemenyi: Nemenyi | None  # likewise
    pairs: list[Pair]
    deviations: Scores  # see `Results.deviation`

    def spread(self, row: int, column: int) -> str:
        """Format the deviation to follow a mean; empty if there is none."""
        deviation = self.deviations.values[row, column]
        return "" if np.isnan(deviation) else f" ± {deviation:.4f}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; the deviation of a single number is None."""
        scores = self.scores
        by_dataset = [
            {
                dataset: dict(zip(scores.classifiers, map(known_number, row), strict=True))
                for dataset, row in zip(scores.datasets, table.values, strict=True)
            }
            for table in (scores, self.deviations)
        ]
        return {
            "metric": scores.metric,
            "scores": by_dataset[0],
            "deviations": by_dataset[1],
            "excluded": list(scores.excluded),
            "ranks": self.ranks,
            "friedman": self.friedman and self.friedman._asdict(),
            "critical_difference": self.nemenyi and self.nemenyi.critical_difference,
            "pairs": [
                {"a": a, "b": b, **record._asdict(), "sign_test_p": record.p_value}
                | {"wilcoxon_p": wilcoxon_p, "ratio": ratio, "corrected_p": corrected_p}
                for a, b, record, wilcoxon_p, ratio, corrected_p in self.pairs
            ],
        }


def summarize(results: Results, metric: str) -> Summary:
    """Compute means and tests of one metric."""
    scores = results.mean(metric)
    names, deviations = scores.classifiers, results.deviation(metric)
    if len(names) < 2 or not scores.datasets:
        ranks = dict.fromkeys(names, 1.0) if scores.datasets else {}
        return Summary(scores, ranks, None, None, [], deviations)
    mean_ranks, many = statistics.average_ranks(scores.losses), len(names) > 2
    pairs = []
    for a, b in combinations(names, 2):
        x, y = (scores.losses[:, names.index(name)] for name in (a, b))
        ratio = statistics.geometric_mean_ratio(x, y) if ((x > 0) & (y > 0)).any() else None
        test = None
        if len(scores.datasets) == 1 and not results.is_pooled(metric):
            test = _over_cells(results, metric, a, b)
        record, wilcoxon = statistics.win_draw_loss(x, y), statistics.wilcoxon(x, y)
        pairs.append(Pair(a, b, record, wilcoxon.p_value, ratio, test))
    return Summary(
        scores,
        {names[i]: float(mean_ranks[i]) for i in mean_ranks.argsort(kind="stable")},
        statistics.friedman(scores.losses) if many else None,
        statistics.nemenyi(scores.losses) if many else None,
        pairs,
        deviations,
    )


def say_pooled(results: Results) -> str:
    """Name the metrics that are computed over all rows of a round; empty if there are none."""
    names = ", ".join(results.title(name) for name in results.metrics if results.is_pooled(name))
    how = "computed over all held-out rows of a round; mean and ± over rounds"
    return f"{names}: {how}" if names else ""


def _over_cells(results: Results, metric: str, a: str, b: str) -> float | None:
    """Return p of the corrected t-test over the cells of the only dataset that both finished."""
    dataset = results.mean(metric).datasets[0]
    first, second = ({(r["round"], r["fold"]): r for r in results.cells(metric, dataset, name)}
                     for name in (a, b))  # fmt: skip
    places = [place for place in first if place in second]
    if len(places) < 2:
        return None
    ratio = sum(first[at]["n_test"] / first[at]["n_train"] for at in places) / len(places)
    x, y = ([cells[at][metric] for at in places] for cells in (first, second))
    return statistics.corrected_t(x, y, ratio).p_value


class Intervals(NamedTuple):
    """Classifiers on one scale, the best first."""

    names: tuple[str, ...]
    centers: tuple[float, ...]  # without an interval, low and high are the center
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    scale: str  # what the numbers are, such as ``log-loss on iris`` or ``average rank on log-loss``
    meaning: str  # how to interpret the intervals


def score_intervals(results: Results, metric: str) -> Intervals | None:
    r"""Return the classifiers' scores by one metric, with intervals; None if nothing finished.

    With one table: the mean over its cells :math:`\pm\, t_{J-1}\,\hat\sigma \sqrt{1/J +
    n_{test}/n_{train}}`, the 95 % interval whose variance accounts for training sets that share
    rows (`corrected_t`); none for a metric that `Results.is_pooled`. With several: the average
    rank, and half of Nemenyi's critical difference on either side (Demšar, 2006): two classifiers
    whose intervals don't overlap differ at 5 %.
    """
    summary = summarize(results, metric)
    scores = summary.scores
    if not scores.datasets or not scores.classifiers:
        return None
    if len(scores.datasets) == 1:
        return _of_one_table(results, metric)
    title, n = results.title(metric), len(scores.datasets)
    names, ranks = tuple(summary.ranks), tuple(summary.ranks.values())
    half = statistics.critical_difference(len(names), n) / 2 if len(names) > 1 else 0.0
    return Intervals(
        names,
        ranks,
        # Clip to the possible ranks; bars that overlap still do, between their dots.
        tuple(max(1.0, rank - half) for rank in ranks),
        tuple(min(float(len(names)), rank + half) for rank in ranks),
        f"average rank on {title} over {n} tables, 1 is best",
        "Classifiers whose bars do not overlap differ by Nemenyi's test at 5 %.",
    )


def _of_one_table(results: Results, metric: str) -> Intervals:
    from scipy import stats

    scores, deviation = results.mean(metric), results.deviation(metric).values[0]
    dataset, pooled = scores.datasets[0], results.is_pooled(metric)
    order = scores.losses[0].argsort(kind="stable").tolist()
    names = tuple(scores.classifiers[at] for at in order)
    n_cells, halves = 0, np.zeros(len(order))
    for place, at in enumerate(order):
        cells = results.cells(metric, dataset, names[place])
        n_cells = max(n_cells, len(cells))
        if len(cells) > 1 and not pooled:
            ratio = np.mean([cell["n_test"] / cell["n_train"] for cell in cells])
            spread = deviation[at] * np.sqrt(1 / len(cells) + ratio)
            halves[place] = stats.t.ppf(0.975, len(cells) - 1) * spread
    if pooled:
        meaning = "Over all held-out rows of a round, averaged over rounds; no interval is known."
    elif n_cells == 1:
        meaning = "One cell: no interval can be estimated."
    else:
        meaning = (
            f"Means over {n_cells} cells with 95 % intervals, corrected for overlapping training "
            "sets. Paired tests are sharper than comparing these intervals."
        )
    better = "higher is better" if scores.greater else "lower is better"
    centers = scores.values[0, order]
    return Intervals(
        names,
        tuple(centers.tolist()),
        tuple((centers - halves).tolist()),
        tuple((centers + halves).tolist()),
        f"{results.title(metric)} on {dataset}, {better}",
        meaning,
    )


def leading_metric(results: Results) -> str:
    """Return the main metric: log-loss if it was measured, else the first."""
    return "log_loss" if "log_loss" in results.metrics else results.metrics[0]


def verdict(results: Results) -> str:
    """Return which classifier is best by the main metric, and whether significantly so.

    Those that share first place are named together. With one table, the pairs are tested over its
    cells (Nadeau and Bengio); with several, two classifiers by Wilcoxon's test, more by Nemenyi's.
    """
    summary = summarize(results, leading_metric(results))
    scores = summary.scores
    if not scores.classifiers or not scores.datasets:
        return "No classifier finished: there is nothing to compare."
    if len(scores.classifiers) == 1:
        return _alone(results, summary)
    title, n = results.title(scores.metric), len(scores.datasets)
    first = min(summary.ranks.values())
    best = [name for name, rank in summary.ranks.items() if isclose(rank, first, rel_tol=1e-9)]
    if n == 1:
        at, extreme = scores.classifiers.index(best[0]), "highest" if scores.greater else "lowest"
        # Classifiers that share a mean still have different deviations.
        spread = summary.spread(0, at) if len(best) == 1 else ""
        where = abridged(scores.datasets[0])
        place = f"the {extreme} {title} on {where}, {scores.values[0, at]:.4f}{spread}"
    else:
        place = f"the best average rank on {title} over {n} tables, {first:.2f}"
    others = {name: _p_value(summary, best, name) for name in summary.ranks if name not in best}
    no_test = "not tested (only one cell) against"
    if results.is_pooled(scores.metric):
        no_test = "not tested (computed per round, not per fold) against"
    chance = f": {_beyond_chance(others, no_test)}" if others else ""
    few = len(best) <= MAX_NAMED
    holders = _listed(list(map(abridged, best))) if few else f"{len(best)} classifiers"
    return f"{holders} {'has' if len(best) == 1 else 'share'} {place}{chance}."


def _alone(results: Results, summary: Summary) -> str:
    scores = summary.scores
    shown = [m for m in ("accuracy", scores.metric) if m in results.metrics]
    parts = []
    for metric in dict.fromkeys(shown):
        one = summarize(results, metric)
        mean = one.scores.values[:, 0].mean()
        spread = one.spread(0, 0) if len(scores.datasets) == 1 else ""
        parts.append(f"{results.title(metric)} {mean:.4f}{spread}")
    n = len(scores.datasets)
    where = scores.datasets[0] if n == 1 else f"{n} tables, on average"
    return f"{scores.classifiers[0]} on {where}: {', '.join(parts)}."


def _p_value(summary: Summary, best: list[str], other: str) -> float | None:
    """Return the p-value of the best against another; the largest if several share first place."""
    names, pairs = summary.scores.classifiers, [{other, name} for name in best]
    if len(summary.scores.datasets) > 1 and summary.nemenyi is not None:
        rows = [names.index(name) for name in best]
        return float(summary.nemenyi.p_values[rows, names.index(other)].max())
    one = len(summary.scores.datasets) == 1
    found = [
        pair.corrected_p if one else pair.wilcoxon_p
        for pair in summary.pairs
        if {pair.a, pair.b} in pairs
    ]
    return None if None in found else max(p for p in found if p is not None)


def _beyond_chance(p_values: dict[str, float | None], no_test: str) -> str:
    """Describe the p-values of the best against each other classifier."""
    beaten = {n: p for n, p in p_values.items() if p is not None and p <= ALPHA}
    level = {n: p for n, p in p_values.items() if p is not None and p > ALPHA}
    untested = [n for n, p in p_values.items() if p is None]
    parts = []
    if beaten:
        parts.append(f"significantly better than {_tested(beaten)}")
    if level:
        start = "but not" if beaten else "not significantly better"
        parts.append(f"{start} than {_tested(level)}")
    if untested:
        parts.append(f"{no_test} {_listed(untested)}")
    return ", ".join(parts)


def _tested(p_values: dict[str, float]) -> str:
    """Name classifiers with their p-values; if there are many, their number and the range of p."""
    if len(p_values) <= MAX_NAMED:
        return _listed([f"{abridged(name)} (p {p_text(p)})" for name, p in p_values.items()])
    low, high = min(p_values.values()), max(p_values.values())
    of_all = f"p ≤ {p_text(high)}" if high <= ALPHA else f"p ≥ {p_text(low)}"
    return f"{len(p_values)} others ({of_all})".replace("≤ <", "<")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def p_text(p: float) -> str:
    """Format a p-value."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
