"""Gives other people's classifiers the same table that Tanager's see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

__all__ = ["Encoded"]


class Encoded(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier behind an encoding learned from its training rows.

    Parameters
    ----------
    estimator : classifier
        With `predict_proba`.
    encoding : {"onehot", "ordinal", "raw"}
        ``"onehot"`` and ``"ordinal"``: the bins that Tanager learns, missing a
        value of its own, as sparse indicators or as codes. ``"raw"``: numbers
        as they are, categories as codes, missing and unseen values as NaN.
    bins : "mdl", "fine" or int
        How numbers are cut, as in `BayesNetClassifier`; not used with ``"raw"``.
    columns : mapping, optional
        `categorical_features`, `dates` and `ordered`, as in `BayesNetClassifier`.
    """

    def __init__(
        self,
        estimator: Any,
        encoding: str = "onehot",
        bins: str | int = "mdl",
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.encoding = encoding
        self.bins = bins
        self.columns = columns

    def fit(self, X: Any, y: NDArray[np.int64]) -> Encoded:
        """Learn the encoding, then the classifier."""
        self.encoder_: _Encoder = _ENCODERS[self.encoding](self.bins, self.columns or {})
        matrix = self.encoder_.fit(X, y).transform(X)
        self.estimator_ = clone(self.estimator)
        if "min_categories" in self.estimator_.get_params():
            # CategoricalNB must know of values that only the test rows have.
            self.estimator_.set_params(min_categories=self.encoder_.arities)
        self.estimator_.fit(matrix, y)
        self.classes_ = self.estimator_.classes_
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes."""
        return np.asarray(self.estimator_.predict_proba(self.encoder_.transform(X)), np.float64)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the most probable classes."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


class _Encoder(Interface):
    """A way to turn an Arrow table into the matrix that scikit-learn takes."""

    arities: NDArray[np.int64] | None

    def __init__(self, bins: str | int, columns: Mapping[str, Any]) -> None:
        """Remember how numbers are cut, and what is said of the columns."""

    def fit(self, table: Any, y: NDArray[np.int64]) -> _Encoder:
        """Learn from the training rows."""

    def transform(self, table: Any) -> Any:
        """Encode rows, shape (n_rows, n_columns)."""


class _OrdinalEncoder:
    """The codebook's codes as numbers; a value never seen is one code beyond."""

    arities: NDArray[np.int64] | None = None

    def __init__(self, bins: str | int, columns: Mapping[str, Any]) -> None:
        self.bins = bins
        self.columns = columns

    def fit(self, table: Any, y: NDArray[np.int64]) -> _OrdinalEncoder:
        from tanager.codes import learn_codebook
        from tanager.engines import FitContext

        self.codebook, _ = learn_codebook(
            table, y, bins=self.bins, audit=True, context=FitContext(), **self.columns
        )
        self.arities = self.codebook.domain.arities + 1
        return self

    def transform(self, table: Any) -> Any:
        return np.ascontiguousarray(self.codebook.encode(table).T)


class _OneHotEncoder(_OrdinalEncoder):
    """The codebook's codes as sparse indicators; a value never seen has none."""

    def transform(self, table: Any) -> Any:
        from scipy.sparse import csr_matrix

        codes = self.codebook.encode(table)
        arities = self.codebook.domain.arities
        first = np.concatenate([[0], np.cumsum(arities)])
        known = codes < arities[:, None]
        columns = (codes + first[:-1, None]).T[known.T]
        starts = np.concatenate([[0], np.cumsum(known.sum(axis=0))])
        ones = np.ones(len(columns), dtype=np.float32)
        return csr_matrix((ones, columns, starts), shape=(codes.shape[1], first[-1]))


class _RawEncoder:
    """Numbers as they are, categories as the codes of their training values."""

    arities: NDArray[np.int64] | None = None

    def __init__(self, bins: str | int, columns: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Cut nothing."""
        self.columns = columns

    def fit(self, table: Any, y: NDArray[np.int64]) -> _RawEncoder:  # noqa: ARG002
        import pyarrow as pa

        from tanager.codes.dates import read_dates
        from tanager.sources import open_source

        self.values: dict[str, Any] = {}
        names = table.column_names
        asked = self.columns.get("categorical_features", ())
        categorical = names if asked == "all" else asked
        self.readings = read_dates(open_source(table), names, self.columns.get("dates"))
        for name in names:
            column = self._read(table, name)
            named = name in categorical or name in self.columns.get("ordered", {})
            if named or not _is_number(column.type):
                order = self.columns.get("ordered", {}).get(name)
                seen = _as_text(column).drop_null().unique()
                self.values[name] = pa.array(order, pa.string()) if order else seen.sort()
        return self

    def _read(self, table: Any, name: str) -> Any:
        """Return a column; dates and times as seconds since 1970."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = table.column(name).combine_chunks()
        if name in self.readings:
            column = self.readings[name].read(column, name)
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            column = pc.cast(column, pa.timestamp("s"), safe=False).cast(pa.int64())
        return column

    def transform(self, table: Any) -> NDArray[np.float64]:
        import pyarrow as pa
        import pyarrow.compute as pc

        matrix = np.empty((len(table), table.num_columns))
        for j, name in enumerate(table.column_names):
            column = self._read(table, name)
            if name in self.values:
                column = pc.index_in(_as_text(column), self.values[name])
            numbers = pc.cast(column, pa.float64(), safe=False)  # as near as a float can be
            matrix[:, j] = numbers.to_numpy(zero_copy_only=False)
        return matrix


_ENCODERS: Mapping[str, type[_Encoder]] = {
    "onehot": _OneHotEncoder,
    "ordinal": _OrdinalEncoder,
    "raw": _RawEncoder,
}


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _as_text(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(column, pa.string())
