"""The pool of members: the share of each, fitted on held-out rows, and the resulting network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Groups
from tanager.loglinear.fits import fit_offsets
from tanager.loglinear.joining import weigh_joints
from tanager.loglinear.optimiser import minimise
from tanager.numerics import Floats
from tanager.parameters.layered.members import Member, Smooth, Trial
from tanager.parameters.layered.part import Part, under_parents
from tanager.parameters.layered.spread import SampledRows, best_of, fit_variances
from tanager.parameters.proper_network import ClassShares, family_shares, fit_inputs
from tanager.parameters.spread import LEAST, row_blocks, spread_of_families
from tanager.parameters.tables import FamilyTable, GroupedTable, HeldOutRows, Tables, log_posterior
from tanager.progress import Progress
from tanager.structure import Structure

PRECISION = 100.0  # of the prior around equal shares
INPUT_WORK = 1 << 24  # cells times classes times iterations when fitting P(x)
INPUT_TOL = 1e-4  # relative improvement at which that fit stops
LITTLE = 0.2  # nats of log P(x) per row: a larger gain justifies more parents
VIRTUAL_ROWS = 2.0 ** np.arange(-1, 10)  # candidates for smoothing P(x | parents)


class HeldOut(NamedTuple):
    """Rows, and every member's out-of-fold predictions for them."""

    log_posteriors: list[Floats]  # (n_rows, n_classes) for each member
    labels: NDArray[np.uint16]  # (n_rows,)
    weights: Floats  # (n_rows,)
    # (n_rows, n_classes): log class shares in the other folds; the pool's prediction for a row
    # if no member has a share.
    log_shares: Floats

    def loss(self, shares: Floats) -> tuple[float, Floats]:
        """Return the pool's total log-loss, and its gradient with respect to the shares."""
        pooled = self.pooled(shares)
        at = np.arange(self.labels.shape[0])
        residuals = np.exp(pooled)
        residuals[at, self.labels] -= 1.0
        residuals *= self.weights[:, None]
        slopes = np.array([np.einsum("nc,nc->", one, residuals) for one in self.log_posteriors])
        slopes -= np.einsum("nc,nc->", self.log_shares, residuals)
        return -float((self.weights * pooled[at, self.labels]).sum()), slopes

    def pooled(self, shares: Floats) -> Floats:
        """Return the pool's log-posteriors, (n_rows, n_classes)."""
        pooled = (1.0 - shares.sum()) * self.log_shares
        for rows in row_blocks(pooled):
            for share, one in zip(shares, self.log_posteriors, strict=True):
                pooled[rows] += share * one[rows]
        return log_posterior(pooled)

    def mean_loss(self, shares: Floats) -> float:
        """Return the pool's mean log-loss."""
        return self.loss(shares)[0] / float(self.weights.sum())


def fit_shares(held_out: HeldOut) -> Floats:
    """Return the non-negative shares that minimise held-out loss, with a prior around equal ones.

    A pool that predicts worse than the class frequencies alone is shrunk towards them.
    """
    n_members = len(held_out.log_posteriors)
    equal = np.full(n_members, 1.0 / n_members)

    def objective(shares: Floats) -> tuple[float, Floats]:
        loss, slopes = held_out.loss(shares)
        gap = shares - equal
        return loss + 0.5 * PRECISION * float(gap @ gap), slopes + PRECISION * gap

    shares = minimise(
        objective,
        equal,
        max_iter=1_000,
        tol=1e7 * np.finfo(float).eps,
        first_step=None,
        bounds=(np.zeros(n_members), np.full(n_members, np.inf)),
    ).at
    if held_out.loss(shares)[0] <= held_out.loss(0.0 * shares)[0]:
        return shares
    from scipy.optimize import minimize_scalar

    part = minimize_scalar(lambda part: held_out.loss(part * shares)[0], bounds=(0.0, 1.0))
    better = float(part.fun) < held_out.loss(0.0 * shares)[0]
    return shares * (float(part.x) if better else 0.0)


def judge_pool(members: Sequence[Member], trial: Trial | None) -> tuple[Floats, list[float] | None]:
    """Return the shares, and the held-out loss of the pool and of each member."""
    if trial is None:
        return np.full(len(members), 1.0 / len(members)), None
    held_out = _held_out(members, trial)
    shares = fit_shares(held_out)
    return shares, [held_out.mean_loss(shares), *(member.loss for member in members)]


def _held_out(members: Sequence[Member], trial: Trial) -> HeldOut:
    logs = [member.held_out for member in members]
    return HeldOut(logs, trial.labels, trial.weights, trial.log_shares)


def held_out_rows(
    members: Sequence[Member], shares: Floats, trial: Trial | None
) -> HeldOutRows | None:
    """Return the pool's out-of-fold predictions for rows, instead of those of its members."""
    if trial is None:
        return None
    pooled = _held_out(members, trial).pooled(shares)
    for member in members:
        del member.held_out
    return HeldOutRows(pooled, trial.labels, trial.weights)


