"""``tanager predict``: tables of any format in, labels and probabilities out."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from tests.cli.calling import call

import tanager
from tanager.errors import ColumnWarning
from tanager.evaluation.metrics import make_sheet


@pytest.mark.parametrize("source", ["t.parquet", "t.csv", "t.feather"])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_predict_streams_any_format_to_any(folder, tmp_path, source, ending):
    out = tmp_path / f"p.{ending}"
    assert call("predict", folder / "m.tanager", folder / source, "--keep", "id", "-o", out) == 0
    read = {"parquet": pq.read_table, "arrow": feather.read_table, "csv": pacsv.read_csv}
    table = read[ending](out)
    assert table.column_names == ["id", "prediction", "p_high", "p_low"]
    clf = tanager.load(folder / "m.tanager")
    rows = pq.read_table(folder / "t.parquet").drop_columns(["id", "risk"])
    expected = clf.predict_proba(rows)
    assert np.allclose(table["p_high"].to_numpy(), expected[:, 0], rtol=1e-12)
    assert [str(v) for v in table["prediction"].to_pylist()] == clf.predict(rows).tolist()
    assert table["id"].to_pylist() == list(range(600))


@pytest.mark.parametrize("missing", ["value", "marginalize"])
@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_predict_and_score_give_what_the_estimator_gives_bit_for_bit(
    folder, tmp_path, said, name, missing
):
    model, out = tmp_path / "m.tanager", tmp_path / "p.parquet"
    clf = tanager.BayesNetClassifier("kdb(k=2)", "laplace", missing=missing)
    train = pq.read_table(folder / "t.parquet").drop_columns(["id"])
    tanager.save(clf.fit(train.slice(0, 200), "risk"), model)
    rows = tanager.open_table(folder / name, drop="id")
    expected = clf.predict_proba(rows)
    assert call("predict", model, folder / name, "--drop", "id", "-o", out) == 0
    written = pq.read_table(out)
    found = np.column_stack([written[f"p_{label}"].to_numpy() for label in clf.classes_])
    assert np.array_equal(found, expected)
    assert written["prediction"].to_pylist() == clf.predict(rows).tolist()
    labels = clf.network_.codebook.encode_labels(rows.column("risk")).astype(np.int64)
    sheet = make_sheet(expected, labels, tuple(clf.classes_))
    said()
    assert call("score", model, folder / name, "--drop", "id", "--json") == 0
    assert json.loads(said().out)["metrics"] == json.loads(json.dumps(sheet["metrics"]))


@pytest.fixture
def parts(tmp_path):
    """A model, and tables of three files: one in upper case, one with a file in lower case."""
    train = pa.table({"a": ["x", "y"] * 20, "n": np.arange(40.0), "label": ["no", "yes"] * 20})
    clf = tanager.BayesNetClassifier("naive", "laplace").fit(train, "label")
    tanager.save(clf, tmp_path / "m.tanager")
    for folder, letters in (("upper", "XXX"), ("mixed", "XxX")):
        (tmp_path / folder).mkdir()
        for at, letter in enumerate(letters):
            table = pa.table({"a": [letter] * 25, "n": np.arange(25.0), "label": ["no"] * 25})
            pq.write_table(table, tmp_path / folder / f"{at}.parquet")
    return tmp_path


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("folder", ["upper", "mixed"])
def test_a_column_without_a_known_value_is_told_of_once_for_all_rows(parts, said, folder, jobs):
    model, rows = parts / "m.tanager", parts / folder
    commands = [
        ("predict", model, rows, "-o", parts / "p.csv"),
        ("score", model, rows),
    ]
    for command in commands:
        said()
        assert call(*command, "-j", jobs) == 0
        told = said().err
        assert told.count("'a': none of the") == (folder == "upper"), command
        assert "'n'" not in told
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tanager.load(model).set_params(n_jobs=jobs).predict(tanager.open_table(rows))
    assert [w.category for w in caught] == [ColumnWarning] * (folder == "upper")


def test_numbers_missing_in_all_rows_are_told_of(parts, said):
    rows = parts / "gaps.parquet"
    pq.write_table(
        pa.table({"a": ["x"] * 25, "n": pa.nulls(25, pa.float64()), "label": ["no"] * 25}), rows
    )
    for command in (("predict", "-o", parts / "p.csv"), ("score",)):
        said()
        assert call(command[0], parts / "m.tanager", rows, *command[1:]) == 0
        assert said().err.count("Column(s) 'n': none of the 25 rows has a value") == 1


def test_a_few_rows_are_not_told_of(parts, said):
    few = parts / "few.parquet"
    pq.write_table(pq.read_table(parts / "upper" / "0.parquet").slice(0, 19), few)
    assert call("predict", parts / "m.tanager", few, "-o", parts / "p.csv") == 0
    assert said().err == ""


def test_values_never_seen_are_told_of_though_they_are_summed_out(parts, said):
    train = pa.table({"a": ["x", "y"] * 20, "label": ["no", "yes"] * 20})
    clf = tanager.BayesNetClassifier("naive", "laplace", missing="marginalize").fit(train, "label")
    tanager.save(clf, parts / "s.tanager")
    assert call("score", parts / "s.tanager", parts / "upper", "--drop", "n") == 0
    assert "Column(s) 'a': none of the 75 rows" in said().err


def test_predict_without_output_prints_csv(folder, capfdbinary):
    assert call("predict", folder / "m.tanager", folder / "t.csv", "--ignore-extra") == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0] == '"prediction","p_high","p_low"' or lines[0] == "prediction,p_high,p_low"
    assert len(lines) == 601


def test_predict_with_threads_is_the_same(folder, tmp_path):
    for jobs in (1, 3):
        out = tmp_path / f"{jobs}.parquet"
        arguments = ["--ignore-extra", "-j", jobs, "-o", out, "--keep", "all"]
        assert call("predict", folder / "m.tanager", folder / "t.parquet", *arguments) == 0
    assert pq.read_table(tmp_path / "1.parquet").equals(pq.read_table(tmp_path / "3.parquet"))


def test_codes_that_look_like_numbers_are_predicted_as_the_text_they_were(tmp_path, said):
    train, new, scored = (tmp_path / name for name in ("train.csv", "new.csv", "scored.csv"))
    train.write_text("code,y\n" + "01,u\nAB,v\n" * 30)
    model = tmp_path / "m.tanager"
    assert call("fit", train, "-t", "y", "-s", "naive", "-p", "laplace", "-o", model) == 0
    new.write_text("code\n" + "01\n" * 10)
    assert call("predict", model, new, "--keep", "code", "-o", scored) == 0
    row = scored.read_text().replace('"', "").splitlines()[1].split(",")
    assert row[:2] == ["01", "u"]
    assert float(row[2]) > 0.9
    said()
    assert call("explain", model, new, "--row", 2, "--json") == 0
    assert json.loads(said().out)["probabilities"]["u"] == pytest.approx(float(row[2]))


def test_a_model_without_names_takes_columns_by_position(tmp_path, said):
    x = np.random.default_rng(1).integers(0, 3, (80, 2))
    clf = tanager.BayesNetClassifier("tan", "laplace").fit(x, x.sum(axis=1) > 2)
    tanager.save(clf, tmp_path / "m")
    table = pa.table({"key": np.arange(80), "left": x[:, 0], "right": x[:, 1]})
    pq.write_table(table, tmp_path / "t.parquet")
    out = tmp_path / "p.parquet"
    assert call("predict", tmp_path / "m", tmp_path / "t.parquet", "--keep", "key", "-o", out) == 0
    written = pq.read_table(out)
    assert written["prediction"].to_pylist() == clf.predict(x).tolist()
    said()
    assert call("predict", tmp_path / "m", tmp_path / "t.parquet", "--force", "-o", out) == 1
    assert "X has 3 features, but BayesNetClassifier is expecting 2" in said().err


@pytest.fixture
def left_out(tmp_path):
    """A model whose fit left out the column ``uuid``, and its table."""
    rng = np.random.default_rng(4)
    a = rng.choice(["x", "y"], 300)
    table = pa.table(
        {
            "uuid": [f"{at:08x}-{at * 7919 % 65536:04x}" for at in range(300)],
            "a": a,
            "const": rng.choice(["u", "v"], 300),
            "y": np.where(a == "x", "p", "q"),
        }
    )
    with pytest.warns(tanager.errors.ColumnWarning, match="uuid"):
        clf = tanager.BayesNetClassifier("naive", "laplace").fit(table, "y")
    assert clf.network_.codebook.may_lack("uuid")
    tanager.save(clf, tmp_path / "m")
    return tmp_path / "m", table


def test_only_columns_that_the_model_needs_are_missed(left_out, tmp_path, said):
    model, table = left_out
    rows = tmp_path / "t.parquet"
    pq.write_table(table.drop_columns(["uuid"]), rows)
    commands = [
        ["predict", model, rows],
        ["score", model, rows],
        ["explain", model, rows],
        ["report", model, rows, "--force", "-o", tmp_path / "r.html"],
    ]
    for command in commands:
        assert call(*command) == 0, command
    pq.write_table(table.drop_columns(["uuid", "const"]), rows)
    said()
    for command in commands:
        assert call(*command) == 1, command
        told = said().err
        assert "lacks the column(s) 'const'. Its columns: 'a'" in told, command
        assert "uuid" not in told


def test_only_predict_refuses_columns_that_the_model_does_not_know(folder, tmp_path, said):
    model, rows = folder / "m.tanager", folder / "t.parquet"  # with id, which was dropped
    assert call("score", model, rows) == 0
    assert call("explain", model, rows) == 0
    assert call("report", model, rows, "-o", tmp_path / "r.html", "--folds", "0") == 0
    said()
    assert call("predict", model, rows) == 1
    told = said().err
    assert "has column(s) unseen in fit: 'id'. Name unseen columns with --keep, or pass" in told
    assert call("predict", model, rows, "--ignore-extra", "-o", tmp_path / "p.csv") == 0


def test_tables_that_do_not_fit_the_model(folder, tmp_path, said):
    table = pq.read_table(folder / "t.parquet")
    cases = [
        (table.rename_columns(["id", "Age", "job", "pay", "risk"]), "'age'"),
        (table.drop_columns(["pay"]), "'pay'"),
        (table, "'id'"),
        (table.drop_columns(["id"]).set_column(0, "age", pa.array(["old"] * 600)), "'age'"),
    ]
    for changed, words in cases:
        pq.write_table(changed, tmp_path / "t.parquet")
        out = tmp_path / "p.parquet"
        assert (
            call("predict", folder / "m.tanager", tmp_path / "t.parquet", "--force", "-o", out) == 1
        )
        assert words in said().err
        assert not out.exists()
    shuffled = table.select(["pay", "job", "age", "risk"])
    pq.write_table(shuffled, tmp_path / "t.parquet")
    assert call("predict", folder / "m.tanager", tmp_path / "t.parquet", "-o", out) == 0


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_interruption_leaves_nothing(folder, tmp_path, which):
    """A batch arrives through a pipe-like slow file; the signal comes in the middle."""
    code = (
        "import sys, time, os, signal, threading\n"
        # What a shell starts in the background ignores Ctrl-C, and so would this program.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tanager.classifiers import prediction\n"
        "def score(*given):\n"
        "    print('working', flush=True)\n"
        "    time.sleep(60)\n"
        "prediction.score_fragment = score\n"
        "from tanager.cli import main\n"
        "main()\n"
    )
    out = tmp_path / "p.parquet"
    out.write_bytes(b"precious")
    arguments = ["predict", folder / "m.tanager", folder / "t.parquet", "--ignore-extra", "-o", out]
    arguments.append("--force")
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "working\n"
    time.sleep(0.2)
    process.send_signal(which)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert out.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["p.parquet"]


def test_predict_writes_how_sure_it_is(folder, tmp_path, said):
    model, out = tmp_path / "m.tanager", tmp_path / "p.parquet"
    train = pq.read_table(folder / "t.parquet").drop_columns(["id"])
    clf = tanager.BayesNetClassifier("naive").fit(train, "risk")
    tanager.save(clf, model)
    rows = train.drop_columns(["risk"])
    asked = ("--interval", "0.8", "--set", "0.9", "--per-class", "--abstain", "0.7")
    assert call("predict", model, folder / "t.parquet", "--drop", "id", *asked, "-o", out) == 0
    written = pq.read_table(out)
    found = clf.predict_interval(rows, level=0.8)
    for c, label in enumerate(clf.classes_):
        ends = np.stack([written[f"{end}_{label}"].to_numpy() for end in ("low", "high")], axis=1)
        assert np.array_equal(ends, found[:, c])
    sets = clf.predict_set(rows, coverage=0.9, per_class=True)
    assert written["set"].to_pylist() == ["|".join(one) for one in sets]
    assert written["prediction"].to_pylist() == clf.predict(rows, abstain=0.7).tolist()
    said()
    assert call("predict", model, folder / "t.parquet", "--per-class", "--drop", "id") == 2
    assert "--per-class is for prediction sets: give --set too" in said().err
    assert call("predict", model, folder / "t.parquet", "--set", "90", "--drop", "id") == 2
    assert "--set=90.0. Allowed: a number between 0 and 1" in said().err
    assert call("predict", model, folder / "t.parquet", "--interval", "2", "--drop", "id") == 2
    assert "--interval=2.0. Allowed: a number between 0 and 1" in said().err
    assert (
        call("predict", folder / "m.tanager", folder / "t.parquet", "--set", "0.9", "--drop", "id")
        == 2
    )
    assert "calibrate(X, y)" in said().err
