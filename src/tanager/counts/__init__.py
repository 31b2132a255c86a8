"""Additive sufficient statistics."""

from tanager.counts.families import (
    Expectation,
    Family,
    FamilyCounts,
    FoldPlan,
    Trees,
    build_trees,
    count_expected,
    most_cells,
)
from tanager.counts.pairs import (
    ConditionalInformation,
    ExplainingAway,
    PairCells,
    PairCounts,
    PairScore,
)
from tanager.counts.prior import PriorCounts
from tanager.counts.statistics import Counts, fingerprint_counts
from tanager.counts.tree import Contexts, ContextTree, Level, tree_from_dense

__all__ = [
    "ConditionalInformation",
    "ContextTree",
    "Contexts",
    "Counts",
    "Expectation",
    "ExplainingAway",
    "Family",
    "FamilyCounts",
    "FoldPlan",
    "Level",
    "PairCells",
    "PairCounts",
    "PairScore",
    "PriorCounts",
    "Trees",
    "build_trees",
    "count_expected",
    "fingerprint_counts",
    "most_cells",
    "tree_from_dense",
]
