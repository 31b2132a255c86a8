"""The hyperparameters of the hierarchical model."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Prior"]


class Prior(NamedTuple):
    """Gamma(shape, rate) on every concentration below the root, whose own is fixed."""

    shape: float
    rate: float
    root_concentration: float
