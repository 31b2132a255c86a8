"""From coded rows to a network: how a fit is run, and the counts it keeps for more rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tanager.classifiers.checkpoints import FitCheckpoint, learn_structure
from tanager.classifiers.gaps import (
    MOST_DRAWS,
    add_expected,
    complete_rows,
    expect_and_maximise,
)
from tanager.classifiers.priors import (
    check_class_weight,
    class_shares,
    network_prior,
    read_prior,
    read_signs,
    reads_prior_counts,
    set_class_shares,
    weigh_classes,
    with_prior_arcs,
    with_prior_rows,
)
from tanager.codes import Codebook, Rows
from tanager.codes.hashing import Fold, fingerprint_rows
from tanager.codes.targets import class_factors
from tanager.counts import Counts, FamilyCounts, PriorCounts, Trees, fingerprint_counts
from tanager.engines import Engine, FitContext, resolve_engine
from tanager.engines.keeping import read_memory_limit
from tanager.errors import ConfigurationError
from tanager.network import Network
from tanager.network.reference import measure_reference
from tanager.network.uncertainty import Calibration
from tanager.numerics import Floats
from tanager.options import identify_option
from tanager.parameters import HDP, CountLearner, GroupedLearner, ParameterLearner, Tables
from tanager.parameters.registry import resolve_pair, resolve_parameters
from tanager.parameters.tables import HeldOutRows, drop_unread, log_posterior
from tanager.progress import LongWork, Progress, RichProgress
from tanager.structure import Constraints, FitPlan, Fixed, SelectiveKDB, Structure
from tanager.structure.constraints import Limits

# How a fit is run is no property of its model: equal models have equal files,
# byte for byte, whatever engine and however many threads learned them.
RUN_PARAMETERS = ("engine", "n_jobs", "memory_limit", "checkpoint", "verbose")
TRIAL_ROWS = 20, 100_000  # from and up to so many rows tables of counts are tried on half of them
TRIAL_SEED = 0xD21F
RESAMPLING = 0xB007  # names the random streams of the rounds


def open_context(
    engine: str | Engine,
    n_jobs: int | None,
    memory_limit: str | int | None,
    random_state: Any,
    progress: Progress,
) -> FitContext:
    """Return what every learner is given besides its data, from the estimator's parameters."""
    if random_state is None or (isinstance(random_state, int | np.integer) and random_state >= 0):
        seed = np.random.SeedSequence(0 if random_state is None else int(random_state))
    else:
        from sklearn.utils.validation import check_random_state

        try:
            generator = check_random_state(random_state)
        except ValueError as error:
            raise ConfigurationError(
                f"random_state={random_state!r}. Allowed: a whole number from 0, a "
                "numpy.random.RandomState, or None for a fixed seed.",
                parameter="random_state",
            ) from error
        seed = np.random.SeedSequence(generator.randint(2**31))
    limit = read_memory_limit(memory_limit)
    return FitContext(resolve_engine(engine, n_jobs), seed, progress, memory_limit=limit)


def open_progress(verbose: int) -> AbstractContextManager[Progress]:
    """Return progress bars, or what speaks of long work alone."""
    if not isinstance(verbose, int | np.integer | np.bool_):
        raise ConfigurationError(f"verbose={verbose!r}. Allowed: 0, or 1 for progress bars.")
    return RichProgress() if verbose > 0 else LongWork()


class Asked(NamedTuple):
    """A learner as it was asked for."""

    text: str
    options: Any


@dataclass(frozen=True, eq=False)
class KeptCounts:
    """A learner whose choices are made, with the counts it has seen."""

    learner: CountLearner
    classes: Floats  # (n_classes,)
    families: list[FamilyCounts]
    asked: tuple[Asked, Asked]  # the learners of structure and parameters as they were asked for

    @classmethod
    def start(
        cls,
        learner: ParameterLearner,
        structure: Structure,
        counts: Counts,
        plan: FitPlan,
        asked: tuple[Any, Any],
    ) -> KeptCounts | None:
        """Keep the counts of a fit, if its parameters come from counts alone."""
        if not isinstance(learner, CountLearner):
            return None
        classes, trees = learner.prior_counts(structure, counts, plan)
        return cls(learner, classes, list(trees.counts), _as_asked(*asked))

    def check(self, structure: Any, parameters: Any) -> None:
        """Refuse learners that are not those of the first rows."""
        now = _as_asked(structure, parameters)
        for axis, given, first in zip(("structure", "parameters"), now, self.asked, strict=True):
            if given.options != first.options:
                raise ConfigurationError(
                    f"{axis}={given.text}, but the first rows were learned with "
                    f"{axis}={first.text}. partial_fit goes on with the same learners: set it "
                    "back, or fit on all rows."
                )

    def add(
        self, rows: Rows, structure: Structure, context: FitContext, *, sum_out: bool
    ) -> KeptCounts:
        """Return the counts with more rows; with `sum_out` as the tables so far expect gaps."""
        counts = Counts(rows, context)
        if sum_out and counts.has_gaps:
            by = self.learner if self.learner.generative else HDP()
            tables = by.from_counts(self.classes, Trees(self.families), context)
            counts = add_expected(counts, structure, tables)[0]
        added = counts.trees(structure).counts
        families = [old.plus(new) for old, new in zip(self.families, added, strict=True)]
        return replace(self, classes=self.classes + counts.classes, families=families)

    def tables(self, context: FitContext) -> Tables:
        """Estimate the tables from all counts so far."""
        return self.learner.from_counts(self.classes, Trees(self.families), context)


