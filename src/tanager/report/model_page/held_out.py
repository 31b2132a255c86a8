"""Predictions for rows that the predicting model has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tanager.errors import ConfigurationError
from tanager.evaluation import CrossValidation
from tanager.evaluation.importance import loss_without_edges, losses_without_features
from tanager.evaluation.metrics import log_loss, zero_one_loss
from tanager.evaluation.protocol import Split
from tanager.evaluation.runner import complete_probabilities
from tanager.network import Network, NetworkInformation
from tanager.network.own_rows import own_rows
from tanager.parameters import posterior
from tanager.report.model_page.rows import PageRows, n_groups, pool_neighbours

Floats = NDArray[np.float64]

MAX_LOSS_ROWS = 4_000  # rows on which each feature and each edge is left out in turn
MAX_LOSS_FEATURES = 100  # features and edges so tried, the most informative
MAX_LOSS_EDGES = 100
MAX_KNOWN_ROWS = 1_000  # of a fold, with a part of the features unknown
KNOWN_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_SEED = 0
FOLDS = 5  # where nobody says how many
NAIVE_INTERVALS = 10  # of a number, to naive Bayes
NAIVE_FOLDS = 5
LEAST_TRAINING_ROWS = 20  # of a point of the learning curve
LEAST_CURVE_ROWS = 25  # a fifth of them is held out


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Probabilities of rows, and what the model loses on them without a feature or an edge."""

    probabilities: Floats  # (n_rows, n_classes)
    # Whether the rows are those the model was fitted on; None where nobody knows.
    own_rows: bool | None
    folds: int  # folds of cross-validation; 0 where the model itself predicted the rows
    # Rise of the log-loss when a feature is not known, nats a row.
    feature_losses: dict[str, float] = field(default_factory=dict)
    # Rise of the log-loss without an edge (parent, feature).
    edge_losses: dict[tuple[str, str], float] = field(default_factory=dict)
    # In how many folds' models an edge stood again, in either direction.
    edge_folds: dict[tuple[str, str], int] = field(default_factory=dict)
    # The log-loss with a share of the features known and, where asked for, that of a refit on just
    # those; empty where unknown features can't be summed out exactly.
    known: list[dict[str, float]] = field(default_factory=list)


def predict_held_out(
    model: Any, rows: PageRows, *, folds: int | None, with_refits: bool = False
) -> HeldOutRows:
    """Return honest probabilities of rows.

    Rows that the model was fitted on are predicted by cross-validation: the
    same estimator is fitted again without each fold. Any others the model
    predicts itself. With `folds` of None there are five, or as many as there are rows.
    `with_refits` also fits, without each fold, random parts of the columns.
    """
    if folds is None:
        folds = min(FOLDS, len(rows.labels))
    network: Network = getattr(model, "network_", model)
    own = own_rows(network, getattr(model, "info_", {}), rows.n_source, rows.read_all)
    if own and model is not network and folds >= 2:
        return _cross_validate(model, network, rows, folds, with_refits=with_refits)
    if with_refits:
        raise ConfigurationError(
            "Refits on a part of the columns need the rows of the fit, an estimator and two folds "
            "or more. Give the rows the classifier was fitted on, or leave the refits out."
        )
    out = posterior(network.log_joint_of_codes(rows.codes))
    losses = _Losses(network)
    losses.add(network, rows.codes, rows.labels)
    known = _KnownLosses()
    for draw in range(FOLDS):
        known.add(network, rows.codes, rows.labels, draw)
    return HeldOutRows(out, own, 0, losses.of_features(), losses.of_edges(), {}, known.means())


