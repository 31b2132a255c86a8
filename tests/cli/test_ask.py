"""``tanager ask`` and ``tanager sample``."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tests.cli.calling import call

from tanager import BayesNetClassifier, load, save
from tanager.network import Interval, OneOf


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    kind = np.array(["monthly", "yearly", "two-year"])[rng.integers(0, 3, 300)]
    months = np.round(rng.gamma(2, 12, 300), 1)
    late = rng.random(300) < np.where(kind == "monthly", 0.5, 0.1)
    day = np.datetime64("2024-01-01") + rng.integers(0, 300, 300)
    columns = {"contract": kind, "tenure": months, "support": rng.integers(0, 2, 300), "day": day}
    return pa.table({**columns, "churn": np.where(late, "Yes", "No")})


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("ask") / "model.tanager"
    clf = BayesNetClassifier("tan", "hdp", bins=5, categorical_features=["contract", "support"])
    save(clf.fit(table, "churn"), path)
    return path


@pytest.fixture(scope="module")
def network(model):
    return load(model).network_


def test_ask_prints_the_answer_as_json(model, network, capsys):
    given = ["--given", "contract=monthly|yearly", "-g", "tenure=..12.5", "-g", "support=1"]
    assert call("ask", model, "churn", "day", *given, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    evidence = {
        "contract": OneOf("monthly", "yearly"),
        "tenure": Interval(None, 12.5),
        "support": 1,
    }
    exact = network.query(["churn", "day"], evidence)
    np.testing.assert_allclose(answer["probabilities"], exact.probabilities)
    assert answer["targets"] == ["churn", "day"]


def test_ask_without_a_target_asks_for_the_class(model, network, capsys):
    assert call("ask", model, "--given", "contract=monthly") == 0
    shown = capsys.readouterr().out
    p = network.query("churn", {"contract": "monthly"}).probabilities
    assert f"{p[1]:.4f}" in shown
    assert "log P(given)" in shown


def test_ask_about_dates(model, network, capsys):
    assert call("ask", model, "--given", "day=2024-06-01..", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    exact = network.query("churn", {"day": Interval(np.datetime64("2024-06-01"), None)})
    np.testing.assert_allclose(answer["probabilities"], exact.probabilities)


def test_ask_for_the_best_completions(model, network, capsys):
    assert call("ask", model, "--best", 2, "--given", "churn=Yes", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    exact = network.most_probable({"churn": "Yes"}, 2)
    assert [f["values"] for f in found] == [c.values for c in exact]
    assert call("ask", model, "contract", "--best", 1, "--given", "churn=Yes") == 0
    assert "contract" in capsys.readouterr().out


def test_sample_writes_rows_of_the_training_table(model, tmp_path, capsys):
    path = tmp_path / "rows.parquet"
    assert (
        call("sample", model, "-n", 50, "--given", "contract=yearly", "-o", path, "--seed", 1) == 0
    )
    drawn = pq.read_table(path)
    assert drawn.num_rows == 50
    assert set(drawn["contract"].to_pylist()) == {"yearly"}
    assert call("sample", model, "-o", path) == 2
    assert "--force" in capsys.readouterr().err
    assert call("sample", model, "-n", 3) == 0
    text = capsys.readouterr().out
    assert pacsv.read_csv(pa.py_buffer(text.encode())).num_rows == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("contract", "NAME=VALUE"),
        ("contrct=monthly", "Did you mean 'contract'"),
        ("contract=weekly", "has no value 'weekly'"),
        ("tenure=long", "isn't a number"),
        ("day=soon", "isn't a date"),
    ],
)
def test_ask_says_what_is_wrong(model, given, words, capsys):
    assert call("ask", model, "--given", given) == 2
    assert words in capsys.readouterr().err


def test_ask_says_what_the_answer_depends_on(model, network, capsys):
    asked = ("churn=Yes", "--given", "contract=monthly", "--sensitivity")
    assert call("ask", model, *asked, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    expected = network.sensitivity({"churn": "Yes"}, {"contract": "monthly"})
    assert found == json.loads(json.dumps(expected.to_dict()))
    assert call("ask", model, *asked) == 0
    assert "P(churn=Yes | contract=monthly) = " in capsys.readouterr().out
    assert call("ask", model, *asked, "--best", "2") == 2
    assert call("ask", model, "churn", "--sensitivity") == 2
    assert "NAME=VALUE" in capsys.readouterr().err


def test_a_value_called_missing_is_not_a_missing_cell(tmp_path, capsys):
    table = pa.table({"a": ["missing", None, "b", "missing"] * 15, "y": [0, 1, 1, 0] * 15})
    network = BayesNetClassifier("naive", "laplace").fit(table, "y").network_
    network.save(tmp_path / "model.tanager")
    for said, value in (("missing", "missing"), ("", None), ("missing ", None)):
        asked = ("ask", tmp_path / "model.tanager", "--given", f"a={said}", "--json")
        assert call(*asked) == 0
        found = json.loads(capsys.readouterr().out)["probabilities"]
        np.testing.assert_allclose(found, network.query("y", {"a": value}).probabilities)
