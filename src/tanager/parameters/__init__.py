"""Parameter learners: the probability tables of a given structure."""

from __future__ import annotations

from tanager.parameters.registry import PARAMETERS, resolve_pair, resolve_parameters
from tanager.parameters.tables import (
    DenseTable,
    FamilyTable,
    GroupedTable,
    Tables,
    TreeTable,
    log_posterior,
    posterior,
)
from tanager.registry import lazy_exports

# Learners are loaded on first use: reading a model needs no learner, and so neither
# scikit-learn nor SciPy, whose imports take longer than everything else.
_HOMES = {**PARAMETERS.exports, "CountLearner": "tanager.parameters.learner"}

__all__ = [
    "PARAMETERS",
    "DenseTable",
    "FamilyTable",
    "GroupedTable",
    "Tables",
    "TreeTable",
    "log_posterior",
    "posterior",
    "resolve_pair",
    "resolve_parameters",
    *_HOMES,
]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
