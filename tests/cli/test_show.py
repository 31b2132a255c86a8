"""What a model knows: ``tanager show``, ``explain`` and ``draw``."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.calling import call

import tanager


def test_show_as_text_and_json(folder, said):
    assert call("show", folder / "m.tanager") == 0
    text = said().out
    assert "tan: 3 of 3 features, 2 edges" in text
    assert "age" in text
    assert "risk: high" in text
    assert call("show", folder / "m.tanager", "--json", "--table", "age") == 0
    facts = json.loads(said().out)
    assert facts["n_edges"] == 2
    assert set(facts["information"]) == {"age", "job", "pay"}
    assert np.allclose(np.sum(facts["tables"][0]["probabilities"], axis=1), 1)
    assert call("show", folder / "m.tanager", "--table", "age") == 0
    assert said().out.startswith("P(age | class")


def test_the_tables_of_an_imported_network_were_not_learned(folder, said):
    bif = """network n { }
    variable x { type discrete [ 2 ] { a, b }; }
    variable y { type discrete [ 2 ] { c, d }; }
    probability ( y ) { table 0.3, 0.7; }
    probability ( x | y ) { (c) 1, 0; (d) 0.5, 0.5; }
    """
    (folder / "net.bif").write_text(bif)
    assert call("import", folder / "net.bif", "--target", "y", "-o", folder / "net.tanager") == 0
    assert call("show", folder / "net.tanager") == 0
    assert "parameters  given: " in said().out


def test_show_needs_no_learner(folder):
    code = (
        "import sys\nfrom tanager.cli.app import run\nassert run(['show', sys.argv[1]]) == 0\n"
        "print(*[m for m in ('sklearn', 'scipy', 'pandas', 'matplotlib')"
        " if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, str(folder / "m.tanager")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.split() == []


def test_explain_adds_up(folder, said):
    model, data = folder / "m.tanager", folder / "t.parquet"
    assert call("explain", model, data, "--row", 4, "--json") == 0
    told = json.loads(said().out)
    total = told["prior_log_odds"] + sum(c["log_odds"] for c in told["contributions"])
    assert total == pytest.approx(told["posterior_log_odds"])
    p = told["probabilities"]
    assert np.log(p[told["target"]] / p[told["against"]]) == pytest.approx(total)
    assert call("explain", model, data, "--row", 4, "--class", "low", "--against", "high") == 0
    assert "log-odds of low against high" in said().out


CLASSES = {
    "real": ([0.0, 1.0], {"1": "1.0", "0": "0.0", "1.0": "1.0"}),
    "boolean": ([False, True], {"true": "True", "FALSE": "False", "True": "True"}),
    "integer": ([3, 4], {"4": "4", "3.0": "3"}),
    "text": (["1", "1.0"], {"1": "1", "1.0": "1.0"}),
    "words": (["true", "True"], {"true": "true", "True": "True"}),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_a_class_is_typed_as_it_would_stand_in_a_table(tmp_path, said, kind):
    classes, typed = CLASSES[kind]
    table = pa.table({"a": ["x", "y"] * 10, "y": pa.array(classes * 10)})
    pq.write_table(table, tmp_path / "t.parquet")
    model = tmp_path / "m"
    tanager.save(tanager.BayesNetClassifier("naive", "laplace").fit(table, "y"), model)
    rows = tmp_path / "t.parquet"
    for text, name in typed.items():
        assert call("explain", model, rows, "--class", text) == 0
        assert f"log-odds of {name} against" in said().out
        other = next(one for one in typed if typed[one] != name)
        assert call("explain", model, rows, "--class", other, "--against", text) == 0
        assert f"against {name}, by feature" in said().out
    for text in ("2", "TruE" if kind == "words" else "maybe", ""):
        assert call("explain", model, rows, "--class", text) == 2
        assert f"--class {text!r} is not one of the classes" in said().err
    assert call("explain", model, rows, "--against", "2") == 2
    assert "--against '2' is not one of the classes" in said().err


def test_a_class_of_booleans_from_a_csv_is_typed_as_there(tmp_path, said):
    rows, model = tmp_path / "t.csv", tmp_path / "m"
    rows.write_text("a,y\n" + "x,true\ny,false\n" * 10)
    assert call("fit", rows, "-t", "y", "-s", "naive", "-p", "laplace", "-o", model) == 0
    said()
    assert call("explain", model, rows, "--class", "true", "--json") == 0
    assert json.loads(said().out)["target"] is True


def test_a_model_of_one_class_says_so(tmp_path, said):
    rows, model = tmp_path / "t.csv", tmp_path / "m"
    rows.write_text("a,y\n" + "x,p\nz,p\n" * 5)
    assert call("fit", rows, "-t", "y", "-s", "naive", "-p", "laplace", "-o", model) == 0
    said()
    assert call("explain", model, rows) == 2
    assert "one class, 'p': there's nothing to explain" in said().err


@pytest.mark.parametrize("name", ["g.svg", "g.png", "g.pdf"])
def test_draw(folder, tmp_path, name):
    assert call("draw", folder / "m.tanager", "-o", tmp_path / name) == 0
    head = (tmp_path / name).read_bytes()[:8]
    assert {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[name[2:]] in head
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_draw_table_and_explanation(folder, tmp_path):
    assert call("draw", folder / "m.tanager", "--table", "job", "-o", tmp_path / "t.svg") == 0
    out = tmp_path / "e.svg"
    assert call("explain", folder / "m.tanager", folder / "t.csv", "-o", out) == 0
    assert "log-odds" in out.read_text()


def test_a_graph_as_text_is_an_export(folder, tmp_path, said):
    assert call("draw", folder / "m.tanager", "-o", tmp_path / "g.dot") == 2
    assert "tanager export" in said().err


def test_a_picture_of_another_kind_is_told_before_the_model_is_read(folder, said):
    told = ("explain", folder / "m.tanager", folder / "absent.parquet", "-o", folder / "why.txt")
    assert call(*told) == 2
    assert "'.txt' isn't supported. Allowed: .svg, .png, .pdf" in said().err


def test_extensions_may_be_in_capitals(folder, tmp_path):
    assert call("draw", folder / "m.tanager", "-o", tmp_path / "n.PNG") == 0
    assert (tmp_path / "n.PNG").read_bytes().startswith(b"\x89PNG")
