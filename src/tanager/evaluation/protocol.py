"""Splits into training and test rows: a protocol's places, and the rows of each.

The rows of a place only depend on the seed and the place: more rounds don't change earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError, invalid

_MOST = 10_000  # rounds or folds


class Split(NamedTuple):
    """One split of the rows."""

    train: NDArray[np.int64]  # row indices, ascending
    test: NDArray[np.int64]


class _Rounds:
    """Rounds, each divided into parts; a place is a pair (round, part)."""

    rounds: int

    @property
    def n_parts(self) -> int:
        """Number of parts of a round."""
        raise NotImplementedError

    def places(self) -> Iterator[tuple[int, int]]:
        """Iterate over (round, part)."""
        return product(range(self.rounds), range(self.n_parts))

    def to_dict(self) -> dict[str, Any]:
        """Return the description for reports and run files."""
        found = asdict(self)  # type: ignore[call-overload]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}


@dataclass(frozen=True)
class CrossValidation(_Rounds):
    """Rounds of k-fold cross-validation.

    Parameters
    ----------
    rounds : int
        How often to shuffle and split the rows.
    folds : int
        Folds per round.
    stratified : bool
        Whether to stratify the folds by class. The default is plain random folds, as in the papers;
        then a rare class may be absent from a training fold.

    Notes
    -----
    For estimates of bias and variance, use rounds of two folds: training sets then differ most.

    Examples
    --------
    >>> import numpy as np
    >>> protocol = CrossValidation(rounds=1, folds=2)
    >>> split = protocol.split(np.zeros(6, int), seed=0, round_=0, fold=1)
    >>> split.train.tolist(), split.test.tolist()
    ([0, 3, 5], [1, 2, 4])
    """

    rounds: int = 5
    folds: int = 2
    stratified: bool = False

    def __post_init__(self) -> None:
        _check_whole("rounds", self.rounds, 1)
        _check_whole("folds", self.folds, 2, "; for one split, set the dataset's train_rows")

    @property
    def n_parts(self) -> int:
        """Number of folds."""
        return self.folds

    def check(self, n_rows: int) -> None:
        """Reject a table with fewer rows than folds."""
        if n_rows < self.folds:
            raise ConfigurationError(
                f"folds={self.folds} needs as many rows; the table has {n_rows}. Use fewer folds.",
                parameter="folds",
            )

    def split(self, labels: NDArray[np.integer], seed: int, round_: int, fold: int) -> Split:
        """Return the fold as test rows, and the others as training rows."""
        n_rows = len(labels)
        self.check(n_rows)
        order = np.random.default_rng([seed, round_]).permutation(n_rows)
        if self.stratified:
            order = order[np.argsort(labels[order], kind="stable")]
        part = np.empty(n_rows, np.int64)
        part[order] = np.arange(n_rows) % self.folds
        return Split(np.flatnonzero(part != fold), np.flatnonzero(part == fold))


@dataclass(frozen=True)
class LearningCurve(_Rounds):
    """Growing training sets against the same test rows, as in Petitjean et al. (2018), figure 7.

    Parameters
    ----------
    sizes : tuple of int
        Training rows, ascending. Within a round, each set contains the smaller ones.
    rounds : int
        How often to shuffle the rows.
    test_share : float
        Share of test rows.

    Examples
    --------
    >>> import numpy as np
    >>> curve = LearningCurve(sizes=(2, 4), rounds=1, test_share=0.5)
    >>> [len(curve.split(np.zeros(10, int), 0, 0, i).train) for i in range(2)]
    [2, 4]
    """

    sizes: tuple[int, ...]
    rounds: int = 10
    test_share: float = 0.3

    def __post_init__(self) -> None:
        sizes = tuple(self.sizes)
        object.__setattr__(self, "sizes", sizes)
        if not sizes or list(sizes) != sorted(set(sizes)) or sizes[0] < 1:
            raise ConfigurationError(f"sizes={list(sizes)} must be ascending whole numbers from 1.")
        _check_whole("rounds", self.rounds, 1)
        if not 0.0 < self.test_share < 1.0:
            raise ConfigurationError(f"test_share={self.test_share} must lie between 0 and 1.")

    @property
    def n_parts(self) -> int:
        """Number of sizes."""
        return len(self.sizes)

    def check(self, n_rows: int) -> None:
        """Reject a table with too few rows for the smallest size; `split` checks the others."""
        self._n_test(min(self.sizes), n_rows)

    def _n_test(self, size: int, n_rows: int) -> int:
        """Return the number of test rows; raise if fewer than `size` are left for training."""
        n_test = max(1, round(n_rows * self.test_share))
        if size > n_rows - n_test:
            raise ConfigurationError(
                f"sizes has {size}, but only {n_rows - n_test} of {n_rows} rows are "
                "left for training. Use smaller sizes or a smaller test_share."
            )
        return n_test

    def split(self, labels: NDArray[np.integer], seed: int, round_: int, fold: int) -> Split:
        """Take the first shuffled rows for training and the last for testing."""
        n_test = self._n_test(self.sizes[fold], len(labels))
        order = np.random.default_rng([seed, round_]).permutation(len(labels))
        return Split(np.sort(order[: self.sizes[fold]]), np.sort(order[-n_test:]))


Protocol = CrossValidation | LearningCurve


def _check_whole(name: str, value: Any, low: int, hint: str = "") -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= _MOST:
        raise invalid(name, value, f"whole numbers from {low} to {_MOST:,}{hint}")
