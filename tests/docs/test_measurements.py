"""Benchmarks and their pages: each can be found, and each page supports what some text says."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.__main__ import ARGUMENTS, GROUPS, title

ROOT = Path(__file__).parents[2]
HELPERS = {"__init__", "__main__", "differentiable_page", "measuring"}


def test_every_benchmark_is_in_one_group():
    files = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - HELPERS
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(files)
    assert all(title(name) for name in ARGUMENTS)


def test_every_page_of_measurements_is_linked():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md")]
    linked = {
        (page.parent / target).resolve()
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8"))
    }
    measured = (ROOT / "docs" / "measurements").glob("*.md")
    assert [page.name for page in measured if page.resolve() not in linked] == []


def test_every_page_names_scripts_that_are_there():
    for page in (ROOT / "docs" / "measurements").glob("*.md"):
        for script in re.findall(r"benchmarks[./](\w+)", page.read_text(encoding="utf-8")):
            assert (ROOT / "benchmarks" / f"{script}.py").exists(), f"{page.name}: {script}"
