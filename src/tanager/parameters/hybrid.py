"""Tables by gradient on a fixed structure, under the hybrid margin loss or any other."""

from __future__ import annotations

from math import prod
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes, Domain
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.losses import Loss
from tanager.parameters.learner import ParameterLearner
from tanager.parameters.tables import DenseTable, Tables
from tanager.structure import Structure
from tanager.structure.differentiable import CARRIED, JointTables
from tanager.structure.differentiable.fitting import Problem, Settings, fit
from tanager.structure.differentiable.model import NO_PARENT, Layout, Model, TrainingRows
from tanager.structure.differentiable.training import Schedule

__all__ = ["Hybrid"]

Floats = NDArray[np.float64]
TRAINING_STREAM = 803
JOINT = ("keep", "refine", "restart")


class Hybrid(ParameterLearner):
    r"""Train the tables of a given structure by mini-batch Adam [1]_.

    The tables stay proper probabilities; the loss decides what they are good
    for. The default joins likelihood and margin (`HybridMargin`). Choose it
    for few errors; for calibrated probabilities choose ``loss="cll"`` or
    another learner.

    Parameters
    ----------
    loss : {"hybrid", "margin", "cll", "nll"} or callable, default="hybrid"
        See `tanager.losses`; any ``loss(log_joint, y) -> (value, gradient)``.
    joint : {"keep", "refine", "restart"}, default="keep"
        What to do with tables that the structure learner (`Differentiable`)
        learned together with the structure: keep them as they are, go on
        training from them, or start afresh.
    epochs : int, default=100
    batch_size : int or None, default=None
        None is a tenth of the rows, but 10 at least and 100 at most.
    learning_rate : float, default=0.03
        In the first epoch.
    decay : float, default=0.001
        Factor by which `learning_rate` falls, geometrically, over the run.
    share : bool, default=False
        Move all contexts of a table together by a second Adam step, along the
        sum of their gradients, besides each context's own. Rare contexts then
        follow their table, which is a back-off; choose it where tables have
        many contexts for the rows there are.
    average : float, default=0
        Part of the training, at its end, whose tables' log-probabilities are
        averaged, epoch by epoch, and returned; 0 returns the last. Choose 0.5
        together with ``decay=0.1`` for a short training.
    dropout : float, default=0.2
        Probability with which, in a batch, a row leaves a feature's term out of
        its log-joint, drawn anew each time. The features learn to do without
        one another, which regularises a long training. Choose about 0.5 with
        hundreds of pixels, 0 for a short training.
    early_stopping : int or None, default=None
        Epochs without a better error on held-out rows before training stops;
        the best epoch is returned. None trains on all rows to the end.
    validation_fraction : float, default=0.1
        Of the rows, held out for `early_stopping` and `tune`.
    tune : int, default=0
        Random configurations of `lambda_`, `gamma`, `eta` (as in [1]_),
        `learning_rate` and `dropout` to try on held-out rows first, each at the
        price of a training.
    checkpoint : path or None
        File from which a killed run is resumed, to the same result bit for bit.
    checkpoint_every : int, default=10
        Epochs between two writes of it.

    Notes
    -----
    Adam and the tables' form are those of `Differentiable`. A context takes a
    step only in batches that have a row of it, so a context never seen stays
    near uniform. A family with an unknown member contributes nothing to the
    loss. ``info_["parameters"]["trace"]`` has loss and accuracy per epoch. All
    rows are held in memory; training runs on one thread.

    References
    ----------
    .. [1] Roth, Pernkopf (2020). Differentiable TAN structure learning for
       Bayesian network classifiers. PMLR 138 (PGM 2020).

    Examples
    --------
    >>> import numpy as np
    >>> from tanager.codes import Domain, MemoryRows
    >>> from tanager.counts import Counts
    >>> from tanager.engines import FitContext
    >>> from tanager.structure import Structure
    >>> y = np.arange(200) % 2
    >>> codes = np.array([y], np.uint8)
    >>> rows = MemoryRows(Domain(("a",), np.array([2]), 2), codes, y.astype(np.uint16))
    >>> structure, context = Structure(("a",), (0,), ((),)), FitContext()
    >>> learner = Hybrid("nll", epochs=50, learning_rate=0.3)
    >>> tables = learner.learn(structure, Counts(rows, context), context)
    >>> np.exp(tables.families[0].log_prob).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(
        self,
        loss: str | Loss = "hybrid",
        *,
        joint: str = "keep",
        epochs: int = 100,
        batch_size: int | None = None,
        learning_rate: float = 0.03,
        decay: float = 0.001,
        share: bool = False,
        average: float = 0.0,
        dropout: float = 0.2,
        early_stopping: int | None = None,
        validation_fraction: float = 0.1,
        tune: int = 0,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: int = 10,
    ) -> None:
        self.loss = loss
        self.joint = joint
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.decay = decay
        self.share = share
        self.average = average
        self.dropout = dropout
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.tune = tune
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def learn(self, structure: Structure, counts: Counts, context: FitContext) -> Tables:
        """Train the tables, or keep those that came with the structure."""
        settings = self._settings(counts.rows.n_rows)
        joint = context.carry.get(CARRIED) if self.joint != "restart" else None
        if joint is not None and not _belongs(joint, structure):
            joint = None
        record = context.info.setdefault("parameters", {})
        record["joint_tables"] = self.joint if joint is not None else "none"
        if joint is not None and self.joint == "keep":
            return Tables(joint.log_prior, tuple(DenseTable(table) for table in joint.log_prob))
        layout, shapes = _layout(structure, counts.domain)
        n_classes = counts.domain.n_classes

        def start(_rows: TrainingRows, rng: np.random.Generator) -> Model:
            if joint is None:
                return Model.start(layout, n_classes, rng)
            theta = np.concatenate([np.zeros(0), *(table.ravel() for table in joint.log_prob)])
            n_blocks = int(layout.n_contexts.sum())
            return Model.at(theta, n_blocks, joint.log_prior.copy(), np.zeros(layout.column.shape))

        rows = _family_rows(structure, counts)
        key = (TRAINING_STREAM,)
        problem = Problem(rows, layout, start, None, key, "tables by gradient")
        run, info = fit(problem, settings, context)
        record.update(info)
        model = run.result
        families = [
            DenseTable(model.table(layout, at, 0).reshape(*shape, n_classes).copy())
            for at, shape in enumerate(shapes)
        ]
        return Tables(model.prior.copy(), tuple(families))

    def _settings(self, n_rows: int) -> Settings:
        if self.joint not in JOINT:
            raise ConfigurationError(
                f"joint={self.joint!r} is not known. Allowed: 'keep', 'refine', 'restart'."
            )
        batch = Schedule.usual_batch(n_rows) if self.batch_size is None else self.batch_size
        return Settings(
            self.loss,
            Schedule(
                self.epochs,
                batch,
                self.learning_rate,
                decay=self.decay,
                share=self.share,
                average=self.average,
                dropout=self.dropout,
            ),
            self.early_stopping,
            self.validation_fraction,
            self.tune,
            self.checkpoint,
            self.checkpoint_every,
        )


def _belongs(joint: JointTables, structure: Structure) -> bool:
    whole = structure.selected == tuple(range(len(structure.names)))
    return whole and structure.parent_indices == joint.parent_indices


def _layout(structure: Structure, domain: Domain) -> tuple[Layout, list[tuple[int, ...]]]:
    """Return where each family's table stands, and each one's (*parent_arities, arity)."""
    arities = [int(a) for a in domain.arities]
    shapes = [
        (*(arities[p] for p in parents), arities[feature])
        for feature, parents in zip(structure.selected, structure.parent_indices, strict=True)
    ]
    columns = [[at if len(shape) > 1 else NO_PARENT] for at, shape in enumerate(shapes)]
    sizes = [[prod(shape[:-1])] for shape in shapes]
    own = np.array([shape[-1] for shape in shapes], np.int64)
    return Layout.build(columns, sizes, own, domain.n_classes, structure.features), shapes


def _family_rows(structure: Structure, counts: Counts) -> TrainingRows:
    """Return rows with one column of mixed-radix parent codes per family."""
    chunk, arities = counts.rows.gather(), counts.domain.arities
    contexts = np.empty((chunk.n_rows, len(structure.selected)), np.int64)
    for at, parents in enumerate(structure.parent_indices):
        contexts[:, at] = _contexts(chunk.codes, parents, arities)
    picked = chunk.codes[list(structure.selected)]
    children: NDArray[np.integer] = np.ascontiguousarray(picked.T)
    return TrainingRows(contexts, children, chunk.labels.astype(np.int64), chunk.weights)


def _contexts(
    codes: Codes, parents: tuple[int, ...], arities: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return each row's number among the parents' configurations, past the last if unknown."""
    number = np.zeros(codes.shape[1], np.int64)
    unknown = np.zeros(codes.shape[1], np.bool_)
    for parent in parents:
        number = number * int(arities[parent]) + codes[parent]
        unknown |= codes[parent] >= arities[parent]
    number[unknown] = prod(int(arities[p]) for p in parents)
    return number
