"""Options of the wrong type are refused by name, and no size makes a learner run forever."""

from __future__ import annotations

from inspect import signature

import pytest

import tanager.parameters
import tanager.structure
from tanager import BayesNetClassifier
from tanager.cli.options import written_here
from tanager.errors import ConfigurationError
from tanager.losses import HybridMargin, Margin
from tanager.parameters import Hybrid
from tanager.structure import KDB, KTree, OrderBased, SelectiveKDB
from tanager.training import Training

X = [["a", "a", "u"], ["b", "b", "u"], ["a", "b", "v"], ["b", "a", "v"]] * 4
Y = [0, 0, 1, 1] * 4
WRONG = ("perhaps", [], {"x0": 3}, b"1", 3j)
LEARNERS = [
    (axis, getattr(package, name))
    for axis, package in (("structure", tanager.structure), ("parameters", tanager.parameters))
    for name in sorted(set(package.__all__))
    if hasattr(getattr(package, name), "learn") and not getattr(package, name).__abstractmethods__
]


def fit(axis, learner):
    given = {"structure": "tan", "parameters": "laplace"} | {axis: learner}
    return BayesNetClassifier(**given).fit(X, Y)


@pytest.mark.parametrize(
    ("axis", "learner"), LEARNERS, ids=lambda given: getattr(given, "__name__", given)
)
def test_values_of_another_type_are_refused(axis, learner):
    for option in signature(learner).parameters:
        for wrong in WRONG:
            with pytest.raises(ConfigurationError):
                fit(axis, learner(**{option: wrong}))


@pytest.mark.parametrize("option", signature(Training).parameters)
def test_values_of_another_type_are_refused_in_training(option):
    for wrong in WRONG:
        with pytest.raises(ConfigurationError, match=option):
            fit("parameters", Hybrid(training=Training(**{option: wrong})))


@pytest.mark.parametrize("loss", [Margin, HybridMargin])
def test_values_of_another_type_are_refused_in_losses(loss):
    for option in signature(loss).parameters:
        for wrong in WRONG:
            with pytest.raises(ConfigurationError, match=option):
                loss(**{option: wrong})


def test_a_text_is_no_flag():
    with pytest.raises(ConfigurationError, match=r"adjusted='no'. Allowed: True or False") as told:
        fit("structure", "tan(adjusted='no')")
    assert told.value.parameter == "adjusted"
    # The command line has no option of that name.
    assert written_here(told.value) == "TAN: adjusted='no'. Allowed: True or False."


@pytest.mark.parametrize(
    ("learner", "option"),
    [(KDB, "k"), (KTree, "max_parents"), (OrderBased, "max_parents"), (SelectiveKDB, "max_k")],
)
def test_more_parents_than_features_are_all_of_them(learner, option):
    most = fit("structure", learner(**{option: 2})).structure_
    assert fit("structure", learner(**{option: 10**30})).structure_ == most


def test_folds_beyond_a_byte_are_refused():
    with pytest.raises(ConfigurationError, match=r"n_folds=257. Allowed: None, or a whole number"):
        fit("structure", OrderBased(n_folds=257))
