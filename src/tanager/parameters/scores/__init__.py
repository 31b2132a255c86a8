"""Scores of cells: where they stand, what unseen cells say, and the network they make."""

from tanager.parameters.scores.filling import UNSEEN, fill_tables, read_levels, to_table
from tanager.parameters.scores.layout import FamilyCells, Layout
from tanager.parameters.scores.network import (
    family_shares,
    fit_inputs,
    renormalise,
    to_network,
)

__all__ = [
    "UNSEEN",
    "FamilyCells",
    "Layout",
    "family_shares",
    "fill_tables",
    "fit_inputs",
    "read_levels",
    "renormalise",
    "to_network",
    "to_table",
]
