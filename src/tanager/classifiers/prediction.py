"""Prediction: every fragment of a table is read, coded and scored in one place.

The walk of the estimator and of the command line alike: open the source, match
its columns, and hand its fragments to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.engines import Engine
from tanager.network import Network
from tanager.progress import Progress
from tanager.sources import Fragment, Source
from tanager.sources.source import TableFragment

__all__ = ["FragmentScorer", "map_fragments", "predict_log_joint"]

LARGE_ROWS = 1 << 20  # a fragment with more rows is handed out batch by batch

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class FragmentScorer:
    """Gives log P(class, row) of a fragment's rows, shape (n_rows, n_classes).

    Attributes
    ----------
    network : Network
    names : sequence of str
        The columns that are the network's features, in its order.
    """

    network: Network
    names: Sequence[str]

    def __call__(self, fragment: Fragment) -> NDArray[np.float64]:
        """Code and score the rows."""
        coded = self.network.codebook.encode_fragment(fragment, self.names)
        parts = [self.network.log_joint_of_codes(codes) for codes in coded]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def predict_log_joint(network: Network, X: Any, engine: Engine) -> NDArray[np.float64]:
    """Return log P(class, row) of every row of a table, shape (n_rows, n_classes)."""
    source, names = network.codebook.open(X)
    parts = list(map_fragments(FragmentScorer(network, names), source, names, engine))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def map_fragments(
    function: Callable[[Fragment], Result],
    source: Source,
    columns: Sequence[str],
    engine: Engine,
) -> Iterator[Result]:
    """Apply a function to all fragments, in order, a few at a time: results stay bounded."""
    pieces = _bounded(source, columns)
    window = 2 * int(getattr(engine, "n_jobs", 8))
    while some := list(islice(pieces, window)):
        yield from engine.map(function, some, Progress(), "predict")


def _bounded(source: Source, columns: Sequence[str]) -> Iterator[Fragment]:
    for fragment in source.fragments():
        if fragment.n_rows <= LARGE_ROWS:
            yield fragment
            continue
        start = fragment.start
        for batch in fragment.batches(columns):
            yield TableFragment(pa.Table.from_batches([batch]), start)
            start += batch.num_rows
