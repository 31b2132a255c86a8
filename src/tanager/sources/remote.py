"""Remote files: S3, Google Cloud Storage, Azure, HDFS, and anything that fsspec supports.

Credentials come from each store's default chain (environment, profile, instance role); there are
no options for them here. Each store's client retries if a connection fails.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from tanager.errors import DataError, explaining

IN_ARROW = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")


def is_url(text: str) -> bool:
    """Return whether a text is a URL rather than a path.

    >>> is_url("s3://bucket/table.parquet"), is_url("table.parquet"), is_url("C:/table.csv")
    (True, False, False)
    """
    return re.match(r"[A-Za-z][\w+.:-]*://", text) is not None


def without_credentials(url: str) -> str:
    """Return a URL for display, without password or options, which may include a signature.

    >>> list(map(without_credentials, ["s3://key:secret@bucket/x.csv?region=eu", "really?.csv"]))
    ['s3://key@bucket/x.csv', 'really?.csv']
    """
    if not is_url(url):
        return url
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*(?=@)", r"\1", url.partition("?")[0])


class RemoteFile(NamedTuple):
    """The location of a remote file, small and picklable."""

    root: str  # a URL that names the store
    path: str  # in the store

    def __str__(self) -> str:
        return f"{self.root.partition('://')[0]}://{self.path}"

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of the file's name, as in `pathlib.Path`."""
        return PurePosixPath(self.path).suffixes

    def version(self) -> tuple[int, str]:
        """Return the size and a value that changes with the content: the ETag, or the mtime."""
        store, path = _store(self.root)[0], self.path
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

    def open(self) -> pa.NativeFile:
        """Open the bytes for random access."""
        return _store(self.root)[0].open_input_file(self.path)


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
        hint = "Keep the files of a table in place until the work is done."
        with explaining(f"{self.path} has disappeared since it was opened", hint, OSError):
            now = Stamp.of(self.path)
        if now.version != self.version:
            raise changed_error(self.path)


def changed_error(name: object) -> DataError:
    """Return the error for rows that have changed since the first read."""
    return DataError(
        f"{name} has changed since it was opened. Rows from before and after that would be mixed: "
        "leave the table alone until the work is done, or write it to other files first."
    )


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
        hint = "Check the address, and the store's credentials."
        raise DataError(f"{shown} cannot be opened: {error}. {hint}") from error


def forget_stores() -> None:
    """Look up credentials and addresses again after the environment has changed."""
    _store.cache_clear()


def find_remote(
    url: str, wanted: Callable[[PurePosixPath], bool]
) -> Sequence[tuple[RemoteFile, tuple[str, ...]]]:
    """Return the files of a URL (object, folder, pattern), each with the names of its folders."""
    from pyarrow import fs

    address, mark, query = url.partition("?")
    shown = without_credentials(url)
    fixed = re.match(r"[^*\[]*/", address)
    with _reaching(url):
        if "*" in address and fixed is not None:
            root, rest = fixed[0] + mark + query, address[fixed.end() :]
            store, base = _store(root)
            pattern = re.compile(_as_regex(base.rstrip("/") + "/" + rest))
            listed = _list(store, base, recursive="/" in rest)
            found = [(RemoteFile(root, path), ()) for path in listed if pattern.fullmatch(path)]
            if not found:
                raise DataError(f"No file matches {shown}. Check the folder and the pattern.")
            return found
        store, path = _store(url)
        kind = store.get_file_info(path).type
        if kind == fs.FileType.File:
            return [(RemoteFile(url, path), ())]
        if kind != fs.FileType.Directory:
            raise DataError(f"No such file or folder: {shown}. Check the address.")
        places = filter(wanted, map(PurePosixPath, _list(store, path)))
        return [(RemoteFile(url, str(at)), at.relative_to(path).parent.parts) for at in places]


def _list(store: Any, folder: str, *, recursive: bool = True) -> list[str]:
    """Return the paths of all files in a folder, sorted."""
    from pyarrow import fs

    entries = store.get_file_info(fs.FileSelector(folder.rstrip("/"), recursive=recursive))
    return sorted(entry.path for entry in entries if entry.type == fs.FileType.File)


def _as_regex(pattern: str) -> str:
    """Return a glob as a regular expression: ``**`` matches across folders, ``*`` doesn't.

    >>> [bool(re.fullmatch(_as_regex("b/*.csv"), path)) for path in ("b/x.csv", "b/c/x.csv")]
    [True, False]
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
            shutil.copyfileobj(remote, copy, 1 << 24)
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
        return bool(store.get_file_info(path).type != fs.FileType.NotFound)


def upload(file: BinaryIO, url: str) -> None:
    """Write a local file to a URL, either completely or not at all."""
    from pyarrow import fs

    store, target = _store(url)
    file.seek(0)
    with _reaching(url):
        if not isinstance(store, fs.S3FileSystem | fs.GcsFileSystem):
            store.create_dir(str(PurePosixPath(target).parent), recursive=True)
        with store.open_output_stream(target, compression=None) as stream:
            shutil.copyfileobj(file, stream, 1 << 24)
