"""The report of an experiment: one HTML page that needs nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tanager.atomic import write_text
from tanager.errors import ConfigurationError
from tanager.escaping import abridged
from tanager.evaluation.results import Results
from tanager.evaluation.summary import Summary, leading_metric, summarize
from tanager.evaluation.verdict import verdict
from tanager.report.ending import check_ending
from tanager.report.figures import plot_critical_difference, plot_loss_scatter, plot_reliability
from tanager.report.overview import dot_plot, score_table
from tanager.report.style import to_svg

__all__ = ["Figure", "page_environment", "render_comparison", "write_comparison"]

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


def page_environment(*packages: str) -> Any:
    """Return what renders the templates of pages, those of other packages before ours."""
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ConfigurationError(
            "a report needs Jinja2, which is not installed. Install it: pip install jinja2."
        ) from error
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "tanager.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["fit"] = abridged
    return environment


def render_comparison(results: Results) -> str:
    """Return the report of an experiment as HTML."""
    environment = page_environment()
    description = results.description
    page: str = environment.get_template("report.html.j2").render(
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
    return page


def _leading_first(results: Results) -> list[str]:
    lead = leading_metric(results)
    return [lead, *(metric for metric in results.metrics if metric != lead)]


def _lead(results: Results) -> str:
    protocol = results.description["protocol"]
    if "folds" in protocol:
        how = f"{_plural(protocol['rounds'], 'round')} of {protocol['folds']}-fold cross-validation"
    else:
        how = f"learning curves of {_plural(protocol['rounds'], 'round')}"
    return (
        f"{_plural(len(results.classifiers), 'classifier')} on "
        f"{_plural(len(results.datasets), 'dataset')}, {how}: "
        f"{_plural(len(results.records), 'cell')}, {len(results.failures)} failed."
    )


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
            "caption": "Of all held-out rows of a round together, mean over rounds."
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
            f"p {_p(summary.friedman.p_value)})."
        )
    if summary.scores.excluded:
        parts.append(f"Left out, since a cell failed: {', '.join(summary.scores.excluded)}.")
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
                PageCell(_p(p), p, "significant" if p <= 0.05 else ""),
                PageCell(_p(q), q, "significant" if q <= 0.05 else ""),
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


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _figures(results: Results, summary: Summary) -> list[Figure]:
    scores, title = summary.scores, results.title(summary.scores.metric)
    figures = []
    if summary.nemenyi is not None and len(scores.datasets) > 1:
        ax = plot_critical_difference(scores.classifiers, summary.nemenyi)
        caption = "Average ranks; a bar joins classifiers that do not differ by Nemenyi's test."
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
            caption = f"One point a dataset; above the diagonal {abridged(best)} loses less."
            svg = to_svg(ax.figure, title=f"{title} of {best} and {other}")
            figures.append(Figure(svg, caption))
    if summary.scores.metric == "calibration_error" and scores.datasets:
        curves = {name: results.reliability(name) for name in scores.classifiers}
        svg = to_svg(plot_reliability(curves).figure, title="Calibration")
        figures.append(Figure(svg, "All test rows of all datasets together, in 15 bins."))
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
    protocol = ", ".join(f"{k} {v}" for k, v in description["protocol"].items())
    datasets = ", ".join(d["name"] for d in description["datasets"])
    return [
        ("Protocol", protocol),
        ("Seed", str(description["seed"])),
        ("Datasets", datasets),
        ("Metrics", ", ".join(results.measured)),
    ]


def _environment(description: dict[str, Any]) -> list[tuple[str, str]]:
    facts = description.get("environment", {})
    versions = facts.get("versions", {})
    return [
        ("Processor", f"{facts.get('machine', 'unknown')}, {facts.get('cores', '?')} cores"),
        *((name, version) for name, version in versions.items()),
    ]
