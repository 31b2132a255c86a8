"""More rows for a codebook that is already frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanager.codes.codebook import Codebook
from tanager.codes.coding import code_rows
from tanager.codes.learning import Target, find_features, weigh
from tanager.codes.raw import RawRows
from tanager.codes.rows import Rows
from tanager.codes.seeing import SeeingPass
from tanager.codes.weights import no_weight_error
from tanager.errors import ConfigurationError
from tanager.sources import open_source

if TYPE_CHECKING:
    from tanager.engines import FitContext

__all__ = ["encode_rows"]


def encode_rows(
    codebook: Codebook,
    X: Any,
    target: Any,
    *,
    sample_weight: Any = None,
    class_weight: Any = None,
    context: FitContext,
) -> Rows:
    """Return more training rows as codes of a given codebook.

    Parameters are those of `learn_codebook`. One pass reads labels and weights
    where there are weights, one codes the rows. Balanced class weights need all
    rows at once and are refused.
    """
    if class_weight == "balanced":
        raise ConfigurationError(
            "class_weight='balanced' needs all rows at once, and partial_fit sees them in parts. "
            "Give the weights as a dict."
        )
    table = open_source(X)
    features = find_features(table, target, sample_weight)
    name = target if isinstance(target, str) else None
    labels = codebook.encode_labels(target) if name is None else None
    if name is not None and codebook.target.family == "text":
        table = table.as_text([name])
    names = codebook.match(features, named=table.named)
    table = codebook.read_as_trained(table, names)
    raw = RawRows(table.hash_text(), names, name, labels, sample_weight)
    if sample_weight is None and class_weight is None:
        return code_rows(raw, codebook, None, raw.n_rows, float(raw.n_rows), context)
    bare = RawRows(table, (), name, labels, sample_weight)
    seeing = SeeingPass((), (), codebook.target.name, 0, 0, raw.n_rows)
    seen = context.engine.run(seeing, bare, context.progress, "weights")
    if seen.n_rows == 0:
        raise no_weight_error()
    known = Target(name or codebook.target.name, codebook.target, codebook.classes.dtype)
    _, classes, order = known.settle(table, seen, coded=labels is not None)
    factors, total = weigh(seen, order, class_weight, classes)
    weighted = not seen.unit_weights or bool((factors != 1).any())
    return code_rows(raw, codebook, factors if weighted else None, seen.n_rows, total, context)
