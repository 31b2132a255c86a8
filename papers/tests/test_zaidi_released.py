"""The gradients of the forms that the page on Zaidi et al. (2017) compares."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import check_grad

from tanager.evaluation import Dataset
from tanager_papers import zaidi_released
from tanager_papers.workbench import Workbench


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 60)
    columns = {f"x{i}": ((labels + rng.integers(0, 2, 60)) % (2 + i)).astype(str) for i in (0, 1)}
    table = pa.table({**columns, "class": labels.astype(str)})
    return Dataset("made", table), zaidi_released._indicators(Dataset("made", table))


@pytest.mark.parametrize("kind", ["w", "d", "e"])
def test_gradients_of_the_published_forms_are_those_of_their_objectives(data, kind):
    evaluate = zaidi_released.objective(data[1], kind)
    weights = np.random.default_rng(1).normal(size=3 * (1 + data[1].rows.shape[1]))
    error = check_grad(lambda w: evaluate(w)[0], lambda w: evaluate(w)[1], weights)
    assert error < 1e-4 * np.linalg.norm(evaluate(weights)[1])


def test_the_released_form_has_the_direct_objective_and_no_gradient_of_it(data):
    weights = np.random.default_rng(1).normal(size=3 * (1 + data[1].rows.shape[1]))
    direct, released = (zaidi_released.objective(data[1], kind)(weights) for kind in
                        ("d", "released"))  # fmt: skip
    assert released[0] == direct[0]
    ratio = released[1][3:] / direct[1][3:]
    assert (ratio > 1).all()
    assert (ratio < 2).all()


def test_the_tables_are_those_of_naive_bayes(data):
    log_prior, log_tables = data[1].tables()
    assert np.exp(log_prior).sum() == pytest.approx(1)
    sums = np.add.reduceat(np.exp(log_tables), data[1].starts[:-1], axis=0)
    assert sums == pytest.approx(1)
    # All forms start at the same probabilities, and end at the same optimum or above it.
    courses = {k: zaidi_released.descend(data[1], k, "generative")[0] for k in ("w", "d", "e")}
    assert np.ptp([course[0] for course in courses.values()]) < 1e-9
    assert np.ptp([course[-1] for course in courses.values()]) < 0.05


def test_the_comparison_is_kept_and_read_back(data, tmp_path):
    bench = Workbench(None, tmp_path, quick=True, n_rows={"made": 60})
    block = zaidi_released.released_block(bench, [data[0]])
    assert len(block.rows) == 6
    late = Workbench(None, tmp_path, quick=True, n_rows={"made": 60}, until=0.0)
    assert zaidi_released.released_block(late, [data[0]]).rows == block.rows
