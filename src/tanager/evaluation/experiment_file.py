"""Experiments in TOML files: every key is checked before anything is opened or run.

An experiment file may come from someone else. It is data: it names tables and
classifiers, and imports code only if the caller allows it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tanager.errors import ConfigurationError
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset, data_folder, find_dataset
from tanager.evaluation.protocol import CrossValidation, LearningCurve
from tanager.evaluation.runs import (
    FLAG,
    NUMBER,
    TABLE,
    TEXT,
    TEXTS,
    WHOLE,
    WHOLES,
    Kind,
    Schema,
    check_keys,
)
from tanager.sources.text import TextStyle

MAX_BYTES = 1 << 15  # a file with all 72 tables of the papers has 3 kB


def _is_plain(value: Any) -> bool:
    """Return whether a value can be written to a run file, unlike TOML's dates and times."""
    if isinstance(value, dict | list):
        return all(map(_is_plain, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str | int | float)


_PLAIN = Kind("texts, numbers, true or false, and lists and tables of them", _is_plain)
_ENTRIES = TEXTS.otherwise(TABLE)
_ENTRY = TEXT.otherwise(TABLE)
_EXPERIMENT: Schema = {
    "name": TEXT,
    "seed": WHOLE,
    "bins": TEXT.otherwise(WHOLE),
    "metrics": TEXTS,
    "keep": TEXTS,
    "protocol": TABLE,
    "datasets": _ENTRIES,
    "classifiers": _ENTRIES,
}
_STYLE: Schema = {"na_values": TEXTS, "encoding": TEXT, "decimal": TEXT, "header": FLAG}
_DATASET: Schema = {
    **dict.fromkeys(("categorical", "dates", "drop", "monotonic", "ordered"), TEXTS),
    "path": TEXT,
    "target": TEXT,
    "train_rows": WHOLE,
    **_STYLE,
}
_CURVE: Schema = {"sizes": WHOLES, "rounds": WHOLE, "test_share": NUMBER}
_FOLDS: Schema = {"rounds": WHOLE, "folds": WHOLE, "stratified": FLAG}


def read_experiment_file(
    path: str | Path, data: str | Path | None = None, *, allow_imports: bool = False
) -> dict[str, Any]:
    """Return the arguments of `Experiment` from a TOML file; see `Experiment.from_toml`."""
    file = Path(path)
    try:
        found = _checked(_parse(file), _EXPERIMENT, file.name)
        kind = LearningCurve if "sizes" in found.get("protocol", {}) else CrossValidation
        schema = _CURVE if kind is LearningCurve else _FOLDS
        plan = _checked(found.get("protocol", {}), schema, f"{file.name}, [protocol]")
        datasets = _datasets(found.get("datasets", ()), file, data)
        contenders = _contenders(found.get("classifiers", ()), file)
    except RecursionError as error:
        raise ConfigurationError(
            f"{file.name}: arrays or tables are nested too deeply. No key of an experiment file "
            "needs that."
        ) from error
    for contender in contenders:
        if contender.imports is not None and not allow_imports:
            raise ConfigurationError(
                f"{file.name}: classifier {contender.use[:80]!r} would import and run "
                f"{contender.imports[:80]!r}. If you trust the file, allow it with "
                "--allow-imports, or Experiment.from_toml(path, allow_imports=True)."
            )
    parts = {"protocol": kind(**plan), "datasets": datasets, "classifiers": contenders}
    return {"name": file.stem, **found, **parts}


def _parse(file: Path) -> dict[str, Any]:
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
        return tomllib.loads(raw.decode("utf-8"))
    except ValueError as error:  # also raised by a number with too many digits
        raise ConfigurationError(f"{file.name} is not TOML: {error}.") from error


def _checked(values: Mapping[str, Any], schema: Schema, where: str) -> dict[str, Any]:
    """Return a table after checking its keys and values; lists as tuples."""
    for key in values:
        if key not in schema:
            raise ConfigurationError(
                f"{where}: {key[:80]!r} isn't valid. Allowed: {', '.join(sorted(schema))}."
            )
    check_keys(values, schema, where, ConfigurationError)
    return {k: tuple(value) if isinstance(value, list) else value for k, value in values.items()}


def _datasets(given: Any, file: Path, data: str | Path | None) -> list[Dataset]:
    if isinstance(given, tuple):
        return [find_dataset(name, data_folder(data)) for name in given]
    where, found = f"{file.name}, [datasets]", []
    for name, entry in _checked(given, dict.fromkeys(given, _ENTRY), where).items():
        table = {"path": entry} if isinstance(entry, str) else entry
        facts = _checked(table, _DATASET, f"{where}, [{name}]")
        path = facts.pop("path", None)
        if any(key in facts for key in _STYLE):
            facts["style"] = TextStyle(**{k: facts.pop(k) for k in _STYLE if k in facts})
        named = find_dataset(name, data_folder(data)) if path is None else None
        found.append(replace(named or Dataset(name, file.parent / path), **facts))
    return found


def _contenders(given: Any, file: Path) -> list[Contender]:
    if isinstance(given, tuple):
        return [Contender.of(use) for use in given]
    where, found = f"{file.name}, [classifiers]", []
    for name, entry in _checked(given, dict.fromkeys(given, _ENTRY), where).items():
        options = {"use": entry} if isinstance(entry, str) else dict(entry)
        if "use" not in options:
            raise ConfigurationError(f"{where}: classifier {name!r} doesn't say what to `use`.")
        schema = {**dict.fromkeys(options, _PLAIN), "use": TEXT}
        check_keys(options, schema, f"{where}, [{name}]", ConfigurationError)
        found.append(Contender(name, options.pop("use"), options))
    return found
