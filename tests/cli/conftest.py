"""A table in three formats, and a model of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from tests.cli.calling import call


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with a table in three formats and a model."""
    folder = tmp_path_factory.mktemp("program")
    rng = np.random.default_rng(5)
    n = 600
    age = rng.integers(18, 80, n)
    job = rng.choice(["clerk", "smith, jr", 'the "boss"', "zoë\nline"], n)
    pay = np.where(rng.random(n) < 0.2, np.nan, age * 2.0 + rng.normal(0, 20, n))
    bad = (age + 20 * (job == "clerk") + rng.normal(0, 9, n)) > 60
    table = pa.table(
        {
            "id": np.arange(n),
            "age": age,
            "job": job,
            "pay": pa.array(pay, from_pandas=True),
            "risk": np.where(bad, "high", "low"),
        }
    )
    pq.write_table(table, folder / "t.parquet")
    pacsv.write_csv(table, folder / "t.csv")
    feather.write_feather(table, folder / "t.feather", compression="uncompressed")
    learners = ["-s", "tan", "-p", "m-estimate(m=1)"]
    model = folder / "m.tanager"
    assert (
        call("fit", folder / "t.parquet", "-t", "risk", "--drop", "id", *learners, "-o", model) == 0
    )
    return folder


@pytest.fixture
def said(capsys):
    capsys.readouterr()
    return lambda: capsys.readouterr()
