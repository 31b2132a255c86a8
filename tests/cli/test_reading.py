"""Tables as people have them: encodings, decimal commas, packed, JSON lines, Excel, a pipe."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.cli.app import run
from tanager.errors import ColumnWarning, ConfigurationError, DataError
from tanager.network import Network
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
        "--force",
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
    with pytest.raises(ConfigurationError, match=r"header='yes' isn't valid. Allowed: True, False"):
        TextStyle(header="yes")


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
    with pytest.raises(DataError, match="one JSON object per line"):
        open_source(tmp_path / "bad.jsonl")
    pytest.importorskip("openpyxl")
    (tmp_path / "bad.xlsx").write_text("no sheet")
    with pytest.raises(DataError, match="Save the sheet again"):
        open_source(tmp_path / "bad.xlsx")
    pd.DataFrame([[1, 2]], columns=["a", "a"]).to_excel(tmp_path / "twice.xlsx", index=False)
    with pytest.raises(DataError, match=r"Duplicated column name.*'a'"):
        open_source(tmp_path / "twice.xlsx")


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
        "tanager: note: Some columns are read differently from how they are stored: 'id' left out"
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
        with pytest.raises(ConfigurationError, match="encoding='latin-1' applies only to CSV"):
            tanager.open_table(table if kind == "frame" else place, encoding="latin-1")


def test_a_table_is_opened_without_some_columns(frame, tmp_path):
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    assert tanager.open_table(path, drop="city").names == ("n", "y")
    clf = BayesNetClassifier("naive", "laplace").fit(tanager.open_table(path, drop=["city"]), "y")
    assert list(clf.feature_names_in_) == ["n"]
    with pytest.raises(ConfigurationError, match="drop names 'town'"):
        tanager.open_table(path, drop="town")


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """Days before months or months before days, '?' for missing, codes that look like numbers."""
    rng = np.random.default_rng(1)
    y = rng.choice(["no", "yes"], 80)
    day = [f"{d:02d}/{m:02d}/2024" for d, m in rng.integers(1, 13, (80, 2))]
    size = [str(v) for v in rng.integers(100, 140, 80)]
    size[3] = size[7] = "?"
    table = pd.DataFrame({"day": day, "size": size, "kind": rng.integers(1, 4, 80)})
    table = table.assign(born=[f"2024{m:02d}0{d}" for m, d in rng.integers(1, 9, (80, 2))], y=y)
    path = tmp_path_factory.mktemp("messy") / "messy.csv"
    table.to_csv(path, index=False)
    return path


PAIR = ("-s", "naive", "-p", "laplace")
READING = (
    *("--dates", "day=%d/%m/%Y", "--dates", "born=%Y%m%d", "--na-values", "?"),
    *("--categorical", "kind"),
)


def test_dates_in_doubt_are_asked_for_and_then_read(messy, tmp_path, capfd):
    model = tmp_path / "m.tanager"
    fit = ["fit", str(messy), "-t", "y", *PAIR, "-o", str(model)]
    assert run([*fit, "--dates", "day"]) == 2
    assert "matches several formats: %d/%m/%Y and %m/%d/%Y. Choose one" in capfd.readouterr().err
    assert run([*fit, *READING]) == 0
    columns = {c.name: c for c in Network.load(model).codebook.columns}
    assert columns["day"].temporal
    assert columns["born"].temporal
    assert columns["size"].kind == "numeric"
    assert columns["kind"].kind == "categorical"
    for command in ("predict", "score", "explain", "report"):
        line = [command, str(model), str(messy), "--na-values", "?"]
        line += ["-o", str(tmp_path / "o.html")] if command == "report" else []
        assert run(line) == 0
    assert run(["predict", str(model), str(messy)]) == 1
    assert "--na-values: Column" in capfd.readouterr().err
    assert run(["predict", str(model), str(messy), "--dates", "day"]) == 2
    assert "The model file records how to read its columns" in capfd.readouterr().err


def test_a_column_that_the_model_does_not_know_can_be_dropped(frame, tmp_path, capfd):
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.assign(extra=1).to_csv(tmp_path / "new.csv", index=False)
    model = str(fit(tmp_path, tmp_path / "t.csv"))
    new = str(tmp_path / "new.csv")
    assert run(["predict", model, new]) == 1
    capfd.readouterr()
    assert run(["predict", model, new, "--drop", "extra", "-o", "-"]) == 0
    assert capfd.readouterr().out.startswith('"prediction"')
    assert not Path("-").exists()


def test_audit_says_what_the_options_do(messy, capfd):
    assert run(["audit", str(messy), "-t", "y", "--drop", "born", *READING[:2], "--json"]) == 0
    columns = {c["column"]: c for c in json.loads(capfd.readouterr().out)["columns"]}
    assert columns["day"]["action"] == "read as dates"
    assert "born" not in columns
    assert run(["audit", str(messy), "-t", "label"]) == 2
    assert run(["audit", str(messy), "-t", "y", "--categorical", "nope"]) == 2


def test_evaluate_and_compare_read_the_table_as_fit_does(messy, tmp_path, capfd):
    arguments = [str(messy), "-t", "y", "--rounds", "1", *READING]
    run_file = tmp_path / "run.jsonl"
    raw = "sklearn.tree.DecisionTreeClassifier"
    with_ = ["--with", "naive/laplace", "--with", raw, "--with", "categorical-nb"]
    assert run(["compare", *arguments, *with_, "--run", str(run_file)]) == 0
    assert run(["evaluate", *arguments, *PAIR]) == 0
    dataset = json.loads(run_file.read_text().splitlines()[0])["experiment"]["datasets"][0]
    assert dataset["na_values"] == ["?"]
    assert dataset["dates"] == ["day=%d/%m/%Y", "born=%Y%m%d"]
    capfd.readouterr()
    assert run(["evaluate", *arguments[:5], *PAIR]) == 0
    note = capfd.readouterr().err
    assert note.count("'size' read as numbers") == 1
    assert "--categorical" in note
    toml = tmp_path / "e.toml"
    toml.write_text(
        'classifiers = ["naive/laplace"]\n[protocol]\nrounds = 1\n[datasets.messy]\n'
        f'path = "{messy}"\ntarget = "y"\nna_values = ["?"]\ncategorical = ["kind"]\n'
        'dates = ["day=%d/%m/%Y"]\n'
    )
    assert run(["compare", str(toml), "--run", str(tmp_path / "other.jsonl")]) == 0


def test_standard_input_can_be_evaluated(messy, monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(messy.read_bytes())))
    assert run(["evaluate", "-", "-t", "y", "--rounds", "1", *PAIR]) == 0
    assert "on standard input" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dates", "size"), "--dates names 'size', and no text of it"),
        (("--dates", "day=%d-%b"), "Allowed: ISO"),
        (("--dates", "nope"), "--dates names 'nope', which is not a feature"),
        (("--drop", "nope"), "--drop names 'nope'"),
        (("--drop", "y"), "--drop can't name the target"),
        (("--encoding", "utf9"), "--encoding 'utf9' isn't valid"),
        (("--bins", "foo"), "--bins 'foo' isn't valid"),
        (("--jobs", "0"), "--jobs 0 isn't valid"),
    ],
)
def test_mistakes_are_told_in_the_options_words(messy, tmp_path, capfd, arguments, said):
    line = ["fit", str(messy), "-t", "y", *PAIR, "-o", str(tmp_path / "m.tanager"), *arguments]
    assert run(line) in (1, 2)
    assert said in capfd.readouterr().err


def test_kept_columns_stay_as_they_are_in_the_input(tmp_path):
    rows = [
        (f"C{i:03}", f"{i % 28 + 1:02}/03/2024", f"{1000 + i:,}", "no" if i % 2 else "yes")
        for i in range(60)
    ]
    table = tmp_path / "t.csv"
    text = ["id;when;pay;y", *(";".join(row) for row in rows)]
    table.write_text("\n".join(text) + "\n")
    model, out = tmp_path / "m.tanager", tmp_path / "p.csv"
    assert (
        run(["fit", str(table), "-t", "y", "-s", "naive", "-p", "laplace", "-o", str(model)]) == 0
    )
    assert run(["predict", str(model), str(table), "--keep", "all", "-o", str(out)]) == 0
    with out.open(newline="") as file:
        found = [tuple(row.values())[:4] for row in csv.DictReader(file)]
    assert found == rows


def write_numbers(path, rows=60):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, rows)
    lines = [
        f"{a:.2f},{b},{c}" for a, b, c in zip(rng.normal(size=rows) + y, y * 3, y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return y


def test_a_csv_file_without_a_header(tmp_path, capfd):
    path = tmp_path / "bare.csv"
    write_numbers(path)
    for given in (["--no-header"], []):
        line = ["fit", str(path), "-t", "x2", "-s", "naive", "-p", "laplace", "--force"]
        assert run([*line, "-o", str(tmp_path / "m"), *given]) == 0
        said = capfd.readouterr().err
        assert ("numbers only" in said) == (given == [])
        assert Network.load(tmp_path / "m").codebook.domain.names == ("x0", "x1")
        assert tanager.load(tmp_path / "m").info_["codes"]["rows"] == 60
    assert run(["predict", str(tmp_path / "m"), str(path), "--no-header"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 61
    assert run(["score", str(tmp_path / "m"), str(path), "--no-header", "-t", "x2"]) == 0
    assert run(["audit", str(path), "--header"]) in (0, 2)
    table = tanager.open_table(path, header=False)
    assert (table.names, table.n_rows, table.named) == (("x0", "x1", "x2"), 60, False)
    with pytest.warns(ColumnWarning, match="numbers only, so it is read as a row"):
        assert tanager.open_table(path).n_rows == 60
    assert tanager.open_table(path, header=True).n_rows == 59


def test_a_header_of_names_is_one(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert open_source(tmp_path / "t.csv").n_rows == 60
    assert tanager.open_table(tmp_path / "t.csv", header=False).n_rows == 61
    with pytest.raises(ConfigurationError, match="header=False applies only to CSV files"):
        tanager.open_table({"a": [1]}, header=False)
    # Columns of a file without names are matched by position.
    clf = BayesNetClassifier("naive", "laplace").fit(frame[["n", "city"]], frame["y"])
    frame[["n", "city"]].to_csv(tmp_path / "bare.csv", index=False, header=False)
    bare = tanager.open_table(tmp_path / "bare.csv", header=False)
    assert np.array_equal(clf.predict_proba(bare), clf.predict_proba(frame[["n", "city"]]))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_without_a_target_are_left_out_on_request(frame, ending, tmp_path, capfd):
    holes = frame.assign(y=frame["y"].where(np.arange(60) % 5 != 2))
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        holes.to_csv(path, index=False)
    else:
        holes.to_parquet(path, row_group_size=7)
    fit(tmp_path, path, code=1)
    assert "--drop-missing-target" in capfd.readouterr().err
    model = tanager.load(fit(tmp_path, path, "--drop-missing-target", "--force"))
    assert model.info_["codes"]["rows"] == 48
    known = holes.dropna(subset="y")
    expected = BayesNetClassifier("naive", "laplace", random_state=0).fit(known, "y")
    assert model.network_ == expected.network_
    table = tanager.open_table(path, drop_missing="y")
    assert table.n_rows == 48
    assert next(f.start for f in table.fragments()) == 0
    assert sum(f.n_rows for f in table.fragments()) == 48
    assert table.column("n").to_pylist() == known["n"].tolist()


def test_a_target_that_no_row_has(tmp_path):
    with pytest.raises(DataError, match="No row has a value of 'y'"):
        tanager.open_table({"a": [1, 2], "y": [None, float("nan")]}, drop_missing="y")
    with pytest.raises(ConfigurationError, match="drop_missing names 'z'"):
        tanager.open_table({"a": [1, 2]}, drop_missing="z")
    assert tanager.open_table(np.array([[1.0, np.nan], [2.0, 3.0]]), drop_missing="x1").n_rows == 1
