"""The hyperparameters of the hierarchical model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Prior"]


class Prior(NamedTuple):
    """Gamma(shape, rate) on every concentration below the root, whose own is fixed."""

    shape: float
    rate: float
    root_concentration: float
    class_rate: float | None = None  # for the class level's concentration; None: as the others
    # Of a Pitman-Yor process; zero is the Dirichlet process, None is drawn with the tables.
    discount: float | None = 0.0
    # Share of the root's Dirichlet in the sampler's weights: one marginalises it as
    # the paper writes; the authors' program has zero (one table per value at the root).
    root_share: float = 1.0

    def rates(self, n_groups: int, class_group: int) -> NDArray[np.float64]:
        """Return the rate for each concentration, with that of the class level's own, if any."""
        rates = np.full(n_groups, float(self.rate))
        if self.class_rate is not None and class_group >= 0:
            rates[class_group] = self.class_rate
        return rates
