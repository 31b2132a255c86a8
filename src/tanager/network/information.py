"""What a network implies about its variables: marginals, information, removing an edge.

All results are properties of the network's joint distribution, in nats; no data is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tanager.codes import Groups
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network.propagation import align
from tanager.numerics import Floats, log_or_zero, log_softmax
from tanager.parameters.spread import table_arrays
from tanager.parameters.tables import FamilyTable, GroupedTable

if TYPE_CHECKING:
    from tanager.network.network import Network

# Shown wherever features are ranked by their individual information.
SPOKEN_FOR = (
    "A feature that is informative on its own may add nothing to an explanation: the information "
    "it shares with its parents counts only for them."
)
TINY = np.finfo(np.float64).tiny
MAX_CELLS = 1 << 23  # of one expanded family, by views: 64 MiB
MAX_WORK = 1 << 24  # cells that may be summed to get the joint probability of one family's parents
MOST_KEPT = 1 << 16  # cells of a joint probability that is kept for others


def n_probabilities(table: FamilyTable) -> int:
    """Return how many numbers a model file stores for a family."""
    return sum(array.size for array in table_arrays(table).values())


@dataclass(frozen=True, eq=False)
class NetworkInformation:
    """Marginals of the features, and the information that features and edges carry.

    Tables may read a feature more coarsely than its own values; contexts then range over its
    views, the groups of values that some table distinguishes (`tanager.network.views`).

    If summing out what connects a feature's parents would take more than sixteen million additions,
    they're treated as independent given the class in the feature's marginal, and its edges have no
    information. Scores (``tables.normalized`` is False) are divided by their sum over the values.

    Parameters
    ----------
    network : Network

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> clf = BayesNetClassifier("tan", "laplace").fit(X, [0, 0, 1, 1] * 5)
    >>> information = NetworkInformation(clf.network_)
    >>> information.joint("x1").round(3)  # P(x1, class)
    array([[0.25, 0.25],
           [0.25, 0.25]])
    >>> information.of_features().round(3).tolist()  # alone, neither says anything
    [0.0, 0.0]
    >>> {edge: round(bits, 3) for edge, bits in information.of_edges().items()}
    {('x0', 'x1'): 0.283}
    """

    network: Network

    def joint(self, feature: str) -> Floats | None:
        """Return P(feature, class), shape (arity, n_classes), or None if it's too large."""
        return self._joints[self._place(feature)]

    def of_features(self) -> Floats:
        """Return I(feature; class), shape (n_features,); zero for features that aren't used."""
        out = np.zeros(self.network.codebook.domain.n_features)
        for feature, joint in zip(self.network.structure.selected, self._joints, strict=True):
            if joint is not None:
                out[feature] = _dependence(joint, 0, 1)
        return out

    def beyond_parents(self) -> Floats:
        """Return I(feature; class | parents): what a feature adds to its parents, (n_features,).

        Zero for features that aren't used; NaN if the family is too large.
        """
        out = np.zeros(self.network.codebook.domain.n_features)
        for at, feature in enumerate(self.network.structure.selected):
            joint, groups = self._family_joint(at), self.network.views.groups[feature]
            found = None if joint is None else _information_beyond(joint, groups, self._within(at))
            out[feature] = np.nan if found is None else found
        return out

    def of_edges(self) -> dict[tuple[str, str], float]:
        """Return I(feature; parent | class, other parents) by (parent, feature).

        Edges into a family that is too large to be expanded are omitted.
        """
        out: dict[tuple[str, str], float] = {}
        for at, (feature, parents) in enumerate(self.network.structure.parents.items()):
            joint = self._family_joint(at) if parents else None
            if joint is not None:  # the feature's view has all of its information about a parent
                each = enumerate(parents)
                out |= {(p, feature): _dependence(joint, axis, -2) for axis, p in each}
        return out

    def table_without(self, parent: str, feature: str) -> FamilyTable:
        """Return P(feature | class, other parents), of the nearest network by KL divergence."""
        structure, at = self.network.structure, self._place(feature)
        parents = structure.parent_indices[at]
        names = [structure.names[p] for p in parents]
        if parent not in names:
            known = f"Its parents: {', '.join(map(repr, names)) or 'the class alone'}."
            raise ConfigurationError(f"{parent!r} isn't a parent of {feature!r}. {known}")
        joint = self._family_joint(at)
        if joint is None:
            raise MemoryBoundError(
                f"The table of {feature!r} is too large to be summed. Take out another parent "
                "first, or learn a structure with fewer parents."
            )
        gone = names.index(parent)
        logs = np.ascontiguousarray(_log_conditional(joint.sum(axis=gone)))
        # The distribution of a value within its view doesn't depend on the parents.
        within = log_or_zero(self._within(at))
        members = (*parents[:gone], *parents[gone + 1 :], structure.selected[at])
        groups = [self.network.views.groups[member] for member in members]
        return GroupedTable.of_groups(logs, within, groups)

    def effect(self, feature: str, target: int) -> Floats | None:
        """Return each value's log P(value | class) - log P(value | any other class), (arity,).

        `target` is the index of the class. None if the family is too large.
        """
        joint = self.joint(feature)
        return None if joint is None else log_odds(joint, target)

    def context(self, feature: str) -> Floats | None:
        """Return P(parents, class), shape (*parent_groups, n_classes), or None if it's too large.

        Values of a parent that no table distinguishes are grouped, see `parent_groups`.
        """
        return self._context(self._place(feature))

    def table(self, feature: str) -> Floats | None:
        """Return P(feature | parents, class), (*parent_groups, arity, n_classes), if not huge."""
        at = self._place(feature)
        table, own = self._families[at], self.network.structure.selected[at]
        if table is None:
            return None
        return np.take(table, self.network.views.groups[own], axis=-2) * self._within(at)

    def parent_groups(self, feature: str) -> list[Groups]:
        """Return, for each parent, the group of each of its values."""
        parents = self.network.structure.parent_indices[self._place(feature)]
        return [self.network.views.groups[parent] for parent in parents]

    def _place(self, feature: str) -> int:
        return self.network.structure.position(feature)

    def _within(self, at: int) -> Floats:
        """Return P(value | its view, class) of a feature, (arity, n_classes)."""
        logs, views = self.network.views.within[at], self.network.views
        arity = len(views.groups[self.network.structure.selected[at]])
        return np.ones((arity, len(self.network.log_prior))) if logs is None else np.exp(logs)

    @cached_property
    def _families(self) -> list[Floats | None]:
        """P(view | parents' views, class) of every family, (*parents, n_views, n_classes)."""
        out: list[Floats | None] = []
        for table in self.network.views.tables.families:
            if prod(table.member_arities) * table.n_classes > MAX_CELLS:
                out.append(None)
                continue
            logs = table.to_dense().log_prob
            out.append(np.exp(logs if self.network.tables.normalized else log_softmax(logs, -2)))
        return out

    @cached_property
    def _joints(self) -> list[Floats | None]:
        """P(value, class) of every feature, (arity, n_classes)."""
        groups = [self.network.views.groups[f] for f in self.network.structure.selected]
        return [
            None if joint is None else joint[groups[at]] * self._within(at)
            for at, joint in enumerate(self._marginals)
        ]

    @cached_property
    def _marginals(self) -> list[Floats | None]:
        """P(feature, class) of every family, (n_views, n_classes), parents first."""
        structure, parents = self.network.structure, self.network.structure.parent_indices
        out: list[Floats | None] = [None] * len(structure.selected)
        for at in structure.topological_order():
            table, context = self._families[at], self._context(at)
            exact = context is not None
            above = [] if exact else [out[self._ranks[p][1]] for p in parents[at]]
            known = [joint for joint in above if joint is not None]
            if table is None or len(known) < len(above):
                continue
            if context is None:  # as if the parents were independent given the class
                context = self._prior
                for joint in known:
                    share = joint / np.maximum(joint.sum(axis=0), TINY)
                    context = context[..., None, :] * share
            family = table * context[..., None, :]
            out[at] = joint = family.reshape(-1, *family.shape[-2:]).sum(axis=0)
            if exact:
                self._known[frozenset((structure.selected[at],))] = joint.T
        return out

    def _context(self, at: int) -> Floats | None:
        """Return P(parents, class) of one family, (*parents' views, n_classes)."""
        parents = self.network.structure.parent_indices[at]
        joint = self._joint(frozenset(parents))
        if joint is None:
            return None
        ordered = sorted(parents, key=self._ranks.__getitem__)
        return np.moveaxis(align(tuple(ordered), joint, parents), 0, -1)

    def _joint(self, features: frozenset[int], work: int = 0) -> Floats | None:
        """Return P(class, features' views), parents first, or None if it takes too much work."""
        if features in self._known:
            return self._known[features]
        structure, sizes, rank = self.network.structure, self.network.views.sizes, self._ranks
        last = max(features, key=rank.__getitem__)
        table, parents = self._families[rank[last][1]], structure.parent_indices[rank[last][1]]
        above = sorted(features.union(parents) - {last}, key=rank.__getitem__)
        work += prod(int(sizes[f]) for f in (*above, last)) * len(self._prior)
        if table is None or work > MAX_WORK:
            return None
        # The last feature's family multiplies the joint of the others and its parents.
        joint = self._joint(frozenset(above), work)
        if joint is None:
            return None
        family = align((*parents, last), np.moveaxis(table, -1, 0), (*above, last))
        gone = tuple(1 + axis for axis, f in enumerate(above) if f not in features)
        joint = (family * joint[..., None]).sum(axis=gone)
        if joint.size <= MOST_KEPT:
            self._known[features] = joint
        return joint

    @cached_property
    def _known(self) -> dict[frozenset[int], Floats]:
        """Joints by features, for `_joint`."""
        return {frozenset(): self._prior}

    @cached_property
    def _ranks(self) -> dict[int, tuple[int, int]]:
        """The place of each feature in topological order, and in the structure."""
        selected = self.network.structure.selected
        order = self.network.structure.topological_order()
        return {selected[at]: (rank, at) for rank, at in enumerate(order)}

    @cached_property
    def _prior(self) -> Floats:
        return np.exp(log_softmax(self.network.log_prior, 0))

    def _family_joint(self, at: int) -> Floats | None:
        """P(parents, the feature's view, class) of one family."""
        table, context = self._families[at], self._context(at)
        return None if table is None or context is None else table * context[..., None, :]


