"""From columns to small integers, and rows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanager.codes.addition import encode_rows
from tanager.codes.codebook import Codebook
from tanager.codes.collecting import collect_rows, hash_bound, sample_rows
from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.codes.cuts import check_bins
from tanager.codes.fingerprint import fingerprint_rows
from tanager.codes.groups import (
    Groups,
    group_codes,
    group_rows,
    grouped_domain,
    join_values,
    learn_groups,
)
from tanager.codes.hashing import Fold, Sample, folds_of, row_hash
from tanager.codes.learning import learn_codebook
from tanager.codes.matching import CodedBatch, MatchedTable
from tanager.codes.mdl import mdl_cuts
from tanager.codes.rows import (
    Chunk,
    Codes,
    Domain,
    Rows,
    code_dtype,
    exact_weights,
)
from tanager.registry import lazy_exports

if TYPE_CHECKING:
    from tanager.codes.discretizer import MDLDiscretizer

__all__ = [
    "CategoricalColumn",
    "Chunk",
    "Codebook",
    "CodedBatch",
    "Codes",
    "Column",
    "Domain",
    "Fold",
    "Groups",
    "MDLDiscretizer",
    "MatchedTable",
    "NumericColumn",
    "Rows",
    "Sample",
    "check_bins",
    "code_dtype",
    "collect_rows",
    "encode_rows",
    "exact_weights",
    "fingerprint_rows",
    "folds_of",
    "group_codes",
    "group_rows",
    "grouped_domain",
    "hash_bound",
    "join_values",
    "learn_codebook",
    "learn_groups",
    "mdl_cuts",
    "row_hash",
    "sample_rows",
]


# Only the transformer needs scikit-learn, whose import takes longest.
__getattr__, __dir__ = lazy_exports(__name__, {"MDLDiscretizer": "tanager.codes.discretizer"})
