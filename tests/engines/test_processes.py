"""The contract for clusters: every learner's passes run in other processes, bit for bit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tanager import BayesNetClassifier
from tanager.parameters import PARAMETERS
from tanager.structure import STRUCTURES
from tests.engines.processes import ProcessEngine

# Options that keep the slow learners short; every other learner has its defaults.
STRUCTURE_OPTIONS = {
    "differentiable": "differentiable(training__epochs=2)",
    "fixed": None,  # wants a graph, reads nothing
    "skdb": "skdb(max_k=2)",
}
PARAMETER_OPTIONS = {"hybrid": "hybrid(training__epochs=2)"}


def make_table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return pa.table(
        {
            "a": pa.array([None if v == 3 else f"v{v}" for v in (y + rng.integers(0, 2, n))]),
            "b": rng.integers(0, 40, n) + 9 * y,
            "c": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + y),
            "d": (y == 1) ^ (rng.random(n) < 0.2),
            "y": [f"class {k}" for k in y],
            "w": rng.choice([0.0, 0.5, 2.0], n),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("table")
    for part in range(4):
        pq.write_table(make_table().slice(60 * part, 60), place / f"{part}.parquet")
    return place


@pytest.fixture(scope="module")
def engine():
    with ProcessEngine() as one:
        yield one


def contents(classifier):
    """Return a model's file without what was measured of the fit (seconds, memory)."""
    network = classifier.network_
    tables = network.tables
    return network.codebook.to_dict(), network.structure, tables


def assert_same_model(folder, engine, structure, parameters):
    weights = {"y": "y", "sample_weight": "w"}
    here = BayesNetClassifier(structure, parameters, random_state=3).fit(folder, **weights)
    there = BayesNetClassifier(structure, parameters, engine=engine, random_state=3)
    there.fit(folder, **weights)
    for one, other in zip(contents(here), contents(there), strict=True):
        assert one == other
    X = make_table(seed=1).drop_columns(["y", "w"])
    assert np.array_equal(here.predict_proba(X), there.predict_proba(X))


@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_structures_are_learned_in_other_processes(folder, engine, name):
    structure = STRUCTURE_OPTIONS.get(name, name)
    if structure is None:
        pytest.skip("learns nothing from rows")
    assert_same_model(folder, engine, structure, "laplace")


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_parameters_are_learned_in_other_processes(folder, engine, name):
    assert_same_model(folder, engine, "tan", PARAMETER_OPTIONS.get(name, name))
