"""Checkpoints of a fit: a killed fit resumes and gives the same model.

Until the fit is done, the folder contains::

    checkpoint.json    which fit it is (version, options, data), and its structure once learned
    passes-*.npz       what the passes of the current stage gathered, see `JournalEngine`
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from tanager import __version__
from tanager.atomic import remove_abandoned, write_text
from tanager.engines import FitContext
from tanager.engines.journal import JournalEngine
from tanager.errors import ConfigurationError, ModelFileError, invalid
from tanager.options import identify_option
from tanager.structure import Structure

SECONDS = 120.0  # between two writes within a stage
_DELETE = "Delete the folder to fit from the start."


class FitCheckpoint:
    """The state of a fit in a folder, valid only for the same options and data.

    It replaces the context's engine with one that journals its passes.
    """

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
        self._journal = JournalEngine(context.engine, self.folder, SECONDS)
        context.engine = self._journal

    def begin(self, stage: str) -> None:
        """Begin a stage, replaying the passes in its journal."""
        self._journal.begin(stage)

    def structure(self) -> tuple[Structure, dict[str, Any]] | None:
        """Return the structure and its record, if it was already learned."""
        found = self._content.get("structure")
        if found is None:
            return None
        parents = tuple(map(tuple, found["parents"]))
        structure = Structure(tuple(found["names"]), tuple(found["selected"]), parents)
        return structure, dict(found["record"])

    def keep_structure(self, structure: Structure, record: Mapping[str, Any]) -> None:
        """Store the structure, which ends its stage."""
        found = {
            "names": structure.names,
            "selected": structure.selected,
            "parents": structure.parent_indices,
            "record": dict(record),
        }
        self._write({**self._content, "structure": found})
        self._journal.end()

    def clear(self) -> None:
        """Remove everything, including what killed fits left of other stages."""
        self._journal.end()
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
