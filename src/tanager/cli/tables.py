"""Results of evaluations and comparisons as terminal tables or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanager.cli.console import console, plain, plain_table, print_json
from tanager.evaluation import Results
from tanager.evaluation.metrics import DEFAULT_METRICS, known_number
from tanager.evaluation.summary import (
    ALPHA,
    Summary,
    leading_metric,
    p_text,
    say_pooled,
    summarize,
    verdict,
)

if TYPE_CHECKING:
    from rich.console import Console

# The columns of the first table; --details and --json show every metric.
OVERVIEW = ("accuracy", "auc", "f1", "log_loss", "brier_score", "calibration_error")


def print_evaluation(results: Results, *, as_json: bool) -> None:
    """Print mean and standard deviation of one classifier on one table."""
    cells, numbers = results.records, {}
    for name in results.measured:
        both = results.mean(name), results.deviation(name)
        numbers[name] = [known_number(s.values[0, 0]) if s.datasets else None for s in both]
    if as_json:
        facts = {
            "experiment": results.description,
            "verdict": verdict(results),
            "cells": len(cells),
        }
        means = {name: {"mean": m, "deviation": s} for name, (m, s) in numbers.items()}
        print_json({**facts, **means})
        return
    out = console()
    out.print(f"[bold]{plain(verdict(results))}[/]\n")
    table = plain_table("", "mean", "deviation")
    for name, pair in numbers.items():
        shown = ["" if v is None else f"{v:.4f}" if abs(v) < 100 else f"{v:.1f}" for v in pair]
        table.add_row(results.title(name), *shown)
    out.print(table)
    protocol, seed = results.description["protocol"], results.description["seed"]
    rounds = "1 round" if protocol["rounds"] == 1 else f"{protocol['rounds']} rounds"
    out.print(f"{len(cells)} cells: {rounds} of {protocol['folds']} folds, seed {seed}")
    if say_pooled(results):
        out.print(say_pooled(results))


def print_comparison(results: Results, *, as_json: bool, details: bool = False) -> None:
    """Print the verdict, one row per classifier, and the tests for the main or every metric."""
    if as_json:
        summaries = [summarize(results, metric) for metric in results.metrics]
        content = {
            "experiment": results.description,
            "verdict": verdict(results),
            "metrics": [summary.to_dict() for summary in summaries],
            "failures": [
                {k: f[k] for k in ("dataset", "classifier", "round", "fold", "error")}
                for f in results.failures
            ],
        }
        print_json(content)
        return
    out = console()
    out.print(f"[bold]{plain(verdict(results))}[/]\n")
    failed = results.failed_classifiers()
    if len(failed) < len(results.classifiers):
        _print_overview(out, results)
    for name, reason in failed.items():
        out.print(f"[bold]{plain(name)}[/] failed: {plain(reason)}")
    if len(failed) == len(results.classifiers):
        return
    leading = leading_metric(results)
    for metric in results.metrics if details else [leading]:
        out.print()
        _print_summary(out, results, summarize(results, metric))
    if not details:
        out.print("\nFor every metric: --details")
    partly = [f for f in results.failures if f["classifier"] not in failed]
    if partly:
        cells = plain_table("dataset", "classifier", "error", title=f"{len(partly)} failed cells")
        errors = {
            (f["dataset"], f["classifier"]): f["error"].splitlines()[-1][:120] for f in partly
        }
        for (dataset, classifier), error in errors.items():
            cells.add_row(plain(dataset), plain(classifier), plain(error))
        out.print(cells)


def _print_overview(out: Console, results: Results) -> None:
    """Print one row per classifier: means, with standard deviations if there is one table."""
    from tanager.report.page import score_table

    # Metrics that the user chose are all shown.
    shown = OVERVIEW if results.metrics == DEFAULT_METRICS else results.metrics
    table, one = score_table(results, shown), len(results.datasets) == 1
    rows = []
    for row in table["rows"]:
        texts = [f"[bold]{cell.text}[/]" if cell.best else cell.text for cell in row["cells"]]
        spreads = [f" {cell.spread}" if one and cell.spread else "" for cell in row["cells"]]
        rows.append([plain(row["name"]), *map("".join, zip(texts, spreads, strict=True))])
    _print_rows(out, ["classifier", *table["columns"]], [row for row in rows if len(row) > 1])
    means = f"Means over {len(results.datasets)} tables; ↓ lower is better, ↑ higher is better."
    out.print(table["caption"] if one else means, markup=False)
    if not one and say_pooled(results):
        out.print(say_pooled(results))


def _print_rows(out: Console, titles: list[str], rows: list[list[str]]) -> None:
    """Print a table, or one block of lines per row if it's wider than the terminal."""
    table = plain_table(*titles)
    for cells in rows:
        table.add_row(*cells)
    if out.measure(table, options=out.options.update_width(10_000)).maximum <= out.width:
        out.print(table)
        return
    for name, *cells in rows:
        block = plain_table(name, "")
        for title, cell in zip(titles[1:], cells, strict=True):
            block.add_row(f"  {title}", cell)
        out.print(block)


