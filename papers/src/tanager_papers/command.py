"""``tanager reproduce``: a paper's experiments, and its numbers beside ours."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tanager.cli.options import Processes
from tanager.cli.output import console, plain, plain_table, print_json, watching
from tanager.errors import ConfigurationError

if TYPE_CHECKING:
    from tanager.evaluation import Experiment
    from tanager.progress import Progress
    from tanager_papers.findings import Findings

__all__ = ["reproduce"]


def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            help="zaidi-2017, petitjean-2018, roth-2020, pernkopf-2008, carvalho-2013, or all."
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A subset, in minutes.")] = False,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of tables. [default: $TANAGER_DATA]")
    ] = None,
    runs: Annotated[
        Path, typer.Option("--runs", help="Folder of run files; a killed run goes on.")
    ] = Path("runs"),
    rounds: Annotated[int | None, typer.Option(help="Instead of 5, or 1 with --quick.")] = None,
    max_rows: Annotated[
        int | None, typer.Option(help="Leave out larger tables; --quick has a bound of its own.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Per paper, begin no fit after so long; run again to go on."),
    ] = None,
    jobs: Processes = 1,
    only: Annotated[
        str | None,
        typer.Option(help="One part of the paper, such as 'tables'; its page keeps the others."),
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option(
            help="Take fits from the pages in this folder whose classifiers have not changed."
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Folder for the pages: Markdown, figures, HTML, JSON."),
    ] = None,
    as_json: bool = False,
) -> None:
    """Run a paper's experiments and print its numbers beside ours; `all` runs the five."""
    from tanager_papers.papers import PAPERS, part_names, reproduce_paper

    if paper not in (*PAPERS, "all"):
        raise ConfigurationError(
            f"paper {paper!r} isn't valid. Allowed: {', '.join((*PAPERS, 'all'))}."
        )
    for name in PAPERS if paper == "all" else [paper]:
        with ExitStack() as stack:

            def follow(_: Experiment, stack: ExitStack = stack) -> Progress:
                stack.close()
                return stack.enter_context(watching())

            findings = reproduce_paper(
                name, data, runs / "quick" if quick else runs, quick=quick, rounds=rounds,
                max_rows=max_rows, minutes=minutes, n_jobs=jobs, only=only, published=published,
                follow=follow,
            )  # fmt: skip
        _print_findings(findings, as_json=as_json)
        if write is not None:
            from tanager_papers.pages import write_findings, write_index
            from tanager_papers.published import join_page

            if only is not None:
                findings = join_page(findings, write, part_names(name))
            pages = [*write_findings(findings, write), write_index(write)]
            print(f"written: {', '.join(map(str, pages))}", file=sys.stderr)


def _print_findings(findings: Findings, *, as_json: bool) -> None:
    """Print a paper's numbers beside ours."""
    if as_json:
        print_json(findings.to_dict())
        return
    out = console()
    out.print(f"[bold]{findings.title}[/]")
    for how in findings.how:
        out.print(how, markup=False)
    if findings.claims:
        claims = plain_table("claim", "here", "measured", title="Claims")
        for claim in findings.claims:
            claims.add_row(*map(plain, (claim.text, claim.verdict, claim.number)))
        out.print(claims)
    for block in findings.blocks:
        out.print()
        if block.rows:
            table = plain_table(*block.columns, title=block.title)
            for row in block.rows:
                table.add_row(*map(plain, row))
            out.print(table)
        else:
            out.print(block.title, markup=False)
        for picture in block.pictures:
            out.print(f"  {picture.title} (drawn with --write)", markup=False)
        for note in block.notes:
            out.print(f"  {note}", markup=False)
    out.print()
    for line in findings.absent:
        out.print(f"not run: {line}", markup=False)
