"""Checkpoints of a fit: a killed fit resumes and gives the same model.

Until the fit is done, the folder contains::

    checkpoint.json    which fit it is (version, options, data), and its structure once learned
    passes-*.npz       what the passes of the current stage gathered, see `JournalEngine`
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tanager import __version__
from tanager.atomic import remove_abandoned, replacing, write_text
from tanager.engines import Engine, FitContext, Pass, Pieces
from tanager.engines.passes import Chunk, Result, State
from tanager.errors import ConfigurationError, ModelFileError, invalid
from tanager.options import identify_option
from tanager.progress import Progress
from tanager.structure import Structure

SECONDS = 120.0  # between two writes within a stage
MAX_BYTES = 1 << 26  # per pass: a larger statistic is gathered again rather than stored
_DELETE = "Delete the folder to fit from the start."


class FitCheckpoint:
    """The state of a fit in a folder; the context gets an engine that journals its passes."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        options: Mapping[str, Any],
        data: str,
        context: FitContext,
    ) -> None:
        if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
            raise invalid("checkpoint", folder, "a folder's path, or None")
        fit = {
            "another version of Tanager": __version__,
            "other options": _checksum(_identify_options(options, context)),
            "other rows": data,
        }
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            allowed = f"a folder that can be written ({error.strerror}), or None"
            raise invalid("checkpoint", str(folder), allowed) from error
        self._content = self._read()
        if not self._content:
            self._write({"fit": fit})
        other = [kind for kind, value in fit.items() if self._content["fit"].get(kind) != value]
        if other:
            raise ConfigurationError(
                f"checkpoint={str(self.folder)!r} belongs to another fit: {' and '.join(other)}. "
                f"Use the same, or another folder. {_DELETE}"
            )
        context.engine = self.journal = JournalEngine(context.engine, self.folder, SECONDS)

    def structure(self) -> tuple[Structure, dict[str, Any]] | None:
        """Return the structure and its record, if it was already learned."""
        found = self._content.get("structure")
        if found is None:
            return None
        parents = tuple(map(tuple, found["parents"]))
        return Structure(tuple(found["names"]), tuple(found["selected"]), parents), found["record"]

    def keep_structure(self, structure: Structure, record: Mapping[str, Any]) -> None:
        """Store the structure, which ends its stage."""
        names, selected, parents = astuple(structure)
        found = {"names": names, "selected": selected, "parents": parents, "record": dict(record)}
        self._write({**self._content, "structure": found})
        self.journal.end()

    def clear(self) -> None:
        """Remove everything, including what killed fits left of other stages."""
        self.journal.end()
        for pattern in ("passes-*.npz", "checkpoint.json"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        remove_abandoned(self.folder)

    def _read(self) -> dict[str, Any]:
        """Return the content of the file, empty if there is none."""
        path = self.folder / "checkpoint.json"
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ModelFileError(f"{path} can't be read ({error}). {_DELETE}") from error
        if not isinstance(found, dict) or found.pop("sha256", None) != _checksum(found):
            raise ModelFileError(f"{path} is damaged: wrong checksum. {_DELETE}")
        return found

    def _write(self, content: Mapping[str, Any]) -> None:
        self._content = json.loads(json.dumps(content, default=_plain))
        signed = {**self._content, "sha256": _checksum(self._content)}
        write_text(self.folder / "checkpoint.json", json.dumps(signed))


def _identify_options(options: Mapping[str, Any], context: FitContext) -> dict[str, Any]:
    """Return JSON data that is the same in every process, and different for other options."""
    # A random generator is identified by the seed that the fit drew from it.
    seed = [context.seed.entropy, *context.seed.spawn_key]
    rest = [name for name in options if name != "random_state"]
    found = {name: identify_option(options[name], name, _refuse) for name in rest}
    return {"seed": seed, "options": found}


def _refuse(value: Any, name: str) -> NoReturn:
    raise ConfigurationError(
        f"checkpoint: a resumed fit couldn't recognise {name}={value!r}. Allowed: numbers, "
        "strings, lists, mappings, learners, dataclasses, and functions at the top level of an "
        "importable module. Define it in such a module, or fit without a checkpoint."
    )


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Convert arrays and NumPy's numbers for JSON."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


class JournalEngine:
    """Runs passes with another engine, and saves their results every few seconds.

    An optimiser is a chain of passes, each of which depends on the previous results: with the
    saved results it quickly replays what was done, then continues to the same end. A saved result
    is used only for the pass with the same number and content over the same part of the rows.
    Statistics that are large, or not plain arrays, are gathered again.
    """

    def __init__(self, engine: Engine, folder: Path, every: float) -> None:
        self.engine, self.every, self._folder = engine, every, folder
        self._stage, self._number, self._written = "", 0, time.monotonic()
        self._known: dict[str, list[np.ndarray[Any, Any]]] = {}
        self._new: dict[str, np.ndarray[Any, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)  # `map` and `keep`, whose results aren't saved, `n_jobs`

    def begin(self, stage: str) -> None:
        """Begin a stage: read its saved results."""
        self._stage, self._number, self._new, self._known = stage, 0, {}, {}
        self._written = time.monotonic()
        for path in self._files():
            try:
                arrays = read_arrays(path)
            except ValueError as error:
                raise ModelFileError(
                    f"{path} is not a readable part of a checkpoint ({error}). {_DELETE}"
                ) from error
            for name, array in sorted(arrays.items()):
                self._known.setdefault(name.rpartition("|")[0], []).append(array)

    def end(self) -> None:
        """End the stage: delete its saved results, which are no longer needed."""
        self._known, self._new = {}, {}
        for path in self._files():
            path.unlink(missing_ok=True)  # another process may end the same stage

    def run(
        self, pass_: Pass[Chunk, State, Result], rows: Pieces[Chunk], progress: Progress, stage: str
    ) -> Result:
        """Run one pass over all rows, or return its saved result."""
        asked = (type(pass_).__qualname__, pass_, _views(rows))
        digest = hashlib.sha256(pickle.dumps(asked, protocol=5))
        name = f"{self._number}|{stage}|{digest.hexdigest()}"
        self._number += 1
        arrays = self._known.pop(name, None)
        if arrays is not None:
            return pass_.finish(_like(pass_.zero(), iter(arrays)))
        state: Any = self.engine.run(_Unfinished(pass_), rows, progress, stage)
        self._note(name, state)
        return pass_.finish(state)

    def _note(self, name: str, state: Any) -> None:
        parts = list(_parts(state))
        plain = all(isinstance(part, np.ndarray) and part.dtype.kind in "biuf" for part in parts)
        if not plain or sum(part.nbytes for part in parts) > MAX_BYTES:
            return
        # A copy: the arrays returned by `finish` may be modified.
        self._new |= {f"{name}|{at:03}": part.copy() for at, part in enumerate(parts)}
        if time.monotonic() - self._written >= self.every:
            self.write()

    def write(self) -> None:
        """Write the results that haven't been written yet."""
        if self._new:
            path = self._folder / f"passes-{self._stage}-{self._number:09}.npz"
            with replacing(path) as part, part.open("wb") as file:
                np.savez(file, **self._new)  # type: ignore[arg-type]
        self._new = {}
        self._written = time.monotonic()

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"passes-{self._stage}-*.npz"))


