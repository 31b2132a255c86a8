"""Encodings for third-party classifiers: a table as their users would prepare it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags

from tanager.codes import learn_codebook
from tanager.codes.audit import audit_columns, read_dates
from tanager.engines import FitContext
from tanager.evaluation.datasets import is_number
from tanager.numerics import Floats
from tanager.sources import open_source

Labels = NDArray[np.int64]
MOST_CATEGORIES = 255  # of a categorical column in scikit-learn's boosting
MOST_DENSE = 2_000  # maximum number of columns of a dense matrix


class Encoded(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier behind an encoding learned from its training rows.

    Parameters
    ----------
    estimator : classifier
        With `predict_proba`.
    encoding : {"native", "binned", "codes", "frame"}
        ``"native"``: raw numbers with NaN for missing values; categories as LightGBM, XGBoost,
        CatBoost and scikit-learn's histogram boosting take them, for others one indicator per
        value. Classifiers without NaN support get standardised numbers, the median for missing
        values, and a missing indicator. Ids are left out, and numbers and dates stored as text
        parsed. ``"binned"``: one indicator per bin that Tanager learns, with missing as a value,
        for comparisons on equal terms. ``"codes"``: the same bins as codes. ``"frame"``: a pandas
        DataFrame with numbers and categories, for pipelines.
    bins : "mdl", "fine" or int
        How to discretize numbers for ``"binned"`` and ``"codes"``, as in `BayesNetClassifier`.
    columns : mapping, optional
        `categorical_features`, `dates` and `ordered`, as in `BayesNetClassifier`.
    """

    def __init__(
        self,
        estimator: Any,
        encoding: str = "native",
        bins: str | int = "mdl",
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        self.estimator, self.encoding = estimator, encoding
        self.bins, self.columns = bins, columns

    def fit(self, X: Any, y: Labels) -> Encoded:
        """Learn the encoding, then the classifier."""
        return self.fit_encoded(self.learn_encoding(X, y), y)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the classes."""
        return self.predict_encoded(self.encoder_.transform(X))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the most probable classes."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    # The laboratory times the classifier alone, without the encoding.

    def learn_encoding(self, X: Any, y: Labels) -> Any:
        """Learn the encoding from training rows; return them encoded."""
        self.estimator_, learn = clone(self.estimator), ENCODINGS[self.encoding]
        self.encoder_ = learn(self.estimator_, X, self.columns or {}, y, self.bins)
        return self.encoder_.transform(X)

    def fit_encoded(self, matrix: Any, y: Labels) -> Encoded:
        """Fit the classifier to rows that `learn_encoding` returned."""
        self.estimator_.fit(matrix, y, **getattr(self.encoder_, "fit_options", {}))
        self.classes_ = self.estimator_.classes_
        return self

    def predict_encoded(self, matrix: Any) -> Floats:
        """Return the probabilities of encoded rows."""
        return np.asarray(self.estimator_.predict_proba(matrix), np.float64)


# An encoder learns from the training rows, and may set options of the classifier; `transform`
# turns an Arrow table into its input, shape (n_rows, n_columns).


class _Codes:
    """The codebook's codes as numbers; an unseen value gets the code after the last."""

    def __init__(
        self, estimator: Any, table: Any, columns: Mapping[str, Any], y: Labels, bins: str | int
    ) -> None:
        self.codebook, _ = learn_codebook(
            table, y, bins=bins, audit=True, context=FitContext(), **columns
        )
        if "min_categories" in estimator.get_params():
            # CategoricalNB must know about values that only occur in the test rows.
            estimator.set_params(min_categories=self.codebook.domain.arities + 1)

    def transform(self, table: Any) -> Any:
        return np.ascontiguousarray(self.codebook.encode(table).T)


class _Binned(_Codes):
    """The codebook's codes as indicators; an unseen value has none."""

    def __init__(self, estimator: Any, *training: Any) -> None:
        super().__init__(estimator, *training)
        sparse = get_tags(estimator).input_tags.sparse
        self.indicators = _indicators(self.codebook.domain.arities, np.float32, sparse=sparse)

    def transform(self, table: Any) -> Any:
        return self.indicators.transform(super().transform(table))


class _Columns:
    """The columns after an audit: ids left out, numbers and dates stored as text parsed."""

    def __init__(self, _: Any, table: Any, columns: Mapping[str, Any], *_others: Any) -> None:
        names, ordered = table.column_names, columns.get("ordered", {})
        asked = columns.get("categorical_features", ())
        categorical = set(names if asked == "all" else asked) | set(ordered)
        source = open_source(table)
        self.readings = read_dates(source, names, columns.get("dates"))
        found = audit_columns(source, names, [*self.readings, *categorical])
        self.readings |= {f.column: f.reading for f in found if f.reading is not None}
        names = [n for n in names if n not in self.readings or self.readings[n].kind != "nothing"]
        self.orders = {name: pa.array(map(str, order)) for name, order in ordered.items()}
        self.values: dict[str, Any] = {}
        self.numbers: list[str] = []
        # The unused name of a constant column: a classifier needs at least one column.
        self.constant = " ".join([*table.column_names, "without values"])
        for name in names:  # except those without a single value
            column = self._read(table, name)
            if name in ordered or (name not in categorical and is_number(column.type)):
                if not np.isnan(self._number(table, name)).all():
                    self.numbers.append(name)
            elif column.null_count < len(column):
                self.values[name] = _as_text(column).drop_null().unique().sort()
        if not (self.numbers or self.values):
            self.numbers = [self.constant]
        self.arities = np.array([len(values) for values in self.values.values()], np.int64)

    def numbers_of(self, table: Any) -> list[Floats]:
        """Return the columns of numbers, with NaN for missing values."""
        return [self._number(table, name) for name in self.numbers]

    def codes_of(self, table: Any) -> list[NDArray[np.int64]]:
        """Return the categories as codes, with -1 for missing and unseen values."""
        return [self._codes(table, name, values) for name, values in self.values.items()]

    def matrix(self, table: Any) -> Floats:
        """Return all columns as numbers, with NaN for missing values."""
        codes = [np.where(column < 0, np.nan, column) for column in self.codes_of(table)]
        return np.column_stack([*self.numbers_of(table), *codes])

    def _number(self, table: Any, name: str) -> Floats:
        """Return a column of numbers; an ordered category is its position in the order."""
        if name == self.constant:
            return np.zeros(len(table))
        if name in self.orders:
            codes = self._codes(table, name, self.orders[name])
            return np.where(codes < 0, np.nan, codes)
        column = pc.cast(self._read(table, name), pa.float64(), safe=False)
        return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)

    def _codes(self, table: Any, name: str, values: Any) -> NDArray[np.int64]:
        codes = pc.index_in(_as_text(self._read(table, name)), values).fill_null(-1)
        return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)

    def _read(self, table: Any, name: str) -> Any:
        """Return a column; dates and times as seconds since 1970."""
        column = table.column(name).combine_chunks()
        if name in self.readings:
            column = self.readings[name].read(column, name)
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            column = pc.cast(column, pa.timestamp("s"), safe=False).cast(pa.int64())
        return column


