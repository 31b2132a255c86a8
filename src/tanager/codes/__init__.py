"""From columns to small integers, and rows of them."""

from tanager.codes.rows import (
    Chunk,
    CodedRows,
    Codes,
    Domain,
    MemoryRows,
    code_dtype,
    exact_weights,
)
from tanager.codes.subset import SubsetRows

__all__ = [
    "Chunk",
    "CodedRows",
    "Codes",
    "Domain",
    "MemoryRows",
    "SubsetRows",
    "code_dtype",
    "exact_weights",
]
