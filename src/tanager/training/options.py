"""Options of gradient training: length, speed, held-out rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from tanager.estimator import Estimator


@dataclass(eq=False, repr=False)
class Training(Estimator):
    r"""How tables are trained by gradient descent, in both `Hybrid` and `Differentiable`.

    Parameters
    ----------
    epochs : int, default=100
        Number of passes over the training rows.
    batch_size : int or None, default=None
        Rows per step; None uses a tenth of the rows, at least 10 and at most
        100.
    learning_rate : float, default=0.03
        For the tables, in the first epoch.
    decay : float, default=0.001
        Factor by which `learning_rate` decays, geometrically, over the run.
    share : bool, default=False
        Move all contexts of a table together by a second Adam step, along the
        sum of their gradients, in addition to each context's own. Rare contexts then
        follow their table, as with back-off; choose it if tables have
        many contexts for the number of rows.
    dense : bool, default=False
        Apply Adam to all tables in every batch, with a single step count: contexts not
        in the batch continue with their momentum, as in Roth and Pernkopf (2020). Up to
        twice as slow, and meant for comparisons; can't be combined with `share`.
    average : float, default=0
        Final share of the training run over which the tables' log-probabilities are
        averaged, epoch by epoch; 0 returns the last. Choose 0.5
        together with ``decay=0.1`` for a short run.
    dropout : float, default=0.2
        Probability of dropping a feature's term from a row's log-joint, drawn
        anew for each batch. The features learn not to rely on
        one another, which regularises a long run. Choose about 0.5 with
        hundreds of pixels, 0 for a short run.
    validation_fraction : float, default=0.1
        Share of the rows held out for `tune`.
    tune : int, default=0
        Number of random configurations of the hybrid loss (`lambda_`, `gamma`, `eta`),
        `learning_rate` and `dropout` to try on held-out rows first, each at the
        cost of a full training run.

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
    validation_fraction: float = 0.1
    tune: int = 0

    def check(self) -> None:
        """Raise a ConfigurationError for invalid options."""
        self._allow_whole("epochs", least=1)
        self._allow_whole("batch_size", least=1, none=True)
        self._allow_numbers("learning_rate", "decay", most=1)
        self._allow_numbers("average", "dropout", zero=True, below=1)
        self._allow_flags("share", "dense")
        self._allow("dense", not (self.dense and self.share), "False with share=True")
        self._allow_numbers("validation_fraction", below=1)
        self._allow_whole("tune", least=0)

    def rows_per_batch(self, n_rows: int) -> int:
        """Return the number of rows per step."""
        return min(max(n_rows // 10, 10), 100) if self.batch_size is None else self.batch_size

    def rate(self, epoch: int) -> float:
        """Return the tables' learning rate in an epoch."""
        return float(self.learning_rate * self.decay ** (epoch / self.epochs))


class Trained(Estimator):
    """A learner with an option `training`; None uses `Training` with its defaults."""

    training: Training | None

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including nested ones such as ``training__epochs=50``."""
        if any(name.startswith("training__") for name in params):
            params.setdefault("training", Training() if self.training is None else self.training)
        return super().set_params(**params)

    def resolve_training(self) -> Training:
        """Return the training options after validating them."""
        training = Training() if self.training is None else self.training
        right = isinstance(training, Training)
        self._allow("training", right, "None, or Training(...) of tanager.training")
        training.check()
        return training