def pool_members(
    part: Part,
    given: Structure,
    members: Sequence[Member],
    shares: Floats,
    progress: Progress,
    smooth: Smooth,
) -> Tables:
    """Return the geometric mean of members, as a network if the structure allows it.

    Parents in `given` missing from the part's structure have one group, unless P(x) needs them.
    The curvature of a `smooth` member's fit determines the variances.
    """
    structure, n_classes = part.structure, part.rows.domain.n_classes
    log_prior, n_features = np.zeros(n_classes), len(structure.selected)
    values = [np.zeros((len(part.groups[one]), n_classes)) for one in structure.selected]
    scores = [np.zeros((1, n_classes))] * n_features  # given the parents used by members
    sampled, said, best = SampledRows.of(part), None, best_of(members)
    progress.start("pool", total=float(len(members)), unit="members")
    # One member at a time: the tables of all of them would take too much memory.
    for share, member in zip(shares, members, strict=True):
        found = member.scores(part)
        if member is best:
            said = sampled.log_odds(found)
        log_prior += share * found.class_node
        for at in range(n_features):
            values[at] += share * found.values[at]
            read = max(scores[at].ndim, found.groups[at].ndim) - 2
            added = under_parents(found.groups[at], read)
            scores[at] = under_parents(scores[at], read) + share * added
        progress.advance()
    progress.finish()
    inside = [
        _within(scores, part.groups[feature], part.value_weights[feature])
        for feature, scores in zip(structure.selected, values, strict=True)
    ]
    scores = [one + totals for one, (_, totals) in zip(scores, inside, strict=True)]
    inputs = _Inputs.of(part)
    pooled = _Pooled(log_prior, scores, inside, given).offset(part, inputs)
    wide = part.widened(given) if structure.is_moral() else part
    more = inputs if wide is part else _Inputs.of(wide)
    if more.log_likelihood - inputs.log_likelihood > LITTLE:
        part, inputs = wide, more  # without looking at the narrower network
    tables, logs = pooled.network(part, inputs)
    if wide is not part and pooled.lost(part, inputs, tables, sampled) > LITTLE:
        part, (tables, logs) = wide, pooled.network(wide, more)
    sampled = sampled._replace(part=part)
    joint = tables.log_joint(given, sampled.codes, part.rows.domain.arities)
    node, *entries = fit_variances(sampled, members, shares, said, smooth, joint)
    grouped = [
        np.broadcast_to(under_parents(one, log.ndim - 2), log.shape)
        for one, log in zip(entries[len(logs) :], logs, strict=True)
    ]
    inside = [(one, one) for one in entries[: len(logs)]]
    spread = spread_of_families(node[0], _under(part, given.parent_indices, grouped, inside))
    return replace(tables, spread=spread)


@dataclass(frozen=True, eq=False)
class _Pooled:
    """The pooled scores of the members, and everything needed to turn them into a network."""

    log_prior: Floats  # (n_classes,), with offsets
    scores: list[Floats]  # (*parent_groups, n_groups, n_classes) for each feature
    inside: list[tuple[Floats, Floats]]  # see `_within`
    given: Structure

    def offset(self, part: Part, inputs: _Inputs) -> _Pooled:
        """Return the same with class offsets."""
        structure, logs = part.structure, self._spelled(inputs)
        families = _under(part, structure.parent_indices, logs, self.inside)
        scored = Tables(self.log_prior, families, normalized=False)
        asked = partial(scored.log_joint, structure, arities=part.rows.domain.arities)
        found = fit_offsets(part.rows, asked, part.class_counts, part.context)
        return replace(self, log_prior=self.log_prior + found)

    def _spelled(self, inputs: _Inputs) -> list[Floats]:
        """Return the scores with all parents, P(x | parents) added."""
        out = []
        for scores, shares in zip(self.scores, inputs.shares, strict=True):
            # A term shared by all classes cancels in P(y | x).
            even = scores - scores.mean(axis=-1, keepdims=True)
            out.append(under_parents(even, shares.ndim - 1) + _log_conditional(shares))
        return out

    def network(self, part: Part, inputs: _Inputs) -> tuple[Tables, list[Floats]]:
        """Return the network of a part, with its P(x) if it is moral, and its tables of groups."""
        structure, log_prior, logs = part.structure, self.log_prior, self._spelled(inputs)
        normalized = structure.is_moral()
        if normalized:
            counts, total = part.grouped_counts, float(part.class_counts.sum())
            values = [counts.values[one] / total for one in structure.selected]
            observed = ClassShares(part.class_shares, values, total)
            known = structure, logs, log_prior, inputs.shares, observed
            logs, log_prior = fit_inputs(*known, max_work=INPUT_WORK, tol=INPUT_TOL)
        families = _under(part, self.given.parent_indices, logs, self.inside)
        return Tables(log_prior, families, normalized=normalized), logs

    def lost(self, part: Part, inputs: _Inputs, tables: Tables, rows: SampledRows) -> float:
        """Return how much less likely rows are with the scores than under the tree of P(x) alone.

        The sum of steep scores over classes isn't a product of small tables: the remainder
        after fitting P(x) takes probability away from where the rows are.
        """
        logs = [_log_conditional(shares) for shares in inputs.shares]
        inside = [
            _within(np.zeros((len(part.groups[one]), 1)), part.groups[one], part.value_weights[one])
            for one in part.structure.selected
        ]
        tree = Tables(np.zeros(1), _under(part, self.given.parent_indices, logs, inside))
        alone, joint = (
            one.log_joint(self.given, rows.codes, part.rows.domain.arities)
            for one in (tree, tables)
        )
        return float(
            np.average(alone[:, 0] - np.logaddexp.reduce(joint, axis=1), weights=rows.weights)
        )


