"""``tanager export``: a model for other programs."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.cli.calling import call

import tanager


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("n.bif", "network"),
        ("n.xml", "<?xml"),
        ("n.dot", "digraph"),
        ("n.sql", "WITH"),
        ("n.json", '{"format":"tanager-scorer"'),
        ("n.js", "(() => {"),
        ("n.mjs", "/* Tanager's scorer"),
        ("n.h", "/* A Bayesian network classifier"),
    ],
)
def test_export(folder, tmp_path, name, word):
    assert call("export", folder / "m.tanager", "-o", tmp_path / name) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(word)


def test_export_scores_as_predict_does(folder, tmp_path):
    import duckdb

    model, data = folder / "m.tanager", folder / "t.parquet"
    out = tmp_path / "score.sql"
    options = ["--table", "main.people", "--keep", "id", "--contributions"]
    assert call("export", model, "-o", out, *options) == 0
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people AS SELECT * FROM '{data}'")
    found = connection.execute(out.read_text(encoding="utf-8"))
    names = [column[0] for column in found.description]
    assert names[:3] == ["id", "p_high", "p_low"]
    assert "log_odds_age" in names
    rows = np.array([row[:3] for row in sorted(found.fetchall())], float)
    expected = tanager.load(model).predict_proba(pq.read_table(data).drop(["id", "risk"]))
    assert np.allclose(rows[:, 1:], expected, rtol=0, atol=1e-9)


def test_export_to_onnx_with_options(folder, tmp_path):
    onnx = pytest.importorskip("onnx")
    out = tmp_path / "model.bin"
    options = ["--format", "onnx", "--float32", "--opset", "19", "--complete-rows"]
    assert call("export", folder / "m.tanager", "-o", out, *options) == 0
    model = onnx.load(out)
    onnx.checker.check_model(model)
    assert model.opset_import[0].version == 19


def test_what_an_export_takes_the_columns_for_is_said(tmp_path, capsys):
    n = 120
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    columns = {
        "age": rng.normal(size=n) + y,
        "job": rng.choice(["a", "b"], n),
        "flag": y == rng.integers(0, 2, n),
        "when": np.arange(n).astype("datetime64[h]") + 50 * y,
        "price": [f"{1000 + x:,.2f}" for x in 500 * (rng.random(n) + y)],
        "paid": [f"{1 + i % 28:02d}.{1 + i % 12:02d}.2024" for i in range(n)],
        "name": [f"row {i}" for i in range(n)],
    }
    with pytest.warns(tanager.errors.ColumnWarning):
        clf = tanager.BayesNetClassifier("naive", "laplace", bins=4).fit(columns, y)
    tanager.save(clf, tmp_path / "m")
    assert call("export", tmp_path / "m", "-o", tmp_path / "n.sql") == 0
    said = capsys.readouterr().out.splitlines()[1:]
    assert said == [
        "  numbers: age",
        "  text: job",
        "  booleans: flag",
        "  dates or timestamps, in UTC where they have no offset: when",
        "  numbers, or text as in training (comma for thousands): price",
        "  dates or timestamps, in UTC where they have no offset, or text as in training (%d.%m.%Y): paid",  # noqa: E501
    ]
    assert call("export", tmp_path / "m", "-o", tmp_path / "n.json") == 0
    assert (
        "  numbers, which training had as text (comma for thousands): price"
        in capsys.readouterr().out
    )
    assert call("export", tmp_path / "m", "-o", tmp_path / "n.bif") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_network_of_an_unknown_format_is_told_with_the_option(tmp_path, capsys):
    (tmp_path / "n.csv").write_text("a,b\n1,2\n")
    model = tmp_path / "n.tanager"
    assert call("import", tmp_path / "n.csv", "--target", "a", "-o", model) == 2
    assert "Or name the format: bif" in capsys.readouterr().err
    assert call("import", tmp_path / "n.csv", "--target", "a", "-o", model, "--format", "dsc") == 2
    assert "--format 'dsc' isn't valid" in capsys.readouterr().err
