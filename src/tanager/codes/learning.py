"""Learning a codebook (one pass sees the rows, a second codes them), and adding rows to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.asked import (
    arrange_values,
    as_date_styles,
    feature_index,
    read_dates,
    read_orders,
)
from tanager.codes.audit import Finding, audit_columns
from tanager.codes.codebook import Codebook
from tanager.codes.coding import RawRows, code_rows
from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.codes.cuts import check_bins, learn_cuts, see_numbers
from tanager.codes.matching import MatchedTable
from tanager.codes.pooling import ValueWeights, describe_pooling, keep_frequent, with_others
from tanager.codes.reading import Reading, read_columns
from tanager.codes.rows import MAX_ARITY, MAX_CELLS, Rows
from tanager.codes.seeing import Sampled, SeeingPass, Seen
from tanager.codes.targets import (
    as_labels,
    class_array,
    code_labels,
    column_labels,
    no_weight_error,
    ordered_target,
    target_column,
    to_float,
)
from tanager.codes.values import (
    can_pool,
    family_of,
    has_order,
    sort_values,
    temporal_kind,
    too_many_error,
)
from tanager.errors import ConfigurationError, DataError, listed, nearest
from tanager.numerics import Floats, Ints
from tanager.sources import Source, open_source
from tanager.sources.gate import check_text
from tanager.sources.plain import value_type

if TYPE_CHECKING:
    from tanager.engines import FitContext

MAX_SAMPLE = 200_000  # rows of files from which cut points are learned
SAMPLE_CELLS = {False: 16_000_000, True: 1 << 27}  # numbers in a sample: of files, in memory
_SAMPLE_KEY = 0x5A


def learn_codebook(
    source: Any,
    target: Any,
    *,
    classes: Any = None,
    classes_ordered: Any = None,
    sample_weight: Any = None,
    categorical_features: Any = "from_dtype",
    ordered: Any = None,
    missing: str = "value",
    bins: str | int = "mdl",
    audit: bool = False,
    dates: Any = None,
    context: FitContext,
    max_sample: int = MAX_SAMPLE,
) -> tuple[Codebook, Rows]:
    """Learn the domains of all columns, and code the rows; options are those of the estimator.

    target: the target column's name, or the labels, shape (n_rows,).
    classes: all classes, where the rows may lack some.
    sample_weight: a column's name, or the weights; a row of weight zero is as good as absent, but
        its class is still a class.
    audit: findings are recorded in ``context.info["codes"]["audit"]``.
    max_sample: the most rows of files from which cut points are learned.

    The table is read twice: the first pass sees values, classes, weights and numbers, the second
    codes the rows. Cut points are learned from all numbers of a table in memory, and from up to
    `max_sample` rows of files: those whose index has the smallest hash under the seed, so the
    sample depends neither on chunking nor on threads.
    """
    if missing not in ("value", "marginalize"):
        raise ConfigurationError(
            f"missing={missing!r} is not known. Allowed: 'value', 'marginalize'.",
            parameter="missing",
        )
    check_bins(bins)
    table = open_source(source)
    table.keep(context.memory_limit)
    features = find_features(table, target, sample_weight)
    asked = _asked_categories(features, categorical_features)
    named = ordered if isinstance(ordered, Mapping) else {}
    spoken_for = [*asked, *(features[feature_index(features, key, "ordered")] for key in named)]
    table, readings = _read_columns(table, features, spoken_for, dates, audit, context)
    orders = read_orders(table, features, ordered)
    kinds = _kinds(table, features, frozenset(asked), orders)
    categorical = [kind != "number" for kind in kinds]
    temporal = [temporal_kind(value_type(table.schema.field(name).type)) for name in features]
    known = Target.of(target, classes, features, classes_ordered)
    labels = None if isinstance(target, str) else known.code(target)
    name = target if isinstance(target, str) else None
    raw = RawRows(table.hash_text(), features, name, labels, sample_weight)
    room = SAMPLE_CELLS[table.in_memory] // max(1, len(features) - sum(categorical))
    sample_rows = max(1, room if table.in_memory else min(room, max_sample))
    seeing = SeeingPass(
        features, kinds, known.name, context.row_seed(_SAMPLE_KEY), sample_rows, raw.n_rows
    )
    seen = context.engine.run(seeing, raw, context.progress, "codebook")
    if seen.n_rows == 0:
        raise no_weight_error()
    empty = _empty_features(features, seen) if missing == "marginalize" else []
    if empty:
        readings |= dict.fromkeys(empty, Reading("nothing"))
        table = read_columns(table, readings)
        raw = RawRows(table.hash_text(), features, name, labels, sample_weight)
        _add_findings(
            [Finding(one, "empty", "left out", "every row is missing") for one in empty], context
        )
    column, class_labels, order = known.settle(table, seen, coded=labels is not None)
    total = sum_weights(seen)
    fixed = {*orders, *(at for at, kind in enumerate(temporal) if kind)}
    pooled = _pool_rare(seen, raw, features, missing, fixed, total, context)
    sample = seen.sample.take(order, total)
    seen.orders = [orders.get(at, known_order) for at, known_order in enumerate(seen.orders)]
    facts = _facts(seen, sample, features, categorical, temporal, pooled)
    make = partial(make_column, n_classes=len(class_labels), missing=missing, bins=bins)
    columns = tuple(context.engine.map(make, facts, context.progress, "cut points"))
    for one in columns:
        if one.arity * len(class_labels) > MAX_CELLS:
            raise DataError(
                f"Column {one.name!r} has {one.arity:,} values and the target "
                f"{len(class_labels):,} classes: together more than {MAX_CELLS:,} cells. Group "
                "rare values or classes, or drop the column if it identifies rows."
            )
    codebook = Codebook(columns, column, class_labels, missing, table.named, readings)
    rows = code_rows(raw, codebook, not seen.unit_weights, seen.n_rows, total, context)
    return codebook, rows


def _add_findings(findings: Sequence[Finding], context: FitContext) -> None:
    """Add to what the audit has found."""
    audited = context.record("codes").get("audit", [])
    context.record("codes")["audit"] = [*audited, *(finding.to_dict() for finding in findings)]


def _pool_rare(
    seen: Seen,
    raw: RawRows,
    features: Sequence[str],
    missing: str,
    fixed: Collection[int],
    total: float,
    context: FitContext,
) -> frozenset[int]:
    """Cut categories of more values than codes to the most frequent; return which they are.

    Dates and values in an order, the `fixed` ones, are refused later instead. The rows are read
    once more, to count the values of these columns alone.
    """
    own = [gaps and missing == "value" for gaps in seen.missing]
    many = {
        at: sort_values(values.cast(pa.string()))
        for at, values in enumerate(seen.values)
        if values is not None and len(values) + own[at] > MAX_ARITY and can_pool(values)
        if at not in fixed and seen.orders[at] is None
    }
    if not many:
        return frozenset()
    counting = ValueWeights(many, {at: features[at] for at in many}, total)
    weights = context.engine.run(counting, raw, context.progress, "rare values")
    findings = []
    for (at, values), sums in zip(many.items(), weights, strict=True):
        kept = seen.values[at] = keep_frequent(values, sums, own=own[at])
        findings.append(describe_pooling(features[at], len(values), len(kept)))
    _add_findings(findings, context)
    return frozenset(many)


def _empty_features(features: Sequence[str], seen: Seen) -> list[str]:
    """Return the features without any value."""
    found = zip(features, seen.values, seen.present, strict=True)
    return [name for name, values, present in found if not (values or present)]


def _read_columns(
    table: Source,
    features: list[str],
    spoken_for: list[str],
    dates: Any,
    audit: bool,
    context: FitContext,
) -> tuple[Source, dict[str, Reading]]:
    """Return the table as it is read, and the columns that are not read as they are written."""
    readings: dict[str, Reading] = {}
    if dates is not None:
        table = table.as_text(as_date_styles(dates))
        readings = read_dates(table, features, dates)
    if audit:
        table = table.hash_text()
        findings = audit_columns(table, features, [*readings, *spoken_for])
        context.record("codes")["audit"] = [finding.to_dict() for finding in findings]
        readings |= {f.column: f.reading for f in findings if f.reading is not None}
    return (read_columns(table, readings) if readings else table), readings


def find_features(table: Source, target: Any, sample_weight: Any) -> list[str]:
    """Return the columns that are neither target nor weight; a name that is absent is refused."""
    for role, name in (("target", target), ("sample_weight", sample_weight)):
        if isinstance(name, str) and name not in table.names:
            raise DataError(
                f"No {role} column {name!r} in the table.{nearest(name, table.names)} "
                f"Its columns are: {listed(table.names)}."
            )
    taken = {name for name in (target, sample_weight) if isinstance(name, str)}
    features = [name for name in table.names if name not in taken]
    if not features:
        raise DataError("The table has no column besides the target. Pass at least one feature.")
    return features


class Target(NamedTuple):
    """What is known of the classes before the rows were seen."""

    name: str
    column: CategoricalColumn | None
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, target: Any, classes: Any, features: Sequence[str], order: Any = None) -> Target:
        """Learn the classes from an array of labels, or from the list of all classes."""
        name = target if isinstance(target, str) else _name_of(target, features)
        if order is not None:
            return cls(name, *ordered_target(order, name))
        given = target if classes is None else classes
        if isinstance(given, str):
            return cls(name, None, np.dtype(object))
        values, dtype = as_labels(given)
        return cls(name, target_column(values, name), dtype)

    def code(self, labels: Any) -> NDArray[np.uint16]:
        """Return the codes of an array of labels."""
        assert self.column is not None
        return code_labels(self.column, as_labels(labels, warn=False)[0])

    def settle(
        self, table: Source, seen: Seen, *, coded: bool
    ) -> tuple[CategoricalColumn, NDArray[Any], Ints]:
        """Return the target's column, the classes, and the code of each provisional class id."""
        column, dtype, found = self.column, self.dtype, list(seen.labels)
        if coded:
            assert column is not None
            return column, class_array(column, dtype), np.array(found, dtype=np.int64)
        kind = value_type(table.schema.field(self.name).type)
        labels, found_dtype = column_labels(pa.array(found, kind), self.name)
        if column is None:
            column, dtype = target_column(labels, self.name), found_dtype
        return column, class_array(column, dtype), code_labels(column, labels).astype(np.int64)


