"""Several learners' tables on one structure, pooled into one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Domain
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters.discriminative.backoff import read_levels, to_table
from tanager.parameters.discriminative.inputs import fit_inputs
from tanager.parameters.discriminative.layout import Layout
from tanager.parameters.discriminative.renormalise import is_moral
from tanager.parameters.frequencies import MEstimate
from tanager.parameters.learner import ParameterLearner, Settled
from tanager.parameters.pooled.members import Member, Spec, resolve_members
from tanager.parameters.pooled.shares import FLOOR, LEAST_ROWS, fit_shares, hold_out
from tanager.parameters.tables import LARGE_CELLS, Tables
from tanager.structure import Structure
from tanager.threads import one_blas_thread

__all__ = ["Pooled"]

Floats = NDArray[np.float64]

MAX_TABLE = 1 << 17  # numbers of one feature's table
SAMPLE_KEY = 6_101  # names the random stream of the sample


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
        around equal shares; they need not sum to one, so that a pool of timid
        or overconfident members is set right.
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

    A cross-validated member with l2="cv" is settled once, on the sample; its
    strength then holds for the folds and for the final fit. The pool's folds
    are the members' too: a member's own `crossfit` only says whether it has any.
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

    def limit(self, structure: Structure, domain: Domain) -> Structure:
        """Drop the last parents of a feature whose table would exceed 131,072 numbers.

        Two columns of a thousand values each would have a million, hardly one
        of them with a row to learn from. A structure without immoralities stays so.
        """
        moral = is_moral(structure)
        kept: dict[int, tuple[int, ...]] = {}
        for at in structure.topological_order():
            feature, parents = structure.selected[at], structure.parent_indices[at]
            while parents and (
                _table_size(domain, feature, parents) > MAX_TABLE
                or (moral and not _are_joined(parents, kept))
            ):
                parents = parents[:-1]
            kept[feature] = parents
        shorter = tuple(kept[feature] for feature in structure.selected)
        return Structure(structure.names, structure.selected, shorter)

    @one_blas_thread()
    def learn(self, structure: Structure, counts: Counts, context: FitContext) -> Tables:
        """Learn every member's tables, and pool them."""
        members = resolve_members(self.members, structure)
        self._check(len(members))
        context.progress.start("pool", total=2.0 * len(members), unit="steps")
        sample = _sample(counts, self.max_rows, context)
        shares, losses, settled = self._shares(members, sample, context)
        whole = sample.rows.n_rows == counts.rows.n_rows
        tables, reports = [], []
        for member, (learner, fit) in zip(members, settled, strict=True):
            inner = context.apart()
            ready = member._replace(learner=learner)
            tables.append(fit(inner) if whole else ready.learn(counts, inner))
            reports.append({"member": ready.describe(), **inner.info.get("parameters", {})})
            context.progress.advance()
        context.progress.finish()
        info = context.info.setdefault("parameters", {})
        info.update(shares=shares.tolist(), held_out_loss=losses, members=reports)
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
    ) -> tuple[Floats, list[float] | None, list[Settled]]:
        """Return the shares, the held-out loss of pool and members where known, and the choices."""
        n_members, rows = len(members), sample.rows
        tell = rows.n_rows >= LEAST_ROWS and rows.domain.n_classes > 1 and n_members > 1
        if isinstance(self.shares, str) and self.shares == "cv" and tell:
            settled, held_out = hold_out(members, sample, context)
            shares = fit_shares(held_out)
            each = np.vstack([shares, np.eye(n_members)])
            return shares, [held_out.mean_loss(one) for one in each], settled
        shares = np.full(n_members, 1.0 / n_members)
        if not isinstance(self.shares, str):
            shares = np.array(self.shares, np.float64)
        settled = []
        for member in members:
            settled.append(member.settle(sample, context))
            context.progress.advance()
        return shares, None, settled


def _are_joined(features: tuple[int, ...], parents: dict[int, tuple[int, ...]]) -> bool:
    """Return whether one of the features has all the others for parents."""
    return any(set(features) <= {one, *parents[one]} for one in features)


def _table_size(domain: Domain, feature: int, parents: tuple[int, ...]) -> int:
    return prod(int(domain.arities[i]) for i in (feature, *parents)) * domain.n_classes


def _sample(counts: Counts, max_rows: int, context: FitContext) -> Counts:
    """Return the counts of a random sample of the rows in memory, or of all where they are few."""
    rows = counts.rows
    if rows.n_rows > max_rows:
        chosen = context.generator(SAMPLE_KEY).choice(rows.n_rows, max_rows, replace=False)
        mask = np.isin(np.arange(rows.n_rows), chosen)
        return Counts(rows.take(mask), context.apart())
    return counts


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
    if not is_moral(structure):
        return tables
    generative = MEstimate(m=1.0).learn(structure, counts, counts.context.apart())
    return fit_inputs(structure, tables, generative)


def _weigh(logs: Floats, shares: Floats) -> Floats:
    """Return the weighted sum over the first axis.

    What a cell gives to all classes alike cancels in P(y | x): it is left at the
    members' mean, where the fit of P(x) starts from.
    """
    known = np.maximum(logs, FLOOR)
    total = np.einsum("m...,m->...", known, shares)
    centres = known.mean(axis=(0, -1))[..., None]
    return np.asarray(total - total.mean(axis=-1, keepdims=True) + centres)
