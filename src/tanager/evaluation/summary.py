"""The tests of significance that one metric of an experiment calls for."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from tanager.evaluation.results import Results, Scores
from tanager.evaluation.statistics import (
    Friedman,
    Nemenyi,
    WinDrawLoss,
    average_ranks,
    corrected_t,
    friedman,
    geometric_mean_ratio,
    nemenyi,
    wilcoxon,
    win_draw_loss,
)

__all__ = ["Pair", "Summary", "say_pooled", "summarize"]


class Pair(NamedTuple):
    """Two classifiers over the same datasets.

    Attributes
    ----------
    a, b : str
    record : WinDrawLoss
        Of `a` against `b`; its `p_value` is the sign test's.
    wilcoxon_p : float
        Two-sided signed-rank test over datasets.
    ratio : float or None
        Geometric mean of a's loss over b's; None where no dataset has both
        positive, and for metrics of which more is better.
    corrected_p : float or None
        With one dataset: Nadeau and Bengio's corrected t-test over its cells. None where
        there is one cell, and of a metric that is of a round's rows together.
    """

    a: str
    b: str
    record: WinDrawLoss
    wilcoxon_p: float
    ratio: float | None
    corrected_p: float | None = None


class Summary(NamedTuple):
    """Means and tests of one metric.

    Attributes
    ----------
    scores : Scores
    ranks : dict of str to float
        Average rank of each classifier, best first.
    friedman : Friedman or None
        With three classifiers or more.
    nemenyi : Nemenyi or None
        Likewise.
    pairs : list of Pair
    deviations : Scores or None
        As `Results.deviation` has them; None for numbers that no cell has.
    """

    scores: Scores
    ranks: dict[str, float]
    friedman: Friedman | None
    nemenyi: Nemenyi | None
    pairs: list[Pair]
    deviations: Scores | None = None

    def spread(self, row: int, column: int) -> str:
        """Return the deviation as it stands behind a mean; empty where there is none.

        >>> none = Scores("log_loss", ("iris",), ("a", "b"), np.array([[0.2, 0.3]]))
        >>> some = none._replace(values=np.array([[0.05, np.nan]]))
        >>> [Summary(none, {}, None, None, [], some).spread(0, at) for at in range(2)]
        [' ± 0.0500', '']
        """
        if self.deviations is None or np.isnan(self.deviations.values[row, column]):
            return ""
        return f" ± {self.deviations.values[row, column]:.4f}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data; a deviation of one number is None."""
        scores = self.scores
        return {
            "metric": scores.metric,
            "scores": {
                dataset: dict(zip(scores.classifiers, row, strict=True))
                for dataset, row in zip(scores.datasets, scores.tolist(), strict=True)
            },
            "deviations": None
            if self.deviations is None
            else {
                dataset: {
                    name: None if np.isnan(value) else value
                    for name, value in zip(scores.classifiers, row, strict=True)
                }
                for dataset, row in zip(scores.datasets, self.deviations.tolist(), strict=True)
            },
            "excluded": list(scores.excluded),
            "ranks": self.ranks,
            "friedman": None if self.friedman is None else self.friedman._asdict(),
            "critical_difference": None
            if self.nemenyi is None
            else self.nemenyi.critical_difference,
            "pairs": [
                {
                    "a": pair.a,
                    "b": pair.b,
                    **pair.record._asdict(),
                    "sign_test_p": pair.record.p_value,
                    "wilcoxon_p": pair.wilcoxon_p,
                    "ratio": pair.ratio,
                    "corrected_p": pair.corrected_p,
                }
                for pair in self.pairs
            ],
        }


def summarize(results: Results, metric: str, decimals: int | None = None) -> Summary:
    """Compute what a reader wants to know of one metric.

    Parameters
    ----------
    results : Results
    metric : str
    decimals : int, optional
        Digits to which losses are rounded before wins are counted.
    """
    summary = summarize_scores(results.mean(metric), decimals)
    if len(summary.scores.datasets) == 1 and not results.is_pooled(metric):
        pairs = [pair._replace(corrected_p=_over_cells(results, metric, pair.a, pair.b))
                 for pair in summary.pairs]  # fmt: skip
        summary = summary._replace(pairs=pairs)
    return summary._replace(deviations=results.deviation(metric))


def say_pooled(results: Results) -> str:
    """Say of which metrics the rows of a round are taken together; empty where of none."""
    titles = [results.title(metric) for metric in results.metrics if results.is_pooled(metric)]
    if not titles:
        return ""
    return f"{', '.join(titles)}: of all held-out rows of a round together; mean and ± over rounds"


def _over_cells(results: Results, metric: str, a: str, b: str) -> float | None:
    """Return the corrected test's p over the cells of the one dataset that both finished."""
    dataset = results.mean(metric).datasets[0]
    first, second = ({(r["round"], r["fold"]): r for r in results.cells(metric, dataset, name)}
                     for name in (a, b))  # fmt: skip
    places = [place for place in first if place in second]
    if len(places) < 2:
        return None
    ratio = sum(first[at]["n_test"] / first[at]["n_train"] for at in places) / len(places)
    x, y = ([cells[at][metric] for at in places] for cells in (first, second))
    return corrected_t(x, y, ratio).p_value


def summarize_scores(scores: Scores, decimals: int | None = None) -> Summary:
    """Summarise numbers that are not means of a metric, such as bias."""
    names, n_datasets = scores.classifiers, len(scores.datasets)
    if len(names) < 2 or n_datasets == 0:
        return Summary(scores, dict.fromkeys(names, 1.0) if n_datasets else {}, None, None, [])
    ranks = average_ranks(scores.losses)
    many = len(names) > 2
    return Summary(
        scores,
        {names[i]: float(ranks[i]) for i in ranks.argsort(kind="stable")},
        friedman(scores.losses) if many else None,
        nemenyi(scores.losses) if many else None,
        [_pair(scores, a, b, decimals) for a, b in combinations(names, 2)],
    )


def _pair(scores: Scores, a: str, b: str, decimals: int | None) -> Pair:
    x, y = (scores.losses[:, scores.classifiers.index(name)] for name in (a, b))
    positive = bool(((x > 0) & (y > 0)).any())
    return Pair(
        a,
        b,
        win_draw_loss(x, y, decimals),
        wilcoxon(x, y).p_value,
        geometric_mean_ratio(x, y) if positive else None,
    )
