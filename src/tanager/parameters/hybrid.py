"""Tables trained by gradient descent on a fixed structure, by default with the hybrid loss."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import prod

from tanager.counts import Counts
from tanager.losses import Loss
from tanager.parameters import ParameterLearner
from tanager.parameters.tables import DenseTable, Tables, family_members
from tanager.structure import FitPlan, Structure
from tanager.training import Trained, Training
from tanager.training.model import NO_PARENT, Slots, TrainingRows

TRAINING_STREAM = 803


@dataclass(eq=False, repr=False)
class Hybrid(Trained, ParameterLearner):
    r"""Train the tables of a given structure by mini-batch Adam.

    The tables remain proper probabilities [1]_. The default loss combines likelihood and margin
    (`HybridMargin`) for few errors; for calibrated probabilities choose ``loss="cll"`` or
    another learner.

    Parameters
    ----------
    loss : {"hybrid", "margin", "cll", "nll", "rps"} or callable, default="hybrid"
        See `tanager.losses`; any ``loss(log_joint, y) -> (value, gradient)``.
    joint : {"keep", "restart"}, default="keep"
        Whether tables that `Differentiable` learned together with the structure are kept, or
        trained again from scratch.
    training : Training or None, default=None
        Epochs, learning rate, held-out rows; None uses `Training` with its defaults.

    Notes
    -----
    A context is updated only in batches that contain it, so an unseen one stays near uniform.
    Families with an unknown member don't contribute to the loss.
    ``info_["parameters"]["trace"]`` has loss and accuracy per epoch. All rows are held in
    memory; training runs on one thread.

    References
    ----------
    .. [1] Roth, Pernkopf (2020). Differentiable TAN structure learning for Bayesian network
       classifiers. PMLR 138 (PGM 2020).

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
        """Train the tables, or keep those learned with the structure."""
        context = plan.context
        self._choose("joint", ("keep", "restart"))
        self.resolve_training()
        joint, record = plan.joint_tables, context.record("parameters")
        whole = structure.selected == tuple(range(len(structure.names)))
        known = joint and whole and structure.parent_indices == joint.parent_indices
        record["joint_tables"] = "keep" if known and self.joint == "keep" else "none"
        if joint and record["joint_tables"] == "keep":
            return Tables(joint.log_prior, tuple(DenseTable(table) for table in joint.log_prob))
        n_classes, arities = counts.domain.n_classes, counts.domain.arities
        parents, own = structure.parent_positions(), arities[list(structure.selected)]
        several = sorted({some for some in parents if len(some) > 1})
        column: dict[tuple[int, ...], int] = {(): NO_PARENT}
        column |= {(one,): one for one in range(len(own))}
        column |= {clique: len(own) + at for at, clique in enumerate(several)}
        sizes = [[prod(own[list(some)].tolist())] for some in parents]
        columns = [[column[some]] for some in parents]
        names, check = structure.features, context.check_tables
        slots = Slots.build(columns, sizes, own, n_classes, names, check)
        rows = TrainingRows.of(counts.rows.gather(), structure.selected)
        rows = rows.join(several, own) if several else rows
        stage = "tables by gradient"
        model, info = self.train_tables(slots, rows, context, key=(TRAINING_STREAM,), stage=stage)
        record.update(info)
        tables = []
        for at in range(len(parents)):
            shape = *arities[family_members(structure, at)], n_classes
            tables.append(DenseTable(model.table(slots, at, 0).reshape(shape).copy()))
        return Tables(model.prior.copy(), tuple(tables))