class _KnownLosses:
    """Sums, over folds, the log-loss with a share of the features known, the rest summed out."""

    def __init__(self) -> None:
        self._sums: dict[float, list[Floats]] = {}  # by share: losses of the rows, and the rows

    def add(
        self,
        network: Network,
        codes: Any,
        labels: NDArray[Any],
        fold: int,
        refit: Callable[[list[str], NDArray[np.int64]], Floats] | None = None,
    ) -> None:
        """Add a random set of features for each share, each within the next.

        `refit` predicts some of the rows by a model of some columns alone.
        """
        structure = network.structure
        if not (network.tables.normalized and structure.is_moral() and structure.selected):
            return
        rng = np.random.default_rng((_SEED, fold))
        some = np.sort(rng.permutation(len(labels))[:MAX_KNOWN_ROWS])
        truth, unknown = labels[some], network.codebook.domain.arities.astype(codes.dtype)
        order = rng.permutation(structure.selected)
        for share in KNOWN_SHARES:
            known = np.sort(order[: round(share * len(order))])
            shown = np.repeat(unknown[:, None], len(some), axis=1)
            shown[known] = codes[known][:, some]
            losses = [log_loss(posterior(network.log_joint_of_codes(shown)), truth)]
            if refit is not None and 0 < len(known) < len(order):
                losses.append(log_loss(refit([structure.names[f] for f in known], some), truth))
            self._sums.setdefault(share, []).append(len(some) * np.array([*losses, 1.0]))

    def means(self) -> list[dict[str, float]]:
        """Return each share with the mean losses."""
        out = []
        for share, entries in self._sums.items():
            *losses, n = np.sum(entries, axis=0)
            values = zip(("loss", "refit"), losses, strict=False)
            out.append({"known": share, **{name: float(loss / n) for name, loss in values}})
        return out


class _Losses:
    """Sums, over folds, what their models lose without features and edges of the network."""

    def __init__(self, network: Network) -> None:
        information = NetworkInformation(network)
        carried = information.of_edges()
        self.edges = sorted(carried, key=lambda edge: -carried[edge])[:MAX_LOSS_EDGES]
        bits = information.of_features()
        strongest = sorted(network.structure.selected, key=lambda feature: -bits[feature])
        names = network.codebook.domain.names
        self.features = {names[feature] for feature in strongest[:MAX_LOSS_FEATURES]}
        self._features: dict[str, list[tuple[float, int]]] = {}
        self._edges: dict[tuple[str, str], list[tuple[float, int]]] = {}
        self.found: dict[tuple[str, str], int] = {}

    def add(self, network: Network, codes: Any, labels: NDArray[Any]) -> None:
        step = -(-labels.shape[0] // MAX_LOSS_ROWS)
        codes, labels = np.ascontiguousarray(codes[:, ::step]), labels[::step]
        n, names = labels.shape[0], network.codebook.domain.names
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tried = [f for f in network.structure.selected if names[f] in self.features]
            rises = losses_without_features(network, codes, labels, tried)
            for feature in tried:
                self._features.setdefault(names[feature], []).append((float(rises[feature]), n))
            parents = network.structure.parents
            here = {(p, f) for f, ps in parents.items() for p in ps}
            asked = [e if e in here else e[::-1] for e in self.edges]
            of_edges = loss_without_edges(network, codes, labels, [e for e in asked if e in here])
        for edge, as_found in zip(self.edges, asked, strict=True):
            self.found[edge] = self.found.get(edge, 0) + (as_found in here)
            if as_found in of_edges:
                self._edges.setdefault(edge, []).append((of_edges[as_found], n))

    def of_features(self) -> dict[str, float]:
        return {name: _mean(parts) for name, parts in self._features.items()}

    def of_edges(self) -> dict[tuple[str, str], float]:
        return {edge: _mean(parts) for edge, parts in self._edges.items()}


def _mean(parts: list[tuple[float, int]]) -> float:
    return sum(value * n for value, n in parts) / max(1, sum(n for _, n in parts))


def _cross_validate(
    model: Any, network: Network, rows: PageRows, folds: int, *, with_refits: bool
) -> HeldOutRows:
    protocol = CrossValidation(1, folds, stratified=True)
    out = np.empty((rows.labels.shape[0], network.codebook.domain.n_classes))
    losses, known = _Losses(network), _KnownLosses()
    for fold in range(folds):
        split = protocol.split(rows.labels, _SEED, 0, fold)

        def refit(columns: list[str], some: NDArray[np.int64], split: Split = split) -> Floats:
            fewer = replace(rows, table=rows.table.select(columns))
            try:
                return _fit_and_predict(model, network, fewer, split.train, split.test[some])[1]
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"The options don't allow a fit on a part of the columns. {error} "
                    "Leave the refits out."
                ) from error

        fitted, out[split.test] = _fit_and_predict(model, network, rows, split.train, split.test)
        codes = fitted.codebook.encode(rows.table.take(split.test))
        if fitted.codebook.domain.n_classes == network.codebook.domain.n_classes:
            losses.add(fitted, codes, rows.labels[split.test])
            known.add(fitted, codes, rows.labels[split.test], fold, refit if with_refits else None)
    edges = losses.of_edges(), losses.found
    return HeldOutRows(out, True, folds, losses.of_features(), *edges, known.means())