def _as_asked(structure: Any, parameters: Any) -> tuple[Asked, Asked]:
    one, other = resolve_pair(structure, parameters)
    return _options(one), _options(other)


def _options(learner: Any) -> Asked:
    """Return a learner as a text and as data; a function without a name stands for itself."""
    return Asked(repr(learner), identify_option(learner, "", lambda value, _: value))


class OnlyFromCounts:
    """A method that is there where the parameters come from counts, and says why where not."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, classifier: Any, kind: type) -> Any:
        if classifier is None:
            return self._method
        if not isinstance(resolve_parameters(classifier.parameters), CountLearner):
            raise AttributeError(
                "partial_fit needs parameters that are estimated from counts alone, not "
                f"{classifier.parameters!r}. Use 'hdp', 'm-estimate', 'friedman', "
                "'laplace', 'ml' or 'acll', or fit on all rows at once."
            )
        return MethodType(self._method, classifier)


class Learned(NamedTuple):
    """What a fit gives: the network, and the counts where `partial_fit` may add to them."""

    network: Network
    kept_counts: KeptCounts | None


def learn_network(
    codebook: Codebook,
    rows: Rows,
    options: Mapping[str, Any],
    checkpoint: str | os.PathLike[str] | None,
    context: FitContext,
) -> Learned:
    """Learn structure and tables from rows coded by the codebook, with the estimator's options."""
    class_weight = options["class_weight"]
    check_class_weight(class_weight, codebook.classes)
    learner, plan = _plan(codebook, options, context)
    counts, store = Counts(rows, context), None
    filled = _filled(counts, codebook, plan)
    if checkpoint is not None:
        data = fingerprint_rows(codebook, rows, context)
        store = FitCheckpoint(checkpoint, options, data, context)
    with context.stage("structure") as record:
        structure, plan = _learn_structure(learner, filled, codebook, plan, store)
        informed = zip(codebook.domain.names, filled.mi().tolist(), strict=True)
        record["mutual_information"] = dict(informed)
    facts = context.record("codes")
    facts["rows"] = rows.n_rows
    if not rows.weighted:  # the counts of weighted rows tell of the weights, too
        facts["fingerprint"] = fingerprint_counts(counts.classes, counts.values)
    if store is not None:
        # With counts and a plan of its own, this stage has the same passes whether the one
        # before it was run or read.
        store.begin("parameters")
        has_gaps, plan = filled is not counts, replace(plan)
        counts = Counts(rows, context)
        filled = Counts(filled.rows, context) if has_gaps else counts
    observed = counts
    with context.stage("parameters") as record:
        if plan.prior is not None and not reads_prior_counts(learner):
            more = with_prior_rows(structure, filled, plan.prior)
            counts = filled = Counts(more, context)
            plan = replace(plan, prior=None)
        learner = learner.choose(structure, filled, plan)
        if filled is not counts and isinstance(learner, CountLearner):
            tables, counts, record["em"] = expect_and_maximise(learner, structure, counts, plan)
        else:
            tables = learner.learn(structure, filled, plan)
        required = None if plan.limits is None else plan.limits.required
        structure, tables = drop_unread(structure, tables, required)
    shares = class_shares(options["class_prior"], codebook.classes, counts.classes)
    counted, before = isinstance(learner, CountLearner), tables
    tables = set_class_shares(tables, shares, counts.classes, counted=counted)
    tables = weigh_classes(tables, class_weight, codebook.classes, counts.classes)
    asked = options["structure"], options["parameters"]
    kept = KeptCounts.start(learner, structure, counts, plan, asked)
    known_network = network_prior(options["prior"])
    history = () if known_network is None else known_network.history
    held, calibration = before.held_out, None
    if held is not None and options["prior"] is None:  # whose rows may be among those held out
        moved = log_posterior(held.log_posteriors + tables.log_prior - before.log_prior)
        weights = held.weights
        if shares is not None:
            weights = weights * (shares / np.maximum(counts.classes, 1e-300))[held.labels]
        calibration = Calibration.of(moved, held.labels, weights)
        held = replace(held, log_posteriors=moved)
    tables = replace(tables, held_out=None)
    network = Network(codebook, structure, tables, history, calibration)
    if counted and TRIAL_ROWS[0] <= rows.n_rows <= TRIAL_ROWS[1]:
        # Tables of counts fit their own rows too well: what they're worth shows on other rows.
        halves = [rows.subset(Fold(TRIAL_SEED, 2, 0, inside=inside)) for inside in (True, False)]
        tried = learner.learn(structure, Counts(halves[0], context.inner()), plan.inner())
        tried, others = replace(tried, log_prior=tables.log_prior), halves[1].gather()
        found = log_posterior(replace(network, tables=tried).log_joint_of_codes(others.codes))
        ones = np.ones(others.n_rows) if others.weights is None else others.weights
        held = HeldOutRows(found, others.labels, ones)
    expected = observed.classes if shares is None else shares
    assumed = expected * class_factors(class_weight, codebook.classes, observed.classes)
    reference = measure_reference(network, rows, observed, (expected, assumed), held, context)
    learned = Learned(replace(network, reference=reference), kept)
    if store is not None:
        store.clear()
    return learned


