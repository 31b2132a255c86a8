"""Structure learners: which features condition which."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tanager.structure.structure import Structure

if TYPE_CHECKING:
    from tanager.structure.acll import ACLL
    from tanager.structure.arborescence import maximum_arborescence
    from tanager.structure.differentiable import Differentiable
    from tanager.structure.fixed import Fixed
    from tanager.structure.greedy import Greedy
    from tanager.structure.kdb import KDB
    from tanager.structure.learner import StructureLearner
    from tanager.structure.naive import Naive
    from tanager.structure.order_based import OrderBased
    from tanager.structure.registry import STRUCTURES, resolve_structure
    from tanager.structure.selective_kdb import SelectiveKDB
    from tanager.structure.tan import TAN

__all__ = [
    "ACLL",
    "KDB",
    "STRUCTURES",
    "TAN",
    "Differentiable",
    "Fixed",
    "Greedy",
    "Naive",
    "OrderBased",
    "SelectiveKDB",
    "Structure",
    "StructureLearner",
    "maximum_arborescence",
    "resolve_structure",
]

# Learners resolve on first use: reading a model needs no learner, and so neither
# scikit-learn nor SciPy, whose imports take longer than everything else.
_HOME = {
    "ACLL": "acll",
    "Greedy": "greedy",
    "OrderBased": "order_based",
    "maximum_arborescence": "arborescence",
    "Differentiable": "differentiable",
    "Fixed": "fixed",
    "KDB": "kdb",
    "Naive": "naive",
    "STRUCTURES": "registry",
    "SelectiveKDB": "selective_kdb",
    "StructureLearner": "learner",
    "TAN": "tan",
    "resolve_structure": "registry",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"tanager.structure.{_HOME[name]}"), name)
    raise AttributeError(f"module 'tanager.structure' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
