"""Programs that keep classifiers: skops."""

import numpy as np
import pytest

from tanager import BayesNetClassifier
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
