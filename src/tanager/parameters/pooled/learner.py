"""Several learners' tables on one structure, pooled into one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.codes import sample_rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters.folds import N_FOLDS, with_folds
from tanager.parameters.frequencies import MEstimate
from tanager.parameters.learner import Choice, ParameterLearner
from tanager.parameters.pooled.members import Member, Spec, resolve_members
from tanager.parameters.pooled.shares import FLOOR, LEAST_ROWS, HeldOut, fit_shares, hold_out
from tanager.parameters.scores import Layout, read_levels, to_network, to_table
from tanager.parameters.tables import LARGE_CELLS, Tables
from tanager.structure import Structure
from tanager.threads import one_blas_thread

__all__ = ["Pooled"]

Floats = NDArray[np.float64]

SAMPLE_KEY, FOLDS_KEY = 6_101, 6_102  # name the random streams of the sample and the folds


class Pooled(ParameterLearner):
    r"""One network from several learners' tables: the weighted geometric mean of their posteriors.

    .. math:: P(y \mid x) \propto \prod_m P_m(y \mid x)^{a_m}

    Learners err in different ways: generative tables where the structure's
    independences fail, free scores where rows are few. What they share is more
    often right than any of them. Choose it where the probabilities matter most
    and a fit may take seconds instead of milliseconds.

    Parameters
    ----------
    members : sequence or None
        What to pool: learners, their names, or pairs (learner, n) of a learner
        that sees only the first n parents of each feature. None: HDP tables,
        weights over HDP tables, free scores of the families, and free scores of
        the features alone.
    shares : {"cv", "equal"} or sequence of float
        The exponents :math:`a_m`. "cv" fits them to held-out rows of a five-fold
        cross-validation, at least 0, with a Gaussian prior of precision 100
        around equal shares. They need not sum to one: members that are all too
        cautious, or all too sure, are corrected by it.
    max_rows : int
        Shares, and what members choose by cross-validation themselves, are
        found on a sample of at most so many rows; the tables then see all.

    Notes
    -----
    The pool of log-linear models on one structure is a log-linear model on it.
    So the result is one set of tables, whatever the number of members; where
    the structure has no immoralities (naive, TAN, k-trees) they are a proper
    network, which marginalises, explains and exports like any other.
    Elsewhere `Tables.normalized` is False, as with `Discriminative`.

    A member makes its choices (l2="cv") once, on the sample; they hold for the
    folds and for the final fit. The pool's folds are the members' too: a
    member's own `crossfit` only says whether it has any.
    Cut points and structure have seen all rows, held-out ones included, so
    that `held_out_loss` is lower than the loss on new rows, the more so the
    more columns there are for the rows.

    Parents that would make a feature's table exceed 131,072 numbers are dropped
    from the structure, from the last; ``info_["structure"]["dropped"]`` names them.

    ``info_["parameters"]`` has `shares`, `held_out_loss` of the pool and of each
    member, and `members`, what each of them reports.

    References
    ----------
    Genest and Zidek (1986), "Combining probability distributions: a critique and
    an annotated bibliography", Statistical Science 1, DOI 10.1214/ss/1177013825:
    the logarithmic opinion pool.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tanager import BayesNetClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesNetClassifier("tan", Pooled(["hdp", "m-estimate"])).fit(X, y)
    >>> len(clf.info_["parameters"]["shares"])
    2
    """

    # Trained weights are not misled by many dependent columns, as counts are:
    # what minimum description length leaves whole is worth a few cuts.
    preferred_bins = 5
    max_table = 1 << 17

    def __init__(
        self,
        members: Sequence[Spec] | None = None,
        *,
        shares: str | Sequence[float] = "cv",
        max_rows: int = 50_000,
    ) -> None:
        self.members = members
        self.shares = shares
        self.max_rows = max_rows

    @one_blas_thread()
    def learn(self, structure: Structure, counts: Counts, context: FitContext) -> Tables:
        """Learn every member's tables, and pool them."""
        members = resolve_members(self.members, structure)
        self._check(len(members))
        context.progress.start("pool", total=2.0 * len(members), unit="steps")
        sample = _sample(counts, self.max_rows, context)
        shares, losses, choices = self._shares(members, sample, context)
        whole = sample.rows.n_rows == counts.rows.n_rows
        tables, reports = [], []
        for member, choice in zip(members, choices, strict=True):
            inner = context.inner()
            chosen = member._replace(learner=choice.learner)
            tables.append(choice.tables(inner) if whole else chosen.learn(counts, inner))
            reports.append({"member": chosen.describe(), **inner.record("parameters")})
            context.progress.advance()
        context.progress.finish()
        record = context.record("parameters")
        record.update(shares=shares.tolist(), held_out_loss=losses, members=reports)
        return _pool(structure, counts, tables, shares)

    def _check(self, n_members: int) -> None:
        whole = isinstance(self.max_rows, int | np.integer) and not isinstance(self.max_rows, bool)
        if not (whole and self.max_rows >= LEAST_ROWS):
            raise ConfigurationError(
                f"Pooled: max_rows={self.max_rows!r}. Allowed: an integer of at least {LEAST_ROWS}."
            )
        if isinstance(self.shares, str):
            allowed = self.shares in ("cv", "equal")
        else:
            given = np.asarray(self.shares)
            allowed = given.dtype.kind in "iuf" and given.shape == (n_members,)
            allowed = allowed and bool(np.isfinite(given).all() and (given >= 0).all())
            allowed = allowed and bool(given.any())
        if not allowed:
            raise ConfigurationError(
                f"Pooled: shares={self.shares!r}. Allowed: 'cv', 'equal', or a number of at least "
                f"0 for each of the {n_members} members, not all 0."
            )

    def _shares(
        self, members: list[Member], sample: Counts, context: FitContext
    ) -> tuple[Floats, list[float] | None, list[Choice]]:
        """Return the shares, the held-out loss of pool and members where known, and the choices."""
        n_members, rows = len(members), sample.rows
        enough = rows.n_rows >= LEAST_ROWS and rows.domain.n_classes > 1 and n_members > 1
        fitted = isinstance(self.shares, str) and self.shares == "cv" and enough
        if fitted:
            sample = with_folds(sample, N_FOLDS, FOLDS_KEY, context.inner())
        choices = []
        for member in members:
            choices.append(member.choose(sample, context))
            context.progress.advance()
        if fitted:
            held_out = hold_out(choices, sample)
            shares = fit_shares(held_out)
            return shares, _losses(held_out, shares), choices
        if isinstance(self.shares, str):
            return np.full(n_members, 1.0 / n_members), None, choices
        return np.array(self.shares, np.float64), None, choices


