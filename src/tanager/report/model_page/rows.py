"""The rows that a page evaluates the model on, and predictions by models not trained on them."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from tanager.codes import Codes, MatchedTable, Rows
from tanager.codes.hashing import row_hash
from tanager.errors import ConfigurationError, DataError
from tanager.evaluation import CrossValidation
from tanager.evaluation.metrics import log_loss, losses_without_features
from tanager.evaluation.runner import complete_probabilities
from tanager.network import Network, NetworkInformation
from tanager.network.reference import count_values, labelled_rows, own_rows
from tanager.numerics import Floats
from tanager.parameters import posterior
from tanager.sources import Source


def pool_neighbours(weights: ArrayLike, n_ordered: int, most: int) -> NDArray[np.uint16]:
    """Return groups of neighbours of about equal weight, at most `most`.

    `weights` (arity,) is the number or share of rows of each value. The first `n_ordered`
    values are ordered, and left ungrouped if there are at most `most`; the others ("missing")
    are never grouped.

    >>> pool_neighbours([10, 10, 10, 10, 40, 5], n_ordered=5, most=2).tolist()
    [0, 0, 0, 0, 1, 2]
    """
    share = np.asarray(weights, float)
    if n_ordered <= most:
        return np.arange(len(share), dtype=np.uint16)
    ends = np.cumsum(share[:n_ordered])
    middles = (ends - share[:n_ordered] / 2) / max(ends[-1], np.finfo(float).tiny)
    groups = np.unique(np.minimum((middles * most).astype(np.int64), most - 1), return_inverse=True)
    rest = groups[1].max() + 1 + np.arange(len(share) - n_ordered)
    return np.concatenate([groups[1], rest]).astype(np.uint16)


def n_groups(groups: NDArray[np.integer]) -> int:
    """Return the number of groups.

    >>> n_groups(np.array([0, 0, 1], np.uint16)), n_groups(np.array([], np.uint16))
    (2, 0)
    """
    return int(groups.max()) + 1 if len(groups) else 0


MAX_ROWS = 100_000
_SEED = 18  # for sampling rows of a large source
# Predicts some of a fold's rows with the estimator refitted on some columns only.
Refit = Callable[[list[str], NDArray[np.int64]], Floats]

MAX_LOSS_ROWS = 4_000  # rows on which each feature is left out in turn
MAX_LOSSES = 100  # features to leave out, the most informative
MAX_KNOWN_ROWS = 1_000  # rows per fold to predict with part of the features unknown
KNOWN_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_FOLD_SEED = 0
FOLDS = 5  # by default
BASELINE_INTERVALS = 10  # of a number, for logistic regression
LOGISTIC_SIZE = 30_000_000  # rows x features x classes: about six seconds per fold


@dataclass(frozen=True, eq=False)
class PageRows:
    """Rows with their classes."""

    table: pa.Table  # the features, under the model's names
    codes: Codes  # (n_features, n_rows): from the model's codebook
    labels: NDArray[np.uint16]  # (n_rows,): the classes, as codes
    index: NDArray[np.int64]  # (n_rows,): the rows' positions in the source
    n_source: int  # rows of the source, of which only a sample is kept if large
    every: Rows  # all rows; those of a large source are read again

    def value_counts(self, feature: int) -> Floats:
        """Return N(x, y) of one feature, shape (arity, n_classes), without unknown values."""
        domain = self.every.domain
        arity = int(domain.arities[feature])
        return count_values(self.codes[feature], self.labels, arity, domain.n_classes)


def read_rows(network: Network, X: Any, y: Any, *, max_rows: int = MAX_ROWS) -> PageRows:
    """Read rows and their classes; of a large source, a sample drawn by a hash of the index.

    `y` are the classes, or their column in `X`; other columns unknown to the model are ignored.
    """
    codebook, target = network.codebook, y if isinstance(y, str) else None
    matched = MatchedTable.of(codebook, X, target=target, ignore_extra=True)
    table, index = _read(matched.values, matched.columns, max_rows)
    n_source, every = matched.values.n_rows, None
    if target is None:
        every = codebook.encode_labels(y)
        if every.shape[0] != n_source:
            raise DataError(f"X has {n_source} rows, but y has {every.shape[0]}.")
        labels = every[index]
    else:
        missing = np.flatnonzero(np.asarray(table[target].is_null()))
        # Errors give the row number in the table, also for a sample.
        start = int(index[missing[0]] - missing[0]) if len(missing) else 0
        labels = codebook.encode_labels(table[target], name=target, start=start)
    table = table.select(matched.features).rename_columns(codebook.domain.names)
    codes = codebook.encode(table)
    all_rows = Rows.in_memory(codebook.domain, codes, labels)
    if len(labels) < n_source:
        all_rows = labelled_rows(matched, every)
    return PageRows(table, codes, labels, index, n_source, all_rows)


def _read(source: Source, columns: list[str], max_rows: int) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the rows with the smallest hashes, and their positions."""
    # A bound that slightly more rows meet than are kept.
    share = min(1.0, (1.1 * max_rows + 100) / source.n_rows)
    bound, before = np.uint64(min(int(share * 2**64), 2**64 - 1)), 0
    batches: list[pa.RecordBatch] = []
    places: list[NDArray[np.int64]] = []
    for batch in source.batches(columns):
        index = np.arange(before, before + batch.num_rows)
        before += batch.num_rows
        chosen = row_hash(_SEED, index) <= bound
        batches.append(batch if chosen.all() else batch.filter(pa.array(chosen)))
        places.append(index[chosen])
    table, index = pa.Table.from_batches(batches), np.concatenate(places)
    if len(index) > max_rows:
        least = np.sort(np.argsort(row_hash(_SEED, index), kind="stable")[:max_rows])
        table, index = table.take(pa.array(least)), index[least]
    return table, index


