"""Remote files: S3, Google Cloud Storage, Azure, HDFS, and anything that fsspec supports.

Credentials come from each store's default chain (environment, profile, instance role); there are
no options for them here. Reads are retried if a connection fails, counted, and cached in an
unnamed temporary file up to a limit, so a second read doesn't fetch them again.
"""

from __future__ import annotations

import io
import logging
import re
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from tanager.errors import DataError, explaining

logger = logging.getLogger(__name__)

ATTEMPTS = 5
FIRST_WAIT = 0.2  # seconds before the first retry; doubles with every retry
BLOCK = 1 << 18  # bytes that are fetched and cached together
IN_ARROW = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
_FINAL = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS|SIGNATURE|FORBIDDEN|NO_SUCH|NOT_FOUND|HTTP 40[134]"
)

T = TypeVar("T")


def is_url(text: str) -> bool:
    """Return whether a text is a URL rather than a path.

    >>> is_url("s3://bucket/table.parquet"), is_url("table.parquet"), is_url("C:/table.csv")
    (True, False, False)
    """
    return re.match(r"[A-Za-z][\w+.:-]*://", text) is not None


def without_credentials(url: str) -> str:
    """Return a URL for display, without password or options, which may include a signature.

    >>> without_credentials("s3://key:secret@bucket/table.csv?region=eu-west-1")
    's3://key@bucket/table.csv'
    >>> without_credentials("really?.csv")
    'really?.csv'
    """
    if not is_url(url):
        return url
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*(?=@)", r"\1", url.partition("?")[0])


class ByteBudget:
    """Number of bytes that the files of a table may cache on this machine."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._used = 0
        self.limit = limit

    def take(self, n_bytes: int) -> bool:
        """Return whether that many more bytes fit, and count them if so."""
        with self._lock:
            fits = self._used + n_bytes <= self.limit
            self._used += n_bytes if fits else 0
        return fits


class RemoteFile:
    """The location of a remote file, small and picklable; `n_read` counts the bytes fetched."""

    def __init__(self, root: str, path: str) -> None:
        self.root, self.path = root, path
        self.n_read = 0
        self.kept: _KeptBlocks | None = None

    def __str__(self) -> str:
        return f"{self.root.partition('://')[0]}://{self.path}"

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFile, (self.root, self.path)

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of the file's name, as in `pathlib.Path`."""
        return PurePosixPath(self.path).suffixes

    def keep(self, budget: ByteBudget) -> None:
        """Cache what is read from now on, as far as the budget allows."""
        if self.kept is None:
            self.kept = _KeptBlocks(budget)
        else:
            self.kept.budget.limit = budget.limit

    def version(self) -> tuple[int, str]:
        """Return the size and a value that changes with the content: the ETag, or the mtime."""
        store, path = _store(self.root)[0], self.path

        def ask() -> tuple[int, str]:
            inner = getattr(getattr(store, "handler", None), "fs", None)
            if inner is not None:  # fsspec's, which caches its listings
                inner.invalidate_cache()
                return int(inner.size(path)), str(inner.ukey(path))
            with store.open_input_file(path) as file:
                tag = {key.lower(): value for key, value in file.metadata().items()}.get("etag")
                if tag is not None:
                    return int(file.size()), tag.decode()
            facts = store.get_file_info(path)
            return int(facts.size), str(facts.mtime_ns)

        return _persist(ask)

    def open(self) -> pa.NativeFile:
        """Open the bytes for random access."""
        return pa.PythonFile(_RemoteReader(self), mode="r")


class Stamp(NamedTuple):
    """Identifies the version of a file, to detect changes after opening it."""

    path: Path | RemoteFile
    version: tuple[int, int | str]  # size, and the mtime in nanoseconds or an object's ETag

    @classmethod
    def of(cls, path: Path | RemoteFile) -> Stamp:
        """Return the current stamp of a file."""
        if isinstance(path, RemoteFile):
            return cls(path, path.version())
        status = path.stat()
        return cls(path, (status.st_size, status.st_mtime_ns))

    def check(self) -> None:
        """Raise if the file has changed."""
        try:
            now = Stamp.of(self.path)
        except OSError as error:
            raise DataError(
                f"{self.path} has disappeared since it was opened ({error.strerror or error}). "
                "Keep the files of a table in place until the work is done."
            ) from error
        if now.version != self.version:
            raise self.changed()

    def changed(self) -> DataError:
        """Return the error for a file that has changed."""
        return DataError(
            f"{self.path} has changed since it was opened. Rows from before and after that "
            "would be mixed: leave a table's files alone until the work is done, then try again."
        )


