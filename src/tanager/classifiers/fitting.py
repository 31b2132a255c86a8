"""How a fit goes: from coded rows to a structure, and on to its tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from tanager.classifiers.checkpoints import FitCheckpoint, learn_structure
from tanager.classifiers.class_weights import check_class_weight, weigh_classes
from tanager.classifiers.kept_counts import KeptCounts
from tanager.classifiers.monotone import read_signs
from tanager.codes import Codebook, Rows, fingerprint_rows, group_rows, learn_groups
from tanager.counts import Counts, fingerprint_counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.network import Network
from tanager.parameters import CountLearner, ParameterLearner
from tanager.parameters.registry import resolve_pair
from tanager.structure import Structure, StructureLearner

__all__ = ["Learned", "learn_network"]


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

    Parameters
    ----------
    codebook : Codebook
    rows : Rows
        The training rows, coded by it.
    options : mapping
        The estimator's parameters that change the model.
    checkpoint : path or None
        The folder of a fit that may be killed.
    context : FitContext
        What each stage reports goes into its record.
    """
    class_weight = options["class_weight"]
    check_class_weight(class_weight, codebook.classes)
    structure_learner, learner = resolve_pair(options["structure"], options["parameters"])
    context.carry["signs"] = _signs(learner, codebook, options)
    counts, store = Counts(rows, context), None
    if checkpoint is not None:
        data = fingerprint_rows(codebook, rows, context)
        store = FitCheckpoint(checkpoint, options, data, context)
    with context.stage("structure") as record:
        read = _grouped(counts) if learner.groups_parents else counts
        structure = _learn_kept(structure_learner, read, codebook, context, store)
        informed = zip(codebook.domain.names, counts.mi().tolist(), strict=True)
        record["mutual_information"] = dict(informed)
    known = context.record("codes")
    known["rows"] = rows.n_rows
    if not rows.weighted:  # the counts of weighted rows tell of the weights, too
        known["fingerprint"] = fingerprint_counts(counts.classes, counts.values)
    structure = _limit(structure, learner, read, context)
    if store is not None:
        # With counts of its own, this stage has the same passes whether the one
        # before it was run or read.
        store.begin("parameters")
        counts = Counts(rows, context)
    with context.stage("parameters"):
        if isinstance(learner, CountLearner):
            learner = learner.choose(structure, counts, context).learner
        structure, tables = learner.learn_network(structure, counts, context)
    tables = weigh_classes(tables, class_weight, codebook.classes, counts.classes)
    asked = options["structure"], options["parameters"]
    learned = Learned(
        Network(codebook, structure, tables), KeptCounts.start(learner, structure, counts, asked)
    )
    if store is not None:
        store.clear()
    return learned


def _signs(
    learner: ParameterLearner, codebook: Codebook, options: Mapping[str, Any]
) -> Mapping[int, Any]:
    """Return along which features classes rise or fall."""
    if options["monotonic"] and not learner.takes_signs:
        raise ConfigurationError(
            f"monotonic has no meaning for parameters={options['parameters']!r}. Use 'layered'."
        )
    return read_signs(options["monotonic"], codebook)


def _grouped(counts: Counts) -> Counts:
    """Return the counts of groups of values, as parents are read."""
    pairs = zip(counts.values, counts.domain.n_ordered, strict=True)
    groups = [learn_groups(values, n_ordered) for values, n_ordered in pairs]
    return Counts(group_rows(counts.rows, groups), counts.context)


def _learn_kept(
    learner: StructureLearner,
    counts: Counts,
    codebook: Codebook,
    context: FitContext,
    store: FitCheckpoint | None,
) -> Structure:
    """Learn a structure, without the columns that the audit leaves out."""
    carried = set(context.carry)
    structure = learn_structure(learner, counts, context, store)
    # Tables that were learned together with the structure would no longer fit it.
    alone = set(context.carry) == carried
    context.carry["structure_learner"] = learner
    if not alone:
        return structure
    names = codebook.domain.names
    left = {at for at, name in enumerate(names) if codebook.leaves_out(name)}
    rest = set(structure.selected) - left
    return structure.without(left) if 0 < len(rest) < len(structure.selected) else structure


def _limit(
    structure: Structure, learner: ParameterLearner, counts: Counts, context: FitContext
) -> Structure:
    """Return the structure without the edges that the learner cannot afford, and record them."""
    limited = learner.affordable(structure, counts.domain)
    if limited != structure:
        before, after = structure.parents, limited.parents
        context.record("structure")["dropped"] = [
            (parent, feature)
            for feature, parents in before.items()
            for parent in parents
            if parent not in after[feature]
        ]
    return limited
