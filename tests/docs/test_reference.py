"""The reference has every public name, and no name that is not there."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PUBLIC = (
    "tanager",
    "tanager.errors",
    "tanager.evaluation",
    "tanager.losses",
    "tanager.network",
    "tanager.parameters",
    "tanager.progress",
    "tanager.report",
    "tanager.structure",
    "tanager.training",
    "tanager_papers",
)
SUMMARY = re.compile(r"currentmodule:: (\S+)\n\n.. autosummary::\n(?:   :.+\n)+\n((?:   \S+\n)+)")
NAMED = {
    f"{module}.{name}"
    for module, names in SUMMARY.findall((DOCS / "api.md").read_text(encoding="utf-8"))
    for name in names.split()
}
MEMBERS = tomllib.loads((DOCS / "api.toml").read_text(encoding="utf-8"))


def find(path):
    """Return what a dotted name means."""
    parts = path.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for part in parts[size:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(path)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module):
    shown = {path.rpartition(".")[2] for path in NAMED}
    names = [n for n in importlib.import_module(module).__all__ if not n.startswith("_")]
    assert [name for name in names if name not in shown] == []


def test_every_name_of_the_reference_is_there_and_documented():
    for path in sorted(NAMED):
        found = find(path)
        if inspect.isclass(found) or inspect.isroutine(found):
            assert found.__doc__, path
    for path, members in MEMBERS.items():
        assert path in NAMED
        for member in members:
            assert find(f"{path}.{member}") is not None, member


def test_every_parameter_of_a_learner_is_documented():
    """What can be set is told in the class's docstring, by name."""
    for path in sorted(NAMED):
        found = find(path)
        if not inspect.isclass(found) or not path.startswith(
            ("tanager.structure.", "tanager.parameters.", "tanager.Bayes", "tanager.training.")
        ):
            continue
        for name in inspect.signature(found).parameters:
            assert re.search(rf"\b{name}\b", found.__doc__ or ""), f"{path}: {name}"
