from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from tanager.cli import app
from tanager.cli import laboratory as printing
from tanager.errors import ConfigurationError, DataError
from tanager.evaluation import Experiment

TREE = "sklearn.tree.DecisionTreeClassifier(max_depth=2)@native"
NB = "naive/m-estimate(m=1)"


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("one", 0), ("two", 1)):
        rng = np.random.default_rng(seed)
        y = rng.integers(2, size=60)
        x = np.where(rng.random(60) < 0.8, y, 1 - y)
        table = pa.table({"x": x.astype(str), "n": rng.normal(size=60), "label": y})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def invoke(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_compare_prints_means_and_tests(tables):
    out = invoke(
        "compare", "one.parquet", "two.parquet", "-t", "label", "--with", NB, "--with", TREE,
        "--rounds", 1, "-o", "cells.csv",
    )  # fmt: skip
    assert "average rank on log-loss over 2 tables" in out.splitlines()[0]
    assert "Wilcoxon" in out
    assert (tables / "cells.csv").read_text().count("\n") == 9


def test_compare_in_json(tables):
    out = invoke(
        "compare", "one.parquet", "two.parquet", "-t", "label", "--with", NB, "--with", TREE,
        "--rounds", 1, "--json",
    )  # fmt: skip
    content = json.loads(out)
    first = content["metrics"][0]
    assert first["metric"] == "accuracy"
    assert set(first["scores"]) == {"one", "two"}
    pair = first["pairs"][0]
    assert pair["wins"] + pair["draws"] + pair["losses"] == 2
    assert content["failures"] == []


def test_compare_runs_an_experiment_file_and_resumes(tables):
    (tables / "e.toml").write_text(
        f"""
        [protocol]
        rounds = 1
        [datasets]
        one = {{ path = "one.parquet", target = "label" }}
        [classifiers]
        nb = "{NB}"
        tree = "{TREE}"
        """
    )
    invoke("compare", "e.toml", "--allow-imports", "--html", "e.html")
    lines = (tables / "e.run.jsonl").read_text().splitlines()
    assert len(lines) == 5
    assert "<h1>e</h1>" in (tables / "e.html").read_text()
    first = invoke("compare", "e.toml", "--allow-imports", "--json")
    assert (tables / "e.run.jsonl").read_text().splitlines() == lines
    assert invoke("compare", "e.toml", "--allow-imports", "--json") == first
    invoke("compare", "e.toml", "--allow-imports", "--html", "again.html")
    assert (tables / "again.html").read_text() == (tables / "e.html").read_text()


def test_metrics_that_were_chosen_are_shown(tables):
    (tables / "e.toml").write_text(
        f"""
        metrics = ["zero_one_loss", "fit_seconds"]
        protocol = {{ rounds = 1 }}
        classifiers = ["{NB}", "naive/laplace"]
        [datasets]
        one = {{ path = "one.parquet", target = "label" }}
        """
    )
    shown = invoke("compare", "e.toml", "--allow-imports")
    assert "0-1 loss" in shown
    assert "fit, seconds" in shown


def test_an_experiment_file_goes_alone(tables):
    (tables / "e.toml").write_text("")
    with pytest.raises(ConfigurationError, match="pass nothing else"):
        invoke("compare", "e.toml", "one.parquet")
    for option in (("--rounds", 3), ("-t", "label"), ("--stratified",), ("--with", NB)):
        flag = {"-t": "--target"}.get(option[0], option[0])
        with pytest.raises(ConfigurationError, match=f"pass nothing else. Leave out {flag}"):
            invoke("compare", "e.toml", *option)


def test_the_run_file_of_an_experiment_file_takes_no_foreign_place(tables):
    (tables / "e.toml").write_text(f"""
        [datasets]
        one = {{ path = "one.parquet", target = "label" }}
        [classifiers]
        nb = "{NB}"
        """)
    foreign = '{"mine": 1}\nunfinished'
    (tables / "e.run.jsonl").write_text(foreign)
    with pytest.raises(DataError, match=r"e\.run\.jsonl isn.t a run file"):
        invoke("compare", "e.toml")
    assert (tables / "e.run.jsonl").read_text() == foreign


def test_evaluate_prints_every_metric(tables):
    arguments = ("evaluate", "one.parquet", "--target", "label", "--structure", "naive")
    out = invoke(*arguments, "--parameters", "m-estimate(m=1)", "--rounds", 2)
    for word in ("0-1 loss", "RMSE (true class)", "log-loss", "fit, CPU seconds", "4 cells"):
        assert word in out
    content = json.loads(
        invoke(*arguments, "--parameters", "m-estimate(m=1)", "--rounds", 2, "--json")
    )
    assert 0 < content["zero_one_loss"]["mean"] < 0.5
    assert content["cells"] == 4


def test_evaluate_tells_the_calibration_of_a_rounds_rows_together(tables):
    given = ("evaluate", "one.parquet", "-t", "label", "--structure", "naive", "--parameters",
             "laplace", "--rounds", 1, "--folds", 12)  # fmt: skip
    found = json.loads(invoke(*given, "--json", "-o", "cells.parquet"))
    own = pq.read_table(tables / "cells.parquet")["calibration_error"].to_numpy()
    assert found["calibration_error"]["mean"] < 0.8 * own.mean()  # five rows a fold
    assert found["calibration_error"]["deviation"] is None
    assert found["accuracy"]["deviation"] > 0
    out = invoke(*given)
    assert "calibration error: computed over all held-out rows of a round" in out
    (line,) = [line for line in out.splitlines() if line.strip().startswith("calibration error  ")]
    assert len(line.split()) == 3  # the mean, and no deviation of one round


def test_tables_of_a_folder_are_of_experiment_files(tables):
    with pytest.raises(
        ConfigurationError, match=r"--data: only for an experiment file.*their paths"
    ):
        invoke("compare", "one", "--data", tables, "-t", "label")
    assert "tables an experiment file refers to" in " ".join(
        invoke("compare", "--help").replace("│", " ").split()
    )


def test_evaluate_of_an_unknown_learner_fails_with_the_reason(tables):
    with pytest.raises(ConfigurationError, match="nonsense"):
        invoke("evaluate", "one.parquet", "-t", "label", "--structure", "nonsense")


def test_where_every_classifier_failed_no_empty_table_is_printed(tables):
    raw = "nosuchpackage.Model"
    out = invoke("compare", "one.parquet", "-t", "label", "--with", raw, "--rounds", 1, code=1)
    assert out.startswith("No classifier finished")
    assert "pip install nosuchpackage" in out
    assert "log-loss" not in out


@pytest.mark.parametrize("width", [60, 160])
def test_a_comparison_fits_the_terminal(tables, monkeypatch, width):
    monkeypatch.setattr(printing, "console", lambda: Console(width=width, highlight=False))
    out = invoke("compare", "one.parquet", "-t", "label", "--with", NB, "--with", "tan/hdp")
    lines = out.splitlines()
    assert max(map(len, lines)) <= width
    assert any("calibration error" in line for line in lines)


def test_a_missing_file_is_named(tables):
    with pytest.raises(DataError, match=r"absent\.parquet"):
        invoke("compare", "absent.parquet", "--with", NB)


def test_a_table_with_nothing_but_the_target_is_told_before_the_first_cell(tables):
    with pytest.raises(DataError, match="'one' has no column to predict 'label' from"):
        invoke("evaluate", "one.parquet", "--target", "label", "--drop", "x", "--drop", "n")


@pytest.mark.parametrize("output", [("-o", "cells.xlsx"), ("--html", "page.pdf")])
def test_a_wrong_extension_is_told_before_the_first_cell(tables, monkeypatch, output):
    monkeypatch.setattr(Experiment, "run", None)
    with pytest.raises(ConfigurationError, match="extension"):
        invoke("compare", "one.parquet", "--target", "label", "--with", NB, *output)


def test_the_program_fails_in_one_line():
    command = [sys.executable, "-c", "from tanager.cli import main; main()", "compare", "no.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "tanager: No such file or folder: no.csv. Check the path.\n"


def test_wrong_usage_exits_with_two(tables):
    invoke("compare", code=2)
    invoke("evaluate", "one.parquet", code=2)


def test_a_classifier_that_is_not_installed_is_a_row_with_its_reason(tables):
    out = invoke(
        "compare", "one.parquet", "-t", "label", "--with", NB, "--with", "nosuchpackage.Model",
        "--rounds", 2, code=1,
    )  # fmt: skip
    assert "nosuchpackage.Model failed:" in out
    assert "pip install nosuchpackage" in out
    assert f"{NB} on one: accuracy 0." in out


def test_one_table_is_compared_by_deviations_and_the_corrected_test(tables):
    out = invoke(
        "compare", "one.parquet", "-t", "label", "--with", NB, "--with", TREE, "--rounds", 2,
    )  # fmt: skip
    assert "log-loss on one" in out.splitlines()[0]
    assert "±" in out
    assert "corrected t-test" in out
    assert "--details" in out


def test_columns_are_described_alike_in_every_command():
    import typer

    program = typer.main.get_command(app)
    told = {"drop", "categorical", "dates", "na_values", "encoding", "decimal", "header"}
    learned = {*told, "ordered", "monotonic", "bins"}
    for name, wanted in (
        *((command, learned) for command in ("fit", "evaluate", "compare")),
        ("audit", told),
    ):
        assert wanted <= {option.name for option in program.get_command(None, name).params}, name


def test_evaluate_takes_orders_and_signs(tables):
    told = ("evaluate", "one.parquet", "-t", "label", "--rounds", 1, "-s", "naive")
    said = ("--ordered", "x=1,0", "--monotonic", "x=-1")
    out = json.loads(invoke(*told, *said, "--json"))
    [dataset] = out["experiment"]["datasets"]
    assert dataset["ordered"] == ["x=1,0"]
    assert dataset["monotonic"] == ["x=-1"]
    plain = json.loads(invoke(*told, "--json"))
    assert out["log_loss"] != plain["log_loss"]
    with pytest.raises(ConfigurationError, match="no meaning for any of the classifiers"):
        invoke(*told, "-p", "laplace", *said)


def test_a_table_without_a_header_is_evaluated_and_compared(tables):
    lines = [f"{i % 3},{'ab'[i % 2]}" for i in range(40)]
    (tables / "bare.csv").write_text("\n".join(lines) + "\n")
    told = ("bare.csv", "-t", "x1", "--no-header", "--rounds", 1)
    out = json.loads(invoke("evaluate", *told, "-s", "naive", "-p", "laplace", "--json"))
    [dataset] = out["experiment"]["datasets"]
    assert dataset["header"] is False
    out = json.loads(invoke("compare", *told, "--with", NB, "--json"))
    assert out["experiment"]["datasets"][0]["header"] is False
    (tables / "bare.toml").write_text(
        f'classifiers = ["{NB}"]\n[datasets.bare]\npath = "bare.csv"\ntarget = "x1"\n'
        "header = false\n[protocol]\nrounds = 1\n"
    )
    out = json.loads(invoke("compare", "bare.toml", "--json"))
    assert out["experiment"]["datasets"][0]["header"] is False
