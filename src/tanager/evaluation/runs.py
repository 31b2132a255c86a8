"""Run files, which survive a kill, and schemas of what they and experiment files may contain.

Anyone may have written such a file. A schema maps the keys of a table to the kinds of their values.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from reprlib import repr as short_repr
from typing import IO, Any, NamedTuple

from tanager.atomic import destination
from tanager.errors import DataError, TanagerError
from tanager.evaluation.metrics import N_BINS

FORMAT = "tanager-run-1"
_START = f'{{"format": "{FORMAT}", "experiment": '.encode()  # the start of every run file

_log = logging.getLogger(__name__)


class RunFile:
    """JSON Lines, one line per cell; the first line describes the experiment.

    Each line is written in one call and synced before the next. A partial line left by a kill is
    truncated when the file is reopened, and its cell is recomputed. A lock on the file prevents a
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
        file = self._file = destination(self.path).open("a+b")
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # no advisory locks on this platform
            pass
        except OSError as error:
            file.close()
            raise DataError(
                f"{self.path.name} is being written by another run. Wait for it, or give this run "
                "another file."
            ) from error
        file.seek(0)
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            _log.warning("%s: removed an incomplete line left by a killed run", self.path.name)
            file.truncate(whole)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def check(self) -> None:
        """Reject an existing file that isn't a run file: appending would damage it."""
        if not self.path.exists():
            return
        is_run = False
        if self.path.is_file():  # reading a pipe would block forever
            with self.path.open("rb") as file:
                is_run = _START.startswith(file.read(len(_START)))
        if not is_run:
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
        self._file.write((json.dumps(record, ensure_ascii=False, default=str) + "\n").encode())
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
        self.check()
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
                if isinstance(record, dict):
                    yield record


LARGEST = 2**53  # whole numbers beyond it don't fit a float


class Kind(NamedTuple):
    """A kind of values, by the name that error messages give it."""

    name: str
    fits: Callable[[Any], bool]

    def listed(self, plural: str, *, length: int | None = None) -> Kind:
        """Return the kind of lists of such values."""

        def fits(value: Any) -> bool:
            right_length = isinstance(value, list) and length in (None, len(value))
            return right_length and all(map(self.fits, value))

        return Kind(f"a list of {plural}", fits)

    def otherwise(self, other: Kind) -> Kind:
        """Return the kind of values that are of this kind or of another."""
        return Kind(f"{self.name} or {other.name}", lambda one: self.fits(one) or other.fits(one))


Schema = Mapping[str, Kind]

TEXT = Kind("text", lambda value: type(value) is str)
FLAG = Kind("true or false", lambda value: type(value) is bool)
WHOLE = Kind("a whole number", lambda value: type(value) is int and abs(value) < LARGEST)
NUMBER = Kind("a number", lambda value: type(value) is float or WHOLE.fits(value))
TABLE = Kind("a table of keys and values", lambda value: isinstance(value, dict))
TEXTS = TEXT.listed("texts")
WHOLES = WHOLE.listed("whole numbers")


def check_keys(
    found: Mapping[str, Any],
    schema: Schema,
    where: str,
    error: type[TanagerError],
    needed: Collection[str] = (),
) -> None:
    """Reject values of another kind than the schema's, and missing `needed` keys, in `where`."""
    for key in needed:
        if key not in found:
            raise error(f"{where}: {key!r} is missing.")
    for key, kind in schema.items():
        if key in found and not kind.fits(found[key]):
            raise error(f"{where}: {key} is {short_repr(found[key])}. Allowed: {kind.name}.")


def _have_names(value: Any) -> bool:
    """Return whether a value is a list of tables, each with a name of its own."""
    names = [item.get("name") for item in value] if TABLE.listed("tables").fits(value) else []
    return bool(names) and TEXTS.fits(names) and len(set(names)) == len(names)


_NAMED = Kind("a list of tables with different names", _have_names)
_DESCRIPTION: Schema = {
    "name": TEXT,
    "datasets": _NAMED,
    "classifiers": _NAMED,
    "protocol": TABLE,
    "metrics": Kind(TEXTS.name, lambda value: bool(value) and TEXTS.fits(value)),
    "seed": NUMBER,
}
_CELL: Schema = {
    **dict.fromkeys(("cell", "dataset", "classifier"), TEXT),
    **dict.fromkeys(("round", "fold"), WHOLE),
    "status": Kind("'ok' or 'failed'", lambda value: value in ("ok", "failed")),
}
_BINS = NUMBER.listed("numbers", length=N_BINS)
_FINISHED: Schema = {
    **dict.fromkeys(("n_train", "n_test"), WHOLE),
    "reliability": _BINS.listed(f"three lists of {N_BINS} numbers", length=3),
}
_KNOWN = Kind("a number or null", lambda value: value is None or NUMBER.fits(value))


def check_description(found: Any, file: str) -> dict[str, Any]:
    """Return the description of an experiment after checking everything that is read from it."""
    where = f"{file}: the experiment"
    _check({"description": found}, {"description": TABLE}, where)
    _check(found, _DESCRIPTION, where)
    protocol = found["protocol"]
    parts = {"sizes": NUMBER.listed("numbers")} if "sizes" in protocol else {"folds": WHOLE}
    _check(protocol, {"rounds": WHOLE, **parts}, f"{where}'s protocol")
    for one in found["classifiers"]:
        _check(one, {"use": TEXT}, f"{where}'s classifiers")
    environment = {"environment": {}, **found}
    _check(environment, {"environment": TABLE}, where)
    versions = {"versions": {}, **environment["environment"]}
    _check(versions, {"versions": TABLE}, where)
    _check(versions["versions"], dict.fromkeys(versions["versions"], TEXT), f"{where}'s versions")
    return found


def check_cell(record: dict[str, Any], file: str, measured: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the record of a cell after checking what is read from it, and its metrics."""
    where = f"{file}: a cell"
    _check(record, _CELL, where)
    _check(record, {name: TEXT for name in ("error", "version") if name in record}, where)
    finished = {**_FINISHED, **dict.fromkeys(measured, _KNOWN)}
    _check(record, finished if record["status"] == "ok" else {"error": TEXT}, where)
    return record


def _check(found: dict[str, Any], schema: Schema, where: str) -> None:
    try:
        check_keys(found, schema, where, DataError, needed=schema)
    except DataError as error:
        hint = "The file is damaged; delete it and run the experiment again."
        raise DataError(f"{error} {hint}") from None
