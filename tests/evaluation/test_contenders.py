from __future__ import annotations

import pytest

from tanager.errors import ConfigurationError
from tanager.evaluation.contenders import ALIASES, Contender


def test_a_slash_in_quotes_does_not_separate():
    contender = Contender.of("differentiable(candidates='a/b')/hybrid")
    assert contender.pair == ("differentiable(candidates='a/b')", "hybrid")


def test_alias_options_override():
    estimator = Contender.of("random-forest(n_estimators=7)").build(3)
    assert estimator.estimator.n_estimators == 7
    assert estimator.estimator.n_jobs == 1
    assert estimator.estimator.random_state == 3


@pytest.mark.parametrize(
    "alias", [a for a in ALIASES if a not in ("xgboost", "lightgbm", "catboost")]
)
def test_aliases_build(alias):
    assert hasattr(Contender.of(alias).build(0), "predict_proba")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("forest", "random-forest"),
        ("sklearn.svm.SVC@binary", "native, binned, codes, frame"),
        ("sklearn.svm.Nothing", "cannot import"),
        ("sklearn.preprocessing.StandardScaler", "not a classifier"),
    ],
)
def test_unknown_classifiers_are_refused(use, message):
    with pytest.raises(ConfigurationError, match=message):
        Contender.of(use).build(0)


@pytest.mark.parametrize("option", ["engine", "checkpoint", "n_jobs", "memory_limit", "colour"])
def test_a_contender_has_no_say_in_where_it_runs(option):
    with pytest.raises(ConfigurationError, match=f"option '{option}' is not allowed"):
        Contender("name", "tan/hdp", {option: "dask"})