def find_structure(
    codebook: Codebook, rows: Rows, options: Mapping[str, Any], context: FitContext
) -> Structure:
    """Learn the structure alone, as `learn_network` does first."""
    learner, plan = _plan(codebook, options, context)
    filled = _filled(Counts(rows, context), codebook, plan)
    return _learn_structure(learner, filled, codebook, plan, None)[0]


def _filled(counts: Counts, codebook: Codebook, plan: FitPlan) -> Counts:
    """Return the counts, or where unknown values are summed out those of completed rows."""
    if codebook.missing != "marginalize" or not counts.has_gaps:
        return counts
    # Copies of a row would let its own values speak for it where it is left out.
    one = isinstance(plan.structure_learner, SelectiveKDB)
    return Counts(complete_rows(counts, plan, 1 if one else MOST_DRAWS), counts.context)


def _plan(
    codebook: Codebook, options: Mapping[str, Any], context: FitContext
) -> tuple[ParameterLearner, FitPlan]:
    """Return the parameter learner, and what the fit is asked for."""
    structure_learner, learner = resolve_pair(*_asked(options))
    prior = read_prior(options["prior"], codebook)
    limits = _limits(codebook, options["constraints"], prior)
    signs = _signs(learner, codebook, options)
    return learner, FitPlan(context, structure_learner, signs, limits, prior)


def _asked(options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return structure and parameters as asked for; "auto" is the structure of a prior network."""
    structure, network = options["structure"], network_prior(options["prior"])
    if structure == "auto" and network is not None:
        structure = Fixed(dict(network.structure.parents))
    return structure, options["parameters"]


def _limits(codebook: Codebook, given: Any, prior: PriorCounts | None) -> Limits | None:
    """Return the constraints on the features by their places."""
    constraints = with_prior_arcs(given, prior, codebook.domain.names)
    if constraints is None:
        return None
    if not isinstance(constraints, Constraints):
        raise ConfigurationError(
            f"constraints={constraints!r}. Allowed: None, or tanager.Constraints(...)."
        )
    return constraints.resolve(codebook.domain.names, codebook.target.name)


def _signs(
    learner: ParameterLearner, codebook: Codebook, options: Mapping[str, Any]
) -> Mapping[int, Any]:
    """Return along which features classes rise or fall."""
    if options["monotonic"] and not isinstance(learner, GroupedLearner):
        raise ConfigurationError(
            f"monotonic has no meaning for parameters={options['parameters']!r}. Use 'layered'.",
            parameter="monotonic",
        )
    return read_signs(options["monotonic"], codebook)


def _learn_structure(
    learner: ParameterLearner,
    counts: Counts,
    codebook: Codebook,
    plan: FitPlan,
    store: FitCheckpoint | None,
) -> tuple[Structure, FitPlan]:
    """Learn the structure, without the columns that the audit leaves out; also the plan with it.

    Parameters that read parents by groups have the structure learned on those.
    """
    if isinstance(learner, GroupedLearner):
        plan = plan.for_rows(counts)
        counts = plan.grouped_counts
    structure, joint_tables = learn_structure(counts, plan, store)
    if joint_tables is not None:
        if plan.limits is not None:
            plan.limits.check_structure(structure)
        # Tables that were learned together with the structure would not fit less of it.
        return structure, replace(plan, joint_tables=joint_tables)
    names = codebook.domain.names
    left = {at for at, name in enumerate(names) if codebook.leaves_out(name)}
    rest = set(structure.selected) - left
    if 0 < len(rest) < len(structure.selected):
        structure = structure.without(left)
    if plan.limits is not None:
        plan.limits.check_structure(structure, left)
    return structure, plan


def resampled_structures(
    clf: Any, X: Any, y: Any, sample_weight: ArrayLike | str | None, rounds: int
) -> Iterator[Structure]:
    """Iterate over structures of rows drawn with replacement; see `edge_confidence`."""
    options = {k: v for k, v in clf.get_params().items() if k not in RUN_PARAMETERS}
    context = clf._context(Progress())
    codebook, rows = clf._encode(X, y, sample_weight, None, context)
    chunk = rows.gather()
    n_rows = chunk.labels.shape[0]
    chances = None if chunk.weights is None else chunk.weights / chunk.weights.sum()
    for at in range(rounds):
        drawn = context.generator(RESAMPLING, at).choice(n_rows, n_rows, p=chances)
        codes = np.ascontiguousarray(chunk.codes[:, drawn])
        some = Rows.in_memory(codebook.domain, codes, chunk.labels[drawn])
        yield find_structure(codebook, some, options, context.inner())
