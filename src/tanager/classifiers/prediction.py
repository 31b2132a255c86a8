"""Prediction: every fragment of a table is read, coded and scored in one place.

The walk of the estimator and of the command line alike: open the source, match
its columns, and hand its fragments to the engine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.engines import Engine
from tanager.errors import ColumnWarning
from tanager.network import Network
from tanager.progress import Progress
from tanager.sources import Fragment, Source
from tanager.sources.source import TableFragment

__all__ = ["FragmentScorer", "map_fragments", "predict_log_joint"]

LEAST_ROWS = 20  # of which none is known, before a column is called strange
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
        parts = []
        for codes in self.network.codebook.encode_fragment(fragment, self.names):
            warn_of_unseen(self.network, codes)
            parts.append(self.network.log_joint_of_codes(codes))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def warn_of_unseen(network: Network, codes: NDArray[Any]) -> None:
    """Warn of columns of which no value is known to the model, such as 'YES' for 'Yes'."""
    n_rows = codes.shape[1]
    if n_rows < LEAST_ROWS or network.codebook.missing == "marginalize":
        return  # too few to say, or what is not known is meant to be summed out
    unknown = network.codebook.domain.arities
    suspects = np.flatnonzero((codes[:, :LEAST_ROWS] == unknown[:, None]).all(axis=1))
    columns = network.codebook.columns
    names = [
        columns[i].name
        for i in suspects
        if columns[i].kind == "categorical" and bool((codes[i] == unknown[i]).all())
    ]
    if names:
        warnings.warn(
            f"No value of the column(s) {', '.join(map(repr, names))} was seen in training: they "
            "are summed out, and add nothing. Check spelling, case and encoding.",
            ColumnWarning,
            stacklevel=2,
        )


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
