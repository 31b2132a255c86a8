"""Sufficient statistics that add up."""

from tanager.counts.families import Family, build_trees, merge_trees
from tanager.counts.statistics import Counts
from tanager.counts.tree import Contexts, ContextTree, Level, tree_from_dense

__all__ = [
    "ContextTree",
    "Contexts",
    "Counts",
    "Family",
    "Level",
    "build_trees",
    "merge_trees",
    "tree_from_dense",
]
