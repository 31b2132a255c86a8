"""Layers of smooth scores and generative tables, pooled into one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Fold, Groups, Rows, collect_rows
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ConfigurationError
from tanager.loglinear import Settings
from tanager.loglinear.joining import weigh_joints
from tanager.loglinear.offsets import fit_offsets
from tanager.parameters.folds import N_FOLDS
from tanager.parameters.frequencies import MEstimate
from tanager.parameters.layered.members import Generative, Member, Smooth, Trial, under_parents
from tanager.parameters.layered.part import MAX_TABLE, Part
from tanager.parameters.layered.shares import FLOOR, LEAST_ROWS, HeldOut, fit_shares
from tanager.parameters.learner import CountLearner, GroupedLearner
from tanager.parameters.scores import family_shares, fit_inputs
from tanager.parameters.tables import FamilyTable, GroupedTable, Tables
from tanager.progress import Progress
from tanager.structure import FitPlan, Structure
from tanager.threads import one_blas_thread

__all__ = ["Layered"]

Floats = NDArray[np.float64]

FOLDS_KEY = 6_202  # names the random stream of the folds
JUDGING_ROWS = 2_000  # held-out rows that settle a choice among a few strengths or shares
GATHERED_ROWS = 50_000  # fewer are brought together, and each fold learns groups and structure
FOLD_ROWS = 20_000  # about as many rows are held out of very many
MOST_FOLDS = 250
LITTLE_LOST = 0.001  # of the pool's held-out loss, without its deepest member
MOST_NUMBERS = 1 << 22  # of a network with more than one parent a feature
INPUT_WORK = 1 << 22  # cells times classes times iterations of the fit of P(x)
INPUT_TOL = 1e-4  # relative improvement of it at which it stops


class Layered(GroupedLearner):
    r"""One network from layers of smooth scores: each feature alone, with one parent, with more.

    The score of a class is a sum over features. A feature adds a smooth curve
    over its values and, layer by layer, tables of its groups under its first,
    first two, ... parents. The models of every depth, and generative tables,
    are pooled by the geometric mean of their posteriors,

    .. math:: P(y \mid x) \propto e^{b_y} \prod_m P_m(y \mid x)^{a_m}

    with shares fitted to held-out rows, and class offsets b with which the training rows are
    predicted as many of each class as they have. Choose it where the probabilities
    matter most: the numbers keep their resolution, and the depth comes from the
    data.

    Parameters
    ----------
    generative : str, CountLearner or None
        The generative tables that join the pool, with one parent; None for none.
    max_iter : int
        Iterations of the optimiser for one fit that is judged by held-out rows;
        twice as many for one that is kept.
    tol : float
        Relative improvement of the objective at which it stops; a thirtieth of
        it for a fit that is kept.

    Notes
    -----
    A feature is fine as a child and coarse as a parent: ordered values have
    groups of neighbours, learned from the classes (`tanager.codes.learn_groups`).
    The pool of log-linear models on one structure is a log-linear model on it,
    so the result is one set of tables, and where the structure has no
    immoralities a proper network, which marginalises, explains and exports.

    Folds are honest: cut points (``bins="fine"``) never saw a class; groups,
    structure, scores and tables are learned for each fold from the rows outside
    it. From 50,000 rows on groups and structure are those of all rows in every
    fold: so many rows can hardly be told by a fold. A structure that was given,
    not learned, is the same in all folds.

    Fewer than 50,000 rows are brought together and learned from on one thread,
    whatever the engine.

    Generative tables that say less about left-out rows than the classes' shares
    do are no member: on many features without information they are sure of noise.

    ``info_["parameters"]`` has `shares`, `held_out_loss` of the pool and of each
    member, and `members`, what each of them reports.

    References
    ----------
    Genest and Zidek (1986), DOI 10.1214/ss/1177013825: the logarithmic opinion
    pool. Eilers and Marx (1996), DOI 10.1214/ss/1038425655: a ridge on
    differences of neighbouring scores.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tanager import BayesNetClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesNetClassifier("tan", "layered").fit(X, y)
    >>> record = clf.info_["parameters"]
    >>> len(record["shares"]) == len(record["members"])
    True
    """

    def __init__(
        self,
        generative: str | CountLearner | None = "hdp",
        *,
        max_iter: int = 40,
        tol: float = 1e-3,
    ) -> None:
        self.generative = generative
        self.max_iter = max_iter
        self.tol = tol

    @one_blas_thread()
    def learn(self, structure: Structure, counts: Counts, plan: FitPlan) -> Tables:
        """Learn every member, and pool them; a parent that none reads has one group."""
        generative = self._check()
        if counts.domain.n_classes == 1:
            return MEstimate(m=1.0).learn(structure, counts, plan)
        if plan.groups is None:
            plan = plan.for_rows(counts)
        context = plan.context
        given, structure = structure, _affordable(structure, plan)
        rows, inner = self._gathered(counts.rows, context.inner())
        part = Part.of(rows, counts, structure, plan, inner)
        trial = self._trial(part, context)
        members = _worthwhile(self._members(generative, part, trial), trial)
        shares, losses = _shares(members, trial)
        record = context.record("parameters")
        record.update(shares=shares.tolist(), held_out_loss=losses)
        heard = shares > 0.0
        depths = [member.depth for member in members]
        part = part.shortened(int(np.max(depths, where=heard, initial=0)))
        tables = _pool(part, given, list(compress(members, heard)), shares[heard], context.progress)
        record["members"] = [member.record() for member in members]
        return tables

    def _check(self) -> CountLearner | None:
        """Return the generative learner; raise a ConfigurationError for what is not allowed."""
        from tanager.parameters.registry import resolve_parameters

        given = self.max_iter
        if isinstance(given, bool) or not (isinstance(given, int | np.integer) and given >= 1):
            raise ConfigurationError(
                f"Layered: max_iter={given!r}. Allowed: an integer of at least 1."
            )
        if not self.tol >= 0:
            raise ConfigurationError(f"Layered: tol={self.tol!r}. Allowed: a number of at least 0.")
        if self.generative is None:
            return None
        learner = resolve_parameters(self.generative)
        if not isinstance(learner, CountLearner):
            raise ConfigurationError(
                f"Layered: generative={self.generative!r}. Allowed: parameters that are estimated "
                "from counts alone ('hdp', 'm-estimate', 'laplace', ...), or None."
            )
        return learner

    def _settings(self) -> Settings:
        return Settings(self.max_iter, self.tol)

    def _gathered(self, rows: Rows, context: FitContext) -> tuple[Rows, FitContext]:
        """Bring the rows together on this machine where they are few: passes are then quick."""
        if rows.n_rows >= GATHERED_ROWS:
            return rows, context
        return collect_rows(rows, None, context), replace(context, engine=LocalEngine())

    def _trial(self, part: Part, context: FitContext) -> Trial | None:
        """Return the rows of each judging fold, and all that is learned from the others."""
        rows, inner = part.rows, part.context
        if rows.n_rows < LEAST_ROWS:
            return None
        n_folds = int(np.clip(rows.n_rows // FOLD_ROWS, N_FOLDS, MOST_FOLDS))
        parts, held, n_held = [], [], 0
        for fold in range(n_folds):
            inside = Fold(context.row_seed(FOLDS_KEY), n_folds, fold)
            others = replace(inside, inside=False)
            left_out = collect_rows(rows, inside, inner)
            if not 0 < left_out.n_rows < rows.n_rows:
                continue
            n_held += left_out.n_rows
            held.append(left_out)
            if rows.n_rows >= GATHERED_ROWS:
                parts.append(part.without(others))
            else:
                parts.append(part.anew(others))
            if n_held >= JUDGING_ROWS:
                break
        return Trial(parts, held)

    def _members(
        self, generative: CountLearner | None, part: Part, trial: Trial | None
    ) -> list[Member]:
        """Return members whose choices are made: deeper ones while held-out rows reward them."""
        settings = self._settings()
        members: list[Member] = []
        previous: Smooth | None = None
        for depth in range(part.structure.max_parents + 1):
            if depth > 1 and part.n_numbers(depth) > MOST_NUMBERS:
                break
            member = Smooth(depth, settings, previous)
            if trial is not None:
                member.choose(trial)
            members.append(member)
            if previous is not None and member.loss > previous.loss:
                break
            previous = member
        if generative is not None:
            table = Generative(generative)
            if trial is not None:
                table.choose(trial)
            # Worse than the classes' shares alone, it is sure of what is noise to it; even a
            # small share in the pool would then be noise.
            if trial is None or table.loss <= trial.loss(trial.log_shares):
                members.append(table)
        return members


def _affordable(structure: Structure, plan: FitPlan) -> Structure:
    """Return the structure without the last parents of tables that are too large.

    Two columns of a thousand values each would have a table of a million numbers, hardly one
    of them with a row to learn from.
    """
    limited = structure.within(plan.grouped_counts.domain, MAX_TABLE)
    if limited != structure:
        before, after = structure.parents, limited.parents
        plan.context.record("structure")["dropped"] = [
            (parent, feature)
            for feature, parents in before.items()
            for parent in parents
            if parent not in after[feature]
        ]
    return limited


def _shares(members: Sequence[Member], trial: Trial | None) -> tuple[Floats, list[float] | None]:
    """Return the shares, and the held-out loss of the pool and of each member."""
    if trial is None:
        return np.full(len(members), 1.0 / len(members)), None
    logs = np.stack([np.maximum(member.held_out, FLOOR) for member in members])
    held_out = HeldOut(logs, trial.labels, trial.weights, trial.log_shares)
    shares = fit_shares(held_out)
    return shares, [held_out.mean_loss(shares), *(member.loss for member in members)]


def _worthwhile(members: list[Member], trial: Trial | None) -> list[Member]:
    """Leave out the deepest members without which the pool loses little.

    Their tables are by far the largest: to learn, to keep and to read.
    """
    if trial is None:
        return members
    while True:
        smooth = [member for member in members if isinstance(member, Smooth)]
        if len(smooth) < 2:
            return members
        rest = [member for member in members if member is not smooth[-1]]
        (_, all_losses), (_, losses) = _shares(members, trial), _shares(rest, trial)
        assert losses is not None
        assert all_losses is not None
        if losses[0] > (1.0 + LITTLE_LOST) * all_losses[0]:
            return members
        members = rest


def _pool(
    part: Part, given: Structure, members: Sequence[Member], shares: Floats, progress: Progress
) -> Tables:
    """Return the geometric mean of members, as a network where the structure allows it.

    Parents of the structure given that the part's structure lacks have one group.
    """
    structure, n_classes = part.structure, part.rows.domain.n_classes
    wanted, log_prior = _input_shares(part), np.zeros(n_classes)
    values = [np.zeros((len(part.groups[one]), n_classes)) for one in structure.selected]
    logs = [np.zeros((*shares.shape, n_classes)) for shares in wanted]
    progress.start("pool", total=float(len(members)), unit="members")
    # One member after the other: the tables of all at a time would be many.
    for share, member in zip(shares, members, strict=True):
        found = member.scores(part)
        log_prior += share * found.class_node
        for log, scores in zip(values, found.values, strict=True):
            log += share * scores
        for log, scores in zip(logs, found.groups, strict=True):
            log += share * under_parents(scores, log.ndim - 2)
        progress.advance()
    progress.finish()
    inside = [
        _within(scores, part.groups[feature], part.value_weights[feature])
        for feature, scores in zip(structure.selected, values, strict=True)
    ]
    for log, inputs, (_, totals) in zip(logs, wanted, inside, strict=True):
        log += totals
        # What a cell gives to all classes alike cancels in P(y | x).
        log -= log.mean(axis=-1, keepdims=True)
        log += _log_conditional(inputs)
    log_prior += _offsets(part, logs, [within for within, _ in inside], log_prior)
    normalized = structure.is_moral()
    if normalized:
        known = structure, logs, log_prior, wanted
        logs, log_prior = fit_inputs(*known, max_work=INPUT_WORK, tol=INPUT_TOL)
    families = tuple(
        _under(part, at, given.parent_indices[at], log, within)
        for at, (log, (within, _)) in enumerate(zip(logs, inside, strict=True))
    )
    return Tables(log_prior, families, normalized=normalized)


def _offsets(
    part: Part, logs: Sequence[Floats], inside: Sequence[Floats], log_prior: Floats
) -> Floats:
    """Return the class offsets of the pool, fitted to the training rows."""
    parents = part.structure.parent_indices
    families = tuple(
        _under(part, at, parents[at], log, within)
        for at, (log, within) in enumerate(zip(logs, inside, strict=True))
    )
    scores = Tables(log_prior, families, normalized=False)
    asked = partial(scores.log_joint, part.structure, arities=part.rows.domain.arities)
    return fit_offsets(part.rows, asked, part.class_counts, part.context)


def _under(part: Part, at: int, parents: Sequence[int], log: Floats, within: Floats) -> FamilyTable:
    """Return the table of a family under more parents, of which those not read have one group."""
    held, feature = part.structure.parent_indices[at], part.structure.selected[at]
    groups = [
        part.groups[one] if one in held else np.zeros_like(part.groups[one]) for one in parents
    ]
    unread = [axis for axis, one in enumerate(parents) if one not in held]
    spelled = np.ascontiguousarray(np.expand_dims(log, tuple(unread)))
    return GroupedTable.of_groups(spelled, within, [*groups, part.groups[feature]])


def _within(scores: Floats, groups: Groups, weights: Floats) -> tuple[Floats, Floats]:
    """Divide a feature's scores (arity, n_classes) into those in its groups, and the groups'.

    Returns
    -------
    within : ndarray of float64, shape (arity, n_classes)
        log P(x | its group, y), if the values of a group have their share of the weight.
    totals : ndarray of float64, shape (n_groups, n_classes)
        With `within`, the scores again, but for what all classes have alike.
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


def _input_shares(part: Part) -> list[Floats]:
    """Return each family's P(parents, x) of groups, whatever the class: frequencies, smoothed.

    Where the structure has no immoralities they are those of a network, so
    that they agree where families overlap.
    """
    structure, n_features = part.structure, part.rows.domain.n_features
    pairs = zip(structure.selected, structure.parent_indices, strict=True)
    families = [tuple(n_features + i for i in (*parents, one)) for one, parents in pairs]
    tables = [(family, (at,)) for at, family in enumerate(families)]
    logs, joints = [], []
    for weighed in weigh_joints(tables, part.columns, part.rows, part.context):
        joint = weighed[tuple(slice(size - 1) for size in weighed.shape)]
        n_groups = joint.shape[-1]
        # One row's weight, shared as the feature's groups are.
        own = joint.reshape(-1, n_groups).sum(axis=0) + 1.0 / n_groups
        smoothed = joint + own / own.sum()
        logs.append(_log_conditional(smoothed))
        joints.append(smoothed / smoothed.sum())
    if not structure.is_moral():
        return joints
    return [share[..., 0] for share in family_shares(structure, logs, np.zeros(1))]
