"""MDL discretisation as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tanager.codes.learning import learn_codebook
from tanager.codes.values import infinite_error
from tanager.engines import FitContext
from tanager.errors import DataError
from tanager.numerics import Floats, Ints


class MDLDiscretizer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Cut numeric columns into intervals that are informative about the class.

    Each column is split recursively where the classes separate best, as long as the split pays for
    its description; one that carries no information about the class on its own stays whole.
    `BayesNetClassifier` does this by itself; use the transformer to inspect the cuts, or before
    another classifier.

    Attributes
    ----------
    cuts_ : list of ndarray of float64
        The inner bin edges of each column, ascending; a value equal to an edge goes to the left.
    n_bins_ : ndarray of int64, shape (n_features,)
        The number of intervals of each column.
    classes_ : ndarray
        The classes seen in `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only defined if the table has column names.

    Notes
    -----
    `transform` returns int64 codes, 0 for the lowest interval. A missing value (NaN) gets the code
    after the last interval, whether or not `fit` saw one. Infinite numbers are rejected. Each
    column is sorted once; past 134 million numbers, cuts are learned from a sample of the rows.

    References
    ----------
    U. M. Fayyad and K. B. Irani (1993). Multi-interval discretization of continuous-valued
    attributes for classification learning. Proceedings of the 13th International Joint Conference
    on Artificial Intelligence, 1022-1027.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> mdl = MDLDiscretizer().fit(X, y)
    >>> [cuts.round(2).tolist() for cuts in mdl.cuts_]
    [[5.55, 6.15], [2.95, 3.35], [2.45, 4.75], [0.8, 1.75]]
    >>> mdl.transform(X[[0, 50, 100]]).tolist()
    [[0, 2, 0, 0], [2, 1, 1, 1], [2, 1, 2, 2]]
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MDLDiscretizer:
        """Learn the cuts.

        Parameters
        ----------
        X : array-like of numbers, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
            The class of each row.
        sample_weight : array-like, shape (n_rows,), optional
            A weight of 2 counts as a repeated row.
        """
        if y is None:
            name = type(self).__name__
            raise DataError(f"{name} requires y to be passed, but the target y is None.")
        X = self._read(X, reset=True)
        if isinstance(y, str) or isinstance(sample_weight, str):
            raise DataError("X is an array of numbers here: pass y and sample_weight as arrays.")
        codebook, _ = learn_codebook(X, y, sample_weight=sample_weight, context=FitContext())
        self.classes_ = codebook.classes
        # A column without any number has no cuts.
        self.cuts_ = [getattr(column, "cuts", np.zeros(0)) for column in codebook.columns]
        self.n_bins_ = np.array([len(cuts) + 1 for cuts in self.cuts_], dtype=np.int64)
        return self

    def _read(self, X: Any, *, reset: bool) -> Floats:
        """Return the numbers, (n_rows, n_features), with NaN for missing ones."""
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        try:
            X = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            raise DataError(
                f"X holds text ({error}). Only numbers are cut: leave the other columns out. "
                "BayesNetClassifier takes them as they are."
            ) from error
        infinite = np.isinf(X).any(axis=0)
        if infinite.any():
            at = int(np.argmax(infinite))
            names = getattr(self, "feature_names_in_", None)
            raise infinite_error(f"x{at}" if names is None else str(names[at]))
        return np.asarray(X)

    def transform(self, X: Any) -> Ints:
        """Return the interval of each number, shape (n_rows, n_features)."""
        check_is_fitted(self)
        X = self._read(X, reset=False)
        codes = np.empty(X.shape, dtype=np.int64)
        for j, cuts in enumerate(self.cuts_):
            # NaN sorts after every number, so it would fall into the last interval.
            codes[:, j] = np.searchsorted(cuts, X[:, j], side="left")
            codes[np.isnan(X[:, j]), j] = len(cuts) + 1
        return codes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags
