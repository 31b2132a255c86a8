"""The scikit-learn estimator."""

from tanager.classifiers.bayesnet import BayesNetClassifier

__all__ = ["BayesNetClassifier"]
