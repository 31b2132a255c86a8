"""The plot of a training shows what the trace holds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.parameters import Hybrid
from tanager.structure import Differentiable
from tanager.training import Training
from tanager_papers.training import plot_training


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (200, 4)).astype(str)
    y = rng.integers(0, 2, 200)
    structure = Differentiable("all", training=Training(epochs=4))
    parameters = Hybrid(joint="restart", training=Training(epochs=3))
    return BayesNetClassifier(structure, parameters, random_state=0).fit(x, y)


def test_a_search_has_two_panels_with_their_curves(fitted):
    info = fitted.info_["structure"]
    figure = plot_training(info)
    assert len(figure.axes) == 4
    curves = [line.get_ydata() for axis in figure.axes for line in axis.lines]
    for name in ("loss", "accuracy", "entropy", "temperature"):
        assert any(np.array_equal(curve, info["trace"][name]) for curve in curves)


def test_tables_alone_have_one_panel(fitted):
    figure = plot_training(fitted.info_["parameters"])
    assert len(figure.axes) == 2
    assert len(figure.axes[0].lines[0].get_ydata()) == 3


def test_a_classifier_is_drawn_by_its_search_or_else_its_tables(fitted):
    assert len(plot_training(fitted).axes) == 4
    tables = Hybrid(training=Training(epochs=2))
    X, y = [["a", "b"], ["b", "b"], ["a", "a"]] * 20, [0, 1, 0] * 20
    assert len(plot_training(BayesNetClassifier("naive", tables).fit(X, y)).axes) == 2
    counted = BayesNetClassifier("naive", "laplace").fit(X, y)
    for given in (counted, counted.network_):
        with pytest.raises(ConfigurationError, match="no training by gradient"):
            plot_training(given)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        plot_training(BayesNetClassifier())


def test_a_record_without_training_is_told():
    with pytest.raises(ConfigurationError, match="no training by gradient"):
        plot_training({"seconds": 1.0})
