"""The members of a layered pool, smooth scores of some depth and generative tables; their shares.

For features with a sign, generative tables are replaced by the nearest monotone ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Rows
from tanager.codes.groups import group_codes
from tanager.counts import Counts
from tanager.loglinear.cells import Terms, by_class
from tanager.loglinear.curves import Signs
from tanager.loglinear.fits import Fit, Settings, cell_precisions, fit_bytes, fit_scores
from tanager.loglinear.optimiser import climb, minimise, strengths
from tanager.loglinear.rows import LocatedTerms
from tanager.numerics import Floats
from tanager.parameters import CountLearner
from tanager.parameters.layered.part import Part
from tanager.parameters.spread import row_blocks
from tanager.parameters.tables import DenseTable, HeldOutRows, Tables, log_posterior
from tanager.structure import FitPlan, Structure

POOLED = 7  # predictions of held-out rows in memory, besides those of deeper members
LEAST_GAIN = 0.5  # nats in total that justify a weaker prior: a smaller gain may be chance
ASKED = 200  # minimum left-out rows: a weaker prior helps most rows, but hurts a few badly
SURE = 2.0  # standard errors between two strengths that settle the comparison
FLOOR = -690.0  # treat a probability of 0 as 1e-300, so that no single member has a veto
STRENGTHS = strengths(-4, 8)  # strengths to try
# How much finer a final fit is: with few rows a pass costs little, and stopping early a bit more.
FINER_OF_MANY, FINER_OF_FEW = 10.0, 100.0
PRECISION = 100.0  # of the prior around equal shares
FIRST, LAST = STRENGTHS.index(1.0), len(STRENGTHS) - 1


@dataclass(frozen=True, eq=False)
class Trial:
    """Rows left out fold by fold, in memory, and the parts that each leave a fold out."""

    labels: NDArray[np.uint16]  # (n_rows,)
    weights: Floats  # (n_rows,)
    # (n_rows, n_classes): log class shares in the other folds, smoothed; the pool's prediction for
    # a row if no member has a share.
    log_shares: Floats
    parts: Sequence[Part] = ()
    held: Sequence[Rows] = ()  # each part's left-out rows
    apart: bool = False  # whether the held-out rows aren't among the parts' own

    @classmethod
    def of(cls, parts: Sequence[Part], held: Sequence[Rows], *, apart: bool) -> Trial:
        """Gather the rows."""
        chunks, known = [rows.gather() for rows in held], []
        for part, chunk in zip(parts, chunks, strict=True):
            # One virtual row is spread evenly over the classes.
            smoothed = part.class_counts + 1.0 / len(part.class_counts)
            known.append(np.tile(np.log(smoothed / smoothed.sum()), (chunk.n_rows, 1)))
        labels = np.concatenate([chunk.labels for chunk in chunks])
        weights = np.concatenate([chunk.row_weights for chunk in chunks])
        return cls(labels, weights, np.concatenate(known), parts, held, apart)

    def loss(self, log_posteriors: Floats) -> float:
        """Return the mean loss of predictions for the left-out rows, (n_rows, n_classes)."""
        own = log_posteriors[np.arange(len(self.labels)), self.labels]
        return -float((self.weights * own).sum() / self.weights.sum())

    def pooled(self, said: Sequence[Floats], shares: Floats) -> Floats:
        """Return a pool's log-posteriors from those of each member, all (n_rows, n_classes)."""
        pooled = (1.0 - shares.sum()) * self.log_shares
        for rows in row_blocks(pooled):
            for share, one in zip(shares, said, strict=True):
                pooled[rows] += share * one[rows]
        return log_posterior(pooled)

    def pool_loss(self, said: Sequence[Floats], shares: Floats) -> tuple[float, Floats]:
        """Return a pool's total loss, and its gradient with respect to the shares."""
        pooled, at = self.pooled(said, shares), np.arange(len(self.labels))
        residuals = np.exp(pooled)
        residuals[at, self.labels] -= 1.0
        residuals *= self.weights[:, None]
        slopes = np.array([np.einsum("nc,nc->", one, residuals) for one in said])
        slopes -= np.einsum("nc,nc->", self.log_shares, residuals)
        return -float((self.weights * pooled[at, self.labels]).sum()), slopes


class MemberScores(NamedTuple):
    """A member's contributions to each class, by selected feature."""

    class_node: Floats  # (n_classes,)
    values: list[Floats]  # (arity, n_classes)
    groups: list[Floats]  # (*parent_groups, n_groups, n_classes), given the first parents


