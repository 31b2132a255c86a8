"""Arguments of the wrong type or value are refused by a message that names them."""

import numpy as np
import pandas as pd
import pytest

from tanager import BayesNetClassifier
from tanager.errors import TanagerError
from tanager.network import Interval, OneOf, Soft, explain_row

ROW = [{"a": "a", "z": 1.5}]


@pytest.fixture(scope="module")
def network():
    X = pd.DataFrame({"a": list("aabbab") * 10, "z": [1.5, 2, 3, 4, 5, 6] * 10})
    return BayesNetClassifier("tan", "laplace", bins=4).fit(X, list("nyynyy") * 10).network_


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Soft({"a": "x"}), "'a': the likelihood of 'a' is 'x'"),
        (Soft({"a": None}), "'a': the likelihood of 'a' is None"),
        (Soft({"a": -1}), "'a': the likelihood of 'a' is -1"),
        (Soft({}), "'a': the evidence leaves no value possible"),
        (Soft(["a"]), "'a': .* Give Soft a mapping"),
        (OneOf(), "'a': the evidence leaves no value possible"),
        (OneOf("q"), "'a' has no value 'q'"),
        (Interval(0, 1), "'a' is categorical"),
        ({"x": 1}, "'a': .* isn't a single value"),
        (np.array(["a"]), "'a': .* isn't a single value"),
        (frozenset("a"), "'a': .* isn't a single value"),
    ],
    ids=str,
)
def test_evidence(network, given, message):
    with pytest.raises(TanagerError, match=message):
        network.query("z", {"a": given})


def test_a_series_is_a_row():
    """A row of a DataFrame is known by its index in every method that takes one row."""
    n = np.arange(60)
    X = pd.DataFrame(
        {
            "a": pd.Categorical(list("aabbab") * 10),
            "z": [1.5, 2, 3, 4, 5, None] * 10,
            "code": n % 3,
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(n, "D"),
        }
    )
    clf = BayesNetClassifier("tan", "laplace", bins=4, categorical_features=["a", "code"])
    clf.fit(X, list("nyynyy") * 10)
    network, row, table = clf.network_, X.iloc[5], X.iloc[5:6]
    asks = [
        lambda known: clf.explain_row(known),
        lambda known: explain_row(network, known),
        lambda known: clf.nearest(known, max_changes=2),
        lambda known: network.most_probable(known, 2),
        lambda known: network.sample(3, known, random_state=0),
    ]
    for ask in asks:
        assert repr(ask(row)) == repr(ask(table))
    part = X[["z", "code"]].iloc[2]  # all of one type, floats
    known = {"z": 3.0, "code": 2.0}
    assert clf.next_question(part) == clf.next_question(known)
    assert network.log_probability(part) == network.log_probability(known)
    assert repr(network.query("a", part)) == repr(network.query("a", known))
    event = pd.Series({"a": "b"})
    assert network.sensitivity(event, part) == network.sensitivity({"a": "b"}, known)
    numbered = X[["a", "z"]].set_axis([0, 1], axis=1)
    other = BayesNetClassifier("tan", "laplace").fit(numbered, list("nyynyy") * 10)
    assert repr(other.explain_row(numbered.iloc[1])) == repr(other.explain_row(numbered[1:2]))


def test_an_interval_of_dates_is_none_of_numbers(network):
    with pytest.raises(TanagerError, match="'z' holds numbers"):
        network.query("a", {"z": Interval(pd.Timestamp("2024-01-01"), None)})


def test_evidence_on_the_class_is_a_single_value(network):
    with pytest.raises(TanagerError, match=r"'class': .* isn't a single value"):
        network.query("z", {"class": np.array(["n", "y"])})


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")])
def test_missing_cells_are_unknown(network, missing):
    before = network.query("a").probabilities
    np.testing.assert_array_equal(network.query("a", {"z": missing}).probabilities, before)
    np.testing.assert_array_equal(network.query("a", {"class": missing}).probabilities, before)
    row = pd.DataFrame({"a": ["a"], "z": pd.Series([missing], dtype=object)})
    assert explain_row(network, row).values == ("a", "unknown")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda n: n.query(None), "targets=None"),
        (lambda n: n.query(5), "targets=5"),
        (lambda n: n.query([["a"]]), "targets="),
        (lambda n: n.most_probable(of=5), "targets=5"),
        (lambda n: n.sample(1, random_state="x"), "random_state='x'"),
        (lambda n: n.sample(1, random_state=-1), "random_state=-1"),
        (lambda n: n.impute({"a": [None], "z": [1.0]}, "draw", "x"), "random_state='x'"),
        (lambda n: n.nearest({"a": "a"}, fixed=5), "fixed=5"),
        (lambda n: n.next_question({}, among=5), "among=5"),
        (lambda n: n.edit("a", effect={}), "effect={}"),
        (lambda n: n.table("z").joined(0), "most=0"),
        (lambda n: n.with_table("a", {"y": ["a", "b"]}), "table of 'a' isn't an array of numbers"),
        (lambda n: n.with_table("a", {"y": {"a": "x"}}), "table of 'a' isn't an array of numbers"),
        (lambda n: n.table(["a"]), r"\['a'\] is not in the network"),
        (lambda n: n.edit(["a"], neutralise=True), r"\['a'\] is not in the network"),
        (lambda n: n.table(np.array(["a", "z"])), "is not in the network"),
        (lambda n: explain_row(n, ROW, target=np.array(["y", "n"])), "not one of the classes"),
        (lambda n: explain_row(n, ROW, against=["y"]), "not one of the classes"),
        (lambda n: n.to_sql(table=5), "table=5"),
        (lambda n: n.to_sql(table=[]), r"table=\[\]"),
        (lambda n: n.to_sql(table=[5]), r"table=\[5\]"),
        (lambda n: n.to_sql(keep=[5]), r"keep=\[5\]"),
        (lambda n: n.to_sql(dialect=["duckdb"]), "dialect="),
        (lambda n: n.to_c(name=5), "name=5"),
        (lambda n: n.to_javascript(kind=["script"]), "kind="),
    ],
)
def test_options(network, ask, message):
    with pytest.raises(TanagerError, match=message):
        ask(network)


@pytest.mark.parametrize(
    "options", [{"opset": "x"}, {"opset": 17}, {"opset": 9999}, {"missing_text": 5}], ids=str
)
def test_options_of_onnx(network, options):
    pytest.importorskip("onnx")
    with pytest.raises(TanagerError, match=f"{next(iter(options))}="):
        network.to_onnx(**options)


def test_the_most_probable_of_some_takes_a_table_of_one_row(network):
    row = pd.DataFrame({"z": [1.5]})
    assert network.most_probable(row, of=["a"]) == network.most_probable({"z": 1.5}, of=["a"])
    with pytest.raises(TanagerError, match="got 2 rows"):
        network.most_probable(pd.concat([row, row]), of=["a"])
