"""Prediction: the fragments of a table are handed to the engine, and their coded rows scored.

The estimator and the command line share `map_fragments`, `score_codes` and
`UnseenColumns`, so that both give the same numbers and the same warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.engines import Engine
from tanager.errors import ColumnWarning, listed
from tanager.network import Network
from tanager.progress import Progress
from tanager.sources import Fragment, Source
from tanager.sources.source import TableFragment

__all__ = [
    "FragmentScorer",
    "ScoredRows",
    "UnseenColumns",
    "map_fragments",
    "predict_log_joint",
    "score_codes",
]

LEAST_ROWS = 20  # of which none is known, before a column is called strange
LARGE_ROWS = 1 << 20  # a fragment with more rows is handed out batch by batch

Result = TypeVar("Result")


class ScoredRows(NamedTuple):
    """Scores of some rows.

    Attributes
    ----------
    log_joint : ndarray of float64, shape (n_rows, n_classes)
        log P(class, row).
    known : ndarray of bool, shape (n_features,)
        Which features have a known value in any of the rows.
    """

    log_joint: NDArray[np.float64]
    known: NDArray[np.bool_]


def score_codes(network: Network, codes: NDArray[Any]) -> ScoredRows:
    """Score coded rows, (n_features, n_rows)."""
    unknown = network.codebook.domain.arities
    # Most features have a known value in the first rows: only the others are read on.
    known = (codes[:, :LEAST_ROWS] != unknown[:, None]).any(axis=1)
    for at in np.flatnonzero(~known):
        known[at] = (codes[at] != unknown[at]).any()
    return ScoredRows(network.log_joint_of_codes(codes), known)


class UnseenColumns:
    """Finds the columns of a table of which no value is known to the model: 'YES' for 'Yes'.

    Parameters
    ----------
    network : Network
    """

    def __init__(self, network: Network) -> None:
        self._codebook = network.codebook
        self._n_rows = 0
        self._known = np.zeros(network.codebook.domain.n_features, dtype=np.bool_)

    def add(self, n_rows: int, known: NDArray[np.bool_]) -> None:
        """Take more rows into account, of which these features have a known value."""
        self._n_rows += n_rows
        self._known |= known

    def warn(self) -> None:
        """Warn of the columns without a known value, once all rows are added."""
        if self._n_rows < LEAST_ROWS or self._codebook.missing == "marginalize":
            return  # too few to say, or what is not known is meant to be summed out
        names = [
            column.name
            for column, known in zip(self._codebook.columns, self._known, strict=True)
            if column.kind == "categorical" and not known
        ]
        if names:
            warnings.warn(
                f"No value of the column(s) {listed(names)} was seen in training: they are summed "
                "out, and add nothing. Check spelling, case and encoding.",
                ColumnWarning,
                stacklevel=2,
            )


@dataclass(frozen=True, eq=False)
class FragmentScorer:
    """Codes and scores the rows of a fragment.

    Attributes
    ----------
    network : Network
    names : sequence of str
        The columns that are the network's features, in its order.
    """

    network: Network
    names: Sequence[str]

    def __call__(self, fragment: Fragment) -> list[ScoredRows]:
        """Return the scores of all rows, some at a time."""
        parts = self.network.codebook.encode_fragment(fragment, self.names)
        return [score_codes(self.network, codes) for codes in parts]


def predict_log_joint(network: Network, X: Any, engine: Engine) -> NDArray[np.float64]:
    """Return log P(class, row) of every row of a table, shape (n_rows, n_classes)."""
    source, names = network.codebook.open(X)
    unseen, parts = UnseenColumns(network), []
    for scored in map_fragments(FragmentScorer(network, names), source, names, engine):
        for log_joint, known in scored:
            unseen.add(log_joint.shape[0], known)
            parts.append(log_joint)
    unseen.warn()
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
