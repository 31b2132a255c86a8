"""Atomic writes: files are complete or don't exist."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tanager.errors import ConfigurationError

try:
    import fcntl
except ImportError:  # a platform without advisory locks
    fcntl = None  # type: ignore[assignment]

# Seconds after which a temporary file is taken for that of a killed process, without locks.
ABANDONED = 86_400
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # only writing raises these


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder that becomes `path` when the block succeeds.

    If anything fails, the temporary file is removed and the old one stays; what a killed process
    left is removed by the next write. Links into other folders, and anything that isn't a regular
    file, are rejected. A file keeps its permissions.
    """
    final = destination(path)
    # Leave room for the rest of the name: most file systems allow 255 bytes.
    start = final.name.encode(errors="surrogateescape")[:200].decode(errors="ignore")
    remove_abandoned(final.parent, re.escape(start))
    part, handle = final.with_name(f".{start}.{secrets.token_hex(4)}.part"), None
    old = final.stat() if final.exists() else None
    try:
        # A new file gets the usual permissions; one that replaces another never has
        # wider permissions than that, not even while it's being written.
        mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o666
        handle = _create(part, mode | 0o600)
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if old is not None:
            _keep_permissions(part, old)
        part.replace(final)
        _sync_folder(final.parent)
    except OSError as error:
        # Name the file the user asked for: the temporary name would be meaningless.
        if error.filename in (str(part), part) or (error.filename is None and error.errno in _DISK):
            error.filename = str(path)
            del error.filename2  # None would be printed too
        raise
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def _create(part: Path, mode: int) -> int | None:
    """Create a temporary file and lock it, to distinguish it from an abandoned one."""
    while True:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        if fcntl is None:
            os.close(handle)
            return None
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if part.exists():  # else another writer took it for an abandoned one before it was locked
            return handle
        os.close(handle)


def _remove_abandoned(part: Path) -> None:
    """Remove the temporary file of a killed process, while holding the lock of a live one."""
    if fcntl is None:
        if part.lstat().st_mtime < time.time() - ABANDONED:
            part.unlink()
        return
    handle = os.open(part, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink()
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make a new name itself durable, if folders can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_abandoned(folder: Path, name: str = ".*") -> None:
    """Remove what killed processes left of files whose names match, or of all files."""
    ours = re.compile(rf"\.{name}\.[0-9a-f]{{8}}\.part", re.DOTALL)
    with suppress(OSError):
        for path in folder.iterdir():
            if ours.fullmatch(path.name):
                with suppress(OSError):  # a live writer holds the lock
                    _remove_abandoned(path)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file completely, or leave the existing one."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def destination(path: str | os.PathLike[str]) -> Path:
    """Return the final path; reject a link into another folder, and anything but a file."""
    given = Path(path)
    final = Path(os.path.realpath(given))
    if final.is_dir():
        raise IsADirectoryError(errno.EISDIR, "It's a folder; pass a file name", str(path))
    if final.parent != Path(os.path.realpath(given.parent)):
        raise ConfigurationError(
            f"{given} is a symbolic link into another folder and isn't followed. "
            f"To write there, pass the path itself: {final}."
        )
    if final.exists() and not final.is_file():
        raise ConfigurationError(
            f"{final} is a device or a pipe, not a file. Pass a file name, or leave the output "
            "out to print."
        )
    return final


def _keep_permissions(part: Path, old: os.stat_result) -> None:
    mode = stat.S_IMODE(old.st_mode) & 0o777
    now = part.stat()
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.chown(part, old.st_uid if os.geteuid() == 0 else -1, old.st_gid)
        except OSError:
            mode &= ~0o070  # another group mustn't get the old group's permissions
    part.chmod(mode)
