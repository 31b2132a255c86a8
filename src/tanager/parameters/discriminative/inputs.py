r"""How trained scores weigh rows they have not seen whole: the network's P(x).

Scores determine P(y | x) only: any function of the features alone may be added
without changing it. Which one is no matter for complete rows, but decides how
unknown values are summed out. Among the functions that are a sum of one term a
family, this takes the one that makes the rows most probable: the maximum of

.. math:: \sum_i \langle T_i, \varphi_i \rangle - \log \sum_{x, y} \exp(s(x, y) + \sum_i \varphi_i)

with :math:`T_i` the share of each value of feature i and its parents, whatever
the class. It is concave; at the maximum the network's own shares are
:math:`T_i`, and so what it says of the class with nothing known is near the
classes' frequencies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tanager.parameters.discriminative.renormalise import holders, normalise, renormalise
from tanager.parameters.tables import DenseTable, Tables
from tanager.structure import Structure

__all__ = ["family_shares", "fit_inputs"]

Floats = NDArray[np.float64]

MAX_ITERATIONS = 100
MAX_WORK = 1 << 29  # cells times classes times iterations
TOLERANCE = 1e-4  # of any share


def fit_inputs(structure: Structure, tables: Tables, generative: Tables) -> Tables:
    """Return a proper network with the same posterior, and P(x) as near as can be to another's.

    Parameters
    ----------
    structure : Structure
        Without immoralities.
    tables : Tables
        Scores.
    generative : Tables
        A network on the same structure, whose shares are the goal. Where either
        is too large to be spelled out, P(x) is left as it is.
    """
    from scipy.optimize import minimize

    start, goal = renormalise(structure, tables), renormalise(structure, generative)
    if not (start.normalized and goal.normalized and start.families):
        return start
    logs = _spelled(start)
    wanted = [shares.sum(axis=-1) for shares in family_shares(structure, goal)]
    sizes = np.cumsum([0, *(part.size for part in wanted)])

    def added(free: Floats) -> list[Floats]:
        return [
            log + free[low:high].reshape(part.shape)[..., None]
            for log, part, low, high in zip(logs, wanted, sizes, sizes[1:], strict=False)
        ]

    def objective(free: Floats) -> tuple[float, Floats]:
        normal, log_prior, log_total = normalise(structure, added(free), start.log_prior)
        network = Tables(log_prior, tuple(DenseTable(log) for log in normal))
        found = family_shares(structure, network)
        gaps = [f.sum(axis=-1) - w for f, w in zip(found, wanted, strict=True)]
        gained = sum(
            float((part.ravel() * free[low:high]).sum())
            for part, low, high in zip(wanted, sizes, sizes[1:], strict=False)
        )
        return log_total - gained, np.concatenate([gap.ravel() for gap in gaps])

    work = max(sum(log.size for log in logs), 1)
    iterations = int(min(MAX_ITERATIONS, max(MAX_WORK // work, 5)))
    options = {"maxiter": iterations, "gtol": TOLERANCE, "ftol": 1e-10}
    free = minimize(objective, np.zeros(sizes[-1]), jac=True, method="L-BFGS-B", options=options).x
    fitted = tuple(DenseTable(log) for log in added(free))
    return renormalise(structure, Tables(start.log_prior, fitted, normalized=False))


def family_shares(structure: Structure, tables: Tables) -> list[Floats]:
    """Return P(parents, x, y) of every family of a proper network on a moral structure.

    Each has the shape of its dense table, (*parent_arities, arity, n_classes).
    """
    shares: list[Floats] = [np.zeros(0)] * len(tables.families)
    above = holders(structure)
    for at in structure.topological_order():
        parents, log = structure.parent_indices[at], tables.families[at].to_dense().log_prob
        outer = np.exp(tables.log_prior)
        if parents:
            holder = above[at]
            members = (*structure.parent_indices[holder], structure.selected[holder])
            kept = [members.index(parent) for parent in parents]
            dropped = tuple(axis for axis in range(len(members)) if axis not in kept)
            left = sorted(kept)
            outer = shares[holder].sum(axis=dropped)
            outer = outer.transpose(*(left.index(axis) for axis in kept), len(kept))
        shares[at] = outer[..., None, :] * np.exp(log)
    return shares


def _spelled(tables: Tables) -> list[Floats]:
    return [table.to_dense().log_prob for table in tables.families]
