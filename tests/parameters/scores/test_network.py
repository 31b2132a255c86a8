"""P(x) of trained scores: fitted to the rows, without a change of the posterior."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.parameters import DenseTable, Discriminative, MEstimate, Tables
from tanager.parameters.proper_network import family_shares, renormalise, to_network
from tests.parameters.discriminative.problems import learn, make_rows, make_structure, posterior

MORAL = ["naive", "tree", "clique"]


def random_scores(rows, structure, seed):
    rng = np.random.default_rng(seed)
    arities, n_classes = rows.domain.arities, rows.domain.n_classes
    families = tuple(
        DenseTable(rng.normal(size=(*arities[list(parents)], arities[at], n_classes)))
        for at, parents in enumerate(structure.parent_indices)
    )
    return Tables(rng.normal(size=n_classes), families, normalized=False)


def every_row(rows):
    return np.array(list(product(*map(range, rows.domain.arities))), np.uint8).T.copy()


def joint(tables, structure, rows):
    """P(x, y) of every possible row, (n, n_classes)."""
    return np.exp(tables.log_joint(structure, every_row(rows), rows.domain.arities))


def shares_of(structure, tables):
    logs = [table.to_dense().log_prob for table in tables.families]
    return family_shares(structure, logs, tables.log_prior)


@pytest.mark.parametrize("name", MORAL)
def test_shares_are_the_sums_over_all_rows(name):
    rows = make_rows(1)
    structure = make_structure(rows, name)
    tables = renormalise(structure, random_scores(rows, structure, 0))
    whole, cells = joint(tables, structure, rows), every_row(rows)
    for at, shares in enumerate(shares_of(structure, tables)):
        members = (*structure.parent_indices[at], structure.selected[at])
        expected = np.zeros(shares.shape)
        np.add.at(expected, tuple(cells[list(members)]), whole)
        np.testing.assert_allclose(shares, expected, atol=1e-12)


@pytest.mark.parametrize("name", MORAL)
def test_posterior_stays_and_shares_become_the_goal(name):
    rows = make_rows(2, 500)
    structure = make_structure(rows, name)
    scores = random_scores(rows, structure, 1)
    goal, _ = learn(MEstimate(m=1.0), rows, structure)
    fitted = to_network(structure, scores, goal)
    assert fitted.normalized
    before, after = posterior(scores, structure, rows), posterior(fitted, structure, rows)
    np.testing.assert_allclose(after, before, atol=1e-9)
    found, wanted = shares_of(structure, fitted), shares_of(structure, goal)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.sum(axis=-1), other.sum(axis=-1), atol=1e-3)


def test_rows_become_more_probable():
    rows = make_rows(3, 400)
    structure = make_structure(rows, "tree")
    scores, goal = random_scores(rows, structure, 2), learn(MEstimate(m=1.0), rows, structure)[0]
    codes = rows.gather().codes

    def log_likelihood(tables):
        return np.logaddexp.reduce(
            tables.log_joint(structure, codes, rows.domain.arities), axis=1
        ).sum()

    plain, fitted = renormalise(structure, scores), to_network(structure, scores, goal)
    assert log_likelihood(fitted) > log_likelihood(plain) + 1.0


@pytest.mark.parametrize("parameters", [Discriminative(l2=0.1), "layered"])
def test_with_nothing_known_the_classes_have_their_frequencies(parameters):
    rng = np.random.default_rng(0)
    y = rng.choice(3, 2000, p=[0.7, 0.2, 0.1])
    X = np.stack([(y + (rng.random(2000) < 0.3) * rng.integers(0, 3, 2000)) % 3 for _ in "abcd"], 1)
    clf = BayesNetClassifier("tan", parameters, categorical_features="all", missing="marginalize")
    frame = X.astype(object)
    clf.fit(frame, y)
    nothing = clf.predict_proba(np.full((1, 4), None, object))[0]
    np.testing.assert_allclose(nothing, np.bincount(y) / 2000, atol=0.02)
