r"""Uncertainty of a network's answers: intervals of probabilities, and sets of classes.

The log-score of a class is a sum of table entries, each with a lower and an upper margin of error
(`tanager.parameters.spread.reaches`). Their squares add up to :math:`l_c` below and
:math:`u_c` above, and the log-odds of a class against all others extend from their estimate down
and up by the square roots of

.. math:: l_c + \sum_{j \ne c} w_j^2 u_j \quad\text{and}\quad u_c + \sum_{j \ne c} w_j^2 l_j,
          \qquad w_j = P(j \mid x) / (1 - P(c \mid x)).

References
----------
Zou and Donner (2008), DOI 10.1002/sim.3095: intervals of sums from those of their terms. Vovk
(2015), DOI 10.1007/s10472-013-9368-4: sets from cross-validation. Sadinle, Lei and Wasserman
(2019), DOI 10.1080/01621459.2017.1395341: sets of least size, per class too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes
from tanager.codes.rows import EqualByArrays
from tanager.errors import ConfigurationError
from tanager.network.decisions import is_number
from tanager.numerics import Floats
from tanager.parameters import Tables, posterior
from tanager.parameters.spread import reaches, table_arrays

if TYPE_CHECKING:
    from tanager.network.network import Network


NUDGE = 1e-4  # of the tables, if something is summed out
LEAST = 1e-150  # a probability whose square doesn't underflow
STEP = 1e-3  # resolution of the stored scores, in nats
MOST_KEPT = 1024  # scores per class
MOST_SCORE = 1_000_000


def interval_of_codes(network: Network, codes: Codes, level: float) -> Floats:
    """Return the lower and upper bound of each P(class | row), (n_rows, n_classes, 2)."""
    from scipy.special import expit

    logs = network.log_joint_of_codes(codes)
    below, above = (_summed(network, reach, codes, logs) for reach in _reaches(network, level))
    found = posterior(logs)
    others = 1.0 - np.eye(found.shape[1])
    rest = np.maximum(found @ others, LEAST)
    odds = np.log(np.maximum(found, LEAST)) - np.log(rest)
    low = below + (found**2 * above) @ others / rest**2
    high = above + (found**2 * below) @ others / rest**2
    return np.stack([expit(odds - np.sqrt(low)), expit(odds + np.sqrt(high))], axis=-1)


def _reaches(network: Network, level: float) -> tuple[tuple[Tables, Network], ...]:
    """Return the squared margins (reaches) below and above, each also as a shifted network."""
    spread = network.tables.spread
    if spread is None:
        raise ConfigurationError(
            "This model has no record of how sure its tables are. It was edited by hand, "
            "imported, saved by a release without intervals, or its parameters give none: fit with "
            "parameters 'layered', 'hdp', 'm-estimate', 'laplace', 'friedman', 'ml' or "
            "'discriminative'."
        )
    if level not in network.reaches:
        found = reaches(spread, level)
        network.reaches[level] = tuple((reach, _nudged(network, reach)) for reach in found)
    return network.reaches[level]


def _nudged(network: Network, reach: Tables) -> Network:
    """Return the network with tables shifted by some numbers.

    The change in its answers is their mean over what is unknown, since the derivative of
    log P(known) by the logarithm of an entry is the entry's probability given what is known.
    """
    families = []
    for table, along in zip(network.tables.families, reach.families, strict=True):
        moved = {
            name: array + NUDGE * getattr(along, name)
            for name, array in table_arrays(table).items()
        }
        families.append(replace(table, **moved))
    prior = network.log_prior + NUDGE * reach.log_prior
    return replace(network, tables=Tables(prior, tuple(families), normalized=False))


def _summed(network: Network, reach: tuple[Tables, Network], codes: Codes, logs: Floats) -> Floats:
    """Return the sum of each class's squared margins, (n_rows, n_classes).

    For a row with unknown features, it's the mean over their values, which is an upper bound.
    """
    arities, selected = network.codebook.domain.arities, list(network.structure.selected)
    tables, nudged = reach
    out = tables.log_joint(network.structure, codes, arities)
    gaps = np.flatnonzero((codes[selected] >= arities[selected, None]).any(axis=0))
    if gaps.size:
        some = np.ascontiguousarray(codes[:, gaps])
        out[gaps] = (nudged.log_joint_of_codes(some) - logs[gaps]) / NUDGE
    return np.maximum(out, 0.0)


def check_share(name: str, value: Any) -> float:
    """Return a level or coverage; raise if it isn't between 0 and 1."""
    if not (is_number(value) and 0 < value < 1):
        raise ConfigurationError(f"{name}={value!r}. Allowed: a number between 0 and 1.")
    return float(value)