class Measurement(NamedTuple):
    """Predicted probabilities of rows, and the loss added by leaving out a feature."""

    probabilities: Floats  # (n_rows, n_classes)
    own_rows: bool | None  # whether the model was fitted on these rows; None if unknown
    folds: int  # cross-validation folds; 0 if the model itself predicted the rows
    feature_losses: dict[str, float]  # nats per row by which the loss rises if it's unknown
    # Number of folds whose model has an edge (parent, feature) too, in either direction.
    edge_folds: dict[tuple[str, str], int]
    # Shares of features known, with the log-loss and that of a refit on just those, if asked for;
    # empty if unknown features can't be summed out exactly.
    known: list[tuple[float, float, float | None]]


def predict_held_out(
    model: Any, rows: PageRows, *, folds: int | None, with_refits: bool = False
) -> Measurement:
    """Return out-of-sample probabilities of rows.

    Rows that the model was fitted on are predicted by cross-validation with the same estimator, any
    other rows by the model itself. If `folds` is None, there are five, or as many as there are
    rows. `with_refits` also refits on random subsets of the columns without each fold.
    """
    if folds is None:
        folds = min(FOLDS, len(rows.labels))
    network: Network = getattr(model, "network_", model)
    own = own_rows(getattr(model, "info_", {}), rows.every)
    losses = _Losses(network)
    if not own or model is network or folds < 2:
        if with_refits:
            raise ConfigurationError(
                "Refits on subsets of the columns need the training data, an estimator and at "
                "least two folds. Pass the rows the classifier was fitted on, or turn the refits "
                "off."
            )
        out = posterior(network.log_joint_of_codes(rows.codes))
        losses.add(network, rows.codes, rows.labels, range(FOLDS))
        losses.edge_folds, folds = {}, 0
    else:
        protocol = CrossValidation(1, folds, stratified=True)
        n_classes = network.codebook.domain.n_classes
        out = np.empty((len(rows.labels), n_classes))
        for fold in range(folds):
            train, test = protocol.split(rows.labels, _FOLD_SEED, 0, fold)
            fitted, out[test] = _fit_and_predict(model, network, rows, train, test)
            if fitted.codebook.domain.n_classes != n_classes:
                continue
            codes = fitted.codebook.encode(rows.table.take(test))

            def refit(names: list[str], some: Any, train: Any = train, test: Any = test) -> Floats:
                fewer = replace(rows, table=rows.table.select(names))
                try:
                    return _fit_and_predict(model, network, fewer, train, test[some])[1]
                except ConfigurationError as error:
                    raise ConfigurationError(
                        "These options don't allow refitting on a subset of the columns. "
                        f"{error} Turn the refits off."
                    ) from error

            losses.add(fitted, codes, rows.labels[test], [fold], refit if with_refits else None)
    refits = losses.means("refit")
    known = [(share, loss, refits.get(share)) for share, loss in losses.means("known").items()]
    return Measurement(out, own, folds, losses.means("feature"), losses.edge_folds, known)


