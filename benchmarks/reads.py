"""How often a fit reads its source: every structure with every kind of parameters.

Run ``python -m benchmarks.reads`` (about a minute). The rows read of every
fragment are counted, and divided by the rows of the table.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from benchmarks.measuring import markdown, publish
from tanager import BayesNetClassifier
from tanager.sources import files
from tanager.sources.text import CsvTable

N_ROWS = 3_000
STRUCTURES = [
    "naive", "tan", "kdb", "skdb(max_k=2)", "ktree", "acll", "order", "greedy",
    "differentiable(training__epochs=2)",
]  # fmt: skip
PARAMETERS = [
    "ml", "laplace", "m-estimate", "hdp", "friedman", "discriminative", "dfe", "layered",
    "hybrid(training__epochs=2)",
]  # fmt: skip


class Counter:
    """Counts the rows that fragments read, and the rows that opening a CSV file reads."""

    def __init__(self) -> None:
        self.rows = 0
        read, open_csv = files.FilePart.read, CsvTable.__init__
        counter = self

        def batches(self: files.FilePart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            for batch in read(self, schema):
                counter.rows += batch.num_rows
                yield batch

        def init(self: CsvTable, *arguments: Any, **options: Any) -> None:
            open_csv(self, *arguments, **options)
            counter.rows += self.n_rows

        files.FilePart.read = batches  # type: ignore[method-assign]
        CsvTable.__init__ = init  # type: ignore[method-assign]

    def reads(self, structure: str, parameters: str, path: Path) -> float:
        """Return how often a fit reads the table."""
        self.rows = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            BayesNetClassifier(structure, parameters, audit=False).fit(path, "y")
        return self.rows / N_ROWS


def make_table() -> pa.Table:
    """Draw a small table of text and numbers."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N_ROWS)
    columns = {f"n{i}": rng.normal(size=N_ROWS) + y * (i % 2) for i in range(3)}
    texts = {f"t{i}": [f"v{v}" for v in rng.integers(0, 3, N_ROWS) + y] for i in range(3)}
    return pa.table({**columns, **texts, "y": [f"c{k}" for k in y]})


def main() -> None:
    counter, table = Counter(), make_table()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        parquet, csv = Path(folder) / "parquet", Path(folder) / "t.csv"
        parquet.mkdir()
        for part in range(3):
            pq.write_table(table.slice(1000 * part, 1000), parquet / f"{part}.parquet")
        pacsv.write_csv(table, csv)
        for structure in STRUCTURES:
            line = [structure]
            for parameters in PARAMETERS:
                reads = [counter.reads(structure, parameters, path) for path in (parquet, csv)]
                line.append(" / ".join(f"{n:g}" for n in reads))
            rows.append(line)
            print(" | ".join(line), flush=True)
    text = (
        "Whole reads of the source in one fit, three Parquet files / one CSV file, whose types are "
        "settled by a read of its own. The audit of the columns is switched off: where there are "
        "columns of text, it reads up to 100,000 rows more.\n\n" + markdown(["", *PARAMETERS], rows)
    )
    publish("reads", "Reads of the source", text)


if __name__ == "__main__":
    main()
