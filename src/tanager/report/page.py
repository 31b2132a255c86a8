"""The page of a comparison: one HTML file that needs nothing else."""

from __future__ import annotations

from collections import Counter
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tanager.atomic import write_text
from tanager.escaping import abridged
from tanager.evaluation.results import Results
from tanager.evaluation.summary import (
    Summary,
    leading_metric,
    say_pooled,
    score_intervals,
    summarize,
    verdict,
)
from tanager.report.figures import plot_critical_difference, plot_loss_scatter, plot_reliability
from tanager.report.rendering import check_ending, p_text, render_page
from tanager.report.style import to_svg

_SCRIPT = Path(__file__).parent / "templates" / "comparison.js"
MAX_TICKS = 6


class ScoreCell(NamedTuple):
    """A mean with its deviation."""

    text: str
    spread: str
    sort: float | None
    best: bool


def score_table(results: Results) -> dict[str, Any]:
    """Return classifiers × metrics: means over tables, and deviations over cells or rounds.

    The leading metric stands first, and the best classifier by it on top; a classifier
    that failed on every table is a row with its reason.
    """
    metrics = _leading_first(results)
    lead = metrics[0]
    columns: dict[str, dict[str, ScoreCell]] = {m: _column(results, m) for m in metrics}
    intervals = score_intervals(results, lead)
    order = intervals.names if intervals is not None else ()
    many = len(results.mean(lead).datasets) > 1
    rows: list[dict[str, Any]] = []
    for at, name in enumerate(order):
        cells = [columns[metric][name] for metric in metrics if name in columns[metric]]
        if many and intervals is not None:
            rank = intervals.centers[at]
            best = len(order) > 1 and rank == intervals.centers[0]
            cells.insert(0, ScoreCell(f"{rank:.2f}", "", rank, best))
        rows.append({"name": name, "cells": cells, "reason": ""})
    failed = results.failed_classifiers()
    rows += [{"name": name, "cells": [], "reason": why} for name, why in failed.items()]
    titles = [f"{results.title(m)} {'↑' if results.mean(m).greater else '↓'}" for m in metrics]
    if many:
        titles.insert(0, "average rank")
    return {"columns": titles, "rows": rows, "caption": _caption(results, lead, many=many)}


def _caption(results: Results, lead: str, *, many: bool) -> str:
    said = "Means over cells; ±: their standard deviation."
    if many:
        n = len(results.mean(lead).datasets)
        said = f"Means over {n} tables; ±: deviation over the cells of a table (root mean square)."
    together = say_pooled(results)
    if together:
        said += f" {together[0].upper()}{together[1:]}."
    return f"{said} ↓ lower is better, ↑ higher is better."


def _column(results: Results, metric: str) -> dict[str, ScoreCell]:
    scores, deviation = results.mean(metric), results.deviation(metric)
    if not scores.datasets:
        return {name: ScoreCell("–", "", None, best=False) for name in scores.classifiers}
    means = scores.values.mean(axis=0)
    spreads = []
    for column in deviation.values.T:
        known = column[np.isfinite(column)]
        spreads.append(f"± {np.sqrt((known**2).mean()):.4f}" if len(known) else "")
    best = means.max() if scores.greater else means.min()
    several = len(means) > 1
    return {
        name: ScoreCell(f"{mean:.4f}", spread, float(mean), bool(several and mean == best))
        for name, mean, spread in zip(scores.classifiers, means, spreads, strict=True)
    }


def dot_plot(results: Results) -> dict[str, Any] | None:
    """Return the dots and bars of the leading metric as shares of the scale, in percent."""
    intervals = score_intervals(results, leading_metric(results))
    if intervals is None or len(intervals.names) < 2:
        return None
    ticks = scale_ticks(min(intervals.lows), max(intervals.highs))
    low, high = ticks[0], ticks[-1]
    digits = max(0, -floor(log10(ticks[1] - ticks[0]) + 1e-9))
    shown = 2 if intervals.scale.startswith("average rank") else 4

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    return {
        "scale": intervals.scale,
        "meaning": intervals.meaning,
        "rows": [
            {
                "name": name,
                "text": f"{center:.{shown}f}",
                "dot": place(center),
                "low": place(low),
                "wide": round(place(high) - place(low), 2),
            }
            for name, center, low, high in zip(*intervals[:4], strict=True)
        ],
        "ticks": [(f"{tick:.{digits}f}", place(tick)) for tick in ticks],
    }


