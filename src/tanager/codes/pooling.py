"""Categories with more values than codes: the rarest values share one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tanager.codes.audit import Finding
from tanager.codes.coding import RawChunk
from tanager.codes.rows import MAX_ARITY, exact_weights
from tanager.codes.values import sort_values, to_family
from tanager.numerics import Floats

OTHERS = "(other values)"  # the name of the shared code


@dataclass(frozen=True)
class ValueWeights:
    """A pass that sums the weights of rows by value, for some categorical features."""

    values: Mapping[int, tuple[str, pa.Array]]  # by index of the feature: name, distinct values
    total_weight: float

    def zero(self) -> tuple[Floats, ...]:
        """Return a weight of zero for every value."""
        return tuple(np.zeros(len(values)) for _, values in self.values.values())

    def update(self, state: tuple[Floats, ...], chunk: RawChunk) -> tuple[Floats, ...]:
        """Add the rows of a chunk."""
        import pyarrow.compute as pc

        chunk = chunk.positive()
        weights = None
        if chunk.weights is not None:
            weights = exact_weights(chunk.weights, self.total_weight)
        for sums, (at, (name, values)) in zip(state, self.values.items(), strict=True):
            array = chunk.column(at)
            if not pa.types.is_dictionary(array.type):
                array = array.dictionary_encode()
            given = to_family(array.dictionary, "text", name)
            place = pc.index_in(given, value_set=values).take(array.indices)
            known = place.is_valid().to_numpy(zero_copy_only=False)
            found = place.drop_null().to_numpy(zero_copy_only=False)
            sums += np.bincount(found, None if weights is None else weights[known], len(sums))
        return state

    def merge(self, a: tuple[Floats, ...], b: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """Add the sums; weights are multiples of a step for which every sum is exact."""
        return tuple(mine + theirs for mine, theirs in zip(a, b, strict=True))

    def finish(self, state: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """Return the sums."""
        return state


def keep_frequent(values: pa.Array, weights: Floats, *, own: bool) -> pa.Array:
    """Return the most frequent of too many sorted values, as many as a column has codes for.

    One code is reserved for the others, and one for "missing" if it has its `own`. Of equally
    frequent values the first are kept, except for values that occur in a single row. (If the least
    weight isn't that of one row, the weights don't represent frequencies.)
    """
    kept = np.argsort(-weights, kind="stable")[: MAX_ARITY - 1 - own]
    return values.take(pa.array(kept[weights[kept] > 1.0] if weights.min() == 1.0 else kept))


def with_others(values: pa.Array) -> tuple[pa.Array, int]:
    """Return sorted values including one that represents all others, and the code of that one."""
    name = OTHERS
    while values.index(name).as_py() >= 0:
        name += " "
    found = sort_values(pa.concat_arrays([values, pa.array([name])]))
    return found, found.index(name).as_py()


def describe_pooling(name: str, n_values: int, n_kept: int) -> Finding:
    """Return the audit's finding on a feature whose rare values share a code."""
    rarest = f"the {n_values - n_kept:,} rarest" if n_kept else "none occurs twice, so all"
    reason = f"{n_values:,} different values: {rarest} share one code"
    return Finding(name, "many values", "pooled", reason)
