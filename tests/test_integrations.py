"""Programs that keep, serve and watch classifiers: MLflow, skops, scikit-learn's callbacks."""

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.errors import DataError
from tanager.parameters import HDP
from tanager.structure import KDB


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    table = {
        "job": rng.choice(["clerk", "nurse", "smith"], 200).tolist(),
        "age": rng.integers(18, 80, 200).tolist(),
        "pay": [None if x > 60 else round(float(x), 2) for x in rng.normal(40, 12, 200)],
        "owns": rng.choice([True, False], 200).tolist(),
    }
    chance = (np.array(table["age"]) > 50) ^ (rng.random(200) < 0.1)
    return table, np.where(chance, "yes", "no")


@pytest.mark.parametrize(
    "pair", [(), ("tan", "laplace"), (KDB(k=3), HDP()), ("naive", "hybrid(training__epochs=2)")]
)
def test_skops_needs_no_other_trust_than_ours(rows, pair):
    skops = pytest.importorskip("skops.io")
    from tanager.skops import trusted_types

    X, y = rows
    clf = BayesNetClassifier(*pair).fit(X, y)
    data = skops.dumps(clf)
    assert set(skops.get_untrusted_types(data=data)) <= set(trusted_types())
    again = skops.loads(data, trusted=trusted_types())
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_mlflow_serves_what_the_classifier_predicts(rows, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    pd = pytest.importorskip("pandas")
    import tanager.mlflow

    X, y = rows
    frame = pd.DataFrame(X)
    clf = BayesNetClassifier("tan", "m-estimate").fit(frame, y)
    tanager.mlflow.save_model(clf, tmp_path / "churn")
    served = mlflow.pyfunc.load_model(str(tmp_path / "churn"))
    found = served.predict(frame)
    assert found["prediction"].tolist() == clf.predict(frame).tolist()
    assert np.array_equal(found[["p_no", "p_yes"]].to_numpy(), clf.predict_proba(frame))
    again = tanager.mlflow.load_model(tmp_path / "churn")
    assert np.array_equal(again.predict_proba(frame), clf.predict_proba(frame))
    with pytest.raises(DataError, match="lacks the column"):
        served.predict(frame.drop(columns="job"))


def test_mlflow_logs_a_model_to_a_run(rows, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    import tanager.mlflow

    X, y = rows
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    clf = BayesNetClassifier("naive", "laplace").fit(X, y)
    with mlflow.start_run():
        info = tanager.mlflow.log_model(clf, "churn")
    again = tanager.mlflow.load_model(info.model_uri)
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_callbacks_are_told_of_a_fit(rows):
    pytest.importorskip("sklearn.callback")
    from sklearn.model_selection import GridSearchCV

    class Watcher:
        max_propagation_depth = None

        def __init__(self):
            self.told = []

        def setup(self, estimator, context):
            self.told.append("setup")

        def on_fit_task_begin(self, estimator, context, *, X=None):
            self.told.append(("begin", type(estimator).__name__))

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None:
                self.told.append(("end", fitted_estimator.predict([["nurse", 60, 30.0, True]])[0]))

        def teardown(self, estimator, context):
            self.told.append("teardown")

    X, y = rows
    table = [list(row) for row in zip(*X.values(), strict=True)]
    watcher = Watcher()
    clf = BayesNetClassifier("naive", "laplace").set_callbacks(watcher)
    clf.fit(table, y)
    assert watcher.told == ["setup", ("begin", "BayesNetClassifier"), ("end", "yes"), "teardown"]
    watcher = Watcher()
    search = GridSearchCV(BayesNetClassifier("naive"), {"parameters": ["laplace", "ml"]}, cv=2)
    search.set_callbacks(watcher).fit(np.array(table, dtype=object), y)
    assert watcher.told.count(("begin", "BayesNetClassifier")) >= 4