class _Losses:
    """Collects over folds what the loss is with features unknown, and which edges are found."""

    def __init__(self, network: Network) -> None:
        information = NetworkInformation(network)
        bits, names = information.of_features(), network.codebook.domain.names
        strongest = sorted(network.structure.selected, key=lambda feature: -bits[feature])
        self.features = {names[feature] for feature in strongest[:MAX_LOSSES]}
        self.edge_folds = dict.fromkeys(information.of_edges(), 0)
        # Sums of losses and of rows, by kind and key.
        self._sums: defaultdict[tuple[str, Hashable], Floats] = defaultdict(lambda: np.zeros(2))

    def means(self, kind: str) -> dict[Any, float]:
        """Return the means over all rows of one kind."""
        return {key: float(t / n) for (of, key), (t, n) in self._sums.items() if of == kind}

    def add(
        self,
        network: Network,
        codes: Any,
        labels: NDArray[Any],
        draws: Iterable[int],
        refit: Refit | None = None,
    ) -> None:
        """Add the losses of a fold's model; `draws` are seeds for sets of known features."""
        for draw in draws:
            self._add_known(network, codes, labels, draw, refit)
        here = {frozenset((p, f)) for f, ps in network.structure.parents.items() for p in ps}
        for edge in self.edge_folds:
            self.edge_folds[edge] += frozenset(edge) in here
        step, names = -(-labels.shape[0] // MAX_LOSS_ROWS), network.codebook.domain.names
        codes, labels = np.ascontiguousarray(codes[:, ::step]), labels[::step]
        tried = [f for f in network.structure.selected if names[f] in self.features]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rises = losses_without_features(network, codes, labels, tried)
        for feature in tried:
            self._sums["feature", names[feature]] += rises[feature] * len(labels), len(labels)

    def _add_known(
        self, network: Network, codes: Any, labels: NDArray[Any], draw: int, refit: Refit | None
    ) -> None:
        """Add the loss with each share of the features known: random sets, each in the next."""
        structure = network.structure
        if not (network.tables.normalized and structure.is_moral() and structure.selected):
            return
        rng = np.random.default_rng((_FOLD_SEED, draw))
        some = np.sort(rng.permutation(len(labels))[:MAX_KNOWN_ROWS])
        unknown = network.codebook.domain.arities.astype(codes.dtype)
        order = rng.permutation(structure.selected)
        for share in KNOWN_SHARES:
            known = np.sort(order[: round(share * len(order))])
            shown = np.repeat(unknown[:, None], len(some), axis=1)
            shown[known] = codes[known][:, some]
            loss = log_loss(posterior(network.log_joint_of_codes(shown)), labels[some])
            self._sums["known", share] += loss * len(some), len(some)
            if refit is not None and 0 < len(known) < len(order):
                again = refit([network.codebook.domain.names[f] for f in known], some)
                self._sums["refit", share] += log_loss(again, labels[some]) * len(some), len(some)


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


def logistic_regression(network: Network, rows: PageRows) -> Floats:
    """Return cross-validated probabilities of logistic regression on the rows.

    It reads the model's codes one-hot, numbers pooled into at most ten intervals of equal frequency
    and unknown values as zeros. Where a fold leaves only one class, it predicts class frequencies.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    domain, labels, n_rows = network.codebook.domain, rows.labels, len(rows.labels)
    pooled, sizes = [], []
    for codes, arity, n_ordered in zip(rows.codes, domain.arities, domain.n_ordered, strict=True):
        counts = np.bincount(codes, minlength=arity + 1)[:arity]
        groups = pool_neighbours(counts, n_ordered, BASELINE_INTERVALS)
        sizes.append(n_groups(groups))
        pooled.append(np.append(groups, sizes[-1]).astype(np.int32)[codes])
    most = max(20, LOGISTIC_SIZE // max(1, len(sizes) * domain.n_classes))
    # An unknown value, coded after the last, has no column.
    one_hot = OneHotEncoder(categories=[np.arange(n) for n in sizes], handle_unknown="ignore")
    cells = one_hot.fit_transform(np.stack(pooled, axis=1)) if sizes else None
    rng, n_folds = np.random.default_rng(_FOLD_SEED), max(2, min(FOLDS, n_rows))
    folds = rng.permutation(n_rows) % n_folds
    out = np.empty((n_rows, domain.n_classes))
    for fold in range(n_folds):
        test = folds == fold
        train = np.sort(rng.permutation(np.flatnonzero(~test))[:most])
        present = np.unique(labels[train]).astype(np.int64)
        if len(present) < 2 or cells is None:
            seen = np.bincount(labels[train], minlength=domain.n_classes) + 1.0
            out[test] = seen / seen.sum()
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a nearly converged baseline is good enough
            model = LogisticRegression().fit(cells[train], labels[train])
        found = model.predict_proba(cells[test])
        out[test] = complete_probabilities(found, present, domain.n_classes, len(train))
    return out
