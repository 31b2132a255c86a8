"""More rows for a codebook that is already frozen."""

from __future__ import annotations

from typing import Any

from tanager.codes.codebook import Codebook
from tanager.codes.learning import join_weights
from tanager.codes.rows import Rows
from tanager.codes.targets import column_labels
from tanager.codes.weights import as_weights, weight_column
from tanager.errors import ConfigurationError, DataError
from tanager.sources import open_source

__all__ = ["encode_rows"]


def encode_rows(
    codebook: Codebook,
    X: Any,
    target: Any,
    *,
    sample_weight: Any = None,
    class_weight: Any = None,
) -> Rows:
    """Return further training rows as codes of a given codebook.

    Parameters are those of `learn_codebook`; the rows of files too are held in
    memory, as codes. Balanced class weights need all rows at once and are
    refused.
    """
    if class_weight == "balanced":
        raise ConfigurationError(
            "class_weight='balanced' needs all rows at once, and partial_fit sees them in parts. "
            "Give the weights as a dict."
        )
    source = open_source(X)
    taken = {name for name in (target, sample_weight) if isinstance(name, str)}
    absent = taken - set(source.names)
    if absent:
        raise DataError(
            f"No column {sorted(absent)[0]!r} in the table. Its columns are: "
            f"{', '.join(map(repr, source.names))}."
        )
    if isinstance(target, str) and codebook.target.family == "text":
        source = source.as_text([target])
    y = column_labels(source.column(target))[0] if isinstance(target, str) else target
    labels = codebook.encode_labels(y)
    if isinstance(sample_weight, str):
        sample_weight = weight_column(source.column(sample_weight), sample_weight)
    if taken:
        source = source.select([name for name in source.names if name not in taken])
    codes = codebook.encode(source)
    n_rows = codes.shape[1]
    if labels.shape[0] != n_rows:
        raise DataError(
            "Found input variables with inconsistent numbers of samples: the table has "
            f"{n_rows} rows, the target {labels.shape[0]} labels. Pass one label a row."
        )
    weights = None if sample_weight is None else as_weights(sample_weight, n_rows)
    joined = join_weights(weights, labels, codebook.classes, class_weight)
    return Rows.in_memory(codebook.domain, codes, labels, joined)
