from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tanager.errors import ConfigurationError, DataError
from tanager.evaluation import CrossValidation, Dataset, Experiment, LearningCurve, Results

TREE = "sklearn.tree.DecisionTreeClassifier@raw"


@pytest.fixture
def folder(tmp_path, small, other):
    for dataset in (small, other):
        pq.write_table(dataset.source, tmp_path / f"{dataset.name}.parquet")
    return tmp_path


def write(folder, text):
    path = folder / "experiment.toml"
    path.write_text(text)
    return path


def test_toml_with_names_only(folder):
    path = write(
        folder,
        f"""
        name = "two tables"
        seed = 3
        datasets = ["small", "other"]
        classifiers = ["{TREE}", "tan/hdp"]
        metrics = ["log_loss"]
        """,
    )
    experiment = Experiment.from_toml(path, data=folder)
    assert [d.name for d in experiment.datasets] == ["small", "other"]
    assert [c.use for c in experiment.contenders] == [TREE, "tan/hdp"]
    assert experiment.protocol == CrossValidation(5, 2)
    assert (experiment.seed, experiment.metrics, experiment.name) == (
        3,
        ("log_loss",),
        "two tables",
    )
    assert len(list(experiment.cells())) == 40


def test_toml_with_tables(folder):
    path = write(
        folder,
        f"""
        keep = ["predictions"]
        [protocol]
        rounds = 2
        folds = 3
        stratified = true
        [datasets]
        a = "small.parquet"
        b = {{ path = "other.parquet", target = "colour", drop = ["class"], train_rows = 40 }}
        [classifiers]
        tree = "{TREE}"
        tan = {{ use = "tan/hdp", missing = "marginalize" }}
        """,
    )
    experiment = Experiment.from_toml(path)
    assert experiment.protocol == CrossValidation(2, 3, stratified=True)
    assert experiment.dataset("b").drop == ("class",)
    assert experiment.contender("tan").options == {"missing": "marginalize"}
    assert len(list(experiment.cells())) == 2 * 6 + 2


def test_toml_with_a_learning_curve(folder):
    path = write(
        folder,
        f"""
        datasets = ["small"]
        classifiers = ["{TREE}"]
        protocol = {{ sizes = [10, 20], rounds = 2 }}
        """,
    )
    assert Experiment.from_toml(path, data=folder).protocol == LearningCurve((10, 20), rounds=2)


def test_the_folder_of_tables_comes_from_the_environment(folder, monkeypatch):
    path = write(folder, f'datasets = ["small"]\nclassifiers = ["{TREE}"]')
    monkeypatch.delenv("TANAGER_DATA", raising=False)
    with pytest.raises(ConfigurationError, match="TANAGER_DATA"):
        Experiment.from_toml(path)
    monkeypatch.setenv("TANAGER_DATA", str(folder))
    assert len(Experiment.from_toml(path).run().records) == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x =", "not TOML"),
        ('rounds = 3\ndatasets=["small"]\nclassifiers=["tan/hdp"]', "'rounds' is not known"),
        ('datasets=["small"]\nclassifiers=["tan/hdp"]\n[protocol]\nfold=3', "'fold' is not known"),
        ('datasets=["small"]\nclassifiers=["tan/hdp"]\nmetrics=["auc"]', "auc"),
        ('datasets=["small"]\nclassifiers=["tan/hdp", "tan/hdp"]', "two classifiers are called"),
        ('datasets=["small"]\nclassifiers=[]', "no classifier"),
        ('datasets=["small"]\n[classifiers]\na={missing="value"}', "what to `use`"),
        ('datasets=["small"]\nclassifiers=["tan/hdp"]\nkeep=["models"]', "keep"),
    ],
)
def test_mistakes_in_toml_are_named(folder, text, message):
    with pytest.raises(ConfigurationError, match=message):
        Experiment.from_toml(write(folder, text), data=folder)


def test_absent_tables_are_named_with_a_guess(folder):
    path = write(folder, 'datasets=["mall"]\nclassifiers=["tan/hdp"]')
    with pytest.raises(DataError, match="Did you mean small"):
        Experiment.from_toml(path, data=folder)


def test_a_missing_target_names_the_columns(small):
    with pytest.raises(DataError, match="length, width, colour, class"):
        Dataset("x", small.source, target="y").load()


def test_pandas_and_polars_tables_are_read(small):
    import pandas as pd
    import polars as pl

    expected = small.load().labels.tolist()
    assert Dataset("p", pd.DataFrame(small.source.to_pydict())).load().labels.tolist() == expected
    assert Dataset("p", pl.from_arrow(small.source)).load().labels.tolist() == expected


def test_results_can_be_written_and_read(folder, small):
    results = Experiment([small], [TREE], CrossValidation(1, 2)).run(folder / "run.jsonl")
    results.write(folder / "out.parquet")
    results.write(folder / "out.csv")
    assert pq.read_table(folder / "out.parquet").equals(results.table())
    assert (folder / "out.csv").read_text().count("\n") == 3
    assert Results.read(folder / "run.jsonl").table().equals(results.table())
    with pytest.raises(ConfigurationError, match=r"\.parquet and \.csv"):
        results.write(folder / "out.xlsx")


def test_the_laboratory_loads_no_plotting():
    code = (
        "import sys, tanager.evaluation, tanager.evaluation.curves;"
        "print([m for m in ('matplotlib', 'jinja2', 'pandas', 'numba') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.shared
def test_shipped_experiments_can_be_read(shared):
    files = sorted((Path(__file__).parents[2] / "experiments").glob("*.toml"))
    assert files
    for file in files:
        experiment = Experiment.from_toml(file, data=shared / "data")
        for contender in experiment.contenders:
            contender.build(0)
