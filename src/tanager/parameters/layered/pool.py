r"""The pool of members as a network, and the variances of its tables' entries.

Around its optimum the penalised likelihood of smooth scores is approximately Gaussian, and its
precision is the curvature :math:`J^\top W J + \Lambda`, with W the posterior's variance in
each row and :math:`\Lambda` the prior. Draws are solutions for random right-hand sides, by
conjugate gradients on a sample of rows; averaged over the values of a smooth function, intervals
from such a posterior have nominal coverage. The generative member has its own variances.

With :math:`V_s` and :math:`V_g` the variance of a row's log-odds under each, and :math:`a` the
smooth members' total share, the pool's variance is approximated by

.. math:: V_g + a^2 (V_s - V_g) + (1 - r) (\bar l - l_*)^2

since the covariance of an efficient estimate with another one is its own variance. The last term
is the squared distance of the pool from its best member, from which the others may have pulled it
away, minus the share r expected by chance: the mean squared difference of two such members is
:math:`V_s - V_g`, which is already part of the first two terms.

One variance per entry of the network's tables is stored. They start as those of the entries
themselves and are scaled until their sums over a row's entries, whose errors partly cancel,
match those of the rows.

References
----------
Nychka (1988), DOI 10.1080/01621459.1988.10478711: intervals of smooth functions. Hausman (1978),
DOI 10.2307/1913827: covariance of an efficient estimate with another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tanager.codes import Codes
from tanager.codes.groups import group_codes
from tanager.codes.hashing import sample_rows
from tanager.loglinear.fits import draw_parameters
from tanager.loglinear.joining import weigh_joints
from tanager.loglinear.rows import RowCells, fit_offsets
from tanager.numerics import Floats
from tanager.parameters.layered.members import Generative, Member, MemberScores, Smooth
from tanager.parameters.layered.part import Part, add_layer, under_parents
from tanager.parameters.proper_network import (
    ClassShares,
    family_shares,
    fit_inputs,
    log_conditional,
    smooth_shares,
)
from tanager.parameters.spread import (
    LEAST,
    of_log_odds,
    of_scores,
    row_blocks,
    scale_entries,
    spread_of_families,
    sum_others,
)
from tanager.parameters.tables import Tables, log_posterior
from tanager.progress import Progress
from tanager.structure import Structure

INPUT_WORK = 1 << 24  # cells times classes times iterations when fitting P(x)
INPUT_TOL = 1e-4  # relative improvement at which that fit stops
LITTLE = 0.2  # nats of log P(x) per row: a larger gain justifies more parents

KEY = 6_203  # key of the random streams
MOST_ROWS, FEWEST_ROWS = 2_000, 500  # rows for drawing log-odds: as many as
MOST_ODDS = 1 << 21  # allows, as rows times classes
DRAWS = 16  # in total over classes, but at least FEWEST per class
FEWEST = 4
# Factor on the strengths of categorical tables, whose search prefers the stronger of two that do
# about equally well: with it, intervals for known networks (docs/measurements/intervals.md) have
# nominal coverage. With numeric features they cover more than that even without it.
WEAKER = 0.1


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
    sampled, said = SampledRows.of(part), None
    best = min(members, key=lambda one: one.loss, default=None)
    progress.start("pool", total=float(len(members)), unit="members")
    # One member at a time: the tables of all of them would take too much memory.
    for share, member in zip(shares, members, strict=True):
        found = member.scores(part)
        if member is best:
            said = sampled.log_odds(found)
        log_prior += share * found.class_node
        for at in range(n_features):
            values[at] += share * found.values[at]
            scores[at] = add_layer(scores[at], share * found.groups[at])
        progress.advance()
    progress.finish()
    inside, totals = zip(*part.split(values), strict=True) if values else ((), ())
    scores = [one + total for one, total in zip(scores, totals, strict=True)]
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
    node, *entries = fit_variances(sampled, members, shares, best, said, smooth, joint)
    grouped = [
        np.broadcast_to(under_parents(one, log.ndim - 2), log.shape)
        for one, log in zip(entries[len(logs) :], logs, strict=True)
    ]
    known = part.tables(given.parent_indices, grouped, entries[: len(logs)])
    return replace(tables, spread=spread_of_families(node[0], known))


@dataclass(frozen=True, eq=False)
class _Pooled:
    """The pooled scores of the members, and everything needed to turn them into a network."""

    log_prior: Floats  # (n_classes,), with offsets
    scores: list[Floats]  # (*parent_groups, n_groups, n_classes) for each feature
    inside: Sequence[Floats]  # of the values within their groups, see `Part.split`
    given: Structure

    def offset(self, part: Part, inputs: _Inputs) -> _Pooled:
        """Return the same with class offsets."""
        structure, logs = part.structure, self._spelled(inputs)
        families = part.tables(structure.parent_indices, logs, self.inside)
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
            out.append(under_parents(even, shares.ndim - 1) + log_conditional(shares))
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
        families = part.tables(self.given.parent_indices, logs, self.inside)
        return Tables(log_prior, families, normalized=normalized), logs

    def lost(self, part: Part, inputs: _Inputs, tables: Tables, rows: SampledRows) -> float:
        """Return how much less likely rows are with the scores than under the tree of P(x) alone.

        The sum of steep scores over classes isn't a product of small tables: the remainder
        after fitting P(x) takes probability away from where the rows are.
        """
        logs = [log_conditional(shares) for shares in inputs.shares]
        even = [np.zeros((len(part.groups[one]), 1)) for one in part.structure.selected]
        inside = [within for within, _ in part.split(even)]
        tree = Tables(np.zeros(1), part.tables(self.given.parent_indices, logs, inside))
        known = self.given, rows.codes, part.rows.domain.arities
        alone, joint = tree.log_joint(*known), tables.log_joint(*known)
        gap = alone[:, 0] - np.logaddexp.reduce(joint, axis=1)
        return float(np.average(gap, weights=rows.weights))


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
        pairs = zip(structure.parent_indices, structure.selected, strict=True)
        families = [tuple(n_features + one for one in (*above, own)) for above, own in pairs]
        tables = [(family, (at,)) for at, family in enumerate(families)]
        total = float(part.class_counts.sum())
        row, cut = total / max(part.rows.n_rows, 1), slice(-1)  # without unknown values
        weighed = weigh_joints(tables, part.columns, part.rows, part.context)
        found = [smooth_shares(one[(cut,) * one.ndim], row) for one in weighed]
        shares = [one for one, _ in found]
        if structure.is_moral():
            logs = [log_conditional(share) for share in shares]
            shares = [share[..., 0] for share in family_shares(structure, logs, np.zeros(1))]
        return cls(shares, sum(one for _, one in found) / max(total, LEAST))


class SampledRows(NamedTuple):
    """Training rows, with weights that make them represent all rows."""

    part: Part
    codes: Codes
    weights: Floats

    @classmethod
    def of(cls, part: Part) -> SampledRows:
        """Draw a sample of a part's rows."""
        rows, context = part.rows, part.context
        most = min(MOST_ROWS, max(MOST_ODDS // rows.domain.n_classes, FEWEST_ROWS))
        chunk = sample_rows(rows, context.row_seed(KEY), most, context).gather()
        weights = chunk.row_weights
        codes, rng = chunk.codes.copy(), context.generator(KEY, 1)
        for values, arity in zip(codes, rows.domain.arities, strict=True):
            unknown = values >= arity  # replaced by another row's value
            if unknown.any():
                known = np.append(values[~unknown], 0)
                values[unknown] = known[rng.integers(max(len(known) - 1, 1), size=unknown.sum())]
        return cls(part, codes, weights * (rows.total_weight / max(weights.sum(), LEAST)))

    def log_odds(self, found: MemberScores) -> Floats:
        """Return a member's log-odds of each class against all others, (n_rows, n_classes)."""
        arrays = [found.class_node[None], *found.values, *found.groups]
        return _log_odds(log_posterior(self.places(arrays).totals(_flat(arrays))))

    def places(self, arrays: Sequence[Floats]) -> RowCells:
        """Return each row's entries in arrays laid end to end.

        They are the class node's, (1, n_classes), those of the features' values, (arity,
        n_classes), and those of their groups, (*parent_groups, n_groups, n_classes).
        """
        structure, groups = self.part.structure, group_codes(self.codes, self.part.groups)
        read = [self.codes[[one]] for one in structure.selected]
        for parents, feature in zip(structure.parent_indices, structure.selected, strict=True):
            read.append(groups[[*parents, feature]])
        out = []
        for codes, array in zip(read, arrays[1:], strict=True):
            members = (*codes[: array.ndim - 2], codes[-1])
            # An axis of length one stands for all values.
            out.append(np.ravel_multi_index(members, array.shape[:-1], mode="clip"))
        starts = np.cumsum([array.size // array.shape[-1] for array in arrays[:-1]])
        return RowCells.of((np.stack(out, axis=1) + starts).astype(np.int32))


def fit_variances(
    rows: SampledRows,
    members: Sequence[Member],
    shares: Floats,
    best: Member | None,
    said: Floats | None,
    smooth: Smooth,
    log_joint: Floats,
) -> list[Floats]:
    """Return the variances of a pool's scores, in the arrays described in `SampledRows.places`.

    `said` is the log-odds of the `best` member and `log_joint` the pool's scores, which are
    overwritten, both (n_rows, n_classes); `smooth` is the deepest member, whose curvature is used.
    """
    logs = log_posterior(log_joint)
    distance = None if said is None else (_log_odds(logs) - said) ** 2
    chances = np.exp(logs, out=logs)
    generative = next((one for one in members if isinstance(one, Generative)), None)
    known = None if generative is None else generative.variances
    smooth_shares = sum(s for s, m in zip(shares, members, strict=True) if isinstance(m, Smooth))
    part = 1.0 if known is None else float(smooth_shares / shares.sum())
    entries, drawn = _drawn(rows, smooth, chances)
    for one in entries:
        one *= part**2
    by_scores: Floats | float = 0.0
    by_chance = 0.0  # mean squared distance between members
    if known is not None:
        structure, spread = known
        codes = group_codes(rows.codes, rows.part.groups)
        by_scores = spread.log_joint(structure, codes, rows.part.group_arities)
        gap = drawn - of_log_odds(by_scores, chances)
        by_chance = float(np.maximum(gap, 0.0, out=gap).mean())
        del gap
        by_scores *= 1.0 - part**2
        entries[0] = entries[0] + (1.0 - part**2) * spread.log_prior
        n = len(structure.selected)
        for at, table in enumerate(spread.families):
            layer = (1.0 - part**2) * table.to_dense().log_prob
            entries[1 + n + at] = add_layer(entries[1 + n + at], layer)
    drawn *= part**2
    if distance is not None:
        away = part if best is generative else 1.0 - part
        expected = away**2 * by_chance / max(float(distance.mean()), LEAST)
        distance *= max(0.0, 1.0 - expected)
        drawn += distance
    wanted = of_scores(drawn, chances)
    wanted += by_scores
    del drawn, distance, chances, by_scores
    entries = [np.maximum(one, LEAST) for one in entries]
    scaled = scale_entries(_flat(entries), rows.places(entries), wanted)
    ends = np.cumsum([one.size // one.shape[-1] for one in entries])[:-1]
    parts = zip(np.split(scaled, ends), entries, strict=True)
    return [part.reshape(one.shape) for part, one in parts]


def _log_odds(log_posteriors: Floats) -> Floats:
    out = np.empty_like(log_posteriors)
    for rows in row_blocks(out):
        own = log_posteriors[rows]
        out[rows] = own - np.log(np.maximum(sum_others(np.exp(own)), 1e-150))
    return out


def _flat(arrays: Sequence[Floats]) -> Floats:
    """Return the arrays' entries as one array, (n_entries, n_classes)."""
    wide = [np.broadcast_to(one, (*one.shape[:-1], arrays[0].shape[-1])) for one in arrays]
    return np.concatenate([one.reshape(-1, one.shape[-1]) for one in wide])


def _drawn(rows: SampledRows, smooth: Smooth, chances: Floats) -> tuple[list[Floats], Floats]:
    """Return the variances of entries, as scores, and of the rows' log-odds, by the curvature."""
    part, depth = rows.part, smooth.depth
    rng, terms, n_classes = part.context.generator(KEY), part.terms(depth), chances.shape[1]
    classes = [1] if n_classes == 2 else list(range(n_classes))
    # A class's log-odds are its score minus the mean of the others': they vary more.
    precision = smooth.precisions(part)
    ordered = [any(terms.columns.n_ordered[one] for one in family) for family in terms.families]
    precision[1:] *= np.where(ordered, 1.0, WEAKER)[terms.owners[1:]]
    if n_classes > 2:
        precision *= 1.0 - 1.0 / n_classes
    n_draws = max(FEWEST, DRAWS // len(classes))
    located, wide = terms.joint.places.locate(rows.codes)
    cells = RowCells(located, terms.joint.starts, wide)
    copies = n_classes // len(classes)
    entries: list[Floats] = []
    drawn = np.empty_like(chances)
    for at, c in enumerate(classes):
        curvature = rows.weights * chances[:, c] * (1.0 - chances[:, c])
        scores = terms.scores(draw_parameters(terms, cells, curvature, precision, n_draws, rng))
        own = slice(at, at + copies)
        drawn[:, own] = (cells.totals(terms.joint.expand(scores)) ** 2).mean(axis=1, keepdims=True)
        found = _entries(part, depth, scores, precision)
        entries = entries or [np.empty((*one.shape, n_classes)) for one in found]
        for whole, one in zip(entries, found, strict=True):
            whole[..., own] = one[..., None] / copies
    return entries, drawn


def _entries(part: Part, depth: int, scores: Floats, precision: Floats) -> list[Floats]:
    """Return the mean squares of draws (n_cells, n_draws), as entries without the class axis.

    Each family's draws have mean zero over its rows: constants belong to the class node.
    """
    terms, drawn = part.terms(depth), []
    for at in range(len(terms.families)):
        cells = terms.cells(at)
        mass, own = terms.mass[cells], scores[cells]
        own = own - np.tensordot(mass, own, mass.ndim) / max(float(mass.sum()), LEAST)
        if terms.slants[at] is None:  # cells without rows have the prior's variance
            own[cells == terms.blank[at]] = 1.0 / np.sqrt(precision[terms.blank[at]])
        drawn.append(own)
    values, groups = part.by_feature(depth, drawn)
    return [(one**2).mean(axis=-1) for one in (scores[:1], *values, *groups)]
