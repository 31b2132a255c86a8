"""Discriminative parameters: tables fitted to P(y | x)."""

from tanager.parameters.discriminative.dfe import DFE
from tanager.parameters.discriminative.learner import Discriminative

__all__ = ["DFE", "Discriminative"]
