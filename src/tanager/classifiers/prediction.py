"""Prediction: the methods of a fitted estimator, and the scores of tables of any size."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import chain, islice
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from tanager.codes import Chunk, Codes, MatchedTable, encode_rows
from tanager.codes.codebook import CodedBatch
from tanager.codes.targets import as_labels, as_weights
from tanager.engines import Engine, FitContext, resolve_engine
from tanager.engines.keeping import read_memory_limit
from tanager.errors import ColumnWarning, ConfigurationError, DataError, listed
from tanager.estimator import Classifier
from tanager.network import Network, NetworkInformation, explain_row
from tanager.network.decisions import PredictionSets, check_share, decide
from tanager.network.drift import Drift, familiarity, surprise
from tanager.network.explanation import explain_rows
from tanager.network.graph import estimator_html
from tanager.network.nearest import find_nearest
from tanager.network.network import Calibration
from tanager.network.next_question import find_questions
from tanager.network.propagation import require_probabilities
from tanager.network.sensitivity import interval_of_codes
from tanager.numerics import Floats, log_sum_exp
from tanager.parameters import log_posterior, posterior
from tanager.progress import Progress
from tanager.sources import Fragment
from tanager.sources.source import TablePart
from tanager.structure import Structure

LEAST_ROWS = 20  # without a known value, before a warning about a column
LARGE_ROWS = 1 << 20  # a fragment with more rows is processed batch by batch

Score = Callable[[Network, Codes], Floats]


class NetworkPredictor(Classifier):
    """Predicts, scores and explains rows with `network_`."""

    network_: Network
    classes_: NDArray[Any]
    engine: str | Engine
    n_jobs: int | None
    memory_limit: str | int | None

    decide = decide
    explain = explain_rows
    explain_row = explain_row
    next_question = find_questions
    nearest = find_nearest
    familiarity = familiarity
    surprise = surprise
    _repr_html_ = estimator_html

    def predict(self, X: Any, *, abstain: float | None = None) -> NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : table
        abstain : float, optional
            Predict None (in an object array) if the most probable class is less probable than
            this. See `predict_set` for sets with guaranteed coverage.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X, y = [["a"], ["b"], ["c"], ["c"]] * 10, [0, 1, 0, 1] * 10
        >>> clf = BayesNetClassifier("naive", "laplace").fit(X, y)
        >>> clf.predict([["a"], ["c"]], abstain=0.8).tolist()
        [0, None]
        """
        joint = self.predict_joint_log_proba(X)
        best = joint.argmax(axis=1)
        if abstain is None:
            return self.classes_[best]
        least = check_share("abstain", abstain)
        found = self.classes_.astype(object)[best]
        found[posterior(joint).max(axis=1, initial=0.0) < least] = None
        return found

    def predict_interval(self, X: Any, *, level: float = 0.9) -> Floats:
        """Return an interval for each P(class | row), shape (n_rows, n_classes, 2).

        With probability `level` it contains what the model would predict if it knew its tables
        exactly. It covers the uncertainty from few training rows, but neither dependencies missing
        from the structure nor unusual rows. With unknown inputs, it may be too wide, but never too
        narrow. For parameters ``"layered"``, ``"hdp"``, ``"m-estimate"``, ``"laplace"``,
        ``"friedman"``, ``"ml"`` and ``"discriminative"``.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X, y = [["a"], ["b"], ["a"], ["b"], ["a"]], [0, 1, 0, 1, 1]
        >>> few = BayesNetClassifier("naive", "hdp").fit(X * 5, y * 5)
        >>> many = BayesNetClassifier("naive", "hdp").fit(X * 500, y * 500)
        >>> [clf.predict_interval([["a"]])[0, 0].round(2).tolist() for clf in (few, many)]
        [[0.38, 0.78], [0.65, 0.69]]
        """
        return self._scores(X, partial(interval_of_codes, level=check_share("level", level)))

    def predict_set(
        self, X: Any, *, coverage: float = 0.9, per_class: bool = False
    ) -> PredictionSets:
        """Return for each row a set of classes that contains the true one with a given probability.

        The `coverage` holds whether or not the model is correct, as long as the rows come from
        the same distribution as the training rows. With `per_class`, it also holds within each
        class; overall coverage may miss a rare one.

        Notes
        -----
        Conformal prediction: the threshold is the probability that a share of `coverage` of
        held-out rows gave their own class. With the rows passed to `calibrate`, coverage is
        guaranteed; with those of the folds in which ``"layered"`` makes its choices, it's
        `coverage` in practice, and ``2 * coverage - 1`` at worst.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tanager import BayesNetClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = BayesNetClassifier("naive", "hdp").fit(X[::2], y[::2]).calibrate(X[1::2], y[1::2])
        >>> list(clf.predict_set(X[[0, 77, 133]], coverage=0.98))
        [(0,), (1, 2), (1, 2)]
        """
        return PredictionSets(self._asked(), self.predict_proba(X), coverage, per_class=per_class)

    def calibrate(self, X: Any, y: Any, sample_weight: ArrayLike | str | None = None) -> Self:
        """Calibrate `predict_set` on rows the model wasn't trained on, given as in `fit`.

        A few hundred rows are enough.
        """
        found = [
            (self.network_.log_joint_of_codes(chunk.codes), chunk.labels, chunk.row_weights)
            for chunk in self._labelled(X, y, sample_weight)
        ]
        joint, labels, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        calibration = Calibration.of(log_posterior(joint), labels, weights)
        self.network_ = replace(self.network_, calibration=calibration)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return P(class | row), shape (n_rows, n_classes): the model's posterior."""
        return posterior(self.predict_joint_log_proba(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return log P(class | row), shape (n_rows, n_classes)."""
        return log_posterior(self.predict_joint_log_proba(X))

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """Return log P(class, row), shape (n_rows, n_classes)."""
        return self._scores(X)

    def _scores(self, X: Any, score: Score = Network.log_joint_of_codes) -> Floats:
        """Return log P(class, row) of every row, or another score of its codes."""
        network = self._asked()
        few = network.codebook.few.encode(X)
        if few is not None:
            return score(network, few)
        table, engine = (
            MatchedTable.of(network.codebook, X),
            resolve_engine(self.engine, self.n_jobs),
        )
        parts = [batch.log_joint for batch in score_table(network, table, engine, score)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def score_samples(self, X: Any) -> Floats:
        """Return log P(row), the class summed out: low for unusual rows.

        Needs tables that are probabilities; those that are scores raise an error. The numbers
        fall with the number of columns and values: compare them with those of typical rows.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [["a", "u"], ["b", "v"]] * 10
        >>> clf = BayesNetClassifier("tan", "laplace").fit(X, [0, 1] * 10)
        >>> clf.score_samples([["a", "u"], ["a", "v"]]).round(2)
        array([-0.82, -2.83])
        """
        require_probabilities(self._asked())
        return np.asarray(log_sum_exp(self.predict_joint_log_proba(X), axis=1))

    def drift(self, X: Any, y: Any = None, *, alpha: float = 0.05, least: float = 0.02) -> Drift:
        """Compare rows with the training rows: which columns, pairs and class shares changed.

        Parameters are those of `Network.drift`; `engine` and `n_jobs` are the estimator's.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [[float(i), "ab"[i % 2]] for i in range(200)]
        >>> clf = BayesNetClassifier("tan", "laplace").fit(X, [0, 1] * 100)
        >>> clf.drift([[a, b.upper()] for a, b in X]).columns
        ('x1',)
        """
        engine = resolve_engine(self.engine, self.n_jobs)
        return self._asked().drift(X, y, alpha=alpha, least=least, engine=engine)

    def predict_cumulative(self, X: Any) -> Floats:
        """Return P(class at most c | row), shape (n_rows, n_classes), for ordered classes."""
        if not self._asked().codebook.target.ordered:
            raise ConfigurationError(
                "predict_cumulative needs ordered classes. Fit with "
                "classes_ordered=['low', 'mid', 'high']."
            )
        found: Floats = np.minimum(np.cumsum(self.predict_proba(X), axis=1), 1.0)
        found[:, -1] = 1.0
        return found

    def _asked(self) -> Network:
        """Return the network, or raise an error if `fit` wasn't called."""
        if not hasattr(self, "network_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with "
                "appropriate arguments before using this estimator."
            )
        return self.network_

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of the second of two classes, (n_rows,), or log-posteriors of more.

        `predict` returns the second class above zero, or the class with the greatest.
        """
        joint = self.predict_joint_log_proba(X)
        return joint[:, 1] - joint[:, 0] if joint.shape[1] == 2 else log_posterior(joint)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | str | None = None) -> float:
        """Return the accuracy on rows that are given as in `fit`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from tanager import BayesNetClassifier
        >>> table = pa.table({"a": ["x", "y"] * 5, "label": ["no", "yes"] * 5})
        >>> BayesNetClassifier("naive", "laplace").fit(table, "label").score(table, "label")
        1.0
        """
        network = self._asked()
        if y is None:
            raise ConfigurationError(
                "score requires the true classes. Pass y, or the name of their column in X."
            )
        if not isinstance(y, str):
            labels = as_labels(np.asarray(y) if hasattr(y, "compute") else y)[0]
            best = self.predict_joint_log_proba(X).argmax(axis=1)
            if len(labels) != len(best):
                raise DataError(
                    "Found input variables with inconsistent numbers of samples: X has "
                    f"{len(best)} rows, y {len(labels)}. Pass one label per row."
                )
            # A class that training rows didn't have is an error of the model, not of the caller.
            right = network.codebook.target.code_values(labels) == best
            given = None if sample_weight is None else as_weights(sample_weight, len(best))
            return float(np.average(right, weights=given))
        correct = total = 0.0
        for chunk in self._labelled(X, y, sample_weight):
            best = network.log_joint_of_codes(chunk.codes).argmax(axis=1)
            correct += float(chunk.row_weights[best == chunk.labels].sum())
            total += float(chunk.row_weights.sum())
        return correct / total

    def _labelled(self, X: Any, y: Any, sample_weight: Any) -> Iterator[Chunk]:
        """Iterate over coded rows with their classes and weights."""
        codebook, limit = self._asked().codebook, read_memory_limit(self.memory_limit)
        context = FitContext(resolve_engine(self.engine, self.n_jobs), memory_limit=limit)
        return encode_rows(codebook, X, y, sample_weight=sample_weight, context=context).chunks()

    def report(
        self, path: str | os.PathLike[str], X: Any = None, y: Any = None, **options: Any
    ) -> None:
        """Write a report on the model as one HTML file that also answers what-if queries.

        X and y are rows to evaluate on; training rows are recognised, and predicted by
        cross-validation. For the options, see `tanager.report.model_page.render_report`.
        """
        self._asked()
        # Reports belong to a layer above.
        import_module("tanager.report.model_page").write_report(self, path, X, y, **options)

    @property
    def structure_(self) -> Structure:
        """The learned structure."""
        return self._asked().structure

    @property
    def feature_importances_(self) -> Floats:
        """Each feature's mutual information with the class, as shares of their sum.

        How informative each feature is on its own, computed from the network: redundant features
        rank alike, and those that the structure left out have zero. For the increase in log-loss
        without a feature, see `tanager.evaluation.metrics.loss_without_features`.
        """
        information = NetworkInformation(self._asked()).of_features()
        total = information.sum()
        return information / total if total > 0 else information

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = tags.input_tags
        given.allow_nan = given.categorical = given.string = True
        return tags


class ScoredBatch(NamedTuple):
    """Scores of some rows."""

    log_joint: Floats  # (n_rows, n_classes): log P(class, row)
    rows: CodedBatch


def score_table(
    network: Network, table: MatchedTable, engine: Engine, score: Score = Network.log_joint_of_codes
) -> Iterator[ScoredBatch]:
    """Score all rows in order, a few fragments at a time.

    Warns at the end about columns in which no row has a known value, such as 'YES' for 'Yes'.
    """
    ends, n_rows = network.codebook.null_codes, 0  # the last codes: of missing and unknown values
    known = np.zeros(len(ends), dtype=np.bool_)
    scorer, pieces = partial(score_fragment, network, table, score), _bounded(table)
    window = 2 * int(getattr(engine, "n_jobs", 8))
    while some := list(islice(pieces, window)):
        for batch in chain.from_iterable(engine.map(scorer, some, Progress(), "predict")):
            codes = batch.rows.codes
            n_rows += batch.rows.n_rows
            # Most features have a known value in the first rows: only the others are read further.
            known |= (codes[:, :LEAST_ROWS] < ends[:, None]).any(axis=1)
            for at in np.flatnonzero(~known):
                known[at] = (codes[at] < ends[at]).any()
            yield batch
    columns, names, given = network.codebook.columns, table.features, table.table.names
    strange = [
        columns[at].name
        for at in network.structure.selected
        if not known[at] and columns[at].null_code > 0 and names[at] in given
    ]
    if strange and n_rows >= LEAST_ROWS:  # fewer are too few to tell
        warnings.warn(
            f"Column(s) {listed(strange)}: none of the {n_rows:,} rows has a value that "
            "was seen in training, so they add nothing to the predictions. Check spelling, "
            "case, encoding and missing values.",
            ColumnWarning,
            stacklevel=2,
        )


def score_fragment(
    network: Network, table: MatchedTable, score: Score, fragment: Fragment
) -> list[ScoredBatch]:
    """Code and score the rows of a fragment in batches."""
    return [ScoredBatch(score(network, rows.codes), rows) for rows in table.code(fragment)]


def _bounded(table: MatchedTable) -> Iterator[Fragment]:
    """Yield the fragments, large ones batch by batch."""
    for fragment in table.source.fragments():
        if fragment.n_rows <= LARGE_ROWS:
            yield fragment
            continue
        start = fragment.start
        for batch in fragment.batches(table.columns):
            yield Fragment(TablePart(pa.Table.from_batches([batch])), start, batch.schema)
            start += batch.num_rows
