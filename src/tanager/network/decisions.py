"""Decisions: the action of least expected cost, and sets of classes that contain the true one.

References
----------
Vovk (2015), DOI 10.1007/s10472-013-9368-4: sets from cross-validation. Sadinle, Lei and Wasserman
(2019), DOI 10.1080/01621459.2017.1395341: sets of least size, per class too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes.rows import EqualByArrays
from tanager.errors import ConfigurationError, DataError, invalid, listed, nearest
from tanager.numerics import Floats
from tanager.parameters import posterior

if TYPE_CHECKING:
    from tanager.network.network import Network

TIE = 1e-9  # relative to the largest cost: smaller differences between actions count as ties


@dataclass(frozen=True, eq=False)
class Costs(EqualByArrays):
    """The cost of each action for each true class.

    Attributes
    ----------
    actions : tuple
        In order of preference: ties in expected cost go to the first.
    matrix : ndarray of float64, shape (n_actions, n_classes)
    """

    actions: tuple[Any, ...]
    matrix: Floats

    @property
    def tolerance(self) -> float:
        """The largest difference in expected cost that counts as a tie."""
        return TIE * float(np.abs(self.matrix).max())

    @property
    def names(self) -> list[str]:
        """The actions as text."""
        return [str(action) for action in self.actions]

    def expected(self, probabilities: Floats) -> Floats:
        """Return the expected cost of each action, (..., n_actions), from (..., n_classes)."""
        # Class by class, because the rounding of a matrix product depends on the number of rows.
        out = np.zeros((*probabilities.shape[:-1], len(self.actions)))
        for c, column in enumerate(self.matrix.T):
            out += probabilities[..., c, None] * column
        return out

    def best(self, expected: Floats) -> NDArray[np.intp]:
        """Return the index of the cheapest action, or the first in case of a tie."""
        least = expected.min(axis=-1, keepdims=True)
        return np.asarray((expected <= least + self.tolerance).argmax(axis=-1))

    def decisions(self, log_joint: Floats) -> Decisions:
        """Return the decisions for rows from log P(class, row), which is overwritten."""
        expected = self.expected(posterior(log_joint))
        labels: NDArray[Any] = np.empty(len(self.actions), object)
        labels[:] = self.actions  # element by element: an action may be a tuple
        if len(kinds := set(map(type, self.actions))) == 1 and tuple not in kinds:
            labels = np.array(self.actions)
        return Decisions(labels[self.best(expected)], expected, self.actions)


@dataclass(frozen=True, eq=False)
class Decisions(EqualByArrays):
    """The action of least expected cost for each row.

    Attributes
    ----------
    actions : ndarray, shape (n_rows,)
        The action of least expected cost; of those within a billionth of the greatest cost, the
        first in `costs`.
    expected_costs : ndarray of float64, shape (n_rows, n_actions)
    names : tuple
        All actions, in the order of the columns of `expected_costs`.
    """

    actions: NDArray[Any]
    expected_costs: Floats
    names: tuple[Any, ...]

    @property
    def margin(self) -> Floats:
        """How much more the second-best action costs, shape (n_rows,); NaN if there's only one."""
        if len(self.names) == 1:
            return np.full(len(self.actions), np.nan)
        least, second = np.partition(self.expected_costs, 1, axis=1)[:, :2].T
        return np.asarray(second - least)

    def to_pandas(self) -> Any:
        """Return a DataFrame: decision, margin and one column per action; needs pandas."""
        import pandas as pd

        columns = {f"cost_{name}": self.expected_costs[:, a] for a, name in enumerate(self.names)}
        return pd.DataFrame({"decision": self.actions, "margin": self.margin, **columns})

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {self.actions.tolist().count(name)}" for name in self.names)
        return f"Decisions({len(self):,} rows: {counts})"


def decide(model: Any, X: Any, costs: Any) -> Decisions:
    """Return the action of least expected cost for each row.

    Parameters
    ----------
    X : table
    costs : mapping, DataFrame, array-like, "absolute" or "squared"
        The cost of each action in each class: a mapping from actions to mappings from classes to
        numbers (or to one number for all classes, such as the price of asking a person), a
        DataFrame with actions as its index and classes as its columns, or, if the actions are the
        classes, an array of shape (n_classes, n_classes), with a row per action. Negative costs are
        gains. For ordered classes (``classes_ordered``), "absolute" charges the number of classes
        the decision is off, and so decides for the median; "squared" its square.

    Returns
    -------
    Decisions
        `actions`, `expected_costs` and `margin`.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> clf = BayesNetClassifier("naive", "laplace")
    >>> clf = clf.fit([["a"], ["b"], ["b"]], ["no", "yes", "yes"])
    >>> costs = {"treat": {"no": 2, "yes": 0}, "wait": {"no": 0, "yes": 9}, "ask": 1}
    >>> found = clf.decide([["a"], ["b"]], costs)
    >>> found.actions.tolist(), found.margin.round(2).tolist()
    (['ask', 'treat'], [0.28, 0.54])
    """
    network: Network = model._asked()
    score = getattr(model, "predict_joint_log_proba", network.log_joint)
    return read_costs(network, costs).decisions(np.asarray(score(X)))


