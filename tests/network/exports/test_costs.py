"""Decisions of exported models, made by DuckDB, SQLite, PostgreSQL, onnxruntime, node and C."""

import json
import sqlite3

import duckdb
import numpy as np
import pytest

from tanager.errors import ConfigurationError
from tests.network.exports.cases import NASTY, all_cases, nasty_case
from tests.network.exports.test_c import c_rows, compile_and_run, needs_compiler
from tests.network.exports.test_javascript import needs_node, plain_rows, run_node
from tests.network.exports.test_sql import server, with_key  # noqa: F401  (a fixture)

ATOL = 1e-9


def costs_of(network, names=NASTY):
    """Costs by random, two actions that cost the same and one that costs alike for all classes."""
    rng = np.random.default_rng(len(network.codebook.classes))
    labels = network.codebook.classes.tolist()
    rows = [dict(zip(labels, rng.normal(5, 5, len(labels)), strict=True)) for _ in names[:3]]
    return {**dict(zip(names, [*rows, rows[0]], strict=False)), names[4]: 1.5}


@pytest.fixture(scope="module")
def cases():
    every = [*all_cases("tan", "hdp")[:6], *all_cases("2-tree", "hdp")[6:9], nasty_case()]
    return [(case, costs_of(case.network)) for case in every]


def check_decisions(case, costs, actions, expected):
    wanted = case.network.decide(case.rows, costs)
    np.testing.assert_allclose(np.array(expected, float), wanted.expected_costs, atol=ATOL * 10)
    assert list(actions) == wanted.actions.tolist(), case.name


def test_duckdb_decides_as_python_does(cases):
    decided = set()
    for case, costs in cases:
        rows = with_key(case)
        connection = duckdb.connect(config={"threads": 1})
        statement = case.network.to_sql(keep=["row key"], costs=costs)
        found = connection.execute(statement)
        names = [column[0] for column in found.description]
        n_classes = len(case.network.codebook.classes)
        assert names[1 + n_classes] == "decision"
        answers = sorted(found.fetchall())
        actions = [row[1 + n_classes] for row in answers]
        check_decisions(case, costs, actions, [row[2 + n_classes :] for row in answers])
        decided |= set(actions)
        assert rows.num_rows == len(answers)
    assert len(decided) > 2


def test_onnxruntime_decides_as_python_does(cases):
    onnx_tests = pytest.importorskip("tests.network.exports.test_onnx")
    for case, costs in cases:
        model = case.network.to_onnx(costs=costs)
        _, _, actions, expected = onnx_tests.run(model, case.rows)
        check_decisions(case, costs, actions.tolist(), expected)


def test_sqlite_decides_as_python_does(cases):
    for case, costs in cases:
        connection = sqlite3.connect(":memory:")
        rows = with_key(case)
        quoted = ['"' + name.replace('"', '""') + '"' for name in rows.column_names]
        connection.execute(f"CREATE TABLE rows ({', '.join(quoted)})")
        marks = ", ".join("?" for _ in quoted)
        cells = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        connection.executemany(f"INSERT INTO rows VALUES ({marks})", cells)
        statement = case.network.to_sql(dialect="sqlite", keep=["row key"], costs=costs)
        answers = sorted(connection.execute(statement).fetchall())
        at = 1 + len(case.network.codebook.classes)
        check_decisions(case, costs, [row[at] for row in answers], [r[at + 1 :] for r in answers])
        connection.close()


def test_postgres_decides_as_python_does(cases, server):  # noqa: F811
    for case, costs in cases[:-1:3]:
        statement = case.network.to_sql(dialect="postgres", keep=["row key"], costs=costs)
        answers = sorted(server.query(with_key(case), statement), key=lambda row: int(row[0]))
        at = 1 + len(case.network.codebook.classes)
        check_decisions(case, costs, [row[at] for row in answers], [r[at + 1 :] for r in answers])


