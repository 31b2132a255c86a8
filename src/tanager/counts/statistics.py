"""Counts of the training rows, gathered on demand and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tanager.codes import CodedRows, Domain
from tanager.counts.tree import ContextTree
from tanager.engines import FitContext

__all__ = ["Counts"]

Floats = NDArray[np.float64]


class Counts:
    """Sufficient statistics of the training rows.

    Each is gathered by one pass when first asked for, then kept.
    """

    def __init__(self, rows: CodedRows, context: FitContext) -> None:
        self.rows = rows
        self.context = context

    @property
    def domain(self) -> Domain:
        """What the codes range over."""
        return self.rows.domain
