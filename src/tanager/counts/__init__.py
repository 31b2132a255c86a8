"""Sufficient statistics that add up."""

from tanager.counts.families import Family, build_trees, merge_trees
from tanager.counts.folds import FoldPlan
from tanager.counts.pairs import PairCells, PairCounts
from tanager.counts.scores import ConditionalInformation, PairScore
from tanager.counts.statistics import Counts
from tanager.counts.tree import Contexts, ContextTree, Level, tree_from_dense

__all__ = [
    "ConditionalInformation",
    "ContextTree",
    "Contexts",
    "Counts",
    "Family",
    "FoldPlan",
    "Level",
    "PairCells",
    "PairCounts",
    "PairScore",
    "build_trees",
    "merge_trees",
    "tree_from_dense",
]