def _fit_and_predict(
    model: Any, network: Network, rows: PageRows, train: NDArray[np.int64], test: NDArray[np.int64]
) -> tuple[Network, Floats]:
    """Fit the model's estimator on some rows and predict others, for all classes."""
    y = network.codebook.classes[rows.labels[train]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first fit told the user already
        fitted = clone(model).set_params(verbose=0).fit(rows.table.take(train), y)
        probabilities = fitted.predict_proba(rows.table.take(test))
    present = network.codebook.encode_labels(fitted.classes_).astype(np.int64)
    n_classes = network.codebook.domain.n_classes
    return fitted.network_, complete_probabilities(probabilities, present, n_classes, len(train))


def naive_probabilities(network: Network, rows: PageRows) -> Floats:
    """Return what naive Bayes on the model's own codes says, cross-validated on the rows.

    Probabilities are (n + 1/values) / (N + 1); an unknown value says nothing. Of numbers it
    reads at most ten intervals of equal frequency: finer ones would make it worse.
    """
    domain, n_rows = network.codebook.domain, rows.labels.shape[0]
    fold = np.random.default_rng(_SEED).permutation(n_rows) % max(2, min(NAIVE_FOLDS, n_rows))
    out = np.empty((n_rows, domain.n_classes))
    for at in range(int(fold.max(initial=0)) + 1):
        test, train = fold == at, fold != at
        labels = rows.labels[train]
        classes = np.bincount(labels, minlength=domain.n_classes)
        scores = np.zeros((int(test.sum()), domain.n_classes))
        scores += np.log((classes + 1.0) / (classes.sum() + domain.n_classes))
        for i, values in enumerate(domain.arities):
            counts = np.bincount(rows.codes[i, train], minlength=values + 1)[:values]
            groups = pool_neighbours(counts, domain.n_ordered[i], NAIVE_INTERVALS)
            arity = n_groups(groups)
            codes = np.append(groups, arity).astype(np.int64)[rows.codes[i]]
            cells = codes[train] * domain.n_classes + labels
            joint = np.bincount(cells, minlength=(arity + 1) * domain.n_classes)
            joint = joint.reshape(-1, domain.n_classes)[:arity]
            table = np.log((joint + 1.0 / max(1, arity)) / (joint.sum(axis=0) + 1.0))
            scores += np.vstack([table, np.zeros(domain.n_classes)])[codes[test]]
        out[test] = posterior(scores)
    return out


def learning_curve(
    model: Any, rows: PageRows, progress: Callable[[str], None] | None = None
) -> list[dict[str, float]]:
    """Fit on 1/16, 1/8, ... of the rows and measure on a fifth that no fit sees."""
    network: Network = getattr(model, "network_", model)
    if model is network:
        raise ConfigurationError(
            "A learning curve needs the estimator, to fit it again; a network alone does not "
            "know how it was learned. Give the classifier, or a model file that holds one."
        )
    if len(rows.labels) < LEAST_CURVE_ROWS:
        raise ConfigurationError(
            f"A learning curve needs {LEAST_CURVE_ROWS} rows or more; the table has "
            f"{len(rows.labels)}. Leave it out."
        )
    split = CrossValidation(1, FOLDS, stratified=True).split(rows.labels, _SEED, 0, 0)
    order = np.random.default_rng(_SEED).permutation(split.train)
    truth, curve = rows.labels[split.test], []
    for halvings in (4, 3, 2, 1, 0):
        train = np.sort(order[: len(order) >> halvings])
        if len(train) < LEAST_TRAINING_ROWS or len(np.unique(rows.labels[train])) < 2:
            continue
        if progress is not None:
            progress(f"learning curve, {len(train):,} rows")
        _, out = _fit_and_predict(model, network, rows, train, split.test)
        curve.append(
            {"rows": len(train), "loss": log_loss(out, truth), "errors": zero_one_loss(out, truth)}
        )
    return curve
