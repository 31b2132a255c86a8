"""The program as people run it: its commands, its exit codes, what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import tanager
from tanager.cli.app import run
from tanager.parameters import resolve_parameters


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table in three formats and a model."""
    folder = tmp_path_factory.mktemp("program")
    rng = np.random.default_rng(5)
    n = 600
    age = rng.integers(18, 80, n)
    job = rng.choice(["clerk", "smith, jr", 'the "boss"', "zoë\nline"], n)
    pay = np.where(rng.random(n) < 0.2, np.nan, age * 2.0 + rng.normal(0, 20, n))
    bad = (age + 20 * (job == "clerk") + rng.normal(0, 9, n)) > 60
    table = pa.table(
        {
            "id": np.arange(n),
            "age": age,
            "job": job,
            "pay": pa.array(pay, from_pandas=True),
            "risk": np.where(bad, "high", "low"),
        }
    )
    pq.write_table(table, folder / "t.parquet")
    pacsv.write_csv(table, folder / "t.csv")
    feather.write_feather(table, folder / "t.feather", compression="uncompressed")
    learners = ["-s", "tan", "-p", "m-estimate(m=1)"]
    model = folder / "m.tanager"
    assert (
        call("fit", folder / "t.parquet", "-t", "risk", "--drop", "id", *learners, "-o", model) == 0
    )
    return folder


def call(*arguments):
    return run([str(argument) for argument in arguments])


@pytest.fixture
def said(capsys):
    capsys.readouterr()
    return lambda: capsys.readouterr()


def test_fit_writes_the_model_that_the_library_would(folder):
    clf = tanager.load(folder / "m.tanager")
    table = pq.read_table(folder / "t.parquet")
    direct = tanager.BayesNetClassifier("tan", tanager.load(folder / "m.tanager").parameters)
    direct.fit(table.drop_columns(["id", "risk"]), table["risk"].to_pylist())
    rows = table.drop_columns(["id", "risk"])
    assert np.array_equal(clf.predict_proba(rows), direct.predict_proba(rows))
    assert resolve_parameters(clf.parameters).m == 1
    assert clf.verbose == 0


@pytest.mark.parametrize("source", ["t.parquet", "t.csv", "t.feather"])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_predict_streams_any_format_to_any(folder, tmp_path, source, ending):
    out = tmp_path / f"p.{ending}"
    assert call("predict", folder / "m.tanager", folder / source, "--keep", "id", "-o", out) == 0
    read = {"parquet": pq.read_table, "arrow": feather.read_table, "csv": pacsv.read_csv}
    table = read[ending](out)
    assert table.column_names == ["id", "prediction", "p_high", "p_low"]
    clf = tanager.load(folder / "m.tanager")
    rows = pq.read_table(folder / "t.parquet").drop_columns(["id", "risk"])
    expected = clf.predict_proba(rows)
    assert np.allclose(table["p_high"].to_numpy(), expected[:, 0], rtol=1e-12)
    assert [str(v) for v in table["prediction"].to_pylist()] == clf.predict(rows).tolist()
    assert table["id"].to_pylist() == list(range(600))


def test_predict_without_output_prints_csv(folder, capfdbinary):
    assert call("predict", folder / "m.tanager", folder / "t.csv", "--ignore-extra") == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0] == '"prediction","p_high","p_low"' or lines[0] == "prediction,p_high,p_low"
    assert len(lines) == 601


def test_predict_with_threads_is_the_same(folder, tmp_path):
    for jobs in (1, 3):
        out = tmp_path / f"{jobs}.parquet"
        arguments = ["--ignore-extra", "-j", jobs, "-o", out, "--keep", "all"]
        assert call("predict", folder / "m.tanager", folder / "t.parquet", *arguments) == 0
    assert pq.read_table(tmp_path / "1.parquet").equals(pq.read_table(tmp_path / "3.parquet"))


