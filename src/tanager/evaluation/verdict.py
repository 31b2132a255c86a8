"""What an experiment says, in one sentence."""

from __future__ import annotations

from tanager.escaping import abridged
from tanager.evaluation.results import Results
from tanager.evaluation.summary import Summary, summarize

__all__ = ["ALPHA", "leading_metric", "verdict"]

ALPHA = 0.05  # level of significance
MAX_NAMED = 4  # classifiers in one breath


def leading_metric(results: Results) -> str:
    """Return the metric that decides: log-loss where it was measured, else the first."""
    return "log_loss" if "log_loss" in results.metrics else results.metrics[0]


def verdict(results: Results) -> str:
    """Say which classifier is best by the leading metric, and whether that is more than chance.

    With one table the pairs are tested over its cells (Nadeau and Bengio); with
    several over the tables: two classifiers by Wilcoxon's test, more by Nemenyi's.
    """
    summary = summarize(results, leading_metric(results))
    scores = summary.scores
    if not scores.classifiers or not scores.datasets:
        return "No classifier finished: there is nothing to compare."
    if len(scores.classifiers) == 1:
        return _alone(results, summary)
    title = results.title(scores.metric)
    if len(scores.datasets) == 1:
        order = scores.losses[0].argsort(kind="stable")
        names = [scores.classifiers[i] for i in order]
        value, spread = scores.values[0, order[0]], _spread(summary, 0, int(order[0]))
        extreme = "highest" if scores.greater else "lowest"
        start = (
            f"{abridged(names[0])} has the {extreme} {title} on {abridged(scores.datasets[0])}, "
            f"{value:.4f}{spread}"
        )
    else:
        names = list(summary.ranks)
        start = (
            f"{abridged(names[0])} has the best average rank on {title} over "
            f"{len(scores.datasets)} tables, {summary.ranks[names[0]]:.2f}"
        )
    p_values = {other: _p_value(summary, names[0], other) for other in names[1:]}
    return f"{start}: {_beyond_chance(p_values)}."


def _alone(results: Results, summary: Summary) -> str:
    scores = summary.scores
    shown = [m for m in ("accuracy", scores.metric) if m in results.metrics]
    parts = []
    for metric in dict.fromkeys(shown):
        one = summarize(results, metric)
        mean = one.scores.values[:, 0].mean()
        spread = _spread(one, 0, 0) if len(scores.datasets) == 1 else ""
        parts.append(f"{results.title(metric)} {mean:.4f}{spread}")
    n = len(scores.datasets)
    where = scores.datasets[0] if n == 1 else f"{n} tables, on average"
    return f"{scores.classifiers[0]} on {where}: {', '.join(parts)}."


def _spread(summary: Summary, row: int, column: int) -> str:
    if summary.deviations is None:
        return ""
    return f" ± {summary.deviations.values[row, column]:.4f}"


def _p_value(summary: Summary, a: str, b: str) -> float | None:
    names = summary.scores.classifiers
    pair = next(p for p in summary.pairs if {p.a, p.b} == {a, b})
    if len(summary.scores.datasets) == 1:
        return pair.corrected_p
    if summary.nemenyi is not None:
        return float(summary.nemenyi.p_values[names.index(a), names.index(b)])
    return pair.wilcoxon_p


def _beyond_chance(p_values: dict[str, float | None]) -> str:
    """Put the p-values of the best against each other classifier into words."""
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
        parts.append(f"one cell cannot tell it from {_listed(untested)}")
    return ", ".join(parts)


def _tested(p_values: dict[str, float]) -> str:
    """Name classifiers with their p-values; of many the number, and the range of p."""
    if len(p_values) <= MAX_NAMED:
        return _listed([f"{abridged(name)} (p {_p(p)})" for name, p in p_values.items()])
    low, high = min(p_values.values()), max(p_values.values())
    of_all = f"p ≤ {_p(high)}" if high <= ALPHA else f"p ≥ {_p(low)}"
    return f"{len(p_values)} others ({of_all})".replace("≤ <", "<")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
