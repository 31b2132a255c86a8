"""Structure by gradient: a distribution over parents, trained together with the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

import numpy as np

from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.losses import Loss
from tanager.structure.differentiable.candidates import Request, resolve_candidates
from tanager.structure.differentiable.fitting import Problem, Settings, fit
from tanager.structure.differentiable.initial import STARTS
from tanager.structure.differentiable.model import (
    NO_PARENT,
    JointTables,
    Layout,
    Model,
    coded_rows,
)
from tanager.structure.differentiable.sampling import Arborescence, BestParent, Sampler
from tanager.structure.differentiable.training import Schedule, most_probable
from tanager.structure.learner import StructureLearner
from tanager.structure.structure import Structure

__all__ = ["CARRIED", "Differentiable"]

CARRIED = "joint_tables"  # where `FitContext.carry` has the tables learned with a structure
CANDIDATE_STREAM, TRAINING_STREAM = 801, 802


class Differentiable(StructureLearner):
    r"""Learn a TAN structure by gradient, under any loss [1]_.

    Each feature has a categorical distribution over candidate parents and "no
    parent", with logits :math:`\phi`. Every mini-batch draws one structure
    (Gumbel noise, then the best), is classified under it, and sends the loss's
    gradient to the tables drawn and, straight through a softmax, to all
    :math:`\phi`. In the end the most probable structure is returned, and the
    tables that were learned with it are left for ``parameters="hybrid"``.

    Choose it where errors matter more than fitting time, and on images
    (``candidates="neighbours"``). TAN takes one pass where this takes hundreds.

    Parameters
    ----------
    candidates : {"subset", "all", "neighbours"} or mapping, default="subset"
        "subset": at most `k` features drawn at random; "all": every feature;
        "neighbours": the `k` nearest pixels of an image; or a mapping from a
        feature's name to the names of its candidates (one not named has none).
    k : int, default=8
        Candidates per feature. Memory and time are linear in it.
    ordering : {"fixed", "free"}, default="fixed"
        "fixed": candidates precede the feature in `order`, as in [1]_.
        "free": candidates may stand anywhere, and every draw is a maximum
        arborescence over all features (perturb-and-MAP): acyclic, yet every
        direction is possible.
    order : {"auto", "random", "columns", "A", "B", "C"} or sequence of names, default="auto"
        The ordering; A, B, C are the image orderings of [1]_, section 4.4.
        "auto" is "C" with ``candidates="neighbours"``, else "random".
    image_shape : (height, width) or None
        For "neighbours"; None takes the image to be square.
    loss : {"hybrid", "margin", "cll", "nll"} or callable, default="hybrid"
        See `tanager.losses`; any ``loss(log_joint, y) -> (value, gradient)``.
    epochs : int, default=100
    batch_size : int or None, default=None
        None is a tenth of the rows, but 10 at least and 100 at most.
    init : {"random", "generative"}, default="random"
        Where the tables start: near uniform, as in [1]_, or at the smoothed
        frequencies of the training rows, so that all candidates compete from
        the first batch on. Choose "generative" with thousands of rows, where
        the tables learned with the structure are kept.
    learning_rate : float, default=0.03
        Of the tables, in the first epoch.
    structure_learning_rate : float, default=0.01
        Of the logits over parents, constant. [1]_ has 0.001 with 500 epochs.
    decay : float, default=0.001
        Factor by which `learning_rate` falls, geometrically, over the run.
    temperature : (float, float), default=(10, 0.1)
        Of the softmax, in the first and the last epoch; geometric between.
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
    Adam with :math:`\beta_1=0.9, \beta_2=0.999, \epsilon=10^{-8}`. Tables are
    logits minus logsumexp over the child's values, at random from U(-0.1, 0.1). Each
    (table, parent value) takes a step of its own, with its own step count, in
    every batch where the table was drawn and a row has that parent value; it
    rests otherwise, moments included.

    Where a parent is unknown its row is answered by the class alone; an
    unknown child contributes nothing.

    ``info_["structure"]`` has ``trace`` (per epoch loss, accuracy,
    temperature, entropy of the distribution over parents, learning_rate,
    validation_error), ``probabilities`` (of the structure's parents),
    ``search``; `tanager.report.training.plot_training` draws it. All rows are held in
    memory, one byte a value; training runs on one thread.

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
    >>> a, y = np.random.default_rng(0).integers(0, 2, (2, 500))
    >>> codes = np.array([a, a ^ y], np.uint8)
    >>> rows = MemoryRows(Domain(("a", "b"), np.array([2, 2]), 2), codes, y.astype(np.uint16))
    >>> learner = Differentiable(order="columns", epochs=20, batch_size=50)
    >>> context = FitContext()
    >>> dict(learner.learn(Counts(rows, context), context).parents)
    {'a': (), 'b': ('a',)}
    """

    def __init__(
        self,
        candidates: str | Mapping[str, Sequence[str]] = "subset",
        k: int = 8,
        *,
        ordering: str = "fixed",
        order: str | Sequence[str] = "auto",
        image_shape: tuple[int, int] | None = None,
        loss: str | Loss = "hybrid",
        epochs: int = 100,
        batch_size: int | None = None,
        init: str = "random",
        learning_rate: float = 0.03,
        structure_learning_rate: float = 0.01,
        decay: float = 0.001,
        temperature: tuple[float, float] = (10.0, 0.1),
        share: bool = False,
        average: float = 0.0,
        dropout: float = 0.2,
        early_stopping: int | None = None,
        validation_fraction: float = 0.1,
        tune: int = 0,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: int = 10,
    ) -> None:
        self.candidates = candidates
        self.k = k
        self.ordering = ordering
        self.order = order
        self.image_shape = image_shape
        self.loss = loss
        self.epochs = epochs
        self.batch_size = batch_size
        self.init = init
        self.learning_rate = learning_rate
        self.structure_learning_rate = structure_learning_rate
        self.decay = decay
        self.temperature = temperature
        self.share = share
        self.average = average
        self.dropout = dropout
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.tune = tune
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def learn(self, counts: Counts, context: FitContext) -> Structure:
        """Learn the most probable structure; its tables go to ``context.carry``."""
        settings = self._settings(counts.rows.n_rows)
        domain = counts.domain
        if domain.n_features == 0:
            return Structure((), (), ())
        candidates = self._candidates(domain.names, context)
        layout = Layout.build(
            [[NO_PARENT, *parents] for parents in candidates],
            [[1, *(int(domain.arities[p]) for p in parents)] for parents in candidates],
            domain.arities,
            domain.n_classes,
            domain.names,
        )
        chunk = counts.rows.gather()
        sampler: Sampler = Arborescence(layout) if self.ordering == "free" else BestParent()
        problem = Problem(
            coded_rows(chunk.codes, chunk.labels, chunk.weights),
            layout,
            lambda rows, rng: STARTS[self.init](layout, rows, domain.n_classes, rng),
            sampler,
            (TRAINING_STREAM,),
            "structure by gradient",
        )
        run, info = fit(problem, settings, context)
        chosen = most_probable(run.result, layout, sampler)
        structure, joint = _read_off(domain.names, run.result, layout, chosen)
        info["probabilities"] = _probabilities(run.result, layout, chosen)
        context.carry[CARRIED] = joint
        context.info.setdefault("structure", {}).update(info)
        return structure

    def _settings(self, n_rows: int) -> Settings:
        if self.ordering not in ("fixed", "free"):
            raise ConfigurationError(
                f"ordering={self.ordering!r} is not known. Allowed: 'fixed', 'free'."
            )
        if self.init not in STARTS:
            raise ConfigurationError(
                f"init={self.init!r} is not known. Allowed: 'random', 'generative'."
            )
        batch = Schedule.usual_batch(n_rows) if self.batch_size is None else self.batch_size
        return Settings(
            self.loss,
            Schedule(
                self.epochs,
                batch,
                self.learning_rate,
                self.structure_learning_rate,
                self.decay,
                (self.temperature[0], self.temperature[1]),
                self.share,
                self.average,
                self.dropout,
            ),
            self.early_stopping,
            self.validation_fraction,
            self.tune,
            self.checkpoint,
            self.checkpoint_every,
        )

    def _candidates(self, names: tuple[str, ...], context: FitContext) -> list[list[int]]:
        free = self.ordering == "free"
        request = Request(self.candidates, self.k, self.order, self.image_shape, free)
        return resolve_candidates(request, names, context.generator(CANDIDATE_STREAM))


def _read_off(
    names: tuple[str, ...], model: Model, layout: Layout, chosen: np.ndarray
) -> tuple[Structure, JointTables]:
    """Return the structure of the chosen slots and its tables."""
    parents: list[tuple[int, ...]] = []
    tables = []
    for i, slot in enumerate(chosen.tolist()):
        parent = int(layout.column[i, slot])
        table = model.table(layout, i, slot).copy()
        parents.append(() if parent == NO_PARENT else (parent,))
        tables.append(table[0] if parent == NO_PARENT else table)
    structure = Structure.from_parents(names, parents)
    return structure, JointTables(structure.parent_indices, model.prior.copy(), tuple(tables))


def _probabilities(model: Model, layout: Layout, chosen: np.ndarray) -> list[float]:
    """Return the probability of each feature's chosen parent under its own distribution."""
    phi = np.where(layout.used(), model.phi, -np.inf)
    soft = np.exp(phi - phi.max(axis=1, keepdims=True))
    soft /= soft.sum(axis=1, keepdims=True)
    chosen_soft: list[float] = soft[np.arange(chosen.shape[0]), chosen].tolist()
    return chosen_soft
