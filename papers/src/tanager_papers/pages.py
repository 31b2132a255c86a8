"""Pages of the papers: Markdown with figures, one HTML page each, and an index of claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tanager.atomic import replacing, write_text
from tanager.evaluation.statistics import nemenyi
from tanager.report.page import page_environment
from tanager_papers.curves import Curves
from tanager_papers.findings import CELLS, KEPT, VERDICTS, Findings, Picture
from tanager_papers.plots import (
    plot_bars,
    plot_convergence,
    plot_convergence_histogram,
    plot_critical_difference,
    plot_curves,
    plot_envelopes,
    plot_loss_scatter,
    plot_margins,
    plot_scatters,
    standalone_svg,
    to_svg,
)
from tanager_papers.verdicts import LEVEL, RULE

__all__ = ["DRAWINGS", "draw_picture", "write_findings", "write_index"]


class Figure(NamedTuple):
    """A picture with its caption."""

    svg: str
    caption: str
    wide: bool = False


INTRODUCTION = (
    "Five papers on Bayesian network classifiers, run again with Tanager: what their experiments "
    "claim, the papers' numbers next to ours, and a verdict by one rule for all. A verdict is "
    "about the claim on the tables we have and under the protocol given, not about the paper as a "
    "whole. The papers' own pages have all tables and figures, and end with what wasn't run and "
    "why."
)
PROTOCOL = (
    "**Data.** The papers' tables as far as they can be had: the authors' own discretised tables "
    "for Roth and Pernkopf (mnist excepted), UCI and KEEL tables for the others. Each page lists "
    "missing tables and those that differ from the paper's versions.",
    "**Fits.** Usually five rounds of 2-fold cross-validation (one round above 10,000 rows), "
    "5-fold for Pernkopf and Bilmes, with numbers discretised on the training fold; folds and "
    "random states derive from one seed. Where a paper's protocol is followed only in part, "
    "because it would take thousands of trainings or leaves something open, the notes below "
    "the table say so. Learners follow the papers' rules, not Tanager's defaults ([where those "
    "differ](../deviations.md)).",
    "**Error.** Intervals of shares of wins are over tables; those of means are over tables, "
    "folds, shuffles or trainings, as stated. They don't cover the choice of tables, and "
    "intervals over trainings on one division don't cover the choice of test rows.",
    "**Reproducing.** `tanager reproduce PAPER` runs a paper and resumes where it was stopped; "
    "`--only PART` runs one of the parts listed at the top of its page. Every fit is in "
    "`PAPER/cells.parquet`, and what was computed outside the laboratory in `PAPER/kept.json`, so "
    "you can judge by another rule. `--published docs/reproduction` "
    "reuses those fits as long as their classifiers still give the same answers on a fixed "
    "probe; only fits of zaidi-2017 whose predictions or optimisation traces are needed run "
    "again.",
)


def _scatter(data: Mapping[str, Any]) -> Any:
    return plot_loss_scatter(
        data["a"],
        data["b"],
        tuple(data["names"]),
        loss=data.get("loss", "loss"),
        log=data.get("log", False),
        labels=data.get("labels"),
    )


def _curves(data: Mapping[str, Any]) -> Any:
    lines = data["lines"]
    mean = np.array(list(lines.values()), float)
    bands = data.get("bands", {})
    deviation = np.array([bands.get(name, np.zeros_like(mean[0])) for name in lines], float)
    curves = Curves(np.array(data["x"], float), tuple(lines), mean, deviation)
    return plot_curves(curves, x=data["x_label"], y=data["y_label"], log=data.get("log", True))


def _ranks(data: Mapping[str, Any]) -> Any:
    return plot_critical_difference(data["names"], nemenyi(data["scores"]))


DRAWINGS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "scatter": _scatter,
    "scatters": lambda data: plot_scatters(**data),
    "bars": lambda data: plot_bars(**data),
    "convergence": lambda data: plot_convergence(**data),
    "histogram": lambda data: plot_convergence_histogram(**data),
    "ranks": _ranks,
    "curves": _curves,
    "margins": lambda data: plot_margins(**data),
    "envelopes": lambda data: plot_envelopes(**data),
}


def draw_picture(picture: Picture) -> str:
    """Return a picture as SVG in the page's colours."""
    ax = DRAWINGS[picture.kind](picture.data)
    return to_svg(ax.figure, title=picture.title)


