"""``tanager decide``, ``ask --next``, ``explain --to`` and ``export --costs``."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.cli.calling import call

from tanager import load

COSTS = {"check": {"high": 1, "low": 4}, "pass": {"high": 20, "low": 0}, "ask a person": 3}
TOML = """
[costs]
check = { high = 1, low = 4 }
pass = { high = 20, low = 0 }
"ask a person" = 3

[prices]
age = 0.5
"""


@pytest.fixture
def costs(tmp_path):
    path = tmp_path / "costs.toml"
    path.write_text(TOML)
    return path


@pytest.fixture(scope="module")
def rows(folder):
    return pq.read_table(folder / "t.parquet").drop(["id", "risk"])


def test_decide_writes_what_python_decides(folder, rows, costs, tmp_path):
    out = tmp_path / "decided.parquet"
    options = ["--costs", costs, "--keep", "id", "--ignore-extra", "-o", out]
    assert call("decide", folder / "m.tanager", folder / "t.parquet", *options) == 0
    found, wanted = pq.read_table(out), load(folder / "m.tanager").decide(rows, COSTS)
    costs_of = [f"cost_{name}" for name in COSTS]
    assert found.column_names == ["id", "decision", "margin", *costs_of]
    assert found["decision"].to_pylist() == wanted.actions.tolist()
    np.testing.assert_allclose(found["margin"], wanted.margin)
    for at, name in enumerate(costs_of):
        np.testing.assert_allclose(found[name], wanted.expected_costs[:, at])
    assert len(set(wanted.actions)) > 1


def test_decide_streams_csv_and_parquet(folder, costs, tmp_path, capsys):
    given = [folder / "m.tanager", folder / "t.csv", "--costs", costs, "--ignore-extra"]
    assert call("decide", *given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == '"decision","margin","cost_check","cost_pass","cost_ask a person"'
    assert len(lines) == 601
    assert call("decide", *given, "-o", tmp_path / "d.parquet") == 0
    assert pq.read_table(tmp_path / "d.parquet").num_rows == 600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("check = 1", "Needed: [costs]"),
        ("[costs]\ncheck = {high = 1}", "lacks the class 'low'"),
        ("[costs]\ncheck = nan", "isn't a finite number"),
        ("[costs", "isn't a valid TOML file"),
        ("[costs]\ncheck = 1\n[price]\nage = 1", "allowed: [prices]"),
    ],
)
def test_costs_that_cannot_be_read_are_refused(folder, tmp_path, capsys, text, words):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    assert call("decide", folder / "m.tanager", folder / "t.csv", "--costs", path) == 2
    assert words in capsys.readouterr().err


def test_costs_by_name_need_ordered_classes(folder, capsys):
    assert call("decide", folder / "m.tanager", folder / "t.csv", "--costs", "absolute") == 2
    assert "needs ordered classes" in capsys.readouterr().err
    assert call("decide", folder / "m.tanager", folder / "t.csv", "--costs", "none.toml") == 1
    assert "none.toml" in capsys.readouterr().err


def test_ask_says_what_to_find_out_next(folder, costs, capsys):
    model = folder / "m.tanager"
    options = ["--next", 2, "--costs", costs, "--budget", 1, "--given", "job=clerk"]
    assert call("ask", model, *options, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    wanted = load(model).next_question({"job": "clerk"}, COSTS, prices={"age": 0.5}, budget=1, n=2)
    assert found == wanted.to_dict()
    assert wanted.plan
    assert call("ask", model, "age", *options, "--exact") == 0
    shown = capsys.readouterr().out
    assert "pay" not in shown
    assert "Ask: age" in shown
    assert call("ask", model, "--next", 1) == 0
    assert "bits now" in capsys.readouterr().out
    assert call("ask", model, "--next", 2, "--adaptive") == 0
    assert "An adaptive plan, worth" in capsys.readouterr().out
    assert call("ask", model, "--costs", costs) == 2
    assert "need --next" in capsys.readouterr().err


def test_explain_finds_the_nearest_change(folder, rows, costs, capsys):
    model, data = folder / "m.tanager", folder / "t.parquet"
    one = rows.slice(4, 1)
    given = ["explain", model, data, "--row", 4]
    assert call(*given, "--to", "any", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    wanted = load(model).nearest(one)
    assert [change["changes"] for change in found] == [
        {name: list(pair) for name, pair in change.changes.items()} for change in wanted
    ]
    assert wanted
    assert call(*given, "--to", "pass", "--costs", costs, "--fixed", "job") == 0
    shown = capsys.readouterr().out
    for change in load(model).nearest(one, "pass", costs=COSTS, fixed=["job"]):
        for name, (old, new) in change.changes.items():
            assert f"{name}: {old} -> {new}" in shown
    assert call(*given, "--to", wanted[0].after, "--changes", 0) == 0
    assert "No change of up to 0 features" in capsys.readouterr().out
    assert call(*given, "--to", "Low") == 2
    assert "Did you mean 'low'?" in capsys.readouterr().err
    assert call(*given, "--to", "low", "--class", "low") == 2


def test_exports_decide_too(folder, costs, tmp_path, capsys):
    import duckdb

    out = tmp_path / "score.sql"
    assert call("export", folder / "m.tanager", "-o", out, "--keep", "id", "--costs", costs) == 0
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE rows AS SELECT * FROM '{folder / 't.parquet'}'")
    found = sorted(connection.execute(out.read_text(encoding="utf-8")).fetchall())
    rows = pq.read_table(folder / "t.parquet").drop(["id", "risk"])
    wanted = load(folder / "m.tanager").decide(rows, COSTS)
    assert [row[3] for row in found] == wanted.actions.tolist()
    for name, word in (("m.h", "m_decide"), ("m.js", '"ask a person"'), ("m.json", '"costs"')):
        options = ["--name", "m"] if name == "m.h" else []
        path = tmp_path / name
        assert call("export", folder / "m.tanager", "-o", path, "--costs", costs, *options) == 0
        assert word in path.read_text(encoding="utf-8")
    capsys.readouterr()
    bif = tmp_path / "m.bif"
    assert call("export", folder / "m.tanager", "-o", bif, "--costs", costs) == 2
    assert "--costs can't be used with the format bif" in capsys.readouterr().err


def test_the_page_gets_the_costs(folder, costs, tmp_path):
    out = tmp_path / "page.html"
    assert call("report", folder / "m.tanager", "-o", out, "--costs", costs) == 0
    text = out.read_text(encoding="utf-8")
    assert '"costs":{"actions":["check","pass","ask a person"]' in text
    assert '"prices":{"age":0.5}' in text
