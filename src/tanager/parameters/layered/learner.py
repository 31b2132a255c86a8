"""Layers of smooth scores and generative tables, pooled into one network."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from itertools import compress

import numpy as np

from tanager.codes import Rows
from tanager.codes.hashing import Fold, collect_rows
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ConfigurationError
from tanager.estimator import is_whole
from tanager.loglinear import Settings
from tanager.parameters.frequencies import MEstimate
from tanager.parameters.layered.members import Generative, Member, Smooth, Trial
from tanager.parameters.layered.part import MAX_TABLE, Part, n_read
from tanager.parameters.layered.pool import held_out_rows, judge_pool, pool_members
from tanager.parameters.learner import N_FOLDS, CountLearner, GroupedLearner
from tanager.parameters.tables import Tables
from tanager.structure import FitPlan, Structure
from tanager.threads import one_blas_thread

FOLDS_KEY = 6_202  # names the random stream of the folds
LEAST_ROWS = 2 * N_FOLDS  # below, held-out rows say nothing
JUDGING_ROWS = 2_000  # held-out rows that settle a choice among a few strengths or shares
GATHERED_ROWS = 50_000  # fewer are brought together, and each fold learns groups and structure
FOLD_ROWS = 20_000  # about as many rows are held out of very many, with few classes
FOLD_NUMBERS = 1 << 21  # with more classes: what is said of them
MOST_FOLDS = 250
LITTLE_LOST = 0.001  # of the pool's held-out loss, without its deepest member
MOST_NUMBERS = 1 << 22  # of a network with more than one parent per feature
INPUT_PARENTS = 2  # that P(x) reads where the scores need none
MOST_INPUT_NUMBERS = 1 << 20  # of a network whose edges only P(x) reads


@dataclass(eq=False, repr=False)
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
        Relative improvement of the objective at which it stops; a hundredth of
        it for a fit that is kept.

    Notes
    -----
    Held-out rows choose the strength of each layer's ridge. How the curves and tables of a layer
    compare is estimated from the fit itself, by its evidence: those that say nothing shrink.

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

    A generative model that predicts held-out rows worse than the class frequencies
    is overfitting noise, so it's left out.

    P(x) keeps two parents per feature even where the scores read fewer: columns that
    repeat one another would otherwise count as independent evidence as soon as some
    input is unknown. Where steep scores leave it less likely than its tree alone, or a wider
    tree is much likelier, it gets up to five, as far as tables stay small. It's fitted to the
    rows' P(x), smoothed as leave-one-out says, and to the class shares overall and per value. The
    posterior of a complete row doesn't depend on it.

    ``info_["parameters"]`` has `shares`, `held_out_loss` of the pool and of each
    member (the first has no edges), `members`, what each of them reports, and `found_again`:
    each edge with the share of folds that found it, too. An edge that few of them found would be
    another with another seed, at about the same loss.

    References
    ----------
    Genest and Zidek (1986), DOI 10.1214/ss/1177013825: the logarithmic opinion
    pool. MacKay (1992), DOI 10.1162/neco.1992.4.3.415: strengths by evidence.
    Eilers and Marx (1996), DOI 10.1214/ss/1038425655: a ridge on differences of
    neighbouring scores.

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

    generative: str | CountLearner | None = "hdp"
    _: KW_ONLY
    max_iter: int = 40
    tol: float = 3e-3

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
        judges = self._gathered(counts.rows.held_out or rows, inner)[0]
        trial = self._trial(part, context, judges)
        members = _worthwhile(self._members(generative, part, trial), trial)
        shares, losses = judge_pool(members, trial)
        record = context.record("parameters")
        record.update(shares=shares.tolist(), held_out_loss=losses)
        heard = shares > 0.0
        depths = [member.depth for member in members]
        part = part.shortened(_kept_parents(part, int(np.max(depths, where=heard, initial=0))))
        if trial is not None:
            record["found_again"] = _found_again(part.structure, structure, trial)
        kept = list(compress(members, heard))
        smooth = [one for one in (members[0], *kept) if isinstance(one, Smooth)][-1]
        tables = pool_members(part, given, kept, shares[heard], context.progress, smooth)
        record["members"] = [member.record() for member in members]
        return replace(tables, held_out=held_out_rows(members, shares, trial))

    def _check(self) -> CountLearner | None:
        """Return the generative learner; raise a ConfigurationError for what is not allowed."""
        from tanager.parameters.registry import resolve_parameters

        self._allow("max_iter", is_whole(self.max_iter, 1), "a whole number from 1 on")
        self._allow("tol", self.tol >= 0, "a number from 0 on")
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

    def _trial(self, part: Part, context: FitContext, judges: Rows) -> Trial | None:
        """Return the judges of each judging fold, and all that is learned from the others."""
        rows, inner = part.rows, part.context
        if rows.n_rows < LEAST_ROWS:
            return None
        few = max(FOLD_NUMBERS // rows.domain.n_classes, JUDGING_ROWS)
        n_folds = int(np.clip(rows.n_rows // min(FOLD_ROWS, few), N_FOLDS, MOST_FOLDS))
        parts, held, n_held = [], [], 0
        for fold in range(n_folds):
            inside = Fold(context.row_seed(FOLDS_KEY), n_folds, fold)
            others = replace(inside, inside=False)
            left_out = collect_rows(judges, inside, inner)
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
        return Trial(parts, held, apart=judges is not rows)

    def _members(
        self, generative: CountLearner | None, part: Part, trial: Trial | None
    ) -> list[Member]:
        """Return members whose choices are made: deeper ones while held-out rows reward them."""
        settings = self._settings()
        members: list[Member] = []
        previous: Smooth | None = None
        for depth in range(part.n_read + 1):
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
            # Worse than the class frequencies, it overfits noise: even a small share would hurt.
            if trial is None or table.loss <= trial.loss(trial.log_shares):
                members.append(table)
        return members


def _found_again(kept: Structure, whole: Structure, trial: Trial) -> list[tuple[str, str, float]]:
    """Return each edge (parent, feature) and the share of folds that found it, either way around.

    Empty where the folds learned no structure of their own.
    """
    learned = [part.structure for part in trial.parts if part.structure is not whole]
    if not learned:
        return []
    linked = [
        {frozenset((feature, p)) for feature, parents in one.parents.items() for p in parents}
        for one in (structure.shortened(kept.max_parents) for structure in learned)
    ]
    return [
        (p, feature, sum(frozenset((feature, p)) in links for links in linked) / len(linked))
        for feature, parents in kept.parents.items()
        for p in parents
    ]


def _kept_parents(part: Part, read: int) -> int:
    """Return how many parents each feature keeps: those the scores read, or more for P(x).

    Scores may need no edge where columns repeat one another, but a network without edges would
    take those columns for independent evidence as soon as something is unknown.
    """
    for depth in range(INPUT_PARENTS, read, -1):
        if part.n_numbers(depth) <= MOST_INPUT_NUMBERS:
            return depth
    return read


def _affordable(structure: Structure, plan: FitPlan) -> Structure:
    """Return the structure without the last parents of tables that are too large.

    Two columns of a thousand values each would have a table of a million numbers, hardly one
    of them with a row to learn from.
    """
    limited = structure.within(plan.grouped_counts.domain, MAX_TABLE)
    if limited != structure:
        before, after = structure.parents, limited.parents
        reads = n_read(structure, plan)
        plan.context.record("structure")["dropped"] = [
            (parent, feature)
            for feature, parents in before.items()
            for parent in parents[: reads[structure.names.index(feature)]]
            if parent not in after[feature]
        ]
    return limited


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
        (_, all_losses), (_, losses) = judge_pool(members, trial), judge_pool(rest, trial)
        assert losses is not None
        assert all_losses is not None
        if losses[0] > (1.0 + LITTLE_LOST) * all_losses[0]:
            return members
        members = rest
