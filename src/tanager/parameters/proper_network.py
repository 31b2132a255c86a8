r"""From scores to a proper Bayesian network with the same P(y | x).

Scores determine only P(y | x): adding any function of the features alone doesn't change it. If the
parents of every feature are connected to each other, some network has the same posterior: go
through the features from the leaves, divide each table by its sum over the feature's values, and
multiply that sum, a function of the parents' values and the class, into the table of the last of
those parents, whose family contains them all, and finally into the class prior.

The network's P(x) doesn't matter for complete rows, but determines how unknown values are summed
out. Among the functions that are a sum of one term per family, `to_network` takes the one that
maximises the likelihood of the rows:

.. math:: \sum_i \langle T_i, \varphi_i \rangle - \log \sum_{x, y} \exp(s(x, y) + \sum_i \varphi_i)

where :math:`T_i` is the joint distribution of feature i and its parents, summed over the class. It
is concave; at the maximum the network's own marginals are :math:`T_i`, so its class probabilities
with nothing observed are close to the class frequencies. Close, not equal: no sum of one term per
family cancels the effect of sharp scores on P(x). If the data's P(y) and P(x_i, y) are also given,
it's the maximum of

.. math:: \dots + a \sum_y P(y) \log P_h(y)
          + \frac{b}{n} \sum_i \sum_{x_i, y} P(x_i, y) \log P_h(y \mid x_i),

which ties the network's predictions given nothing or one feature to the counts. a and b grow as
long as too many of the class probabilities given a value are outside the sampling error and that
halves their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from tanager import native
from tanager.loglinear.optimiser import minimise
from tanager.numerics import Floats, log_softmax, one_blas_thread, starts_of
from tanager.parameters.tables import DenseTable, Tables
from tanager.structure import Structure

MAX_SPELLED = 1 << 24  # cells of one materialised family
MAX_ITERATIONS = 100
MAX_WORK = 1 << 29  # cells times classes times iterations
LEAST_SHARE = 1e-5  # of a family's values: rarer ones are treated as this common
FIRST_STEP = 1.5  # of the optimiser, for one family
CLASS_WEIGHT, VALUE_WEIGHT = 30.0, 10.0  # a and b of the class terms, relative to log P(x)
CLASS_FACTORS = 1.0, 3.0, 10.0  # of both, tried in turn while predictions miss the counts
FEW_MISSED = 0.05  # of P(class | value): as many as 95 % intervals miss by chance
MISSED_ROWS = 30.0  # of a value whose prediction is compared with its counts
LEAST_CLASS_ITERATIONS = 25
CLASS_TOL = 0.1  # relative to the first descent's tolerance
TINY = np.finfo(float).tiny
VIRTUAL_ROWS = 2.0 ** np.arange(-1, 10)  # candidates for smoothing P(x | parents)


class ClassShares(NamedTuple):
    """The data's class distribution, given nothing and given one feature."""

    classes: Floats  # (n_classes,): P(y)
    values: list[Floats]  # of each selected feature, (arity, n_classes): P(x, y)
    n_rows: float  # that they were counted in


@one_blas_thread()
def to_network(structure: Structure, tables: Tables, generative: Tables) -> Tables:
    """Return a proper network with the same posterior, and P(x) as close as possible to another's.

    The structure has no immoralities. If the tables or the other network's are too large to
    materialise, P(x) is left as it is.
    """
    start, goal = renormalise(structure, tables), renormalise(structure, generative)
    if not (start.normalized and goal.normalized and start.families):
        return start
    shares = family_shares(structure, _spelled(goal), goal.log_prior)
    wanted = [part.sum(axis=-1) for part in shares]
    logs, log_prior = fit_inputs(structure, _spelled(start), start.log_prior, wanted)
    return Tables(log_prior, tuple(DenseTable(log) for log in logs), normalized=True)


