"""Predictions for rows that the model wasn't trained on."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

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
Key = TypeVar("Key")

MAX_LOSS_ROWS = 4_000  # rows on which each feature and each edge is left out in turn
MAX_LOSS_FEATURES = 100  # features and edges to leave out, the most informative
MAX_LOSS_EDGES = 100
MAX_KNOWN_ROWS = 1_000  # rows per fold to predict with part of the features unknown
KNOWN_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_SEED = 0
FOLDS = 5  # by default
BASELINE_INTERVALS = 10  # of a number, for naive Bayes and logistic regression
BASELINE_FOLDS = 5
LOGISTIC_SIZE = 30_000_000  # rows x features x classes: about six seconds per fold
LEAST_TRAINING_ROWS = 20  # for a point of the learning curve
LEAST_CURVE_ROWS = 25  # a fifth of them is held out


@dataclass(frozen=True, eq=False)
class Measurement:
    """Predicted probabilities of rows, and the loss added by leaving out a feature or an edge."""

    probabilities: Floats  # (n_rows, n_classes)
    # Whether the rows are those the model was fitted on; None if unknown.
    own_rows: bool | None
    folds: int  # cross-validation folds; 0 if the model itself predicted the rows
    # Increase in log-loss when a feature is unknown, nats per row.
    feature_losses: dict[str, float] = field(default_factory=dict)
    # Increase in log-loss without an edge (parent, feature).
    edge_losses: dict[tuple[str, str], float] = field(default_factory=dict)
    # Number of folds whose model has an edge too, in either direction.
    edge_folds: dict[tuple[str, str], int] = field(default_factory=dict)
    # The log-loss with a share of the features known and, if requested, that of a refit on just
    # those; empty if unknown features can't be summed out exactly.
    known: list[dict[str, float]] = field(default_factory=list)


def predict_held_out(
    model: Any, rows: PageRows, *, folds: int | None, with_refits: bool = False
) -> Measurement:
    """Return out-of-sample probabilities of rows.

    Rows that the model was fitted on are predicted by cross-validation: the
    same estimator is refitted without each fold. Any other rows are predicted by
    the model itself. If `folds` is None, there are five, or as many as there are rows.
    `with_refits` also refits on random subsets of the columns without each fold.
    """
    if folds is None:
        folds = min(FOLDS, len(rows.labels))
    network: Network = getattr(model, "network_", model)
    own = own_rows(network, getattr(model, "info_", {}), rows.n_source, rows.read_all)
    if own and model is not network and folds >= 2:
        return _cross_validate(model, network, rows, folds, with_refits=with_refits)
    if with_refits:
        raise ConfigurationError(
            "Refits on subsets of the columns need the training data, an estimator and at least "
            "two folds. Pass the rows the classifier was fitted on, or turn the refits off."
        )
    out = posterior(network.log_joint_of_codes(rows.codes))
    losses = _Losses(network)
    losses.add(network, rows.codes, rows.labels)
    known = _KnownLosses()
    for draw in range(FOLDS):
        known.add(network, rows.codes, rows.labels, draw)
    found = losses.of_features.to_dict(), losses.of_edges.to_dict()
    return Measurement(out, own, 0, *found, {}, known.means())


class _Means(Generic[Key]):
    """Means by key over folds, weighted by the number of rows of a fold."""

    def __init__(self) -> None:
        self._sums: defaultdict[Key, Floats] = defaultdict(lambda: np.zeros(2))

    def add(self, key: Key, value: float, n_rows: int) -> None:
        self._sums[key] += np.array([value * n_rows, n_rows])

    def to_dict(self) -> dict[Key, float]:
        return {key: float(total / n) for key, (total, n) in self._sums.items()}


class _KnownLosses:
    """Collects, over folds, the log-loss with a share of the features known, others summed out."""

    def __init__(self) -> None:
        self._means: _Means[tuple[float, str]] = _Means()

    def add(
        self,
        network: Network,
        codes: Any,
        labels: NDArray[Any],
        fold: int,
        refit: Callable[[list[str], NDArray[np.int64]], Floats] | None = None,
    ) -> None:
        """Add a random set of features for each share, each a subset of the next.

        `refit` predicts some of the rows with a model of some columns only.
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
            loss = log_loss(posterior(network.log_joint_of_codes(shown)), truth)
            self._means.add((share, "loss"), loss, len(some))
            if refit is not None and 0 < len(known) < len(order):
                again = refit([structure.names[f] for f in known], some)
                self._means.add((share, "refit"), log_loss(again, truth), len(some))

    def means(self) -> list[dict[str, float]]:
        """Return each share with the mean losses."""
        out: dict[float, dict[str, float]] = {}
        for (share, name), loss in self._means.to_dict().items():
            out.setdefault(share, {"known": share})[name] = loss
        return list(out.values())


