"""A fit that is killed goes on from its checkpoint to the same model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.classifiers import checkpoints
from tanager.classifiers.checkpoints import JournalEngine, read_arrays
from tanager.codes import Domain, Rows
from tanager.codes.hashing import Fold
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ConfigurationError, ModelFileError
from tanager.losses import ConditionalLogLikelihood, RowLoss
from tanager.options import identify_option
from tanager.parameters import Hybrid, layered
from tanager.training import Training
from tests.engines.test_processes import make_table

ROOT = Path(__file__).resolve().parent.parent.parent


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


class Mortal(LocalEngine):
    """Dies at the beginning of the first pass from a given one on."""

    def __init__(self, last):
        super().__init__(1)
        self.last = last

    def run(self, pass_, rows, progress, stage):
        if self.n_passes >= self.last:
            raise Killed
        return super().run(pass_, rows, progress, stage)


@pytest.fixture(autouse=True)
def _write_every_pass(monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)


def fit(engine="local", **options):
    return BayesNetClassifier(engine=engine, **options).fit(make_table(), "y", sample_weight="w")


def model_bytes(classifier, folder):
    tanager.save(classifier, folder / "model.tanager")
    return (folder / "model.tanager").read_bytes()


@pytest.fixture
def _many_rows(monkeypatch):
    """Let the default take these rows for many: its passes are then the engine's."""
    monkeypatch.setattr(layered, "GATHERED_ROWS", 0)


@pytest.mark.usefixtures("_many_rows")
@pytest.mark.parametrize(
    ("structure", "parameters", "deaths"),
    [
        ("tan", "discriminative(tol=0.01)", (3, 7, 9)),
        ("skdb(max_k=2)", "hdp", (4, 5)),
        ("tan", "discriminative(level=1, base=hdp, l2=cv, max_iter=9)", (5,)),
        ("ktree(max_parents=1)", "layered(max_iter=3)", (3, 20, 60)),
    ],
)
def test_a_killed_fit_goes_on_to_the_same_model(tmp_path, structure, parameters, deaths):
    options = {"structure": structure, "parameters": parameters}
    expected = model_bytes(fit(**options), tmp_path)
    folder = tmp_path / "state"
    for last in deaths:
        with pytest.raises(Killed):
            fit(Mortal(last), checkpoint=folder, **options)
        assert (folder / "checkpoint.json").exists()
    found = fit(checkpoint=folder, **options)
    assert model_bytes(found, tmp_path) == expected
    assert list(folder.iterdir()) == []


