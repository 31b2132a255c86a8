"""Results of the laboratory as tables in a terminal, or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.cli.console import console, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from tanager.evaluation import Results
    from tanager.evaluation.reproduction import Findings
    from tanager.evaluation.summary import Summary

__all__ = ["print_comparison", "print_evaluation", "print_findings"]


def print_evaluation(results: Results, *, as_json: bool) -> None:
    """Print mean and standard deviation over cells of one classifier on one table."""
    from tanager.evaluation.results import TIMES

    cells = results.records
    numbers = {
        name: (
            float(np.mean([c[name] for c in cells])),
            float(np.std([c[name] for c in cells], ddof=1)) if len(cells) > 1 else 0.0,
        )
        for name in (*results.metrics, *TIMES)
    }
    if as_json:
        facts = {"experiment": results.description, "cells": len(cells)}
        means = {name: {"mean": m, "deviation": s} for name, (m, s) in numbers.items()}
        print_json({**facts, **means})
        return
    table = _table(results.description["name"], "", "mean", "deviation")
    for name, (mean, deviation) in numbers.items():
        table.add_row(results.title(name), _number(mean), _number(deviation))
    out = console()
    out.print(table)
    protocol = results.description["protocol"]
    out.print(
        f"{len(cells)} cells: {protocol['rounds']} rounds of {protocol['folds']} folds, "
        f"seed {results.description['seed']}"
    )


def print_comparison(results: Results, *, as_json: bool) -> None:
    """Print the means, ranks and tests of every metric of an experiment."""
    from tanager.evaluation.summary import summarize

    summaries = [summarize(results, metric) for metric in results.metrics]
    if as_json:
        content = {
            "experiment": results.description,
            "metrics": [summary.to_json() for summary in summaries],
            "failures": [
                {k: f[k] for k in ("dataset", "classifier", "round", "fold", "error")}
                for f in results.failures
            ],
        }
        print_json(content)
        return
    out = console()
    for place, summary in enumerate(summaries):
        if place:
            out.print()
        _print_summary(out, results, summary)
    if results.failures:
        failed = _table(f"{len(results.failures)} failed cells", "dataset", "classifier", "error")
        for (dataset, classifier), error in _distinct(results.failures).items():
            failed.add_row(_escape(dataset), _escape(classifier), _escape(error))
        out.print(failed)


def _print_summary(out: Console, results: Results, summary: Summary) -> None:
    scores = summary.scores
    table = _table(results.title(scores.metric), "dataset", *scores.classifiers)
    for name, row in zip(scores.datasets, scores.values, strict=True):
        best = row.min()
        table.add_row(
            _escape(name), *(f"[bold]{v:.4f}[/]" if v == best else f"{v:.4f}" for v in row)
        )
    if len(scores.classifiers) > 1 and len(scores.datasets) > 1:
        table.add_section()
        table.add_row("mean", *(f"{v:.4f}" for v in scores.values.mean(axis=0)))
        table.add_row("rank", *(f"{summary.ranks[c]:.2f}" for c in scores.classifiers))
    out.print(table)
    if summary.pairs and len(scores.datasets) > 1:
        pairs = _table("", "", "", "wins–draws–losses", "sign test", "Wilcoxon", "ratio")
        for pair in summary.pairs:
            ratio = "" if pair.ratio is None else f"{pair.ratio:.3f}"
            p, q = _p_value(pair.record.p_value), _p_value(pair.wilcoxon_p)
            pairs.add_row(_escape(pair.a), _escape(pair.b), str(pair.record), p, q, ratio)
        out.print(pairs)
    if summary.friedman is not None and summary.nemenyi is not None and len(scores.datasets) > 1:
        out.print(
            f"Friedman: chi-square {summary.friedman.chi_square:.2f}, "
            f"p {_p_value(summary.friedman.p_value)}; "
            f"Nemenyi: critical difference {summary.nemenyi.critical_difference:.2f}"
        )
    if scores.excluded:
        out.print(f"left out, a cell failed: {', '.join(scores.excluded)}", markup=False)


def print_findings(findings: Findings, *, as_json: bool) -> None:
    """Print a paper's numbers beside ours."""
    if as_json:
        print_json(findings.to_json())
        return
    out = console()
    out.print(f"[bold]{findings.title}[/]")
    out.print(findings.how, markup=False)
    for block in findings.blocks:
        out.print()
        table = _table(block.title, *block.columns)
        for row in block.rows:
            table.add_row(*map(_escape, row))
        out.print(table)
        for note in block.notes:
            out.print(f"  {note}", markup=False)
    out.print()
    for line in findings.absent:
        out.print(f"not run: {line}", markup=False)


def _distinct(failures: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    return {(f["dataset"], f["classifier"]): f["error"].splitlines()[-1][:120] for f in failures}


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.1f}"


def _p_value(p: float) -> str:
    text = "<0.001" if p < 0.001 else f"{p:.3f}"
    return f"[bold]{text}[/]" if p <= 0.05 else text


def _table(title: str, *columns: str) -> Any:
    from rich.table import Table

    table = Table(
        title=_escape(title) or None, title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    for i, column in enumerate(columns):
        table.add_column(_escape(column), justify="left" if i == 0 else "right", overflow="fold")
    return table


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
