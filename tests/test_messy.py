"""The dirt that real tables carry, and what happens to each kind of it."""

from __future__ import annotations

import gzip
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import DataConversionWarning, NotFittedError

from tanager import BayesNetClassifier, open_table
from tanager.codes import learn_codebook
from tanager.codes.columns import NumericColumn
from tanager.engines import FitContext
from tanager.errors import ColumnWarning, ConfigurationError, DataError
from tanager.network import explain_row
from tanager.sources import Source

N = 120
ROWS = np.arange(N)
DAYS = pd.date_range("2021-03-01", periods=N)
SMALL = BayesNetClassifier("naive", "laplace")

NUMBERS, DATES, LEFT_OUT, CATEGORIES = "numbers", "dates", "left out", "categories"

# Columns as a CSV file would have them: the texts, and what becomes of the column.
COLUMNS = {
    "uuid": ([f"{i * 7919 % 65536:08x}-4a5b" for i in ROWS], LEFT_OUT),
    "free text": ([f"patient {i} came in with complaint {i * 31}" for i in ROWS], LEFT_OUT),
    "e-mail": ([f"user{i}@example.org" for i in ROWS], LEFT_OUT),
    "mostly unique": ([f"n{i}" if i % 15 else "n0" for i in ROWS], LEFT_OUT),
    "iso date": (DAYS.strftime("%Y-%m-%d").tolist(), DATES),
    "iso time": (DAYS.strftime("%Y-%m-%d %H:%M:%S").tolist(), DATES),
    "iso with T and Z": (DAYS.strftime("%Y-%m-%dT%H:%M:%SZ").tolist(), DATES),
    "iso with fractions": (DAYS.strftime("%Y-%m-%d %H:%M:%S.123").tolist(), DATES),
    "iso without seconds": (DAYS.strftime("%Y-%m-%d %H:%M").tolist(), DATES),
    "slashed date": (DAYS.strftime("%Y/%m/%d").tolist(), DATES),
    "german date": (DAYS.strftime("%d.%m.%Y").tolist(), DATES),
    "british date": (DAYS.strftime("%d/%m/%Y").tolist(), DATES),
    "american date": (DAYS.strftime("%m/%d/%Y").tolist(), DATES),
    "date, one unknown": (["unknown", *DAYS.strftime("%Y-%m-%d")[1:]], DATES),
    "ambiguous date": ([f"0{1 + i % 9}/0{1 + i % 8}/2021" for i in ROWS], CATEGORIES),
    "thousands": ([f"{1000 + 37 * i:,}" for i in ROWS], NUMBERS),
    "thousands and cents": ([f"{1000 + 37.25 * i:,.2f}" for i in ROWS], NUMBERS),
    "decimal comma": ([f"{i},5" for i in ROWS], NUMBERS),
    "german number": ([f"{1 + i}.{100 + i},50" for i in ROWS], NUMBERS),
    "spaced thousands": ([f"{1 + i} {100 + i}" for i in ROWS], NUMBERS),
    "dollars": ([f"${i}.50" for i in ROWS], NUMBERS),
    "euros": ([f"{i}.50 €" for i in ROWS], NUMBERS),
    "percent": ([f"{i}%" for i in ROWS], NUMBERS),
    "age, one unknown": (["unknown", *(str(18 + i % 60) for i in ROWS[1:])], NUMBERS),
    "question marks": ([str(i) if i % 5 else "?" for i in ROWS], NUMBERS),
    "dashes for gaps": ([f"{i}.5" if i % 4 else "-" for i in ROWS], NUMBERS),
    "several strays": ([str(i) if i > 3 else f"bad{i}" for i in ROWS], NUMBERS),
    "padded numbers": ([f"  {i}.5 " for i in ROWS], NUMBERS),
    "bare decimals": ([f"{i / 8:.3f}" for i in ROWS], NUMBERS),
    "customer_id": ([str(i * 7919 % 65536) for i in ROWS], LEFT_OUT),
    "order number": ([str(i * 7919 % 65536) for i in ROWS], NUMBERS),
    "scientific": ([f"{i}e-3" for i in ROWS], NUMBERS),
    "signed": ([f"{i - 60:+d}.25" for i in ROWS], NUMBERS),
    "empty cells": ([str(i) if i % 3 else "" for i in ROWS], NUMBERS),
    "NA cells": ([str(i) if i % 3 else "NA" for i in ROWS], NUMBERS),
    "#N/A cells": ([str(i) if i % 3 else "#N/A" for i in ROWS], NUMBERS),
    "zip codes": ([f"0{1000 + i % 40}" for i in ROWS], CATEGORIES),
    "few codes, one text": ([str(i % 4) if i % 7 else "other" for i in ROWS], CATEGORIES),
    "half numbers": ([str(i) if i % 2 else f"a{i % 9}" for i in ROWS], CATEGORIES),
    "case differs": ([("Yes", "yes", "YES")[i % 3] for i in ROWS], CATEGORIES),
    "trailing spaces": ([("a", "a ")[i % 2] for i in ROWS], CATEGORIES),
    "emoji": ([("😀", "😡")[i % 2] for i in ROWS], CATEGORIES),
    "umlauts": ([("schön", "häßlich")[i % 2] for i in ROWS], CATEGORIES),
    "quotes and commas": ([('a "b", c', "d;e")[i % 2] for i in ROWS], CATEGORIES),
    "line breaks": ([("one\ntwo", "three")[i % 2] for i in ROWS], CATEGORIES),
    "constant": (["x"] * N, CATEGORIES),
    "one value dominates": (["x"] * (N - 1) + ["y"], CATEGORIES),
    "true and false": ([("true", "False")[i % 2] for i in ROWS], CATEGORIES),
    "many values": ([f"city{i % 60}" for i in ROWS], CATEGORIES),
    "": ([str(i) for i in ROWS], LEFT_OUT),  # an index written without a name
}


