"""Structure and tables learned together by gradient."""

from tanager.structure.differentiable.learner import Differentiable

__all__ = ["Differentiable"]
