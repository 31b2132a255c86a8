"""Splice-site-like DNA windows, any number of them, streamed.

A stand-in for the table of 50 million human splice-site windows of Petitjean et
al. (2018), section 6.5, which is not free: 140 positions, four nucleotides, one
window in a hundred a true site. Every window has the consensus pair AG in its
middle. What tells a site: a weak motif around the pair, a tract of pyrimidines
before it, another composition behind it, and positions that depend on each
other, near and far, in sites alone. All windows share the dependence of a
position on the two before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError

__all__ = ["splice_batches", "splice_table", "write_splice"]

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

LENGTH = 140
CENTRE = LENGTH // 2
NUCLEOTIDES = ("A", "C", "G", "T")
BATCH_ROWS = 1 << 16  # rows drawn by one random stream: row i is the same in a table of any size
TRACT = slice(CENTRE - 18, CENTRE - 3)  # pyrimidines, before the pair
MOTIF = (CENTRE - 3, CENTRE - 2, CENTRE + 2, CENTRE + 3, CENTRE + 4)
# Positions of a site that depend on each other: near, and across the pair.
TIED = ((CENTRE - 3, CENTRE + 2), (CENTRE - 8, CENTRE + 9), (CENTRE - 20, CENTRE - 12),
        (CENTRE + 5, CENTRE + 11), (CENTRE - 30, CENTRE + 30))  # fmt: skip


def splice_batches(
    n_rows: int, seed: int = 0, positives: float = 0.01, rows_per_batch: int = BATCH_ROWS
) -> Iterator[Any]:
    """Iterate over the windows as Arrow record batches of dictionary columns.

    Parameters
    ----------
    n_rows : int
    seed : int
        Decides the model (motif, dependence) and the rows.
    positives : float
        Share of true sites.
    rows_per_batch : int
        Rows of a batch; other than the default changes the rows.

    Examples
    --------
    >>> batch = next(splice_batches(1000))
    >>> batch.num_rows, batch.num_columns
    (1000, 141)
    """
    if n_rows < 1 or not 0.0 <= positives <= 1.0:
        raise ConfigurationError(
            f"n_rows={n_rows}, positives={positives}. Allowed: at least one row, and a share from "
            "0 to 1."
        )
    model = _Model(seed)
    for index, first in enumerate(range(0, n_rows, rows_per_batch)):
        wanted = min(rows_per_batch, n_rows - first)
        rng = np.random.default_rng([seed, 5150, index])
        codes, label = model.draw(rng, rows_per_batch, positives)
        yield _batch(codes[:, :wanted], label[:wanted])


def splice_table(n_rows: int, seed: int = 0, positives: float = 0.01) -> Any:
    """Return the windows as one Arrow table in memory."""
    import pyarrow as pa

    return pa.Table.from_batches(list(splice_batches(n_rows, seed, positives)))


def write_splice(
    folder: str | Path,
    n_rows: int,
    seed: int = 0,
    positives: float = 0.01,
    rows_per_file: int = 1 << 20,
) -> list[Path]:
    """Write the windows to a folder of Parquet files; memory holds one batch.

    Returns
    -------
    list of Path
        ``part-00000.parquet`` and so on, in the order of the rows.
    """
    from pyarrow import parquet

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise ConfigurationError(f"the folder {target.name!r} is not empty. Give a new one.")
    paths: list[Path] = []
    writer: Any = None
    in_file = 0
    try:
        for batch in splice_batches(n_rows, seed, positives):
            if writer is None or in_file + batch.num_rows > rows_per_file:
                if writer is not None:
                    writer.close()
                paths.append(target / f"part-{len(paths):05d}.parquet")
                writer, in_file = parquet.ParquetWriter(paths[-1], batch.schema), 0
            writer.write_batch(batch)
            in_file += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return paths


class _Model:
    """Chances in 256ths: a random byte and a context look the next nucleotide up."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 5149])
        shared = rng.dirichlet(np.array([6.0, 5.0, 5.0, 6.0]), 16)
        self.shared = _look_up(shared)
        other = rng.dirichlet(np.array([5.0, 7.0, 7.0, 4.0]), 16)
        self.behind = _look_up(0.85 * shared + 0.15 * other)
        self.tract = _look_up(np.array([[0.12, 0.38, 0.1, 0.4]]))[0]
        self.motif = [_look_up(rng.dirichlet(np.full(4, 1.2), 1))[0] for _ in MOTIF]
        self.rules = [rng.permutation(4).astype(np.uint8) for _ in TIED]

    def draw(
        self, rng: np.random.Generator, n_rows: int, positives: float
    ) -> tuple[Bytes, NDArray[np.bool_]]:
        """Return windows (LENGTH, n_rows) and which of them are sites."""
        label = rng.random(n_rows) < positives
        codes = np.empty((LENGTH, n_rows), np.uint8)
        chances = rng.integers(0, 256, (LENGTH, n_rows), np.uint8)
        codes[:2] = chances[:2] & 3
        site = np.flatnonzero(label)
        for place in range(2, LENGTH):
            context = (codes[place - 2] << 2) | codes[place - 1]
            codes[place] = self.shared[context, chances[place]]
            if place > CENTRE + 4:
                codes[place, site] = self.behind[context[site], chances[place, site]]
        self._plant(rng, codes, site)
        codes[CENTRE], codes[CENTRE + 1] = 0, 2  # the consensus pair, AG
        return codes, label

    def _plant(self, rng: np.random.Generator, codes: Bytes, site: NDArray[np.int64]) -> None:
        """Give sites their tract, motif and ties, in place."""
        n = site.shape[0]
        for place in range(TRACT.start, TRACT.stop):
            chosen = site[rng.random(n) < 0.45]
            codes[place, chosen] = self.tract[rng.integers(0, 256, chosen.shape[0])]
        for place, look_up in zip(MOTIF, self.motif, strict=True):
            chosen = site[rng.random(n) < 0.7]
            codes[place, chosen] = look_up[rng.integers(0, 256, chosen.shape[0])]
        for (first, second), rule in zip(TIED, self.rules, strict=True):
            chosen = site[rng.random(n) < 0.6]
            codes[second, chosen] = rule[codes[first, chosen]]


def _look_up(chances: Floats) -> Bytes:
    """Return, for rows of four chances, the nucleotide of every byte, shape (n, 256)."""
    limits = np.round(np.cumsum(chances, axis=1)[:, :3] * 256)
    return (np.arange(256)[None, :, None] >= limits[:, None, :]).sum(axis=2).astype(np.uint8)


def _batch(codes: Bytes, label: NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    letters = pa.array(NUCLEOTIDES)
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(np.ascontiguousarray(row).view(np.int8)), letters)
        for row in codes
    ]
    classes = pa.array(["no", "site"])
    columns.append(pa.DictionaryArray.from_arrays(pa.array(label.astype(np.int8)), classes))
    names = [f"p{i - CENTRE:+d}" for i in range(LENGTH)]
    return pa.record_batch(columns, names=[*names, "class"])