class _KeptBlocks:
    """Blocks of a file that were fetched before, in an unnamed temporary file."""

    def __init__(self, budget: ByteBudget) -> None:
        self.budget = budget
        self._lock = threading.Lock()
        self._file: Any = None
        self._place: dict[int, int] = {}  # index of a block to its position in the file

    def read(
        self, start: int, n_bytes: int, size: int, download: Callable[[int, int], bytes]
    ) -> bytes:
        """Return some bytes; consecutive blocks that aren't cached are fetched in one request."""
        first, last = start // BLOCK, (start + n_bytes - 1) // BLOCK
        parts: list[bytes] = []
        at = first
        while at <= last:
            kept = self._get(at, size)
            if kept is not None:
                parts.append(kept)
                at += 1
                continue
            end = at + 1
            while end <= last and end not in self._place:
                end += 1
            found = download(at * BLOCK, min(end * BLOCK, size) - at * BLOCK)
            for number in range(at, end):
                self._put(number, found[(number - at) * BLOCK : (number - at + 1) * BLOCK])
            parts.append(found)
            at = end
        skipped = start - first * BLOCK
        return b"".join(parts)[skipped : skipped + n_bytes]

    def _get(self, number: int, size: int) -> bytes | None:
        with self._lock:
            if number not in self._place:
                return None
            self._file.seek(self._place[number])
            found: bytes = self._file.read(min(BLOCK, size - number * BLOCK))
            return found

    def _put(self, number: int, block: bytes) -> None:
        if not self.budget.take(len(block)):
            return
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="tanager-")  # noqa: SIM115 - stays open
                weakref.finalize(self, self._file.close)
            place = self._file.seek(0, io.SEEK_END)
            self._file.write(block)
            self._place[number] = place


class _RemoteReader(io.RawIOBase):
    """A remote file as a Python file object; reconnects if a connection fails."""

    def __init__(self, file: RemoteFile) -> None:
        self._remote = file
        self._handle: Any = None
        self._at = 0
        self._size = int(_persist(lambda: self._opened().size()))

    def _opened(self) -> Any:
        if self._handle is None:
            self._handle = _store(self._remote.root)[0].open_input_file(self._remote.path)
        return self._handle

    def _download(self, start: int, n_bytes: int) -> bytes:
        def get() -> bytes:
            try:
                found: bytes = self._opened().read_at(n_bytes, start)
            except OSError:
                self._handle = None
                raise
            if len(found) != n_bytes:
                raise OSError(f"{len(found)} bytes arrived instead of the {n_bytes} were asked for")
            return found

        found = _persist(get)
        self._remote.n_read += n_bytes
        return found

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        kept = self._remote.kept
        if kept is None:
            found = self._download(self._at, wanted)
        else:
            found = kept.read(self._at, wanted, self._size, self._download)
        self._at += wanted
        return found

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)


