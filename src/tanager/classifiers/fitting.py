"""From coded rows to a network: a fit's warnings, its stages, and its counts for `partial_fit`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tanager.classifiers import priors
from tanager.classifiers.checkpoints import FitCheckpoint
from tanager.classifiers.gaps import MOST_DRAWS, add_expected, complete_rows, expect_and_maximise
from tanager.codes import Codebook, Rows
from tanager.codes.hashing import Fold, fingerprint_rows
from tanager.codes.targets import class_factors
from tanager.counts import Counts, FamilyCounts, Trees, fingerprint_counts
from tanager.engines import FitContext, resolve_engine
from tanager.engines.keeping import read_memory_limit
from tanager.errors import ColumnWarning, ConfigurationError, invalid
from tanager.loglinear.rows import fit_offsets
from tanager.network import Network
from tanager.network.network import Calibration
from tanager.network.reference import few_rows, measure_reference
from tanager.numerics import Floats
from tanager.options import identify_option
from tanager.parameters import (
    HDP,
    PARAMETERS,
    CountLearner,
    GroupedLearner,
    ParameterLearner,
    Tables,
    resolve_pair,
)
from tanager.parameters.tables import HeldOutRows, drop_unread, log_posterior
from tanager.progress import LongWork, Progress, RichProgress
from tanager.structure import FitPlan, Fixed, SelectiveKDB, Structure
from tanager.structure.structure import JointLearner

# Not part of the model: equal models have equal files, whatever engine and threads were used.
RUN_PARAMETERS = ("engine", "n_jobs", "memory_limit", "checkpoint", "verbose")
TRIAL_ROWS = 20, 100_000  # range of rows in which tables of counts are evaluated on half of them
TRIAL_SEED = 0xD21F
RESAMPLING = 0xB007  # key of the random streams of the rounds
MOST = 8  # columns named in a warning
MANY_CLASSES = 20  # or more: the target may be an identifier
IN_PYTHON = (
    "To take a column as categories, name it in categorical_features; to take all as they are, "
    "pass audit=False. All findings are in info_['codes']['audit']."
)


def model_options(clf: Any) -> dict[str, Any]:
    """Return the parameters that an estimator's model depends on, including those of learners."""
    return {k: v for k, v in clf.get_params().items() if k not in RUN_PARAMETERS}


def open_context(clf: Any, progress: Progress) -> FitContext:
    """Return the context that every learner gets with its data, from an estimator's parameters."""
    state = clf.random_state
    if isinstance(state, np.random.RandomState):
        state = state.randint(2**31)
    if not isinstance(state, int | np.integer | None) or (state or 0) < 0:
        allowed = "a whole number from 0 on, a numpy.random.RandomState, or None for a fixed seed"
        raise invalid("random_state", state, allowed)
    seed = np.random.SeedSequence(int(state or 0))
    engine, limit = resolve_engine(clf.engine, clf.n_jobs), read_memory_limit(clf.memory_limit)
    return FitContext(engine, seed, progress, memory_limit=limit)


def open_progress(verbose: int) -> AbstractContextManager[Progress]:
    """Return progress bars, or only a notice if work is slow."""
    if not isinstance(verbose, int | np.integer | np.bool_):
        raise invalid("verbose", verbose, "0, or 1 for progress bars")
    return RichProgress() if verbose > 0 else LongWork()


def tell_findings(findings: Iterable[Mapping[str, Any]], remedy: str = IN_PYTHON) -> str:
    """Return a sentence about columns that aren't read as they're stored, and a remedy, or ""."""
    acted = [f for f in findings if f["action"] != "none"]
    if not acted:
        return ""
    shown = "; ".join(f"{f['column']!r} {f['action']} ({f['reason']})" for f in acted[:MOST])
    more = f"; and {len(acted) - MOST} more" if len(acted) > MOST else ""
    return f"Some columns are read differently from how they are stored: {shown}{more}. {remedy}"


