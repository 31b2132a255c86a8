"""Categories of more values than codes: the most frequent keep theirs, the rest share one."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.codes import Codebook, learn_codebook
from tanager.codes.rows import MAX_ARITY
from tanager.codes.seeing import OTHERS
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ColumnWarning, DataError


@pytest.fixture
def few_codes(monkeypatch):
    """Columns have five codes at most."""
    for module in ("learning", "seeing", "values"):
        monkeypatch.setattr(f"tanager.codes.{module}.MAX_ARITY", 5)


def learn(X, y, **options):
    context = FitContext(engine=LocalEngine(options.pop("n_jobs", None)))
    codebook, rows = learn_codebook(X, y, context=context, **options)
    return codebook, rows.gather(), context.record("codes").get("audit")


def letters(text, **more):
    return {"c": list(text), **more}, [i % 2 for i in range(len(text))]


def test_the_most_frequent_values_keep_their_codes(few_codes):
    X, y = letters("aaaabbbbbccdddeffgh")
    codebook, chunk, audit = learn(X, y)
    column = codebook.columns[0]
    assert column.values.to_pylist() == [OTHERS, "a", "b", "c", "d"]
    assert column.other_code == 0
    assert column.labels()[0] == OTHERS
    assert chunk.codes[0].tolist() == [1] * 4 + [2] * 5 + [3] * 2 + [4] * 3 + [0] * 5
    assert audit == [
        {
            "column": "c",
            "verdict": "many values",
            "action": "pooled",
            "reason": "8 different values: the 4 rarest share one code",
        }
    ]


def test_a_value_of_one_row_keeps_no_code(few_codes):
    X, y = letters("aabbcdefgh")
    column = learn(X, y)[0].columns[0]
    assert column.values.to_pylist() == [OTHERS, "a", "b"]


def test_values_of_one_row_each_share_a_code_and_are_not_missing(few_codes):
    X, y = letters("abcdefgh")
    X["c"][3] = None
    codebook, chunk, _ = learn(X, y)
    assert codebook.columns[0].labels() == [OTHERS, "missing"]
    assert chunk.codes[0].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert codebook.encode([{"c": "never"}, {"c": None}]).tolist() == [[0, 1]]


def test_values_never_seen_are_others_in_every_way_to_code_rows(few_codes):
    X, y = letters("aabbccddeeffgg" * 3)
    codebook, _, _ = learn(X, y)
    rows = [{"c": value} for value in ("a", "g", "never", None, "äü")]
    assert codebook.encode(rows).tolist() == [[1, 0, 0, 5, 0]]
    assert [codebook.few.encode([row])[0, 0] for row in rows] == [1, 0, 0, 5, 0]
    assert codebook.encode(pa.table({"c": pa.array(["a", "x"]).dictionary_encode()})).tolist() == [
        [1, 0]
    ]


def test_missing_has_a_code_of_its_own(few_codes):
    X, y = letters("aaabbbccddeeffgg")
    X["c"][2] = None
    codebook, chunk, _ = learn(X, y)
    column = codebook.columns[0]
    assert column.labels() == [OTHERS, "a", "b", "c", "missing"]
    assert column.missing_code == 4
    assert chunk.codes[0, :7].tolist() == [1, 1, 4, 2, 2, 2, 3]


def test_weights_count(few_codes):
    X, y = letters("abcdefgh")
    weights = [1, 1, 1, 9, 8, 7, 6, 1]
    column = learn(X, y, sample_weight=weights)[0].columns[0]
    assert column.values.to_pylist() == [OTHERS, "d", "e", "f", "g"]


@pytest.mark.parametrize("weight", [0.5, 0.3])
def test_fractions_of_rows_are_not_taken_for_rows(few_codes, weight):
    X, y = letters("aabbccdefgh")
    column = learn(X, y, sample_weight=[weight] * 11)[0].columns[0]
    assert column.values.to_pylist() == [OTHERS, "a", "b", "c", "d"]


def test_whole_numbers_become_texts(few_codes):
    numbers = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
    y = [i % 2 for i in range(11)]
    codebook, chunk, _ = learn({"c": numbers}, y, categorical_features="all")
    assert codebook.columns[0].values.to_pylist() == [OTHERS, "1", "2", "3", "4"]
    assert chunk.codes[0].tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 0, 0, 0]
    assert codebook.encode({"c": [1.0, 4.0, 77.0]}).tolist() == [[1, 4, 0]]
    assert codebook.encode(np.array([[2], [9]])).tolist() == [[2, 0]]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.uint64(), pa.int8()])
@pytest.mark.parametrize("coded", [False, True])
def test_any_type_of_texts_and_whole_numbers_is_pooled(few_codes, kind, coded):
    column = pa.array(list("1122334455667")).cast(kind)
    table = pa.table({"c": column.dictionary_encode() if coded else column})
    codebook, chunk, _ = learn(table, [0, 1] * 6 + [0], categorical_features="all")
    assert codebook.columns[0].values.to_pylist() == [OTHERS, "1", "2", "3", "4"]
    assert chunk.codes[0].tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (pa.array([i / 3 for i in range(8)]), {"categorical_features": "all"}),
        (pa.array(list("abcdefgh")), {"ordered": {"c": list("abcdefgh")}}),
    ],
)
def test_what_cannot_be_pooled_is_refused(few_codes, column, options):
    with pytest.raises(DataError, match=r"'c' has more than .* distinct values"):
        learn(pa.table({"c": column}), [0, 1] * 4, **options)


def test_a_value_with_the_name_of_the_others(few_codes):
    X, y = letters("aabbccddeeff")
    X["c"][:2] = [OTHERS] * 2
    column = learn(X, y)[0].columns[0]
    assert column.values.to_pylist() == [OTHERS, OTHERS + " ", "b", "c", "d"]
    assert column.other_code == 1


def big_table(n=200_000):
    rng = np.random.default_rng(0)
    c = np.where(rng.random(n) < 0.5, rng.integers(0, 300_000, n), rng.integers(0, 1_000, n))
    x = rng.normal(size=n)
    y = (rng.random(n) < np.where(c % 2, 0.8, 0.2)).astype(int)
    return pa.table({"c": [f"v{i}" for i in c], "x": x}), y


def test_files_threads_and_memory_give_the_same_codes(tmp_path):
    table, y = big_table()
    codebook, chunk, _ = learn(table, y)
    assert codebook.columns[0].other_code is not None
    assert 1_000 < codebook.domain.arities[0] <= MAX_ARITY
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=20_000)
    other, others_chunk, _ = learn(path, y, n_jobs=2)
    assert other == codebook
    assert np.array_equal(other.encode(path), chunk.codes)
    assert np.array_equal(others_chunk.codes, chunk.codes)


def test_a_fit_with_more_values_than_codes_is_saved_and_learns(tmp_path):
    table, y = big_table()
    with pytest.warns(ColumnWarning, match=r"'c' pooled .* rarest share one code"):
        clf = BayesNetClassifier("naive", "m-estimate", audit=False).fit(table, y)
    found = clf.predict_proba(table)
    column = clf.network_.codebook.columns[0]
    kept = clf.network_.codebook.encode(table)[0] != column.other_code
    assert 0.5 < kept.mean() < 0.9
    assert (found.argmax(axis=1) == y)[kept].mean() > 0.75
    tanager.save(clf, tmp_path / "m.tanager")
    again = tanager.load(tmp_path / "m.tanager")
    assert np.array_equal(again.predict_proba(table), found)
    codebook = again.network_.codebook
    assert Codebook.from_dict(codebook.to_dict()) == codebook