def _losses(held_out: HeldOut, shares: Floats) -> list[float]:
    """Return the held-out loss of the pool, then of each member."""
    each = np.vstack([shares, np.eye(len(shares))])
    return [held_out.mean_loss(one) for one in each]


def _sample(counts: Counts, max_rows: int, context: FitContext) -> Counts:
    """Return the counts of a random sample of the rows in memory, or of all where they are few."""
    rows = counts.rows
    if rows.n_rows <= max_rows:
        return counts
    inner = context.inner()
    return Counts(sample_rows(rows, context.row_seed(SAMPLE_KEY), max_rows, inner), inner)


def _pool(structure: Structure, counts: Counts, members: list[Tables], shares: Floats) -> Tables:
    """Return the geometric mean of tables, weighted by shares."""
    layout = Layout.of(structure, counts.domain, list(counts.trees(structure)))
    families = []
    for at, family in enumerate(layout.families):
        parts = [tables.families[at] for tables in members]
        if prod(family.shape) * layout.n_classes <= LARGE_CELLS:
            family = replace(family, contexts=None)  # exact whatever contexts each part has
        levels = [read_levels(family, part) for part in parts]
        pooled = [_weigh(np.stack(rows), shares) for rows in zip(*levels, strict=True)]
        families.append(to_table(family, pooled))
    log_prior = _weigh(np.stack([tables.log_prior for tables in members]), shares)
    tables = Tables(log_prior, tuple(families), normalized=False)
    if not structure.is_moral():
        return tables
    generative = MEstimate(m=1.0).learn(structure, counts, counts.context.inner())
    return to_network(structure, tables, generative)


def _weigh(logs: Floats, shares: Floats) -> Floats:
    """Return the weighted sum over the first axis.

    What a cell gives to all classes alike cancels in P(y | x): it is left at the
    members' mean, where the fit of P(x) starts from.
    """
    known = np.maximum(logs, FLOOR)
    total = np.einsum("m...,m->...", known, shares)
    centres = known.mean(axis=(0, -1))[..., None]
    return np.asarray(total - total.mean(axis=-1, keepdims=True) + centres)
