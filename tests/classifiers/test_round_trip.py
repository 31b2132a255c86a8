"""What fit takes, save writes and load reads: the same for every type of label and column."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.classifiers import files
from tanager.errors import ModelFileError
from tanager.network import files as network_files
from tanager.network.network import Network

N = 60
CODES = np.arange(N) % 3
NUMBERS = np.random.default_rng(1).normal(size=N) + CODES
WORDS = np.array(["low", "é", "a\0b"])[CODES]
LONG = np.array([f"c{i}" if i else "x" * 1000 for i in range(300)])
KINDS = ("i1", "i2", "i8", "u1", "u8", "f2", "f4", "f8")

LABELS = {
    "int list": CODES.tolist(),
    "bool": CODES == 1,
    "text list": ["low", "high"] * (N // 2),
    "texts": np.array(["low", "high"] * (N // 2)),
    "NUL": WORDS.tolist(),
    "objects": WORDS.astype(object),
    "bytes": np.array([b"low", b"high"] * (N // 2)),
    "bytes list": [b"low", b"high"] * (N // 2),
    "byte objects": np.array([b"low", b"high"] * (N // 2), dtype=object),
    "binary": pa.array([b"low", b"high"] * (N // 2)),
    "StringDType": np.array(["low", "high"] * (N // 2)).astype(np.dtypes.StringDType()),
    "decimals": [Decimal(2**53 + int(c)) for c in CODES],
    "past 2^53": [2**62 + int(c) for c in CODES],
    "category": pd.Series(pd.Categorical(WORDS)),
    "Int64": pd.Series(CODES, dtype="Int64"),
    "string": pd.Series(WORDS, dtype="string"),
    "boolean": pd.Series(CODES == 1, dtype="boolean"),
    "polars": pl.Series(WORDS),
    "enum": pl.Series(["low", "high"] * (N // 2), dtype=pl.Enum(["low", "high"])),
    "dictionary": pa.array(WORDS.tolist()).dictionary_encode(),
    **{f"{kind}{order}": CODES.astype(f"{order}{kind}") for kind in KINDS for order in "<>"},
    "longdouble": CODES.astype(np.longdouble),
}
DAYS = np.arange(N).astype("datetime64[D]")
COLUMNS = {
    "float": NUMBERS,
    "half": NUMBERS.astype(np.float16),
    "integer": CODES,
    "past 2^53": [2**60 + int(c) for c in CODES],
    "boolean": CODES == 1,
    "text": WORDS.tolist(),
    "bytes": [word.encode() for word in WORDS],
    "decimal": [Decimal(int(c)) / 8 for c in CODES],
    "missing": [None if c else "a" for c in CODES],
    "empty": [None] * N,
    "constant": ["a"] * N,
    "date": DAYS,
    "far date": pa.array(np.arange(N) * 10**13, pa.timestamp("s")),
    "farthest date": pa.array((np.arange(N) - 30) * (2**63 // 31), pa.timestamp("s")),
    "far duration": pa.array(np.arange(N) * 10**13, pa.duration("s")),
    "zoned": pa.array(np.arange(N), pa.timestamp("us", "Asia/Tokyo")),
    "time": [datetime.time(int(h) % 24, 5) for h in range(N)],
    "duration": [datetime.timedelta(hours=int(h)) for h in range(N)],
    "category": pd.Categorical(WORDS),
    "ordered": pd.Categorical(["S", "M", "L"] * 20, ["S", "M", "L"], ordered=True),
    "null in a dictionary": pa.DictionaryArray.from_arrays(pa.array(CODES), ["a", None, "c"]),
    "text of numbers": [f"{x:.3f}" for x in NUMBERS],
    "text of dates": [f"2026-{1 + i % 12:02d}-03" for i in range(N)],
    "names of rows": [f"row {i}" for i in range(N)],
}


def check_round_trip(clf, rows, path):
    tanager.save(clf, path)
    again = tanager.load(path)
    assert again.classes_.dtype == clf.classes_.dtype
    assert again.classes_.tolist() == clf.classes_.tolist()
    assert again.network_ == clf.network_
    assert np.array_equal(again.predict_proba(rows), clf.predict_proba(rows))
    assert again.predict(rows).tolist() == clf.predict(rows).tolist()
    assert [c.labels() for c in again.network_.codebook.columns] == [
        c.labels() for c in clf.network_.codebook.columns
    ]
    tanager.save(again, path.with_name("again"))
    assert path.with_name("again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", LABELS)
def test_labels(name, tmp_path):
    X = NUMBERS[:, None]
    clf = BayesNetClassifier("naive", "laplace").fit(X, LABELS[name])
    check_round_trip(clf, X, tmp_path / "m")
    assert 0.0 < clf.score(X, LABELS[name]) <= 1.0


@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
@pytest.mark.parametrize("categorical", ["from_dtype", "all"])
@pytest.mark.parametrize("missing", ["value", "marginalize"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name, missing, categorical, tmp_path):
    X = {"x": COLUMNS[name], "other": NUMBERS.round(1)}
    clf = BayesNetClassifier(
        "tan", "laplace", missing=missing, categorical_features=categorical, bins=3
    )
    check_round_trip(clf.fit(X, CODES), X, tmp_path / "m")


@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
@pytest.mark.parametrize("labels", [LONG, LONG.tolist(), np.arange(20_000).astype("U40")])
def test_more_than_a_mebibyte_of_classes(labels, tmp_path):
    X = np.arange(len(labels))[:, None] % 2
    clf = BayesNetClassifier("naive", "laplace").fit(X, labels)
    assert clf.classes_.dtype == object  # of one width they would take a multiple
    check_round_trip(clf, X[:5], tmp_path / "m")


def test_a_header_past_the_limit_of_safetensors(tmp_path, monkeypatch):
    X = [[f"value {i % 40} {'x' * 60}"] for i in range(N)]
    clf = BayesNetClassifier("naive", "laplace", audit=False).fit(X, CODES)
    monkeypatch.setattr(network_files, "HEAD_BYTES", 2000)
    check_round_trip(clf, X, tmp_path / "m")
    assert b'"version":"4"' in (tmp_path / "m").read_bytes()
    monkeypatch.setattr(network_files, "HEAD_BYTES", 100)
    with pytest.raises(ModelFileError, match="arrays, more than a model file can hold"):
        tanager.save(clf, tmp_path / "m")


def test_parameters_of_every_type(tmp_path):
    options = {
        "categorical_features": np.array(["a" * 2000, "b"]),
        "class_weight": {np.str_("low"): np.float32(2)},
        "ordered": {"b": ("S", "M")},
    }
    X = {"a" * 2000: CODES, "b": ["S", "M"] * (N // 2)}
    clf = BayesNetClassifier("naive", "laplace", **options).fit(X, ["low", "high"] * (N // 2))
    check_round_trip(clf, X, tmp_path / "m")
    assert tanager.load(tmp_path / "m").categorical_features.tolist() == ["a" * 2000, "b"]


def test_what_cannot_be_loaded_is_not_saved(tmp_path, monkeypatch):
    clf = BayesNetClassifier("naive", "laplace").fit(NUMBERS[:, None], CODES)
    tanager.save(clf, tmp_path / "m")
    old = (tmp_path / "m").read_bytes()

    def refuse(path):
        raise ModelFileError(f"{path}: no.")

    with monkeypatch.context() as patched:
        patched.setattr(files, "load", refuse)
        with pytest.raises(
            ModelFileError, match="m: the model wasn't saved, because it couldn't be"
        ):
            tanager.save(clf, tmp_path / "m")
    other = BayesNetClassifier("naive", "laplace").fit(NUMBERS[:, None], WORDS)
    with monkeypatch.context() as patched:
        patched.setattr(network_files, "read_model", lambda path: (other.network_, {}))
        with pytest.raises(ModelFileError, match="loading it gives other values or classes"):
            clf.network_.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert Network.load(tmp_path / "m") == clf.network_