def read_costs(network: Network, costs: Any) -> Costs:
    """Return the costs passed to `decide`; "error" costs one for each wrong decision."""
    if isinstance(costs, Costs):
        return costs
    labels = network.codebook.classes.tolist()
    if isinstance(costs, str):
        place = np.arange(len(labels))
        off = np.abs(place[:, None] - place).astype(np.float64)
        named = {"error": np.minimum(off, 1.0), "absolute": off, "squared": off**2}
        if costs not in named:
            others = "a mapping from actions to what each class costs, a DataFrame or an array"
            raise invalid("costs", costs, f"'absolute', 'squared', {others}")
        if costs != "error" and not network.codebook.target.ordered:
            raise ConfigurationError(
                f"costs={costs!r} needs ordered classes. Name their order at the fit: "
                "classes_ordered=['low', 'mid', 'high'].",
                parameter="costs",
            )
        return Costs(tuple(labels), named[costs])
    names, columns = labels, labels
    if isinstance(costs, Mapping):
        names, rows = list(costs), list(costs.values())
    elif hasattr(costs, "columns"):
        if not hasattr(costs, "index"):
            raise ConfigurationError(
                "This table of costs has names for its classes and none for its actions. Give a "
                "pandas DataFrame with actions as its index, or a mapping.",
                parameter="costs",
            )
        names, columns, rows = list(costs.index), list(costs.columns), costs.to_numpy().tolist()
    else:
        try:
            matrix = np.asarray(costs, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        if matrix.shape != (len(labels), len(labels)):
            raise ConfigurationError(
                f"costs must be {len(labels)} by {len(labels)} numbers, a row per class that is "
                f"decided for and a column per class; got the shape {matrix.shape}. For other "
                "actions, give a mapping or a DataFrame.",
                parameter="costs",
            )
        rows = matrix.tolist()
    if not isinstance(costs, Mapping):
        rows = [dict(zip(columns, row, strict=True)) for row in rows]
    if not names or len(set(map(str, names))) < len(names):
        raise ConfigurationError(f"costs has the actions {names}. Name at least one, each once.")
    pairs = zip(names, rows, strict=True)
    return Costs(tuple(names), np.array([_row(network, *pair) for pair in pairs]))


def is_number(value: Any) -> bool:
    """Return whether it's a finite number."""
    return isinstance(value, Real) and isfinite(value)


def check_share(name: str, value: Any) -> float:
    """Return a level or coverage; raise if it isn't between 0 and 1."""
    if not (is_number(value) and 0 < value < 1):
        raise ConfigurationError(f"{name}={value!r}. Allowed: a number between 0 and 1.")
    return float(value)


def _row(network: Network, action: Any, given: Any) -> Floats:
    """Return the costs of one action, (n_classes,)."""
    labels = network.codebook.classes.tolist()
    row = np.full(len(labels), np.nan)
    for label, cost in given.items() if isinstance(given, Mapping) else [(None, given)]:
        try:
            at = slice(None) if label is None else int(network.codebook.encode_labels([label])[0])
        except DataError:
            known = [str(name) for name in labels]
            raise ConfigurationError(
                f"costs of {action!r}: {label!r} is not one of the classes {listed(known)}."
                f"{nearest(label, known)}"
            ) from None
        if not is_number(cost):
            where = "" if label is None else f" under {label!r}"
            raise ConfigurationError(
                f"costs of {action!r}{where}: {cost!r} isn't a finite number. For an action that's "
                "out of the question, give a large one."
            )
        row[at] = float(cost)
    absent = [str(label) for label, cost in zip(labels, row, strict=True) if np.isnan(cost)]
    if absent:
        raise ConfigurationError(
            f"costs of {action!r} lacks the class{'es' if len(absent) > 1 else ''} "
            f"{listed(absent)}. Give a cost for each class, or one number for all."
        )
    return row


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
            rows = f"the own class of {self.coverage:.0%} of the held-out rows was"
            parts.append(f"{empty:,} empty: no class is as probable as {rows}.")
        if self._few:
            needed = int(np.ceil(self.coverage / (1.0 - self.coverage) * (1.0 - 1e-9)))
            parts.append(
                f"{', '.join(map(str, self._few))} always inside: a coverage of {self.coverage:g} "
                f"needs {needed:,} held-out rows or more."
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
        found = ", ".join(f"{n:,} of {k}" for k, n in enumerate(np.bincount(self.sizes)) if n)
        head = f"PredictionSets({len(self):,} rows, coverage {self.coverage:g}; sizes: {found})"
        return "\n".join([head, self.note()]).strip()
