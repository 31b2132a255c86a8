"""What an inference over one tree gives, whichever it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.counts import ContextTree
from tanager.parameters.tables import TreeTable

__all__ = ["Estimate"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """Estimates for every node of one family's tree.

    Attributes
    ----------
    log_prob : ndarray, shape (n_cells,)
        Log-probability of every (context, value) seen, contexts of every length.
    log_escape : ndarray, shape (n_nodes,)
        Log of the share of the parent's estimate in a value the node never saw.
    converged : bool
    info : dict
        Concentrations, sweeps and the trace of this family.
    """

    log_prob: Floats
    log_escape: Floats
    converged: bool
    info: dict[str, Any] = field(default_factory=dict)

    def table(self, tree: ContextTree) -> TreeTable:
        """Return the estimates as a table on the tree."""
        return TreeTable(tree.without_counts(), self.log_prob, self.log_escape, inherit=True)
