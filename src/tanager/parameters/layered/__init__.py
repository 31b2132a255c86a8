"""Layers of smooth scores and generative tables, pooled into one network."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from itertools import compress

import numpy as np

from tanager.codes import Rows
from tanager.codes.hashing import Fold, collect_rows
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.loglinear.fits import Settings
from tanager.numerics import Floats, one_blas_thread
from tanager.parameters import N_FOLDS, PARAMETERS, CountLearner, GroupedLearner
from tanager.parameters.layered.boosted import LEAST_WIDTH, MOST_WORK, Boosted
from tanager.parameters.layered.members import (
    Generative,
    Member,
    Smooth,
    Trial,
    held_out_rows,
    judge_pool,
)
from tanager.parameters.layered.part import MAX_TABLE, Part, n_read
from tanager.parameters.layered.pool import pool_members
from tanager.parameters.tables import Tables
from tanager.structure import FitPlan, Structure

FOLDS_KEY = 6_202  # key of the folds' random stream
LEAST_ROWS = 2 * N_FOLDS  # with fewer, held-out rows are uninformative
JUDGING_ROWS = 2_000  # held-out rows that suffice to choose among a few strengths or shares
GATHERED_ROWS = 50_000  # fewer are gathered in memory, and each fold learns groups and structure
FOLD_ROWS = 20_000  # about how many rows of a large table are held out, with few classes
FOLD_NUMBERS = 1 << 21  # with more classes: rows times classes
MOST_FOLDS = 250
LITTLE_LOST = 0.001  # acceptable relative loss from dropping the pool's deepest member
MOST_NUMBERS = 1 << 22  # in a network with more than one parent per feature
STRAIGHT_GAIN = 0.01  # relative gain of curves alone that justifies straight lines
TREES_GAIN = 0.01  # of the pool that justifies boosted trees
INPUT_PARENTS = 2  # used by P(x) even if the scores need none
MOST_INPUT_NUMBERS = 1 << 20  # in a network whose edges are used only by P(x)


@dataclass(eq=False, repr=False)
class Layered(GroupedLearner):
    r"""One network from layers of smooth scores: each feature alone, with one parent, with more.

    The score of a class is a sum over features. A feature contributes a smooth curve over its
    values and, layer by layer, tables of its groups given its first, first two, ... parents. The
    models of every depth, and generative tables, are pooled by the geometric mean of posteriors,

    .. math:: P(y \mid x) \propto e^{b_y} \prod_m P_m(y \mid x)^{a_m}

    with shares fitted on held-out rows, and class offsets b that make the predicted class
    frequencies on the training rows match the actual ones. Choose it if probabilities
    matter most: numeric features keep their resolution, and the depth is chosen from the data.

    Parameters
    ----------
    generative : str, CountLearner or None
        The generative tables in the pool, with one parent; None for none.
    max_iter : int
        Maximum iterations of the optimiser for a fit that is only scored on held-out rows;
        twice as many for a final fit.
    tol : float
        Relative improvement of the objective at which it stops; for a final fit a tenth of it,
        with fewer than 1,000 rows a hundredth.

    Notes
    -----
    The strength of each layer's ridge is chosen on held-out rows. Relative strengths within a layer
    are estimated from the fit itself, by its evidence: uninformative curves and tables shrink. A
    generative model that predicts held-out rows worse than the class frequencies is overfitting
    noise, so it's left out.

    A feature is fine as a child and coarse as a parent: adjacent ordered values are grouped
    according to their classes (`tanager.codes.groups.learn_groups`). A pool of log-linear models on
    one structure is a log-linear model on it, so the result is one set of tables and, if the
    structure has no immoralities, a proper network, with marginals, explanations and exports.

    Folds are honest: cut points (``bins="fine"``) never use the class; groups, structure, scores
    and tables are learned for each fold from the rows outside it. From 50,000 rows on, all folds
    share the groups and structure of all rows, since a single fold hardly affects them; fewer are
    gathered in memory and processed on one thread, whatever the engine. A structure that is given,
    not learned, is the same in all folds.

    P(x) keeps two parents per feature even if the scores use fewer: redundant
    columns would otherwise count as independent evidence as soon as some
    input is unknown. If steep scores make the rows less likely than the tree alone does, or a
    wider tree makes them much likelier, it gets up to five, as long as tables stay small. It's
    fitted to the rows' P(x), with smoothing chosen by leave-one-out, and to the class shares
    overall and per value. The posterior of a complete row doesn't depend on it.

    Curves of up to 64 bins may also follow a straight line along the number if that lowers the
    held-out loss of curves alone by 1 %.

    From 1,000 to 50,000 rows the pool may include boosted trees whose branches only split a
    feature and its parents, if they lower its held-out loss by 1 %.

    ``info_["parameters"]`` has `shares`, `straight`, `held_out_loss` of the pool and of each
    member (the first has no edges), `members`, with each one's diagnostics, and `found_again`:
    each edge with the share of folds that also found it. An edge found by few of them would be
    different with another seed, at about the same loss.

    References
    ----------
    Genest and Zidek (1986), DOI 10.1214/ss/1177013825: the logarithmic opinion pool. MacKay (1992),
    DOI 10.1162/neco.1992.4.3.415: strengths by evidence. Eilers and Marx (1996), DOI
    10.1214/ss/1038425655: a ridge on differences of adjacent scores.

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
        """Learn every member, and pool them; a parent that none of them uses has one group."""
        generative = self._check()
        if counts.domain.n_classes == 1:
            return PARAMETERS.resolve("m-estimate(m=1)").learn(structure, counts, plan)
        if plan.groups is None:
            plan = plan.for_rows(counts)
        context = plan.context
        given, structure = structure, _affordable(structure, plan)
        rows, inner = self._gathered(counts.rows, context.inner())
        part = Part.of(rows, counts, structure, plan, inner)
        trial = self._trial(part, context, self._gathered(counts.rows.held_out or rows, inner)[0])
        part, trial, first = self._straightened(part, trial)
        members, shares, losses = _worthwhile(self._members(generative, part, trial, first), trial)
        record = context.record("parameters")
        record.update(shares=shares.tolist(), held_out_loss=losses, straight=bool(part.lines))
        heard, depths = shares > 0.0, [member.depth for member in members]
        part = part.shortened(_kept_parents(part, int(np.max(depths, where=heard, initial=0))))
        if trial is not None:
            record["found_again"] = _found_again(part.structure, structure, trial)
        held_out = held_out_rows(members, shares, trial)
        del trial
        kept = list(compress(members, heard))
        smooth = [one for one in (members[0], *kept) if isinstance(one, Smooth)][-1]
        tables = pool_members(part, given, kept, shares[heard], context.progress, smooth)
        record["members"] = [member.record() for member in members]
        return replace(tables, held_out=held_out)

    def _check(self) -> CountLearner | None:
        """Return the generative learner; raise a ConfigurationError for invalid options."""
        self._allow_whole("max_iter", least=1)
        self._allow_numbers("tol", zero=True)
        if self.generative is None:
            return None
        learner = PARAMETERS.resolve(self.generative)
        known = "parameters estimated from counts alone ('hdp', 'm-estimate', 'laplace', ...)"
        self._allow("generative", isinstance(learner, CountLearner), f"{known}, or None")
        assert isinstance(learner, CountLearner)
        return learner

    def _settings(self) -> Settings:
        return Settings(self.max_iter, self.tol)

    def _gathered(self, rows: Rows, context: FitContext) -> tuple[Rows, FitContext]:
        """Gather the rows on this machine if they are few, so that passes are quick."""
        if rows.n_rows >= GATHERED_ROWS:
            return rows, context
        return collect_rows(rows, None, context), replace(context, engine=LocalEngine())

    def _trial(self, part: Part, context: FitContext, judges: Rows) -> Trial | None:
        """Return each judging fold's held-out rows, and everything learned from the other folds."""
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
            large = rows.n_rows >= GATHERED_ROWS
            parts.append(replace(part, fold=others) if large else part.anew(others))
            if n_held >= JUDGING_ROWS:
                break
        return Trial.of(parts, held, apart=judges is not rows)

    def _straightened(self, part: Part, trial: Trial | None) -> tuple[Part, Trial | None, Smooth]:
        """Let held-out rows choose whether curves may follow straight lines; fit curves alone."""
        first = Smooth(0, self._settings())
        if trial is None:
            return part, trial, first
        first.choose(trial)
        if lines := part.find_lines():
            straight, other = part.with_lines(lines), Smooth(0, self._settings())
            other.place = first.place
            lined = replace(trial, parts=[one.with_lines(lines, straight) for one in trial.parts])
            other.choose(lined)
            if other.loss < (1.0 - STRAIGHT_GAIN) * first.loss:
                return straight, lined, other
        return part, trial, first

    def _members(
        self, generative: CountLearner | None, part: Part, trial: Trial | None, first: Smooth
    ) -> list[Member]:
        """Return members with all choices made: deeper ones while the held-out loss improves."""
        settings = self._settings()
        members: list[Member] = [first]
        previous = first
        for depth in range(1, part.n_read + 1):
            if depth > 1 and part.n_numbers(depth) > MOST_NUMBERS:
                break
            member = Smooth(depth, settings, previous)
            if trial is not None:
                member.choose(trial)
            members.append(member)
            if member.loss > previous.loss:
                break
            previous = member
        if trial is not None and (trees := self._boosted(part, trial)):
            members.append(trees)
        if generative is not None:
            table = Generative(generative)
            if trial is not None:
                table.choose(trial)
            # Worse than the class frequencies, it overfits noise: even a small share would hurt.
            if trial is None or table.loss <= trial.loss(trial.log_shares):
                members.append(table)
        return members

    def _boosted(self, part: Part, trial: Trial) -> Boosted | None:
        """Return boosted trees, or None if the rows are too few or too many."""
        domain, n_rows = part.rows.domain, part.rows.n_rows
        work = n_rows * max(domain.n_features, LEAST_WIDTH) * domain.n_classes
        if not part.has_many_rows or n_rows >= GATHERED_ROWS or work > MOST_WORK:
            return None
        depths = range(part.n_read, 1, -1)
        member = Boosted(next((one for one in depths if part.n_numbers(one) <= MOST_NUMBERS), 1))
        member.choose(trial)
        return member