def fate(codebook, name):
    column = next(c for c in codebook.columns if c.name == name)
    if name in codebook.readings and codebook.readings[name].kind == "nothing":
        return LEFT_OUT
    if isinstance(column, NumericColumn):
        return DATES if column.temporal else NUMBERS
    return CATEGORIES


@pytest.fixture(scope="module")
def labels():
    return (np.random.default_rng(0).random(N) < 0.5).astype(int)


@pytest.fixture(scope="module")
def learned(labels, tmp_path_factory):
    frame = pd.DataFrame({name: values for name, (values, _) in COLUMNS.items()})
    path = tmp_path_factory.mktemp("messy") / "table.csv"
    frame.to_csv(path, index=False)
    context = FitContext()
    codebook, rows = learn_codebook(path, labels, audit=True, context=context)
    return frame, path, codebook, rows, context.info["codes"]["audit"]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_a_csv_file_becomes_what_it_is(learned, name):
    assert fate(learned[2], name) == COLUMNS[name][1]


def test_findings_name_column_action_and_reason(learned):
    findings = {f["column"]: f for f in learned[4]}
    assert findings["uuid"]["action"] == "left out"
    assert "120 different texts in 120 rows" in findings["uuid"]["reason"]
    assert findings["age, one unknown"]["reason"] == "60 numbers; 'unknown' counts as missing"
    assert findings["many values"]["action"] == "none"
    assert "2.0 rows each" in findings["many values"]["reason"]


def test_texts_are_read_as_the_numbers_and_dates_they_say(learned):
    _, _, codebook, _, _ = learned
    read = {name: codebook.readings[name].read(pa.array(COLUMNS[name][0]), name).to_pylist()
            for name in codebook.readings if codebook.readings[name].kind != "nothing"}  # fmt: skip
    assert read["thousands and cents"][1] == 1037.25
    assert read["german number"][0] == 1100.5
    assert read["decimal comma"][3] == 3.5
    assert read["spaced thousands"][2] == 3102
    assert read["dollars"][7] == 7.5
    assert read["age, one unknown"][0] is None
    for name in ("iso with T and Z", "german date", "british date", "american date"):
        assert read[name] == [day.to_pydatetime() for day in DAYS]


def test_prediction_reads_the_columns_as_training_did(learned):
    frame, path, codebook, rows, _ = learned
    trained = rows.gather().codes
    assert np.array_equal(codebook.encode(path), trained)
    # From one row to the next the guesses of a CSV reader differ; the codes do not.
    few = path.with_name("few.csv")
    frame[:3].to_csv(few, index=False)
    assert np.array_equal(codebook.encode(few), trained[:, :3])
    without = path.with_name("without.csv")
    frame[:3].drop(columns=["uuid", ""]).to_csv(without, index=False)
    assert np.array_equal(codebook.encode(without), trained[:, :3])  # what is left out may be gone