class Member(ABC):
    """A member of a pool, with its predictions for left-out rows."""

    depth: int  # maximum number of parents of a feature
    held_out: Floats  # (n_left_out, n_classes): out-of-fold log-posteriors
    loss: float = np.nan  # their mean loss

    @property
    def parents(self) -> str:
        """The number of parents in words."""
        return ("no parents", "up to 1 parent", f"up to {self.depth} parents")[min(self.depth, 2)]

    @abstractmethod
    def choose(self, trial: Trial) -> None:
        """Make all choices, and predict the left-out rows."""

    @abstractmethod
    def scores(self, part: Part) -> MemberScores:
        """Learn from all rows of a part."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return what was chosen."""

    def tell(self, trial: Trial, said: list[Floats]) -> None:
        """Set the predictions of each part's left-out rows."""
        self.held_out = np.concatenate(said)
        self.loss = trial.loss(self.held_out)
        np.maximum(self.held_out, FLOOR, out=self.held_out)


class Smooth(Member):
    """Smooth scores of the features, and of their groups given up to `depth` parents.

    It starts from the scores and strength of a `shallower` member with one parent fewer.
    """

    def __init__(self, depth: int, settings: Settings, shallower: Smooth | None = None) -> None:
        self.depth, self.settings = depth, settings
        # A table needs a prior about three times as strong as the tables it refines.
        self.place: int = FIRST if shallower is None else min(shallower.place + 1, LAST)
        self._before = [STRENGTHS[FIRST]] * depth  # strengths of the layers with fewer parents
        if shallower is not None:
            self._before = [*shallower._before, STRENGTHS[shallower.place]]
        self.passes, self._shallower = 0, shallower
        self._converged: bool | None = None  # None without a final fit, if it has no share
        self._fits: list[tuple[Terms, Fit]] = []  # for the trial's parts
        self._relative: Floats | None = None  # (n_families,): precisions in the last fit

    def choose(self, trial: Trial) -> None:
        """Move from the first strength to adjacent ones for as long as they improve."""
        terms = [part.terms(self.depth) for part in trial.parts]
        self._check_memory(trial.parts, len(trial.labels))
        rows = [part.located(self.depth) for part in trial.parts]
        asked = [
            LocatedTerms(one, held, part.context)
            for one, held, part in zip(terms, trial.held, trial.parts, strict=True)
            if trial.apart
        ]
        last: list[Fit | None] = [None] * len(terms)
        said: dict[tuple[int, int], Floats] = {}  # by strength and part; at most two strengths
        found: dict[tuple[int, int], Fit] = {}

        def judge(place: int, at: int) -> Floats:
            if (place, at) not in said:
                start: Floats | Fit | None = last[at]
                if start is None and self._shallower is not None:
                    other, earlier = self._shallower._fits[at]
                    start = terms[at].carry(earlier.free, other)
                last[at] = fit = self._fit(trial.parts[at], rows[at], place, start, self.settings)
                found[place, at] = fit._replace(curvature=None)
                held = asked[at] if asked else rows[at]
                said[place, at] = log_posterior(held.log_joint(fit.free, left_out=not asked))
            return said[place, at]

        def gain(before: int, after: int) -> float:
            """Compare two strengths part by part, until the difference is clear."""
            for key in [key for key in said if key[0] not in (before, after)]:
                del said[key], found[key]
            gaps = np.zeros(0)
            for at in range(len(terms)):
                own = slice(len(gaps), len(gaps) + trial.held[at].n_rows)
                row = np.arange(own.stop - own.start), trial.labels[own]
                gap = (judge(after, at)[row] - judge(before, at)[row]) * trial.weights[own]
                gaps = np.append(gaps, gap)
                total, noise = float(gaps.sum()), float(np.sqrt(np.dot(gaps, gaps)))
                if len(gaps) >= ASKED and abs(total) > SURE * noise:
                    break
            return total / float(trial.weights[: len(gaps)].sum())

        least = LEAST_GAIN / float(trial.weights.sum())
        start = max(self.place, FIRST + 1) if self._apart(trial.parts[0]) else self.place
        self.place = climb(gain, start, len(STRENGTHS), least)
        self.tell(trial, [judge(self.place, at) for at in range(len(terms))])
        fits = [found[self.place, at] for at in range(len(terms))]
        if len(terms) == 1 and last[0] is not None:  # with several, none has the terms of all rows
            fits[0] = fits[0]._replace(curvature=last[0].curvature)
        self._fits = list(zip(terms, fits, strict=True))

    def scores(self, part: Part) -> MemberScores:
        """Fit all rows, going through the strengths from stronger to weaker."""
        self._check_memory([part])
        terms, rows = part.terms(self.depth), part.located(self.depth)
        fit = next((fit for known, fit in self._fits if known is terms), None)
        strongest = min(self.place + 2, LAST) if fit is None else self.place
        finer = FINER_OF_MANY if part.has_many_rows else FINER_OF_FEW
        for place in range(strongest, self.place - 1, -1):
            settings = self.settings if place > self.place else self.settings.finer(finer)
            fit = self._fit(part, rows, place, fit, settings)
        assert fit is not None
        self._converged, self._fits, self._relative = fit.converged, [], fit.relative
        cells = terms.scores(fit.free)
        by_feature = part.by_feature(self.depth, terms.family_scores(cells))
        return MemberScores(by_class(cells[:1])[0], *by_feature)

    def _fit(
        self, part: Part, rows: LocatedTerms, place: int, start: Floats | Fit | None, how: Settings
    ) -> Fit:
        given = part.terms(self.depth), rows, self.layers(part, place), part.class_shares
        fit = fit_scores(*given, start=start, settings=how, adapt=True)
        self.passes += fit.passes
        return fit

    def _check_memory(self, parts: Sequence[Part], n_held: int = 0) -> None:
        """Refuse fits beyond the memory limit, with very many classes or values."""
        domain, sizes = parts[0].rows.domain, Counter[str]()
        for part in parts:
            sizes.update(fit_bytes(part.terms(self.depth), domain.names))
        # The predictions of held-out rows: each member's, and those being pooled.
        held = 8 * n_held * domain.n_classes * (self.depth + POOLED)
        parts[0].context.check_tables(sizes, domain.n_classes, held)

    def layers(self, part: Part, place: int | None = None) -> list[float]:
        """Return the strength of each layer, with the chosen or another one for the last."""
        own = STRENGTHS[self.place if place is None else place]
        return [*self._before, own] if self._apart(part) else [own] * (self.depth + 1)

    def precisions(self, part: Part) -> Floats:
        """Return the precision of each cell's prior in the last fit, (n_cells,)."""
        return cell_precisions(part.terms(self.depth), self.layers(part), self._relative)

    def _apart(self, part: Part) -> bool:
        """Whether the tables with the most parents have their own strength."""
        return part.has_many_rows and self.depth > 0

    def record(self) -> dict[str, Any]:
        """Return the depth, the strength, and the work."""
        return {
            "member": f"smooth scores, {self.parents}",
            "l2": STRENGTHS[self.place],
            "passes": self.passes,
            "converged": self._converged,
        }


