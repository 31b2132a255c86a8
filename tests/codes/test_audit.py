"""What the audit of the columns says of itself."""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pyarrow as pa
import pytest

from tanager.codes import audit
from tanager.sources import TableSource


def test_every_verdict_and_action_is_described():
    calls = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(audit)))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"
    ]
    said = {ast.literal_eval(word) for call in calls for word in call.args[1:3]}
    assert {"categories", "taken as categories", "left out"} < said
    described = inspect.getdoc(audit.Finding)
    assert [word for word in said if f"'{word}'" not in described] == []


def judge_whole(name, values):
    table = TableSource(pa.table({name: values}))
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
    assert found.reason == "whole numbers, all different: they name the rows"
    assert found.reading is not None
    assert found.reading.kind == "nothing"


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_do_not(name):
    assert judge_whole(name, np.arange(200)) == []


def test_ids_are_nearly_all_different_whole_numbers_of_enough_rows():
    assert judge_whole("id", np.arange(49)) == []
    assert judge_whole("id", np.arange(200) // 2) == []
    assert judge_whole("id", np.arange(200.0)) == []
    (found,) = judge_whole("id", np.minimum(np.arange(200), 189))
    assert found.reason == "whole numbers, 190 different ones in 200 rows: they name the rows"
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
def test_decimals_are_numbers_and_whole_numbers_kept_as_text_are_codes(texts, action):
    found = audit.judge_texts("x", pa.array(texts), len(texts))
    assert (None if found is None else found.action) == action
