"""Learning a codebook: one look at the data, then every row as codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.codebook import Codebook
from tanager.codes.column_learning import ColumnLearner, Task, learn_matrix
from tanager.codes.cuts import check_bins
from tanager.codes.rows import Rows, exact_weights
from tanager.codes.targets import as_labels, class_array, code_labels, column_labels, target_column
from tanager.codes.values import family_of
from tanager.codes.weights import (
    as_weights,
    class_factors,
    exact_sums,
    no_weight_error,
    to_float,
    weight_column,
)
from tanager.errors import ConfigurationError, DataError
from tanager.sources import Source, open_source

if TYPE_CHECKING:
    from tanager.engines import FitContext

__all__ = ["MAX_SAMPLE", "learn_codebook"]

MAX_SAMPLE = 200_000  # rows from which a streamed table's cut points are learned


def learn_codebook(
    source: Any,
    target: Any,
    *,
    classes: Any = None,
    sample_weight: Any = None,
    class_weight: Any = None,
    categorical_features: Any = "from_dtype",
    missing: str = "value",
    bins: str | int = "mdl",
    context: FitContext,
    max_sample: int = MAX_SAMPLE,
) -> tuple[Codebook, Rows]:
    """Learn the domains of all columns, and give the rows as codes.

    Parameters
    ----------
    source : Source or anything `tanager.sources.open_source` takes
    target : str or array-like, shape (n_rows,)
        The target column's name, or the labels.
    classes : array-like, optional
        All classes, where the rows may lack some; for tables in memory.
    sample_weight : str or array-like, shape (n_rows,), optional
        The weights' column's name, or the weights: finite, zero or more. A row
        of weight zero is as good as absent (its class is still a class).
    class_weight : None, 'balanced' or mapping
        Factors on the rows' weights by class. 'balanced' gives every class the
        same total weight.
    categorical_features : {'from_dtype', 'all'}, mask, names or indices
        Which numeric columns hold categories. Strings, booleans, categories and
        Arrow dictionaries always do.
    missing : {'value', 'marginalize'}
        Whether "missing" is a value of its own (in columns that have it in
        training) or unknown.
    bins : 'mdl' or int
        How numbers are cut; see `learn_cuts`.
    context : FitContext
    max_sample : int
        The most rows from which cut points are learned when streaming.

    Returns
    -------
    codebook : Codebook
    rows : Rows or StreamedRows

    Notes
    -----
    In memory everything is exact and every row is coded once. A streamed table
    is read once here, for domains, classes, weights and a sample of `max_sample`
    rows (fewer where more than 80 numeric columns would make it large) for the
    cut points; later passes read and code it again. The sample is the rows
    whose index has the smallest hash under the seed, so it depends neither on
    chunking nor on threads. Weights enter the cut points as repetitions: N is
    their sum. Dates and times are numbers: seconds since 1970.
    """
    if missing not in ("value", "marginalize"):
        raise ConfigurationError(
            f"missing={missing!r} is not known. Allowed: 'value', 'marginalize'."
        )
    check_bins(bins)
    opened = open_source(source)
    for role, name in (("target", target), ("sample_weight", sample_weight)):
        if isinstance(name, str) and name not in opened.names:
            raise DataError(
                f"No {role} column {name!r} in the table. Its columns are: "
                f"{', '.join(map(repr, opened.names))}."
            )
    taken = {name for name in (target, sample_weight) if isinstance(name, str)}
    features = [name for name in opened.names if name not in taken]
    if not features:
        raise DataError("The table has no column besides the target. Pass at least one feature.")
    task = Task(
        opened,
        features,
        _categorical_mask(opened, features, categorical_features),
        target,
        sample_weight,
        class_weight,
        missing,
        classes,
        bins,
    )
    if opened.in_memory:
        return _learn_in_memory(task, context)
    if classes is not None:
        raise ConfigurationError("classes= goes with rows in memory, not with a streamed table.")
    from tanager.codes.streaming import learn_streamed

    return learn_streamed(task, context, max_sample)


def _categorical_mask(source: Source, features: list[str], asked: Any) -> list[bool]:
    """Return which features are categories."""
    kinds = [source.schema.field(name).type for name in features]
    families = [family_of(kind, name) for kind, name in zip(kinds, features, strict=True)]
    mask = [
        family in ("text", "boolean", "null") or pa.types.is_dictionary(kind)
        for kind, family in zip(kinds, families, strict=True)
    ]
    if asked is None or (isinstance(asked, str) and asked == "from_dtype"):
        return mask
    if isinstance(asked, str):
        if asked == "all":
            return [True] * len(features)
        raise ConfigurationError(
            f"categorical_features={asked!r} is not known. Allowed: 'from_dtype', 'all', a boolean "
            "mask, a list of column names or of indices."
        )
    given = np.asarray(asked)
    if given.dtype.kind == "b":
        if given.shape != (len(features),):
            raise ConfigurationError(
                f"categorical_features is a mask of shape {given.shape} for {len(features)} "
                "features. Pass one boolean a feature."
            )
        chosen = set(np.flatnonzero(given).tolist())
    elif given.size == 0:
        chosen = set()
    else:
        chosen = {_feature_index(features, one) for one in given.tolist()}
    return [fixed or i in chosen for i, fixed in enumerate(mask)]


def _feature_index(features: Sequence[str], one: Any) -> int:
    if isinstance(one, str) and one in features:
        return features.index(one)
    if isinstance(one, int) and -len(features) <= one < len(features):
        return one % len(features)
    raise ConfigurationError(
        f"categorical_features names {one!r}, which is not a feature. "
        f"The features are: {', '.join(features[:30])}."
    )


def _learn_in_memory(task: Task, context: FitContext) -> tuple[Codebook, Rows]:
    source, n_rows = task.source, task.source.n_rows
    assert n_rows is not None
    if isinstance(task.target, str):
        label_values, dtype = column_labels(source.column(task.target))
    else:
        label_values, dtype = as_labels(task.target)
        if len(label_values) != n_rows:
            raise DataError(
                f"Found input variables with inconsistent numbers of samples: the table has "
                f"{n_rows} rows, the target {len(label_values)} labels. Pass one label a row."
            )
    name = task.target if isinstance(task.target, str) else "class"
    known, dtype = (label_values, dtype) if task.classes is None else as_labels(task.classes)
    target = target_column(known, name)
    classes = class_array(target, dtype)
    labels = code_labels(target, label_values)
    weights = None
    if task.sample_weight is not None:
        given = task.sample_weight
        if isinstance(given, str):
            given = weight_column(source.column(given), given)
        weights = as_weights(given, n_rows)
    if task.features != list(source.names):
        source = source.select(task.features)
    if weights is not None and not weights.all():
        kept = weights > 0
        source, labels, weights = source.filter(kept), labels[kept], weights[kept]
    weights = join_weights(weights, labels, classes, task.class_weight)
    learner = ColumnLearner(task, labels, weights, len(classes))
    if source.dense is not None:
        columns = learn_matrix(source, task, learner, context)
        codebook = Codebook(columns, target, classes, task.missing, source.named)
        codes = codebook.encode(source)
    else:
        found = context.engine.map(
            lambda i: learner.learn_and_encode(i, source.column(task.features[i])),
            range(len(task.features)),
            context.progress,
            "codes",
        )
        codebook = Codebook(
            tuple(column for column, _ in found), target, classes, task.missing, source.named
        )
        codes = np.empty((len(found), len(labels)), dtype=codebook.dtype)
        for row, (_, column_codes) in zip(codes, found, strict=True):
            row[:] = column_codes
    return codebook, Rows.in_memory(codebook.domain, codes, labels, weights)


def join_weights(
    weights: NDArray[np.float64] | None,
    labels: NDArray[np.uint16],
    classes: NDArray[Any],
    class_weight: Any,
) -> NDArray[np.float64] | None:
    """Return row times class weights, rounded so that sums are exact; None if all are one."""
    if class_weight is None and (weights is None or (weights == 1).all()):
        return None
    if weights is None:
        sums = np.bincount(labels, minlength=len(classes)).astype(np.float64)
    else:
        sums = np.array([to_float(s) for s in exact_sums(weights, labels, len(classes))])
    factors = class_factors(class_weight, classes, sums)
    total = float((sums * factors).sum())
    if total <= 0:
        raise no_weight_error()
    joined = factors[labels] if weights is None else weights * factors[labels]
    rounded = exact_weights(joined, total)
    return None if (rounded == 1).all() else rounded