def _name_of(labels: Any, features: Sequence[str]) -> str:
    """Return the name that a series of labels has; "class" without one, or with a feature's."""
    name = getattr(labels, "name", None)
    if not isinstance(name, str) or not name or name in features:
        return "class"
    return check_text(name, "The target's name")


def sum_weights(seen: Seen) -> float:
    """Return the sum of all rows' weights."""
    return float(np.sum([to_float(count) for count in seen.counts]))


class ColumnFacts(NamedTuple):
    """What is known of one feature: enough to make its column."""

    name: str
    missing: bool
    values: pa.Array | None  # distinct values of a categorical feature
    numbers: NDArray[Any] | None  # of a numeric feature; none missing
    labels: NDArray[np.uint16]  # of the numbers' rows
    weights: Floats | None
    temporal: str
    order: pa.Array | None  # of a categorical feature, where it has one
    pooled: bool  # whether there are more values, too rare for codes of their own


def _facts(
    seen: Seen,
    sample: Sampled,
    features: Sequence[str],
    categorical: Sequence[bool],
    temporal: Sequence[str],
    pooled: Collection[int],
) -> list[ColumnFacts]:
    facts, at = [], 0
    for i, name in enumerate(features):
        numbers, labels, weights = None, sample.labels[:0], None
        if not categorical[i]:
            column = sample.numbers[at]
            at += 1
            if seen.present[i]:
                labels, weights = sample.labels, sample.weights
                if seen.missing[i]:
                    known = ~np.isnan(column)
                    column, labels = column[known], labels[known]
                    weights = None if weights is None else weights[known]
                # Integers are counted by value where floats would have to be sorted;
                # beyond 2^53 a float need not be one that 64 bits can hold.
                whole = seen.whole[i] and float(np.abs(column).max(initial=0.0)) < 2.0**53
                numbers = column.astype(np.int64) if whole else column
        found = (seen.missing[i], seen.values[i], numbers, labels, weights, temporal[i])
        facts.append(ColumnFacts(name, *found, seen.orders[i], i in pooled))
    return facts