class _Losses:
    """Collects, over folds, the loss added by leaving out features and edges of the network."""

    def __init__(self, network: Network) -> None:
        information = NetworkInformation(network)
        carried, bits = information.of_edges(), information.of_features()
        self.edges = sorted(carried, key=lambda edge: -carried[edge])[:MAX_LOSS_EDGES]
        strongest = sorted(network.structure.selected, key=lambda feature: -bits[feature])
        names = network.codebook.domain.names
        self.features = {names[feature] for feature in strongest[:MAX_LOSS_FEATURES]}
        self.of_features: _Means[str] = _Means()
        self.of_edges: _Means[tuple[str, str]] = _Means()
        self.found = dict.fromkeys(self.edges, 0)

    def add(self, network: Network, codes: Any, labels: NDArray[Any]) -> None:
        step = -(-labels.shape[0] // MAX_LOSS_ROWS)
        codes, labels = np.ascontiguousarray(codes[:, ::step]), labels[::step]
        n, names = labels.shape[0], network.codebook.domain.names
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tried = [f for f in network.structure.selected if names[f] in self.features]
            rises = losses_without_features(network, codes, labels, tried)
            for feature in tried:
                self.of_features.add(names[feature], rises[feature], n)
            parents = network.structure.parents
            here = {(p, f) for f, ps in parents.items() for p in ps}
            asked = {edge: edge if edge in here else edge[::-1] for edge in self.edges}
            present = [edge for edge in asked.values() if edge in here]
            without = loss_without_edges(network, codes, labels, present)
        for edge, as_found in asked.items():
            self.found[edge] += as_found in here
            if as_found in without:
                self.of_edges.add(edge, without[as_found], n)


def _cross_validate(
    model: Any, network: Network, rows: PageRows, folds: int, *, with_refits: bool
) -> Measurement:
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
                    f"These options don't allow refitting on a subset of the columns. {error} "
                    "Turn the refits off."
                ) from error

        fitted, out[split.test] = _fit_and_predict(model, network, rows, split.train, split.test)
        codes = fitted.codebook.encode(rows.table.take(split.test))
        if fitted.codebook.domain.n_classes == network.codebook.domain.n_classes:
            losses.add(fitted, codes, rows.labels[split.test])
            known.add(fitted, codes, rows.labels[split.test], fold, refit if with_refits else None)
    found = losses.of_features.to_dict(), losses.of_edges.to_dict(), losses.found
    return Measurement(out, True, folds, *found, known.means())


