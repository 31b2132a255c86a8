"""Experiments in TOML files: every key is checked before anything is opened or run.

An experiment file may come from somebody else. It is data: it names tables and
classifiers, and imports code only where the caller allows it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tanager.errors import ConfigurationError
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset, data_folder, find_dataset
from tanager.evaluation.metrics import DEFAULT_METRICS
from tanager.evaluation.protocol import CrossValidation, LearningCurve, Protocol
from tanager.sources.text import TextStyle

MAX_BYTES = 1 << 18  # a file of all 72 tables of the papers has 3 kB
MAX_DEPTH = 4  # of arrays and tables inside one another; the deepest use is 3
MAX_KEY_PARTS = 16  # of a.b.c: the parser's time grows with the square of this
MAX_ENTRIES = 10_000  # datasets or classifiers

_PART = r"(?:[A-Za-z0-9_-]+|\"[^\"\n]*\"|'[^'\n]*')"
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}[ \t]*\.[ \t]*){{{MAX_KEY_PARTS}}}")

_SCALARS = {"text": str, "a whole number": int, "a number": float, "true or false": bool}


def read_experiment_file(
    path: str | Path, data: str | Path | None = None, *, allow_imports: bool = False
) -> dict[str, Any]:
    """Return the arguments of `Experiment` that a TOML file declares, as its `from_toml`."""
    file = Path(path)
    content = _Keys(_parse(file), file.name)
    content.refuse_unknown(
        "name", "seed", "bins", "metrics", "keep", "protocol", "datasets", "classifiers"
    )
    bins = content.values.get("bins", "auto")
    if type(bins) not in (str, int):
        content.refuse("bins", bins, "text or a whole number")
    return {
        "datasets": _datasets(content, file, data),
        "classifiers": _contenders(content, allow_imports=allow_imports),
        "protocol": _protocol(content.table("protocol")),
        "metrics": content.array("metrics", tuple(DEFAULT_METRICS)),
        "seed": content.scalar("seed", "a whole number", 0),
        "bins": bins,
        "name": content.scalar("name", "text", file.stem),
        "keep": content.array("keep"),
    }


def _parse(file: Path) -> dict[str, Any]:
    """Return the file's content, within limits of size and depth."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise ConfigurationError(f"{file.name}: {reason}. Give an experiment file.") from error
    if len(raw) > MAX_BYTES:
        raise ConfigurationError(
            f"{file.name} has more than {MAX_BYTES:,} bytes. An experiment file names tables and "
            "classifiers; it does not hold data."
        )
    try:
        text = raw.decode("utf-8")
        if _LONG_KEY.search(text):
            raise ConfigurationError(
                f"{file.name}: a key has more than {MAX_KEY_PARTS} parts joined by dots. "
                f"The keys of an experiment file have up to {MAX_DEPTH}."
            )
        content: dict[str, Any] = tomllib.loads(text)
        if _depth(content) > MAX_DEPTH:
            raise RecursionError
        return content
    except ConfigurationError:
        raise
    except RecursionError as error:
        raise ConfigurationError(
            f"{file.name}: arrays or tables stand more than {MAX_DEPTH} deep inside one another. "
            "No key of an experiment file needs that."
        ) from error
    except ValueError as error:  # also from a number of too many digits
        raise ConfigurationError(f"{file.name} is not TOML: {error}.") from error


def _depth(content: Any) -> int:
    """Return how deep arrays and tables stand inside one another, without recursion."""
    deepest, waiting = 0, [(content, 0)]
    while waiting:
        value, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(value, dict | list):
            inside = value.values() if isinstance(value, dict) else value
            waiting += [(item, depth + 1) for item in inside]
    return deepest