def make_column(facts: ColumnFacts, n_classes: int, missing: str, bins: str | int) -> Column:
    """Return the column of a feature: the one place where a column is made."""
    own_code = facts.missing and missing == "value"
    if facts.numbers is not None:
        rows = facts.numbers, facts.labels, n_classes, facts.weights
        cuts = learn_cuts(*rows, bins, missing=own_code)
        own = len(cuts) + 1 if own_code else None
        seen = see_numbers(facts.numbers, facts.weights)
        return NumericColumn(facts.name, cuts, own, facts.temporal, seen)
    values = facts.values
    if values is None or len(values) == 0:
        if missing == "marginalize":  # it is left out, as one value of every row
            return CategoricalColumn(facts.name, pa.array([0]), None)
        return CategoricalColumn(facts.name, pa.array([], pa.null()), 0)
    if facts.pooled:
        values, other = with_others(values)
        own = len(values) if own_code else None
        return CategoricalColumn(facts.name, values, own, other_code=other)
    if len(values) + own_code > MAX_ARITY:
        raise too_many_error(facts.name, MAX_ARITY)
    own = len(values) if own_code else None
    if facts.order is not None:
        arranged = arrange_values(values, facts.order, facts.name)
        return CategoricalColumn(facts.name, arranged, own, True, facts.temporal)
    return CategoricalColumn(facts.name, sort_values(values), own, temporal=facts.temporal)


