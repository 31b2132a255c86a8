"""A release says the same everywhere: version, changelog, citation, recipe, platforms."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

import tanager

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "release").is_dir(), reason="about the repository, not the installed package"
)


def _project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_stands_in_one_place_and_its_copies_agree():
    project = _project()
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tanager.__version__"}
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    recipe = re.search(r'version: "(.+?)"', (ROOT / "release/conda/recipe.yaml").read_text())
    assert citation is not None
    assert recipe is not None
    assert citation[1] == recipe[1] == tanager.__version__


def test_every_release_has_an_entry_in_the_changelog():
    entries = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert tanager.__version__ in entries


def test_the_recipe_asks_for_what_the_package_asks_for():
    recipe = (ROOT / "release/conda/recipe.yaml").read_text()
    run = recipe.partition("  run:\n")[2].partition("\ntests:")[0]
    asked = {line.strip("- ").replace(" ", "") for line in run.splitlines() if line.strip()}
    assert asked == {"python>=3.11", *_project()["project"]["dependencies"]}


def test_a_build_asks_for_a_compiler_only_where_there_is_none(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "release"))
    monkeypatch.delenv("TANAGER_TARGET", raising=False)
    for name in ("backend", "compiling", "targets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    backend = pytest.importorskip("backend")
    monkeypatch.setenv("CC", sys.executable)  # any program that is there
    assert backend.get_requires_for_build_wheel() == []
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler"))
    assert backend.get_requires_for_build_wheel() == ["ziglang>=0.14"]
    assert backend.get_requires_for_build_editable() == ["ziglang>=0.14"]
    monkeypatch.setenv("TANAGER_TARGET", "windows-x86_64")
    assert backend.get_requires_for_build_wheel() == ["ziglang>=0.14", "abi3info"]
    assert set(dir(backend)) >= {"build_wheel", "build_sdist", "build_editable"}
