"""Folds of the training rows: for cross-fitted tables and cross-validated strengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Chunk, CodedRows, SubsetRows
from tanager.engines import FitContext
from tanager.progress import Progress

__all__ = ["N_FOLDS", "assign_folds", "judging_folds", "other_rows"]

N_FOLDS = 5
ENOUGH_ROWS = 5_000  # held-out rows that settle a choice among a few strengths or shares


class _Labels:
    """Gathers all labels."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows

    def zero(self) -> list[tuple[int, NDArray[np.uint16]]]:
        return []

    def update(
        self, state: list[tuple[int, NDArray[np.uint16]]], chunk: Chunk
    ) -> list[tuple[int, NDArray[np.uint16]]]:
        state.append((chunk.start, chunk.labels))
        return state

    def merge(
        self, a: list[tuple[int, NDArray[np.uint16]]], b: list[tuple[int, NDArray[np.uint16]]]
    ) -> list[tuple[int, NDArray[np.uint16]]]:
        return a + b

    def finish(self, state: list[tuple[int, NDArray[np.uint16]]]) -> NDArray[np.uint16]:
        labels = np.zeros(self._n_rows, np.uint16)
        for start, part in state:
            labels[start : start + part.shape[0]] = part
        return labels


def assign_folds(
    rows: CodedRows, n_folds: int, generator: np.random.Generator, context: FitContext
) -> NDArray[np.uint8]:
    """Deal the rows of each class into folds at random, as evenly as can be.

    One pass reads the labels; one byte a row is kept.
    """
    source: Any = rows
    labels: NDArray[np.uint16] = context.engine.run(
        _Labels(rows.n_rows), source, Progress(), "folds"
    )
    order = np.argsort(labels + generator.random(labels.shape[0]), kind="stable")
    folds = np.empty(labels.shape[0], np.uint8)
    folds[order] = np.arange(labels.shape[0]) % n_folds
    return folds


def other_rows(rows: CodedRows, folds: NDArray[np.uint8], left_out: int) -> SubsetRows:
    """Return the rows outside one fold."""
    return SubsetRows(rows, np.flatnonzero(folds == left_out), keep=False)


def judging_folds(folds: NDArray[np.uint8]) -> range:
    """Return the first folds that hold enough rows between them to judge by."""
    sizes = np.bincount(folds)
    return range(min(int(np.searchsorted(np.cumsum(sizes), ENOUGH_ROWS)) + 1, len(sizes)))
