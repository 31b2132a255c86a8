from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tanager.errors import ConfigurationError, DataError
from tanager.evaluation import (
    Contender,
    CrossValidation,
    Dataset,
    Experiment,
    LearningCurve,
    Results,
)

TREE = "sklearn.tree.DecisionTreeClassifier"


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
    experiment = Experiment.from_toml(path, data=folder, allow_imports=True)
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
    experiment = Experiment.from_toml(path, allow_imports=True)
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
    experiment = Experiment.from_toml(path, data=folder, allow_imports=True)
    assert experiment.protocol == LearningCurve((10, 20), rounds=2)


def test_the_folder_of_tables_comes_from_the_environment(folder, monkeypatch):
    path = write(folder, f'datasets = ["small"]\nclassifiers = ["{TREE}"]')
    monkeypatch.delenv("TANAGER_DATA", raising=False)
    with pytest.raises(ConfigurationError, match="TANAGER_DATA"):
        Experiment.from_toml(path)
    monkeypatch.setenv("TANAGER_DATA", str(folder))
    assert len(Experiment.from_toml(path, allow_imports=True).run().records) == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x =", "not TOML"),
        ('rounds = 3\ndatasets=["small"]\nclassifiers=["tan/hdp"]', "'rounds' isn't valid"),
        (
            'datasets=["small"]\nclassifiers=["tan/hdp"]\n[protocol]\nfold=3',
            "'fold' isn't valid",
        ),
        ('datasets=["small"]\nclassifiers=["tan/hdp"]\nmetrics=["kappa"]', "kappa"),
        ('datasets=["small"]\nclassifiers=["tan/hdp", "tan/hdp"]', "two classifiers are called"),
        ('datasets=["small"]\nclassifiers=[]', "no classifier"),
        ('datasets=["small"]\n[classifiers]\na={missing="value"}', "what to `use`"),
        ('datasets=["small"]\nclassifiers=["tan/hdp"]\nkeep=["models"]', "keep"),
    ],
)
def test_mistakes_in_toml_are_named(folder, text, message):
    with pytest.raises(ConfigurationError, match=message):
        Experiment.from_toml(write(folder, text), data=folder)


HEAD = 'datasets=["small"]\nclassifiers=["tan/hdp"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "metrics=3", "metrics is 3. Allowed: a list of texts"),
        (HEAD + "keep=1", "keep is 1"),
        (HEAD + "seed=-1", "seed=-1"),
        (HEAD + 'seed="a"', "seed is 'a'. Allowed: a whole number"),
        (HEAD + "name=5", "name is 5. Allowed: text"),
        (HEAD + "bins=1.5", "bins is 1.5"),
        (HEAD + "protocol=3", "protocol is 3. Allowed: a table"),
        (HEAD + "protocol={rounds=1.5}", "rounds is 1.5. Allowed: a whole number"),
        (HEAD + 'protocol={rounds="a"}', "rounds is 'a'"),
        (
            HEAD + "protocol={folds=1000000}",
            "folds=1000000 isn't valid. Allowed: whole numbers from 2",
        ),
        (HEAD + "protocol={rounds=10000, folds=10000}", "cells"),
        (HEAD + "protocol={stratified=1}", "stratified is 1. Allowed: true or false"),
        (HEAD + "protocol={sizes=5}", "sizes is 5. Allowed: a list of whole numbers"),
        (HEAD + "protocol={sizes=[1, 2.5]}", "sizes is"),
        ('datasets=5\nclassifiers=["tan/hdp"]', "datasets is 5"),
        ('datasets=[5]\nclassifiers=["tan/hdp"]', "datasets is"),
        ('classifiers=["tan/hdp"]\n[datasets]\nd1=5', "d1 is 5"),
        ('classifiers=["tan/hdp"]\n[datasets.a]\npath=5', "path is 5"),
        ('classifiers=["tan/hdp"]\n[datasets.small]\ntarget=5', "target is 5"),
        ('classifiers=["tan/hdp"]\n[datasets.small]\ndrop=5', "drop is 5"),
        ('classifiers=["tan/hdp"]\n[datasets.small]\ntrain_rows="a"', "train_rows is 'a'"),
        ('datasets=["small"]\nclassifiers=7', "classifiers is 7"),
        ('datasets=["small"]\n[classifiers]\n"A"=5', "A is 5"),
        ('datasets=["small"]\n[classifiers]\nA={use=5}', "use is 5. Allowed: text"),
        (HEAD + "keep=" + "[" * 9000 + "]" * 9000, "nested too deeply"),
        (HEAD + "keep=" + "[" * 9 + "]" * 9, "keep is [[[[[[[...]]]]]]]. Allowed: a list"),
        (HEAD + ".".join(["a"] * 8_000) + "=1", "'a' isn't valid"),
        (HEAD + "seed." + ".".join(["a"] * 8_000) + "=1", "seed is {'a': {"),
        (HEAD + "['" + "'.'".join(["a"] * 8_000) + "']", "'a' isn't valid"),
        (HEAD + "seed=" + "9" * 5000, "not TOML"),
        (HEAD + "#" * 300_000, "bytes"),
        ('datasets=["small"]\nclassifiers=["tan/laplace(alpha=%s1)"]' % ("-" * 1900), "cannot be"),
        ('datasets=["small"]\nclassifiers=["tan/laplace(alpha=%s1)"]' % ("-" * 9000), "characters"),
        ('datasets=["small"]\nclassifiers=["tan/laplace(alpha={[]: 1})"]', "cannot be read"),
    ],
)
def test_every_key_has_its_type_and_its_limits(folder, text, message):
    with pytest.raises(ConfigurationError) as caught:
        Experiment.from_toml(write(folder, text), data=folder)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 2500