def test_a_finished_fit_leaves_nothing_that_killed_ones_left(tmp_path, monkeypatch):
    """A kill between two stages leaves passes of the first; one during a write, half a file."""
    options = {"structure": "tan", "parameters": "laplace", "checkpoint": tmp_path / "state"}

    def die(_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(JournalEngine, "end", die)
        with pytest.raises(Killed):
            fit(**options)
    assert list((tmp_path / "state").glob("passes-structure-*.npz"))
    (tmp_path / "state" / ".passes-structure-000000002.npz.0123abcd.part").write_bytes(b"half")
    (tmp_path / "state" / "notes.txt").write_text("of the user")
    fit(**options)
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["notes.txt"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork a process")
def test_fits_that_are_killed_for_real_go_on_to_the_same_model(tmp_path):
    command = [sys.executable, "-m", "tests.classifiers.killed_fits", str(tmp_path), "1", "4"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    fits = json.loads(done.stdout.splitlines()[-1])
    assert len(fits) == 3
    for one in fits:
        assert one["equal"], one
        assert one["left"] == [], one
        assert one["hits"] > 0, one


def test_passes_that_were_noted_are_not_run_again(tmp_path):
    options = {"structure": "tan", "parameters": "discriminative(tol=0.0001)"}
    whole = LocalEngine(1)
    fit(whole, checkpoint=tmp_path / "whole", **options)
    last = whole.n_passes - 2
    with pytest.raises(Killed):
        fit(Mortal(last), checkpoint=tmp_path / "part", **options)
    rest = LocalEngine(1)
    fit(rest, checkpoint=tmp_path / "part", **options)
    assert rest.n_passes < whole.n_passes / 2


def test_the_checkpoint_of_another_fit_is_refused(tmp_path):
    with pytest.raises(Killed):
        fit(Mortal(3), structure="tan", parameters="hdp", checkpoint=tmp_path)
    with pytest.raises(ConfigurationError, match="other options"):
        fit(structure="tan", parameters="laplace", checkpoint=tmp_path)
    classifier = BayesNetClassifier("tan", "hdp", checkpoint=tmp_path)
    with pytest.raises(ConfigurationError, match="other rows"):
        classifier.fit(make_table().slice(1), "y", sample_weight="w")
    # Where and on how many threads it runs does not make it another.
    fit(structure="tan", parameters="hdp", checkpoint=tmp_path, n_jobs=2, memory_limit=0)
    assert list(tmp_path.iterdir()) == []


def other_tables():
    """Tables that have all counts of one feature and the class in common with `make_table`."""
    table, rng = make_table(), np.random.default_rng(3)
    order = rng.permutation(len(table))
    labels, column = np.array(table["y"].to_pylist()), np.array(table["b"])
    weights = np.array(table["w"])
    moved = column.copy()
    for label in set(labels):
        for weight in set(weights):
            places = np.flatnonzero((labels == label) & (weights == weight))
            moved[places] = column[rng.permutation(places)]
    shuffled = table.set_column(1, "b", pa.array(moved))
    renamed = table.rename_columns(["a", "b2", "c", "d", "y", "w"])
    return {"shuffled": shuffled, "another order": table.take(order), "renamed": renamed}


@pytest.mark.parametrize("kind", list(other_tables()))
def test_rows_that_are_alike_feature_by_feature_are_other_rows(tmp_path, kind):
    with pytest.raises(Killed):
        fit(Mortal(5), structure="tan", parameters="discriminative(tol=0.01)", checkpoint=tmp_path)
    other = BayesNetClassifier("tan", "discriminative(tol=0.01)", checkpoint=tmp_path)
    with pytest.raises(ConfigurationError, match="other rows"):
        other.fit(other_tables()[kind], "y", sample_weight="w")


def test_a_note_is_of_its_part_of_the_rows(tmp_path):
    codes = np.arange(40, dtype=np.uint8).reshape(1, -1) % 3
    labels = (np.arange(40) % 2).astype(np.uint16)
    rows = Rows.in_memory(Domain(("a",), np.array([3]), 2), codes, labels)
    parts = [rows.subset(Fold(7, 2, fold)) for fold in (0, 1)]
    counted = [Counts(part, FitContext()).classes for part in parts]
    assert not np.array_equal(*counted)
    for part, expected in zip(parts, counted, strict=True):
        journal = JournalEngine(LocalEngine(1), tmp_path, every=0.0)
        journal.begin("structure")
        found = Counts(part, FitContext(journal)).classes  # in both runs the first pass
        np.testing.assert_array_equal(found, expected)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    with pytest.raises(Killed):
        fit(Mortal(9), structure="tan", parameters="discriminative", checkpoint=tmp_path)
    next(tmp_path.glob("passes-parameters-*.npz")).write_bytes(b"half of it")
    with pytest.raises(ModelFileError, match="Delete the folder"):
        fit(structure="tan", parameters="discriminative", checkpoint=tmp_path)
    text = (tmp_path / "checkpoint.json").read_text()
    stored = json.loads(text)["structure"]
    assert sorted(stored) == ["names", "parents", "record", "selected"]  # as in older checkpoints
    parents = stored["parents"]
    other = text.replace(json.dumps(parents), json.dumps([[] for _ in parents]))
    assert other != text
    (tmp_path / "checkpoint.json").write_text(other)
    with pytest.raises(ModelFileError, match=r"checkpoint.json is damaged"):
        fit(structure="tan", parameters="discriminative", checkpoint=tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 99, b"0|x|0.npy", np.arange(3), b"\0" * (1 << 20)],
    ids=["nothing", "zeros", "no zip", "one array", "a part larger than the file"],
)
def test_a_file_of_arrays_that_numpy_did_not_write_is_refused(tmp_path, content):
    path = tmp_path / "a.npz"
    if isinstance(content, np.ndarray):
        with path.open("wb") as file:
            np.save(file, content)
    elif len(content) < 100:
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("a.npy", content)
    with pytest.raises(ValueError, match=r"\w"):
        read_arrays(path)


@pytest.mark.parametrize("given", ["much", "4 XB", -1, 1.5, True])
def test_a_memory_limit_is_checked(given):
    with pytest.raises(ConfigurationError, match="memory_limit"):
        fit(structure="naive", parameters="laplace", memory_limit=given)


def test_a_memory_limit_changes_no_byte(tmp_path):
    options = {"structure": "tan", "parameters": "discriminative(tol=0.01)"}
    all_in_memory = model_bytes(fit(memory_limit="1GB", **options), tmp_path)
    assert model_bytes(fit(memory_limit=0, **options), tmp_path) == all_in_memory


def one_loss(log_joint, y):
    return ConditionalLogLikelihood()(log_joint, y)


def other_loss(log_joint, y):
    return ConditionalLogLikelihood()(log_joint, y)


@dataclass(frozen=True)
class Weighed(RowLoss):
    factor: float

    def rows(self, log_joint, y):
        values, gradients = ConditionalLogLikelihood().rows(log_joint, y)
        return self.factor * values, self.factor * gradients


def die_and_go_on(folder, first, second):
    with pytest.raises(Killed):
        fit(Mortal(3), checkpoint=folder, **first)
    assert (folder / "checkpoint.json").exists()
    return fit(checkpoint=folder, **second)


def test_a_random_generator_is_known_by_its_state(tmp_path):
    options = {"structure": "random", "parameters": "laplace"}

    def seeded(seed):
        return {**options, "random_state": np.random.RandomState(seed)}

    expected = model_bytes(fit(**seeded(0)), tmp_path)
    found = die_and_go_on(tmp_path / "state", seeded(0), seeded(0))
    assert model_bytes(found, tmp_path) == expected
    with pytest.raises(ConfigurationError, match="other options"):
        die_and_go_on(tmp_path / "state", seeded(0), seeded(1))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (one_loss, one_loss, True),
        (one_loss, other_loss, False),
        (Weighed(2.0), Weighed(2.0), True),
        (Weighed(2.0), Weighed(3.0), False),
    ],
)
def test_a_loss_of_the_user_is_known_by_its_name_and_numbers(tmp_path, first, second, same):
    def option(loss):
        return {"structure": "naive", "parameters": Hybrid(loss, training=Training(epochs=1))}

    if same:
        die_and_go_on(tmp_path, option(first), option(second))
    else:
        with pytest.raises(ConfigurationError, match="other options"):
            die_and_go_on(tmp_path, option(first), option(second))