def scale_ticks(low: float, high: float) -> list[float]:
    """Return at most six round numbers that hold a range between them.

    >>> scale_ticks(0.231, 0.402)
    [0.2, 0.25, 0.3, 0.35, 0.4, 0.45]
    >>> scale_ticks(0.5, 0.5)
    [0.4, 0.45, 0.5, 0.55, 0.6]
    """
    if high - low <= 1e-12 * max(1.0, abs(high)):
        room = 10.0 ** (floor(log10(abs(high) or 1.0)))
        low, high = low - room, high + room
    power = 10.0 ** floor(log10((high - low) / 5) - 1)
    for step in (power * part for part in (1, 2, 5, 10, 20, 50, 100)):
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        if last - first < MAX_TICKS:
            break
    return [round(at * step, 12) for at in range(first, last + 1)]


# Beyond this many classifiers each metric shows scatters against the best only.
_MAX_SCATTERS = 6


class PageCell(NamedTuple):
    """A cell of a table: what is read, what is sorted by, how it is marked."""

    text: str
    sort: float | None = None
    mark: str = ""


class Figure(NamedTuple):
    """A picture with its caption."""

    svg: str
    caption: str
    wide: bool = False


def write_comparison(results: Results, path: str | Path) -> None:
    """Write the report of an experiment, whole or not at all.

    Parameters
    ----------
    results : Results
    path : path
        The page, which opens from disk without a network.
    """
    check_ending(path)
    write_text(path, render_comparison(results))


def render_comparison(results: Results) -> str:
    """Return the report of an experiment as HTML."""
    description = results.description
    return render_page(
        "comparison.html.j2",
        script=_SCRIPT.read_text(encoding="utf-8"),
        title=description["name"],
        verdict=verdict(results),
        lead=_lead(results),
        scores=score_table(results),
        dots=dot_plot(results),
        sections=[_section(results, metric) for metric in _leading_first(results)],
        times=_times(results),
        failures=_failures(results),
        facts=_facts(results),
        classifiers=[{"options": None, **c} for c in description["classifiers"]],
        environment=_environment(description),
    )


def _leading_first(results: Results) -> list[str]:
    lead = leading_metric(results)
    return [lead, *(metric for metric in results.metrics if metric != lead)]


def _lead(results: Results) -> str:
    return (
        f"{_plural(len(results.classifiers), 'classifier')} on "
        f"{_plural(len(results.datasets), 'dataset')}, {_protocol(results)}: "
        f"{_plural(len(results.records), 'cell')}, {len(results.failures)} failed."
    )


def _protocol(results: Results) -> str:
    protocol = results.description["protocol"]
    rounds = _plural(protocol["rounds"], "round")
    if "folds" not in protocol:
        return f"learning curves of {rounds}"
    kind = "stratified " if protocol.get("stratified") else ""
    return f"{rounds} of {kind}{protocol['folds']}-fold cross-validation"


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _section(results: Results, metric: str) -> dict[str, Any]:
    summary = summarize(results, metric)
    scores = summary.scores
    rows = []
    for name, values in zip(scores.datasets, scores.values, strict=True):
        best = values.max() if scores.greater else values.min()
        marks = ["best" if len(values) > 1 and v == best else "" for v in values]
        cells = [PageCell(f"{v:.4f}", float(v), m) for v, m in zip(values, marks, strict=True)]
        rows.append([PageCell(name), *cells])
    foot = []
    if len(scores.datasets) > 1:
        foot.append(["mean", *(f"{v:.4f}" for v in scores.values.mean(axis=0))])
        if len(scores.classifiers) > 1:
            ranks = (f"{summary.ranks[c]:.2f}" for c in scores.classifiers)
            foot.append(["average rank", *ranks])
    return {
        "id": metric,
        "open": metric == leading_metric(results),
        "title": results.title(metric),
        "text": _verdict(summary),
        "scores": {
            "caption": "Over all held-out rows of a round, averaged over rounds."
            if results.is_pooled(metric)
            else "Mean over cells.",
            "columns": ["dataset", *scores.classifiers],
            "rows": rows,
            "foot": foot,
        },
        "pairs": _pairs(summary),
        "figures": _figures(results, summary),
    }


def _verdict(summary: Summary) -> str:
    parts = []
    if summary.friedman is not None and len(summary.scores.datasets) > 1:
        significant = "differ" if summary.friedman.p_value <= 0.05 else "do not differ"
        parts.append(
            f"By Friedman's test the classifiers {significant} in rank "
            f"(chi-square {summary.friedman.chi_square:.2f}, "
            f"p {p_text(summary.friedman.p_value)})."
        )
    if summary.scores.excluded:
        parts.append(f"Left out because a cell failed: {', '.join(summary.scores.excluded)}.")
    return " ".join(parts)


