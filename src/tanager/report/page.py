"""Pages: self-contained HTML files, rendered from templates; those of a comparison and of drift."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tanager import __version__
from tanager.atomic import write_text
from tanager.errors import ConfigurationError
from tanager.escaping import abridged, cut_list, template_environment
from tanager.evaluation.results import Results, Scores
from tanager.evaluation.summary import (
    leading_metric,
    p_text,
    say_pooled,
    score_intervals,
    summarize,
    verdict,
)
from tanager.network.drift import Drift

_SCRIPT = Path(__file__).parent / "templates" / "comparison.js"
MAX_TICKS = 6
MOST_COLUMNS = 60  # drawn columns of a drift page
_MAX_SCATTERS = 6  # classifiers in scatter plots against the best
TIMES = ("fit_cpu_seconds", "fit_seconds", "predict_cpu_seconds", "predict_seconds")


def check_ending(path: str | os.PathLike[str], *, card: bool = False) -> None:
    """Reject a file name whose extension isn't that of HTML, or of Markdown for a card.

    >>> check_ending("report.pdf")
    Traceback (most recent call last):
        ...
    tanager.errors.ConfigurationError: report.pdf: the report is HTML. Use the extension .html.
    """
    if Path(path).suffix.lower() not in (".html", ".htm", *([".md"] if card else [])):
        also = ", or .md for a model card as Markdown" if card else ""
        raise ConfigurationError(f"{path}: the report is HTML. Use the extension .html{also}.")


def page_environment(*packages: str) -> Any:
    """Return the environment for page templates, those of other packages before ours."""
    environment = template_environment(*packages, "tanager.report")
    environment.filters["fit"] = abridged
    environment.filters["sentence"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["p_value"] = p_text
    environment.filters["plain"] = str  # names; the card escapes Markdown's characters
    environment.filters["names"] = cut_list
    return environment


def render_page(template: str, *, script: str = "", **parts: Any) -> str:
    """Return a page; its security policy allows this one script and nothing from elsewhere."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts |= {"version": __version__, "script": script, "script_hash": f"'sha256-{digest}'"}
    page: str = page_environment().get_template(template).render(parts)
    return page


class ScoreCell(NamedTuple):
    """A mean with its standard deviation."""

    text: str
    spread: str
    sort: float | None
    best: bool


def score_table(results: Results, shown: Sequence[str] = ()) -> dict[str, Any]:
    """Return means and deviations by metric, the main one first, and classifier, best on top."""
    metrics = [m for m in _leading_first(results) if m in (shown or results.metrics)]
    lead = metrics[0]
    intervals, n = score_intervals(results, lead), len(results.mean(lead).datasets)
    names = intervals.names if intervals is not None else ()
    columns: dict[str, dict[str, ScoreCell]] = {}
    said = "Means over cells; ±: their standard deviation."
    if intervals is not None and n > 1:
        said = f"Means over {n} tables; ±: root-mean-square deviation over the cells of a table."
        first = intervals.centers[0]
        columns["average rank"] = {
            name: ScoreCell(f"{rank:.2f}", "", rank, best=len(names) > 1 and rank == first)
            for name, rank in zip(names, intervals.centers, strict=True)
        }
    for metric in metrics:
        arrow = "↑" if results.mean(metric).greater else "↓"
        columns[f"{results.title(metric)} {arrow}"] = _column(results, metric)
    rows: list[dict[str, Any]] = [
        {"name": name, "cells": [c[name] for c in columns.values() if name in c], "reason": ""}
        for name in names
    ]
    rows += [
        {"name": name, "cells": [], "reason": why}
        for name, why in results.failed_classifiers().items()
    ]
    if together := say_pooled(results):
        said += f" {together[0].upper()}{together[1:]}."
    caption = f"{said} ↓ lower is better, ↑ higher is better."
    return {"columns": list(columns), "rows": rows, "caption": caption}


def _column(results: Results, metric: str) -> dict[str, ScoreCell]:
    scores, deviation = results.mean(metric), results.deviation(metric)
    if not scores.datasets:
        return {name: ScoreCell("–", "", None, best=False) for name in scores.classifiers}
    means = scores.values.mean(axis=0)
    best = means.max() if scores.greater else means.min()
    cells = {}
    for name, mean, column in zip(scores.classifiers, means, deviation.values.T, strict=True):
        known = column[np.isfinite(column)]
        spread = f"± {np.sqrt((known**2).mean()):.4f}" if len(known) else ""
        leads = bool(len(means) > 1 and mean == best)
        cells[name] = ScoreCell(f"{mean:.4f}", spread, float(mean), leads)
    return cells


def dot_plot(results: Results) -> dict[str, Any] | None:
    """Return the dots and bars of the main metric, and how to place them on its scale."""
    intervals = score_intervals(results, leading_metric(results))
    if intervals is None or len(intervals.names) < 2:
        return None
    place, ticks = _scale(min(intervals.lows), max(intervals.highs))
    return {
        "intervals": intervals,
        "rows": list(zip(*intervals[:4], strict=True)),
        "decimals": 2 if intervals.scale.startswith("average rank") else 4,
        "place": place,
        "ticks": ticks,
    }


