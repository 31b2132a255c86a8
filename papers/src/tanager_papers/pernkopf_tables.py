"""Pernkopf and Bilmes (2008): the tables of Friedman, Geiger and Goldszmidt (1997) at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tanager.evaluation.datasets import Dataset
from tanager_papers.keel import TableFacts, read_keel
from tanager_papers.table_lists import FRIEDMAN
from tanager_papers.workbench import Workbench

__all__ = ["MADE_OTHERWISE", "friedman_tables"]

LETTER_TRAINING = 15_000
WINDOWS = {"build wind float": "float", "vehic wind float": "float", "build wind non-float": "not"}
SHUTTLE_ROWS, SHUTTLE_TRAINING = 5_800, 3_866


def _glass2(bench: Workbench) -> Any | None:
    """Take the windows of glass, processed by float or not: 163 rows."""
    import pyarrow as pa

    found = bench.find("glass")
    if found is None:
        return None
    data = found.load()
    names = [WINDOWS.get(data.classes[code]) for code in data.labels]
    rows = np.flatnonzero([name is not None for name in names])
    labels = pa.array([names[row] for row in rows])
    return data.features.take(rows).append_column("class", labels)


def _shuttle_small(bench: Workbench) -> Any | None:
    """Draw 5,800 rows of shuttle, as many as the paper's sample has."""
    import pyarrow as pa

    found = bench.find("shuttle")
    if found is None:
        return None
    data = found.load()
    rows = np.random.default_rng(1997).permutation(len(data.labels))[:SHUTTLE_ROWS]
    labels = pa.array([data.classes[code] for code in data.labels[rows]])
    return data.features.take(rows).append_column("class", labels)


# Tables that are made of others, with their sizes and how many of their rows are for training.
DERIVED: dict[str, tuple[Callable[[Workbench], Any | None], TableFacts, int | None]] = {
    "glass2": (_glass2, TableFacts("glass2", 163, 9, 2), None),
    "HouseVotes84": (
        lambda _bench: read_keel("housevotes"), TableFacts("housevotes", 232, 16, 2), None,
    ),
    "shuttle-small": (
        _shuttle_small, TableFacts("shuttle-small", SHUTTLE_ROWS, 9, 7), SHUTTLE_TRAINING,
    ),
}  # fmt: skip
MADE_OTHERWISE = (
    "glass2: the windows of glass, by float or not. shuttle-small: a sample of shuttle of the "
    "paper's size, not the paper's own. housevotes: the 232 rows without a missing value, of 435. "
    "letter: the first 15,000 rows for training, once. chess, satellite and segment: five folds, "
    "where the paper has one division. The 25 are 24 here: diabetes and pima are one table."
)


def friedman_tables(bench: Workbench) -> list[Dataset]:
    """Return the tables at hand, small ones first."""
    datasets = bench.tables([name for name in FRIEDMAN if name not in DERIVED])
    datasets = [
        Dataset(d.name, d.source, d.target, d.drop, LETTER_TRAINING) if d.name == "letter" else d
        for d in datasets
    ]
    for name, (make, facts, train_rows) in DERIVED.items():
        table = None if bench.max_rows and facts.rows > bench.max_rows else make(bench)
        if table is None:
            bench.leave_out(f"{name}: what it is made of isn't available, or it is too large")
            continue
        datasets.append(Dataset(facts.stem, table, train_rows=train_rows))
        bench.n_rows[facts.stem], bench.n_classes[facts.stem] = facts.rows, facts.classes
    return sorted(datasets, key=lambda dataset: bench.n_rows[dataset.name])
