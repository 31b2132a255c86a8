"""How sure the scores of an experiment are: one interval a classifier."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tanager.evaluation.results import Results
from tanager.evaluation.statistics import critical_difference
from tanager.evaluation.summary import summarize

__all__ = ["Intervals", "score_intervals"]


class Intervals(NamedTuple):
    """Classifiers on one scale, the best first.

    Attributes
    ----------
    names : tuple of str
    centers, lows, highs : tuple of float
        Without an interval, low and high are the center.
    scale : str
        What the numbers are, such as ``log-loss on iris`` or ``average rank on log-loss``.
    meaning : str
        How to read the intervals.
    """

    names: tuple[str, ...]
    centers: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    scale: str
    meaning: str


def score_intervals(results: Results, metric: str) -> Intervals | None:
    r"""Return where the classifiers stand by one metric; None where nothing finished.

    Notes
    -----
    With one table: the mean over its cells :math:`\pm\, t_{J-1}\,\hat\sigma
    \sqrt{1/J + n_{test}/n_{train}}`, the 95 % interval whose variance knows that
    training sets share rows (Nadeau and Bengio, 2003). A metric that is of a round's
    rows together (`Results.is_pooled`) has no interval.

    With several tables: the average rank, and half of Nemenyi's critical difference on
    either side: two classifiers whose intervals do not overlap differ at 5 %.

    References
    ----------
    Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error.
    Machine Learning 52, doi:10.1023/A:1024068626366.
    Demšar, J. (2006). Statistical comparisons of classifiers over multiple data
    sets. JMLR 7, section 3.2.2.
    """
    summary = summarize(results, metric)
    scores = summary.scores
    if not scores.datasets or not scores.classifiers:
        return None
    if len(scores.datasets) == 1:
        return _of_one_table(results, metric)
    title, n = results.title(metric), len(scores.datasets)
    names = tuple(summary.ranks)
    ranks = tuple(summary.ranks[name] for name in names)
    half = critical_difference(len(names), n) / 2 if len(names) > 1 else 0.0
    return Intervals(
        names,
        ranks,
        # No rank is outside; two bars that overlap still do, between their dots.
        tuple(max(1.0, rank - half) for rank in ranks),
        tuple(min(float(len(names)), rank + half) for rank in ranks),
        f"average rank on {title} over {n} tables, 1 is best",
        "Classifiers whose bars do not overlap differ by Nemenyi's test at 5 %.",
    )


def _of_one_table(results: Results, metric: str) -> Intervals:
    from scipy import stats

    scores = results.mean(metric)
    dataset = scores.datasets[0]
    order = [int(at) for at in scores.losses[0].argsort(kind="stable")]
    centers, lows, highs = [], [], []
    n_cells = 0
    for at in order:
        cells = results.cells(metric, dataset, scores.classifiers[at])
        values = np.array([cell[metric] for cell in cells])
        n_cells = max(n_cells, len(values))
        half = 0.0
        if len(values) > 1 and not results.is_pooled(metric):
            ratio = float(np.mean([cell["n_test"] / cell["n_train"] for cell in cells]))
            spread = values.std(ddof=1) * np.sqrt(1 / len(values) + ratio)
            half = float(stats.t.ppf(0.975, len(values) - 1) * spread)
        centers.append(float(scores.values[0, at]))
        lows.append(centers[-1] - half)
        highs.append(centers[-1] + half)
    better = "more is better" if scores.greater else "less is better"
    return Intervals(
        tuple(scores.classifiers[at] for at in order),
        tuple(centers),
        tuple(lows),
        tuple(highs),
        f"{results.title(metric)} on {dataset}, {better}",
        _meaning(n_cells, pooled=results.is_pooled(metric)),
    )


def _meaning(n_cells: int, *, pooled: bool) -> str:
    if pooled:
        return (
            "Of all held-out rows of a round together, mean over rounds: how sure a score is "
            "cannot be told."
        )
    if n_cells == 1:
        return "One cell: how sure a score is cannot be told."
    return (
        f"Means over {n_cells} cells with 95 % intervals that know that training sets share "
        "rows. Bars tell how sure each score is; the test of a pair is sharper."
    )
