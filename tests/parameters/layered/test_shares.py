"""How much each member of a pool counts."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from tanager.parameters.layered.members import PRECISION, Trial, fit_shares


def test_shares_have_the_right_gradient_and_are_the_optimum():
    rng = np.random.default_rng(0)
    logs = np.log(rng.dirichlet(np.ones(3), size=(4, 80)))
    labels, known = rng.integers(0, 3, 80).astype(np.uint16), np.log(rng.dirichlet(np.ones(3), 80))
    trial = Trial(labels, rng.random(80), known)
    start = rng.random(4)
    gap = check_grad(
        lambda a: trial.pool_loss(logs, a)[0], lambda a: trial.pool_loss(logs, a)[1], start
    )
    assert gap < 1e-4
    shares = fit_shares(trial, logs)
    slopes = trial.pool_loss(logs, shares)[1] + PRECISION * (shares - 0.25)
    free = shares > 0
    assert (shares >= 0).all()
    np.testing.assert_allclose(slopes[free], 0.0, atol=1e-3)
    assert (slopes[~free] >= -1e-3).all()


def test_shares_go_to_the_member_that_predicts():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 4000).astype(np.uint16)
    good = np.full((4000, 2), 0.2)
    good[np.arange(4000), np.where(rng.random(4000) < 0.8, labels, 1 - labels)] = 0.8
    noise = rng.dirichlet(np.ones(2), 4000)
    even = np.full((4000, 2), np.log(0.5))
    shares = fit_shares(Trial(labels, np.ones(4000), even), np.log([good, noise]))
    # Alone and calibrated, a member has share 1; the prior around 1/2 holds it back a little.
    assert shares[0] == pytest.approx(0.97, abs=0.06)
    assert shares[1] < 0.1


def test_members_that_know_less_than_the_class_shares_are_shrunk_towards_them():
    rng = np.random.default_rng(2)
    labels = (rng.random(300) < 0.1).astype(np.uint16)
    known = np.tile(np.log([0.9, 0.1]), (300, 1))
    wild = rng.normal(size=(300, 2)) * 20  # sure of noise
    wild -= np.logaddexp.reduce(wild, axis=1, keepdims=True)
    trial, said = Trial(labels, np.ones(300), known), np.stack([wild, wild[::-1]])
    shares = fit_shares(trial, said)
    alone = trial.pool_loss(said, np.zeros(2))[0]
    assert alone == pytest.approx(-known[np.arange(300), labels].sum())
    assert trial.pool_loss(said, shares)[0] <= alone
    assert trial.pool_loss(said, np.full(2, 0.5))[0] > 2 * alone
