"""Learn a codebook (one pass observes the rows, a second one codes them), and add rows to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import numpy as np
import pyarrow as pa

from tanager.codes.audit import Finding, audit_columns, feature_index, read_dates, read_orders
from tanager.codes.codebook import Codebook, MatchedTable
from tanager.codes.groups import check_bins
from tanager.codes.reading import Reading, read_columns
from tanager.codes.rows import MAX_ARITY, MAX_CELLS, Chunk, Rows, exact_weights
from tanager.codes.seeing import (
    Making,
    RawChunk,
    RawPiece,
    RawRows,
    SeeingPass,
    Seen,
    SeenCategory,
    SeenFeature,
    SeenNumeric,
)
from tanager.codes.targets import Target, code_labels, no_weight_error
from tanager.codes.values import can_pool, family_of, sort_values, temporal_kind, to_family
from tanager.engines import FitContext, Sums
from tanager.errors import DataError, invalid, listed, nearest
from tanager.numerics import Floats
from tanager.sources import Source, open_source
from tanager.sources.plain import value_type

MAX_SAMPLE = 200_000  # rows of files from which cut points are learned
SAMPLE_CELLS = {False: 16_000_000, True: 1 << 27}  # numbers in a sample: from files, in memory
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
) -> tuple[Codebook, Rows]:
    """Learn the domains of all columns, and code the rows; options are those of the estimator.

    target, sample_weight: a column's name, or one label or weight per row; a row of weight zero is
        ignored, except that its class still counts as a class.
    classes: all classes, if some may not occur in the rows.

    Cut points are learned from up to 200,000 rows of files: those whose index has the smallest
    hash, so the sample depends neither on chunking nor on threads.
    """
    if missing not in ("value", "marginalize"):
        raise invalid("missing", missing, "'value', 'marginalize'")
    check_bins(bins)
    table = open_source(source).hash_text()
    features = find_features(table, target, sample_weight)
    asked = _asked_categories(features, categorical_features)
    named = ordered if isinstance(ordered, Mapping) else {}
    spoken_for = [*asked, *(features[feature_index(features, key, "ordered")] for key in named)]
    table, readings = _read_columns(table, features, spoken_for, dates, audit, context)
    orders = read_orders(table, features, ordered)
    blank = _blank_features(table, features, frozenset(asked), orders)
    known = Target.of(target, classes, features, classes_ordered)
    name = target if isinstance(target, str) else None
    raw = RawRows(table, features, name, known.labels, sample_weight)
    n_numeric = sum(isinstance(one, SeenNumeric) for one in blank)
    room = SAMPLE_CELLS[table.in_memory] // max(1, n_numeric)
    sample_rows = max(1, room if table.in_memory else min(room, MAX_SAMPLE))
    seeing = SeeingPass(blank, known.name, context.row_seed(_SAMPLE_KEY), sample_rows)
    seen = context.engine.run(seeing, raw, context.progress, "codebook")
    if not seen.total_weight:
        raise no_weight_error()
    empty = [one.name for one in seen.features if one.is_empty and missing == "marginalize"]
    readings |= {one: Reading("nothing") for one in empty}
    why = "every row is missing"
    _add_findings([Finding(one, "empty", "left out", why) for one in empty], context)
    column, class_labels, order = known.settle(table, seen.labels)
    _add_findings(pool_rare(seen, raw, missing, context), context)
    numbers, codes, given = seen.sample.take(order)
    weights = None if seen.unit_weights else exact_weights(given, float(seen.total_weight))
    numeric = (one for one in seen.features if isinstance(one, SeenNumeric))
    for one, found in zip(numeric, numbers, strict=True):
        one.numbers = found
    work = methodcaller("column", Making(codes, weights, len(class_labels), missing, bins))
    columns = tuple(context.engine.map(work, seen.features, context.progress, "cut points"))
    for made in columns:
        if made.arity * len(class_labels) > MAX_CELLS:
            raise DataError(
                f"Column {made.name!r} has {made.arity:,} values and the target "
                f"{len(class_labels):,} classes: together more than {MAX_CELLS:,} cells. Group "
                "rare values or classes, or drop the column if it identifies rows."
            )
    codebook = Codebook(columns, column, class_labels, missing, table.named, readings)
    return codebook, code_rows(raw, codebook, seen, context)


def _add_findings(findings: Sequence[Finding], context: FitContext) -> None:
    """Append to the findings of the audit."""
    if findings:
        audited = context.record("codes").setdefault("audit", [])
        audited += [finding.to_dict() for finding in findings]


def _read_columns(
    table: Source, features: list[str], kept: list[str], dates: Any, audit: bool, fit: FitContext
) -> tuple[Source, dict[str, Reading]]:
    """Return the table as it is read, and how columns that aren't read as written are parsed."""
    readings = read_dates(table, features, dates)
    table = table.as_text(readings)
    if audit:
        findings = audit_columns(table, features, [*readings, *kept])
        fit.record("codes")["audit"] = []
        _add_findings(findings, fit)
        readings |= {f.column: f.reading for f in findings if f.reading is not None}
    return (read_columns(table, readings) if readings else table), readings


