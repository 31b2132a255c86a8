"""Parameters by hierarchical Dirichlet processes."""

from tanager.parameters.hdp.learner import HDP

__all__ = ["HDP"]
