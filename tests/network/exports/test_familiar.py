"""What exports say of familiar and strange rows, beside what the network says."""

import json
import shutil
import subprocess

import duckdb
import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.network import Network
from tanager.parameters import Tables
from tests.network.exports.test_javascript import needs_node, plain_rows, run_node
from tests.network.test_drift import changed, churn

LEARNERS = [("tan", "hdp"), ("auto", "layered"), ("naive", "laplace")]


@pytest.fixture(scope="module", params=LEARNERS, ids=lambda pair: pair[1])
def model(request):
    X, y = churn(1500, 0)
    clf = BayesNetClassifier(*request.param, missing="marginalize", random_state=0)
    clf.fit(X.slice(0, 1200), y[:1200])
    rows = X.slice(1200)
    contract = ["two YEARS" if at == 3 else v for at, v in enumerate(rows["Contract"].to_pylist())]
    charges = rows["MonthlyCharges"].to_numpy().copy()
    charges[4], charges[5], charges[6] = 7000.0, 1.0, np.nan
    rows = changed(changed(rows, "Contract", contract), "MonthlyCharges", charges)
    return clf, rows


@needs_node
def test_javascript(model, tmp_path):
    clf, rows = model
    (tmp_path / "model.js").write_text(clf.network_.to_javascript())
    (tmp_path / "rows.json").write_text(json.dumps(plain_rows(rows)))
    ask = """
    const path = process.argv[1], model = require(path + "/model.js");
    const rows = JSON.parse(require("fs").readFileSync(path + "/rows.json", "utf8"));
    console.log(JSON.stringify(rows.map((r) =>
      [model.logProbability(r), model.familiarity(r), model.surprise(r)])));
    """
    logs, shares, parts = zip(*run_node(ask, tmp_path), strict=True)
    assert np.array(logs) == pytest.approx(clf.score_samples(rows), abs=1e-9)
    assert np.array(shares) == pytest.approx(clf.familiarity(rows), abs=1e-9)
    read = [f["name"] for f in json.loads(clf.network_.to_json())["features"]]
    kept = [rows.column_names.index(name) for name in read]
    assert np.array(parts) == pytest.approx(clf.surprise(rows)[:, kept], abs=1e-8)


def test_onnx(model):
    onnx_tests = pytest.importorskip("tests.network.exports.test_onnx")
    clf, rows = model
    found = onnx_tests.run(clf.network_.to_onnx(log_probability=True), rows)[-1]
    assert found == pytest.approx(clf.score_samples(rows), abs=1e-9)
    network = clf.network_
    scores = Tables(network.log_prior, network.tables.families, normalized=False)
    with pytest.raises(ConfigurationError, match="scores"):
        Network(network.codebook, network.structure, scores).to_onnx(log_probability=True)


@pytest.mark.parametrize("contributions", [False, True])
def test_sql(model, contributions):
    clf, rows = model
    statement = clf.network_.to_sql(
        table="rows",
        keep="tenure",
        log_probability=True,
        contributions=contributions,
        unknowns=False,
    )
    found = duckdb.sql(statement).fetchnumpy()
    logs = np.ma.filled(np.ma.asarray(found["log_probability"]), np.nan)
    known = ~np.isnan(logs)
    assert known.sum() > 200
    # The engine may give rows in any order.
    assert np.sort(logs[known]) == pytest.approx(np.sort(clf.score_samples(rows)[known]), abs=1e-9)
    plain = duckdb.sql(
        clf.network_.to_sql(table="rows", keep="tenure", unknowns=False)
    ).fetchnumpy()
    assert np.asarray(plain["p_Yes"]) == pytest.approx(np.asarray(found["p_Yes"]), nan_ok=True)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_c(model, tmp_path):
    clf, rows = model
    (tmp_path / "model.h").write_text(clf.network_.to_c(name="m"))
    fields = clf.network_.structure.features
    body = []
    for row in rows.slice(0, 40).to_pylist():
        parts = []
        for name in fields:
            value = row[name]
            text = name in ("Contract", "Partner")
            gone = value is None or value != value
            missing = "NULL" if text else "NAN"
            shown = missing if gone else json.dumps(value) if text else repr(float(value))
            parts.append(f".x_{name} = {shown}")
        body.append(
            f'{{m_row r = {{{", ".join(parts)}}}; printf("%.17g\\n", m_log_probability(&r));}}'
        )
    program = (
        f'#include <stdio.h>\n#include "model.h"\nint main(void) {{ {" ".join(body)} return 0; }}'
    )
    (tmp_path / "main.c").write_text(program)
    command = ["cc", "-std=c99", "-Wno-unused-function", "main.c", "-o", "a", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run([tmp_path / "a"], capture_output=True, text=True, check=True)
    found = np.array([float(line) for line in done.stdout.split()])
    assert found == pytest.approx(clf.score_samples(rows.slice(0, 40)), abs=1e-9)
