"""Additive sufficient statistics."""

from tanager.counts.families import (
    Family,
    FamilyCounts,
    FoldPlan,
    PriorCounts,
    Trees,
    build_trees,
    count_expected,
    most_cells,
)
from tanager.counts.information import ExplainingAway, PairScore
from tanager.counts.pairs import PairCells
from tanager.counts.statistics import Counts, fingerprint_counts
from tanager.counts.tree import Contexts, ContextTree

__all__ = [
    "ContextTree",
    "Contexts",
    "Counts",
    "ExplainingAway",
    "Family",
    "FamilyCounts",
    "FoldPlan",
    "PairCells",
    "PairScore",
    "PriorCounts",
    "Trees",
    "build_trees",
    "count_expected",
    "fingerprint_counts",
    "most_cells",
]