@dataclass(frozen=True, eq=False)
class Calibration(EqualByArrays):
    """How improbable the true class of each held-out row was.

    In a class with more than 1,024 rows, neighbouring scores share the highest of them.
    """

    labels: NDArray[np.int64]  # (n_scores,): the class of each score
    scores: NDArray[np.int64]  # (n_scores,): -log P(class | row) in steps, rounded up
    weights: Floats  # (n_scores,): total weight of the rows with that score
    rows: NDArray[np.int64]  # (n_classes,): held-out rows of each class

    @classmethod
    def of(cls, log_posteriors: Floats, labels: NDArray[Any], weights: Floats) -> Calibration:
        """Keep the scores of rows the model wasn't trained on."""
        own = -log_posteriors[np.arange(len(labels)), labels]
        steps = np.minimum(np.ceil(own / STEP - 1e-9), MOST_SCORE).astype(np.int64)
        kept, rows = [], np.bincount(labels[weights > 0], minlength=log_posteriors.shape[1])
        for c in np.flatnonzero(rows):
            mine = np.flatnonzero((labels == c) & (weights > 0))
            mine = mine[np.argsort(steps[mine], kind="stable")]
            for block in np.array_split(mine, min(MOST_KEPT, len(mine))):
                kept.append((c, steps[block[-1]], weights[block].sum()))
        found = np.array(kept, np.float64).reshape(-1, 3).T
        labels, scores = found[:2].astype(np.int64)
        return cls(labels, scores, found[2], rows.astype(np.int64))

    def thresholds(self, coverage: float, *, per_class: bool) -> Floats:
        """Return the highest score at which each class is in a set; infinite with few rows."""
        n_classes, every = len(self.rows), np.ones(len(self.labels), np.bool_)
        if not per_class:
            return np.full(n_classes, self._threshold(coverage, every, int(self.rows.sum())))
        each = enumerate(self.rows.tolist())
        return np.array([self._threshold(coverage, self.labels == c, n) for c, n in each])

    def _threshold(self, coverage: float, chosen: NDArray[np.bool_], n_rows: int) -> float:
        if n_rows == 0:
            return np.inf
        scores, weights = self.scores[chosen], self.weights[chosen]
        order = np.argsort(scores, kind="stable")
        summed = np.cumsum(weights[order])
        # Another row is to come, as heavy as the others on average.
        wanted = coverage * summed[-1] * (1.0 + 1.0 / n_rows)
        at = int(np.searchsorted(summed, wanted * (1.0 - 1e-12)))
        return np.inf if at == len(summed) else float(scores[order][at]) * STEP

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        weights = None if (self.weights == 1.0).all() else self.weights.tolist()
        lists = {name: getattr(self, name).tolist() for name in ("labels", "scores", "rows")}
        return {**lists, "weights": weights}


class PredictionSets:
    """Sets of classes, one per row, that contain the true class with a given coverage.

    ``sets[i]`` is the tuple of row i's labels, ``list(sets)`` has one tuple per row, and
    ``np.asarray(sets)`` is a boolean array, rows by classes.

    Attributes
    ----------
    members : ndarray of bool, shape (n_rows, n_classes)
    classes : ndarray of shape (n_classes,)
    coverage : float
        The share of rows whose set contains their class.
    thresholds : ndarray of float64, shape (n_classes,)
        The smallest probability with which a class is in a set.
    """

    def __init__(
        self, network: Network, chances: Floats, coverage: float, *, per_class: bool
    ) -> None:
        if network.calibration is None:
            raise ConfigurationError(
                "Prediction sets need rows the model wasn't trained on. The default parameters, "
                "'layered', keep those of their folds; give any other model a table of such rows: "
                "calibrate(X, y)."
            )
        self.coverage, self.classes = check_share("coverage", coverage), network.codebook.classes
        scores = network.calibration.thresholds(self.coverage, per_class=per_class)
        self.thresholds, self._few = np.exp(-scores), self.classes[np.isinf(scores)].tolist()
        self.members = chances >= self.thresholds * (1.0 - 1e-12)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of classes in each row's set."""
        return np.asarray(self.members.sum(axis=1))

    def to_pandas(self) -> Any:
        """Return a DataFrame of booleans, one column per class."""
        import pandas as pd

        return pd.DataFrame(self.members, columns=self.classes)

    def note(self) -> str:
        """Explain why sets are empty or full."""
        n_classes, parts = len(self.classes), []
        empty, full = int((self.sizes == 0).sum()), int((self.sizes == n_classes).sum())
        if empty:
            parts.append(
                f"{empty:,} empty: no class is as probable as the own class of "
                f"{self.coverage:.0%} of the held-out rows was."
            )
        few = self._few
        if few:
            needed = int(np.ceil(self.coverage / (1.0 - self.coverage) * (1.0 - 1e-9)))
            parts.append(
                f"{', '.join(map(str, few))} always inside: a coverage of {self.coverage:g} needs "
                f"{needed:,} held-out rows or more."
            )
        elif full:
            parts.append(f"{full:,} with all {n_classes} classes: none can be ruled out.")
        return " ".join(parts)

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        return tuple(self.classes[self.members[row]].tolist())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return map(self.__getitem__, range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.members, dtype=dtype, copy=copy is not False)

    def __repr__(self) -> str:
        sizes = np.bincount(self.sizes, minlength=len(self.classes) + 1)
        found = ", ".join(f"{n:,} of {size}" for size, n in enumerate(sizes) if n)
        head = f"PredictionSets({len(self):,} rows, coverage {self.coverage:g}; sizes: {found})"
        return "\n".join([head, self.note()]).strip()