def _print_summary(out: Console, results: Results, summary: Summary) -> None:
    scores = summary.scores
    table = plain_table("dataset", *scores.classifiers, title=results.title(scores.metric))
    for name, row in zip(scores.datasets, scores.values, strict=True):
        best = row.max() if scores.greater else row.min()
        table.add_row(plain(name), *(f"[bold]{v:.4f}[/]" if v == best else f"{v:.4f}" for v in row))
    if len(scores.datasets) == 1:
        _print_pairs_of_one_table(out, results, summary)
        return
    if len(scores.classifiers) > 1 and len(scores.datasets) > 1:
        table.add_section()
        table.add_row("mean", *(f"{v:.4f}" for v in scores.values.mean(axis=0)))
        table.add_row("rank", *(f"{summary.ranks[c]:.2f}" for c in scores.classifiers))
    out.print(table)
    if summary.pairs and len(scores.datasets) > 1:
        pairs = plain_table("", "", "wins–draws–losses", "sign test", "Wilcoxon", "ratio")
        for pair in summary.pairs:
            ratio = "" if pair.ratio is None else f"{pair.ratio:.3f}"
            p, q = _p_value(pair.record.p_value), _p_value(pair.wilcoxon_p)
            pairs.add_row(plain(pair.a), plain(pair.b), str(pair.record), p, q, ratio)
        out.print(pairs)
    if summary.friedman is not None and summary.nemenyi is not None and len(scores.datasets) > 1:
        out.print(
            f"Friedman: chi-square {summary.friedman.chi_square:.2f}, "
            f"p {_p_value(summary.friedman.p_value)}; "
            f"Nemenyi: critical difference {summary.nemenyi.critical_difference:.2f}"
        )
    if scores.excluded:
        out.print(f"left out because a cell failed: {', '.join(scores.excluded)}", markup=False)


def _print_pairs_of_one_table(out: Console, results: Results, summary: Summary) -> None:
    """Print the differences of all pairs on one table, with the corrected t-test."""
    scores = summary.scores
    title = f"{results.title(scores.metric)}: differences on {scores.datasets[0]}"
    pairs = plain_table("", "", "difference", "corrected t-test, p", title=title)
    for pair in summary.pairs:
        gap = float(scores.of(pair.a)[0] - scores.of(pair.b)[0])
        p = "" if pair.corrected_p is None else _p_value(pair.corrected_p)
        pairs.add_row(plain(pair.a), plain(pair.b), f"{gap:+.4f}", p)
    if summary.pairs:
        out.print(pairs)


def _p_value(p: float) -> str:
    return f"[bold]{p_text(p)}[/]" if p <= ALPHA else p_text(p)
