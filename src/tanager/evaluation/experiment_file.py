"""Experiments in TOML files: every key is checked before anything is opened or run.

An experiment file may come from someone else. It is data: it names tables and
classifiers, and imports code only if the caller allows it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from tanager.errors import ConfigurationError
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset, data_folder, find_dataset
from tanager.evaluation.protocol import CrossValidation, LearningCurve, Protocol
from tanager.sources.text import TextStyle

MAX_BYTES = 1 << 18  # a file with all 72 tables of the papers has 3 kB
MAX_DEPTH = 4  # of nested arrays and tables; 3 levels are used
MAX_KEY_PARTS = 16  # as in a.b.c; the parser's time is quadratic in it
MAX_ENTRIES = 10_000  # datasets or classifiers

_PART = r"(?:[A-Za-z0-9_-]+|\"[^\"\n]*\"|'[^'\n]*')"
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}[ \t]*\.[ \t]*){{{MAX_KEY_PARTS}}}")


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(type(item) is kind for item in value)


Kinds = Mapping[str, str]  # the kind of each allowed key of a table, one of those below

TEXT, WHOLE, TABLE = "text", "a whole number", "a table of keys and values"
TEXTS, TEXT_OR_TABLE = "a list of texts", "text or a table of keys and values"
_KINDS: Mapping[str, Callable[[Any], bool]] = {
    TEXT: lambda value: type(value) is str,
    WHOLE: lambda value: type(value) is int,
    "a number": lambda value: type(value) in (int, float),
    "true or false": lambda value: type(value) is bool,
    "text or a whole number": lambda value: type(value) in (str, int),
    TEXTS: lambda value: _is_list(value, str),
    "a list of whole numbers": lambda value: _is_list(value, int),
    TABLE: lambda value: isinstance(value, dict),
    TEXT_OR_TABLE: lambda value: isinstance(value, str | dict),
    "a list of texts, or a table by name": lambda v: isinstance(v, dict) or _is_list(v, str),
}
_EXPERIMENT: Kinds = {
    "name": TEXT,
    "seed": WHOLE,
    "bins": "text or a whole number",
    "metrics": TEXTS,
    "keep": TEXTS,
    "protocol": TABLE,
    "datasets": "a list of texts, or a table by name",
    "classifiers": "a list of texts, or a table by name",
}
_STYLE: Kinds = {
    "na_values": TEXTS,
    "encoding": TEXT,
    "decimal": TEXT,
    "header": "true or false",
}
_DATASET: Kinds = {
    **dict.fromkeys(("categorical", "dates", "drop", "monotonic", "ordered"), TEXTS),
    "path": TEXT,
    "target": TEXT,
    "train_rows": WHOLE,
    **_STYLE,
}
_CURVE: Kinds = {"sizes": "a list of whole numbers", "rounds": WHOLE, "test_share": "a number"}
_FOLDS: Kinds = {"rounds": WHOLE, "folds": WHOLE, "stratified": "true or false"}


def read_experiment_file(
    path: str | Path, data: str | Path | None = None, *, allow_imports: bool = False
) -> dict[str, Any]:
    """Return the arguments of `Experiment` from a TOML file; see `Experiment.from_toml`."""
    file = Path(path)
    found = _checked(_parse(file), _EXPERIMENT, file.name)
    for key in ("datasets", "classifiers"):
        n_entries = len(found.setdefault(key, ()))
        if n_entries > MAX_ENTRIES:
            raise ConfigurationError(
                f"{file.name}: {key} has {n_entries:,} entries. Allowed: {MAX_ENTRIES:,}."
            )
    return {
        "name": file.stem,
        **found,
        "protocol": _protocol(found.get("protocol", {}), f"{file.name}, [protocol]"),
        "datasets": _datasets(found["datasets"], file, data),
        "classifiers": _contenders(found["classifiers"], file, allow_imports=allow_imports),
    }


def _parse(file: Path) -> dict[str, Any]:
    """Return the file's content, within limits of size and depth."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise ConfigurationError(f"{file.name}: {reason}. Pass an experiment file.") from error
    if len(raw) > MAX_BYTES:
        raise ConfigurationError(
            f"{file.name} has more than {MAX_BYTES:,} bytes. An experiment file names tables and "
            "classifiers; it doesn't contain data."
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
            f"{file.name}: arrays or tables are nested more than {MAX_DEPTH} levels deep. "
            "No key of an experiment file needs that."
        ) from error
    except ValueError as error:  # also raised by a number with too many digits
        raise ConfigurationError(f"{file.name} is not TOML: {error}.") from error


