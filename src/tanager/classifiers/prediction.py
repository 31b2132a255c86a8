"""From X to class scores, on any engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
from tanager.sources import Fragment, Source
from tanager.sources.source import TablePart

LEAST_ROWS = 20  # without a known value, before a warning about a column
LARGE_ROWS = 1 << 20  # a fragment with more rows is processed batch by batch


def target_among(X: Any, y: Any) -> str | None:
    """Return the name of X's column that equals the series `y` of the same name, else None."""
    name = getattr(y, "name", None)
    lazy = hasattr(X, "compute")  # comparing would compute a Dask DataFrame
    if lazy or not isinstance(name, str) or name not in getattr(X, "columns", ()):
        return None
    column = X[name]
    return name if type(column) is type(y) and column.equals(y) else None


Score = Callable[[Network, Codes], Floats]


class ScoredBatch(NamedTuple):
    """Scores of some rows."""

    log_joint: Floats  # (n_rows, n_classes): log P(class, row)
    known: NDArray[np.bool_]  # (n_features,): whether any row has a value seen in training
    rows: CodedBatch


@dataclass(frozen=True, eq=False)
class FragmentScorer:
    """Codes and scores the rows of a fragment in batches."""

    network: Network
    table: MatchedTable
    score: Score = Network.log_joint_of_codes

    def __call__(self, fragment: Fragment) -> list[ScoredBatch]:
        """Return the scores of all rows."""
        scored, ends = [], self.network.codebook.null_codes  # the last: of missing and unknown
        for batch in self.table.code(fragment):
            codes = batch.codes
            # Most features have a known value in the first rows: only the others are read further.
            known: NDArray[np.bool_] = np.any(codes[:, :LEAST_ROWS] < ends[:, None], axis=1)
            for at in np.flatnonzero(~known):
                known[at] = (codes[at] < ends[at]).any()
            scored.append(ScoredBatch(self.score(self.network, codes), known, batch))
        return scored


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
    unseen = UnseenColumns(network)
    table = MatchedTable.of(network.codebook, X)
    scored = score_table(network, table, resolve_engine(engine, n_jobs), unseen, score)
    parts = [batch.log_joint for batch in scored]
    unseen.warn(table)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def score_table(
    network: Network,
    table: MatchedTable,
    engine: Engine,
    unseen: UnseenColumns,
    score: Score = Network.log_joint_of_codes,
) -> Iterator[ScoredBatch]:
    """Score all rows in order, a few fragments at a time; `unseen` is updated with every batch."""
    scorer, pieces = FragmentScorer(network, table, score), _bounded(table.source, table.columns)
    window = 2 * int(getattr(engine, "n_jobs", 8))
    while some := list(islice(pieces, window)):
        for batch in chain.from_iterable(engine.map(scorer, some, Progress(), "predict")):
            unseen.add(batch)
            yield batch


class UnseenColumns:
    """Finds input columns in which no row has a known value, such as 'YES' for 'Yes'."""

    def __init__(self, network: Network) -> None:
        self._network, self._n_rows = network, 0
        self._known = np.zeros(network.codebook.domain.n_features, dtype=np.bool_)

    def add(self, batch: ScoredBatch) -> None:
        """Add rows that were scored."""
        self._n_rows += batch.rows.n_rows
        self._known |= batch.known

    def warn(self, matched: MatchedTable) -> None:
        """Warn about columns without a known value: missing in all rows, or only unseen values."""
        if self._n_rows < LEAST_ROWS:
            return  # too few to tell
        columns, names = self._network.codebook.columns, matched.features
        given = matched.table.names
        strange = [
            columns[at].name
            for at in self._network.structure.selected
            if not self._known[at] and columns[at].null_code > 0 and names[at] in given
        ]
        if strange:
            warnings.warn(
                f"Column(s) {listed(strange)}: none of the {self._n_rows:,} rows has a value that "
                "was seen in training, so they add nothing to the predictions. Check spelling, "
                "case, encoding and missing values.",
                ColumnWarning,
                stacklevel=2,
            )


def _bounded(source: Source, columns: Sequence[str]) -> Iterator[Fragment]:
    """Yield the fragments, large ones batch by batch."""
    for fragment in source.fragments():
        if fragment.n_rows <= LARGE_ROWS:
            yield fragment
            continue
        start = fragment.start
        for batch in fragment.batches(columns):
            yield Fragment(TablePart(pa.Table.from_batches([batch])), start, batch.schema)
            start += batch.num_rows
