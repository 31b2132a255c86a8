"""Parameter learners: the probability tables of a given structure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tanager.parameters.tables import (
    DenseTable,
    FamilyTable,
    Tables,
    TreeTable,
    log_posterior,
    posterior,
)

if TYPE_CHECKING:
    from tanager.parameters.acll import ACLLParameters
    from tanager.parameters.discriminative import DFE, Discriminative
    from tanager.parameters.frequencies import (
        FriedmanEstimate,
        Laplace,
        MaximumLikelihood,
        MEstimate,
    )
    from tanager.parameters.hdp import HDP
    from tanager.parameters.hybrid import Hybrid
    from tanager.parameters.learner import CountLearner, ParameterLearner
    from tanager.parameters.pooled import Pooled
    from tanager.parameters.registry import PARAMETERS, resolve_parameters

__all__ = [
    "DFE",
    "HDP",
    "PARAMETERS",
    "ACLLParameters",
    "CountLearner",
    "DenseTable",
    "Discriminative",
    "FamilyTable",
    "FriedmanEstimate",
    "Hybrid",
    "Laplace",
    "MEstimate",
    "MaximumLikelihood",
    "ParameterLearner",
    "Pooled",
    "Tables",
    "TreeTable",
    "log_posterior",
    "posterior",
    "resolve_parameters",
]

# Learners resolve on first use: reading a model needs no learner, and so neither
# scikit-learn nor SciPy, whose imports take longer than everything else.
_HOME = {
    "ACLLParameters": "acll",
    "CountLearner": "learner",
    "DFE": "discriminative",
    "Discriminative": "discriminative",
    "FriedmanEstimate": "frequencies",
    "HDP": "hdp",
    "Hybrid": "hybrid",
    "Laplace": "frequencies",
    "MEstimate": "frequencies",
    "MaximumLikelihood": "frequencies",
    "PARAMETERS": "registry",
    "ParameterLearner": "learner",
    "Pooled": "pooled",
    "resolve_parameters": "registry",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"tanager.parameters.{_HOME[name]}"), name)
    raise AttributeError(f"module 'tanager.parameters' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
