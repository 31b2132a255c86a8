"""The hyperparameters of the hierarchical model."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Prior"]


class Prior(NamedTuple):
    """Gamma(shape, rate) on every concentration below the root, whose own is fixed."""

    shape: float
    rate: float
    root_concentration: float
    discount: float = 0.0  # of a Pitman-Yor process; zero is the Dirichlet process
    # Share of the root's Dirichlet in the sampler's weights: one marginalises it as
    # the paper writes; the authors' program has zero (one table per value at the root).
    root_share: float = 1.0