def _depth(content: Any) -> int:
    """Return how deeply arrays and tables are nested, without recursion."""
    deepest, waiting = 0, [(content, 0)]
    while waiting:
        value, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(value, dict | list):
            inside = value.values() if isinstance(value, dict) else value
            waiting += [(item, depth + 1) for item in inside]
    return deepest


def _checked(values: Mapping[str, Any], kinds: Kinds, where: str) -> dict[str, Any]:
    """Return a table after checking its keys and the kinds of its values; lists as tuples.

    `where` names the file and the table for error messages.
    """
    for key, value in values.items():
        if key not in kinds:
            raise ConfigurationError(
                f"{where}: {key!r} isn't valid. Allowed: {', '.join(sorted(kinds))}."
            )
        if not _KINDS[kinds[key]](value):
            _refuse(key, value, kinds[key], where)
    return {k: tuple(value) if isinstance(value, list) else value for k, value in values.items()}


def _refuse(key: str, value: Any, allowed: str, where: str) -> NoReturn:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    raise ConfigurationError(f"{where}: {key} is {shown}. Allowed: {allowed}.")


def _protocol(given: Mapping[str, Any], where: str) -> Protocol:
    if "sizes" in given:
        return LearningCurve(**_checked(given, _CURVE, where))
    return CrossValidation(**_checked(given, _FOLDS, where))


def _datasets(given: Any, file: Path, data: str | Path | None) -> list[Dataset]:
    if isinstance(given, tuple):
        return [find_dataset(name, data_folder(data)) for name in given]
    where = f"{file.name}, [datasets]"
    entries = _checked(given, dict.fromkeys(given, TEXT_OR_TABLE), where)
    return [_dataset(name, entry, where, file, data) for name, entry in entries.items()]


def _dataset(name: str, entry: Any, where: str, file: Path, data: str | Path | None) -> Dataset:
    if isinstance(entry, str):
        return Dataset(name, file.parent / entry)
    facts = _checked(entry, _DATASET, f"{where}, [{name}]")
    path = facts.pop("path", None)
    style = TextStyle(**{key: facts.pop(key) for key in _STYLE if key in facts})
    if path is None:
        base = find_dataset(name, data_folder(data))
    else:
        base = Dataset(name, file.parent / path)
    return replace(base, style=style, **facts)


def _contenders(given: Any, file: Path, *, allow_imports: bool) -> list[Contender]:
    if isinstance(given, tuple):
        found = [Contender.of(use) for use in given]
    else:
        where = f"{file.name}, [classifiers]"
        entries = _checked(given, dict.fromkeys(given, TEXT_OR_TABLE), where)
        found = [_contender(name, entry, where) for name, entry in entries.items()]
    for contender in found:
        if contender.imports is not None and not allow_imports:
            raise ConfigurationError(
                f"{file.name}: classifier {contender.use[:80]!r} would import and run "
                f"{contender.imports[:80]!r}. If you trust the file, allow it with "
                "--allow-imports, or Experiment.from_toml(path, allow_imports=True)."
            )
    return found


def _contender(name: str, entry: Any, where: str) -> Contender:
    if isinstance(entry, str):
        return Contender(name, entry)
    options, where = dict(entry), f"{where}, [{name}]"
    if "use" not in options:
        raise ConfigurationError(f"{where}: classifier {name!r} doesn't say what to `use`.")
    use = _checked({"use": options.pop("use")}, {"use": TEXT}, where)["use"]
    for key, value in options.items():
        if not _is_plain(value):
            allowed = "texts, numbers, true or false, and lists and tables of them"
            _refuse(key, value, allowed, where)
    return Contender(name, use, options)


def _is_plain(value: Any) -> bool:
    """Return whether a value can be written to a run file, unlike TOML's dates and times."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return isinstance(value, str | int | float)
