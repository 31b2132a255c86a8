"""Encode table columns as small integers, and keep them as rows of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanager.codes.codebook import Codebook, MatchedTable
from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.codes.groups import Groups
from tanager.codes.learning import encode_rows, learn_codebook
from tanager.codes.rows import Chunk, Codes, Domain, Rows
from tanager.registry import lazy_exports

if TYPE_CHECKING:
    from tanager.codes.discretizer import MDLDiscretizer

__all__ = [
    "CategoricalColumn",
    "Chunk",
    "Codebook",
    "Codes",
    "Column",
    "Domain",
    "Groups",
    "MDLDiscretizer",
    "MatchedTable",
    "NumericColumn",
    "Rows",
    "encode_rows",
    "learn_codebook",
]


# Only the transformer needs scikit-learn, which is slow to import.
__getattr__, __dir__ = lazy_exports(__name__, {"MDLDiscretizer": "tanager.codes.discretizer"})
