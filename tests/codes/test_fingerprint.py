"""Fingerprints of rows: the same in any chunking, others for any other table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tanager.codes import learn_codebook
from tanager.codes.hashing import fingerprint_rows
from tanager.engines import FitContext, LocalEngine

N = 60


def columns():
    rng = np.random.default_rng(0)
    return {
        "a": np.array(["u", "v", "w"])[rng.integers(0, 3, N)],
        "b": rng.integers(0, 4, N),
        "y": rng.integers(0, 2, N),
        "w": rng.choice([0.5, 1.0, 2.0], N),
    }


def fingerprint(table, n_jobs=1):
    context = FitContext(LocalEngine(n_jobs))
    codebook, rows = learn_codebook(
        table, "y", sample_weight="w", categorical_features="all", context=context
    )
    return fingerprint_rows(codebook, rows, context)


def test_chunks_and_threads_change_nothing():
    table = pa.table(columns())
    expected = fingerprint(table)
    parts = pa.concat_tables([table.slice(low, 7) for low in range(0, N, 7)])
    assert fingerprint(parts) == fingerprint(parts, n_jobs=4) == expected


def test_any_other_cell_order_weight_or_name_is_another():
    table, seen = columns(), {fingerprint(pa.table(columns()))}
    for name in ("a", "b", "y", "w"):
        for i, j in ((0, 1), (3, 40), (58, 59)):
            changed = columns()
            if changed[name][i] == changed[name][j]:
                j = int(np.flatnonzero(changed[name] != changed[name][i])[0])
            changed[name][[i, j]] = changed[name][[j, i]]  # every count of one column stays
            seen.add(fingerprint(pa.table(changed)))
    seen.add(fingerprint(pa.table(table).take([*range(1, N), 0])))
    seen.add(fingerprint(pa.table(table).rename_columns(["a", "c", "y", "w"])))
    renamed = columns()
    renamed["a"] = np.char.upper(renamed["a"])
    seen.add(fingerprint(pa.table(renamed)))
    assert len(seen) == 1 + 12 + 3