def test_one_action_and_rows_that_cannot_be_scored():
    case = all_cases("tan", "hdp")[0]
    labels = case.network.codebook.classes.tolist()
    statement = case.network.to_sql(costs={"go": dict.fromkeys(labels, 2)}, unknowns=False)
    rows = case.rows  # noqa: F841  (found by its name)
    found = duckdb.connect().execute(statement).fetchall()
    answers = {row[-2:] for row in found}
    assert answers <= {("go", 2.0), (None, None)}
    with pytest.raises(ConfigurationError, match="lacks the class"):
        case.network.to_sql(costs={"go": {labels[0]: 1}})


@needs_node
def test_node_decides_as_python_does(cases, tmp_path):
    program = """
    const fs = require("fs");
    const out = process.argv.slice(1).map((path) => {
      const model = require(path + "/model.js");
      const rows = JSON.parse(fs.readFileSync(path + "/rows.json", "utf8"));
      return rows.map((row) => model.decide(row));
    });
    console.log(JSON.stringify(out));
    """
    folders = []
    for at, (case, costs) in enumerate(cases):
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "model.js").write_text(case.network.to_javascript(costs=costs), "utf-8")
        (folder / "rows.json").write_text(json.dumps(plain_rows(case.rows)), "utf-8")
        folders.append(folder)
    for (case, costs), found in zip(cases, run_node(program, *folders), strict=True):
        check_decisions(
            case, costs, [one["action"] for one in found], [one["expected"] for one in found]
        )
        wanted = case.network.decide(case.rows, costs).margin
        np.testing.assert_allclose([one["margin"] for one in found], wanted, atol=ATOL * 10)


@needs_node
def test_node_says_what_a_question_is_worth_as_python_does(cases, tmp_path):
    program = """
    const model = require(process.argv[1]), codes = model.features.map((f) => f.arity);
    JSON.parse(process.argv[2]).forEach((code, i) => { if (code !== null) codes[i] = code; });
    const each = (costs) => model.features.map((f, i) => model.gain(codes, i, costs));
    console.log(JSON.stringify([each(model.costs), each()]));
    """
    for case, costs in cases[::3]:
        network = case.network
        path = tmp_path / f"{len(case.name)}.js"
        path.write_text(network.to_javascript(costs=costs), "utf-8")
        first = network.structure.selected[0]
        row = {network.structure.names[first]: None}
        names = [network.structure.names[f] for f in network.structure.selected]
        missing = network.codebook.columns[first].missing_code
        found = run_node(program, path, json.dumps([missing, *[None] * (len(names) - 1)]))
        for gains, given in zip(found, (costs, None), strict=True):
            wanted = {q.feature: q.gain for q in network.next_question(row, given).questions}
            varied = sum(network.codebook.columns[f].arity > 1 for f in network.structure.selected)
            assert len(wanted) >= varied - 1
            for name, gain in zip(names, gains, strict=True):
                if name in wanted:
                    assert gain == pytest.approx(wanted[name], abs=1e-8), case.name


@needs_compiler
def test_c_decides_as_python_does(cases, tmp_path):
    source = ["#include <stdio.h>"]
    for at, (case, costs) in enumerate(cases):
        name = f"m{at}"
        source.append(case.network.to_c(name=name, costs=costs))
        source.append(
            f"""
static void run_{name}(void)
{{
    static const {name}_row rows[] = {{{c_rows(case)}}};
    int r, a;
    for (r = 0; r < (int)(sizeof rows / sizeof rows[0]); r++) {{
        double expected[{name}_N_ACTIONS];
        a = {name}_decide(&rows[r], expected);
        printf("%d %d", a, (int)(a >= 0 && {name}_actions[a][0] != 0));
        for (a = 0; a < {name}_N_ACTIONS; a++)
            printf(" %.17g", expected[a]);
        printf("\\n");
    }}
}}"""
        )
    calls = " ".join(f"run_m{at}();" for at in range(len(cases)))
    source.append(f"int main(void) {{ {calls} return 0; }}")
    lines = iter(compile_and_run(tmp_path, "\n".join(source)))
    for case, costs in cases:
        found = [next(lines).split() for _ in range(case.rows.num_rows)]
        actions = [list(costs)[int(parts[0])] for parts in found]
        check_decisions(case, costs, actions, [parts[2:] for parts in found])
