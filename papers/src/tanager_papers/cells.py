"""Every fit behind a paper's page as one table, so that its numbers can be computed again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tanager.evaluation.results import Results

__all__ = ["join_cells"]

# What the same run on another day changes most, and nobody needs to check a number.
_LEFT_OUT = ("fit_seconds", "predict_seconds", "version")


def join_cells(gathered: Iterable[tuple[str, Iterable[Results]]]) -> Any:
    """Return the cells of several experiments as a pyarrow table, None where there are none.

    The columns of `Results.table`, with the part of the paper (`part`), the experiment's name
    (`run`) and the classifier's text (`use`). An experiment without a metric has no value there.
    What an experiment publishes besides (`info`, `reliability`) is text in JSON.
    """
    import pyarrow as pa

    whose: dict[str, str] = {}
    tables = []
    for part, found in gathered:
        for results in found:
            # Fits that a later part reads, too, are in the table once.
            if results.records and whose.setdefault(results.description["name"], part) == part:
                tables.append(_named(part, results))
    return pa.concat_tables(tables, promote_options="default") if tables else None


def _named(part: str, results: Results) -> Any:
    import pyarrow as pa

    table = results.table().drop_columns(list(_LEFT_OUT))
    uses = {c["name"]: c["use"] for c in results.description["classifiers"]}
    texts = pa.array([uses[name] for name in table["classifier"].to_pylist()], pa.string())
    runs = pa.array([results.description["name"]] * table.num_rows, pa.string())
    parts = pa.array([part] * table.num_rows, pa.string())
    for name in results.description.get("publish", ()):
        kept = [json.dumps(r[name]) if name in r else None for r in results.records]
        table = table.append_column(name, pa.array(kept, pa.string()))
    table = table.add_column(2, "use", texts).add_column(0, "run", runs)
    return table.add_column(0, "part", parts)