class _Keys:
    """A table of the file: hands out values of the type that a key asks for.

    `where` is the file's name and the table's, as messages give it.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def refuse(self, key: str, value: Any, allowed: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        raise ConfigurationError(f"{self.where}: {key} is {shown}. Allowed: {allowed}.")

    def refuse_unknown(self, *allowed: str) -> None:
        for key in self.values:
            if key not in allowed:
                raise ConfigurationError(
                    f"{self.where}: {key!r} is not known. Allowed: {', '.join(sorted(allowed))}."
                )

    def scalar(self, key: str, kind: str, default: Any) -> Any:
        """Return one value; `kind` is a key of `_SCALARS`."""
        if key not in self.values:
            return default
        value = self.values[key]
        if kind == "a number" and type(value) is int:
            return float(value)
        if type(value) is not _SCALARS[kind]:
            self.refuse(key, value, kind)
        return value

    def array(self, key: str, default: tuple[Any, ...] = (), kind: type = str) -> tuple[Any, ...]:
        """Return a list of texts, or of whole numbers."""
        value = self.values.get(key, list(default))
        if not isinstance(value, list) or any(type(item) is not kind for item in value):
            allowed = "texts" if kind is str else "whole numbers"
            self.refuse(key, value, f"a list of {allowed}")
        return tuple(value)

    def table(self, key: str) -> _Keys:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, value, "a table of keys and values")
        return _Keys(value, f"{self.where}, [{key}]")

    def entries(self, key: str, allowed: str) -> Any:
        """Return a list of texts, or a table whose values are texts or tables."""
        value = self.values.get(key, [])
        if not isinstance(value, dict | list):
            self.refuse(key, value, allowed)
        if len(value) > MAX_ENTRIES:
            raise ConfigurationError(
                f"{self.where}: {key} has {len(value):,} entries. Allowed: {MAX_ENTRIES:,}."
            )
        if isinstance(value, list):
            return self.array(key)
        return self.table(key)


def _datasets(content: _Keys, file: Path, data: str | Path | None) -> list[Dataset]:
    entry = content.entries("datasets", "a list of names, or a table of paths by name")
    if isinstance(entry, tuple):
        return [find_dataset(name, data_folder(data)) for name in entry]
    return [_dataset(entry, name, file, data) for name in entry.values]


def _dataset(entry: _Keys, name: str, file: Path, data: str | Path | None) -> Dataset:
    if isinstance(entry.values[name], str):
        return Dataset(name, file.parent / entry.values[name])
    facts = entry.table(name)
    columns = ("categorical", "dates", "drop", "monotonic", "ordered", "target")
    reading = ("decimal", "encoding", "header", "na_values", "path", "train_rows")
    facts.refuse_unknown(*columns, *reading)
    path = facts.scalar("path", "text", None)
    if path is None:
        base = find_dataset(name, data_folder(data))
    else:
        base = Dataset(name, file.parent / path)
    said: dict[str, Any] = {
        key: facts.array(key) for key in ("categorical", "dates", "ordered", "monotonic")
    }
    return replace(
        base,
        target=facts.scalar("target", "text", base.target),
        drop=facts.array("drop", base.drop),
        train_rows=facts.scalar("train_rows", "a whole number", base.train_rows),
        style=TextStyle(
            facts.array("na_values"),
            facts.scalar("encoding", "text", "utf-8"),
            facts.scalar("decimal", "text", "."),
            facts.scalar("header", "true or false", None),
        ),
        **said,
    )


def _protocol(entry: _Keys) -> Protocol:
    if "sizes" in entry.values:
        entry.refuse_unknown("sizes", "rounds", "test_share")
        return LearningCurve(
            entry.array("sizes", kind=int),
            entry.scalar("rounds", "a whole number", LearningCurve.rounds),
            entry.scalar("test_share", "a number", LearningCurve.test_share),
        )
    entry.refuse_unknown("rounds", "folds", "stratified")
    return CrossValidation(
        entry.scalar("rounds", "a whole number", CrossValidation.rounds),
        entry.scalar("folds", "a whole number", CrossValidation.folds),
        stratified=entry.scalar("stratified", "true or false", CrossValidation.stratified),
    )


def _contenders(content: _Keys, *, allow_imports: bool) -> list[Contender]:
    entry = content.entries("classifiers", "a list of texts, or a table of texts by name")
    if isinstance(entry, tuple):
        found = [Contender.of(use) for use in entry]
    else:
        found = [_contender(entry, name) for name in entry.values]
    for contender in found:
        if contender.imports is not None and not allow_imports:
            raise ConfigurationError(
                f"{content.where}: classifier {contender.use[:80]!r} would import and run "
                f"{contender.imports[:80]!r}. If you trust the file, allow it with "
                "--allow-imports, or Experiment.from_toml(path, allow_imports=True)."
            )
    return found


def _contender(entry: _Keys, name: str) -> Contender:
    if isinstance(entry.values[name], str):
        return Contender(name, entry.values[name])
    facts = entry.table(name)
    use = facts.scalar("use", "text", None)
    if use is None:
        raise ConfigurationError(f"{entry.where}: classifier {name!r} does not say what to `use`.")
    options = {key: value for key, value in facts.values.items() if key != "use"}
    for key, value in options.items():
        if not _is_plain(value):
            facts.refuse(key, value, "texts, numbers, true or false, and lists and tables of them")
    return Contender(name, use, options)


def _is_plain(value: Any) -> bool:
    """Return whether a value can stand in a run file, which TOML's dates and times cannot."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return isinstance(value, str | int | float)
