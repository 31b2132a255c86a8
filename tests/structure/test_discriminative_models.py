"""Discriminative structures inside the whole classifier."""

from itertools import product

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.parameters import ACLLParameters, Discriminative, MEstimate
from tanager.structure import ACLL, TAN, Fixed, Greedy, OrderBased

STRUCTURES = [
    ACLL(),
    ACLL("uniform"),
    TAN("ear"),
    OrderBased(),
    OrderBased(max_parents=2),
    Greedy(),
]
PARAMETERS = ["ml", "laplace", MEstimate(m=1.0), "hdp", "acll", Discriminative(level=3, l2=0.1)]


def table(seed=0, n_rows=150):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    X = rng.integers(0, 3, (n_rows, 6))
    X[:, 1] = np.where(rng.random(n_rows) < 0.7, (X[:, 0] + y) % 3, X[:, 1])
    X[:, 3] = np.where(rng.random(n_rows) < 0.7, (X[:, 1] * X[:, 0] + y) % 3, X[:, 3])
    return X.astype(str), y


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_every_structure_takes_every_parameter_learner(structure, parameters):
    X, y = table()
    X = X.astype(object)
    X[::7, 2] = None
    clf = BayesNetClassifier(structure, parameters, missing="marginalize", random_state=0)
    p = clf.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(clf.predict(X) == y) > 0.5


@pytest.mark.parametrize(
    "structure",
    [OrderBased(max_parents=2, n_folds=0), OrderBased(max_parents=3, n_folds=0), ACLL()],
)
@pytest.mark.parametrize("parameters", ["m-estimate", ACLLParameters(pseudo_count=1.0)])
def test_missing_features_are_summed_out_exactly(structure, parameters):
    X, y = table(1)
    clf = BayesNetClassifier(structure, parameters, missing="marginalize").fit(X, y)
    assert clf.structure_.max_parents == getattr(structure, "max_parents", 1)
    rng = np.random.default_rng(2)
    for _ in range(30):
        row = X[rng.integers(len(X))].astype(object)
        hidden = rng.choice(6, rng.integers(1, 5), replace=False)
        filled = []
        for values in product("012", repeat=len(hidden)):
            full = row.copy()
            full[hidden] = values
            filled.append(full)
        joint = clf.predict_joint_log_proba(np.array(filled, object))
        row[hidden] = None
        found = clf.predict_joint_log_proba(row[None])
        np.testing.assert_allclose(found[0], np.logaddexp.reduce(joint, axis=0), atol=1e-10)


def synthetic(n_rows, seed):
    """Section 3 of Pernkopf and Bilmes (2008)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    x1 = rng.integers(0, 2, n_rows)
    x2 = np.where(rng.random(n_rows) < 0.5, x1, rng.integers(0, 2, n_rows))
    u = rng.random(n_rows)
    noise = rng.integers(0, 2, n_rows)
    x3 = np.where(u < 0.3, x1 ^ y, np.where(u < 0.8, x2, noise))
    return np.stack([x1, x2, x3], axis=1).astype(str), y


def true_accuracy(clf):
    """Accuracy under the distribution itself."""
    total = 0.0
    for x1, x2, x3 in product(range(2), repeat=3):
        guess = clf.predict(np.array([[x1, x2, x3]]).astype(str))[0]
        p2 = 0.5 * (x2 == x1) + 0.25
        total += 0.25 * p2 * (0.3 * (x3 == (x1 ^ guess)) + 0.5 * (x3 == x2) + 0.1)
    return total


def edges(clf):
    return {frozenset((i, p)) for i, ps in clf.structure_.parents.items() for p in ps}


@pytest.mark.parametrize("seed", range(4))
def test_from_a_large_sample_only_discriminative_structures_have_the_telling_edge(seed):
    X, y = synthetic(20_000, seed)
    telling = frozenset(("x0", "x2"))
    # No feature tells anything by itself, so chance decides which comes first; the edge is
    # found all the same. The residual also joins x1 and x2, which costs a little.
    for structure in ("order", TAN("ear")):
        clf = BayesNetClassifier(structure, "ml").fit(X, y)
        assert telling in edges(clf)
        assert true_accuracy(clf) >= 0.6125 - 1e-9
    for structure in (OrderBased(order=["x0", "x2", "x1"]), "greedy"):
        clf = BayesNetClassifier(structure, "ml").fit(X, y)
        assert telling in edges(clf)
        assert true_accuracy(clf) == pytest.approx(0.65)
    generative = BayesNetClassifier("tan", "ml").fit(X, y)
    assert edges(generative) == {frozenset(("x0", "x1")), frozenset(("x1", "x2"))}
    assert true_accuracy(generative) == pytest.approx(0.575)


def test_discriminative_parameters_do_not_rescue_the_generative_tree():
    X, y = synthetic(20_000, 0)
    for form in ("direct", "weighted", "extended"):
        clf = BayesNetClassifier("tan", Discriminative(form=form)).fit(X, y)
        assert true_accuracy(clf) <= 0.575 + 1e-9
    naive = BayesNetClassifier("naive", Discriminative(form="direct")).fit(X, y)
    assert true_accuracy(naive) == pytest.approx(0.5)
    best = BayesNetClassifier(Fixed({"x2": ["x0"]}), "ml").fit(X, y)
    assert true_accuracy(best) == pytest.approx(0.65)
