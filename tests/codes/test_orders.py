"""Categories that stand in an order: wherever it comes from, the same codes, labels and model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tanager import BayesNetClassifier, load, save
from tanager.codes import CategoricalColumn, Codebook, learn_codebook
from tanager.codes.columns import NumericColumn, show_cuts
from tanager.codes.seeing import join_orders
from tanager.engines import FitContext
from tanager.errors import ConfigurationError, DataError
from tanager.network.answers import group_labels

SIZES = ["S", "M", "L", "XL"]
LABELS = [0, 1, 1, 0, 1, 0]
TEXTS = ["L", "S", None, "M", "S", "L"]


def learn(table, labels=LABELS, **options):
    return learn_codebook(table, labels, context=FitContext(), **options)


def frame():
    return pd.DataFrame({"size": pd.Categorical(TEXTS, SIZES, ordered=True)})


def tables():
    """One column of sizes, its order told in every way."""
    polars = pytest.importorskip("polars")
    arrow = pa.DictionaryArray.from_arrays(
        pa.array([2, 0, None, 1, 0, 2], pa.int8()), pa.array(SIZES), ordered=True
    )
    return {
        "pandas": (frame(), None),
        "polars": (
            polars.DataFrame({"size": polars.Series(TEXTS, dtype=polars.Enum(SIZES))}),
            None,
        ),
        "arrow": (pa.table({"size": arrow}), None),
        "given": (pd.DataFrame({"size": TEXTS}), {"size": SIZES}),
        "given over the type's": (
            pd.DataFrame({"size": pd.Categorical(TEXTS, sorted(SIZES), ordered=True)}),
            {"size": SIZES},
        ),
    }


def test_the_codes_follow_the_order_wherever_it_comes_from():
    for table, ordered in tables().values():
        codebook, rows = learn(table, ordered=ordered)
        (column,) = codebook.columns
        # XL is declared, but no row has it.
        assert column.labels() == ["S", "M", "L", "missing"]
        assert codebook.domain.n_ordered == (3,)
        assert rows.gather().codes.tolist() == [[2, 0, 3, 1, 0, 2]]
        assert Codebook.from_dict(json.loads(json.dumps(codebook.to_dict()))) == codebook
        assert codebook.encode(pd.DataFrame({"size": ["XL", "M"]})).tolist() == [[4, 1]]


def test_files_keep_the_order_and_parts_must_agree(tmp_path):
    pq.write_table(pa.Table.from_pandas(frame()), tmp_path / "a.parquet", row_group_size=2)
    codebook, _ = learn(str(tmp_path / "a.parquet"))
    assert codebook.columns[0].labels() == ["S", "M", "L", "missing"]
    a, b = pa.array(["S", "M", "L"]), pa.array(["S", "L"])
    assert join_orders(a, b, "size") is a
    assert join_orders(b, a, "size") is a
    with pytest.raises(DataError, match=r"different orders.*ordered="):
        join_orders(a, pa.array(["L", "S"]), "size")
    with pytest.raises(DataError, match="different orders"):
        join_orders(pa.array(["S", "M"]), pa.array(["M", "L"]), "size")


@pytest.mark.parametrize("order", [[30, 10, 20], [2.5, -1.0, 0.5], [1 << 60, 3, -(1 << 60)]])
def test_numbers_may_have_an_order_of_their_own(order):
    values = [order[i] for i in (0, 1, 2, 1, 2, 0)]
    codebook, rows = learn(pd.DataFrame({"x": values}), ordered={"x": order})
    assert rows.gather().codes.tolist() == [[0, 1, 2, 1, 2, 0]]
    assert codebook.encode(np.array([[order[2]], [7]]).astype(type(order[0]))).tolist() == [[2, 3]]
    many = pd.DataFrame({"x": values * 5})
    assert codebook.encode(many).tolist() == [[0, 1, 2, 1, 2, 0] * 5]


def test_texts_stand_for_the_numbers_they_write():
    codebook, _ = learn(
        pd.DataFrame({"grade": [1, 3, 2, 1, 3, 2]}), ordered={"grade": ["3", "1", "2"]}
    )
    assert codebook.columns[0].values.to_pylist() == [3, 1, 2]


def test_intervals_of_pandas_cut_are_ordered_categories():
    numbers = [0.5, 1.5, 2.5, 3.5, 1.5, 0.5]
    table = pd.DataFrame({"x": pd.cut(numbers, [0, 1, 2, 3, 4])})
    codebook, rows = learn(table)
    assert codebook.columns[0].labels() == ["(0, 1]", "(1, 2]", "(2, 3]", "(3, 4]"]
    assert rows.gather().codes.tolist() == [[0, 1, 2, 3, 1, 0]]


@pytest.mark.parametrize(
    ("ordered", "error", "words"),
    [
        ({"size": ["S", "M"]}, DataError, "'L', which aren't in its order"),
        ({"length": SIZES}, ConfigurationError, "'length', which is not a feature"),
        ({"size": "SML"}, ConfigurationError, "list of at least two"),
        ({"size": ["S", "S", "L"]}, ConfigurationError, "different"),
        ({"size": ["S", 2]}, ConfigurationError, "mixes strings and numbers"),
        ({"when": ["a", "b"]}, ConfigurationError, "dates or times"),
        ({"n": ["a", "b"]}, ConfigurationError, "holds whole numbers"),
        (["size"], ConfigurationError, "a mapping"),
    ],
)
def test_orders_that_are_not_allowed(ordered, error, words):
    table = pd.DataFrame({"size": TEXTS, "when": pd.to_datetime(["2020-01-01"] * 6), "n": range(6)})
    with pytest.raises(error, match=words):
        learn(table, ordered=ordered)


def test_groups_of_ordered_categories_are_named_by_their_ends():
    column = CategoricalColumn("size", pa.array(SIZES), 4, ordered=True)
    groups = np.array([0, 0, 0, 1, 2], np.uint16)
    assert group_labels(column, groups) == ["S to L", "XL", "missing"]


def test_a_group_of_a_number_is_named_by_all_its_intervals():
    column = NumericColumn("x", np.array([1.0, 2.0, 3.0]), 4)
    groups = np.array([0, 1, 0, 2, 2], np.uint16)
    assert group_labels(column, groups) == ["<= 1, (2, 3]", "(1, 2]", "> 3, missing"]


def test_short_texts_tell_cuts_apart():
    generator = np.random.default_rng(0)
    for scale in (1e-8, 1.0, 1e5, 1e12):
        cuts = np.unique(generator.normal(size=40) * scale)
        texts = show_cuts(cuts)
        assert len(set(texts)) == len(cuts)
        np.testing.assert_allclose([float(t) for t in texts], cuts, rtol=1e-3)
    near = show_cuts([1.0, np.nextafter(1.0, 2.0)])
    assert near[0] != near[1]
    assert show_cuts([1.6e9, 1.6e9 + 60], "date") == ["2020-09-13T12:26", "2020-09-13T12:27"]


@pytest.fixture(scope="module")
def ladder():
    """An effect that rises along ten values, the names of which say nothing of it."""
    generator = np.random.default_rng(1)
    names = np.array(list("qdkzmbtyhv"))
    codes = generator.integers(0, 10, 400)
    labels = (generator.random(400) < 1 / (1 + np.exp(4.5 - codes))).astype(int)
    X = pd.DataFrame({"step": names[codes], "other": generator.normal(size=400)})
    ordered = {"step": names.tolist()}
    return BayesNetClassifier(ordered=ordered).fit(X[:150], labels[:150]), X, labels, names


def test_an_ordered_category_is_smooth_and_travels(ladder, tmp_path):
    clf, X, labels, names = ladder
    plain = BayesNetClassifier().fit(X[:150], labels[:150])
    assert clf.network_.codebook.domain.n_ordered[0] == 10

    def loss(model):
        return -np.log(model.predict_proba(X[150:])[np.arange(250), labels[150:]]).mean()

    assert loss(clf) < loss(plain)
    save(clf, tmp_path / "m.tanager")
    again = load(tmp_path / "m.tanager")
    assert again.ordered == clf.ordered
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert clf.network_.table("step").values == tuple(names)
    unseen = X[:2].assign(step=["?", None])
    np.testing.assert_allclose(*clf.predict_proba(unseen.assign(other=0.0)), atol=1e-12)


@pytest.mark.parametrize("levels", [[2.5, 0.5, 1.5], [7, 1 << 60, 3]])
def test_missing_numbers_are_missing_whatever_the_order_of_the_values(levels):
    """NaN in a file is no null of Arrow, and an order may be another than ascending."""
    values = [levels[0], float("nan"), levels[2], levels[1], float("nan"), levels[0]]
    plain = pa.table({"level": np.array(values, float)})
    nulls = pa.table({"level": pa.array(np.array(values, float), from_pandas=True)})
    codebook, rows = learn(plain, ordered={"level": levels})
    assert rows.gather().codes[0].tolist() == [0, 3, 2, 1, 3, 0]
    for table in (plain, nulls, plain.slice(0, 3), plain.to_pandas()):
        expected = [0, 3, 2, 1, 3, 0][: len(table)]
        assert codebook.encode(table)[0].tolist() == expected
    with pytest.raises(DataError, match="'level' contains infinity"):
        codebook.encode(pa.table({"level": [float("inf")] * 6}))
