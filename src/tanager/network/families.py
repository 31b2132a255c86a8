"""A family's probabilities by groups of the feature's values, and what is known from them alone.

Where a feature has hundreds of values in a dozen groups, P(x | y, parents) is
P(group | y, parents) · P(x | group, y). Given group and class a value says nothing about the
parents, so that nearly everything about a family is a sum over groups.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.parameters.tables import DenseTable, FamilyTable, GroupedTable

if TYPE_CHECKING:
    from tanager.network.network import Network

Floats = NDArray[np.float64]
Groups = NDArray[np.uint16]

MAX_CELLS = 1 << 23  # of one family without groups, spelled out: 64 MiB


def n_probabilities(table: FamilyTable) -> int:
    """Return how many numbers a model file has for a family."""
    if isinstance(table, GroupedTable):
        return int(table.log_group.size + table.log_within.size)
    if isinstance(table, DenseTable):
        return int(table.log_prob.size)
    return int(table.cell_log_prob.size + table.node_log_escape.size)


class FamilyParts(NamedTuple):
    """P(x | y, parents) of one family in two parts."""

    # (*parent_groups, n_groups, n_classes): P(group of x | y, groups of the parents).
    by_group: Floats
    within: Floats  # (arity, n_classes): P(x | its group, y)
    own: Groups  # (arity,): the group of each value

    @classmethod
    def of(cls, network: Network, at: int) -> FamilyParts | None:
        """Return the parts of a network's family; None where it is too large.

        Tables that are scores and no probabilities are divided by their sum over the values.
        """
        table = network.tables.families[at]
        if isinstance(table, GroupedTable):
            own, log_within, log_group = table.member_groups[-1], table.log_within, table.log_group
        elif prod(table.member_arities) * table.n_classes > MAX_CELLS:
            return None
        else:
            log_group = table.to_dense().log_prob
            own = np.arange(log_group.shape[-2], dtype=np.uint16)
            log_within = np.zeros(log_group.shape[-2:])
        if network.tables.normalized:
            return cls(np.exp(log_group), np.exp(log_within), own)
        within = np.exp(log_within - log_within.max(axis=0))
        sums = np.zeros(log_group.shape[-2:])
        np.add.at(sums, own, within)
        scores = np.exp(log_group - log_group.max(axis=-2, keepdims=True)) * sums
        return cls(scores / scores.sum(axis=-2, keepdims=True), within / sums[own], own)

    def spelled_out(self) -> Floats:
        """Return P(x | y, parents), shape (*parent_groups, arity, n_classes)."""
        return np.take(self.by_group, self.own, axis=-2) * self.within

    def of_values(self, joint: Floats) -> Floats:
        """Return P(x, y), shape (arity, n_classes), from P(group, y)."""
        return joint[self.own] * self.within

    def regrouped(self, joint: Floats, groups: Groups) -> Floats:
        """Return P(..., other group, y) from P(..., group, y): a child may read other groups."""
        n_groups, n_classes = joint.shape[-2:]
        shares = np.zeros((n_groups, int(groups.max(initial=0)) + 1, n_classes))
        np.add.at(shares, (self.own, groups), self.within)
        return np.einsum("...gc,goc->...oc", joint, shares)


def mutual_information(joint: Floats) -> float:
    """Return I(X; Y) of a joint distribution (arity, n_classes)."""
    return _dependence(joint, 0, 1)


def conditional_information(joint: Floats, axis: int) -> float:
    """Return I(X; parent | class, other parents) of (*parents, groups of X, class).

    The groups say all that X says about a parent.
    """
    return _dependence(joint, axis, -2)


def information_beyond(joint: Floats, parts: FamilyParts) -> float:
    r"""Return I(X; Y | parents) of (*parents, groups of X, class).

    Notes
    -----
    By the chain rule :math:`I(X; Y \mid U) = I(G; Y \mid U) + I(X; Y \mid G, U)`, G the
    group of X. With :math:`m_{ux} = \sum_y P(u, g, y) P(x \mid g, y)` the second is

    .. math:: \sum_{g,y} P(g, y) \sum_{x \in g} P(x \mid g, y) \log P(x \mid g, y)
              - \sum_{u,x} m_{ux} \log m_{ux} + \sum_{u,g} P(u, g) \log P(u, g).
    """
    flat = joint.reshape(-1, *joint.shape[-2:])
    found = _dependence(flat, 1, 2)
    if len(parts.own) == flat.shape[1]:
        return found
    by_class, beyond = flat.sum(axis=0), 0.0
    for group in range(flat.shape[1]):
        inside = parts.within[parts.own == group]
        beyond += float((by_class[group] * _x_log_x(inside).sum(axis=0)).sum())
        beyond -= float(_x_log_x(flat[:, group] @ inside.T).sum())
        beyond += float(_x_log_x(flat[:, group].sum(axis=1)).sum())
    return found + max(0.0, beyond)


def _x_log_x(p: Floats) -> Floats:
    return p * np.log(np.maximum(p, np.finfo(np.float64).tiny))


def _dependence(joint: Floats, one: int, other: int) -> float:
    """Return the mutual information of two axes, given all the rest."""
    rest = joint.sum(axis=(one, other), keepdims=True)
    product = joint.sum(axis=one, keepdims=True) * joint.sum(axis=other, keepdims=True)
    apart = np.divide(product, rest, out=np.zeros(joint.shape), where=rest > 0)
    # A product of two probabilities may be too small for a number; what it adds is as small.
    seen = (joint > 0) & (apart > 0)
    return max(0.0, float((joint[seen] * np.log(joint[seen] / apart[seen])).sum()))