def _fit_and_predict(
    model: Any, network: Network, rows: PageRows, train: NDArray[np.int64], test: NDArray[np.int64]
) -> tuple[Network, Floats]:
    """Fit the model's estimator on some rows and predict others, for all classes."""
    y = network.codebook.classes[rows.labels[train]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first fit warned the user already
        fitted = clone(model).set_params(verbose=0).fit(rows.table.take(train), y)
        probabilities = fitted.predict_proba(rows.table.take(test))
    present = network.codebook.encode_labels(fitted.classes_).astype(np.int64)
    n_classes = network.codebook.domain.n_classes
    return fitted.network_, complete_probabilities(probabilities, present, n_classes, len(train))


def baseline_probabilities(network: Network, rows: PageRows) -> dict[str, Floats]:
    """Return cross-validated probabilities of logistic regression and naive Bayes on the rows.

    Both use the model's own codes, with numbers pooled into at most ten intervals of equal
    frequency: finer ones would make them worse. An unknown value contributes nothing. Naive
    Bayes, with probabilities (n + 1/values) / (N + 1), is only shown for a model with edges.
    Logistic regression (one-hot, L2 penalty of strength 1) is fitted on fewer rows if
    rows x features x classes exceeds `LOGISTIC_SIZE`.
    """
    domain, n_rows = network.codebook.domain, rows.labels.shape[0]
    fold = np.random.default_rng(_SEED).permutation(n_rows) % max(2, min(BASELINE_FOLDS, n_rows))
    names = ["logistic"] + (["naive"] if any(network.structure.parent_indices) else [])
    out = {name: np.empty((n_rows, domain.n_classes)) for name in names}
    for at in range(int(fold.max(initial=0)) + 1):
        test, train = np.flatnonzero(fold == at), np.flatnonzero(fold != at)
        codes, arities = [], []
        for i, values in enumerate(domain.arities):
            counts = np.bincount(rows.codes[i, train], minlength=values + 1)[:values]
            groups = pool_neighbours(counts, domain.n_ordered[i], BASELINE_INTERVALS)
            arities.append(n_groups(groups))
            codes.append(np.append(groups, arities[-1]).astype(np.int32)[rows.codes[i]])
        for name, predict in (("naive", _naive_bayes), ("logistic", _logistic_regression)):
            if name in out:
                given = _BaselineFold(codes, arities, rows.labels, domain.n_classes, train, test)
                out[name][test] = predict(given)
    return out


class _BaselineFold(NamedTuple):
    """Rows as a baseline reads them, and which of them it learns from and predicts."""

    codes: list[NDArray[np.int32]]  # per feature, (n_rows,)
    arities: list[int]
    labels: NDArray[Any]
    n_classes: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def _naive_bayes(fold: _BaselineFold) -> Floats:
    """Return the probabilities of the test rows, from counts of the training rows."""
    codes, arities, labels, n_classes, train, test = fold
    classes = np.bincount(labels[train], minlength=n_classes)
    scores = np.zeros((len(test), n_classes))
    scores += np.log((classes + 1.0) / (classes.sum() + n_classes))
    for column, arity in zip(codes, arities, strict=True):
        cells = column[train].astype(np.int64) * n_classes + labels[train]
        joint = np.bincount(cells, minlength=(arity + 1) * n_classes)
        joint = joint.reshape(-1, n_classes)[:arity]
        table = np.log((joint + 1.0 / max(1, arity)) / (joint.sum(axis=0) + 1.0))
        scores += np.vstack([table, np.zeros(n_classes)])[column[test]]
    return posterior(scores)


def _logistic_regression(fold: _BaselineFold) -> Floats:
    """Return the probabilities of the test rows; class frequencies if only one class is left."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    codes, arities, labels, n_classes, train, test = fold
    most = max(LEAST_TRAINING_ROWS, LOGISTIC_SIZE // max(1, len(codes) * n_classes))
    train = np.sort(np.random.default_rng(_SEED).permutation(train)[:most])
    present = np.unique(labels[train]).astype(np.int64)
    if len(present) < 2 or not codes:
        counts = np.bincount(labels[train], minlength=n_classes) + 1.0
        return np.broadcast_to(counts / counts.sum(), (len(test), n_classes))
    rows = np.stack(codes, axis=1)
    # An unknown value, coded after the last, has no column.
    one_hot = OneHotEncoder(categories=[np.arange(n) for n in arities], handle_unknown="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a nearly converged baseline is good enough
        model = LogisticRegression().fit(one_hot.fit_transform(rows[train]), labels[train])
    found = model.predict_proba(one_hot.transform(rows[test]))
    return complete_probabilities(found, present, n_classes, len(train))


def learning_curve(
    model: Any, rows: PageRows, progress: Callable[[str], None] | None = None
) -> list[dict[str, float]]:
    """Fit on 1/16, 1/8, ... of the rows and evaluate on a held-out fifth."""
    network: Network = getattr(model, "network_", model)
    if model is network:
        raise ConfigurationError(
            "A learning curve refits the estimator, but a Network doesn't record how it was "
            "trained. Pass the classifier, or a model file that contains one."
        )
    if len(rows.labels) < LEAST_CURVE_ROWS:
        raise ConfigurationError(
            f"A learning curve needs at least {LEAST_CURVE_ROWS} rows; the table has "
            f"{len(rows.labels)}. Turn it off."
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
