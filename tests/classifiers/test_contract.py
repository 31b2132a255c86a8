"""scikit-learn's own contract, over every structure and parameter learner."""

from __future__ import annotations

import os
from itertools import product

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tanager import BayesNetClassifier
from tanager.parameters import PARAMETERS
from tanager.structure import STRUCTURES

DRAWN = "rows are drawn (hold-out, mini-batch), and the copies of a repeated row drawn apart"
REASONS = {
    "dfe": "rows are visited in order, each updating the tables that the next one meets",
    "differentiable": DRAWN,
    "hybrid": DRAWN,
    "discriminative": "the optimiser stops within its tolerance: equal to 1e-5, not to 1e-7",
    "m-estimate": DRAWN,
    "ktree": "rows are dealt into folds, and the copies of a repeated row dealt apart",
    "layered": "rows are dealt into folds, and the copies of a repeated row dealt apart",
}


def expected_failures(estimator):
    """Return the checks that a pair may fail, each with its reason."""
    reasons = [
        REASONS[name] for name in (estimator.structure, estimator.parameters) if name in REASONS
    ]
    return {"check_sample_weight_equivalence_on_dense_data": reasons[0]} if reasons else {}


# Every structure once and every parameter learner once, and the pairs of the plain ones;
# TANAGER_ALL_PAIRS=1 runs the suite on all of them, which takes some minutes.
LEARNED = [name for name in STRUCTURES if name != "fixed"]
PLAIN = [(s, p) for s in ("naive", "tan", "kdb") for p in ("ml", "laplace", "m-estimate")]
SOME = {*PLAIN, *((s, "laplace") for s in LEARNED), *(("tan", p) for p in PARAMETERS)}
ALL = product(LEARNED, PARAMETERS)
PAIRS = sorted(ALL if os.environ.get("TANAGER_ALL_PAIRS") else SOME)


@parametrize_with_checks(
    [BayesNetClassifier(structure, parameters) for structure, parameters in PAIRS],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)
