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
        ("n.sql", "-- A Bayesian network classifier, written by Tanager.\nWITH"),
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
