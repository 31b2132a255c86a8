"""Tables by gradient on a fixed structure, under the hybrid margin loss or any other."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Domain
from tanager.counts import Counts
from tanager.losses import Loss
from tanager.parameters.learner import ParameterLearner
from tanager.parameters.tables import DenseTable, Tables
from tanager.structure import FitPlan, Structure
from tanager.training import Training
from tanager.training.fitting import Task, fit
from tanager.training.model import NO_PARENT, JointTables, Model, Slots, TrainingRows
from tanager.training.options import Trained

TRAINING_STREAM = 803
JOINT = ("keep", "refine", "restart")


@dataclass(eq=False, repr=False)
class Hybrid(Trained, ParameterLearner):
    r"""Train the tables of a given structure by mini-batch Adam.

    The tables stay proper probabilities [1]_. The default loss combines likelihood and margin
    (`HybridMargin`) for few errors; for calibrated probabilities choose ``loss="cll"`` or
    another learner.

    Parameters
    ----------
    loss : {"hybrid", "margin", "cll", "nll"} or callable, default="hybrid"
        See `tanager.losses`; any ``loss(log_joint, y) -> (value, gradient)``.
    joint : {"keep", "refine", "restart"}, default="keep"
        What to do with tables that `Differentiable` learned together with the structure: keep
        them, continue training from them, or start afresh.
    training : Training or None, default=None
        Epochs, learning rate, held-out rows, checkpoints; None is
        `tanager.training.Training` with its defaults.

    Notes
    -----
    A context is updated only in batches that contain it, so one never seen stays near uniform.
    Families with an unknown member don't contribute to the loss.
    ``info_["parameters"]["trace"]`` has loss and accuracy per epoch. All rows are held in
    memory; training runs on one thread.

    References
    ----------
    .. [1] Roth, Pernkopf (2020). Differentiable TAN structure learning for
       Bayesian network classifiers. PMLR 138 (PGM 2020).

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.training import Training
    >>> learner = Hybrid("nll", training=Training(50, learning_rate=0.3))
    >>> clf = BayesNetClassifier("naive", learner).fit([["a"], ["b"]] * 100, [0, 1] * 100)
    >>> clf.predict_proba([["b"]]).round(1)
    array([[0., 1.]])
    """

    loss: str | Loss = "hybrid"
    _: KW_ONLY
    joint: str = "keep"
    training: Training | None = None

    def learn(self, structure: Structure, counts: Counts, plan: FitPlan) -> Tables:
        """Train the tables, or keep those that came with the structure."""
        context = plan.context
        self._choose("joint", JOINT)
        training = self.resolve_training()
        joint = plan.joint_tables if self.joint != "restart" else None
        if joint is not None and not _belongs(joint, structure):
            joint = None
        record = context.record("parameters")
        record["joint_tables"] = self.joint if joint is not None else "none"
        if joint is not None and self.joint == "keep":
            return Tables(joint.log_prior, tuple(DenseTable(table) for table in joint.log_prob))
        slots, shapes = _slots(structure, counts.domain)
        n_classes = counts.domain.n_classes

        def start(_rows: TrainingRows, rng: np.random.Generator) -> Model:
            if joint is None:
                return Model.start(slots, n_classes, rng)
            theta = np.concatenate([np.zeros(0), *(table.ravel() for table in joint.log_prob)])
            n_blocks = int(slots.n_contexts.sum())
            return Model.at(theta, n_blocks, joint.log_prior.copy(), np.zeros(slots.column.shape))

        rows, stream = _family_rows(structure, counts), (TRAINING_STREAM,)
        options = self.loss, training, None, stream, "tables by gradient"
        run, info = fit(Task(rows, slots, start, *options), context)
        record.update(info)
        model = run.result
        families = [
            DenseTable(model.table(slots, at, 0).reshape(*shape, n_classes).copy())
            for at, shape in enumerate(shapes)
        ]
        return Tables(model.prior.copy(), tuple(families))


def _belongs(joint: JointTables, structure: Structure) -> bool:
    whole = structure.selected == tuple(range(len(structure.names)))
    return whole and structure.parent_indices == joint.parent_indices


def _slots(structure: Structure, domain: Domain) -> tuple[Slots, list[tuple[int, ...]]]:
    """Return where each family's table stands, and each one's (*parent_arities, arity)."""
    arities = [int(a) for a in domain.arities]
    shapes = [
        (*(arities[p] for p in parents), arities[feature])
        for feature, parents in zip(structure.selected, structure.parent_indices, strict=True)
    ]
    columns = [[at if len(shape) > 1 else NO_PARENT] for at, shape in enumerate(shapes)]
    sizes = [[prod(shape[:-1])] for shape in shapes]
    own = np.array([shape[-1] for shape in shapes], np.int64)
    return Slots.build(columns, sizes, own, domain.n_classes, structure.features), shapes


def _family_rows(structure: Structure, counts: Counts) -> TrainingRows:
    """Return rows with one column of mixed-radix parent codes per family."""
    chunk, arities = counts.rows.gather(), counts.domain.arities
    contexts = np.empty((chunk.n_rows, len(structure.selected)), np.int64)
    for at, parents in enumerate(structure.parent_indices):
        # Past the last configuration where a parent is unknown.
        number, unknown = np.zeros(chunk.n_rows, np.int64), np.zeros(chunk.n_rows, np.bool_)
        for parent in parents:
            number = number * int(arities[parent]) + chunk.codes[parent]
            unknown |= chunk.codes[parent] >= arities[parent]
        number[unknown] = prod(int(arities[p]) for p in parents)
        contexts[:, at] = number
    picked = chunk.codes[list(structure.selected)]
    children: NDArray[np.integer] = np.ascontiguousarray(picked.T)
    return TrainingRows(contexts, children, chunk.labels.astype(np.int64), chunk.weights)