def find_features(table: Source, target: Any, sample_weight: Any) -> list[str]:
    """Return the columns that are neither target nor weight; raise if a named one doesn't exist."""
    for role, name in (("target", target), ("sample_weight", sample_weight)):
        if isinstance(name, str) and name not in table.names:
            raise DataError(
                f"No {role} column {name!r} in the table.{nearest(name, table.names)} "
                f"Its columns are: {listed(table.names)}."
            )
    taken = {name for name in (target, sample_weight) if isinstance(name, str)}
    if isinstance(target, str) and isinstance(sample_weight, str) and len(taken) == 1:
        raise DataError(
            f"Column {target!r} is given as the target and as sample_weight. Name two columns.",
            parameter="sample_weight",
        )
    features = [name for name in table.names if name not in taken]
    if not features:
        raise DataError("The table has no column besides the target. Pass at least one feature.")
    return features


def _asked_categories(features: list[str], asked: Any) -> list[str]:
    """Return the features that the user declared as categorical."""
    if asked is None or (isinstance(asked, str) and asked == "from_dtype"):
        return []
    if isinstance(asked, str) and asked == "all":
        return features
    where, given = "categorical_features", np.asarray(asked)
    single = isinstance(asked, str) or not isinstance(asked, Iterable)
    if single or (given.dtype.kind == "b" and given.shape != (len(features),)):
        allowed = (
            f"'from_dtype', 'all', a mask of {len(features)} booleans, one per feature, a list of "
            "column names or of indices"
        )
        raise invalid(where, asked, allowed)
    if given.dtype.kind == "b":
        given = np.flatnonzero(given)
    return [features[feature_index(features, one, where)] for one in given.tolist()]


def _blank_features(
    table: Source, features: list[str], asked: frozenset[str], orders: Mapping[int, pa.Array]
) -> list[SeenFeature]:
    """Return an empty summary of each feature; those in `asked` and `orders` are categorical."""
    found: list[SeenFeature] = []
    for at, name in enumerate(features):
        kind = table.schema.field(name).type
        temporal = temporal_kind(value_type(kind))
        is_category = family_of(kind, name) in ("text", "boolean", "null")
        is_category |= pa.types.is_dictionary(kind) or name in asked or at in orders
        if is_category and not temporal:
            found.append(SeenCategory(name, at not in orders, order=orders.get(at)))
        else:
            found.append(SeenNumeric(name, temporal))
    return found


def pool_rare(seen: Seen, raw: RawRows, missing: str, context: FitContext) -> list[Finding]:
    """Reduce categories with too many values to the most frequent ones; return what was done.

    The rows are read once more to weigh the values. Ordered values aren't pooled, and are rejected
    later. Of equally frequent values the first are kept, but none that occurs in a single row.
    """
    many = {
        at: one
        for at, one in enumerate(seen.features)
        if isinstance(one, SeenCategory) and one.n_codes(missing) > MAX_ARITY
        if one.order is None and can_pool(one.values)
    }
    if not many:
        return []
    texts = {at: sort_values(one.values.cast(pa.string())) for at, one in many.items()}
    weighing = _ValueWeights(texts, float(seen.total_weight))
    sums = context.engine.run(weighing, raw, context.progress, "rare values")
    findings = []
    for one, values, weights in zip(many.values(), texts.values(), sums, strict=True):
        n_own = 1 + (one.missing and missing == "value")  # codes of the others, and of "missing"
        kept = np.argsort(-weights, kind="stable")[: MAX_ARITY - n_own]
        if weights.min() == 1.0:  # otherwise, weights aren't numbers of rows
            kept = kept[weights[kept] > 1.0]
        one.values, one.pooled = values.take(pa.array(kept)), True
        n_rare = len(values) - len(kept)
        rarest = f"the {n_rare:,} rarest" if len(kept) else "none occurs twice, so all"
        reason = f"{len(values):,} different values: {rarest} share one code"
        findings.append(Finding(one.name, "many values", "pooled", reason))
    return findings