def write_findings(findings: Findings, folder: str | Path) -> list[Path]:
    """Write a paper's page: Markdown with its figures, HTML that needs nothing else, and data.

    Parameters
    ----------
    findings : Findings
    folder : path
        Receives ``PAPER.md``, ``PAPER/*.svg``, ``PAPER.html``, ``PAPER.json`` and, where
        anything was run, ``PAPER/cells.parquet`` with every fit and ``PAPER/kept.json`` with
        numbers of another kind. Figures of an earlier page go.

    Returns
    -------
    list of Path
        The Markdown page, the HTML page and the data.
    """
    target = Path(folder)
    figures = target / findings.paper
    figures.mkdir(parents=True, exist_ok=True)
    earlier = _earlier_pictures(target / f"{findings.paper}.json")
    drawn = {}
    for picture in findings.pictures:
        file = figures / f"{picture.name}.svg"
        # What has not changed, or came without its data from an earlier page, stands as it is.
        if file.exists() and (not picture.data or picture.to_dict() == earlier.get(picture.name)):
            drawn[picture.name] = file.read_text(encoding="utf-8")
        else:
            drawn[picture.name] = draw_picture(picture)
            write_text(file, standalone_svg(drawn[picture.name]))
    for old in figures.glob("*.svg"):
        if old.stem not in drawn:
            old.unlink()
    if findings.cells is not None:
        from pyarrow import parquet

        with replacing(figures / CELLS) as part:
            parquet.write_table(findings.cells, part, compression="zstd")
    if findings.kept:
        write_text(figures / KEPT, json.dumps(findings.kept, ensure_ascii=False, indent=1) + "\n")
    files = {name: f"{findings.paper}/{name}.svg" for name in drawn}
    pages = [target / f"{findings.paper}.{ending}" for ending in ("md", "html", "json")]
    write_text(pages[0], findings.to_markdown(files))
    write_text(pages[1], _html(findings, drawn))
    write_text(pages[2], json.dumps(_without_traces(findings), ensure_ascii=False, indent=1) + "\n")
    return pages


def _earlier_pictures(page: Path) -> dict[str, dict[str, Any]]:
    """Return the pictures of the page that is there, by name."""
    if not page.exists():
        return {}
    parts = json.loads(page.read_text(encoding="utf-8"))["parts"]
    blocks = [block for part in parts for block in part["blocks"]]
    return {picture["name"]: picture for block in blocks for picture in block["pictures"]}


def _without_traces(findings: Findings) -> dict[str, Any]:
    """Return the data of a page, but for the courses of optimisers, which the run files have."""
    data = findings.to_dict()
    for part in data["parts"]:
        for block in part["blocks"]:
            for picture in block["pictures"]:
                if picture["kind"] == "convergence":
                    picture["data"] = {}
    return data


def _html(findings: Findings, drawn: Mapping[str, str]) -> str:
    blocks = [
        {
            "title": block.title,
            "columns": block.columns,
            "rows": block.rows,
            "notes": block.notes,
            "figures": [
                Figure(drawn[p.name], f"{p.title}. {p.caption}", wide=p.kind in ("bars", "ranks"))
                for p in block.pictures
            ],
        }
        for block in findings.blocks
    ]
    return (
        page_environment("tanager_papers")
        .get_template("paper.html.j2")
        .render(findings=findings, blocks=blocks)
    )


def write_index(folder: str | Path) -> Path:
    """Write the index of the pages in a folder: one line for each claim of each paper.

    Reads the papers' JSON files, so that pages made at different times stand together.
    """
    target = Path(folder)
    papers = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(target.glob("*-*.json"))]
    lines = ["# The papers, run again", "", INTRODUCTION, "", *_tally(papers), ""]
    lines += ["## Protocols and errors", ""]
    lines += [line for text in PROTOCOL for line in (text, "")]
    lines += ["## How a claim is judged", ""]
    lines += [line for text in (*RULE, _chance(papers)) for line in (text, "")]
    for paper in papers:
        name = paper["paper"]
        lines += [f"## [{name}]({name}.md)", "", paper["title"], ""]
        lines += [*(f"- {how}" for how in _how(paper)), ""]
        lines += ["| claim | here | measured |", "| --- | --- | --- |"]
        for claim in _claims(paper):
            cells = [claim["text"], f"**{claim['verdict']}**", claim["number"]]
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        lines.append("")
    path = target / "index.md"
    write_text(path, "\n".join(lines))
    return path


def _claims(paper: Mapping[str, Any]) -> list[dict[str, str]]:
    return [claim for part in paper["parts"] for claim in part["claims"]]


def _how(paper: Mapping[str, Any]) -> list[str]:
    """Return how each part of a paper was run."""
    named = len(paper["parts"]) > 1
    return [f"Part {p['name']}. {p['how']}" if named else p["how"] for p in paper["parts"]]


def _tally(papers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of how many claims of each paper have which verdict."""
    rows = [["paper", "claims", *VERDICTS]]
    for paper in papers:
        found = [claim["verdict"] for claim in _claims(paper)]
        name = f"[{paper['paper']}]({paper['paper']}.md)"
        rows.append([name, str(len(found)), *(str(found.count(verdict)) for verdict in VERDICTS)])
    sums = [str(sum(int(row[at]) for row in rows[1:])) for at in range(1, len(rows[0]))]
    rows.append(["all", *sums])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], f"| --- |{' ---: |' * (len(rows[0]) - 1)}", *lines[1:]]


def _chance(papers: Sequence[Mapping[str, Any]]) -> str:
    """Say how many claims would hold by chance: the correction is within claims."""
    n = sum(
        claim["verdict"] != "cannot be tested here" for paper in papers for claim in _claims(paper)
    )
    return (
        f"The correction is within claims, not across them: if none of the {n} claims tested were "
        f"true, up to {n * LEVEL / 2:.0f} of those judged by intervals would be expected to hold "
        "by chance."
    )