def _found_again(kept: Structure, whole: Structure, trial: Trial) -> list[tuple[str, str, float]]:
    """Return each edge (parent, feature) and the share of folds that found it, in either direction.

    Empty if the folds didn't learn their own structures.
    """

    def edges(structure: Structure) -> list[tuple[str, str]]:
        return [(p, feature) for feature, parents in structure.parents.items() for p in parents]

    learned = [part.structure for part in trial.parts if part.structure is not whole]
    linked = [set(map(frozenset, edges(one.shortened(kept.max_parents)))) for one in learned]
    share = {edge: sum(frozenset(edge) in links for links in linked) for edge in edges(kept)}
    return [(*edge, found / len(linked)) for edge, found in share.items()] if linked else []


def _kept_parents(part: Part, read: int) -> int:
    """Return how many parents each feature keeps: those used by the scores, or more for P(x).

    Scores may need no edges between redundant columns, but a network without edges would
    treat those columns as independent evidence as soon as something is unknown.
    """
    depths = range(INPUT_PARENTS, read, -1)
    return next((one for one in depths if part.n_numbers(one) <= MOST_INPUT_NUMBERS), read)


def _affordable(structure: Structure, plan: FitPlan) -> Structure:
    """Return the structure without the last parents of tables that are too large.

    Two columns of a thousand values each would have a table of a million numbers, hardly any
    with a row to learn from.
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


def _worthwhile(
    members: list[Member], trial: Trial | None
) -> tuple[list[Member], Floats, list[float] | None]:
    """Leave out trees and the deepest members if the pool hardly needs them; also return the rest.

    Their tables are by far the largest: to learn, to store and to read.
    """
    shares, losses = judge_pool(members, trial)
    smooth = [member for member in members if isinstance(member, Smooth)]
    trees = [member for member in members if isinstance(member, Boosted)]
    asked = [(one, TREES_GAIN) for one in trees] + [(one, LITTLE_LOST) for one in smooth[:0:-1]]
    for one, least in asked:
        rest = [member for member in members if member is not one]
        other_shares, other_losses = judge_pool(rest, trial)
        if losses and other_losses and other_losses[0] <= (1.0 + least) * losses[0]:
            members, shares, losses = rest, other_shares, other_losses
        elif one not in trees:
            break
    return members, shares, losses
