"""Why one row is classified as it is: the log-odds, split by feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes.rows import EqualByArrays
from tanager.errors import ConfigurationError, DataError
from tanager.network.network import Network

__all__ = ["Explanation", "explain_row"]


@dataclass(frozen=True, eq=False)
class Explanation(EqualByArrays):
    """The log-odds of two classes for one row, split exactly.

    Attributes
    ----------
    target, against : object
        The two classes.
    prior : float
        Log-odds before any feature is known.
    features, values : tuple of str
        The features of the network and what the row has for them: of a number the
        number itself and the interval it falls into, as ``53, in (45, 60]``.
    contributions : ndarray of float64, shape (n_features,)
        What each feature adds; `prior` and they sum to `posterior`.
    classes : tuple
        All classes.
    probabilities : ndarray of float64, shape (n_classes,)
        The posterior of the row.
    """

    target: Any
    against: Any
    prior: float
    features: tuple[str, ...]
    values: tuple[str, ...]
    contributions: NDArray[np.float64]
    classes: tuple[Any, ...]
    probabilities: NDArray[np.float64]

    @property
    def posterior(self) -> float:
        """Log-odds given the row."""
        return self.prior + float(self.contributions.sum())

    def strongest(self, n: int) -> list[int]:
        """Return the positions of the n largest contributions, largest first."""
        order = np.argsort(-np.abs(self.contributions), kind="stable")
        return [int(at) for at in order[:n]]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "target": _plain(self.target),
            "against": _plain(self.against),
            "probabilities": {
                str(label): float(p)
                for label, p in zip(self.classes, self.probabilities, strict=True)
            },
            "prior_log_odds": self.prior,
            "posterior_log_odds": self.posterior,
            "contributions": [
                {"feature": f, "value": v, "log_odds": float(c)}
                for f, v, c in zip(self.features, self.values, self.contributions, strict=True)
            ],
        }


def explain_row(
    network: Network, X: Any, *, target: Any = None, against: Any = None
) -> Explanation:
    """Split the log-odds of one row.

    Parameters
    ----------
    network : Network or BayesNetClassifier
    X : table of one row
    target : a class, optional
        By default the most probable class of the row.
    against : a class, optional
        By default the most probable of the others.
    """
    network = getattr(network, "network_", network)  # a classifier will do
    codes = network.codebook.encode(X)
    if codes.shape[1] != 1:
        raise DataError(f"One row is explained at a time; the table has {codes.shape[1]}.")
    raw = _raw_values(network, X)
    terms = network.log_terms(codes)[0]  # (n_features, n_classes)
    log_joint = network.log_prior + terms.sum(axis=0)
    weights = np.exp(log_joint - log_joint.max())
    probabilities = weights / weights.sum()
    classes = tuple(network.codebook.classes.tolist())
    best = int(np.argmax(log_joint)) if target is None else find_class(classes, target)
    others = np.where(np.arange(len(classes)) == best, -np.inf, log_joint)
    rival = int(np.argmax(others)) if against is None else find_class(classes, against)
    if best == rival:
        raise ConfigurationError(
            f"The class {classes[best]!r} is to be explained against itself. Name two classes."
        )
    selected = network.structure.selected
    odds = terms[list(selected), best] - terms[list(selected), rival]
    return Explanation(
        classes[best],
        classes[rival],
        float(network.log_prior[best] - network.log_prior[rival]),
        network.structure.features,
        tuple(
            _value(network, feature, int(codes[feature, 0]), raw[feature]) for feature in selected
        ),
        odds,
        classes,
        probabilities,
    )


def find_class(classes: tuple[Any, ...], label: Any) -> int:
    """Return the position of a class, given as itself or as its text."""
    for at, known in enumerate(classes):
        if known == label or str(known) == str(label):
            return at
    known = ", ".join(map(repr, classes[:20]))
    raise ConfigurationError(f"{label!r} is not one of the classes {known}.")


def _raw_values(network: Network, X: Any) -> list[Any]:
    """Return the row's cells as they are read, before they become codes."""
    source, names = network.codebook.open(X)
    batch = next(source.batches(names))
    return [column[0].as_py() for column in batch.columns]


def _value(network: Network, feature: int, code: int, raw: Any) -> str:
    """Say what the row has: of a number itself and its interval, else the value."""
    column = network.codebook.columns[feature]
    labels = column.labels()
    label = labels[code] if code < len(labels) else "unknown"
    reading = network.codebook.readings.get(column.name)
    if reading is not None and reading.kind == "nothing":
        return "left out"
    if column.kind != "numeric" or raw is None or raw != raw or code == column.missing_code:
        return label
    shown = f"{raw:.6g}" if isinstance(raw, int | float) else str(raw)
    return f"{shown}, in {label}" if label.startswith("(") else f"{shown}, {label}"


def _plain(label: Any) -> Any:
    return label if isinstance(label, bool | int | float | str) else str(label)
