"""Sufficient statistics that add up."""

from tanager.counts.families import Family, build_trees, merge_trees, tree_from_dense
from tanager.counts.statistics import Counts
from tanager.counts.tree import ContextTree, Level

__all__ = [
    "ContextTree",
    "Counts",
    "Family",
    "Level",
    "build_trees",
    "merge_trees",
    "tree_from_dense",
]
