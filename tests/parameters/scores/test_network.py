"""P(x) of trained scores: fitted to the rows, without a change of the posterior."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest

from tanager import BayesNetClassifier
from tanager.parameters import DenseTable, Discriminative, MEstimate, Tables, proper_network
from tanager.parameters.proper_network import (
    ClassShares,
    FamilyLayout,
    family_shares,
    fit_inputs,
    renormalise,
    to_network,
)
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


def class_shares(rows):
    chunk, arities = rows.gather(), rows.domain.arities
    values = [np.zeros((arity, rows.domain.n_classes)) for arity in arities]
    for codes, share in zip(chunk.codes, values, strict=True):
        np.add.at(share, (codes, chunk.labels), 1.0 / chunk.n_rows)
    return ClassShares(values[0].sum(axis=0), values, float(chunk.n_rows))


@pytest.mark.parametrize("name", MORAL)
def test_slopes_of_the_class_terms_are_finite_differences(name):
    rows = make_rows(4, 300)
    structure, observed = make_structure(rows, name), class_shares(rows)
    scores = random_scores(rows, structure, 3)
    start = [table.to_dense().log_prob for table in scores.families]

    def loss(logs):
        layout = FamilyLayout(structure, [log.shape for log in logs])
        found, slopes = layout.class_loss(
            layout.share(layout.join(logs), scores.log_prior), observed
        )
        return found, layout.split(slopes)

    value, slopes = loss(start)
    # By the definition: sums over all rows.
    whole, cells = joint(renormalise(structure, scores), structure, rows), every_row(rows)
    expected = -proper_network.CLASS_WEIGHT * (observed.classes * np.log(whole.sum(axis=0))).sum()
    for feature, share in enumerate(observed.values):
        own = np.zeros(share.shape)
        np.add.at(own, cells[feature], whole)
        said = np.log(own / own.sum(axis=1, keepdims=True))
        expected -= proper_network.VALUE_WEIGHT / len(observed.values) * (share * said).sum()
    assert value == pytest.approx(expected)
    rng = np.random.default_rng(0)
    for at, slope in enumerate(slopes):
        step = rng.normal(size=slope.shape)
        ends = [
            loss([*start[:at], start[at] + e * step, *start[at + 1 :]])[0] for e in (1e-5, -1e-5)
        ]
        assert (slope * step).sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


def test_missed_counts_predictions_outside_their_intervals():
    rows = make_rows(4, 300)
    structure, observed = make_structure(rows, "tree"), class_shares(rows)
    scores = random_scores(rows, structure, 3)
    logs = [table.to_dense().log_prob for table in scores.families]
    layout = FamilyLayout(structure, [log.shape for log in logs])
    found = layout.share(layout.join(logs), scores.log_prior)
    whole, cells = joint(renormalise(structure, scores), structure, rows), every_row(rows)
    outside = []
    for feature, share in enumerate(observed.values):
        own = np.zeros(share.shape)
        np.add.at(own, cells[feature], whole)
        for said, known in zip(own / own.sum(axis=1, keepdims=True), 300 * share, strict=True):
            n = known.sum()
            if n >= 30:
                for p, k in zip(said, known, strict=True):
                    interval = binomtest(round(k), round(n)).proportion_ci(0.95, "wilson")
                    outside.append(not interval.low <= p <= interval.high)
    assert 0 < sum(outside) < len(outside)
    assert layout.missed(found, observed) == pytest.approx(np.mean(outside))


def test_classes_weigh_more_where_predictions_miss_the_counts(monkeypatch):
    rows = make_rows(5, 500)
    structure, observed = make_structure(rows, "tree"), class_shares(rows)
    scores = random_scores(rows, structure, 4)
    logs = [table.to_dense().log_prob for table in scores.families]
    wanted = [
        part.sum(axis=-1)
        for part in shares_of(structure, learn(MEstimate(m=1.0), rows, structure)[0])
    ]
    layout = FamilyLayout(structure, [log.shape for log in logs])

    def class_loss(factors, *missed):
        told = iter(missed)
        monkeypatch.setattr(proper_network, "CLASS_FACTORS", factors)
        monkeypatch.setattr(FamilyLayout, "missed", lambda *_: next(told))
        tables, prior = fit_inputs(structure, logs, scores.log_prior, wanted, observed)
        return layout.class_loss(layout.share(layout.join(tables), prior), observed)[0]

    once = class_loss((1.0,), 0.5)
    assert class_loss((1.0, 10.0), 0.04) == once  # few are missed
    assert class_loss((1.0, 10.0), 0.5, 0.3) == once  # hardly fewer are
    assert class_loss((1.0, 10.0), 0.5, 0.2) < once - 1e-3


@pytest.mark.parametrize("name", MORAL)
def test_the_class_has_its_shares_with_nothing_and_one_thing_known(name):
    rows = make_rows(5, 500)
    structure, observed = make_structure(rows, name), class_shares(rows)
    scores = random_scores(rows, structure, 4)
    logs = [2.0 * table.to_dense().log_prob for table in scores.families]  # sharp ones
    wanted = [
        part.sum(axis=-1)
        for part in shares_of(structure, learn(MEstimate(m=1.0), rows, structure)[0])
    ]
    off, value_loss = [], []
    for told in (None, observed):
        tables, prior = fit_inputs(structure, logs, scores.log_prior, wanted, told)
        fitted = Tables(prior, tuple(map(DenseTable, tables)), normalized=True)
        given = Tables(scores.log_prior, tuple(map(DenseTable, logs)), normalized=False)
        before, after = posterior(given, structure, rows), posterior(fitted, structure, rows)
        np.testing.assert_allclose(after, before, atol=1e-9)
        off.append(np.abs(np.exp(prior) - observed.classes).sum() / 2)
        shares = family_shares(structure, tables, prior)
        singles = [share.reshape(-1, *share.shape[-2:]).sum(axis=0) for share in shares]
        said = [np.log(own / own.sum(axis=1, keepdims=True)) for own in singles]
        value_loss.append(-sum((v * s).sum() for v, s in zip(observed.values, said, strict=True)))
    assert off[1] < off[0] / 5
    assert value_loss[1] < value_loss[0]


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
