"""Families packed for one kernel call, against the same families one by one."""

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.parameters.tables import family_members


@pytest.mark.parametrize(
    ("structure", "parameters"), [("kdb(k=3)", "hdp"), ("auto", "layered"), ("naive", "laplace")]
)
def test_terms_are_those_of_each_family_by_itself(structure, parameters):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 12, (400, 4)), rng.normal(size=(400, 3))])
    y = (X[:, 0] + X[:, 4] + X[:, 1] * X[:, 2] > 30).astype(int)
    network = BayesNetClassifier(structure, parameters).fit(X, y).network_
    arities = network.codebook.domain.arities
    codes = network.codebook.encode(X[:50])
    codes[2, ::7] = arities[2]  # unknown
    found = network.tables.terms(network.structure, codes, arities)
    for at, table in enumerate(network.tables.families):
        wanted = np.zeros((50, 2))
        table.add_terms(codes, arities, family_members(network.structure, at), wanted)
        assert np.array_equal(found[:, at], wanted)
