"""From columns to small integers, and rows of them."""

from tanager.codes.rows import Chunk, CodedRows, Codes, Domain, MemoryRows, code_dtype, exact_weights

__all__ = ["Chunk", "CodedRows", "Codes", "Domain", "MemoryRows", "code_dtype", "exact_weights"]
