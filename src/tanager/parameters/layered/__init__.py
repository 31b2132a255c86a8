"""Layers of smooth scores and generative tables, pooled into one network."""

from tanager.parameters.layered.learner import Layered

__all__ = ["Layered"]