@dataclass(frozen=True)
class _ValueWeights(Sums):
    """Sums the weights of rows by value, for some categorical features."""

    values: Mapping[int, pa.Array]  # the distinct values, as text, by index of the feature
    total_weight: float

    def zero(self) -> tuple[Floats, ...]:
        return tuple(np.zeros(len(values)) for values in self.values.values())

    def update(self, state: tuple[Floats, ...], chunk: RawChunk) -> tuple[Floats, ...]:
        import pyarrow.compute as pc

        chunk = chunk.positive()
        weights = None
        if chunk.weights is not None:
            weights = exact_weights(chunk.weights, self.total_weight)
        for sums, (at, values) in zip(state, self.values.items(), strict=True):
            array = chunk.column(at).dictionary_encode()
            given = to_family(array.dictionary, "text", "")
            place = pc.index_in(given, value_set=values).take(array.indices)
            known = place.is_valid().to_numpy(zero_copy_only=False)
            found = place.drop_null().to_numpy(zero_copy_only=False)
            sums += np.bincount(found, None if weights is None else weights[known], len(sums))
        return state


@dataclass(frozen=True, eq=False)
class RowCoder:
    """Codes pieces of raw rows; rows with a weight of zero are skipped."""

    codebook: Codebook
    total_weight: float | None  # the sum of the weights of all rows; None if each weight is one

    def __call__(self, piece: RawPiece) -> Iterator[Chunk]:
        """Iterate over the coded chunks."""
        for raw in map(RawChunk.positive, piece.chunks()):
            if not raw.n_rows:
                continue
            labels, weights = raw.labels, None
            if not isinstance(labels, np.ndarray):
                # Rows are only dropped once a pass over the weights has ruled out nulls.
                labels = code_labels(self.codebook.target, labels, piece.target, raw.start)
            if self.total_weight is not None and raw.weights is not None:
                weights = exact_weights(raw.weights, self.total_weight)
            if raw.matrix is not None and self.codebook.takes_matrix:
                codes = self.codebook.encode_matrix(raw.matrix)
            else:
                columns = [raw.column(i) for i in range(len(self.codebook.columns))]
                codes = self.codebook.encode_columns(columns)
            yield Chunk(codes, labels, weights, raw.start, raw.row_index)


def code_rows(raw: RawRows, codebook: Codebook, seen: Seen | None, context: FitContext) -> Rows:
    """Code all rows, and keep the codes where they were made; `seen` has their weights, if any."""
    total = None if seen is None or seen.unit_weights else float(seen.total_weight)
    coder = RowCoder(codebook, total)
    pieces = context.engine.keep(coder, raw.pieces(), context.rows_limit, context.progress, "codes")
    return Rows(codebook.domain, pieces, weighted=total is not None, total_weight=total)


def encode_rows(
    codebook: Codebook, X: Any, target: Any, *, sample_weight: Any = None, context: FitContext
) -> Rows:
    """Code more training rows with a given codebook; parameters as in `learn_codebook`."""
    source = open_source(X).hash_text()
    find_features(source, target, sample_weight)
    name = target if isinstance(target, str) else None
    labels = codebook.encode_labels(target) if name is None else None
    kept = [sample_weight] if isinstance(sample_weight, str) else []
    matched = MatchedTable.of(codebook, source, target=name, kept=kept)
    table = matched.source
    raw = RawRows(table, matched.features, name, labels, sample_weight)
    if sample_weight is None:
        return code_rows(raw, codebook, None, context)
    bare = RawRows(table, (), name, labels, sample_weight)
    seeing = SeeingPass((), name or codebook.target.name)
    seen = context.engine.run(seeing, bare, context.progress, "weights")
    if not seen.total_weight:
        raise no_weight_error()
    return code_rows(raw, codebook, seen, context)
