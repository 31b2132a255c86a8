"""What a model would lose: a feature not known, an edge not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.codes.groups import group_codes
from tanager.errors import DataError
from tanager.network import Network, NetworkInformation
from tanager.network.coarse import Coarse
from tanager.network.network import network_of
from tanager.parameters import Tables, log_posterior
from tanager.parameters.tables import family_members
from tanager.structure import Structure

__all__ = [
    "loss_without_edges",
    "loss_without_features",
    "losses_without_features",
]

Floats = NDArray[np.float64]

# As `tanager.evaluation.metrics.log_loss`: no row is worse than this.
_FLOOR = float(np.log(np.finfo(np.float64).eps))


def loss_without_features(model: Any, X: Any, y: ArrayLike) -> Floats:
    """Return how much the log-loss rises when a feature is not known, one number a feature.

    Parameters
    ----------
    model : BayesNetClassifier or Network
    X : table
        Rows that the model was not fitted on; on its own rows every feature
        seems to matter.
    y : array-like
        Their classes.

    Returns
    -------
    ndarray of shape (n_features,)
        In nats a row; zero for features that the structure left out. Below zero
        the model would be better without the feature, on these rows.

    Notes
    -----
    The feature is summed out exactly, so this is the loss of the same joint
    distribution that knows one feature less: no retraining, no permutation, and
    no row that could not exist. Two features that say the same each lose little.

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
    network: Network,
    codes: Any,
    labels: NDArray[Any],
    features: Sequence[int] | None = None,
) -> Floats:
    """Return what `loss_without_features` does, of rows that are already coded.

    `features` are those to try, by default all of the structure; the others
    stay zero.
    """
    changes = _Changes(network, codes)
    before = _losses(changes.log_joint, labels).mean()
    out = np.zeros(codes.shape[0])
    for feature in network.structure.selected if features is None else features:
        out[feature] = _losses(changes.without_feature(feature), labels).mean() - before
    return out


def loss_without_edges(
    network: Network,
    codes: Any,
    labels: NDArray[Any],
    edges: Sequence[tuple[str, str]] | None = None,
) -> dict[tuple[str, str], float]:
    """Return how much the log-loss of coded rows rises without each edge (parent, feature).

    `edges` are those to try, by default all. Without the edge the feature's
    table is that of the network's own joint distribution
    (`NetworkInformation.without_edge`). Edges into families too large to be
    spelled out are absent.
    """
    information = NetworkInformation(network)
    changes = _Changes(network, codes)
    before = _losses(changes.log_joint, labels).mean()
    if edges is None:
        edges = [(p, f) for f, parents in network.structure.parents.items() for p in parents]
    out = {}
    for parent, feature in edges:
        fewer = information.without_edge(parent, feature)
        if fewer is not None:
            out[parent, feature] = float(
                _losses(changes.with_family_of(fewer, feature), labels).mean() - before
            )
    return out


class _Changes:
    """The log-joint of rows after small changes of a network.

    In rows that are known in full only the families that a change touches are
    looked up again; rows with unknown values are scored anew. A feature is summed out by
    the classes of values that its tables tell apart: of hundreds of values a dozen.
    """

    def __init__(self, network: Network, codes: Any) -> None:
        self.network = network
        self.codes = codes
        self.arities = network.codebook.domain.arities
        self.log_joint = network.log_joint_of_codes(codes)
        selected = list(network.structure.selected)
        gaps = (codes[selected] >= self.arities[selected, None]).any(axis=0)
        self.full, self.gappy = np.flatnonzero(~gaps), np.flatnonzero(gaps)
        self.known = np.ascontiguousarray(codes[:, self.full])
        self.coarse = Coarse.of(network.tables, network.structure, self.arities)
        self.children: dict[int, list[int]] = {feature: [] for feature in selected}
        for at, parents in enumerate(network.structure.parent_indices):
            for parent in parents:
                self.children[parent].append(at)

    def without_feature(self, feature: int) -> Floats:
        """Return the log-joint with one feature not known."""
        out = self.log_joint.copy()
        at = self.network.structure.selected.index(feature)
        out[self.full] -= self._own_terms(at)
        if self.children[feature]:
            out[self.full] += self._log_average(at, feature)
        if self.gappy.size:
            changed = np.ascontiguousarray(self.codes[:, self.gappy])
            changed[feature] = self.arities[feature]
            out[self.gappy] = self.network.log_joint_of_codes(changed)
        return out

    def with_family_of(self, other: Network, feature: str) -> Floats:
        """Return the log-joint with one feature's family as another network has it."""
        out = self.log_joint.copy()
        at = self.network.structure.position(feature)
        out[self.full] += _terms(other.tables, other.structure, [at], self.known, self.arities)
        out[self.full] -= self._own_terms(at)
        if self.gappy.size:
            out[self.gappy] = other.log_joint_of_codes(
                np.ascontiguousarray(self.codes[:, self.gappy])
            )
        return out

    def _own_terms(self, at: int) -> Floats:
        """Return the terms of one family, (n_rows, n_classes)."""
        network = self.network
        return _terms(network.tables, network.structure, [at], self.known, self.arities)

    def _log_average(self, at: int, feature: int) -> Floats:
        """Return the log of what children say, averaged over the feature, less what they say."""
        tables, codes, arities = self.network.tables, self.known, self.arities
        if self.coarse is not None:
            tables, codes = self.coarse.tables, group_codes(self.known, self.coarse.views)
            arities = np.array([int(view.max()) + 1 for view in self.coarse.views], np.int64)
        structure, children = self.network.structure, self.children[feature]
        changed = codes.copy()
        summed = np.full((self.full.size, self.log_joint.shape[1]), -np.inf)
        for value in range(int(arities[feature])):
            changed[feature] = value
            np.logaddexp(
                summed, _terms(tables, structure, [at, *children], changed, arities), out=summed
            )
        return summed - _terms(tables, structure, children, codes, arities)


def _terms(
    tables: Tables,
    structure: Structure,
    families: Sequence[int],
    codes: Any,
    arities: NDArray[np.int64],
) -> Floats:
    """Return the sum of some families' terms, (n_rows, n_classes)."""
    out = np.zeros((codes.shape[1], tables.log_prior.shape[0]))
    for at in families:
        tables.families[at].add_terms(codes, arities, family_members(structure, at), out)
    return out


def _losses(log_joint: Floats, labels: NDArray[Any]) -> Floats:
    """Return -log P(true class | row), shape (n_rows,); no row is worse than the floor."""
    log_posteriors = log_posterior(log_joint.copy())
    of_truth = log_posteriors[np.arange(labels.shape[0]), labels]
    return -np.maximum(of_truth, _FLOOR)