@one_blas_thread()
def fit_inputs(
    structure: Structure,
    scores: Sequence[Floats],
    log_prior: Floats,
    wanted: Sequence[Floats],
    observed: ClassShares | None = None,
    *,
    max_work: int = MAX_WORK,
    tol: float = 1e-9,
) -> tuple[list[Floats], Floats]:
    """Return log tables and class prior with the posterior of scores, and target family marginals.

    The structure has no immoralities; `scores` are (*parent_arities, arity, n_classes), `wanted`
    (*parent_arities, arity) P(parents, x) over all classes. With `observed` P(y) and P(x_i, y)
    further descents start where the first one ends. A descent stops after `max_work` cells times
    classes times iterations, or when the relative improvement of log P(x) falls below `tol`.
    """
    layout = FamilyLayout(structure, [score.shape for score in scores])
    flat, goal = layout.join(scores), layout.join([part[..., None] for part in wanted])[:, 0]
    # About the square root of the second derivatives: rare values need longer steps.
    scale, each = 1.0 / np.sqrt(goal + LEAST_SHARE), np.ones(flat.shape[1])

    def share(scaled: Floats) -> SharedFamilies:
        shifted = np.repeat(scaled * scale, flat.shape[1]).reshape(flat.shape)
        shifted += flat  # broadcasting along few classes takes twice as long
        return layout.share(shifted, log_prior)

    def objective(
        scaled: Floats, observed: ClassShares | None = None, factor: float = 0.0
    ) -> tuple[float, Floats]:
        found = share(scaled)
        value, slopes = found.log_total - float((goal * scaled * scale).sum()), found.shares
        if observed is not None:
            lost, slopes = layout.class_loss(found, observed)
            value += factor * lost
            slopes *= factor
            slopes += found.shares
        return value, (slopes @ each - goal) * scale

    work = max(sum(score.size for score in scores), 1)
    iterations = int(min(MAX_ITERATIONS, max(max_work // work, 5)))
    first = FIRST_STEP / max(len(scores), 1) ** 0.5
    found = minimise(objective, np.zeros(goal.size), max_iter=iterations, tol=tol, first_step=first)
    end, missed = share(found.at), np.inf
    if observed is None:
        return layout.split(end.logs), end.log_prior
    for factor in CLASS_FACTORS:
        found = minimise(
            partial(objective, observed=observed, factor=factor),
            found.at,
            max_iter=max(iterations, LEAST_CLASS_ITERATIONS),
            tol=tol * CLASS_TOL,
            first_step=first,
        )
        stronger = share(found.at)
        before, missed = missed, layout.missed(stronger, observed)
        if 2.0 * missed > before:
            break  # too much of P(x) for what it brings
        end = stronger
        if missed <= FEW_MISSED:
            break
    return layout.split(end.logs), end.log_prior


class SharedFamilies(NamedTuple):
    """A network as flat arrays, (n_cells, n_classes) unless stated otherwise."""

    logs: Floats  # log conditional probabilities
    log_prior: Floats  # (n_classes,)
    log_total: float  # log of the sum of exponentiated scores
    conditionals: Floats
    shares: Floats  # P(parents, x, y)
    values: Floats  # (n_values, n_classes): P(x, y) of each feature


class FamilyLayout:
    """Positions of the families' cells in flat arrays; holders first, see src/native/shares.c.

    `shapes` are (*parent_arities, arity, n_classes); the structure has no immoralities.
    """

    def __init__(self, structure: Structure, shapes: Sequence[tuple[int, ...]]) -> None:
        self._order, self._shapes = structure.topological_order(), shapes
        place, above = {at: i for i, at in enumerate(self._order)}, structure.holders()
        members = [(*parents, feature) for feature, parents in structure.families]
        sizes = [prod(shapes[at][:-2]) for at in self._order]
        arities = [shapes[at][-2] for at in self._order]
        contexts, links = starts_of(sizes)[:-1], []
        for number, at in enumerate(self._order):
            links.append(np.zeros(0, np.int64))
            if above[at] >= 0:
                held, shape = members[above[at]], shapes[above[at]][:-1]
                digits = np.indices(shape).reshape(len(shape), -1)
                own = [digits[held.index(parent)] for parent in members[at][:-1]]
                links[-1] = contexts[number] + np.ravel_multi_index(own, shapes[at][:-2])
        self._families = (
            starts_of(np.multiply(sizes, arities))[:-1],
            contexts,
            starts_of(arities)[:-1],
            np.array(sizes, np.int64),
            np.array(arities, np.int64),
            np.array([place.get(above[at], -1) for at in self._order], np.int64),
            starts_of([len(link) for link in links])[:-1],
            np.concatenate([np.zeros(0, np.int64), *links]).astype(np.int64),
            sum(sizes),
        )
        self._n_values = sum(arities)

    def join(self, arrays: Sequence[Floats]) -> Floats:
        """Return the families' arrays as one, (n_cells, n_classes)."""
        return np.concatenate([arrays[at].reshape(-1, arrays[at].shape[-1]) for at in self._order])

    def split(self, flat: Floats) -> list[Floats]:
        """Return the families' parts of a flat array, each in its shape."""
        out = [np.zeros(0)] * len(self._order)
        for at, start in zip(self._order, self._families[0], strict=True):
            *outer, n_classes = self._shapes[at]
            out[at] = flat[start : start + prod(outer)].reshape(*outer, n_classes)
        return out

    def share(self, scores: Floats, log_prior: Floats) -> SharedFamilies:
        """Turn scores (n_cells, n_classes), which may be changed, into a network."""
        log_prior, log_total = log_prior.copy(), np.zeros(1)
        conditionals, shares = np.empty((2, *scores.shape))
        found = conditionals, shares, np.empty((self._n_values, scores.shape[1]))
        native.share_families(*self._families, scores, log_prior, log_total, *found)
        return SharedFamilies(scores, log_prior, float(log_total[0]), *found)

    def class_loss(self, found: SharedFamilies, observed: ClassShares) -> tuple[float, Floats]:
        """Return the negated class terms of a network, and their gradient in the cells' scores."""
        prior, weight = np.exp(found.log_prior), VALUE_WEIGHT / len(self._order)
        values = np.concatenate([observed.values[at] for at in self._order])
        known, own = np.maximum(prior, TINY), np.maximum(found.values, TINY)
        total = own.sum(axis=-1, keepdims=True)
        loss = -CLASS_WEIGHT * float((observed.classes * np.log(known)).sum())
        loss -= weight * float((values * np.log(own / total)).sum())
        by_values = weight * (values / own - values.sum(axis=-1, keepdims=True) / total)
        by_prior, slopes = CLASS_WEIGHT * observed.classes / known, np.empty_like(found.shares)
        given = found.conditionals, found.shares, prior, by_values, by_prior
        native.pull_shares(*self._families, *given, slopes)
        return loss, slopes

    def missed(self, found: SharedFamilies, observed: ClassShares) -> float:
        """Return the share of P(class | value) outside the 95 % interval of the counts.

        The interval is Wilson's: around a share of 0 or 1 it isn't a point.
        """
        values = np.concatenate([observed.values[at] for at in self._order])
        rows = values.sum(axis=-1, keepdims=True) * observed.n_rows
        common = rows[:, 0] >= MISSED_ROWS
        if not common.any():
            return 0.0
        n, own = rows[common], np.maximum(found.values[common], TINY)
        share, squared = values[common] * observed.n_rows / n, 1.96**2
        centre = (share + 0.5 * squared / n) / (1.0 + squared / n)
        half = np.sqrt(share * (1.0 - share) * squared / n + (0.5 * squared / n) ** 2)
        gap = np.abs(own / own.sum(axis=-1, keepdims=True) - centre)
        return float((gap > half / (1.0 + squared / n)).mean())


def renormalise(structure: Structure, tables: Tables) -> Tables:
    """Return a network with the same posterior and normalised tables; too large ones unchanged.

    The structure must be moral; the scores may be any finite numbers.
    """
    if any(prod(t.member_arities) * t.n_classes > MAX_SPELLED for t in tables.families):
        return tables
    if not tables.families:
        return replace(tables, log_prior=log_softmax(tables.log_prior, axis=0), normalized=True)
    logs = _spelled(tables)
    layout = FamilyLayout(structure, [log.shape for log in logs])
    found = layout.share(layout.join(logs), tables.log_prior)
    families = tuple(DenseTable(log) for log in layout.split(found.logs))
    return Tables(found.log_prior, families, normalized=True)


def family_shares(structure: Structure, logs: Sequence[Floats], log_prior: Floats) -> list[Floats]:
    """Return P(parents, x, y) of every family, (*parent_arities, arity, n_classes)."""
    layout = FamilyLayout(structure, [log.shape for log in logs])
    return layout.split(layout.share(layout.join(logs), log_prior).shares)


def log_conditional(shares: Floats) -> Floats:
    """Return log P(x | parents) with an axis for the class, from P(parents, x)."""
    known = np.maximum(shares, TINY)
    return np.log(known / known.sum(axis=-1, keepdims=True))[..., None]


def smooth_shares(weighed: Floats, row: float) -> tuple[Floats, float]:
    """Return P(x | parents) from weights (*parents, x), and its leave-one-out log-likelihood.

    Frequencies are smoothed towards those given one parent fewer, by the number of virtual rows
    (each of the mean weight `row`) with the highest leave-one-out likelihood.
    """
    n_parents, n_groups = weighed.ndim - 1, weighed.shape[-1]
    alone = weighed.reshape(-1, n_groups).sum(axis=0)
    shares = alone + row / n_groups
    shares /= shares.sum()
    likelihood = float((alone * np.log(shares)).sum())
    for depth in range(1, n_parents + 1):
        held = weighed.sum(axis=tuple(range(depth, n_parents)))
        total, above = held.sum(axis=-1, keepdims=True), np.expand_dims(shares, depth - 1)
        seen = held > 0.0
        own, known = held[seen], np.broadcast_to(above, held.shape)[seen]
        others = np.maximum(np.broadcast_to(total, held.shape)[seen] - row, 0.0)
        n = row * VIRTUAL_ROWS[:, None]
        without = (np.maximum(own - row, 0.0) + n * known) / (others + n)
        fits = (own * np.log(without)).sum(axis=1)
        likelihood, n = float(fits.max()), row * VIRTUAL_ROWS[fits.argmax()]
        shares = (held + n * above) / (total + n)
    return shares, likelihood


def _spelled(tables: Tables) -> list[Floats]:
    return [table.to_dense().log_prob for table in tables.families]