def _scale(low: float, high: float) -> tuple[Callable[[float], float], list[tuple[str, float]]]:
    """Return a function from a number to its position on a scale, in percent, and the ticks."""
    ticks = scale_ticks(low, high)
    digits = max(0, -floor(log10(ticks[1] - ticks[0]) + 1e-9))

    def place(value: float) -> float:
        return round(100 * (float(value) - ticks[0]) / (ticks[-1] - ticks[0]), 2)

    return place, [(f"{tick:.{digits}f}", place(tick)) for tick in ticks]


def scale_ticks(low: float, high: float) -> list[float]:
    """Return at most six round numbers that span a range.

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


def write_comparison(results: Results, path: str | Path) -> None:
    """Write the page of an experiment: one HTML file that works offline.

    Parameters
    ----------
    results : Results
    path : path
        The page, which opens from disk without network access.
    """
    check_ending(path)
    write_text(path, render_comparison(results))


def render_comparison(results: Results) -> str:
    """Return the report of an experiment as HTML."""
    description = results.description
    facts = description.get("environment", {})
    return render_page(
        "comparison.html.j2",
        script=_SCRIPT.read_text(encoding="utf-8"),
        title=description["name"],
        verdict=verdict(results),
        results=results,
        scores=score_table(results),
        dots=dot_plot(results),
        sections=[_section(results, metric) for metric in _leading_first(results)],
        times=_times(results),
        failures=Counter(
            (f["dataset"], f["classifier"], f["error"].splitlines()[-1]) for f in results.failures
        ),
        classifiers=[{"options": None, **c} for c in description["classifiers"]],
        processor=f"{facts.get('machine', 'unknown')}, {facts.get('cores', '?')} cores",
        versions=facts.get("versions", {}),
    )


def _leading_first(results: Results) -> list[str]:
    lead = leading_metric(results)
    return [lead, *(metric for metric in results.metrics if metric != lead)]


def _section(results: Results, metric: str) -> dict[str, Any]:
    summary, leads = summarize(results, metric), metric == leading_metric(results)
    scores, pooled = summary.scores, "Over all held-out rows of a round, averaged over rounds."
    ranked: list[str] = []
    # Scatter plots of all metrics would hide the main one. In a scatter plot, lower is better.
    if leads and not scores.greater and len(scores.datasets) > 2:
        ranked = list(summary.ranks)[:_MAX_SCATTERS]
    calibrated = scores.classifiers if metric == "calibration_error" and scores.datasets else ()
    return {
        "id": metric,
        "open": leads,
        "title": results.title(metric),
        "caption": pooled if results.is_pooled(metric) else "Mean over cells.",
        "summary": summary,
        "scatters": [loss_scatter(scores, ranked[0], other) for other in ranked[1:]],
        "curves": {name: results.reliability(name) for name in calibrated},
    }


def loss_scatter(scores: Scores, first: str, second: str) -> dict[str, Any]:
    """Return two classifiers' losses as points on one scale, the three farthest apart labelled."""
    x, y = scores.of(first), scores.of(second)
    place, ticks = _scale(float(min(x.min(), y.min())), float(max(x.max(), y.max())))
    far, named = np.argsort(-np.abs(x - y), kind="stable").tolist(), list[int]()
    for at in far:
        free = all(abs(place(y[at]) - place(y[other])) > 4.5 for other in named)
        if x[at] != y[at] and free and len(named) < 3:
            named.append(at)
    labels = [name if at in named else "" for at, name in enumerate(scores.datasets)]
    return {
        "names": (first, second),
        "wins": ((x < y).sum(), (y < x).sum()),
        "points": list(zip(scores.datasets, x, y, labels, strict=True)),
        "place": place,
        "ticks": ticks,
    }


def _times(results: Results) -> list[tuple[str, int, list[float]]]:
    """Return each classifier with its finished cells, their times and peak memory."""
    rows = []
    for classifier in results.classifiers:
        cells = (r for r in results.records if r["classifier"] == classifier)
        done = [r for r in cells if r["status"] == "ok"]
        sums = [float(sum(r[name] for r in done)) for name in TIMES]
        memory = max((float(r["peak_memory_mb"]) for r in done), default=0.0)
        rows.append((classifier, len(done), [*sums, memory]))
    return rows


def write_drift(drift: Drift, path: str | os.PathLike[str], *, title: str = "Drift") -> None:
    """Write the findings of `Network.drift` as one HTML file that works offline.

    Parameters
    ----------
    drift : Drift
    path : path
        The page; it contains shares of rows, never a row.
    title : str, default="Drift"

    Examples
    --------
    >>> import os, tempfile
    >>> from tanager import BayesNetClassifier
    >>> from tanager.report import write_drift
    >>> clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 20, [0, 1] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_drift(clf.drift([["a"]] * 30), os.path.join(folder, "drift.html"))
    """
    check_ending(path)
    profiles = sorted(drift.profiles, key=lambda one: one.column not in drift.columns)
    shown, still = profiles[:MOST_COLUMNS], [shift for shift in drift.shifts if not shift.moved]
    page = render_page("drift.html.j2", title=title, drift=drift, profiles=shown, still=still)
    write_text(path, page)
