"""Atomic writes: files are complete or don't exist."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tanager.errors import ConfigurationError

try:
    import fcntl
except ImportError:  # a platform without advisory locks
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.(.*)\.[0-9a-f]{8}\.part", re.DOTALL)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder that becomes `path` when the block succeeds.

    If anything fails, the temporary file is removed and the old one stays; files left by a killed
    process are removed by the next write. Links into other folders, and anything that isn't a
    regular file, are rejected. A file keeps its permissions.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(path) as part:
    ...     _ = part.write_text("whole")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('whole', 1)
    """
    final = destination(path)
    old = _facts(final)
    remove_abandoned(final.parent, final.name)
    part = _temporary(final)
    handle = None
    try:
        # A new file gets the usual permissions; one that replaces another never has
        # wider permissions than that, not even while it's being written.
        mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o666
        handle = _hold(
            part, lambda: os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode | 0o600)
        )
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if old is not None:
            _keep_permissions(part, old)
        part.replace(final)
        _sync_folder(final.parent)
    except OSError as error:
        # Name the file the user asked for: the temporary name would be meaningless.
        if error.filename in (str(part), part) or (error.filename is None and _is_disk(error)):
            error.filename = str(path)
            del error.filename2  # None would be printed too
        raise
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


@contextmanager
def replacing_folder(output: Path) -> Iterator[Path]:
    """Yield a folder next to `output`, which is empty or absent, that becomes it in the end."""
    remove_abandoned(output.parent, output.name)
    part = _temporary(output)
    handle = None

    def make() -> int:
        part.mkdir()
        return os.open(part, os.O_RDONLY)

    try:
        if fcntl is None:
            part.mkdir()
        else:
            handle = _hold(part, make)
        yield part
        if output.is_dir():
            output.rmdir()  # empty, or this fails
        part.rename(output)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _temporary(final: Path) -> Path:
    """Return a temporary path next to the final one."""
    return final.with_name(f".{_start(final.name)}.{secrets.token_hex(4)}.part")


def _start(name: str) -> str:
    """Truncate a name, in bytes, to leave room for the rest of a temporary name."""
    return name.encode(errors="surrogateescape")[:200].decode(errors="ignore")


def _hold(part: Path, make: Callable[[], int]) -> int | None:
    """Create a temporary file and lock it, to distinguish it from an abandoned one."""
    while True:
        handle = make()
        if fcntl is None:
            os.close(handle)
            return None
        fcntl.flock(handle, fcntl.LOCK_EX)
        if part.exists():
            return handle
        os.close(handle)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file completely, or leave the existing one."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def destination(path: str | os.PathLike[str]) -> Path:
    """Return the final path; reject a link into another folder, and anything but a file."""
    given = Path(path)
    folder = Path(os.path.realpath(given.parent))
    final = Path(os.path.realpath(given))
    if final.is_dir():
        raise IsADirectoryError(errno.EISDIR, "It's a folder; pass a file name", str(path))
    if final.parent != folder:
        raise ConfigurationError(
            f"{given} is a symbolic link into another folder and isn't followed. "
            f"To write there, pass the path itself: {final}."
        )
    _facts(final)
    return final


def _facts(final: Path) -> os.stat_result | None:
    """Return the status of the file to replace, if there is one."""
    try:
        old = final.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        raise ConfigurationError(
            f"{final} is a device or a pipe, not a file. Pass a file name, or leave the output "
            "out to print."
        )
    return old


def remove_abandoned(folder: Path, name: str | None = None) -> None:
    """Remove unlocked temporary files that killed writers left, of files called `name` or any."""
    if fcntl is None:
        return
    wanted = None if name is None else _start(name)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _TEMPORARY.fullmatch(entry.name)
            if found is None or wanted not in (None, found[1]):
                continue
            with suppress(OSError):
                _remove_unlocked(Path(entry.path))


def _remove_unlocked(part: Path) -> None:
    handle = os.open(part, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            shutil.rmtree(part)
        else:
            part.unlink()
    finally:
        os.close(handle)


def _is_disk(error: OSError) -> bool:
    """Whether an error can only come from writing."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def _keep_permissions(part: Path, old: os.stat_result) -> None:
    mode = stat.S_IMODE(old.st_mode) & 0o777
    now = part.stat()
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.chown(part, old.st_uid if os.geteuid() == 0 else -1, old.st_gid)
        except OSError:
            mode &= ~0o070  # another group mustn't get the old group's permissions
    part.chmod(mode)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable, if folders can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