class _Unfinished:
    """A pass that returns its statistic unchanged."""

    def __init__(self, pass_: Any) -> None:
        self._pass = pass_
        self.zero, self.update, self.merge = pass_.zero, pass_.update, pass_.merge

    def __reduce__(self) -> tuple[Any, ...]:
        return _Unfinished, (self._pass,)

    def finish(self, state: Any) -> Any:
        return state


def _views(rows: Pieces[Any]) -> list[dict[str, Any]]:
    """Return the transformations of the rows before a pass: parts, groups of values."""
    piece: Any = next(iter(rows.pieces()), None)
    found = []
    while hasattr(piece, "piece"):
        found.append({k: v for k, v in vars(piece).items() if k not in ("piece", "n_rows")})
        piece = piece.piece
    return found


def _parts(state: Any) -> Iterator[Any]:
    """Iterate over the parts of a statistic; tuples may be nested."""
    return chain(*map(_parts, state)) if isinstance(state, tuple) else iter([state])


def _like(zero: Any, arrays: Iterator[np.ndarray[Any, Any]]) -> Any:
    """Rebuild the array, or the tuples of arrays, that these arrays came from."""
    if not isinstance(zero, tuple):
        return next(arrays)
    parts = [_like(part, arrays) for part in zero]
    return type(zero)(*parts) if hasattr(zero, "_fields") else tuple(parts)


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read an npz file written by `numpy.savez`, in its order; ValueError for any other file."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            # Nothing in it is compressed, so a small file can't contain a large array.
            if any(part.file_size > path.stat().st_size for part in file.zip.infolist()):
                raise ValueError("its parts are larger than the file")
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # anything a damaged archive may raise
        raise ValueError(f"{type(error).__name__}: {str(error)[:200]}") from error
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("it holds something else than arrays")
    return arrays
