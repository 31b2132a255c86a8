"""How gradient training goes: length, speed, held-out rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from tanager.estimator import Estimator


@dataclass(eq=False, repr=False)
class Training(Estimator):
    r"""How tables are trained by gradient, for `Hybrid` and `Differentiable` alike.

    Parameters
    ----------
    epochs : int, default=100
        How often training sees every row.
    batch_size : int or None, default=None
        Rows of a step; None is a tenth of the rows, but 10 at least and 100 at
        most.
    learning_rate : float, default=0.03
        Of the tables, in the first epoch.
    decay : float, default=0.001
        Factor by which `learning_rate` falls, geometrically, over the run.
    share : bool, default=False
        Move all contexts of a table together by a second Adam step, along the
        sum of their gradients, besides each context's own. Rare contexts then
        follow their table, which is a back-off; choose it where tables have
        many contexts for the rows there are.
    dense : bool, default=False
        Adam on all tables in every batch, with one step count: what was not in
        the batch goes on by its momentum, as in Roth and Pernkopf (2020). Up to
        twice as slow, and for comparisons; not with `share`.
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
        Random configurations of the hybrid loss (`lambda_`, `gamma`, `eta`),
        `learning_rate` and `dropout` to try on held-out rows first, each at the
        price of a training.

    Notes
    -----
    Adam (Kingma and Ba, 2015) with :math:`\beta_1=0.9, \beta_2=0.999,
    \epsilon=10^{-8}`. In epoch e of E the learning rate is
    :math:`r \cdot d^{\,e/E}`, with `learning_rate` r and `decay` d.

    Examples
    --------
    >>> from tanager.parameters import Hybrid
    >>> learner = Hybrid("cll", training=Training(epochs=30, dropout=0.0))
    >>> learner.set_params(training__epochs=50).training.epochs
    50
    """

    epochs: int = 100
    _: KW_ONLY
    batch_size: int | None = None
    learning_rate: float = 0.03
    decay: float = 0.001
    share: bool = False
    dense: bool = False
    average: float = 0.0
    dropout: float = 0.2
    early_stopping: int | None = None
    validation_fraction: float = 0.1
    tune: int = 0

    def check(self) -> None:
        """Raise a ConfigurationError for what is not allowed."""
        self._allow("epochs", self.epochs >= 1, "a whole number from 1 on")
        for name in ("batch_size", "early_stopping"):
            given = getattr(self, name)
            self._allow(name, given is None or given >= 1, "None, or a whole number from 1 on")
        for name in ("learning_rate", "decay"):
            self._allow(name, 0 < getattr(self, name) <= 1, "a number above 0 and at most 1")
        for name in ("average", "dropout"):
            self._allow(name, 0 <= getattr(self, name) < 1, "a number from 0 to below 1")
        self._allow("dense", not (self.dense and self.share), "False with share=True")
        between = 0 < self.validation_fraction < 1
        self._allow("validation_fraction", between, "a number between 0 and 1")
        self._allow("tune", self.tune >= 0, "a whole number from 0 on")

    def rows_per_batch(self, n_rows: int) -> int:
        """Return the number of rows of a step."""
        return min(max(n_rows // 10, 10), 100) if self.batch_size is None else self.batch_size

    def rate(self, epoch: int) -> float:
        """Return the tables' learning rate in an epoch."""
        return float(self.learning_rate * self.decay ** (epoch / self.epochs))


class Trained(Estimator):
    """A learner with an option `training`; None is `Training` with its defaults."""

    training: Training | None

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the training too: ``training__epochs=50``."""
        if any(name.startswith("training__") for name in params):
            params.setdefault("training", Training() if self.training is None else self.training)
        return super().set_params(**params)

    def resolve_training(self) -> Training:
        """Return the training, after a check of its options."""
        training = Training() if self.training is None else self.training
        right = isinstance(training, Training)
        self._allow("training", right, "None, or Training(...) of tanager.training")
        training.check()
        return training
