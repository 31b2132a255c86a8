"""Several learners' tables on one structure, pooled into one network."""

from tanager.parameters.pooled.learner import Pooled

__all__ = ["Pooled"]
