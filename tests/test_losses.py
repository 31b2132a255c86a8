"""Losses: values by hand, gradients by finite differences, limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.errors import ConfigurationError
from tanager.losses import (
    ConditionalLogLikelihood,
    HybridMargin,
    Margin,
    NegativeLogLikelihood,
    resolve_loss,
)

LOSSES = [
    NegativeLogLikelihood(),
    ConditionalLogLikelihood(),
    Margin(gamma=2.0, eta=1.0),
    Margin(gamma=0.5, eta=10.0),
    HybridMargin(lambda_=7.0, gamma=1.5, eta=3.0),
]


def numeric_gradient(loss, log_joint, y, step=1e-6):
    gradient = np.zeros_like(log_joint)
    for at in np.ndindex(*log_joint.shape):
        moved = log_joint.copy()
        moved[at] += step
        above = loss(moved, y)[0]
        moved[at] -= 2 * step
        gradient[at] = (above - loss(moved, y)[0]) / (2 * step)
    return gradient


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(2, 6))
def test_gradient_is_the_derivative_of_the_value(loss, seed, n_classes):
    rng = np.random.default_rng(seed)
    log_joint = rng.normal(-5.0, 2.0, (7, n_classes))
    y = rng.integers(0, n_classes, 7)
    before = log_joint.copy()
    value, gradient = loss(log_joint, y)
    assert np.array_equal(log_joint, before)
    if isinstance(loss, Margin | HybridMargin):  # not differentiable at the hinge itself
        shortfall = Margin(loss.gamma, loss.eta).rows(log_joint, y)[0]
        if np.any((shortfall > 0) & (shortfall < 1e-4)):
            return
    np.testing.assert_allclose(gradient, numeric_gradient(loss, log_joint, y), atol=1e-7)
    values, gradients = loss.rows(log_joint, y)
    assert value == pytest.approx(values.mean())
    np.testing.assert_allclose(gradient, gradients / 7)


def test_margin_spells_out_equation_six_and_seven():
    log_joint = np.log([[0.3, 0.1, 0.2], [0.1, 0.5, 0.05]])
    y = np.array([0, 2])
    eta, gamma = 4.0, 1.0
    expected = []
    for row, t in zip(log_joint, y, strict=True):
        rivals = [eta * (gamma - row[t] + row[c]) for c in range(3) if c != t]
        expected.append(max(0.0, np.log(np.sum(np.exp(rivals))) / eta))
    np.testing.assert_allclose(Margin(gamma, eta).rows(log_joint, y)[0], expected)


def test_a_sharp_margin_is_the_hard_one():
    rng = np.random.default_rng(3)
    log_joint = rng.normal(size=(50, 5))
    y = rng.integers(0, 5, 50)
    rivals = log_joint.copy()
    rivals[np.arange(50), y] = -np.inf
    hard = np.maximum(0.0, 1.0 - log_joint[np.arange(50), y] + rivals.max(axis=1))
    np.testing.assert_allclose(Margin(1.0, 1e5).rows(log_joint, y)[0], hard, atol=1e-4)


def test_hybrid_is_the_weighted_sum_of_its_parts():
    rng = np.random.default_rng(4)
    log_joint, y = rng.normal(size=(9, 4)), rng.integers(0, 4, 9)
    value, gradient = HybridMargin(3.0, 2.0, 5.0)(log_joint, y)
    generative, margin = NegativeLogLikelihood()(log_joint, y), Margin(2.0, 5.0)(log_joint, y)
    assert value == pytest.approx(generative[0] + 3.0 * margin[0])
    np.testing.assert_allclose(gradient, generative[1] + 3.0 * margin[1])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_one_class_and_far_log_joints_stay_finite(loss):
    y = np.zeros(2, np.int64)
    for log_joint in (np.array([[-1.0], [-3.0]]), np.array([[-2000.0, 0.0], [0.0, -2000.0]])):
        value, gradient = loss(log_joint, y)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def test_names_resolve_and_mistakes_are_told():
    assert resolve_loss("hybrid") == HybridMargin()
    assert resolve_loss("cll") == ConditionalLogLikelihood()
    custom = lambda log_joint, y: (0.0, np.zeros_like(log_joint))  # noqa: E731
    assert resolve_loss(custom) is custom
    with pytest.raises(ConfigurationError, match="'nll', 'cll', 'margin', 'hybrid'"):
        resolve_loss("hinge")
    with pytest.raises(ConfigurationError, match="gamma=0"):
        Margin(gamma=0)
    with pytest.raises(ConfigurationError, match=r"eta=0\.5"):
        HybridMargin(eta=0.5)
    with pytest.raises(ConfigurationError, match="lambda_=-1"):
        HybridMargin(lambda_=-1)