class Generative(Member):
    """Tables of groups estimated from counts."""

    depth = 1

    def __init__(self, learner: CountLearner) -> None:
        self.learner = learner
        # The variances of the tables last returned by `scores`, if known.
        self.variances: tuple[Structure, Tables] | None = None

    def choose(self, trial: Trial) -> None:
        """Predict the left-out rows with tables from the others."""
        said = []
        for part, rows in zip(trial.parts, trial.held, strict=True):
            structure, tables = self._tables(part, intervals=False)
            codes = group_codes(rows.gather().codes, part.groups)
            said.append(log_posterior(tables.log_joint(structure, codes, part.group_arities)))
        self.tell(trial, said)

    def scores(self, part: Part) -> MemberScores:
        """Return the tables' logarithms."""
        structure, tables = self._tables(part, intervals=True)
        self.variances = None if tables.spread is None else (structure, tables.spread)
        groups = [np.maximum(table.to_dense().log_prob, FLOOR) for table in tables.families]
        return MemberScores(tables.log_prior, [np.zeros((1, 1)) for _ in groups], groups)

    def _tables(self, part: Part, *, intervals: bool) -> tuple[Structure, Tables]:
        """Learn the tables of a part."""
        structure = apart(part.structure.shortened(self.depth), part.signs)
        counts = part.grouped_counts
        plan = FitPlan(part.context.inner(), intervals=intervals)
        tables = self.learner.learn(structure, counts, plan)
        return structure, project_tables(structure, tables, counts, part.signs)

    def record(self) -> dict[str, Any]:
        """Return the learner and the depth."""
        return {"member": f"{self.learner!r}, {self.parents}"}


