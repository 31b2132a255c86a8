"""What a network implies about its variables: marginals, information, removing an edge.

All of it is a property of the network's joint distribution; no data is read. Information is in
nats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError
from tanager.network.marginal import Factor, eliminate, sum_out
from tanager.numerics import Floats, log_sum_exp
from tanager.parameters.spread import table_arrays
from tanager.parameters.tables import FamilyTable, GroupedTable, Tables

if TYPE_CHECKING:
    from tanager.network.network import Network

Groups = NDArray[np.uint16]

TINY = np.finfo(np.float64).tiny
MAX_CELLS = 1 << 23  # of one family without groups, spelled out: 64 MiB
MAX_WORK = 1 << 22  # cells that may be added up for the joint probability of one family's parents


def n_probabilities(table: FamilyTable) -> int:
    """Return how many numbers a model file has for a family."""
    return sum(array.size for array in table_arrays(table).values())


class FamilyParts(NamedTuple):
    """P(x | y, parents) of one family as P(group of x | y, parents) · P(x | group, y).

    Given its group and the class, a value says nothing about the parents, so nearly everything
    about a family is a sum over groups: often a dozen, where the feature has hundreds of values.
    """

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


@dataclass(frozen=True, eq=False)
class NetworkInformation:
    """Marginals of the features, and the information that features and edges carry.

    Children may read a feature more coarsely than its own values; contexts then range over the
    groups of values that their tables tell apart.

    If summing out what connects a feature's parents would take more than four million additions,
    they're treated as independent given the class in the feature's marginal, and its edges have no
    information. Tables that are scores rather than probabilities (``tables.normalized`` is False)
    are first divided by their sum over the feature's values.

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
        """Return P(feature, class), shape (arity, n_classes); None where it is too large."""
        return self._parts[1][self._place(feature)]

    def log_given_class(self) -> list[Floats | None]:
        """Return log P(feature | class) of each feature, (arity, n_classes); None as in `joint`."""
        return [
            None
            if joint is None
            else np.log(np.maximum(joint, TINY) / np.maximum(joint.sum(axis=0), TINY))
            for joint in self._parts[1]
        ]

    def of_features(self) -> Floats:
        """Return I(feature; class), shape (n_features,); zero for features left out."""
        out = np.zeros(self.network.codebook.domain.n_features)
        for feature, joint in zip(self.network.structure.selected, self._parts[1], strict=True):
            if joint is not None:
                out[feature] = _dependence(joint, 0, 1)
        return out

    def beyond_parents(self) -> Floats:
        """Return I(feature; class | parents), shape (n_features,).

        What a feature says about the class once its parents are known. Zero for features left
        out; NaN if the family is too large.
        """
        structure = self.network.structure
        out = np.zeros(self.network.codebook.domain.n_features)
        for at, feature in enumerate(structure.selected):
            parts, joint = self._families[at], self._family_joint(at)
            out[feature] = np.nan
            if parts is not None and joint is not None:
                out[feature] = _information_beyond(joint, parts)
        return out

    def of_edges(self) -> dict[tuple[str, str], float]:
        """Return I(feature; parent | class, other parents) by (parent, feature).

        Parents are taken as the feature's table tells their values apart. Edges into a
        family that is too large to be spelled out are absent.
        """
        structure = self.network.structure
        out: dict[tuple[str, str], float] = {}
        for at, parents in enumerate(structure.parent_indices):
            joint = self._family_joint(at) if parents else None
            if joint is None:
                continue
            for axis, parent in enumerate(parents):
                edge = (structure.names[parent], structure.features[at])
                # The feature's groups say all that it says about a parent.
                out[edge] = _dependence(joint, axis, -2)
        return out

    def without_edge(self, parent: str, feature: str) -> Network | None:
        """Return the network without one edge, or None where its family is too large.

        The feature's table becomes P(feature | class, other parents) of the
        joint: of all networks that lack the edge, the nearest to this one by
        Kullback-Leibler divergence.
        """
        from tanager.network.network import Network

        structure, at = self.network.structure, self._place(feature)
        parents = structure.parent_indices[at]
        names = [structure.names[p] for p in parents]
        if parent not in names:
            raise ConfigurationError(
                f"{parent!r} is no parent of {feature!r}. Its parents: "
                f"{', '.join(map(repr, names)) or 'the class alone'}."
            )
        parts, joint = self._families[at], self._family_joint(at)
        if parts is None or joint is None:
            return None
        summed = joint.sum(axis=names.index(parent))
        kept = tuple(p for p in parents if structure.names[p] != parent)
        fewer = list(structure.parent_indices)
        fewer[at] = kept
        families = list(self.network.tables.families)
        groups = [g for g, name in zip(self._groups[at], names, strict=True) if name != parent]
        logs = np.ascontiguousarray(_log_conditional(summed))
        # What a value says within its group is the same whatever the parents are.
        within = np.log(np.maximum(parts.within, TINY))
        families[at] = GroupedTable.of_groups(logs, within, [*groups, parts.own])
        tables = Tables(self.network.log_prior, tuple(families), self.network.tables.normalized)
        shorter = type(structure)(structure.names, structure.selected, tuple(fewer))
        return Network(self.network.codebook, shorter, tables)

    def effect(self, feature: str, target: int) -> Floats | None:
        """Return what each value, known alone, adds to a class's log-odds, shape (arity,).

        It is log P(value | class) - log P(value | any other class); `target` is
        the place of the class. None where the family is too large.
        """
        joint = self.joint(feature)
        return None if joint is None else log_odds(joint, target)

    def context(self, feature: str) -> Floats | None:
        """Return P(parents, class), shape (*parent_groups, n_classes); None where too large.

        Values of a parent that the feature's table does not tell apart count as
        one: `parent_groups` says which.
        """
        return self._parts[0][self._place(feature)]

    def table(self, feature: str) -> Floats | None:
        """Return P(feature | parents, class), (*parent_groups, arity, n_classes), if not huge."""
        parts = self._families[self._place(feature)]
        return None if parts is None else parts.spelled_out()

    def parent_groups(self, feature: str) -> list[Groups]:
        """Return for each parent the group of each of its values."""
        return self._groups[self._place(feature)]

    def _place(self, feature: str) -> int:
        return self.network.structure.position(feature)

    @cached_property
    def _families(self) -> list[FamilyParts | None]:
        places = range(len(self.network.structure.selected))
        return [FamilyParts.of(self.network, at) for at in places]

    @cached_property
    def _groups(self) -> list[list[Groups]]:
        out = []
        for table in self.network.tables.families:
            if isinstance(table, GroupedTable):
                out.append(table.groups)
            else:
                out.append([np.arange(n, dtype=np.uint16) for n in table.member_arities[:-1]])
        return out

    @cached_property
    def _parts(self) -> tuple[list[Floats | None], list[Floats | None]]:
        """P(parents, class) and P(feature, class) of every family, parents before children."""
        structure = self.network.structure
        place = {feature: at for at, feature in enumerate(structure.selected)}
        prior = np.exp(self._log_prior)
        contexts: list[Floats | None] = [None] * len(place)
        joints: list[Floats | None] = [None] * len(place)
        for at in structure.topological_order():
            parents, parts = structure.parent_indices[at], self._families[at]
            if not parents:
                contexts[at] = prior
            elif len(parents) == 1:
                above = joints[place[parents[0]]]
                contexts[at] = None if above is None else _gather(above, self._groups[at])
            else:
                contexts[at] = self._from_a_family(at, place, contexts)
                if contexts[at] is None:
                    contexts[at] = self._summed(at, place)
            context = contexts[at]
            if context is None and len(parents) > 1:
                context = self._independent(at, [joints[place[parent]] for parent in parents])
            if parts is not None and context is not None:
                family = parts.by_group * context[..., None, :]
                joints[at] = parts.of_values(family.reshape(-1, *family.shape[-2:]).sum(axis=0))
        return contexts, joints

    def _from_a_family(
        self, at: int, place: dict[int, int], contexts: list[Floats | None]
    ) -> Floats | None:
        """Return P(parents, class) where one parent's own family holds all the others.

        So it is in k-trees: nothing has to be summed out. None where it is not so.
        """
        structure = self.network.structure
        wanted = structure.parent_indices[at]
        groups = dict(zip(wanted, self._groups[at], strict=True))
        for last in wanted:
            above = structure.parent_indices[place[last]]
            read = dict(zip(above, self._groups[place[last]], strict=True))
            parts, context = self._families[place[last]], contexts[place[last]]
            same = all(
                p == last or (p in read and np.array_equal(read[p], groups[p])) for p in wanted
            )
            if not same or parts is None or context is None:
                continue
            extra = tuple(axis for axis, p in enumerate(above) if p not in groups)
            kept = [*(p for p in above if p in groups), last]
            joint = (parts.by_group * context[..., None, :]).sum(axis=extra)
            gathered = parts.regrouped(joint, groups[last])
            return np.transpose(gathered, [*(kept.index(p) for p in wanted), len(kept)])
        return None

    def _summed(self, at: int, place: dict[int, int]) -> Floats | None:
        """Return P(parents, class) with what is above them summed out; None where that is much."""
        structure = self.network.structure
        wanted = structure.parent_indices[at]
        above = list(wanted)
        for feature in above:  # grows: the parents, their parents, ...
            above += [p for p in structure.parent_indices[place[feature]] if p not in above]
        scopes = [(*structure.parent_indices[place[f]], f) for f in above]

        def size(features: Iterable[int]) -> int:
            n_classes = len(self.network.log_prior)
            return prod(int(self._views[f].max(initial=0)) + 1 for f in features) * n_classes

        order, work = [], sum(map(size, scopes)) + size(wanted)
        for feature, around in eliminate(set(above) - set(wanted), scopes, size):
            order.append(feature)
            work += size((feature, *around))
            if work > MAX_WORK:
                return None
        if work > MAX_WORK or any(self._families[place[f]] is None for f in above):
            return None
        factors = [self._factor(place[f], scope) for f, scope in zip(above, scopes, strict=True)]
        scope, logs = sum_out(factors, order)
        by_view = np.exp(np.moveaxis(logs[0], 0, -1) + self._log_prior)
        by_view = np.transpose(by_view, [*(scope.index(p) for p in wanted), len(wanted)])
        return _gather(by_view, [self._of_views(p, g) for p, g in self._read(at)])

    def _factor(self, at: int, scope: tuple[int, ...]) -> Factor:
        """Return log P(feature | parents, class) by the views of all of them."""
        parts = self._families[at]
        assert parts is not None
        table = parts.by_group
        for axis, (parent, groups) in enumerate(self._read(at)):
            table = np.take(table, self._of_views(parent, groups), axis=axis)
        table = parts.regrouped(table, self._views[scope[-1]])
        with np.errstate(divide="ignore"):
            return scope, np.log(np.moveaxis(table, -1, 0))[None]

    def _read(self, at: int) -> list[tuple[int, Groups]]:
        """Return the parents of a feature, each with the groups that its table reads."""
        parents = self.network.structure.parent_indices[at]
        return list(zip(parents, self._groups[at], strict=True))

    def _of_views(self, feature: int, groups: Groups) -> Groups:
        """Return the group of each view of a feature."""
        return groups[np.unique(self._views[feature], return_index=True)[1]]

    @cached_property
    def _views(self) -> list[Groups]:
        return self.network.views()

    @cached_property
    def _log_prior(self) -> Floats:
        return self.network.log_prior - log_sum_exp(self.network.log_prior, axis=0)

    def _independent(self, at: int, joints: list[Floats | None]) -> Floats | None:
        """Return P(parents, class) as if the parents were independent given the class."""
        context = np.exp(self._log_prior)
        for joint, groups in zip(joints, self._groups[at], strict=True):
            if joint is None:
                return None
            shares = _gather(joint, [groups])
            context = context[..., None, :] * (shares / np.maximum(shares.sum(axis=0), TINY))
        return context

    def _family_joint(self, at: int) -> Floats | None:
        """P(parents, the feature's group, class) of one family."""
        parts, context = self._families[at], self._parts[0][at]
        if parts is None or context is None:
            return None
        return np.asarray(parts.by_group * context[..., None, :])


