"""The plug-in of CONTRIBUTING, as an installed package, and what goes wrong with others."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from tanager import open_table
from tanager.errors import ConfigurationError
from tanager.registry import load_plugin, plugin_names
from tanager.structure import STRUCTURES
from tests.docs.pages import blocks

ROOT = Path(__file__).parents[1]


def files_of_the_plugin() -> dict[str, str]:
    """Return the two files that CONTRIBUTING shows."""
    found = {language: code for language, code, _ in blocks(ROOT / "CONTRIBUTING.md")}
    return {"pyproject.toml": found["toml"], "tanager_hub.py": found["python"]}  # the last of each


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the plug-in, installed by pip without the network."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for name, text in files_of_the_plugin().items():
        (source / name).write_text(text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*pip, *options, str(source)], check=True)
    return target


@pytest.fixture
def table(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(["u", "v"], 60) for name in "abc"}
    path = tmp_path / "table.csv"
    pacsv.write_csv(pa.table({**columns, "label": rng.choice(["no", "yes"], 60)}), path)
    return path


def run(installed: Path, *arguments: str, cwd: Path) -> str:
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    program = [sys.executable, *arguments]
    done = subprocess.run(
        program, cwd=cwd, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_plugin_of_contributing_is_short():
    lines = [line for text in files_of_the_plugin().values() for line in text.splitlines()]
    assert len(lines) < 60


def test_an_installed_learner_works_by_name_everywhere(installed, table, tmp_path):
    program = ("-c", "import sys; from tanager.cli import main; main()")
    use = (
        "import tanager; clf = tanager.BayesNetClassifier('hub(feature=1)', 'laplace')"
        ".fit('table.csv', 'label'); tanager.save(clf, 'own.tanager');"
        "print(tanager.load('own.tanager').structure_.parents['c'])"
    )
    assert run(installed, "-c", use, cwd=tmp_path).strip() == "('b',)"
    fit = ("fit", table.name, "--target", "label", "--structure", "hub(feature=2)")
    run(installed, *program, *fit, "--parameters", "hdp", "-o", "m.tanager", cwd=tmp_path)
    run(installed, *program, "export", "m.tanager", "-o", "edges.txt", cwd=tmp_path)
    assert (tmp_path / "edges.txt").read_text() == "c -> a\nc -> b\n"
    pair = (
        "compare",
        table.name,
        "--target",
        "label",
        "--with",
        "hub/laplace",
        "--with",
        "tan/hdp",
    )
    said = run(installed, *program, *pair, "--rounds", "1", "--folds", "2", cwd=tmp_path)
    assert "hub/laplace" in said


def declare(monkeypatch, group: str, name: str, value: str) -> None:
    """Let the package that the tests are in declare an entry point."""
    point = EntryPoint(name, value, group)

    def find(*, group: str, name: str | None = None):
        return [point] if point.group == group and name in (None, point.name) else []

    monkeypatch.setattr("importlib.metadata.entry_points", find)


def read_rows(url: str) -> pa.Table:
    """Stands for a source: the URL's path, letter by letter."""
    return pa.table({"letter": list(url.partition("://")[2])})


def test_a_source_is_found_by_its_scheme(monkeypatch):
    declare(monkeypatch, "tanager.sources", "letters", "tests.test_plugins:read_rows")
    assert open_table("letters://abc").column("letter").to_pylist() == ["a", "b", "c"]


def test_built_in_names_cannot_be_replaced(monkeypatch):
    declare(monkeypatch, "tanager.structures", "tan", "tests.test_plugins:read_rows")
    assert type(STRUCTURES.resolve("tan")).__name__ == "TAN"


def test_names_that_packages_add_are_told(monkeypatch):
    declare(monkeypatch, "tanager.structures", "hub", "nowhere:Hub")
    assert plugin_names("tanager.structures") == ["hub"]
    with pytest.raises(ConfigurationError, match="Did you mean 'hub'"):
        STRUCTURES.resolve("hubb")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("nowhere:Hub", "nowhere, which can't be loaded: ModuleNotFoundError"),
        ("tests.test_plugins:read_rows", "not a subclass of tanager.structure.StructureLearner"),
    ],
)
def test_a_broken_plugin_says_which_package_it_is(monkeypatch, value, said):
    declare(monkeypatch, "tanager.structures", "hub", value)
    with pytest.raises(ConfigurationError, match=said):
        STRUCTURES.resolve("hub")


def test_nothing_is_looked_up_for_built_in_names(monkeypatch):
    def refuse(**_):
        raise AssertionError("entry points were looked up")

    monkeypatch.setattr("importlib.metadata.entry_points", refuse)
    STRUCTURES.resolve("kdb(k=2)")
    open_table({"a": [1]})
    with pytest.raises(AssertionError):
        load_plugin("tanager.structures", "hub")