def log_odds(joint: Floats, target: int) -> Floats:
    """Return log P(x | target) - log P(x | not target) from P(x, class), (arity, n_classes)."""
    own, all_ = joint[:, target], joint.sum(axis=1)
    other = all_ - own
    inside = np.log(np.maximum(own, TINY)) - np.log(max(own.sum(), TINY))
    outside = np.log(np.maximum(other, TINY)) - np.log(max(other.sum(), TINY))
    return np.asarray(inside - outside)


def _log_conditional(joint: Floats) -> Floats:
    """Return log P(feature | all else) from a joint (*parents, feature, class)."""
    total, uniform = joint.sum(axis=-2, keepdims=True), 1.0 / joint.shape[-2]
    return log_or_zero(np.divide(joint, total, out=np.full(joint.shape, uniform), where=total > 0))


def _information_beyond(joint: Floats, groups: Groups, within: Floats) -> float:
    r"""Return I(X; Y | parents) of (*parents, views of X, class).

    Notes
    -----
    By the chain rule :math:`I(X; Y \mid U) = I(G; Y \mid U) + I(X; Y \mid G, U)`, G the
    view of X. With :math:`m_{ux} = \sum_y P(u, g, y) P(x \mid g, y)` the second is

    .. math:: \sum_{g,y} P(g, y) \sum_{x \in g} P(x \mid g, y) \log P(x \mid g, y)
              - \sum_{u,x} m_{ux} \log m_{ux} + \sum_{u,g} P(u, g) \log P(u, g).
    """
    flat = joint.reshape(-1, *joint.shape[-2:])
    found = _dependence(flat, 1, 2)
    if len(groups) == flat.shape[1]:
        return found
    by_class, beyond = flat.sum(axis=0), 0.0
    for group in range(flat.shape[1]):
        inside = within[groups == group]
        beyond += float((by_class[group] * _x_log_x(inside).sum(axis=0)).sum())
        beyond -= float(_x_log_x(flat[:, group] @ inside.T).sum())
        beyond += float(_x_log_x(flat[:, group].sum(axis=1)).sum())
    return found + max(0.0, beyond)


def _x_log_x(p: Floats) -> Floats:
    return p * log_or_zero(p)


def _dependence(joint: Floats, one: int, other: int) -> float:
    """Return the mutual information of two axes, given all others."""
    rest = joint.sum(axis=(one, other), keepdims=True)
    product = joint.sum(axis=one, keepdims=True) * joint.sum(axis=other, keepdims=True)
    apart = np.divide(product, rest, out=np.zeros(joint.shape), where=rest > 0)
    # A product of two probabilities may underflow; its contribution is just as small.
    seen = (joint > 0) & (apart > 0)
    return max(0.0, float((joint[seen] * np.log(joint[seen] / apart[seen])).sum()))