def log_odds(joint: Floats, target: int) -> Floats:
    """Return log P(x | target) - log P(x | not target) from P(x, class), (arity, n_classes)."""
    own, all_ = joint[:, target], joint.sum(axis=1)
    other = all_ - own
    inside = np.log(np.maximum(own, TINY)) - np.log(max(own.sum(), TINY))
    outside = np.log(np.maximum(other, TINY)) - np.log(max(other.sum(), TINY))
    return np.asarray(inside - outside)


def _gather(joint: Floats, groups: list[Groups]) -> Floats:
    """Add up what a joint (*arities, n_classes) has for values of one group, axis by axis."""
    for axis, group in enumerate(groups):
        moved = np.moveaxis(joint, axis, 0)
        out = np.zeros((int(group.max(initial=0)) + 1, *moved.shape[1:]))
        np.add.at(out, group, moved)
        joint = np.moveaxis(out, 0, axis)
    return joint


def _log_conditional(joint: Floats) -> Floats:
    """Return log P(feature | all else) from a joint (*parents, feature, class)."""
    total = joint.sum(axis=-2, keepdims=True)
    uniform = 1.0 / joint.shape[-2]
    share = np.divide(joint, total, out=np.full(joint.shape, uniform), where=total > 0)
    return np.log(np.maximum(share, TINY))


def _information_beyond(joint: Floats, parts: FamilyParts) -> float:
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
