"""What an experiment says, in one sentence."""

from __future__ import annotations

from math import isclose

from tanager.escaping import abridged
from tanager.evaluation.results import Results
from tanager.evaluation.summary import Summary, leading_metric, summarize

__all__ = ["ALPHA", "verdict"]

ALPHA = 0.05  # level of significance
MAX_NAMED = 4  # classifiers in one breath


def verdict(results: Results) -> str:
    """Say which classifier is best by the leading metric, and whether that is more than chance.

    Classifiers that share the first place are named together. With one table the pairs are
    tested over its cells (Nadeau and Bengio); with several over the tables: two classifiers
    by Wilcoxon's test, more by Nemenyi's.
    """
    summary = summarize(results, leading_metric(results))
    scores = summary.scores
    if not scores.classifiers or not scores.datasets:
        return "No classifier finished: there is nothing to compare."
    if len(scores.classifiers) == 1:
        return _alone(results, summary)
    title = results.title(scores.metric)
    if len(scores.datasets) == 1:
        order = [int(i) for i in scores.losses[0].argsort(kind="stable")]
        standing = {scores.classifiers[i]: float(scores.losses[0, i]) for i in order}
        best = _leaders(standing)
        extreme = "highest" if scores.greater else "lowest"
        # Of classifiers that share a mean each has a deviation of its own.
        spread = summary.spread(0, order[0]) if len(best) == 1 else ""
        place = (
            f"the {extreme} {title} on {abridged(scores.datasets[0])}, "
            f"{scores.values[0, order[0]]:.4f}{spread}"
        )
    else:
        standing = summary.ranks
        best = _leaders(standing)
        place = (
            f"the best average rank on {title} over {len(scores.datasets)} tables, "
            f"{standing[best[0]]:.2f}"
        )
    others = {name: _p_value(summary, best, name) for name in standing if name not in best}
    chance = f": {_beyond_chance(others, _no_test(results, scores.metric))}" if others else ""
    return f"{_holders(best)} {place}{chance}."


def _leaders(standing: dict[str, float]) -> list[str]:
    """Return the classifiers in the first place of a standing, which is sorted, best first."""
    first = next(iter(standing.values()))
    return [name for name, value in standing.items() if isclose(value, first, rel_tol=1e-9)]


def _holders(best: list[str]) -> str:
    """Say who has the first place, as the start of a sentence."""
    if len(best) == 1:
        return f"{abridged(best[0])} has"
    if len(best) <= MAX_NAMED:
        return f"{_listed([abridged(name) for name in best])} share"
    return f"{len(best)} classifiers share"


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
    """Return the p-value of the best against another; of several the largest."""
    found = [_p_of_pair(summary, name, other) for name in best]
    known = [p for p in found if p is not None]
    return max(known) if len(known) == len(found) else None


def _p_of_pair(summary: Summary, a: str, b: str) -> float | None:
    names = summary.scores.classifiers
    pair = next(p for p in summary.pairs if {p.a, p.b} == {a, b})
    if len(summary.scores.datasets) == 1:
        return pair.corrected_p
    if summary.nemenyi is not None:
        return float(summary.nemenyi.p_values[names.index(a), names.index(b)])
    return pair.wilcoxon_p


def _no_test(results: Results, metric: str) -> str:
    """Say why classifiers were not tested, as the start of what names them."""
    if results.is_pooled(metric):
        return "of rounds whose folds are taken together no test tells it from"
    return "one cell cannot tell it from"


def _beyond_chance(p_values: dict[str, float | None], no_test: str) -> str:
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
        parts.append(f"{no_test} {_listed(untested)}")
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
