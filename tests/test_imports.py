"""What an import does not load: heavy libraries wait until a learner is asked for."""

import ast
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

LOADED = "import sys, {module}; print(*[m for m in {heavy!r} if m in sys.modules])"


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("tanager", ["sklearn", "scipy", "pyarrow", "pandas", "matplotlib", "rich"]),
        ("tanager.structure", ["sklearn", "scipy", "pandas"]),
        ("tanager.parameters", ["sklearn", "scipy", "pandas"]),
    ],
)
def test_a_bare_import_loads_little(module, heavy):
    code = LOADED.format(module=module, heavy=heavy)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


HEAVY = ("sklearn", "scipy", "pandas", "matplotlib", "rich", "typer")


def loaded_by(code):
    """Return which heavy libraries a program has loaded at its end."""
    code += f"\nimport sys\nprint('LOADED', *[m for m in {HEAVY!r} if m in sys.modules])\n"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[-1].split()[1:]


def test_the_classifier_loads_without_scikit_learn():
    assert loaded_by("from tanager import BayesNetClassifier\nprint(BayesNetClassifier())") == []


def test_a_default_fit_loads_neither_scipy_nor_scikit_learn():
    code = """if True:
        import numpy as np
        from tanager import BayesNetClassifier
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=(80, 2)), rng.integers(0, 3, 80)])
        BayesNetClassifier().fit(X, X[:, 0] > X[:, 1] * X[:, 2])
    """
    assert not {"scipy", "sklearn"} & set(loaded_by(code))


def test_a_model_answers_and_explains_a_row_without_scikit_learn(tmp_path):
    import tanager

    table = {"job": ["a", "b"] * 20, "day": ["2024-01-01", "2024-02-02"] * 20, "x": [1.5, 2] * 20}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = tanager.BayesNetClassifier("tan", "m-estimate").fit(table, ["no", "yes"] * 20)
    tanager.save(clf, tmp_path / "m.tanager")
    code = f"""if True:
        import tanager
        from tanager.network import explain_row
        clf = tanager.load({str(tmp_path / "m.tanager")!r})
        row = {{"job": "a", "day": "2024-01-01", "x": 1}}
        print(clf.predict_proba(row), clf.predict([["b", "2024-02-02", 3.5]]))
        print(explain_row(clf, row))
    """
    assert loaded_by(code) == []


def test_estimators_are_scikit_learns_once_it_is_there():
    code = """if True:
        from tanager import BayesNetClassifier
        from tanager.structure import KDB
        early, learner = BayesNetClassifier(KDB(k=2)), KDB(k=1)
        from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
        assert is_classifier(early)
        for one in (early, BayesNetClassifier(), clone(early)):
            assert isinstance(one, BaseEstimator) and isinstance(one, ClassifierMixin)
        assert isinstance(learner, BaseEstimator)
        assert clone(early).get_params()["structure__k"] == 2
        from sklearn import config_context
        with config_context(enable_metadata_routing=True):
            early.set_fit_request(sample_weight=True)
    """
    loaded_by(code)


def imported_names(path):
    return {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(Path(path).read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_every_public_name():
    import tanager

    stub = Path(tanager.__file__).parent / "__init__.pyi"
    assert imported_names(stub) | {"__version__"} == set(tanager.__all__)


@pytest.mark.parametrize("package", ["parameters", "structure"])
def test_type_checkers_see_names_that_are_loaded_on_first_use(package):
    module = import_module(f"tanager.{package}")
    body = ast.parse(Path(module.__file__).read_text()).body
    defined = {node.name for node in body if isinstance(node, ast.ClassDef)}
    assert set(module.__all__) <= imported_names(module.__file__) | defined


PUBLIC = {
    "evaluation": "METRICS Contender CrossValidation Dataset Experiment LearningCurve Results",
    "structure": "ACLL Differentiable Fixed Greedy KDB KTree Naive OrderBased RandomTree "
    "SelectiveKDB Structure StructureLearner TAN edge_confidence",
    "losses": "ConditionalLogLikelihood HybridMargin Margin NegativeLogLikelihood",
    "training": "Training",
    "mlflow": "load_model log_model save_model",
    "skops": "trusted_types",
}
# What the names above return, or take from those who write learners and losses of their own.
WITH_THEM = {
    "structure": "Constraints EdgeConfidence FitPlan",
    "losses": "RankedProbability RowLoss",
}


@pytest.mark.parametrize("package", PUBLIC)
def test_the_public_names_are_these_and_no_others(package):
    module = import_module(f"tanager.{package}")
    names = f"{PUBLIC[package]} {WITH_THEM.get(package, '')}".split()
    assert sorted(module.__all__) == sorted(names)
    for name in names:
        assert getattr(module, name) is not None


def test_commands_that_use_a_model_load_little(tmp_path):
    import tanager

    table = tmp_path / "rows.csv"
    table.write_text("a,b,y\n" + "x,1.5,no\nz,2.5,yes\n" * 20)
    model = tmp_path / "m.tanager"
    clf = tanager.BayesNetClassifier("tan", "m-estimate").fit(str(table), "y")
    tanager.save(clf, model)
    code = f"""if True:
        import sys
        from tanager.cli.app import run
        for words in (
            ["predict", {str(model)!r}, {str(table)!r}, "-o", {str(tmp_path / "out.csv")!r}],
            ["show", {str(model)!r}],
            ["score", {str(model)!r}, {str(table)!r}],
            ["explain", {str(model)!r}, {str(table)!r}],
        ):
            assert run(words) == 0, words
        heavy = ("sklearn", "scipy", "pandas")
        print("LOADED", *[m for m in heavy if m in sys.modules])
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1].split() == ["LOADED"]
