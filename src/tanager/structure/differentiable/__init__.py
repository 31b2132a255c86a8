"""Structure and tables learned jointly by gradient descent."""

from tanager.structure.differentiable.learner import Differentiable

__all__ = ["Differentiable"]
