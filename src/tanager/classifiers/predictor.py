"""What a fitted network answers, in the words of scikit-learn."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.classifiers.prediction import as_table, check_fitted, lazy_for_dask, predict_log_joint
from tanager.codes import encode_rows
from tanager.codes.targets import as_labels
from tanager.engines import Engine, FitContext, resolve_engine
from tanager.engines.keeping import read_memory_limit
from tanager.errors import ConfigurationError
from tanager.estimator import Classifier
from tanager.network import Network, NetworkInformation
from tanager.network.decisions import Decides
from tanager.network.propagation import require_probabilities
from tanager.numerics.logs import log_sum_exp
from tanager.parameters import log_posterior, posterior
from tanager.sources.datasets import is_dask_frame
from tanager.structure import Structure

Floats = NDArray[np.float64]


class NetworkPredictor(Classifier, Decides):
    """Predicts, scores, explains and shows what `network_` knows.

    How a network is learned is the matter of `BayesNetClassifier`.

    Attributes
    ----------
    network_ : Network
    classes_ : ndarray of shape (n_classes,)
    engine, n_jobs, memory_limit
        How rows are scored, as in `BayesNetClassifier`.
    """

    network_: Network
    classes_: NDArray[Any]
    engine: str | Engine
    n_jobs: int | None
    memory_limit: str | int | None

    @lazy_for_dask
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self.predict_joint_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    @lazy_for_dask
    def predict_proba(self, X: Any) -> Floats:
        """Return P(class | row), shape (n_rows, n_classes): the model's posterior."""
        return posterior(self.predict_joint_log_proba(X))

    @lazy_for_dask
    def predict_log_proba(self, X: Any) -> Floats:
        """Return log P(class | row), shape (n_rows, n_classes)."""
        return log_posterior(self.predict_joint_log_proba(X))

    @lazy_for_dask
    def predict_joint_log_proba(self, X: Any) -> Floats:
        """Return log P(class, row), shape (n_rows, n_classes)."""
        check_fitted(self)
        return predict_log_joint(self.network_, X, self.engine, self.n_jobs)

    @lazy_for_dask
    def score_samples(self, X: Any) -> Floats:
        """Return log P(row) for each row, the class summed out: low where a row is strange.

        Only a network with a distribution of its features can tell: one whose tables are
        scores refuses. Compare the numbers with those of rows you know: they fall with the
        number of columns and their values.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [["a", "u"], ["b", "v"]] * 10
        >>> clf = BayesNetClassifier("tan", "laplace").fit(X, [0, 1] * 10)
        >>> clf.score_samples([["a", "u"], ["a", "v"]]).round(2)
        array([-0.82, -2.83])
        """
        check_fitted(self)
        require_probabilities(self.network_)
        return np.asarray(log_sum_exp(self.predict_joint_log_proba(X), axis=1))

    @lazy_for_dask
    def predict_cumulative(self, X: Any) -> Floats:
        """Return P(class at most c | row), shape (n_rows, n_classes), for ordered classes.

        One minus a column is the probability of a higher class.
        """
        check_fitted(self)
        if not self.network_.codebook.target.ordered:
            raise ConfigurationError(
                "predict_cumulative needs classes that stand in an order. Say it at the fit: "
                "classes_ordered=['low', 'mid', 'high']."
            )
        found: Floats = np.minimum(np.cumsum(self.predict_proba(X), axis=1), 1.0)
        found[:, -1] = 1.0
        return found

    def _asked(self) -> Network:
        check_fitted(self)
        return self.network_

    @lazy_for_dask
    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of the second class, or with more classes each one's log-probability.

        Shape (n_rows,) or (n_rows, n_classes): what scikit-learn's curves and
        thresholds take. Above zero, or the greatest, is what `predict` gives.
        """
        joint = self.predict_joint_log_proba(X)
        return joint[:, 1] - joint[:, 0] if joint.shape[1] == 2 else log_posterior(joint)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | str | None = None) -> float:
        """Return the share of rows that are classified right.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`: `y` may be the name of the target's column in X, and X the
            path of a file.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from tanager import BayesNetClassifier
        >>> table = pa.table({"a": ["x", "y"] * 5, "label": ["no", "yes"] * 5})
        >>> BayesNetClassifier("naive", "laplace").fit(table, "label").score(table, "label")
        1.0
        """
        check_fitted(self)
        if y is None:
            raise ConfigurationError(
                "score requires the true classes. Pass y, or the name of their column in X."
            )
        if not isinstance(y, str):
            from sklearn.metrics import accuracy_score

            found: Any = self.predict(X)  # lazy, where X is
            if is_dask_frame(X):
                found, y = found.compute(), np.asarray(y)
            labels = as_labels(y)[0]
            y = labels.dictionary_decode() if hasattr(labels, "dictionary") else labels
            y = y.to_numpy(zero_copy_only=False)
            return float(accuracy_score(y, found, sample_weight=sample_weight))
        context = FitContext(
            resolve_engine(self.engine, self.n_jobs),
            memory_limit=read_memory_limit(self.memory_limit),
        )
        rows = encode_rows(
            self.network_.codebook, as_table(X), y, sample_weight=sample_weight, context=context
        )
        right = total = 0.0
        for chunk in rows.chunks():
            best = self.network_.log_joint_of_codes(chunk.codes).argmax(axis=1)
            weights = np.ones(len(best)) if chunk.weights is None else chunk.weights
            right += float(weights[best == chunk.labels].sum())
            total += float(weights.sum())
        return right / total

    def explain(self, X: Any) -> Floats:
        """Return each feature's part of the joint, (n_rows, n_features, n_classes).

        Entry (r, i, c) is log P(x_i | class c, parents) of row r. Summed over the
        features, with the class's log-prior, it is `predict_joint_log_proba`; the
        difference between two classes splits their log-odds exactly. Unknown
        features, and those the structure left out, contribute nothing.
        """
        check_fitted(self)
        network = self.network_
        return network.log_terms(network.codebook.encode(as_table(X)))

    def report(
        self, path: str | os.PathLike[str], X: Any = None, y: Any = None, **options: Any
    ) -> None:
        """Write the model's own page: one HTML file to see it, ask it and trust it.

        Parameters
        ----------
        path : path
            The page.
        X, y : table and classes, optional
            Rows to measure on; `y` may be the name of a column of X. Rows of the
            fit itself are recognised, and predicted by cross-validation.
        **options
            As `tanager.report.render_report` has them.
        """
        check_fitted(self)
        # Pages are made above this layer, so the name is looked up when it is needed.
        pages = import_module("tanager.report.model_page")
        pages.write_report(self, path, X, y, **options)

    @property
    def structure_(self) -> Structure:
        """The learned structure."""
        check_fitted(self)
        return self.network_.structure

    @property
    def feature_importances_(self) -> Floats:
        """Each feature's mutual information with the class, as shares of their sum.

        The information is that of the network: what the feature, known alone,
        says about the class. It needs no data, and features that say the same
        count alike. A feature that the structure left out has zero. What the
        model would lose without a feature is another question, and wants rows
        that it has not seen: `tanager.evaluation.importance.loss_without_features`.
        """
        check_fitted(self)
        information = NetworkInformation(self.network_).of_features()
        total = information.sum()
        return information / total if total > 0 else information

    def _repr_html_(self) -> str:
        from tanager.network.html import estimator_html

        return estimator_html(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
