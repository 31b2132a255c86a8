"""Learners that add rows to counts: their variances and the parameters they refuse."""

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.counts import FamilyCounts
from tanager.errors import ConfigurationError
from tanager.parameters import DFE, HDP, Friedman, Laplace, MaximumLikelihood, MEstimate


@pytest.mark.parametrize(
    ("learner", "added"),
    [
        (Friedman(n0=6.0), lambda marginal: 6.0 * marginal),
        (Laplace(alpha=2.0), lambda marginal: np.full_like(marginal, 2.0)),
        (MEstimate(m=6.0), lambda marginal: np.full_like(marginal, 3.0)),
        (MaximumLikelihood(), lambda marginal: np.full_like(marginal, 0.5)),
    ],
)
def test_variances_are_those_of_a_dirichlet_with_the_added_rows(learner, added):
    counts = np.array([[30.0, 2.0], [10.0, 58.0]])  # (class, value)
    rows = counts + added(counts.sum(axis=0) / counts.sum())
    share = rows / rows.sum(axis=1, keepdims=True)
    found = learner.spread(FamilyCounts.from_dense(counts).tree()).log_prob.T
    np.testing.assert_allclose(found, (1.0 - share) / (rows + share), rtol=1e-9)


@pytest.mark.parametrize(
    "learner",
    [
        DFE(m="a"),
        DFE(n_passes="two"),
        Friedman(n0=None),
        HDP(class_rate="a"),
        HDP(max_sweeps="many"),
        HDP(shape="a"),
        HDP(tying="row"),
        Laplace(alpha=True),
        MaximumLikelihood(epsilon=np.inf),
        MEstimate(m="vc"),
    ],
    ids=str,
)
def test_parameters_of_the_wrong_kind_are_refused(learner):
    with pytest.raises(ConfigurationError, match=type(learner).__name__):
        BayesNetClassifier("naive", learner).fit([["a"], ["b"]] * 20, [0, 1] * 20)
