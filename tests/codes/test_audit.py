"""What the audit of the columns says of itself."""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.codes import audit
from tanager.codes.reading import DATE_STYLES, parse_texts
from tanager.errors import ColumnWarning
from tanager.sources import Source


def test_every_verdict_and_action_is_described():
    calls = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(audit)))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"
    ]
    said = {ast.literal_eval(word) for call in calls for word in call.args[1:3]}
    assert {"categories", "taken as categories", "left out"} < said
    described = inspect.getsource(audit.Finding)
    assert [word for word in said if f"'{word}'" not in described] == []


def judge_whole(name, values):
    table = Source.of_table(pa.table({name: values}))
    return audit.audit_columns(table, [name], [])


IDS = ["id", "ID", "Ids", "uid", "UUID", "guid", "Row", "rowid", "Row_ID", "rownum", "row_number"]
IDS += [
    "Index",
    "key",
    "customer_id",
    "CUSTOMER_ID",
    "customer id",
    "case-ID",
    "orderId",
    "orderID",
]
IDS += ["", "Unnamed: 0", "__index_level_0__", "rownames"]
OTHERS = [
    "x0",
    "paid",
    "PAID",
    "covid",
    "Android",
    "time",
    "idle",
    "id_count",
    "keys",
    "rows",
    "Idx",
]


@pytest.mark.parametrize("name", IDS)
def test_a_name_says_that_whole_numbers_are_ids(name):
    values = np.random.default_rng(0).permutation(200) * 3
    (found,) = judge_whole(name, values)
    assert (found.verdict, found.action) == ("names of rows", "left out")
    assert found.reason == "whole numbers, all different: looks like an identifier"
    assert found.reading is not None
    assert found.reading.kind == "nothing"


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_do_not(name):
    assert judge_whole(name, np.arange(200)) == []


def test_ids_are_different_whole_numbers_of_enough_rows():
    assert judge_whole("id", np.arange(49)) == []
    assert judge_whole("id", np.arange(200) // 2) == []
    assert judge_whole("id", np.arange(200.0)) == []
    assert judge_whole("id", np.minimum(np.arange(200), 198)) == []
    (found,) = judge_whole("id", pa.array([None, *range(50)], pa.uint8()))
    assert found.action == "left out"
    (found,) = judge_whole("index", np.arange(5, 20))
    assert (found.verdict, found.reason) == ("row numbers", "row numbers from 5 on")


@pytest.mark.parametrize(
    ("texts", "action"),
    [
        ([f"{i / 7:.6f}" for i in range(200)], "read as numbers"),
        ([f"{i}e-3" for i in range(200)], "read as numbers"),
        ([repr(i / 2) for i in range(200)], "read as numbers"),
        ([*map(str, range(200)), "0.5"], "read as numbers"),  # one decimal tells of all
        ([repr(i / 2) for i in range(200)] + ["nan"], "read as numbers"),
        ([*map(str, range(200))], "left out"),
        ([f"{i - 100:+d}" for i in range(200)], "left out"),
        ([repr(i / 2) for i in range(9)], None),
    ],
)
def test_decimals_are_numbers_and_whole_numbers_that_do_not_repeat_are_names(texts, action):
    found = audit.judge_texts("x", pa.array(texts), len(texts))
    assert (None if found is None else found.action) == action


@pytest.mark.parametrize(
    "texts",
    [
        [f"1.{n}" for n in range(1, 31)],  # versions: 1.1 is not 1.10
        [f"{n}E{k}" for n in range(1, 9) for k in (3, 5, 12)],
        [f"{n}E{k}" for n in range(1, 9) for k in (12, 305, 417)],  # past the range of floats
    ],
)
def test_codes_with_points_or_exponents_stay_categories(texts):
    table = pd.DataFrame({"v": texts * 10})
    y = np.arange(len(table)) % len(texts) % 2
    clf = BayesNetClassifier("naive", "laplace").fit(table, y)
    assert clf.network_.codebook.readings == {}
    assert clf.network_.codebook.columns[0].arity == len(texts)


def test_a_minus_before_zero_makes_no_code():
    texts = [*map(str, np.linspace(-1, 1, 40).round(3)), "0.0", "-0.0"]
    finding = audit.judge_texts("x", pa.array(texts), 1000)
    assert finding.action == "read as numbers"


def test_ids_that_rows_share_are_learned_from_files_and_memory_alike(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"customer_id": rng.integers(0, 3_000, 4_000), "x": rng.random(4_000)})
    table["y"] = rng.integers(0, 2, 4_000)
    table.to_parquet(tmp_path / "t.parquet")
    for given in (table, tmp_path / "t.parquet"):
        clf = BayesNetClassifier("naive", "laplace").fit(given, "y")
        assert clf.network_.codebook.readings == {}
    table["customer_id"] = rng.permutation(4_000)
    table.to_parquet(tmp_path / "u.parquet")
    for given in (table, tmp_path / "u.parquet"):
        with pytest.warns(ColumnWarning, match="customer_id"):
            clf = BayesNetClassifier("naive", "laplace").fit(given, "y")
        assert clf.network_.codebook.leaves_out("customer_id")


