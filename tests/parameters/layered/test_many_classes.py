"""Many classes: what a fit holds at once stays small, and beyond the limit it's refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.errors import MemoryBoundError
from tanager.loglinear.optimiser import LEAST_REMEMBERED, MOST_NUMBERS, REMEMBERED, minimise


def make_rows(n_classes, n_features=4):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 2)
    centres = rng.normal(size=(n_classes, n_features))
    return centres[y] + 0.5 * rng.normal(size=(len(y), n_features)), y


@pytest.mark.parametrize(
    ("size", "most"), [(50, REMEMBERED), (MOST_NUMBERS // (2 * LEAST_REMEMBERED), LEAST_REMEMBERED)]
)
def test_a_descent_of_very_many_parameters_remembers_fewer_steps(size, most):
    steep = np.geomspace(1.0, 300.0, size)
    found = minimise(
        lambda x: (float(steep @ x**2), 2.0 * steep * x), np.ones(size), max_iter=15, tol=0.0
    )
    assert found.value < 1e-2 * steep.sum()
    assert len(found.curvature.steps) == most


@pytest.mark.filterwarnings("ignore:.*looks like an identifier")
def test_a_fit_of_many_classes_holds_few_copies_of_its_tables():
    X, y = make_rows(400)
    tracemalloc.start()
    try:
        BayesNetClassifier(random_state=0).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 250 << 20


@pytest.mark.filterwarnings("ignore:.*looks like an identifier")
def test_classes_beyond_the_memory_limit_are_refused_in_words():
    X, y = make_rows(700)
    told = r"of memory_limit; the table of 'x\d' .* Raise memory_limit, .* of the 700 classes"
    with pytest.raises(MemoryBoundError, match=told):
        BayesNetClassifier(random_state=0, memory_limit="1MB").fit(X, y)


def test_predictions_of_held_out_rows_count_against_the_memory_limit():
    rng = np.random.default_rng(0)
    y = np.arange(2_000) % 500
    X = (y[:, None] * [1, 2, 3] + rng.integers(0, 3, (2_000, 3))) % 5
    told = r"The tables and held-out predictions take \d+ MiB .* beyond the 67 MiB of memory_limit"
    with pytest.raises(MemoryBoundError, match=told):
        BayesNetClassifier(categorical_features="all", memory_limit="70MB").fit(X, y)
