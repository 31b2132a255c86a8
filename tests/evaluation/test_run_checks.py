"""A run file may come from anybody: what makes no sense is refused with an error of Tanager."""

import json
from pathlib import Path

import pytest

from tanager.errors import ConfigurationError, DataError
from tanager.evaluation import Results
from tanager.evaluation.runs import RunFile

SEED = Path(__file__).parents[2] / "torture" / "run_file.jsonl"


def write(tmp_path, change):
    lines = [json.loads(line) for line in SEED.read_text().splitlines()]
    change(lines)
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_whole_file_is_read(tmp_path):
    results = Results.read(write(tmp_path, lambda lines: None))
    assert len(results.records) == 4


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        *((0, "datasets", value) for value in (None, [], [1], [{}], {"name": "d"})),
        *((0, "classifiers", value) for value in ([{"name": 1}], [{"name": "a"}], "a")),
        *((0, "protocol", value) for value in (5, {}, {"rounds": "a", "folds": 2}, {"rounds": 1})),
        *((0, "metrics", value) for value in (3, [], [1], ["dataset"])),
        *((0, name, []) for name in ("name", "seed", "environment")),
        *((1, name, [1]) for name in ("dataset", "classifier", "round", "fold", "status")),
        *((1, "log_loss", value) for value in ("a", [], True, 10**400)),
        *((1, "reliability", value) for value in (1, [[]], [[1], [2], [3]])),
        *((1, name, "many") for name in ("n_train", "n_test", "fit_seconds")),
        (2, "error", 5),
        (1, "version", 5),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(tmp_path, line, name, value):
    def change(lines):
        (lines[0]["experiment"] if line == 0 else lines[line])[name] = value

    path = write(tmp_path, change)
    with pytest.raises(DataError, match=r"run\.jsonl"):
        Results.read(path)


@pytest.mark.parametrize(
    "name", ["round", "status", "log_loss", "fit_seconds", "n_train", "reliability"]
)
def test_what_is_absent_is_refused(tmp_path, name):
    path = write(tmp_path, lambda lines: lines[1].pop(name))
    with pytest.raises(DataError, match=name):
        Results.read(path)


def test_a_deep_line_is_ignored(tmp_path):
    path = write(tmp_path, lambda lines: None)
    with path.open("a") as file:
        file.write("[" * 100_000 + "]" * 100_000 + "\n")
    assert len(Results.read(path).records) == 4


def test_a_link_into_another_folder_is_not_followed(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("")
    (tmp_path / "run.jsonl").symlink_to(tmp_path / "other" / "precious")
    with pytest.raises(ConfigurationError, match="symbolic link"), RunFile(tmp_path / "run.jsonl"):
        pass
    assert (tmp_path / "other" / "precious").read_text() == ""
