"""Traces and optima of an independent implementation (CCBN of Zaidi et al. 2017)."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tanager.codes import Domain, Rows
from tanager.loglinear import optimiser
from tanager.parameters import Discriminative
from tanager.structure import Structure
from tests.parameters.discriminative.problems import Plain, learn

FORMS = {"d": "direct", "e": "extended", "w": "weighted"}
INITS = {"zero": "zero", "map": "generative"}

pytestmark = pytest.mark.shared


def load(shared, name):
    reference = json.loads((shared / "reference" / "ccbn" / "traces.json").read_text())[name]
    table = pq.read_table(shared / "data" / f"{name}.parquet")
    codes = []
    for column in table.columns:
        values = np.array([str(v) for v in column.to_pylist()])
        codes.append(np.unique(values, return_inverse=True)[1])
    domain = Domain(tuple(table.column_names[:-1]), np.array(reference["card"]), reference["nc"])
    rows = Rows.in_memory(domain, np.array(codes[:-1], np.uint8), codes[-1].astype(np.uint16))
    return reference, rows


def structure_of(rows, parents):
    return Structure.from_parents(rows.domain.names, [() if p < 0 else (p,) for p in parents])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("name", ["car", "nursery", "mushroom"])
def test_first_iterations(shared, name, init, form, monkeypatch):
    monkeypatch.setattr(optimiser, "REMEMBERED", 5)  # as in the authors' program
    reference, rows = load(shared, name)
    for found in reference["structures"].values():
        learner = Discriminative(FORMS[form], init=INITS[init], base=Plain(), tol=0.0, max_iter=10)
        with pytest.warns(UserWarning, match="did not converge"):
            _, info = learn(learner, rows, structure_of(rows, found["parents"]))
        run = found["runs"][f"{form}_{init}"]["nll_at"]
        assert info["loss"][0] == pytest.approx(run["0"], rel=1e-9)
        for iteration, nll in run.items():
            if int(iteration) <= 10:
                # Slopes are sums on a grid of 2^-37 here: a billionth of a nat is below it.
                found_nll = info["loss"][int(iteration)]
                assert found_nll == pytest.approx(nll, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("form", ["d", "e", "w"])
@pytest.mark.parametrize("structure", ["NB", "TAN", "KDB1"])
def test_optimum(shared, structure, form):
    reference, rows = load(shared, "car")
    found = reference["structures"][structure]
    learner = Discriminative(FORMS[form], base=Plain(), tol=1e-13)
    _, info = learn(learner, rows, structure_of(rows, found["parents"]))
    assert info["converged"]
    assert info["loss"][-1] == pytest.approx(found["optimum_nll_best_found"], rel=1e-5)