def test_codes_that_look_like_numbers_are_predicted_as_the_text_they_were(tmp_path, said):
    train, new, scored = (tmp_path / name for name in ("train.csv", "new.csv", "scored.csv"))
    train.write_text("code,y\n" + "01,u\nAB,v\n" * 30)
    model = tmp_path / "m.tanager"
    assert call("fit", train, "-t", "y", "-s", "naive", "-p", "laplace", "-o", model) == 0
    new.write_text("code\n" + "01\n" * 10)
    assert call("predict", model, new, "--keep", "code", "-o", scored) == 0
    row = scored.read_text().replace('"', "").splitlines()[1].split(",")
    assert row[:2] == ["01", "u"]
    assert float(row[2]) > 0.9
    said()
    assert call("explain", model, new, "--row", 2, "--json") == 0
    assert json.loads(said().out)["probabilities"]["u"] == pytest.approx(float(row[2]))


def test_show_as_text_and_json(folder, said):
    assert call("show", folder / "m.tanager") == 0
    text = said().out
    assert "tan: 3 of 3 features, 2 edges" in text
    assert "age" in text
    assert "risk: high" in text
    assert call("show", folder / "m.tanager", "--json", "--table", "age") == 0
    facts = json.loads(said().out)
    assert facts["n_edges"] == 2
    assert set(facts["information"]) == {"age", "job", "pay"}
    assert np.allclose(np.sum(facts["tables"][0]["probabilities"], axis=1), 1)
    assert call("show", folder / "m.tanager", "--table", "age") == 0
    assert said().out.startswith("P(age | class")


def test_explain_adds_up(folder, said):
    model, data = folder / "m.tanager", folder / "t.parquet"
    assert call("explain", model, data, "--row", 4, "--json") == 0
    told = json.loads(said().out)
    total = told["prior_log_odds"] + sum(c["log_odds"] for c in told["contributions"])
    assert total == pytest.approx(told["posterior_log_odds"])
    p = told["probabilities"]
    assert np.log(p[told["target"]] / p[told["against"]]) == pytest.approx(total)
    assert call("explain", model, data, "--row", 4, "--class", "low", "--against", "high") == 0
    assert "log-odds of low against high" in said().out


@pytest.mark.parametrize("name", ["g.svg", "g.png", "g.pdf", "g.dot"])
def test_draw(folder, tmp_path, name):
    assert call("draw", folder / "m.tanager", "-o", tmp_path / name) == 0
    head = (tmp_path / name).read_bytes()[:8]
    assert {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF", "dot": b"digraph"}[name[2:]] in head
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_draw_table_and_explanation(folder, tmp_path):
    assert call("draw", folder / "m.tanager", "--table", "job", "-o", tmp_path / "t.svg") == 0
    out = tmp_path / "e.svg"
    assert call("explain", folder / "m.tanager", folder / "t.csv", "-o", out) == 0
    assert "log-odds" in out.read_text()


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("n.bif", "network"),
        ("n.xml", "<?xml"),
        ("n.dot", "digraph"),
        ("n.sql", "-- A Bayesian network classifier, written by Tanager.\nWITH"),
        ("n.json", '{"format":"tanager-scorer"'),
        ("n.js", "(() => {"),
        ("n.mjs", "/* Tanager's scorer"),
        ("n.h", "/* A Bayesian network classifier"),
    ],
)
def test_export(folder, tmp_path, name, word):
    assert call("export", folder / "m.tanager", "-o", tmp_path / name) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(word)


def test_export_scores_as_predict_does(folder, tmp_path):
    import duckdb

    model, data = folder / "m.tanager", folder / "t.parquet"
    out = tmp_path / "score.sql"
    options = ["--table", "main.people", "--keep", "id", "--contributions"]
    assert call("export", model, "-o", out, *options) == 0
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people AS SELECT * FROM '{data}'")
    found = connection.execute(out.read_text(encoding="utf-8"))
    names = [column[0] for column in found.description]
    assert names[:3] == ["id", "p_high", "p_low"]
    assert "log_odds_age" in names
    rows = np.array([row[:3] for row in sorted(found.fetchall())], float)
    expected = tanager.load(model).predict_proba(pq.read_table(data).drop(["id", "risk"]))
    assert np.allclose(rows[:, 1:], expected, rtol=0, atol=1e-9)


