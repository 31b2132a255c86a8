"""Tables as people have them: encodings, decimal commas, packed, JSON lines, Excel, a pipe."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.cli.app import run
from tanager.errors import ConfigurationError, DataError
from tanager.sources import open_source
from tanager.sources.text import TextStyle


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    y = rng.choice(["no", "yes"], 60)
    n, city = rng.normal(size=60).round(3) + (y == "yes"), rng.choice(["Köln", "Ulm"], 60)
    return pd.DataFrame({"n": n, "city": city, "y": y})


def fit(tmp_path, *arguments, code=0):
    model = tmp_path / "m.tanager"
    line = [
        "fit",
        *map(str, arguments),
        "-t",
        "y",
        "-s",
        "naive",
        "-p",
        "laplace",
        "-o",
        str(model),
    ]
    assert run(line) == code
    return model


def column(path, name, **style):
    return open_source(path, style=TextStyle(**style)).column(name).to_pylist()


def test_encoding_decimal_mark_and_missing_cells(frame, tmp_path, capfd):
    path = tmp_path / "german.csv"
    frame.assign(k=["?"] + ["3"] * 59).to_csv(
        path, index=False, sep=";", decimal=",", encoding="latin-1"
    )
    assert column(path, "n", encoding="latin-1", decimal=",") == frame["n"].tolist()
    assert column(path, "city", encoding="latin-1") == frame["city"].tolist()
    assert column(path, "k", encoding="latin-1", na_values=("?",)) == [None] + [3] * 59
    options = ("--encoding", "latin-1", "--decimal", ",", "--na-values", "?")
    model = fit(tmp_path, path, *options)
    assert run(["score", str(model), str(path), *options, "--json"]) == 0
    assert '"rows": 60' in capfd.readouterr().out
    with pytest.raises(DataError, match="Name its encoding"):
        open_source(path).column("city")
    with pytest.raises(ConfigurationError, match="latin-1"):
        TextStyle(encoding="klingon")
    with pytest.raises(ConfigurationError, match="decimal"):
        TextStyle(decimal="x")


@pytest.mark.parametrize("ending", [".csv.gz", ".csv.zst", ".csv.bz2", ".jsonl", ".xlsx"])
def test_packed_csv_json_lines_and_excel(frame, tmp_path, ending):
    path = tmp_path / f"table{ending}"
    text = frame.to_csv(index=False).encode()
    if ending == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    elif ending == ".jsonl":
        frame.to_json(path, orient="records", lines=True, force_ascii=False)
    else:
        with pa.output_stream(str(path), compression="detect") as stream:
            stream.write(text)
    assert column(path, "city") == frame["city"].tolist()
    assert column(path, "n") == pytest.approx(frame["n"].tolist())
    fit(tmp_path, path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_pipe_is_read(frame, tmp_path, monkeypatch, capfd, kind):
    model = fit(tmp_path, _written(frame, tmp_path))
    capfd.readouterr()
    buffer = io.BytesIO()
    if kind == "csv":
        buffer.write(frame.to_csv(index=False).encode())
    elif kind == "jsonl":
        buffer.write(frame.to_json(orient="records", lines=True).encode())
    else:
        frame.to_parquet(buffer)
    buffer.seek(0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))
    assert run(["score", str(model), "-", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rows"] == 60


def test_what_is_no_json_or_no_sheet_is_told(tmp_path):
    (tmp_path / "bad.jsonl").write_text("[1, 2\n")
    with pytest.raises(DataError, match="one JSON object a line"):
        open_source(tmp_path / "bad.jsonl")
    pytest.importorskip("openpyxl")
    (tmp_path / "bad.xlsx").write_text("no sheet")
    with pytest.raises(DataError, match="Save the sheet again"):
        open_source(tmp_path / "bad.xlsx")


def test_audit_says_what_a_fit_will_do_and_a_fit_says_what_it_did(frame, tmp_path, capfd):
    path = _written(frame.assign(id=[f"u{i}" for i in range(60)]), tmp_path)
    assert run(["audit", str(path), "-t", "y"]) == 0
    out = capfd.readouterr().out
    assert "left out: 60 different texts in 60 rows" in out
    assert "the target" in out
    assert run(["audit", str(path), "--json"]) == 0
    columns = {c["column"]: c for c in json.loads(capfd.readouterr().out)["columns"]}
    assert columns["id"]["action"] == "left out"
    assert columns["city"]["n_values"] == 2
    model = fit(tmp_path, path)
    assert (
        "tanager: note: Columns that are not what they seem: 'id' left out"
        in capfd.readouterr().err
    )
    assert run(["show", str(model)]) == 0
    assert "id left out" in capfd.readouterr().out
    fit(tmp_path, path, "--no-audit")
    assert capfd.readouterr().err == ""


def _written(frame, folder):
    path = folder / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["frame", "parquet", "jsonl", "csv"])
def test_texts_that_mean_missing_wherever_the_table_is(kind, tmp_path):
    table = pd.DataFrame({"a": ["x", "?", "-", "x"], "n": [1.5, 2.0, None, 4.0]})
    place = tmp_path / f"t.{kind}"
    if kind == "parquet":
        table.to_parquet(place)
    elif kind == "jsonl":
        table.to_json(place, orient="records", lines=True)
    elif kind == "csv":
        table.to_csv(place, index=False)
    opened = tanager.open_table(table if kind == "frame" else place, na_values=["?", "-"])
    assert opened.column("a").to_pylist() == ["x", None, None, "x"]
    assert opened.hash_text().column("a").to_pylist() == ["x", None, None, "x"]
    assert [v for v in opened.column("n").to_pylist() if v is not None] == [1.5, 2.0, 4.0]
    if kind != "csv":
        with pytest.raises(ConfigurationError, match="encoding='latin-1' says how a CSV"):
            tanager.open_table(table if kind == "frame" else place, encoding="latin-1")


def test_a_table_is_opened_without_some_columns(frame, tmp_path):
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    assert tanager.open_table(path, drop="city").names == ("n", "y")
    clf = BayesNetClassifier("naive", "laplace").fit(tanager.open_table(path, drop=["city"]), "y")
    assert list(clf.feature_names_in_) == ["n"]
    with pytest.raises(DataError, match="drop names 'town'"):
        tanager.open_table(path, drop="town")
