"""Increase in log-loss without a feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.errors import DataError
from tanager.evaluation.metrics import log_loss
from tanager.network import Network
from tanager.network.network import network_of
from tanager.parameters import posterior

Floats = NDArray[np.float64]


def loss_without_features(model: Any, X: Any, y: ArrayLike) -> Floats:
    """Return the increase in log-loss when a feature is unknown, one number per feature.

    `model` is a classifier or a network, and X and y are rows it wasn't trained on; on training
    rows, every feature seems to matter. The numbers are in nats per row, and zero for features
    that the structure left out. If negative, the model would be better without the feature on
    these rows.

    Notes
    -----
    The feature is summed out exactly, so this is the loss of the same joint
    distribution with one feature unobserved: no retraining, no permutation, and
    no impossible rows. Two redundant features each have a small loss.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.evaluation.importance import loss_without_features
    >>> X = [["a", "u"], ["b", "u"], ["a", "v"], ["b", "v"]] * 10
    >>> clf = BayesNetClassifier("naive", "laplace").fit(X, [0, 1, 0, 1] * 10)
    >>> loss_without_features(clf, X, [0, 1, 0, 1] * 10).round(2)
    array([0.65, 0.  ])
    """
    network = network_of(model)
    codes, labels = network.codebook.encode(X), network.codebook.encode_labels(y)
    if codes.shape[1] != labels.shape[0]:
        raise DataError(f"X has {codes.shape[1]} rows, but y has {labels.shape[0]}.")
    return losses_without_features(network, codes, labels)


def losses_without_features(
    network: Network, codes: Any, labels: NDArray[Any], features: Sequence[int] | None = None
) -> Floats:
    """Return `loss_without_features` of coded rows; zero for features that aren't tried."""
    before, out = _loss(network, codes, labels), np.zeros(codes.shape[0])
    for feature in network.structure.selected if features is None else features:
        fewer = codes.copy()
        fewer[feature] = network.codebook.domain.arities[feature]  # unknown
        out[feature] = _loss(network, fewer, labels) - before
    return out


def _loss(network: Network, codes: Any, labels: NDArray[Any]) -> float:
    return log_loss(posterior(network.log_joint_of_codes(codes)), labels)