def fit_shares(trial: Trial, said: Sequence[Floats]) -> Floats:
    """Return the non-negative shares that minimise held-out loss, with a prior around equal ones.

    A pool that predicts worse than the class frequencies alone is shrunk towards them.
    """
    equal = np.full(len(said), 1.0 / len(said))

    def objective(shares: Floats) -> tuple[float, Floats]:
        loss, slopes = trial.pool_loss(said, shares)
        gap = shares - equal
        return loss + 0.5 * PRECISION * float(gap @ gap), slopes + PRECISION * gap

    shares = minimise(
        objective,
        equal,
        max_iter=1_000,
        tol=1e7 * np.finfo(float).eps,
        first_step=None,
        bounds=(np.zeros(len(said)), np.full(len(said), np.inf)),
    ).at
    none = trial.pool_loss(said, 0.0 * shares)[0]
    if trial.pool_loss(said, shares)[0] <= none:
        return shares
    from scipy.optimize import minimize_scalar

    part = minimize_scalar(lambda part: trial.pool_loss(said, part * shares)[0], bounds=(0.0, 1.0))
    return shares * (float(part.x) if float(part.fun) < none else 0.0)


def judge_pool(members: Sequence[Member], trial: Trial | None) -> tuple[Floats, list[float] | None]:
    """Return the shares, and the held-out loss of the pool and of each member."""
    if trial is None:
        return np.full(len(members), 1.0 / len(members)), None
    said = [member.held_out for member in members]
    shares = fit_shares(trial, said)
    pooled = trial.pool_loss(said, shares)[0] / float(trial.weights.sum())
    return shares, [pooled, *(member.loss for member in members)]


def held_out_rows(
    members: Sequence[Member], shares: Floats, trial: Trial | None
) -> HeldOutRows | None:
    """Return the pool's out-of-fold predictions for rows, instead of those of its members."""
    if trial is None:
        return None
    pooled = trial.pooled([member.held_out for member in members], shares)
    for member in members:
        del member.held_out
    return HeldOutRows(pooled, trial.labels, trial.weights)


def apart(structure: Structure, signs: Signs) -> Structure:
    """Return the structure without edges at features along which the class rises or falls.

    A generative table of such a feature's child may fall along it even if the sum of all rises.
    """

    def allowed(feature: int, parents: tuple[int, ...]) -> bool:
        return not parents or signs.keys().isdisjoint((feature, *parents))

    return structure.restricted(allowed) if signs else structure


def project_tables(structure: Structure, tables: Tables, counts: Counts, signs: Signs) -> Tables:
    """Return tables of an `apart` structure, with those of the signed features projected."""
    if not signs:
        return tables
    families = list(tables.families)
    for at, (feature, table) in enumerate(zip(structure.selected, families, strict=True)):
        if feature in signs:
            n_ordered, logs = counts.domain.n_ordered[feature], table.to_dense().log_prob
            rows = counts.values[feature][:n_ordered].sum(axis=1)
            projected = project_scores(logs[:n_ordered], signs[feature], rows)
            families[at] = DenseTable(np.concatenate([projected, logs[n_ordered:]]))
    return Tables(tables.log_prior, tuple(families), normalized=False)


def project_scores(scores: Floats, signs: NDArray[np.int8], weights: Floats) -> Floats:
    """Return scores (n_ordered, n_classes) that rise and fall as required, close to the given ones.

    Differences to a reference (the class with a sign; with one that rises and one that falls, the
    mean of the others) are replaced by their isotonic regression, weighted by each value's rows.

    >>> scores = np.array([[0.0, 0.3], [0.0, 0.1], [0.0, 0.5]])
    >>> project_scores(scores, np.array([0, 1], np.int8), np.ones(3)).round(2).tolist()
    [[0.1, 0.3], [-0.1, 0.1], [0.0, 0.5]]
    """
    from scipy.optimize import isotonic_regression

    known, others = np.maximum(weights, 1e-3), np.flatnonzero(signs == 0)
    rising, falling = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    out = scores.copy()
    if rising.size and falling.size and others.size:
        reference = scores[:, others].mean(axis=1)
        gaps = scores[:, others] - reference[:, None]
        out[:, others] = reference[:, None] + np.average(gaps, axis=0, weights=known)
        ways = [(rising[0], True), (falling[0], False)]
    else:
        asked = int(rising[0] if rising.size else falling[0])
        reference = scores[:, asked]
        ways = [(c, not rising.size) for c in range(scores.shape[1]) if c != asked]
    for c, increasing in ways:
        gap = scores[:, c] - reference
        out[:, c] = reference + isotonic_regression(gap, weights=known, increasing=increasing).x
    return out
