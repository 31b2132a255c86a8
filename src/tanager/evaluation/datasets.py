"""The tables of an experiment: location, target and identity."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from tanager.classifiers.priors import parse_signs
from tanager.codes.audit import as_date_styles, audit_columns, parse_orders
from tanager.errors import ConfigurationError, DataError, listed
from tanager.sources import Source, open_source
from tanager.sources.files import find_files
from tanager.sources.text import TextStyle

DATA_VARIABLE = "TANAGER_DATA"

# Columns to hide from models: they identify the row and leak its class.
_IDENTIFIERS = {"splice": ("Instance_name",)}


class Loaded(NamedTuple):
    """A table in memory, with the target separated."""

    features: Any  # all columns but the target and the dropped ones
    target: Any  # the target as it is
    labels: NDArray[np.int64]  # (n_rows,): classes as codes
    classes: tuple[str, ...]  # names of the classes of the whole table, by code


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with a target column.

    Parameters
    ----------
    name : str
        Its name in results.
    source : path or table
        A file or folder of Parquet, Arrow or CSV, or anything tabular in memory
        that has column names (pyarrow, pandas, polars, DuckDB).
    target : str
        The column to predict.
    drop : tuple of str
        Columns to hide from all classifiers.
    style : TextStyle, optional
        How to parse the texts of a file; see `tanager.open_table`.
    categorical : tuple of str
        Columns that every classifier treats as categorical; or ("all",).
    dates : tuple of str
        Text columns to read as dates, each as ``name`` or ``name=style``.
    ordered : tuple of str
        Categories in order, each as ``name=first,second,...``.
    monotonic : tuple of str
        Columns along which classes rise or fall, each as ``name=+1`` or ``name=class:-1``;
        only for classifiers with layered parameters.
    classes_ordered : tuple of str
        All classes from lowest to highest; by default, in the order of numbers or the alphabet.
    train_rows : int, optional
        For a fixed split: the first `train_rows` rows are for training and the rest for testing,
        once, regardless of the protocol.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"a": ["x", "y", "x"], "class": ["n", "p", "n"]})
    >>> Dataset("tiny", table).load().labels.tolist()
    [0, 1, 0]
    """

    name: str
    source: Any = field(repr=False)
    target: str = "class"
    drop: tuple[str, ...] = ()
    train_rows: int | None = None
    style: TextStyle | None = None
    categorical: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()
    monotonic: tuple[str, ...] = ()
    classes_ordered: tuple[str, ...] = ()

    def check(self) -> int:
        """Check that columns and classes exist in the table, and return its number of rows."""
        opened = self.open()
        self._check_columns(opened.names)
        if self.classes_ordered or self.monotonic:
            classes = self._classes(opened.column(self.target))
            self.signs(classes, classes)
        return opened.n_rows

    def open(self) -> Source:
        """Open the table, reading only names and types."""
        return open_source(self.source, style=self.style).as_text(as_date_styles(self.dates))

    def findings(self) -> list[dict[str, Any]]:
        """Return the audit's findings about the columns, from a sample of rows."""
        table = self.open()
        features = [name for name in table.names if name not in (self.target, *self.drop)]
        every = self.categorical == ("all",)
        kept = features if every else [*self.categorical, *as_date_styles(self.dates)]
        return [finding.to_dict() for finding in audit_columns(table, features, kept)]

    def column_options(self) -> dict[str, Any]:
        """Return the options of `BayesNetClassifier` that describe the columns."""
        options: dict[str, Any] = {}
        if self.categorical:
            every = self.categorical == ("all",)
            options["categorical_features"] = "all" if every else list(self.categorical)
        if self.dates:
            options["dates"] = list(self.dates)
        if self.ordered:
            options["ordered"] = parse_orders(self.ordered)
        return options

    def signs(self, classes: Sequence[str], present: Collection[str]) -> dict[str, Any]:
        """Return `monotonic` for rows in which only the `present` ones of the classes occur."""
        found: dict[str, Any] = {}
        for name, asked in parse_signs(self.monotonic).items():
            if isinstance(asked, Mapping):
                if strange := [label for label in asked if label not in classes]:
                    raise ConfigurationError(
                        f"monotonic names the class {strange[0]!r} along {name!r}. The classes of "
                        f"dataset {self.name!r} are: {listed(classes)}.",
                        parameter="monotonic",
                    )
                asked = {label: sign for label, sign in asked.items() if label in present}
            if asked and len(present) > 1:
                found[name] = asked
        return found

    def _classes(self, target: pa.Array) -> list[str]:
        """Return the names of the classes from lowest to highest."""
        names = _names(target).unique().drop_null().to_pylist()
        if not self.classes_ordered:
            return sorted(names, key=float if is_number(target.type) else None)
        if sorted(self.classes_ordered) != sorted(names):
            raise ConfigurationError(
                f"classes_ordered has {listed(self.classes_ordered)}, but the classes of dataset "
                f"{self.name!r} are {listed(sorted(names))}. List each of them once.",
                parameter="classes_ordered",
            )
        return list(self.classes_ordered)

    def _check_columns(self, names: Sequence[str]) -> None:
        spoken_of = () if self.categorical == ("all",) else self.categorical
        wanted = [self.target, *self.drop, *spoken_of, *as_date_styles(self.dates)]
        wanted += [*parse_orders(self.ordered), *parse_signs(self.monotonic)]
        if missing := [name for name in wanted if name not in names]:
            hint = "Name the target." if missing[0] == self.target else "Check the spelling."
            raise DataError(
                f"dataset {self.name!r} has no column {missing[0]!r}. {hint} "
                f"Its columns: {listed(names)}.",
                parameter="target" if missing[0] == self.target else None,
            )
        if not set(names) - {self.target, *self.drop}:
            raise DataError(
                f"dataset {self.name!r} has no column to predict {self.target!r} from. Pass at "
                "least one feature."
            )

    def load(self) -> Loaded:
        """Read the table and separate the target."""
        table = _read(self.open())
        self._check_columns(table.column_names)
        target = table.column(self.target).combine_chunks()
        if n_missing := target.is_null(nan_is_null=True).true_count:
            raise DataError(
                f"dataset {self.name!r}: target {self.target!r} is missing in "
                f"{n_missing} rows. Drop those rows first."
            )
        if self.train_rows is not None and not 0 < self.train_rows < len(table):
            raise ConfigurationError(
                f"dataset {self.name!r}: train_rows={self.train_rows} leaves no rows for training "
                f"or for testing; the table has {len(table)} rows."
            )
        classes = self._classes(target)
        codes = pc.index_in(_names(target), pa.array(classes, pa.string())).to_numpy()
        features = table.drop_columns([self.target, *self.drop]).combine_chunks()
        return Loaded(features, target, codes.astype(np.int64), tuple(classes))

    def fingerprint(self) -> str:
        """Digest of the content, so that a changed file counts as another dataset."""
        parts = [self.target, *self.drop, str(self.train_rows)]
        # Only non-default options are included, so that older run files stay valid.
        if self.style not in (None, TextStyle()):
            parts.append(repr(self.style))
        for pair in ((self.categorical, self.dates), (self.ordered, self.monotonic)):
            parts += [repr(pair)] if any(pair) else []
        if self.classes_ordered:
            parts.append(repr(self.classes_ordered))
        return hashlib.sha256("\0".join([_digest(self.source), *parts]).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return the description for reports and run files, without absolute paths."""
        source = Path(self.source).name if isinstance(self.source, str | Path) else "in memory"
        facts: dict[str, Any] = {"name": self.name, "source": source, "target": self.target}
        keys = ("drop", "train_rows", "categorical", "dates", "ordered", "monotonic")
        for key in (*keys, "classes_ordered"):
            value = getattr(self, key)
            if value not in ((), None):
                facts[key] = list(value) if isinstance(value, tuple) else value
        if self.style not in (None, TextStyle()):
            facts |= {key: value for key, value in vars(self.style).items() if value is not None}
        return facts


def _names(target: pa.Array) -> pa.Array:
    """Return the class of each row as text."""
    if types.is_floating(target.type):
        target = pc.add(target, pa.scalar(0.0, target.type))  # -0.0 is 0.0
    return pc.cast(target, pa.string())


def is_number(kind: pa.DataType) -> bool:
    """Return whether the values of a type are plain numbers."""
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _read(source: Any) -> Any:
    """Read a whole table into memory, the same way as `BayesNetClassifier.fit`."""
    opened = open_source(source)
    return pa.Table.from_batches(list(opened.batches()), schema=opened.schema)


def _digest(source: Any) -> str:
    if isinstance(source, str | Path):
        files = [Path(str(file)) for file, _ in find_files(source)]
        return _digest_files(tuple((str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files))
    sink = pa.BufferOutputStream()
    table = _read(source)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()


@lru_cache(maxsize=256)
def _digest_files(files: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for name, _, _ in files:
        with Path(name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def data_folder(folder: str | Path | None = None) -> Path:
    """Return the folder of tables: the given one, or the one that TANAGER_DATA names."""
    chosen = folder if folder is not None else os.environ.get(DATA_VARIABLE)
    if not chosen:
        raise ConfigurationError(
            f"no folder of tables. Give --data, or set the environment variable {DATA_VARIABLE}."
        )
    path = Path(chosen)
    if not path.is_dir():
        raise ConfigurationError(f"the folder of tables {path.name!r} does not exist.")
    return path


def find_dataset(name: str, folder: Path) -> Dataset:
    """Find a Parquet file by name in a folder; its target is `class`, and known ids are dropped."""
    path = folder / f"{name}.parquet"
    if not os.path.exists(path):  # noqa: PTH110 (Path.exists raises if the name is too long)
        near = [p.stem for p in sorted(folder.glob("*.parquet")) if name.lower() in p.stem.lower()]
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise DataError(f"dataset {name[:100]!r} is not in the folder of tables.{hint}")
    return Dataset(name, path, drop=_IDENTIFIERS.get(name, ()))
