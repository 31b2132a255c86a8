"""What a model knows: ``tanager show``, ``explain`` and ``draw``."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
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


def test_show_needs_no_learner(folder):
    code = (
        "import sys\nfrom tanager.cli.app import run\nassert run(['show', sys.argv[1]]) == 0\n"
        "print(*[m for m in ('sklearn', 'numba', 'scipy', 'pandas', 'matplotlib')"
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


def test_the_effect_of_a_feature_is_a_curve_of_few_lines(tmp_path, said):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 1))
    clf = tanager.BayesNetClassifier("naive", "laplace", bins=30).fit(
        X, np.where(X[:, 0] > 0, "b", "a")
    )
    model = tmp_path / "m.tanager"
    tanager.save(clf, model)
    assert call("show", model, "--effect", "x0", "--json") == 0
    (effect,) = json.loads(said().out)["effects"]
    joint = np.exp(clf.network_.table("x0").joined(16).probabilities)
    assert len(effect["values"]) == joint.shape[1] == 16
    assert sum(effect["shares"]) == pytest.approx(1.0)
    # The middle cut tells the classes apart, so it is never joined away.
    assert np.sign(effect["log_odds"]).tolist() == sorted(np.sign(effect["log_odds"]).tolist())
    assert call("show", model, "--effect", "x0", "--class", "a") == 0
    lines = said().out.splitlines()
    assert "log-odds of a" in lines[0]
    assert len(lines) == 18
    assert call("show", model, "--effect", "x1") == 2
    assert call("show", model, "--effect", "x0", "--class", "c") == 2


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
