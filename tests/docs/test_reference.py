"""The reference has every public name, and no name that is not there."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
PUBLIC = (
    "tanager",
    "tanager.classifiers",
    "tanager.errors",
    "tanager.evaluation",
    "tanager.losses",
    "tanager.network",
    "tanager.parameters",
    "tanager.progress",
    "tanager.report",
    "tanager.structure",
    "tanager.training",
)
WHOLE = set(re.findall(r"automodule:: (\S+)\n   :members:\n", PAGE))
LISTED = {
    f"{module}.{name.strip()}"
    for module, names in re.findall(r"automodule:: (\S+)\n   :members: (.+)", PAGE)
    for name in names.split(",")
}
NAMED = set(re.findall(r"auto(?:class|function|data):: (\S+)", PAGE)) | LISTED
MEMBERS = [
    f"{name}.{member.strip()}"
    for name, members in re.findall(r"autoclass:: (\S+)\n   :members: (.+)", PAGE)
    for member in members.split(",")
]


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
    if module in WHOLE:
        return
    shown = {path.rpartition(".")[2] for path in NAMED}
    names = [n for n in importlib.import_module(module).__all__ if not n.startswith("_")]
    assert [name for name in names if name not in shown] == []


def test_every_name_of_the_reference_is_there_and_documented():
    for path in sorted(NAMED):
        found = find(path)
        if inspect.isclass(found) or inspect.isroutine(found):
            assert found.__doc__, path
    for path in MEMBERS:
        assert find(path) is not None, path


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
