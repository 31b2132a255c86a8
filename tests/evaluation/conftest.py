from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tanager.evaluation import Dataset


def make_table(n_rows: int, seed: int, n_classes: int = 3) -> pa.Table:
    """A mixed table: two numbers, one category with missing values, a class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    colours = np.array(["red", "green", "blue", "grey"])
    colour = colours[(y + (rng.random(n_rows) < 0.3)) % 4].astype(object)
    colour[rng.random(n_rows) < 0.1] = None
    return pa.table(
        {
            "length": y + rng.normal(scale=0.8, size=n_rows),
            "width": rng.normal(size=n_rows),
            "colour": pa.array(list(colour)),
            "class": pa.array([f"c{k}" for k in y]),
        }
    )


@pytest.fixture
def small() -> Dataset:
    return Dataset("small", make_table(90, 0))


@pytest.fixture
def other() -> Dataset:
    return Dataset("other", make_table(60, 1, n_classes=2))
