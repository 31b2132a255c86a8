"""From X to class scores, on any engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes import Codes, MatchedTable
from tanager.codes.codebook import CodedBatch
from tanager.engines import Engine, resolve_engine
from tanager.errors import ColumnWarning, listed
from tanager.network import Network
from tanager.numerics import Floats
from tanager.progress import Progress
from tanager.sources import Fragment
from tanager.sources.source import TablePart

LEAST_ROWS = 20  # without a known value, before a warning about a column
LARGE_ROWS = 1 << 20  # a fragment with more rows is processed batch by batch

Score = Callable[[Network, Codes], Floats]


class ScoredBatch(NamedTuple):
    """Scores of some rows."""

    log_joint: Floats  # (n_rows, n_classes): log P(class, row)
    rows: CodedBatch


def predict_log_joint(
    network: Network,
    X: Any,
    engine: str | Engine,
    n_jobs: int | None,
    score: Score = Network.log_joint_of_codes,
) -> Floats:
    """Return log P(class, row) of every row, (n_rows, n_classes), or another score of its codes."""
    few = network.codebook.few.encode(X)
    if few is not None:
        return score(network, few)
    table = MatchedTable.of(network.codebook, X)
    scored = score_table(network, table, resolve_engine(engine, n_jobs), score)
    parts = [batch.log_joint for batch in scored]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def score_table(
    network: Network,
    table: MatchedTable,
    engine: Engine,
    score: Score = Network.log_joint_of_codes,
) -> Iterator[ScoredBatch]:
    """Score all rows in order, a few fragments at a time.

    Warns at the end about columns in which no row has a known value, such as 'YES' for 'Yes'.
    """
    ends, n_rows = network.codebook.null_codes, 0  # the last codes: of missing and unknown values
    known = np.zeros(len(ends), dtype=np.bool_)
    scorer, pieces = partial(score_fragment, network, table, score), _bounded(table)
    window = 2 * int(getattr(engine, "n_jobs", 8))
    while some := list(islice(pieces, window)):
        for batch in chain.from_iterable(engine.map(scorer, some, Progress(), "predict")):
            codes = batch.rows.codes
            n_rows += batch.rows.n_rows
            # Most features have a known value in the first rows: only the others are read further.
            known |= (codes[:, :LEAST_ROWS] < ends[:, None]).any(axis=1)
            for at in np.flatnonzero(~known):
                known[at] = (codes[at] < ends[at]).any()
            yield batch
    if n_rows >= LEAST_ROWS:  # fewer are too few to tell
        _warn_of_unseen(network, table, known, n_rows)


def score_fragment(
    network: Network, table: MatchedTable, score: Score, fragment: Fragment
) -> list[ScoredBatch]:
    """Code and score the rows of a fragment in batches."""
    return [ScoredBatch(score(network, rows.codes), rows) for rows in table.code(fragment)]


def _warn_of_unseen(
    network: Network, matched: MatchedTable, known: NDArray[np.bool_], n_rows: int
) -> None:
    """Warn about columns without a known value: missing in all rows, or only unseen values."""
    columns, names = network.codebook.columns, matched.features
    given = matched.table.names
    strange = [
        columns[at].name
        for at in network.structure.selected
        if not known[at] and columns[at].null_code > 0 and names[at] in given
    ]
    if strange:
        warnings.warn(
            f"Column(s) {listed(strange)}: none of the {n_rows:,} rows has a value that "
            "was seen in training, so they add nothing to the predictions. Check spelling, "
            "case, encoding and missing values.",
            ColumnWarning,
            stacklevel=3,
        )


def _bounded(table: MatchedTable) -> Iterator[Fragment]:
    """Yield the fragments, large ones batch by batch."""
    for fragment in table.source.fragments():
        if fragment.n_rows <= LARGE_ROWS:
            yield fragment
            continue
        start = fragment.start
        for batch in fragment.batches(table.columns):
            yield Fragment(TablePart(pa.Table.from_batches([batch])), start, batch.schema)
            start += batch.num_rows