@pytest.mark.parametrize("use", ["this.x", "sklearn.tree.DecisionTreeClassifier", "os.system"])
def test_a_file_imports_nothing_without_permission(folder, use):
    path = write(folder, f'datasets=["small"]\n[classifiers]\nA="{use}"')
    with pytest.raises(ConfigurationError, match="--allow-imports"):
        Experiment.from_toml(path, data=folder)
    code = (
        "import sys; from tanager.evaluation import Experiment;"
        f"\ntry: Experiment.from_toml({str(path)!r}, {str(folder)!r}).run()"
        "\nexcept ValueError: print('this' in sys.modules, 'sklearn.tree' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False False"


def test_aliases_need_no_permission(folder):
    path = write(folder, 'datasets=["small"]\nclassifiers=["random-forest(n_estimators=5)"]')
    assert Experiment.from_toml(path, data=folder).contenders[0].imports is None


def test_absent_tables_are_named_with_a_guess(folder):
    path = write(folder, 'datasets=["mall"]\nclassifiers=["tan/hdp"]')
    with pytest.raises(DataError, match="Did you mean small"):
        Experiment.from_toml(path, data=folder)


def test_a_missing_target_names_the_columns(small):
    with pytest.raises(DataError, match="'length', 'width', 'colour', 'class'"):
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


def test_estimators_and_pipelines_are_contenders(small, folder):
    from sklearn.compose import make_column_transformer
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    from tanager import BayesNetClassifier

    indicators = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]))
    pipeline = make_pipeline(indicators, GaussianNB())
    pipeline.steps[0][1].sparse_threshold = 0
    mine = BayesNetClassifier("tan", "m-estimate(m=1)")
    experiment = Experiment(
        [small],
        [mine, "tan/m-estimate(m=1)", Contender("pipe", pipeline)],
        CrossValidation(1, 2),
        metrics=["log_loss", "fit_seconds"],
    )
    results = experiment.run(folder / "run.jsonl", n_jobs=2)
    assert not results.failures
    printed = "BayesNetClassifier(parameters='m-estimate(m=1)', structure='tan')"
    assert results.classifiers[0] == printed
    own, text, pipe = results.mean("log_loss").values[0]
    assert own == text != pipe
    assert (results.mean("fit_seconds").values > 0).all()
    assert "fit_seconds" in results.table().column_names
    kept = [r["cell"] for r in Results.read(folder / "run.jsonl").records]
    assert sorted(kept) == sorted(cell.key for cell in experiment.cells())
    with pytest.raises(ConfigurationError, match="has no predict_proba"):
        Experiment([small], [OneHotEncoder()])


def test_a_search_over_a_pipeline_gets_a_frame_and_resumes(small, folder):
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.model_selection import GridSearchCV
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    from tanager import BayesNetClassifier

    def search():
        texts = make_column_selector(dtype_exclude="number")  # printed with its address
        indicators = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        pipeline = make_pipeline(make_column_transformer((indicators, texts)), GaussianNB())
        return GridSearchCV(pipeline, {"gaussiannb__var_smoothing": [1e-3]}, cv=2)

    ours = GridSearchCV(BayesNetClassifier("naive", "m-estimate"), {"bins": ["auto"]}, cv=2)
    results = Experiment([small], [search(), ours, "naive/m-estimate"], CrossValidation(1, 2)).run()
    assert not results.failures
    _, searched, plain = results.mean("log_loss").values[0]
    assert searched == pytest.approx(plain, rel=0.05)
    keys = [[c.key for c in Experiment([small], [search()]).cells()] for _ in range(2)]
    assert keys[0] == keys[1]


def test_own_learners_are_contenders(small):
    from tanager import BayesNetClassifier
    from tanager.structure import Structure, StructureLearner

    class Star(StructureLearner):
        def learn(self, counts, plan):
            parents = [(0,) if i else () for i in range(counts.domain.n_features)]
            return Structure.from_parents(counts.domain.names, parents)

    mine = BayesNetClassifier(Star(), "laplace")
    results = Experiment([small], [mine, "naive/laplace"], CrossValidation(1, 2)).run()
    assert not results.failures
    star, naive = results.mean("log_loss").values[0]
    assert star != naive


def test_a_table_without_a_name_is_refused(small):
    with pytest.raises(ConfigurationError, match="Pass Dataset"):
        Experiment([small.source], [TREE])


def test_results_are_data_frames(small):
    results = Experiment([small], [TREE, "naive/laplace"], CrossValidation(1, 2)).run()
    frame = results.to_dataframe()
    assert frame["classifier"].tolist() == [TREE, TREE, "naive/laplace", "naive/laplace"]
    means = results.mean("accuracy").to_dataframe()
    assert means.loc["small", TREE] == results.mean("accuracy").values[0, 0]


def test_the_laboratory_loads_no_plotting():
    code = (
        "import sys, tanager.evaluation;"
        "print([m for m in ('matplotlib', 'jinja2', 'pandas') if m in sys.modules])"
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