def describe(value, name):
    return identify_option(value, name, checkpoints._refuse)


def test_long_options_are_told_apart(tmp_path):
    """As NumPy and scikit-learn print them, both are three dots in the middle."""

    def option(last):
        names = np.array([f"z{i}" for i in range(2_000)], dtype=object)
        names[1_000] = last
        return {"structure": "naive", "parameters": "laplace", "ordered": {"a": names}}

    described = [describe(option(last), "x") for last in ("p", "p", "q")]
    assert described[0] == described[1] != described[2]
    assert describe({"b", "a"}, "x") == {"$set": ["a", "b"]}
    kinds = [[1], (1,), {1}, {1: 1}, np.array([1]), 1, 1.0, True, "1", None]
    assert len({json.dumps(describe(kind, "x")) for kind in kinds}) == len(kinds)


class Nameless:
    def __call__(self, log_joint, y):
        return one_loss(log_joint, y)


@pytest.mark.parametrize("loss", [lambda log_joint, y: one_loss(log_joint, y), Nameless()])
def test_an_option_that_would_not_be_known_again_is_refused(tmp_path, loss):
    options = {"structure": "naive", "parameters": Hybrid(loss, training=Training(epochs=1))}
    with pytest.raises(ConfigurationError, match=r"parameters__loss=.* fit without a check"):
        fit(checkpoint=tmp_path / "state", **options)
    assert not (tmp_path / "state").exists()


def test_a_function_of_the_main_module_is_refused(monkeypatch):
    assert describe(one_loss, "loss") == {"$name": f"{__name__}:one_loss"}
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "one_loss", one_loss, raising=False)
    monkeypatch.setattr(one_loss, "__module__", "__main__")
    with pytest.raises(ConfigurationError, match="importable module"):
        describe(one_loss, "loss")
