"""Parameters estimated with hierarchical Dirichlet processes."""

from tanager.parameters.hdp.learner import HDP

__all__ = ["HDP"]
