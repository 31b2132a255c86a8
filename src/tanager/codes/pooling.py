"""Categories with more values than codes: the rarest values share one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tanager.codes.audit import Finding
from tanager.codes.coding import RawChunk, RawRows
from tanager.codes.rows import MAX_ARITY, exact_weights
from tanager.codes.seeing import Seen, SeenCategory
from tanager.codes.values import can_pool, sort_values, to_family
from tanager.engines import FitContext, Sums
from tanager.numerics import Floats


def pool_rare(seen: Seen, raw: RawRows, missing: str, context: FitContext) -> list[Finding]:
    """Reduce categories with too many values to the most frequent ones; return what was done.

    The rows are read once more to weigh the values of these columns. Ordered values aren't pooled,
    and are rejected later. Of equally frequent values the first are kept, except for values that
    occur in a single row. (If the least weight isn't that of one row, the weights don't represent
    frequencies.)
    """
    many = {
        at: one
        for at, one in enumerate(seen.features)
        if isinstance(one, SeenCategory) and one.n_codes(missing) > MAX_ARITY
        if one.order is None and can_pool(one.values)
    }
    if not many:
        return []
    texts = {at: sort_values(one.values.cast(pa.string())) for at, one in many.items()}
    weighing = _ValueWeights(texts, seen.total_weight)
    sums = context.engine.run(weighing, raw, context.progress, "rare values")
    findings = []
    for one, values, weights in zip(many.values(), texts.values(), sums, strict=True):
        n_own = 1 + (one.missing and missing == "value")  # codes of the others, and of "missing"
        kept = np.argsort(-weights, kind="stable")[: MAX_ARITY - n_own]
        kept = kept[weights[kept] > 1.0] if weights.min() == 1.0 else kept
        one.values, one.pooled = values.take(pa.array(kept)), True
        rarest = (
            f"the {len(values) - len(kept):,} rarest" if len(kept) else "none occurs twice, so all"
        )
        reason = f"{len(values):,} different values: {rarest} share one code"
        findings.append(Finding(one.name, "many values", "pooled", reason))
    return findings


@dataclass(frozen=True)
class _ValueWeights(Sums):
    """Sums the weights of rows by value, for some categorical features."""

    values: Mapping[int, pa.Array]  # the distinct values, as text, by index of the feature
    total_weight: float

    def zero(self) -> tuple[Floats, ...]:
        return tuple(np.zeros(len(values)) for values in self.values.values())

    def update(self, state: tuple[Floats, ...], chunk: RawChunk) -> tuple[Floats, ...]:
        import pyarrow.compute as pc

        chunk = chunk.positive()
        weights = None
        if chunk.weights is not None:
            weights = exact_weights(chunk.weights, self.total_weight)
        for sums, (at, values) in zip(state, self.values.items(), strict=True):
            array = chunk.column(at).dictionary_encode()
            given = to_family(array.dictionary, "text", "")
            place = pc.index_in(given, value_set=values).take(array.indices)
            known = place.is_valid().to_numpy(zero_copy_only=False)
            found = place.drop_null().to_numpy(zero_copy_only=False)
            sums += np.bincount(found, None if weights is None else weights[known], len(sums))
        return state
