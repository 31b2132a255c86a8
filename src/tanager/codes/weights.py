"""Row weights: checked, joined with class weights, summed exactly."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.values import family_of, to_numbers
from tanager.errors import ConfigurationError, DataError, listed
from tanager.sources.gate import admit_array

# A weight says how many rows a row stands for. Within these bounds no product or
# square of weights leaves the range of floats.
LEAST_WEIGHT, MOST_WEIGHT = 1e-50, 1e50
_UNIT = 1_127  # sums are whole multiples of 2^-1127: below the last bit of any float


def as_weights(sample_weight: Any, n_rows: int | None) -> NDArray[np.float64]:
    """Return row weights as float64, checked; a number is the weight of every row."""
    try:
        weights = admit_array(np.asarray(sample_weight, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"sample_weight holds what is no number ({error}). Pass one number per row."
        ) from error
    if weights.ndim == 0 and n_rows is not None:
        weights = np.full(n_rows, float(weights))
    if weights.ndim != 1:
        raise DataError(
            f"Sample weights must be 1D array or scalar, not of shape {weights.shape}. "
            "Pass one weight per row."
        )
    if n_rows is not None and weights.shape[0] != n_rows:
        raise DataError(
            f"sample_weight has {weights.shape[0]} entries where the table has {n_rows} rows. "
            "Pass one weight per row.",
            parameter="sample_weight",
        )
    check_weights(weights, 0)
    if not weights.any():
        raise no_weight_error()
    return weights


def check_weights(weights: NDArray[np.float64], start: int) -> None:
    """Refuse negative, infinite, missing, tiny and huge weights, by row."""
    good = (weights == 0) | ((weights >= LEAST_WEIGHT) & (weights <= MOST_WEIGHT))
    if good.all():
        return
    row = int(np.argmin(good))
    if np.isfinite(weights[row]) and weights[row] > 0:
        allowed = f"Allowed: zero, and from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}. Scale the weights."
    else:
        allowed = "A weight is a finite number, zero or more. Drop or mend the row."
    raise DataError(f"sample_weight of row {start + row} is {weights[row]}. {allowed}")


def weight_column(column: pa.Array, name: str, start: int) -> NDArray[np.float64]:
    """Return some rows of a column of weights, from row `start` on; null is an error."""
    if family_of(column.type, name) == "text":
        raise DataError(
            f"The weights in column {name!r} are text. A weight is a finite number, zero or more. "
            "Name another column, or convert this one."
        )
    numbers, nulls = to_numbers(column, name)
    if nulls is not None:
        raise DataError(
            f"The weights in column {name!r} have a null (row {start + int(np.argmax(nulls))}). "
            "A weight is a finite number, zero or more. Drop or mend the row."
        )
    return numbers.astype(np.float64, copy=False)


def no_weight_error() -> DataError:
    """Return the error for weights that are all zero."""
    return DataError("Every sample_weight is zero: no row is left. Pass some positive weights.")


def class_factors(
    class_weight: Any, classes: NDArray[Any], sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the factor of each class on its rows' weights.

    ``'balanced'`` gives every class the same total: sum of all weights over
    (number of classes × sum of the class's weights). A mapping gives factors
    by class; a class it does not name has 1.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        filled = sums > 0
        return np.where(filled, sums.sum() / (filled.sum() * np.where(filled, sums, 1.0)), 1.0)
    if not isinstance(class_weight, Mapping):
        raise ConfigurationError(
            f"class_weight={class_weight!r} is not known. "
            "Allowed: None, 'balanced', or a mapping from class to weight."
        )
    known = classes.tolist()
    strange = [label for label in class_weight if label not in known]
    if strange:
        raise ConfigurationError(
            f"class_weight names {listed(strange)}, which the target does not have. "
            f"Its classes are: {listed(known)}."
        )
    try:
        factors = np.array([float(class_weight.get(label, 1.0)) for label in known])
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"class_weight={dict(class_weight)!r} has a weight that is no number ({error}). "
            f"Allowed: zero, and from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}."
        ) from error
    good = (factors == 0) | ((factors >= LEAST_WEIGHT) & (factors <= MOST_WEIGHT))
    if not good.all():
        raise ConfigurationError(
            f"class_weight={dict(class_weight)!r}. Allowed: zero, and from {LEAST_WEIGHT:g} to "
            f"{MOST_WEIGHT:g}."
        )
    return factors


def exact_sums(weights: NDArray[np.float64], groups: NDArray[Any], n_groups: int) -> list[int]:
    """Return the exact sum of each group's weights, as integers in units of 2^-1127.

    Integers add without rounding, so sums do not depend on order or chunking.
    Mantissas are added in two halves per exponent: both halves' sums stay
    below 2^53 for up to 2^26 rows.
    """
    mantissa, exponent = np.frexp(weights)
    whole = (mantissa * 2.0**53).astype(np.int64)
    least = int(exponent.min(initial=0))
    span = int(exponent.max(initial=0)) - least + 1
    cells = groups.astype(np.int64) * span + (exponent - least)
    size = n_groups * span
    high = np.bincount(cells, (whole >> 27).astype(np.float64), size).reshape(n_groups, span)
    low = np.bincount(cells, (whole & (2**27 - 1)).astype(np.float64), size).reshape(n_groups, span)
    shift = least - 53 + _UNIT
    exact = [0] * n_groups
    for group, e in np.argwhere((high > 0) | (low > 0)).tolist():
        exact[group] += ((int(high[group, e]) << 27) + int(low[group, e])) << (shift + e)
    return exact


def to_float(total: int) -> float:
    """Return an exact sum as the nearest float."""
    return float(Fraction(total, 1 << _UNIT))


def exact_count(n: int) -> int:
    """Return a number of rows of weight one as an exact sum."""
    return n << _UNIT
