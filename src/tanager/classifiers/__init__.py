"""The scikit-learn estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanager.registry import lazy_exports

if TYPE_CHECKING:
    from tanager.classifiers.bayesnet import BayesNetClassifier
    from tanager.classifiers.files import load, read_network, save

# Imported on first use: scoring rows with a network needs neither the estimator nor
# scikit-learn, which takes longer to import than everything else.
_HOMES = {
    "BayesNetClassifier": "tanager.classifiers.bayesnet",
    "load": "tanager.classifiers.files",
    "read_network": "tanager.classifiers.files",
    "save": "tanager.classifiers.files",
}

__all__ = ["BayesNetClassifier", "load", "read_network", "save"]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
