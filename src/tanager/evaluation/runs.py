"""The record of a run: a file to which finished cells are appended, and that survives a kill."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tanager.atomic import destination
from tanager.errors import DataError

__all__ = ["FORMAT", "RunFile"]

FORMAT = "tanager-run-1"
_START = f'{{"format": "{FORMAT}", "experiment": '.encode()  # of every run file

_log = logging.getLogger(__name__)


class RunFile:
    """JSON Lines, one line a cell; the first line describes the experiment.

    A line counts once its newline is on disk: each is written in one call and
    synced before the next. What a kill leaves of a line is cut off when the
    file is opened again, and its cell is computed again. A second writer is
    refused by a lock on the file.

    Parameters
    ----------
    path : path
        The file; made with its folders where it does not exist.

    Examples
    --------
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            _log.warning("%s: cut off a line that a kill left unfinished", self.path.name)
            self._file.truncate(whole)

    def check(self) -> None:
        """Refuse a file that is there and is no run file: adding to it would damage it."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            start = file.read(len(_START))
        if not _START.startswith(start):
            raise DataError(
                f"{self.path.name} is no run file: those are written by tanager compare --run or "
                "Experiment.run(path). Give another name."
            )

    def begin(self, description: dict[str, Any]) -> None:
        """Write the description of the experiment, unless the last one says the same."""
        last = None
        for record in self._records():
            if "experiment" in record:
                last = record
        record = {"format": FORMAT, "experiment": description}
        if last != record:
            self.append(record)

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
        found: dict[str, Any] | None = None
        for record in self._records():
            if "experiment" in record:
                found = record["experiment"]
        if found is None:
            raise DataError(f"{self.path.name} describes no experiment: it is not a run file.")
        return found

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
