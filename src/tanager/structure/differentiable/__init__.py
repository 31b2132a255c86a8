"""Structure and tables learned together by gradient."""

from tanager.structure.differentiable.learner import CARRIED, Differentiable
from tanager.structure.differentiable.model import JointTables

__all__ = ["CARRIED", "Differentiable", "JointTables"]
