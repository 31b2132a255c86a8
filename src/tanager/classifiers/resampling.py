"""Structures of resampled rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tanager.classifiers.bayesnet import BayesNetClassifier
from tanager.classifiers.fitting import RUN_PARAMETERS, find_structure
from tanager.codes import Rows
from tanager.progress import Progress
from tanager.structure import Structure

STREAM = 0xB007  # names the random streams of the rounds


def resampled_structures(
    clf: BayesNetClassifier, X: Any, y: Any, sample_weight: ArrayLike | str | None, rounds: int
) -> Iterator[Structure]:
    """Iterate over structures of rows drawn with replacement; see `edge_confidence`."""
    options = {k: v for k, v in clf.get_params().items() if k not in RUN_PARAMETERS}
    context = clf._context(Progress())
    codebook, rows = clf._encode(X, y, sample_weight, None, context)
    chunk = rows.gather()
    n_rows = chunk.labels.shape[0]
    chances = None if chunk.weights is None else chunk.weights / chunk.weights.sum()
    for at in range(rounds):
        drawn = context.generator(STREAM, at).choice(n_rows, n_rows, p=chances)
        codes = np.ascontiguousarray(chunk.codes[:, drawn])
        some = Rows.in_memory(codebook.domain, codes, chunk.labels[drawn])
        yield find_structure(codebook, some, options, context.inner())
