"""Run files, which survive a kill, and checks of their content.

A run file may be damaged, or come from anyone.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from tanager.atomic import destination
from tanager.errors import DataError
from tanager.evaluation.metrics import N_BINS

FORMAT = "tanager-run-1"
_START = f'{{"format": "{FORMAT}", "experiment": '.encode()  # the start of every run file

_log = logging.getLogger(__name__)


class RunFile:
    """JSON Lines, one line per cell; the first line describes the experiment.

    A line counts once its newline is on disk: each is written in one call and
    synced before the next. A partial line left by a kill is truncated when the
    file is reopened, and its cell is recomputed. A lock on the file prevents a
    second writer. The file and its folders are created if they don't exist.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/run.jsonl"
    >>> with RunFile(path) as run:
    ...     run.begin({"name": "demo"})
    ...     run.append({"cell": "abc", "status": "ok"})
    >>> [record["cell"] for record in RunFile(path).cells()]
    ['abc']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: IO[bytes] | None = None

    def __enter__(self) -> RunFile:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.check()
        self._file = destination(self.path).open("a+b")
        self._lock()
        self._cut_torn_line()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # no advisory locks on this platform
            return
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise DataError(
                f"{self.path.name} is being written by another run. Wait for it, or give this run "
                "another file."
            ) from error

    def _cut_torn_line(self) -> None:
        assert self._file is not None
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            _log.warning("%s: removed an incomplete line left by a killed run", self.path.name)
            self._file.truncate(whole)

    def check(self) -> None:
        """Reject an existing file that isn't a run file: appending would damage it."""
        if not self.path.exists():
            return
        start = None
        if self.path.is_file():  # reading a pipe would block forever
            with self.path.open("rb") as file:
                start = file.read(len(_START))
        if start is None or not _START.startswith(start):
            raise DataError(
                f"{self.path.name} isn't a run file: those are written by tanager compare --run or "
                "Experiment.run(path). Choose another name."
            )

    def begin(self, description: dict[str, Any]) -> None:
        """Write the description of the experiment, unless the last one is the same."""
        if self._descriptions()[-1:] != [description]:
            self.append({"format": FORMAT, "experiment": description})

    def append(self, record: dict[str, Any]) -> None:
        """Write one record, durably."""
        if self._file is None:
            raise DataError(f"{self.path.name} is not open for writing. Use it in a with block.")
        line = json.dumps(record, ensure_ascii=False, allow_nan=True) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def description(self) -> dict[str, Any]:
        """Return the last description of the experiment."""
        found = self._descriptions()
        if not found:
            raise DataError(f"{self.path.name} isn't a run file: it describes no experiment.")
        return found[-1]

    def _descriptions(self) -> list[Any]:
        return [record["experiment"] for record in self._records() if "experiment" in record]

    def cells(self) -> Iterator[dict[str, Any]]:
        """Iterate over the finished cells in the order of the file."""
        return (record for record in self._records() if "cell" in record)

    def _records(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    _log.warning("%s: line %d is damaged and ignored", self.path.name, number)
                    continue
                if number == 1 and (not isinstance(record, dict) or record.get("format") != FORMAT):
                    raise DataError(f"{self.path.name} is not a run file of format {FORMAT}.")
                if isinstance(record, dict):
                    yield record


MAX_COUNT = 2**53


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_COUNT


def _is_number(value: Any) -> bool:
    """Whether a value is None or a number that fits a float."""
    return value is None or type(value) is float or (type(value) is int and abs(value) < MAX_COUNT)


def _is_named(value: Any) -> bool:
    """Whether a value is a list of objects with distinct names."""
    if not (isinstance(value, list) and value and all(isinstance(item, dict) for item in value)):
        return False
    names = [item.get("name") for item in value]
    return _is_texts(names) and len(set(names)) == len(names)


def _is_protocol(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_count(value.get("rounds")):
        return False
    sizes = value.get("sizes")
    if sizes is not None:
        return isinstance(sizes, list) and all(map(_is_number, sizes))
    return _is_count(value.get("folds"))


def _is_reliability(value: Any) -> bool:
    """Whether a value is three lists of numbers, one number per bin."""
    return (
        isinstance(value, list)
        and len(value) == 3
        and all(isinstance(row, list) and len(row) == N_BINS for row in value)
        and all(_is_number(number) and number is not None for row in value for number in row)
    )


Checks = Mapping[str, tuple[Callable[[Any], bool], str]]  # for each key, with a description

_TEXT = (_is_text, "a text")
_DESCRIPTION: Checks = {
    "name": _TEXT,
    "datasets": (_is_named, "a list of objects with different names"),
    "classifiers": (_is_named, "a list of objects with different names"),
    "protocol": (_is_protocol, "an object with whole numbers of rounds and folds"),
    "metrics": (lambda value: _is_texts(value) and bool(value), "a list of texts"),
    "seed": (_is_number, "a number"),
}
_CELL: Checks = {
    "cell": _TEXT,
    "dataset": _TEXT,
    "classifier": _TEXT,
    "round": (_is_count, "a whole number"),
    "fold": (_is_count, "a whole number"),
    "status": (lambda value: value in ("ok", "failed"), "'ok' or 'failed'"),
}
_FINISHED: Checks = {
    "n_train": (_is_count, "a whole number"),
    "n_test": (_is_count, "a whole number"),
    "reliability": (_is_reliability, f"three lists of {N_BINS} numbers"),
}


def check_description(found: Any, file: str) -> dict[str, Any]:
    """Return the description of an experiment after checking everything that is read from it."""
    if not isinstance(found, dict):
        raise DataError(f"{file}: the description of the experiment is not an object. {_HINT}")
    _check(found, _DESCRIPTION, f"{file}: the experiment's")
    if not all(_is_text(one.get("use")) for one in found["classifiers"]):
        raise DataError(f"{file}: a classifier's 'use' is not a text. {_HINT}")
    environment = found.get("environment", {})
    versions = environment.get("versions", {}) if isinstance(environment, dict) else None
    if not isinstance(versions, dict) or not _is_texts(list(versions.values())):
        raise DataError(f"{file}: the experiment's 'environment' cannot be read. {_HINT}")
    return found


def check_cell(record: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the record of a cell after checking everything that is read from it."""
    where = f"{file}: a cell's"
    _check(record, _CELL, where)
    _check(record, {name: _TEXT for name in ("error", "version") if name in record}, where)
    _check(record, {"error": _TEXT} if record["status"] == "failed" else _FINISHED, where)
    return record


def check_metrics(record: dict[str, Any], names: tuple[str, ...], file: str) -> None:
    """Reject a finished cell in which a metric or a time is missing or isn't a number."""
    if record["status"] == "ok":
        absent = [name for name in names if name not in record]
        if absent:
            raise DataError(f"{file}: a cell has no {absent[0]!r}. {_HINT}")
        known = dict.fromkeys(names, (_is_number, "a number or null"))
        _check(record, known, f"{file}: a cell's")


def _check(found: dict[str, Any], wanted: Checks, where: str) -> None:
    for name, (good, kind) in wanted.items():
        if name not in found or not good(found[name]):
            given = repr(found.get(name))
            given = given if len(given) <= 60 else given[:57] + "..."
            raise DataError(f"{where} {name!r} is {given}, not {kind}. {_HINT}")


_HINT = "The file is damaged; delete it and run the experiment again."