def warn_of_columns(
    codebook: Codebook, record: Mapping[str, Any], n_rows: int, X: Any, y: Any
) -> None:
    """Warn about columns that aren't read as stored, a suspicious target, and the target in X."""
    findings, level = record.get("audit", ()), _caller_level()
    text, n_classes = tell_findings(findings), len(codebook.classes)
    told: list[str | ColumnWarning] = [ColumnWarning(text, findings)] if text else []
    answer = _target_among(X, y)
    if answer is not None:
        told.append(
            f"Column {answer!r} of the table is the target itself, so the model reads the answer "
            f"there and any score is too good. Drop it from X, or pass its name as y: {answer!r}."
        )
    if n_classes > MANY_CLASSES and n_classes > n_rows / 2:
        told.append(
            f"The target {codebook.target.name!r} has {n_classes:,} classes in {n_rows:,} rows: it "
            "looks like an identifier, from which little can be learned. Check the target."
        )
    if n_classes == 1:
        told.append(
            f"The target has one class only, {str(codebook.classes[0])!r}, which the model will "
            "predict for every row. Check the target, or add rows of other classes."
        )
    for message in told:
        warnings.warn(message, ColumnWarning, stacklevel=level)


def _target_among(X: Any, y: Any) -> str | None:
    """Return the name of X's column that equals the series `y` of the same name, else None."""
    name = getattr(y, "name", None)
    lazy = hasattr(X, "compute")  # comparing would compute a Dask DataFrame
    if lazy or not isinstance(name, str) or name not in getattr(X, "columns", ()):
        return None
    column = X[name]
    return name if type(column) is type(y) and column.equals(y) else None


def _caller_level() -> int:
    """Return the stack level of the user's code, above this package and scikit-learn."""
    frame, level = sys._getframe(1).f_back, 2
    inner = "tanager", "sklearn", "contextlib"
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inner:
        frame, level = frame.f_back, level + 1
    return level


@dataclass(frozen=True, eq=False)
class KeptCounts:
    """The counts of all rows so far, and the learner that estimates tables from them."""

    learner: CountLearner  # with its choices made
    classes: Floats  # (n_classes,); including the prior's, as in the families
    families: list[FamilyCounts]
    sums: Floats  # (n_classes,); of the rows only
    asked: dict[str, tuple[str, Any]]  # the learners of the first fit, as text and as data

    def check(self, structure: Any, parameters: Any) -> None:
        """Reject learners other than those of the first fit."""
        for axis, (text, data) in _identify(structure, parameters).items():
            if data != self.asked[axis][1]:
                raise ConfigurationError(
                    f"{axis}={text}, but the first rows were learned with "
                    f"{axis}={self.asked[axis][0]}. partial_fit can't change learners: set it "
                    "back, or call fit on all rows."
                )

    def add(
        self, rows: Rows, structure: Structure, context: FitContext, *, sum_out: bool
    ) -> KeptCounts:
        """Return the counts with more rows; with `sum_out`, unknown values get expected counts."""
        counts = Counts(rows, context)
        if sum_out and counts.has_gaps:
            by = self.learner if self.learner.generative else HDP()
            tables = by.from_counts(self.classes, Trees(self.families), context)
            counts = add_expected(counts, structure, tables)[0]
        added = counts.trees(structure).counts
        families = [old.plus(new) for old, new in zip(self.families, added, strict=True)]
        classes, sums = self.classes + counts.classes, self.sums + counts.classes
        return replace(self, classes=classes, families=families, sums=sums)


def _identify(structure: Any, parameters: Any) -> dict[str, tuple[str, Any]]:
    """Return both learners as text and as data; an unnamed function identifies itself."""
    learners = zip(("structure", "parameters"), resolve_pair(structure, parameters), strict=True)
    return {axis: (repr(one), identify_option(one, "", lambda v, _: v)) for axis, one in learners}