def _asked_categories(features: list[str], asked: Any) -> list[str]:
    """Return the features that the user calls categories."""
    if asked is None or (isinstance(asked, str) and asked == "from_dtype"):
        return []
    if isinstance(asked, str):
        if asked == "all":
            return features
        raise ConfigurationError(
            f"categorical_features={asked!r} is not known. Allowed: 'from_dtype', 'all', a boolean "
            "mask, a list of column names or of indices.",
            parameter="categorical_features",
        )
    given = np.asarray(asked)
    if given.dtype.kind == "b":
        if given.shape != (len(features),):
            raise ConfigurationError(
                f"categorical_features is a mask of shape {given.shape} for {len(features)} "
                "features. Pass one boolean per feature."
            )
        given = np.flatnonzero(given)
    where = "categorical_features"
    return [features[feature_index(features, one, where)] for one in given.tolist()]


def _kinds(
    table: Source, features: list[str], asked: frozenset[str], orders: Collection[int]
) -> list[str]:
    """Return how each feature is seen, as `SeeingPass` has it; `asked` are categories anyhow."""
    found = []
    for at, name in enumerate(features):
        type_ = table.schema.field(name).type
        is_category = family_of(type_, name) in ("text", "boolean", "null")
        if at not in orders and has_order(type_):
            found.append("ordered")
        elif is_category or pa.types.is_dictionary(type_) or name in asked or at in orders:
            found.append("category")
        else:
            found.append("number")
    return found


def encode_rows(
    codebook: Codebook,
    X: Any,
    target: Any,
    *,
    sample_weight: Any = None,
    context: FitContext,
) -> Rows:
    """Code more training rows with a given codebook; parameters as in `learn_codebook`."""
    source = open_source(X)
    find_features(source, target, sample_weight)
    name = target if isinstance(target, str) else None
    labels = codebook.encode_labels(target) if name is None else None
    kept = [sample_weight] if isinstance(sample_weight, str) else []
    matched = MatchedTable.of(codebook, source, target=name, kept=kept)
    table = matched.source
    raw = RawRows(table.hash_text(), matched.features, name, labels, sample_weight)
    if sample_weight is None:
        return code_rows(raw, codebook, False, raw.n_rows, float(raw.n_rows), context)
    bare = RawRows(table, (), name, labels, sample_weight)
    seeing = SeeingPass((), (), name or codebook.target.name, 0, 0, raw.n_rows)
    seen = context.engine.run(seeing, bare, context.progress, "weights")
    if seen.n_rows == 0:
        raise no_weight_error()
    total = sum_weights(seen)
    return code_rows(raw, codebook, not seen.unit_weights, seen.n_rows, total, context)
