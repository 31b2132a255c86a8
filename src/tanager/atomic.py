"""Files that are whole or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path in the same folder that becomes `path` when the block succeeds.

    Whatever goes wrong before that, a full disk or Ctrl-C, the temporary file
    is removed and a file already at `path` stays as it was.
    """
    final = Path(os.path.realpath(path))
    if final.is_dir():
        raise IsADirectoryError(21, "It is a folder; give a file's name", str(path))
    part = final.with_name(f".{final.name}.{secrets.token_hex(4)}.part")
    try:
        # Made by us, so that it has the permissions of any new file.
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            part.chmod(final.stat().st_mode & 0o777)
        part.replace(final)
        _sync_folder(final.parent)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable, where folders can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