def _persist(work: Callable[[], T]) -> T:
    """Run a network operation, and retry it if the failure is transient."""
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except (FileNotFoundError, PermissionError):
            raise
        except OSError as error:
            if attempt == ATTEMPTS - 1 or _FINAL.search(str(error)):
                raise
            logger.info("attempt %d of %d failed: %s", attempt + 1, ATTEMPTS, error)
            time.sleep(FIRST_WAIT * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


@lru_cache(maxsize=64)
def _store(root: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    from pyarrow import fs

    scheme, shown = root.partition("://")[0], without_credentials(root)
    try:
        if scheme in IN_ARROW:
            store, path = fs.FileSystem.from_uri(root)
            return store, path
        from fsspec.core import url_to_fs

        inner, path = url_to_fs(root)
        return fs.PyFileSystem(fs.FSSpecHandler(inner)), path
    except ModuleNotFoundError as error:
        raise DataError(
            f"{shown}: addresses that begin with {scheme}:// need the package {error.name} "
            f"(pip install {error.name}), or copy the files to this machine."
        ) from error
    except ImportError as error:  # fsspec names the package needed for a known scheme
        raise DataError(f"{shown}: {error}. Install it, or copy the files here.") from error
    except (ValueError, OSError, NotImplementedError) as error:
        raise DataError(
            f"{shown} cannot be opened: {error}. Check the address, and the store's credentials."
        ) from error


def forget_stores() -> None:
    """Look up credentials and addresses again after the environment has changed."""
    _store.cache_clear()


def find_remote(
    url: str, wanted: Callable[[PurePosixPath], bool]
) -> list[tuple[RemoteFile, tuple[str, ...]]]:
    """Return the files of a URL (object, folder, pattern), each with the names of its folders."""
    from pyarrow import fs

    address, mark, query = url.partition("?")
    shown = without_credentials(url)
    fixed = re.match(r"[^*\[]*/", address)
    with _reaching(url):
        if "*" in address and fixed is not None:
            store, base = _store(fixed[0] + mark + query)
            pattern = re.compile(_as_regex(base.rstrip("/") + "/" + address[fixed.end() :]))
            listed = _list(store, base, recursive="/" in address[fixed.end() :])
            found = [path for path in listed if pattern.fullmatch(path)]
            root = fixed[0] + mark + query
            if not found:
                raise DataError(f"No file matches {shown}. Check the folder and the pattern.")
            return [(RemoteFile(root, path), ()) for path in found]
        store, path = _store(url)
        kind = _persist(lambda: store.get_file_info(path)).type
        if kind == fs.FileType.File:
            return [(RemoteFile(url, path), ())]
        if kind != fs.FileType.Directory:
            raise DataError(f"No such file or folder: {shown}. Check the address.")
        base_path = PurePosixPath(path)
        listed = [name for name in _list(store, path) if wanted(PurePosixPath(name))]
        return [
            (RemoteFile(url, name), PurePosixPath(name).relative_to(base_path).parent.parts)
            for name in listed
        ]


def _list(store: Any, folder: str, *, recursive: bool = True) -> list[str]:
    """Return the paths of all files in a folder, sorted."""
    from pyarrow import fs

    selector = fs.FileSelector(folder.rstrip("/"), recursive=recursive)
    entries = _persist(lambda: store.get_file_info(selector))
    return sorted(entry.path for entry in entries if entry.type == fs.FileType.File)


def _as_regex(pattern: str) -> str:
    """Return a glob as a regular expression: ``**`` matches across folders, ``*`` doesn't.

    >>> bool(re.fullmatch(_as_regex("b/*.csv"), "b/x.csv")), bool(
    ...     re.fullmatch(_as_regex("b/*.csv"), "b/c/x.csv")
    ... )
    (True, False)
    """
    marks = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    parts = re.split(r"(\*\*/|\*\*|\*)", pattern)
    return "".join(marks.get(part, re.escape(part)) for part in parts)


def _reaching(url: str) -> AbstractContextManager[None]:
    """Explain the errors of a store."""
    hint = "Check the address, the connection, and the store's credentials."
    shown = without_credentials(url)
    return explaining(f"{shown} cannot be reached", hint, OSError, pa.ArrowException)


@contextmanager
def local_copy(file: RemoteFile | Path) -> Iterator[Path]:
    """Return a local path for a file; a remote one is downloaded, and deleted afterwards."""
    if isinstance(file, Path):
        yield file
        return
    ending = "".join(file.suffixes)
    with tempfile.TemporaryDirectory(prefix="tanager-") as place:
        path = Path(place) / f"table{ending}"
        with path.open("wb") as copy, file.open() as remote:
            while part := remote.read(1 << 24):
                copy.write(part)
        yield path


def local_path(url: str) -> Path | None:
    """Return the path of a ``file://`` URL, or None for other URLs."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def exists(url: str) -> bool:
    """Return whether a URL is a file or a non-empty folder."""
    from pyarrow import fs

    store, path = _store(url)
    with _reaching(url):
        return bool(_persist(lambda: store.get_file_info(path)).type != fs.FileType.NotFound)


def upload(file: BinaryIO, url: str) -> None:
    """Write a local file to a URL, either completely or not at all."""
    from pyarrow import fs

    store, target = _store(url)

    def send() -> None:
        file.seek(0)
        with store.open_output_stream(target, compression=None) as stream:
            while part := file.read(1 << 24):
                stream.write(part)

    with _reaching(url):
        if not isinstance(store, fs.S3FileSystem | fs.GcsFileSystem):
            folder = str(PurePosixPath(target).parent)
            _persist(lambda: store.create_dir(folder, recursive=True))
        _persist(send)
