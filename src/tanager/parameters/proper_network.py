r"""From scores to a proper Bayesian network with the same P(y | x).

Scores determine P(y | x) only: any function of the features alone may be added
without changing it. Where the parents of every feature are joined among
themselves, some network has the same posterior: walk the features from the
leaves, divide each table by its sum over the feature's values, and multiply
that sum, a function of the parents' values and the class, into the table of the
last of those parents, which holds them all; in the end into the class prior.

Which P(x) the network has is no matter for complete rows, but decides how
unknown values are summed out. Among the functions that are a sum of one term a
family, `to_network` takes the one that makes the rows most probable: the maximum of

.. math:: \sum_i \langle T_i, \varphi_i \rangle - \log \sum_{x, y} \exp(s(x, y) + \sum_i \varphi_i)

with :math:`T_i` the share of each value of feature i and its parents, whatever
the class. It is concave; at the maximum the network's own shares are
:math:`T_i`, and so what it says of the class with nothing known is near the
classes' frequencies. Near, not equal: no sum of one term per family cancels what sharp scores
add to P(x). Where the data's P(y) and P(x_i, y) are given, too, it's the maximum of

.. math:: \dots + a \sum_y P(y) \log P_h(y)
          + \frac{b}{n} \sum_i \sum_{x_i, y} P(x_i, y) \log P_h(y \mid x_i),

which holds the network's answers with nothing or one thing known to the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from tanager import native
from tanager.loglinear.optimiser import minimise
from tanager.numerics import Floats, log_sum_exp
from tanager.parameters.tables import DenseTable, Tables
from tanager.structure import Structure
from tanager.threads import one_blas_thread

MAX_SPELLED = 1 << 24  # cells of one family, spelled out
MAX_ITERATIONS = 100
MAX_WORK = 1 << 29  # cells times classes times iterations
LEAST_SHARE = 1e-5  # of a family's values: rarer ones are taken for as common
FIRST_STEP = 1.5  # of the optimiser, for one family
CLASS_WEIGHT, VALUE_WEIGHT = 30.0, 10.0  # a and b of the class terms, beside log P(x)
LEAST_CLASS_ITERATIONS = 25
CLASS_TOL = 0.01  # of the first descent's tolerance
TINY = np.finfo(float).tiny


class ClassShares(NamedTuple):
    """What the data say of the class with nothing known, and with one feature known."""

    classes: Floats  # (n_classes,): P(y)
    values: list[Floats]  # of each selected feature, (arity, n_classes): P(x, y)


@one_blas_thread()
def to_network(structure: Structure, tables: Tables, generative: Tables) -> Tables:
    """Return a proper network with the same posterior, and P(x) as near as can be to another's.

    The structure has no immoralities. Where the tables or the other network's are too large to
    be spelled out, P(x) is left as it is.
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
    """Return log tables and class prior with the posterior of scores, and family shares as wanted.

    The structure has no immoralities; `scores` are (*parent_arities, arity, n_classes), `wanted`
    (*parent_arities, arity) P(parents, x) over all classes. `observed` P(y) and P(x_i, y) take a
    second descent from where the first one ends. A descent stops after `max_work` cells times
    classes times iterations, or once log P(x) improves by less than `tol`, relatively.
    """
    sizes = np.cumsum([0, *(part.size for part in wanted)])
    goal = np.concatenate([part.ravel() for part in wanted])
    # About the square root of the second derivatives: rare values need longer steps.
    scale = 1.0 / np.sqrt(goal + LEAST_SHARE)

    def added(free: Floats) -> list[Floats]:
        return [
            score + free[low:high].reshape(part.shape)[..., None]
            for score, part, low, high in zip(scores, wanted, sizes, sizes[1:], strict=False)
        ]

    def objective(scaled: Floats, told: ClassShares | None = None) -> tuple[float, Floats]:
        free = scaled * scale
        logs, prior, log_total = normalise(structure, added(free), log_prior)
        found = family_shares(structure, logs, prior)
        value, slopes = log_total - float((goal * free).sum()), found
        if told is not None:
            lost, more = _class_loss(structure, logs, prior, found, told)
            value, slopes = value + lost, list(map(np.add, found, more))
        shares = np.concatenate([_over_classes(part).ravel() for part in slopes])
        return value, (shares - goal) * scale

    work = max(sum(score.size for score in scores), 1)
    iterations = int(min(MAX_ITERATIONS, max(max_work // work, 5)))
    first = FIRST_STEP / max(len(scores), 1) ** 0.5
    start = np.zeros(goal.size)
    found = minimise(objective, start, max_iter=iterations, tol=tol, first_step=first)
    if observed is not None:
        found = minimise(
            partial(objective, told=observed),
            found.at,
            max_iter=max(iterations, LEAST_CLASS_ITERATIONS),
            tol=tol * CLASS_TOL,
            first_step=first,
        )
    return normalise(structure, added(found.at * scale), log_prior)[:2]


def _class_loss(
    structure: Structure,
    logs: Sequence[Floats],
    log_prior: Floats,
    shares: Sequence[Floats],
    observed: ClassShares,
) -> tuple[float, list[Floats]]:
    """Return the class terms of a network, negated, and their slopes by the cells' logarithms.

    Back-propagates through `family_shares` from the leaves, then `normalise` from the roots.
    """
    above, order = structure.holders(), structure.topological_order()
    prior, conditionals = np.exp(log_prior), [np.exp(log) for log in logs]
    known = np.maximum(prior, TINY)
    loss = -CLASS_WEIGHT * float((observed.classes * np.log(known)).sum())
    by_prior = CLASS_WEIGHT * observed.classes / known
    by_share, weight = [], VALUE_WEIGHT / len(logs)
    for share, values in zip(shares, observed.values, strict=True):
        own = np.maximum(share.sum(axis=tuple(range(share.ndim - 2))), TINY)
        total = own.sum(axis=-1, keepdims=True)
        loss -= weight * float((values * np.log(own / total)).sum())
        slope = weight * (values / own - values.sum(axis=-1, keepdims=True) / total)
        by_share.append(np.broadcast_to(slope, share.shape))
    for at in reversed(order):
        parents = structure.parent_indices[at]
        outer = (by_share[at] * conditionals[at]).sum(axis=-2)
        if parents:
            more = _spread(outer, parents, structure, above[at])
            by_share[above[at]] = by_share[above[at]] + more
        else:
            by_prior = by_prior + outer
    by_prior = by_prior * prior
    by_prior -= prior * by_prior.sum()
    slopes: list[Floats] = [np.zeros(0)] * len(logs)
    for at in order:
        by_log = by_share[at] * shares[at]
        outer = by_log.sum(axis=-2)
        if above[at] >= 0:
            outer += _gathered(slopes[above[at]], structure, at, above[at])
        else:
            outer -= by_prior
        slopes[at] = conditionals[at] * np.expand_dims(outer, -2) - by_log
    return loss, slopes


def _gathered(values: Floats, structure: Structure, at: int, holder: int) -> Floats:
    """Sum an array over the holder's members and class to a feature's parents and class."""
    parents = structure.parent_indices[at]
    members = (*structure.parent_indices[holder], structure.selected[holder])
    kept = [members.index(parent) for parent in parents]
    dropped = tuple(axis for axis in range(len(members)) if axis not in kept)
    left = sorted(kept)
    return values.sum(axis=dropped).transpose(*(left.index(axis) for axis in kept), len(kept))


def _over_classes(shares: Floats) -> Floats:
    """Sum the last axis: class by class, where NumPy's own sum of short axes is slow."""
    if shares.shape[-1] > 8:
        return np.asarray(shares.sum(axis=-1))
    total = shares[..., 0].copy()
    for label in range(1, shares.shape[-1]):
        total += shares[..., label]
    return total


def renormalise(structure: Structure, tables: Tables) -> Tables:
    """Return a network with the same posterior, its tables summing to one; too large ones as is.

    The structure must be moral; the scores may be any finite numbers.
    """
    if any(prod(t.member_arities) * t.n_classes > MAX_SPELLED for t in tables.families):
        return tables
    normal, log_prior, _ = normalise(structure, _spelled(tables), tables.log_prior)
    return Tables(log_prior, tuple(DenseTable(table) for table in normal), normalized=True)


def normalise(
    structure: Structure, logs: Sequence[Floats], log_prior: Floats
) -> tuple[list[Floats], Floats, float]:
    """Return logarithms that sum to one, the class prior, and the logarithm of their old sum."""
    logs, log_prior = [np.array(log, np.float64, order="C") for log in logs], log_prior.copy()
    above = structure.holders()
    for at in reversed(structure.topological_order()):
        parents = structure.parent_indices[at]
        *outer, arity, n_classes = logs[at].shape
        total = np.empty((*outer, n_classes))
        flat = logs[at].reshape(-1, arity, n_classes)
        native.normalize_scores(flat, total.reshape(-1, n_classes))
        if parents:
            logs[above[at]] += _spread(total, parents, structure, above[at])
        else:
            log_prior += total
    log_total = log_sum_exp(log_prior, axis=0)
    return logs, log_prior - log_total, float(log_total)


def family_shares(structure: Structure, logs: Sequence[Floats], log_prior: Floats) -> list[Floats]:
    """Return P(parents, x, y) of every family, (*parent_arities, arity, n_classes)."""
    shares: list[Floats] = [np.zeros(0)] * len(logs)
    above = structure.holders()
    for at in structure.topological_order():
        parents = structure.parent_indices[at]
        outer = np.exp(log_prior)
        if parents:
            outer = _gathered(shares[above[at]], structure, at, above[at])
        *_, arity, n_classes = logs[at].shape
        outer = np.ascontiguousarray(outer).reshape(-1, n_classes)
        shares[at] = np.empty(logs[at].shape)
        flat = np.ascontiguousarray(logs[at]).reshape(-1, arity, n_classes)
        native.spread_shares(flat, outer, shares[at].reshape(flat.shape))
    return shares


def _spread(values: Floats, scope: tuple[int, ...], structure: Structure, holder: int) -> Floats:
    """Bring an array over (*scope, class) to the axes of the holder's table, ones elsewhere."""
    members = (*structure.parent_indices[holder], structure.selected[holder])
    order = sorted(range(len(scope)), key=lambda axis: members.index(scope[axis]))
    arranged = values.transpose(*order, len(scope))
    sizes = iter(arranged.shape)
    shape = [next(sizes) if member in scope else 1 for member in members]
    return arranged.reshape(*shape, values.shape[-1])


def _spelled(tables: Tables) -> list[Floats]:
    return [table.to_dense().log_prob for table in tables.families]
