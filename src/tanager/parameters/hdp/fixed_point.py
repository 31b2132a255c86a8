r"""The deterministic estimate of the hierarchical Dirichlet model.

Where the Gibbs sampler draws the number of tables t of every cell, this takes
its conditional mean, and where it draws a concentration, the mode of its
conditional posterior. For a node u of level d with parent node p

.. math::
   t_{uk} &= \alpha_d \phi_{pk} [\psi(\alpha_d \phi_{pk} + n_{uk})
             - \psi(\alpha_d \phi_{pk})], \qquad n_{pk} = \sum_{u \in p} t_{uk}, \\
   \phi_{uk} &= \frac{n_{uk} + \alpha_d \phi_{pk}}{n_{u\cdot} + \alpha_d}, \\
   \alpha_d &= \frac{a - 1 + \sum_u t_{u\cdot}}
                    {b + \sum_u [\psi(n_{u\cdot} + \alpha_d) - \psi(\alpha_d)]}

under a Gamma(a, b) prior. A sweep evaluates the first line from the leaves up
and the second from the root down; concentrations move by a Newton step on
their logarithm. The first line given the second is the update of Minka (2000),
"Estimating a Dirichlet distribution", for every level at once.
"""

from __future__ import annotations

import numpy as np

from tanager import native
from tanager.counts import ContextTree
from tanager.parameters.hdp.estimate import Estimate
from tanager.parameters.hdp.prior import Prior
from tanager.parameters.hdp.tying import TiedTree

__all__ = ["solve"]

# Where two levels explain the same variation the fixed point is not unique.
# From a low start the deep levels speak first and the levels that add nothing
# are the ones that end as copies of their parents; from a high start it is the
# leaves (occupation_k3 of docs/measurements/hdp.md: 2.1464 instead of 2.1420).
START = 2.0


def solve(
    tree: ContextTree, flat: TiedTree, prior: Prior, tolerance: float, max_sweeps: int
) -> Estimate:
    """Estimate one family; `max_sweeps` bounds the work, `tolerance` the last change."""
    alpha = np.full(flat.n_groups, START)
    phi = np.empty(flat.cell_count.shape[0])
    escape = np.empty(flat.node_group.shape[0])
    trace = np.zeros(max_sweeps)
    n_sweeps = native.solve_fixed_point(
        flat.level_node,
        flat.level_cell,
        flat.node_start,
        flat.node_group,
        flat.cell_parent,
        flat.cell_count,
        tree.arity,
        prior.root_concentration,
        prior.shape,
        prior.rates(flat.n_groups, flat.class_group),
        tolerance,
        max_sweeps,
        alpha,
        phi,
        escape,
        trace,
    )
    converged = bool(trace[n_sweeps - 1] < tolerance)
    info = {"sweeps": int(n_sweeps), "trace": trace[:n_sweeps].copy(), "concentration": alpha}
    return Estimate(phi, escape, converged, info)