def _under(
    part: Part,
    parents: Sequence[Sequence[int]],
    logs: Sequence[Floats],
    inside: Sequence[tuple[Floats, Floats]],
) -> tuple[FamilyTable, ...]:
    """Return the families' tables with more parents; unused ones have one group."""
    out = []
    places = zip(parents, part.structure.parent_indices, part.structure.selected, strict=True)
    for (wide, held, feature), log, (within, _) in zip(places, logs, inside, strict=True):
        groups = [
            part.groups[one] if one in held else np.zeros_like(part.groups[one]) for one in wide
        ]
        unread = tuple(axis for axis, one in enumerate(wide) if one not in held)
        spelled = np.ascontiguousarray(np.expand_dims(log, unread))
        out.append(GroupedTable.of_groups(spelled, within, [*groups, part.groups[feature]]))
    return tuple(out)


def _within(scores: Floats, groups: Groups, weights: Floats) -> tuple[Floats, Floats]:
    """Split a feature's scores (arity, n_classes) into log P(x | its group, y) and the groups'.

    They add up to the scores again, up to a term shared by all classes.
    """
    known = weights + 1.0 / len(weights)
    joint = scores - scores.mean(axis=-1, keepdims=True) + np.log(known)[:, None]
    n_groups = int(groups.max()) + 1
    tops = np.full((n_groups, scores.shape[1]), -np.inf)
    np.maximum.at(tops, groups, joint)
    sums = np.zeros_like(tops)
    np.add.at(sums, groups, np.exp(joint - tops[groups]))
    totals = tops + np.log(sums)
    return joint - totals[groups], totals


def _log_conditional(shares: Floats) -> Floats:
    """Return log P(x | parents) with an axis for the class, from P(parents, x)."""
    known = np.maximum(shares, np.finfo(float).tiny)
    return np.log(known / known.sum(axis=-1, keepdims=True))[..., None]


class _Inputs(NamedTuple):
    """P(x) of a part's groups under its tree."""

    # P(parents, x) of each family, summed over classes. They agree on overlapping families if the
    # structure is moral; otherwise they're P(x | parents).
    shares: list[Floats]
    log_likelihood: float  # per row, by leave-one-out

    @classmethod
    def of(cls, part: Part) -> _Inputs:
        """Estimate it from the training rows."""
        structure, n_features = part.structure, part.rows.domain.n_features
        pairs = zip(structure.selected, structure.parent_indices, strict=True)
        families = [tuple(n_features + i for i in (*parents, one)) for one, parents in pairs]
        tables = [(family, (at,)) for at, family in enumerate(families)]
        total = float(part.class_counts.sum())
        found = [
            _smoothed(
                weighed[tuple(slice(size - 1) for size in weighed.shape)],
                total / max(part.rows.n_rows, 1),
            )
            for weighed in weigh_joints(tables, part.columns, part.rows, part.context)
        ]
        shares = [one for one, _ in found]
        if structure.is_moral():
            logs = [_log_conditional(share) for share in shares]
            shares = [share[..., 0] for share in family_shares(structure, logs, np.zeros(1))]
        return cls(shares, sum(one for _, one in found) / max(total, LEAST))


def _smoothed(weighed: Floats, row: float) -> tuple[Floats, float]:
    """Return P(x | parents) from weights (*parents, x), and its leave-one-out log-likelihood.

    `row` is the mean weight of a row.

    Frequencies are smoothed towards those given one parent fewer, by the number of virtual rows
    with the highest leave-one-out likelihood.
    """
    n_parents, n_groups = weighed.ndim - 1, weighed.shape[-1]
    shares = weighed.reshape(-1, n_groups).sum(axis=0) + row / n_groups
    shares /= shares.sum()
    likelihood = float((weighed.reshape(-1, n_groups).sum(axis=0) * np.log(shares)).sum())
    for depth in range(1, n_parents + 1):
        held = weighed.sum(axis=tuple(range(depth, n_parents)))
        total, above = held.sum(axis=-1, keepdims=True), np.expand_dims(shares, depth - 1)
        seen = held > 0.0
        own, known = held[seen], np.broadcast_to(above, held.shape)[seen]
        others = np.maximum(np.broadcast_to(total, held.shape)[seen] - row, 0.0)
        fits = [
            float((own * np.log((np.maximum(own - row, 0.0) + n * known) / (others + n))).sum())
            for n in row * VIRTUAL_ROWS
        ]
        likelihood = max(fits)
        n = row * VIRTUAL_ROWS[fits.index(likelihood)]
        shares = (held + n * above) / (total + n)
    return shares, likelihood
