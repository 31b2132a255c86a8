"""Sufficient statistics that add up."""

from tanager.counts.statistics import Counts
from tanager.counts.tree import ContextTree, Level

__all__ = ["ContextTree", "Counts", "Level"]