def test_the_audit_can_be_overruled(labels):
    frame = pd.DataFrame({name: COLUMNS[name][0] for name in ("uuid", "thousands")})
    context = FitContext()
    kept = learn_codebook(frame, labels, audit=True, categorical_features=["uuid"], context=context)
    assert [fate(kept[0], name) for name in frame] == [CATEGORIES, NUMBERS]
    off = learn_codebook(frame, labels, audit=False, context=context)[0]
    assert [fate(off, name) for name in frame] == [CATEGORIES, CATEGORIES]


def test_decimals_kept_as_text_are_numbers(labels):
    x = np.random.default_rng(1).normal(labels, 0.3)
    numbers = pd.DataFrame({"a": x, "b": x.round(1), "few": (x > 0.5) + 0.5})
    with pytest.warns(ColumnWarning, match=r"'a' read as numbers \(120 numbers\); 'b' read as nu"):
        clf = clone(SMALL).fit(numbers.astype(str), labels)
    assert [fate(clf.network_.codebook, name) for name in "ab"] == [NUMBERS] * 2
    assert fate(clf.network_.codebook, "few") == CATEGORIES
    again = clone(SMALL).fit(numbers[["a", "b"]], labels)
    assert clf.network_.codebook.columns[:2] == again.network_.codebook.columns
    rows = [dict(row) for row in numbers.astype(str).to_dict("records")]  # of csv.DictReader
    assert np.array_equal(clf.predict_proba(rows), clf.predict_proba(numbers.astype(str)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = clone(SMALL).set_params(categorical_features="all")
        kept.fit(numbers.astype(str), labels)
    assert fate(kept.network_.codebook, "a") == CATEGORIES


def test_a_table_of_text_is_learned_like_its_numbers():
    data = load_breast_cancer()
    half = np.arange(len(data.target)) % 2 == 0
    with pytest.warns(ColumnWarning) as said:
        clf = BayesNetClassifier("tan", "hdp").fit(data.data[half].astype(str), data.target[half])
    assert "left out" not in str(said[0].message)
    numbers = BayesNetClassifier("tan", "hdp").fit(data.data[half], data.target[half])
    assert np.array_equal(
        clf.predict_proba(data.data[~half].astype(str)), numbers.predict_proba(data.data[~half])
    )


LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("library", LIBRARIES)
def test_ids_of_whole_numbers_are_left_out(labels, library):
    x = np.random.default_rng(2).normal(labels)
    # Sorted by class, the id would tell it.
    order = np.argsort(labels)
    ids = np.empty(N, dtype=np.int64)
    ids[order] = ROWS * 3
    table = LIBRARIES[library]({"customerId": ids, "x": x})
    with pytest.warns(ColumnWarning, match="'customerId' left out .whole numbers, all different:"):
        clf = clone(SMALL).fit(table, labels)
    assert fate(clf.network_.codebook, "customerId") == LEFT_OUT
    p = clf.predict_proba(table)
    assert np.array_equal(clf.predict_proba(LIBRARIES[library]({"x": x})), p)
    texts = LIBRARIES[library]({"customerId": [f"new {i}" for i in ids], "x": x})
    assert np.array_equal(clf.predict_proba(texts), p)
    one = LIBRARIES[library]({"customerId": ids[:1], "x": x[:1]})
    assert np.array_equal(clf.predict_proba(one), p[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = clone(SMALL).set_params(categorical_features=["customerId"]).fit(table, labels)
        off = clone(SMALL).set_params(audit=False).fit(table, labels)
    assert fate(kept.network_.codebook, "customerId") == CATEGORIES
    assert fate(off.network_.codebook, "customerId") == NUMBERS


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_ids_of_files_are_left_out(labels, tmp_path, ending):
    (tmp_path / "parts").mkdir()
    for at in range(3):
        part = pd.DataFrame({"row_id": ROWS + 1000 * at, "x": labels + 0.25, "y": labels})
        path = tmp_path / "parts" / f"{at}.{ending}"
        part.to_csv(path, index=False) if ending == "csv" else part.to_parquet(path)
    table = open_table(tmp_path / "parts")
    with pytest.warns(ColumnWarning, match="'row_id' left out"):
        clf = clone(SMALL).fit(table, "y")
    assert clf.structure_.features == ("x",)
    assert clf.score(table, "y") == 1.0


def test_a_fit_warns_once_and_names_the_columns(labels):
    frame = pd.DataFrame({name: COLUMNS[name][0] for name in ("uuid", "iso date", "constant")})
    with pytest.warns(ColumnWarning) as said:
        clf = clone(SMALL).fit(frame, labels)
    assert len(said) == 1
    text = str(said[0].message)
    for word in (
        "'uuid' left out",
        "'iso date' read as dates",
        "categorical_features",
        "audit=False",
    ):
        assert word in text
    assert len(clf.info_["codes"]["audit"]) == 2
    p = clf.predict_proba(frame)
    assert np.array_equal(clf.predict_proba(frame.drop(columns="uuid")), p)  # not missed


GOOD = pd.DataFrame({"a": ["x", "y"] * 15, "b": [True, False] * 15, "n": np.arange(30.0)})
Y = ["no", "yes"] * 15


@pytest.fixture(scope="module")
def fitted():
    return clone(SMALL).fit(GOOD, Y)


@pytest.mark.parametrize(
    ("X", "kind", "said"),
    [
        (GOOD.assign(n=np.inf), DataError, "Column 'n' contains infinity"),
        (GOOD[:0], DataError, "0 sample"),
        (GOOD[[]], DataError, "0 feature"),
        (pd.concat([GOOD, GOOD], axis=1), DataError, "Duplicated column name"),
        (GOOD.assign(a=[["x"]] * 30), DataError, "Split or flatten"),
        (GOOD.assign(a=["x", 1] * 15), DataError, "mixes strings and numbers"),
        (GOOD.assign(n=1j), DataError, "Complex data not supported"),
        (GOOD["a"], DataError, "to_frame"),
        (np.zeros((30, 2, 2)), DataError, "got 3D array instead"),
        (np.arange(30), DataError, "^Expected 2D array, got 1D array instead. Reshape"),
        (None, DataError, "^X is a NoneType. Allowed: a 2-D NumPy array"),
        (pl.DataFrame({"a": [1]}).lazy(), DataError, r"Collect it first: X.collect\(\)"),
        (iter(GOOD.to_numpy().tolist()), DataError, r"Make a list of it first: list\(X\)"),
        (GOOD.assign(n=pd.arrays.SparseArray(GOOD["n"])), DataError, "Column 'n' is sparse"),
        (csr_array(np.eye(30)), TypeError, "^Sparse data.*Categories need no encoding"),
        ("no/such/file.csv", DataError, "No such file"),
        ("", DataError, "^The path is empty"),
        ({"a": ["x"], "b": 1}, DataError, "single values"),
        ({"a": ["x"], "b": [1, 2]}, DataError, "different lengths"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_in_words(X, kind, said):
    with pytest.raises(kind, match=said):
        clone(SMALL).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (None, "name of their column"),
        ([None, *Y[1:]], "first in row 0"),
        (Y[:-1], "one label per row"),
        (np.linspace(0, 1, 30), "continuous"),
        (pd.Series(DAYS[:30]), "is of the type timestamp.*Convert it first"),
        (pd.Series(pd.cut(np.arange(30), 3)), "is of the type struct<left.*Convert it first"),
        ("LABEL", "No target column 'LABEL' in the table. Its columns"),
        ("N", "No target column 'N' in the table. Did you mean 'n'[?] Its columns"),
        (pa.array(DAYS[:30]), "is of the type timestamp.*Convert it first"),
        ("nope", "No target column 'nope'"),
        (3, "one class per row, or the name of their column"),
        (np.ones((30, 2)), "one class per row, or the name of their column"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(y, said):
    with pytest.raises(ValueError, match=said):
        clone(SMALL).fit(GOOD, y)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"audit": "no"}, "audit='no'. Allowed: True or False"),
        ({"random_state": "a"}, "random_state='a' isn't valid. Allowed: a whole number from 0"),
        ({"random_state": -1}, "random_state=-1 isn't valid. Allowed: a whole number from 0"),
        ({"verbose": "yes"}, "verbose='yes' isn't valid. Allowed: 0, or 1"),
        ({"checkpoint": 3}, "checkpoint=3 isn't valid. Allowed: a folder's path"),
        ({"checkpoint": ""}, "checkpoint='' isn't valid. Allowed: a folder's path"),
        ({"checkpoint": __file__}, "Allowed: a folder that can be written (File exists)"),
        ({"bins": np.array([2, 3])}, "bins=array([2, 3]) isn't valid. Allowed: 'auto'"),
        (
            {"ordered": {"a": [["x"], ["y"]]}},
            "isn't valid. Allowed: a list of at least two different",
        ),
        (
            {"ordered": {"a": ["x", np.nan]}},
            "ordered['a']=['x', nan] isn't valid. Allowed: a list of",
        ),
        ({"dates": 3}, "dates=3 isn't valid. Allowed: names of columns"),
        ({"dates": {0: None}}, "dates={0: None} isn't valid. Allowed: names of columns"),
        ({"categorical_features": 3}, "categorical_features=3 isn't valid. Allowed: 'from_dtype'"),
        (
            {"class_weight": {"no": 0, "yes": 0}},
            "Allowed: a weight above zero for at least one class",
        ),
        ({"structure": "tann"}, "structure='tann' isn't valid. Did you mean 'tan'"),
        ({"parameters": "mestimate(m=1)"}, "Did you mean 'm-estimate'"),
        ({"parameters": "hpd"}, "Did you mean 'hdp'"),
    ],
)
def test_options_that_mean_nothing_are_refused(option, said):
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        clone(SMALL).set_params(**option).fit(GOOD, Y)


def test_a_column_of_labels_is_taken_with_one_warning():
    with pytest.warns(DataConversionWarning, match="column-vector") as said:
        assert clone(SMALL).fit(GOOD, pd.DataFrame({"y": Y})).classes_.tolist() == ["no", "yes"]
    assert len(said) == 1


def test_rows_of_a_fit_are_predicted_with_their_target():
    frame = GOOD.assign(y=Y)
    clf = clone(SMALL).fit(frame, "y")
    expected = clf.predict_proba(GOOD)
    assert np.array_equal(clf.predict_proba(frame), expected)
    assert np.array_equal(clf.predict_proba(frame[["y", "n", "b", "a"]][:2]), expected[:2])


def test_masks_are_gaps_and_structured_arrays_have_names():
    numbers = np.arange(60.0).reshape(30, 2)
    masked = np.ma.masked_array(numbers, mask=numbers % 7 == 0)
    gaps = np.where(masked.mask, np.nan, numbers)
    for X, same in ((masked, gaps), (masked.astype(int), gaps)):
        found = clone(SMALL).fit(X, Y)
        assert found.network_ == clone(SMALL).fit(same, Y).network_
        assert np.array_equal(found.predict_proba(X), found.predict_proba(same))
        assert np.array_equal(found.predict_proba(X[:2]), found.predict_proba(same[:2]))
    records = GOOD[["b", "n"]].to_records(index=False)
    assert clone(SMALL).fit(records, Y).network_ == clone(SMALL).fit(GOOD[["b", "n"]], Y).network_


def test_inputs_that_people_pass_work(fitted):
    row = {"a": "x", "b": True, "n": 1.0}
    assert fitted.predict([row]).tolist() == fitted.predict(row).tolist() == ["no"]
    assert fitted.predict({name: [value] for name, value in row.items()}).tolist() == ["no"]
    dicts = clone(SMALL).fit([row, {**row, "a": "y"}] * 15, Y)
    assert dicts.feature_names_in_.tolist() == ["a", "b", "n"]
    huge = clone(SMALL).fit([[10**30], [1]] * 15, Y)
    assert huge.predict([[10**30], [1]]).tolist() == ["no", "yes"]
    assert np.array_equal(
        fitted.predict(GOOD.assign(b=GOOD["b"].astype(str))), fitted.predict(GOOD)
    )
    assert explain_row(fitted, GOOD[:1]).target == "no"


def test_mistakes_at_prediction_are_told(fitted):
    with pytest.raises(DataError, match="lacks the column"):
        fitted.predict(GOOD.drop(columns="a"))
    with pytest.raises(DataError, match="unseen in fit: 'z'"):
        fitted.predict(GOOD.assign(z=1))
    with pytest.raises(DataError, match="Column 'b' holds numbers or booleans"):
        fitted.predict(GOOD.assign(b="yes"))
    with pytest.raises(DataError, match=r"to_frame\(\)\.T"):
        fitted.predict(GOOD.iloc[0])
    with pytest.raises(NotFittedError):
        clone(SMALL).predict(GOOD)
    with pytest.raises(AttributeError, match="counts alone, not 'layered'"):
        BayesNetClassifier().partial_fit(GOOD, Y)


@pytest.mark.parametrize("missing", ["value", "marginalize"])
@pytest.mark.parametrize("gaps", [False, True], ids=["", "gaps in training"])
@pytest.mark.parametrize(
    ("column", "values"),
    [("a", "X"), ("a", None), ("a", ["X", None] * 15), ("b", None), ("n", np.nan)],
)
def test_a_column_without_a_known_value_is_warned_of(missing, gaps, column, values):
    train = pd.concat([GOOD, pd.DataFrame(index=[30, 31])]) if gaps else GOOD
    clf = clone(SMALL).set_params(missing=missing).fit(train, (Y + Y)[: len(train)])
    said = rf"^Column\(s\) '{column}': none of the 30 rows has a value that was seen in training"
    with pytest.warns(ColumnWarning, match=said) as caught:
        clf.predict(GOOD.assign(**{column: values}))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(GOOD.assign(**{column: values})[:19])


def test_columns_missing_in_all_rows_are_warned_of_together(fitted):
    with pytest.warns(ColumnWarning, match=r"^Column\(s\) 'a', 'n': none of the 30 rows"):
        fitted.predict(GOOD.assign(a=None, n=np.nan))
    with pytest.warns(ColumnWarning, match="'x0': none of the 40 rows"):
        clone(SMALL).fit(np.c_[np.arange(40.0), np.arange(40) % 3], Y + Y[:10]).predict(
            np.c_[np.full(40, np.nan), np.zeros(40)]
        )


def test_columns_that_the_model_does_not_read_are_not_warned_of():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    frame = pd.DataFrame({"id": rng.permutation(200), "gone": np.nan, "x": y + 0.5})
    frame["noise"] = rng.choice(["a", "b"], 200)
    with pytest.warns(ColumnWarning, match="'id' left out"):
        clf = BayesNetClassifier("skdb", "laplace").fit(frame, y)
    assert clf.structure_.features == ("x",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = clf.predict_proba(frame.assign(id=np.nan, noise="c"))
    assert np.array_equal(p, clf.predict_proba(frame))


@pytest.mark.parametrize("n", [2, 30])
def test_codes_kept_as_text_may_come_back_as_whole_floats(n):
    codes = pd.DataFrame({"code": ["1", "2", None] * 10})
    clf = clone(SMALL).fit(codes, ["a", "b", "c"] * 10)
    expected = clf.predict_proba(codes)[:n]
    floats = codes.astype(float)[:n]
    assert np.array_equal(clf.predict_proba(floats), expected)
    assert np.array_equal(
        clf.predict_proba(pa.table({"code": floats["code"].to_numpy()})), expected
    )
    for bad in (1.5, np.inf, 2.0**60):
        with pytest.raises(DataError, match="'code' holds text in the model and has the type doub"):
            clf.predict(pd.DataFrame({"code": [bad, *floats["code"]]}))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_one_class_is_warned_of_at_the_line_that_fits(method):
    with pytest.warns(ColumnWarning, match="one class only, 'no'") as said:
        getattr(clone(SMALL), method)(GOOD, ["no"] * 30)
    assert said[0].filename == __file__


def test_columns_that_are_absent_are_summed_out_where_missing_is():
    clf = BayesNetClassifier("tan", "laplace", missing="marginalize").fit(GOOD, Y)
    gone = clf.predict_proba(GOOD.drop(columns="a"))  # meant, and not warned of
    unknown = GOOD.assign(a=pd.Series([None] * 30, dtype=object))
    with pytest.warns(ColumnWarning, match="'a': none of the 30 rows"):
        assert np.array_equal(gone, clf.predict_proba(unknown))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,label\n", "no rows"),
        ("a,label\nx,no\ny\n", "Row #3: Expected 2 columns, got 1: y"),
        ("a,a\nx,no\n", "Duplicated column name"),
        ("\n \n", "is empty"),
        ("\n\na,label\nx,no\ny\n", "Expected 2 columns, got 1: y"),
        ("\n\r\na,label\nx,no\ny,yes\n", None),
        ("a;label\nx;no\ny;yes\n", None),
        ("a\tlabel\nx\tno\ny\tyes\n", None),
        ("\ufeffa,label\nx,no\ny,yes\n", None),
        ("a,label\r\nx,no\r\ny,yes\r\n", None),
        ('a,label\n"x, y",no\n"z",yes\n', None),
        ("a,label\nx,no\ny,yes", None),
    ],
    ids=["empty", "header only", "ragged", "twice", "blank", "blank lines and ragged",
         "blank lines first", "semicolons", "tabs", "byte order mark",
         "windows line ends", "quoted commas", "no last newline"],
)  # fmt: skip
def test_csv_files_of_all_sorts(tmp_path, text, said):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    if said is not None:
        with pytest.raises(DataError, match=said):
            clone(SMALL).fit(path, "label")
        return
    clf = clone(SMALL).fit(path, "label")
    assert clf.feature_names_in_.tolist() == ["a"]
    assert clf.score(path, "label") == 1.0


def test_packed_and_damaged_files(tmp_path):
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(b"a,label\nx,no\ny,yes\n"))
    assert clone(SMALL).fit(packed, "label").classes_.tolist() == ["no", "yes"]
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(DataError, match=r"unpacked|damaged"):
        clone(SMALL).fit(packed, "label")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="cannot be read"):
        clone(SMALL).fit(tmp_path / "bad.parquet", "label")


def test_sixty_kinds_are_here():
    kinds = len(COLUMNS) + 13 + 5 + 10 + 3 + 7 + 6
    assert kinds >= 60


def test_a_clean_table_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(SMALL).fit(GOOD, Y).predict(GOOD)


def test_what_is_left_out_is_no_part_of_the_network(labels):
    rng = np.random.default_rng(0)
    names = [f"id{i}" for i in rng.permutation(len(labels))]
    table = {"id": names, "x": rng.normal(size=len(labels)), "z": rng.integers(0, 3, len(labels))}
    for pair in (("tan", "hdp"), ("auto", "layered")):
        with pytest.warns(ColumnWarning, match="'id' left out"):
            clf = BayesNetClassifier(*pair).fit(table, labels)
        assert clf.structure_.features == ("x", "z")
        assert clf.feature_importances_[0] == 0.0


def test_a_target_that_names_the_rows_is_warned_of():
    with pytest.warns(ColumnWarning, match="has 30 classes in 40 rows"):
        BayesNetClassifier("naive", "laplace").fit({"a": ["x", "y"] * 20}, [*range(30), *range(10)])


@pytest.mark.parametrize("library", [pd, pl])
def test_a_target_that_is_still_a_column_is_warned_of(library):
    table = library.DataFrame({"a": ["x", "y"] * 20, "sold": ["no", "no", "yes", "yes"] * 10})
    with pytest.warns(ColumnWarning, match="'sold' of the table is the target itself.*Drop it"):
        clone(SMALL).fit(table, table["sold"])
    clone(SMALL).fit(table, "sold")
    clone(SMALL).fit(table[1:], table["sold"][:-1])  # the row before: another thing


def test_complex_numbers_are_refused_in_one_line(fitted):
    with pytest.raises(DataError, match=r"^X: Complex data not supported\. Pass the real"):
        fitted.predict(np.ones((3, 2)) * 1j)


def test_spellings_of_one_text_are_told_and_stay_apart():
    from tanager.codes.audit import describe_columns

    table = pa.table({"a": ["yes", "Yes", " YES ", "no"] * 5, "y": ["up", "Up", "down", "up"] * 5})
    sheets = {sheet.column: sheet for sheet in describe_columns(Source.of_table(table), "y")}
    assert sheets["a"].action == "taken as it is"
    said = "' YES ' and 'Yes' and 'yes' differ in case or spaces alone: they stay different values"
    assert sheets["a"].reason == said
    assert sheets["y"].action == "the target"
    assert "'Up' and 'up' differ" in sheets["y"].reason
