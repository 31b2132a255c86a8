"""``tanager fit``: from tables good and bad to a model file."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tests.cli.calling import call

import tanager
from tanager.parameters import PARAMETERS


def test_fit_writes_the_model_that_the_library_would(folder):
    clf = tanager.load(folder / "m.tanager")
    table = pq.read_table(folder / "t.parquet")
    direct = tanager.BayesNetClassifier("tan", tanager.load(folder / "m.tanager").parameters)
    direct.fit(table.drop_columns(["id", "risk"]), table["risk"].to_pylist())
    rows = table.drop_columns(["id", "risk"])
    assert np.array_equal(clf.predict_proba(rows), direct.predict_proba(rows))
    assert PARAMETERS.resolve(clf.parameters).m == 1
    assert clf.verbose == 0


def test_fit_options_reach_the_estimator(folder, tmp_path, said):
    table = pq.read_table(folder / "t.parquet")
    weighted = table.append_column("w", pa.array(np.arange(600) % 3 + 1.0))
    pq.write_table(weighted.slice(0, 300), tmp_path / "a.parquet")
    pq.write_table(weighted.slice(300), tmp_path / "b.parquet")
    options = ["-s", "naive", "-p", "laplace(alpha=2)", "--missing", "marginalize", "--weight", "w"]
    options += ["--balanced", "--categorical", "age", "--drop", "id", "--json"]
    model = tmp_path / "m.tanager"
    assert (
        call(
            "fit",
            tmp_path / "a.parquet",
            tmp_path / "b.parquet",
            "-t",
            "risk",
            *options,
            "-o",
            model,
        )
        == 0
    )
    facts = json.loads(said().out)
    assert facts["selected"] == ["age", "job", "pay"]
    clf = tanager.load(model)
    assert PARAMETERS.resolve(clf.parameters).alpha == 2
    assert clf.missing == "marginalize"
    assert clf.network_.codebook.columns[0].kind == "categorical"
    direct = clf.__class__(**clf.get_params(deep=False))
    direct.fit(weighted.drop_columns(["id"]), "risk", sample_weight="w")
    rows = table.select(["age", "job", "pay"])
    assert np.allclose(clf.predict_proba(rows), direct.predict_proba(rows), rtol=1e-9)


def _csv(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b,y\n1,2,u\n1,2\n", "Row #3"),
        ("a,b,y\n", "no rows"),
        ("", "empty"),
        ("a,a,y\n1,2,u\n", "Duplicated"),
        ("a,b,z\n1,2,u\n", "'y'"),
        ("a,b,y\n1,2,\n1,3,u\n", "y"),
        (b"a,b,y\n\xff\xfe\xe9,2,u\n1,3,v\n", "is not written in utf-8"),
    ],
)
def test_bad_tables_are_1_and_leave_an_old_model_alone(tmp_path, said, content, words):
    model = tmp_path / "m"
    model.write_bytes(b"precious")
    data = _csv(tmp_path / "d.csv", content)
    assert call("fit", data, "-t", "y", "-o", model, "-s", "tan", "--force") == 1
    told = said()
    assert words in told.err
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err
    assert model.read_bytes() == b"precious"


def test_awkward_but_good_csv(tmp_path):
    rows = "".join(f'"a, {i % 3}\nb","{i % 4}",{"u" if i % 3 else "v"}\n' for i in range(60))
    data = _csv(tmp_path / "d.csv", "\ufeffodd,n,y\n" + rows)
    assert call("fit", data, "-t", "y", "-o", tmp_path / "m", "-s", "naive", "-p", "laplace") == 0
    clf = tanager.load(tmp_path / "m")
    assert list(clf.feature_names_in_) == ["odd", "n"]
    assert clf.network_.codebook.columns[0].labels()[0] == "a, 0\nb"


def test_the_order_of_categories_is_said_on_the_command_line(tmp_path, said):
    sizes = ["L", "S", "M", "S", "L", "M"] * 5
    lines = [f"{size},{'yes' if size == 'L' else 'no'}" for size in sizes]
    (tmp_path / "t.csv").write_text("\n".join(["size,y", *lines]) + "\n")
    fit = ["fit", str(tmp_path / "t.csv"), "-t", "y", "-o", str(tmp_path / "m.tanager")]
    learners = ["--force", "-s", "naive", "-p", "laplace"]
    assert call(*fit, *learners, "--ordered", "size=S,M,L") == 0
    column = tanager.load(tmp_path / "m.tanager").network_.codebook.columns[0]
    assert (column.labels(), column.n_ordered) == (["S", "M", "L"], 3)
    assert call(*fit, *learners, "--ordered", "size=S,M") == 1
    assert "'L', which aren't in its order" in said().err
    assert call(*fit, *learners, "--ordered", "size") == 2


def test_monotone_effects_are_asked_for_on_the_command_line(tmp_path, said):
    rng = np.random.default_rng(0)
    age = rng.integers(20, 60, 80)
    lines = [f"{a},{'yes' if rng.random() < 0.5 else 'no'}" for a in age]
    (tmp_path / "t.csv").write_text("\n".join(["age,y", *lines]) + "\n")
    fit = ["fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m.tanager", "--force"]
    fit.append("--monotonic")
    assert call(*fit, "age=+1") == 0
    chances = tanager.load(tmp_path / "m.tanager").predict_proba(np.arange(20.0, 60)[:, None])
    assert np.diff(chances[:, 1]).min() > -1e-12
    said()
    assert call("show", tmp_path / "m.tanager") == 0
    assert "yes rises along age" in said().out
    assert call(*fit, "age=up") == 2
    assert call(*fit, "age=maybe:+1") == 2


def test_a_thousand_columns(tmp_path):
    rng = np.random.default_rng(0)
    names = ",".join(f"c{i}" for i in range(1000))
    rows = "\n".join(
        ",".join(map(str, r)) + f",{'uv'[r[0]]}" for r in rng.integers(0, 2, (50, 1000))
    )
    data = _csv(tmp_path / "d.csv", f"{names},y\n{rows}\n")
    assert call("fit", data, "-t", "y", "-o", tmp_path / "m", "-s", "naive", "-p", "laplace") == 0
    assert call("predict", tmp_path / "m", data, "-o", tmp_path / "p.csv") == 0
    assert pacsv.read_csv(tmp_path / "p.csv").num_rows == 50