def _pairs(summary: Summary) -> dict[str, Any] | None:
    if not summary.pairs or len(summary.scores.datasets) < 2:
        return None
    rows = []
    for pair in summary.pairs:
        p, q = pair.record.p_value, pair.wilcoxon_p
        rows.append(
            [
                PageCell(f"{pair.a} against {pair.b}"),
                PageCell(str(pair.record), pair.record.wins - pair.record.losses),
                PageCell(p_text(p), p, "significant" if p <= 0.05 else ""),
                PageCell(p_text(q), q, "significant" if q <= 0.05 else ""),
                PageCell("" if pair.ratio is None else f"{pair.ratio:.3f}", pair.ratio),
            ]
        )
    return {
        "caption": "Wins, draws and losses over datasets; two-tailed tests, p ≤ 0.05 in bold; "
        "geometric mean of the ratios of losses.",
        "columns": ["pair", "win–draw–loss", "sign test p", "Wilcoxon p", "ratio"],
        "rows": rows,
        "foot": [],
    }


def _figures(results: Results, summary: Summary) -> list[Figure]:
    scores, title = summary.scores, results.title(summary.scores.metric)
    figures = []
    if summary.nemenyi is not None and len(scores.datasets) > 1:
        ax = plot_critical_difference(scores.classifiers, summary.nemenyi)
        caption = (
            "Average ranks; a bar connects classifiers that don't differ significantly by "
            "Nemenyi's test."
        )
        svg = to_svg(ax.figure, title=f"Average ranks on {title}")
        figures.append(Figure(svg, caption, wide=True))
    # One metric decides: the scatters of all would hide it. A scatter reads "less is better".
    leads = scores.metric == leading_metric(results) and not scores.greater
    if len(scores.datasets) > 2 and len(scores.classifiers) > 1 and leads:
        best = next(iter(summary.ranks))
        for other in list(summary.ranks)[1:_MAX_SCATTERS]:
            ax = plot_loss_scatter(
                scores.of(best),
                scores.of(other),
                (best, other),
                loss=title,
                labels=scores.datasets,
            )
            caption = (
                f"One point per dataset; above the diagonal, {abridged(best)} has the lower loss."
            )
            svg = to_svg(ax.figure, title=f"{title} of {best} and {other}")
            figures.append(Figure(svg, caption))
    if summary.scores.metric == "calibration_error" and scores.datasets:
        curves = {name: results.reliability(name) for name in scores.classifiers}
        svg = to_svg(plot_reliability(curves).figure, title="Calibration")
        figures.append(Figure(svg, "All test rows of all datasets pooled, in 15 bins."))
    return figures


def _times(results: Results) -> dict[str, Any]:
    names = {
        "fit_cpu_seconds": "fit, CPU s",
        "fit_seconds": "fit, s",
        "predict_cpu_seconds": "predict, CPU s",
        "predict_seconds": "predict, s",
        "peak_memory_mb": "peak memory, MB",
    }
    rows = []
    for classifier in results.classifiers:
        cells = [r for r in results.records if r["classifier"] == classifier]
        done = [r for r in cells if r["status"] == "ok"]
        values = [
            max((r[n] for r in done), default=0.0)
            if n == "peak_memory_mb"
            else sum(r[n] for r in done)
            for n in names
        ]
        texts = [PageCell(f"{v:,.2f}", float(v)) for v in values]
        rows.append([PageCell(classifier), PageCell(str(len(done)), len(done)), *texts])
    return {
        "caption": "Sums over cells; memory is the largest resident size of the process.",
        "columns": ["classifier", "cells", *names.values()],
        "rows": rows,
        "foot": [],
    }


def _failures(results: Results) -> list[dict[str, Any]]:
    count = Counter(
        (f["dataset"], f["classifier"], f["error"].splitlines()[-1]) for f in results.failures
    )
    return [
        {"dataset": d, "classifier": c, "error": e, "cells": n} for (d, c, e), n in count.items()
    ]


def _facts(results: Results) -> list[tuple[str, str]]:
    description = results.description
    datasets = ", ".join(d["name"] for d in description["datasets"])
    return [
        ("Protocol", _protocol(results)),
        ("Seed", str(description["seed"])),
        ("Datasets", datasets),
        ("Metrics", "; ".join(map(results.title, results.measured))),
    ]


def _environment(description: dict[str, Any]) -> list[tuple[str, str]]:
    facts = description.get("environment", {})
    versions = facts.get("versions", {})
    return [
        ("Processor", f"{facts.get('machine', 'unknown')}, {facts.get('cores', '?')} cores"),
        *((name, version) for name, version in versions.items()),
    ]
