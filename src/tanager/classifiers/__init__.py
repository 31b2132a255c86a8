"""The scikit-learn estimator."""

from tanager.classifiers.bayesnet import BayesNetClassifier
from tanager.classifiers.files import load, save

__all__ = ["BayesNetClassifier", "load", "save"]