class _Frame(_Columns):
    """A pandas DataFrame with numbers and categories, for pipelines."""

    def transform(self, table: Any) -> Any:
        import pandas as pd

        columns: dict[str, Any] = dict(zip(self.numbers, self.numbers_of(table), strict=True))
        for (name, values), codes in zip(self.values.items(), self.codes_of(table), strict=True):
            columns[name] = pd.Categorical.from_codes(codes, values.to_pylist())
        order = [name for name in table.column_names if name in columns] or list(columns)
        return pd.DataFrame({name: columns[name] for name in order})


class _Native(_Columns):
    """Numbers as they are and categories in the classifier's own way."""

    def __init__(self, estimator: Any, table: Any, *training: Any) -> None:
        super().__init__(estimator, table, *training)
        n, arities = len(self.numbers), self.arities
        places = list(range(n, n + len(arities)))
        self.fit_options: dict[str, Any] = {}  # further arguments of the classifier's `fit`
        self.package = type(estimator).__module__.partition(".")[0]
        if self.package == "lightgbm":
            self.fit_options = {"categorical_feature": places}
        elif self.package == "catboost":
            self.fit_options = {"cat_features": places}
        elif self.package == "xgboost":
            kinds = ["q"] * n + ["c"] * len(places)
            estimator.set_params(enable_categorical=True, feature_types=kinds)
        elif type(estimator).__name__ == "HistGradientBoostingClassifier":
            few = [at for at, n in zip(places, arities, strict=True) if n <= MOST_CATEGORIES]
            estimator.set_params(categorical_features=few)
        else:
            self.package = ""
            self.indicators = self._plain_numbers(estimator).fit(self.matrix(table))

    def _plain_numbers(self, estimator: Any) -> Any:
        """Return a transformer of the matrix for a classifier without categorical support."""
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import MissingIndicator, SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        n, tags = len(self.numbers), get_tags(estimator).input_tags
        width = int(self.arities.sum()) + 2 * n
        few = tags.allow_nan or width <= MOST_DENSE or not tags.sparse
        steps: list[Any] = [("numbers", "passthrough", slice(n))]
        if not tags.allow_nan:
            scale = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
            steps = [("numbers", scale, slice(n))]
            steps += [("gaps", MissingIndicator(features="all"), slice(n))]
        steps = steps if n else []
        if len(self.arities):
            values = _indicators(self.arities, np.float64, sparse=not few)
            steps += [("values", values, slice(n, None))]
        return ColumnTransformer(steps, sparse_threshold=0.0 if few else 1.0)

    def transform(self, table: Any) -> Any:
        if self.package == "catboost":  # categories as whole numbers among floats
            columns = [*self.numbers_of(table), *self.codes_of(table)]
            return np.column_stack([column.astype(object) for column in columns])
        matrix = self.matrix(table)
        return matrix if self.package else self.indicators.transform(matrix)


ENCODINGS = {"native": _Native, "binned": _Binned, "codes": _Codes, "frame": _Frame}


def _indicators(arities: NDArray[np.int64], dtype: Any, *, sparse: bool) -> Any:
    """Return an encoder from codes to one indicator per value; unknown values have none."""
    from sklearn.preprocessing import OneHotEncoder

    values = [np.arange(arity, dtype=np.float64) for arity in arities]
    kind: dict[str, Any] = {"sparse_output": sparse, "dtype": dtype}
    encoder = OneHotEncoder(categories=values, handle_unknown="ignore", **kind)
    return encoder.fit(np.zeros((1, len(values))))


def _as_text(column: Any) -> Any:
    return pc.cast(column, pa.string())
