"""One row of evidence propagated through a network, feature by feature.

Every family is a factor over the views of its unknown members: classes of values that no
table tells apart (`tanager.network.views`). Features are eliminated one after the other; what
each step joins before it sums (or maximises) is kept, and says how the feature depends on those
that are still there. Read backwards, the steps draw rows from P(unknown | evidence), or give
the most probable completion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tanager.codes import Groups
from tanager.errors import ConfigurationError
from tanager.network.marginal import (
    MAX_CELLS,
    EliminationStep,
    Factor,
    align,
    elimination_order,
    sum_out,
)
from tanager.numerics import Floats, log_sum_exp

if TYPE_CHECKING:
    from tanager.network.network import Network


class Inner(NamedTuple):
    """The values of one feature inside their views."""

    views: Groups  # (arity,): the view of each value
    logs: Floats  # (arity, n_classes): what a value adds to its family's term, and to the evidence


@dataclass(frozen=True, eq=False)
class Propagation:
    """What eliminating all unknown features leaves."""

    # (n_classes,): log P(class, evidence), or of the most probable completion with each class.
    log_classes: Floats
    steps: list[EliminationStep]  # read backwards to draw or to complete
    inner: dict[int, Inner]

    @classmethod
    def of(
        cls,
        network: Network,
        known: Mapping[int, int],
        log_likelihoods: Mapping[int, Floats],
        log_classes: Floats,
        *,
        maximise: bool = False,
    ) -> Propagation:
        """Propagate evidence: codes of features, log-likelihoods of others (arity,) and of classes.

        `maximise` keeps the most probable value of each feature instead of the sum over all.
        """
        require_probabilities(network)
        families = _EvidenceFactors(network, known, log_likelihoods, maximise=maximise)
        log_prior = network.log_prior + log_classes
        unknown = [f for f in network.structure.selected if f not in known]
        if not known and not log_likelihoods and not maximise:
            # Nothing to learn from: each family as it is, parents drawn before children.
            steps = []
            for at in reversed(network.structure.topological_order()):
                feature = network.structure.selected[at]
                scope, logs = families.factor(at)
                given = tuple(f for f in scope if f != feature)
                steps.append(
                    EliminationStep(feature, given, align(scope, logs, (feature, *given))[0])
                )
            return cls(log_prior, steps, families.inner)
        steps, (_, total) = families.eliminate(unknown)
        return cls(log_prior + total[0], steps, families.inner)

    def best(self) -> tuple[float, int, dict[int, int]]:
        """Return the most probable completion, after maximising: its logarithm, class and codes."""
        label = int(np.argmax(self.log_classes))
        views: dict[int, int] = {}
        codes: dict[int, int] = {}
        for feature, given, logs in reversed(self.steps):
            held = logs[label].reshape(logs.shape[1], -1)
            at = np.ravel_multi_index([views[f] for f in given], logs.shape[2:]) if given else 0
            views[feature] = int(np.argmax(held[:, at]))
            inner = self.inner[feature]
            logs_inside = np.where(inner.views == views[feature], inner.logs[:, label], -np.inf)
            codes[feature] = int(np.argmax(logs_inside))
        return float(self.log_classes[label]), label, codes


class Spread(NamedTuple):
    """The joint distribution of each unknown feature with the class and the features kept."""

    joints: dict[int, Floats]  # P(feature, kept, class | evidence): (n_classes, n_views, *kept's)
    kept: Floats  # (n_classes, *views of those kept)
    log_evidence: float
    shares: dict[int, Floats]  # (arity, n_classes): P(value | its view, class)
    views: list[Groups]

    @classmethod
    def of(
        cls,
        network: Network,
        known: Mapping[int, int],
        log_likelihoods: Mapping[int, Floats],
        log_classes: Floats,
        kept: tuple[int, ...] = (),
    ) -> Spread:
        """Propagate evidence up and down the tree of elimination; arguments as `Propagation.of`.

        Two passes give the marginals of all features: those eliminated last pass theirs on.
        """
        require_probabilities(network)
        families = _EvidenceFactors(network, known, log_likelihoods, maximise=False)
        unknown = [f for f in network.structure.selected if f not in known and f not in kept]
        steps, (scope, logs) = families.eliminate(unknown)
        log_prior = (network.log_prior + log_classes).reshape(-1, *(1,) * len(kept))
        top = align(scope, logs, kept)[0] + log_prior
        total = float(log_sum_exp(top.ravel(), axis=0))
        root = np.exp(top - total)
        rank = {step.feature: at for at, step in enumerate(steps)}
        beliefs: dict[int, tuple[tuple[int, ...], Floats]] = {}
        joints = {}
        for feature, given, logs in reversed(steps):
            above = tuple(f for f in given if f not in kept)
            around = root
            if above:
                # All that the step depends on stands together where the first of it is eliminated.
                first = min(above, key=rank.__getitem__)
                scope, around = beliefs[first]
                gone = tuple(1 + at for at, f in enumerate(scope) if f not in above + kept)
                around = align(
                    tuple(f for f in scope if f in above + kept),
                    around.sum(axis=gone)[None],
                    above + kept,
                )[0]
            whole = (feature, *above, *kept)
            share = np.exp(logs - log_sum_exp(logs, axis=1, keepdims=True))
            belief = align((feature, *given), share[None], whole)[0] * around[:, None]
            beliefs[feature] = whole, belief
            joints[feature] = belief.sum(axis=tuple(range(2, 2 + len(above))))
        shares = {
            feature: np.exp(inner.logs - families.by_view(inner)[inner.views])
            for feature, inner in families.inner.items()
        }
        return cls(joints, root, total, shares, families.views.groups)

    def values(self, features: tuple[int, ...], joint: Floats) -> Floats:
        """Return a joint by views, (n_classes, *views), by values: (n_cells, n_classes)."""
        for axis, feature in enumerate(features):
            joint = np.take(joint, self.views[feature], axis=1 + axis)
            after = joint.ndim - axis - 2
            joint = joint * self.shares[feature].T.reshape(
                -1, *(1,) * axis, joint.shape[1 + axis], *(1,) * after
            )
        return np.ascontiguousarray(joint.reshape(len(joint), -1).T)


class _EvidenceFactors:
    """The families of a network as factors under evidence."""

    def __init__(
        self,
        network: Network,
        known: Mapping[int, int],
        log_likelihoods: Mapping[int, Floats],
        *,
        maximise: bool,
    ) -> None:
        self.structure, self.views = network.structure, network.views
        self.known = known
        self.known_views = {f: int(self.views.groups[f][code]) for f, code in known.items()}
        self.maximise = maximise
        self.inner: dict[int, Inner] = {}
        self.log_likelihoods = log_likelihoods

    def factor(self, at: int) -> Factor:
        """Return log P(x | y, parents) over the unknown members, (1, n_classes, *views)."""
        feature = self.structure.selected[at]
        members = (*self.structure.parent_indices[at], feature)
        logs, within = self.views.spell(at, self.known_views), self.views.within[at]
        if feature in self.known:
            logs = logs if within is None else logs + within[self.known[feature]]
        else:
            groups, n_classes = self.views.groups[feature], logs.shape[-1]
            inside = np.zeros((len(groups), n_classes)) if within is None else within
            likelihood = self.log_likelihoods.get(feature)
            inside = inside if likelihood is None else inside + likelihood[:, None]
            own = self.inner[feature] = Inner(groups, inside)
            if likelihood is not None or self.maximise:
                logs = logs + self.by_view(own)
        scope = tuple(m for m in members if m not in self.known)
        return scope, np.moveaxis(logs, -1, 0)[None].copy()

    def eliminate(self, unknown: Iterable[int]) -> tuple[list[EliminationStep], Factor]:
        """Sum out features, or maximise; return the steps, and the product of what is left."""
        n_classes = len(self.views.tables.log_prior)

        def size(features: Iterable[int]) -> int:
            return prod(int(self.views.sizes[f]) for f in features) * n_classes

        factors = [self.factor(at) for at in range(len(self.structure.selected))]
        scopes = [scope for scope, _ in factors]
        order = elimination_order(unknown, scopes, size, MAX_CELLS, self.structure.names)
        steps: list[EliminationStep] = []
        factors = factors or [((), np.zeros((1, n_classes)))]
        return steps, sum_out(factors, order, steps, maximise=self.maximise)

    def by_view(self, inner: Inner) -> Floats:
        """Return what each view adds to its family's term, (n_views, n_classes)."""
        n_views = int(inner.views.max()) + 1
        if n_views == len(inner.views):
            return inner.logs
        top = np.full((n_views, inner.logs.shape[1]), -np.inf)
        np.maximum.at(top, inner.views, inner.logs)
        if self.maximise:
            return top
        base = np.where(np.isneginf(top), 0.0, top)
        sums = np.zeros_like(top)
        np.add.at(sums, inner.views, np.exp(inner.logs - base[inner.views]))
        with np.errstate(divide="ignore"):
            return base + np.log(sums)


def require_probabilities(network: Network) -> None:
    """Refuse a network whose tables are scores: its P(x) is not known."""
    if not network.tables.normalized:
        raise ConfigurationError(
            "This network's tables are scores: they give P(class | row), but no distribution of "
            "the features, because some feature has parents that aren't connected. "
            "Fit with structure='tan' or 'ktree', or with parameters='hdp', to ask about features."
        )