def test_a_row_is_coded_cell_by_cell_though_an_id_is_left_out():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"id": rng.permutation(200), "a": rng.choice(list("xyz"), 200)})
    with pytest.warns(ColumnWarning, match="id"):
        clf = BayesNetClassifier("naive", "laplace").fit(table, rng.integers(0, 2, 200))
    codebook = clf.network_.codebook
    for row in (table.iloc[[3]], [[7, "x"]], [["seven", "x"]], [[None, "q"]]):
        assert codebook.few.encode(row) is not None
    assert np.array_equal(codebook.few.encode(table.iloc[:3]), codebook.encode(table)[:, :3])


@pytest.mark.parametrize(
    ("texts", "action"),
    [
        ([str(months) for months in range(73)], "read as numbers"),
        ([f" {year} " for year in range(1950, 2000, 2)], "read as numbers"),
        ([str(n) for n in range(-30, 30)], "read as numbers"),
        ([str(n) for n in range(1, 18)], None),  # few: they may be codes
        ([str(n * 37 + 10_000) for n in range(80)], None),  # parts, postal areas
        ([f"{n:02d}" for n in range(80)], None),
        ([*map(str, range(50)), "A7"], "read as numbers"),
    ],
)
def test_whole_numbers_kept_as_text(texts, action):
    found = audit.judge_texts("x", pa.array(texts), 40 * len(texts))
    assert (None if found is None else found.action) == action


def test_counts_kept_as_text_are_no_silent_categories():
    months = np.random.default_rng(0).integers(0, 73, 3000)
    y = np.random.default_rng(1).random(3000) < months / 73
    with pytest.warns(ColumnWarning, match=r"'tenure' read as numbers \(73 whole numbers from 0"):
        clf = BayesNetClassifier("naive", "laplace").fit({"tenure": months.astype(str)}, y)
    assert clf.network_.codebook.columns[0].kind == "numeric"
    expected = BayesNetClassifier("naive", "laplace").fit({"tenure": months}, y)
    rows = {"tenure": months.astype(str)}
    assert np.array_equal(clf.predict_proba(rows), expected.predict_proba({"tenure": months}))
    kept = BayesNetClassifier("naive", "laplace", categorical_features=["tenure"]).fit(rows, y)
    assert kept.network_.codebook.columns[0].arity == 73


@pytest.mark.parametrize("style", DATE_STYLES)
def test_days_that_no_calendar_has_are_missing(style):
    form = "%Y-%m-%d" if style == "ISO" else style
    written = {
        day: form.replace("%Y", day[:4]).replace("%m", day[5:7]).replace("%d", day[8:])
        for day in ("2024-02-29", "2026-02-31", "2025-02-29", "2026-04-31", "2026-12-31")
    }
    read = parse_texts(pa.array([*written.values(), None]), "date", style).to_pylist()
    known = [None if moment is None else str(moment.date()) for moment in read]
    assert known == ["2024-02-29", None, None, None, "2026-12-31", None]
