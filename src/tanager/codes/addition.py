"""More rows for a codebook that is already frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanager.codes.codebook import Codebook
from tanager.codes.coding import code_rows
from tanager.codes.learning import find_features, sum_weights
from tanager.codes.matching import MatchedTable
from tanager.codes.raw import RawRows
from tanager.codes.rows import Rows
from tanager.codes.seeing import SeeingPass
from tanager.codes.weights import no_weight_error
from tanager.sources import open_source

if TYPE_CHECKING:
    from tanager.engines import FitContext


def encode_rows(
    codebook: Codebook,
    X: Any,
    target: Any,
    *,
    sample_weight: Any = None,
    context: FitContext,
) -> Rows:
    """Return more training rows as codes of a given codebook.

    Parameters are those of `learn_codebook`. One pass reads labels and weights
    where there are weights, one codes the rows.
    """
    source = open_source(X)
    find_features(source, target, sample_weight)
    name = target if isinstance(target, str) else None
    labels = codebook.encode_labels(target) if name is None else None
    kept = [sample_weight] if isinstance(sample_weight, str) else []
    matched = MatchedTable.of(codebook, source, target=name, kept=kept)
    table = matched.source
    raw = RawRows(table.hash_text(), matched.features, name, labels, sample_weight)
    if sample_weight is None:
        return code_rows(raw, codebook, False, raw.n_rows, float(raw.n_rows), context)
    bare = RawRows(table, (), name, labels, sample_weight)
    seeing = SeeingPass((), (), name or codebook.target.name, 0, 0, raw.n_rows)
    seen = context.engine.run(seeing, bare, context.progress, "weights")
    if seen.n_rows == 0:
        raise no_weight_error()
    total = sum_weights(seen)
    return code_rows(raw, codebook, not seen.unit_weights, seen.n_rows, total, context)
