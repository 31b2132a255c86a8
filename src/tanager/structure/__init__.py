"""Structure learners: which features condition which."""

from tanager.structure.differentiable import Differentiable
from tanager.structure.fixed import Fixed
from tanager.structure.kdb import KDB
from tanager.structure.learner import StructureLearner
from tanager.structure.naive import Naive
from tanager.structure.registry import STRUCTURES, resolve_structure
from tanager.structure.selective_kdb import SelectiveKDB
from tanager.structure.structure import Structure
from tanager.structure.tan import TAN

__all__ = [
    "KDB",
    "STRUCTURES",
    "TAN",
    "Differentiable",
    "Fixed",
    "Naive",
    "SelectiveKDB",
    "Structure",
    "StructureLearner",
    "resolve_structure",
]