class OnlyFromCounts:
    """A method that only exists if the parameters are estimated from counts."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, classifier: Any, kind: type) -> Any:
        if classifier is None:
            return self._method
        if not isinstance(PARAMETERS.resolve(classifier.parameters), CountLearner):
            raise AttributeError(
                "partial_fit needs parameters that are estimated from counts alone, not "
                f"{classifier.parameters!r}. Use 'hdp', 'm-estimate', 'friedman', "
                "'laplace', 'ml' or 'acll', or fit on all rows at once."
            )
        return MethodType(self._method, classifier)


class FitRun:
    """One fit: structure, tables and network of coded rows, with the estimator's options."""

    def __init__(
        self,
        codebook: Codebook,
        rows: Rows,
        options: Mapping[str, Any],
        context: FitContext,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        priors.check_class_weight(options["class_weight"], codebook.classes)
        self.codebook, self.rows, self.options, self.context = codebook, rows, options, context
        self.learner, self.plan = _plan(codebook, options, context)
        self.counts = self.filled = Counts(rows, context)
        if codebook.missing == "marginalize" and self.counts.has_gaps:
            # When rows are left out one at a time, a row's copies would leak it.
            alone = isinstance(self.plan.structure_learner, SelectiveKDB)
            completed = complete_rows(self.counts, self.plan, 1 if alone else MOST_DRAWS)
            self.filled = Counts(completed, context)
        self.store: FitCheckpoint | None = None
        if checkpoint is not None:
            data = fingerprint_rows(codebook, rows, context)
            self.store = FitCheckpoint(checkpoint, options, data, context)

    def learn_structure(self) -> Structure:
        """Learn the structure, or read it from a checkpoint."""
        with self.context.stage("structure") as record:
            structure = self._structure()
            information = self.filled.mi().tolist()
            record["mutual_information"] = dict(zip(structure.names, information, strict=True))
        facts = self.context.record("codes")
        facts["rows"] = self.rows.n_rows
        if not self.rows.weighted:  # counts of weighted rows would reveal the weights
            facts["fingerprint"] = fingerprint_counts(self.counts.classes, self.counts.values)
        return structure

    def _structure(self) -> Structure:
        """Learn on groups if the parameters use them, without columns that the audit leaves out."""
        counts, learner, store = self.filled, self.plan.structure_learner, self.store
        if isinstance(self.learner, GroupedLearner):
            self.plan = self.plan.for_rows(counts)
            counts = self.plan.grouped_counts
        plan, names = self.plan, self.codebook.domain.names
        left = {at for at, name in enumerate(names) if self.codebook.leaves_out(name)}
        found = None if store is None else store.structure()
        if store is not None and found is None:
            store.journal.begin("structure")
        if found is not None:
            structure = found[0]
            self.context.record("structure").update(found[1])
        elif isinstance(learner, JointLearner):
            # Tables learned jointly belong to the full structure and aren't in the checkpoint.
            structure, tables = learner.learn_jointly(counts, plan)
            self.plan, left = replace(plan, joint_tables=tables), set()
        else:
            assert learner is not None
            structure = learner.learn(counts, plan)
            if store is not None:
                store.keep_structure(structure, self.context.record("structure"))
        if 0 < len(set(structure.selected) - left) < len(structure.selected):
            structure = structure.without(left)
        if plan.limits is not None:
            plan.limits.check_structure(structure, left)
        return structure

    def learn_tables(self, structure: Structure) -> tuple[Structure, Tables]:
        """Learn the tables; also return the structure without the parents that no table uses."""
        if self.store is not None:
            # With fresh counts and a fresh plan, the passes of this stage are the same whether
            # the structure was learned or read.
            self.store.journal.begin("parameters")
            had_gaps, self.plan = self.filled is not self.counts, replace(self.plan)
            self.counts = Counts(self.rows, self.context)
            self.filled = Counts(self.filled.rows, self.context) if had_gaps else self.counts
        self.observed, plan = self.counts, self.plan
        with self.context.stage("parameters") as record:
            if plan.prior is not None and not self.learner.reads_prior_counts:
                more = priors.with_prior_rows(structure, self.filled, plan.prior)
                self.counts = self.filled = Counts(more, self.context)
                self.plan = plan = replace(plan, prior=None)
            self.learner = learner = self.learner.choose(structure, self.filled, plan)
            if self.filled is not self.counts and isinstance(learner, CountLearner):
                learned = expect_and_maximise(learner, structure, self.counts, plan)
                tables, self.counts, record["em"] = learned
            else:
                tables = learner.learn(structure, self.filled, plan)
            required = None if plan.limits is None else plan.limits.required
            return drop_unread(structure, tables, required)

    def make_network(
        self, structure: Structure, tables: Tables
    ) -> tuple[Network, KeptCounts | None]:
        """Return the network, and the counts if `partial_fit` may add to them."""
        learner, options, classes = self.learner, self.options, self.codebook.classes
        sums, seen, before = self.counts.classes, self.observed.classes, tables
        shares = priors.class_shares(options["class_prior"], classes, sums)
        asked = shares, options["class_weight"], classes, sums
        counted = isinstance(learner, CountLearner)
        if self.filled is not self.counts and not counted:
            # A network trained on completed rows predicts a rare class of the original rows
            # too often or too rarely.
            said = Network(self.codebook, structure, tables).log_joint_of_codes
            log_prior = tables.log_prior + fit_offsets(self.rows, said, sums, self.context)
            tables = replace(tables, log_prior=log_prior - np.logaddexp.reduce(log_prior))
        tables = priors.set_class_prior(tables, *asked, counted=counted)
        prior_network = priors.network_prior(options["prior"])
        history = () if prior_network is None else prior_network.history
        held, calibration = before.held_out, None
        if held is not None and options["prior"] is None:  # prior rows may be held out
            moved = log_posterior(held.log_posteriors + tables.log_prior - before.log_prior)
            rates = np.ones(len(sums)) if shares is None else shares / np.maximum(sums, 1e-300)
            calibration = Calibration.of(moved, held.labels, held.weights * rates[held.labels])
            held = replace(held, log_posteriors=moved)
        tables = replace(tables, held_out=None)
        network, kept = Network(self.codebook, structure, tables, history, calibration), None
        if isinstance(learner, CountLearner):
            totals, trees = learner.prior_counts(structure, self.counts, self.plan)
            learners = _identify(options["structure"], options["parameters"])
            kept = KeptCounts(learner, totals, list(trees.counts), sums, learners)
            if TRIAL_ROWS[0] <= self.rows.n_rows <= TRIAL_ROWS[1]:
                held = self._try_on_half(network)
        expected = seen if shares is None else shares
        assumed = expected * class_factors(options["class_weight"], classes, seen)
        given = self.rows, self.observed, (expected, assumed), held, self.context
        return replace(network, reference=measure_reference(network, *given)), kept

    def _try_on_half(self, network: Network) -> HeldOutRows:
        """Learn tables from half of the rows, and evaluate them on the other half.

        Tables of counts fit their own rows too well to be evaluated on them.
        """
        halves = [self.rows.subset(Fold(TRIAL_SEED, 2, 0, inside=one)) for one in (True, False)]
        counts, others = Counts(halves[0], self.context.inner()), halves[1].gather()
        tables = self.learner.learn(network.structure, counts, self.plan.inner())
        tables = replace(tables, log_prior=network.tables.log_prior)
        few = few_rows(len(tables.log_prior))
        joint = replace(network, tables=tables).log_joint_of_codes(others.codes[:, few])
        return HeldOutRows(log_posterior(joint), others.labels[few], others.row_weights[few])


def _plan(
    codebook: Codebook, options: Mapping[str, Any], context: FitContext
) -> tuple[ParameterLearner, FitPlan]:
    """Return the parameter learner, and what it is asked for."""
    structure, network = options["structure"], priors.network_prior(options["prior"])
    if structure == "auto" and network is not None:
        structure = Fixed(dict(network.structure.parents))
    structure_learner, learner = resolve_pair(structure, options["parameters"])
    prior, limits = priors.read_prior(options["prior"], codebook), None
    constraints = priors.with_prior_arcs(options["constraints"], prior, codebook.domain.names)
    if constraints is not None:
        limits = constraints.resolve(codebook.domain.names, codebook.target.name)
    if options["monotonic"] and not isinstance(learner, GroupedLearner):
        raise ConfigurationError(
            f"monotonic has no meaning for parameters={options['parameters']!r}. Use 'layered'.",
            parameter="monotonic",
        )
    signs = priors.read_signs(options["monotonic"], codebook)
    numbers = tuple(column.middles for column in codebook.columns)
    return learner, FitPlan(context, structure_learner, signs, limits, prior, numbers=numbers)


def resampled_structures(
    clf: Any, X: Any, y: Any, sample_weight: ArrayLike | str | None, rounds: int
) -> Iterator[Structure]:
    """Iterate over structures of bootstrap samples of the rows; see `edge_confidence`."""
    options, context = model_options(clf), open_context(clf, Progress())
    codebook, rows = clf._encode(X, y, sample_weight, None, context)
    chunk, n_rows = rows.gather(), rows.n_rows
    chances = None if chunk.weights is None else chunk.weights / chunk.weights.sum()
    for at in range(rounds):
        drawn = context.generator(RESAMPLING, at).choice(n_rows, n_rows, p=chances)
        codes = np.ascontiguousarray(chunk.codes[:, drawn])
        some = Rows.in_memory(codebook.domain, codes, chunk.labels[drawn])
        yield FitRun(codebook, some, options, context.inner()).learn_structure()
