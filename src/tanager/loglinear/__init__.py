"""Scores that add up over features and small groups of them, fitted to P(y | x).

The score of a class is a sum of one number a family: of a feature alone, or of
a feature and its parents. In ordered features neighbouring values have similar
scores. What is fitted is the conditional likelihood with a Gaussian prior.
"""

from tanager.loglinear.cells import Terms, by_class
from tanager.loglinear.curves import basis
from tanager.loglinear.joining import Columns
from tanager.loglinear.objective import Fit, Settings, fit_scores
from tanager.loglinear.rows import LocatedTerms
from tanager.loglinear.steps import Signs, can_hold

__all__ = [
    "Columns",
    "Fit",
    "LocatedTerms",
    "Settings",
    "Signs",
    "Terms",
    "basis",
    "by_class",
    "can_hold",
    "fit_scores",
]
