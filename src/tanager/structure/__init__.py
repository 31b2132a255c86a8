"""Structure learners: which features condition which."""

from tanager.structure.learner import StructureLearner
from tanager.structure.structure import Structure

__all__ = ["Structure", "StructureLearner"]
