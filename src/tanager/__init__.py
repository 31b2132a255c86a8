"""Bayesian network classifiers: calibrated, explainable probabilities from any table."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

__all__ = ["BayesNetClassifier", "MDLDiscretizer", "__version__", "load", "open_table", "save"]

# Public names resolve on first use, so that `import tanager` loads neither
# numba nor scikit-learn.
_HOME = {
    "BayesNetClassifier": "tanager.classifiers",
    "MDLDiscretizer": "tanager.codes",
    "load": "tanager.classifiers",
    "open_table": "tanager.sources",
    "save": "tanager.classifiers",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'tanager' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
