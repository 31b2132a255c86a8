"""Discriminative parameters: tables fitted to P(y | x)."""

from tanager.parameters.discriminative.learner import Discriminative

__all__ = ["Discriminative"]
