"""How a fit goes: from coded rows to a structure, and on to its tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tanager.classifiers.checkpoints import FitCheckpoint, learn_structure
from tanager.classifiers.class_weights import check_class_weight, weigh_classes
from tanager.classifiers.kept_counts import KeptCounts
from tanager.classifiers.monotone import read_signs
from tanager.classifiers.priors import (
    class_shares,
    network_prior,
    read_prior,
    reads_prior_counts,
    set_class_shares,
    with_prior_arcs,
    with_prior_rows,
)
from tanager.codes import Codebook, Rows
from tanager.codes.hashing import fingerprint_rows
from tanager.counts import Counts, PriorCounts, fingerprint_counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.network import Network
from tanager.parameters import CountLearner, GroupedLearner, ParameterLearner
from tanager.parameters.registry import resolve_pair
from tanager.parameters.tables import drop_unread
from tanager.structure import Constraints, FitPlan, Fixed, Structure
from tanager.structure.limits import Limits


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
    """Learn structure and tables.

    rows: the training rows, coded by it.
    options: the estimator's parameters that change the model.
    checkpoint: the folder of a fit that may be killed.
    context: what each stage reports goes into its record.
    """
    class_weight = options["class_weight"]
    check_class_weight(class_weight, codebook.classes)
    learner, plan = _plan(codebook, options, context)
    counts, store = Counts(rows, context), None
    if checkpoint is not None:
        data = fingerprint_rows(codebook, rows, context)
        store = FitCheckpoint(checkpoint, options, data, context)
    with context.stage("structure") as record:
        structure, plan = _learn_structure(learner, counts, codebook, plan, store)
        informed = zip(codebook.domain.names, counts.mi().tolist(), strict=True)
        record["mutual_information"] = dict(informed)
    known = context.record("codes")
    known["rows"] = rows.n_rows
    if not rows.weighted:  # the counts of weighted rows tell of the weights, too
        known["fingerprint"] = fingerprint_counts(counts.classes, counts.values)
    if store is not None:
        # With counts and a plan of its own, this stage has the same passes whether the one
        # before it was run or read.
        store.begin("parameters")
        counts, plan = Counts(rows, context), replace(plan)
    with context.stage("parameters"):
        if plan.prior is not None and not reads_prior_counts(learner):
            more = with_prior_rows(structure, counts, plan.prior)
            counts, plan = Counts(more, context), replace(plan, prior=None)
        learner = learner.choose(structure, counts, plan)
        tables = learner.learn(structure, counts, plan)
        required = None if plan.limits is None else plan.limits.required
        structure, tables = drop_unread(structure, tables, required)
    shares = class_shares(options["class_prior"], codebook.classes, counts.classes)
    counted = isinstance(learner, CountLearner)
    tables = set_class_shares(tables, shares, counts.classes, counted=counted)
    tables = weigh_classes(tables, class_weight, codebook.classes, counts.classes)
    asked = options["structure"], options["parameters"]
    kept = KeptCounts.start(learner, structure, counts, plan, asked)
    known_network = network_prior(options["prior"])
    history = () if known_network is None else known_network.history
    learned = Learned(Network(codebook, structure, tables, history), kept)
    if store is not None:
        store.clear()
    return learned


def find_structure(
    codebook: Codebook, rows: Rows, options: Mapping[str, Any], context: FitContext
) -> Structure:
    """Learn the structure alone, as `learn_network` does first."""
    learner, plan = _plan(codebook, options, context)
    return _learn_structure(learner, Counts(rows, context), codebook, plan, None)[0]


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
