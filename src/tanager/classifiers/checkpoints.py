"""Checkpoints of a fit: a killed fit resumes and gives the same model.

Until the fit is done, the folder contains::

    checkpoint.json    which fit it is: version, options, data
    structure.json     the structure, once it's learned
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
from tanager.atomic import write_text
from tanager.engines import FitContext
from tanager.engines.journal import JournalEngine
from tanager.errors import ConfigurationError, ModelFileError
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
        if not isinstance(folder, str | os.PathLike):
            raise ConfigurationError(f"checkpoint={folder!r}. Allowed: a folder's path, or None.")
        self._facts = {
            "tanager": __version__,
            "options": _checksum(_identify_options(options, context)),
            "data": data,
        }
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._refuse_others()
        self._journal = JournalEngine(context.engine, self.folder, SECONDS)
        context.engine = self._journal

    def begin(self, stage: str) -> None:
        """Begin a stage, replaying the passes in its journal."""
        self._journal.begin(stage)

    def structure(self) -> tuple[Structure, dict[str, Any]] | None:
        """Return the structure and its record, if it was already learned."""
        found = self._read("structure.json")
        if found is None:
            return None
        if found.pop("sha256", None) != _checksum(found):
            raise ModelFileError(
                f"{self.folder / 'structure.json'} is damaged: wrong checksum. {_DELETE}"
            )
        parents = tuple(map(tuple, found["parents"]))
        structure = Structure(tuple(found["names"]), tuple(found["selected"]), parents)
        return structure, dict(found["record"])

    def keep_structure(self, structure: Structure, record: Mapping[str, Any]) -> None:
        """Store the structure, which ends its stage."""
        content = {
            "names": list(structure.names),
            "selected": list(structure.selected),
            "parents": [list(parents) for parents in structure.parent_indices],
            "record": dict(record),
        }
        content = json.loads(json.dumps(content, default=_plain))
        self._write("structure.json", {**content, "sha256": _checksum(content)})
        self._journal.end()

    def clear(self) -> None:
        """Remove everything, including what killed fits left of other stages."""
        self._journal.end()
        ours = ("passes-*.npz", "structure.json", "checkpoint.json", ".*.part")
        for pattern in ours:
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def _refuse_others(self) -> None:
        found = self._read("checkpoint.json")
        if found is None:
            self._write("checkpoint.json", self._facts)
            return
        other = [name for name, value in self._facts.items() if found.get(name) != value]
        if other:
            what = {"tanager": "another version of Tanager", "options": "other options"}
            kinds = " and ".join(what.get(name, "other rows") for name in other)
            raise ConfigurationError(
                f"checkpoint={str(self.folder)!r} belongs to another fit: {kinds}. Use the "
                f"same, or another folder. {_DELETE}"
            )

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise ModelFileError(f"{path} can't be read ({error}). {_DELETE}") from error
        if not isinstance(found, dict):
            raise ModelFileError(f"{path} isn't a JSON object. {_DELETE}")
        return found

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        write_text(self.folder / name, json.dumps(content))


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
