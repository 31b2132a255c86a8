"""Bayesian network classifiers: calibrated, explainable probabilities from any table."""

from __future__ import annotations

from tanager.registry import lazy_exports

__version__ = "0.1.0"

# Public names resolve on first use, so that `import tanager` doesn't load scikit-learn.
_HOMES = {
    "BayesNetClassifier": "tanager.classifiers.bayesnet",
    "Constraints": "tanager.structure",
    "MDLDiscretizer": "tanager.codes",
    "load": "tanager.classifiers.files",
    "open_table": "tanager.sources",
    "read_network": "tanager.classifiers.files",
    "save": "tanager.classifiers.files",
}

__all__ = ["__version__", *_HOMES]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