def test_export_to_onnx_with_options(folder, tmp_path):
    onnx = pytest.importorskip("onnx")
    out = tmp_path / "model.bin"
    options = ["--format", "onnx", "--float32", "--opset", "19", "--complete-rows"]
    assert call("export", folder / "m.tanager", "-o", out, *options) == 0
    model = onnx.load(out)
    onnx.checker.check_model(model)
    assert model.opset_import[0].version == 19


def test_drawing_a_graph_as_text_hints_at_export(folder, tmp_path, said):
    assert call("draw", folder / "m.tanager", "-o", tmp_path / "g.dot") == 0
    assert "tanager export" in said().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit"], "Missing"),
        (["nonsense"], "No such command"),
        (["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "-s", "tanne"], "--structure 'tanne'"),
        (
            ["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "-s", "kdb(q=2)"],
            "has no option 'q'. Its options: adjusted, k",
        ),
        (["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "--missing", "drop"], "--missing 'drop'"),
        (["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "--drop", "nix"], "'nix'"),
        (["predict", "{m}", "{t}", "-o", "{tmp}/p.doc"], "'.doc'"),
        (["predict", "{m}", "{t}", "--keep", "nix"], "'nix'"),
        (["draw", "{m}", "-o", "{tmp}/g.jpg"], "'.jpg'"),
        (["export", "{m}", "-o", "{tmp}/g.csv"], "'.csv'"),
        (["export", "{m}", "-o", "{tmp}/g.sql", "--format", "pmml"], "--format pmml"),
        (["export", "{m}", "-o", "{tmp}/g.sql", "--dialect", "basic"], "'basic'"),
        (["export", "{m}", "-o", "{tmp}/g.json", "--dialect", "duckdb"], "--dialect has no"),
        (["export", "{m}", "-o", "{tmp}/g.bif", "--complete-rows"], "--complete-rows has no"),
        (["export", "{m}", "-o", "{tmp}/g.h", "--name", "1x"], "name='1x'"),
        (["explain", "{m}", "{t}", "--class", "none"], "'none'"),
        (["explain", "{m}", "{t}", "--row", "-1"], "counted from 0"),
        (["show", "{m}", "--table", "nix"], "'nix'"),
        (["predict", "{tmp}/nowhere", "{t}"], "does not exist"),
    ],
)
def test_wrong_usage_is_2_with_one_line(folder, tmp_path, said, arguments, words):
    places = {"t": folder / "t.parquet", "m": folder / "m.tanager", "tmp": tmp_path}
    assert run([a.format(**places) for a in arguments]) == 2
    told = said()
    assert words in told.err
    assert told.err.startswith("tanager: ")
    assert told.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def _csv(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b,y\n1,2,u\n1,2\n", "line 3"),
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
    learners = ["-s", "naive", "-p", "laplace"]
    assert run([*fit, *learners, "--ordered", "size=S,M,L"]) == 0
    column = tanager.load(tmp_path / "m.tanager").network_.codebook.columns[0]
    assert (column.labels(), column.n_ordered) == (["S", "M", "L"], 3)
    assert run([*fit, *learners, "--ordered", "size=S,M"]) == 1
    assert "'L', which its order does not have" in said().err
    assert run([*fit, *learners, "--ordered", "size"]) == 2


def test_monotone_effects_are_asked_for_on_the_command_line(tmp_path, said):
    rng = np.random.default_rng(0)
    age = rng.integers(20, 60, 80)
    lines = [f"{a},{'yes' if rng.random() < 0.5 else 'no'}" for a in age]
    (tmp_path / "t.csv").write_text("\n".join(["age,y", *lines]) + "\n")
    fit = ["fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m.tanager", "--monotonic"]
    assert call(*fit, "age=+1") == 0
    chances = tanager.load(tmp_path / "m.tanager").predict_proba(np.arange(20.0, 60)[:, None])
    assert np.diff(chances[:, 1]).min() > -1e-12
    said()
    assert call("show", tmp_path / "m.tanager") == 0
    assert "yes rises along age" in said().out
    assert call(*fit, "age=up") == 2
    assert call(*fit, "age=maybe:+1") == 2


def test_the_effect_of_a_feature_is_a_curve_of_few_lines(tmp_path, said):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 1))
    clf = tanager.BayesNetClassifier("naive", "laplace", bins=30).fit(
        X, np.where(X[:, 0] > 0, "b", "a")
    )
    model = tmp_path / "m.tanager"
    tanager.save(clf, model)
    assert call("show", model, "--effect", "x0", "--json") == 0
    (effect,) = json.loads(said().out)["effects"]
    joint = np.exp(clf.network_.table("x0").joined(16).probabilities)
    assert len(effect["values"]) == joint.shape[1] == 16
    assert sum(effect["shares"]) == pytest.approx(1.0)
    # The middle cut tells the classes apart, so it is never joined away.
    assert np.sign(effect["log_odds"]).tolist() == sorted(np.sign(effect["log_odds"]).tolist())
    assert call("show", model, "--effect", "x0", "--class", "a") == 0
    lines = said().out.splitlines()
    assert "log-odds of a" in lines[0]
    assert len(lines) == 18
    assert call("show", model, "--effect", "x1") == 2
    assert call("show", model, "--effect", "x0", "--class", "c") == 2


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


def test_tables_that_do_not_fit_the_model(folder, tmp_path, said):
    table = pq.read_table(folder / "t.parquet")
    cases = [
        (table.rename_columns(["id", "Age", "job", "pay", "risk"]), "'age'"),
        (table.drop_columns(["pay"]), "'pay'"),
        (table, "'id'"),
        (table.drop_columns(["id"]).set_column(0, "age", pa.array(["old"] * 600)), "'age'"),
    ]
    for changed, words in cases:
        pq.write_table(changed, tmp_path / "t.parquet")
        out = tmp_path / "p.parquet"
        assert call("predict", folder / "m.tanager", tmp_path / "t.parquet", "-o", out) == 1
        assert words in said().err
        assert not out.exists()
    shuffled = table.select(["pay", "job", "age", "risk"])
    pq.write_table(shuffled, tmp_path / "t.parquet")
    assert call("predict", folder / "m.tanager", tmp_path / "t.parquet", "-o", out) == 0


def test_truncated_files(folder, tmp_path, said):
    data = (folder / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(data[: len(data) // 2])
    assert call("fit", tmp_path / "t.parquet", "-t", "risk", "-o", tmp_path / "m") == 1
    assert "truncated" in said().err
    model = (folder / "m.tanager").read_bytes()
    (tmp_path / "m").write_bytes(model[:-5])
    assert call("show", tmp_path / "m") == 1
    assert "not a usable model file" in said().err


def test_places_that_cannot_be_written(folder, tmp_path, said):
    model, data = folder / "m.tanager", folder / "t.parquet"
    assert call("fit", data, "-t", "risk", "-o", tmp_path / "no" / "m") == 1
    assert "folder" in said().err
    assert call("export", model, "-o", tmp_path / "no" / "m.bif") == 1
    assert "folder" in said().err
    assert call("fit", data, "-t", "risk", "-o", tmp_path) == 1
    assert "folder" in said().err


def test_debug_shows_the_traceback(tmp_path):
    (tmp_path / "m").write_bytes(b"no model at all")
    command = [sys.executable, "-m", "tanager", "show", str(tmp_path / "m")]
    quiet = subprocess.run(command, capture_output=True, text=True, check=False)
    assert quiet.returncode == 1
    assert "Traceback" not in quiet.stderr
    loud = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False)
    assert loud.returncode == 1
    assert "Traceback" in loud.stderr


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_interruption_leaves_nothing(folder, tmp_path, which):
    """A batch arrives through a pipe-like slow file; the signal comes in the middle."""
    code = (
        "import sys, time, os, signal, threading\n"
        "from tanager.cli import predict\n"
        "slow = predict.Scorer.score\n"
        "def score(self, batch):\n"
        "    print('working', flush=True)\n"
        "    time.sleep(60)\n"
        "    return slow(self, batch)\n"
        "predict.Scorer.score = score\n"
        "from tanager.cli import main\n"
        "main()\n"
    )
    out = tmp_path / "p.parquet"
    out.write_bytes(b"precious")
    arguments = ["predict", folder / "m.tanager", folder / "t.parquet", "--ignore-extra", "-o", out]
    arguments.append("--force")
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "working\n"
    time.sleep(0.2)
    process.send_signal(which)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert out.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["p.parquet"]


def test_help_loads_little():
    code = (
        "import sys\nfrom tanager.cli.app import run\nrun(['--help'])\n"
        "print(*[m for m in ('sklearn', 'numba', 'pyarrow', 'scipy', 'pandas', 'matplotlib')"
        " if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == []
    for command in ("fit", "predict", "show", "explain", "draw", "export", "demo", "compare"):
        assert command in done.stdout


def test_show_needs_no_learner(folder):
    code = (
        "import sys\nfrom tanager.cli.app import run\nassert run(['show', sys.argv[1]]) == 0\n"
        "print(*[m for m in ('sklearn', 'numba', 'scipy', 'pandas', 'matplotlib')"
        " if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, str(folder / "m.tanager")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.split() == []


def test_version_and_completion(said):
    assert run(["--version"]) == 0
    assert said().out == f"tanager {tanager.__version__}\n"
    environment = {**os.environ, "_TANAGER_COMPLETE": "complete_bash", "COMP_WORDS": "tanager pre"}
    environment["COMP_CWORD"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "tanager"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert "predict" in done.stdout


@pytest.mark.parametrize("keel", [False, True])
def test_demo(keel, said, monkeypatch):
    from tests.keel import keel_folder

    if keel and keel_folder() is None:
        pytest.skip("the KEEL tables are not here; make setup fetches them, or set TANAGER_KEEL")
    monkeypatch.setenv("TANAGER_KEEL", str(keel_folder().parents[3]) if keel else "")
    assert run(["demo"]) == 0
    text = said().out
    assert ("telescope" if keel else "breast cancer") in text
    assert "CategoricalNB" in text
    assert "explained" in text


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
    assert resolve_parameters(clf.parameters).alpha == 2
    assert clf.missing == "marginalize"
    assert clf.network_.codebook.columns[0].kind == "categorical"
    direct = clf.__class__(**clf.get_params(deep=False))
    direct.fit(weighted.drop_columns(["id"]), "risk", sample_weight="w")
    rows = table.select(["age", "job", "pay"])
    assert np.allclose(clf.predict_proba(rows), direct.predict_proba(rows), rtol=1e-9)


def test_a_model_without_names_takes_columns_by_position(tmp_path):
    x = np.random.default_rng(1).integers(0, 3, (80, 2))
    clf = tanager.BayesNetClassifier("tan", "laplace").fit(x, x.sum(axis=1) > 2)
    tanager.save(clf, tmp_path / "m")
    table = pa.table({"key": np.arange(80), "left": x[:, 0], "right": x[:, 1]})
    pq.write_table(table, tmp_path / "t.parquet")
    out = tmp_path / "p.parquet"
    assert call("predict", tmp_path / "m", tmp_path / "t.parquet", "--keep", "key", "-o", out) == 0
    written = pq.read_table(out)
    assert written["prediction"].to_pylist() == clf.predict(x).tolist()
    assert call("predict", tmp_path / "m", tmp_path / "t.parquet", "-o", out) == 1
