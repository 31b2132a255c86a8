"""Checkpoints of a long training run: a killed run continues to the same result."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.atomic import destination, replacing
from tanager.engines.journal import read_arrays
from tanager.errors import ModelFileError

EVERY = 10  # epochs between two writes


class Checkpoint(NamedTuple):
    """A file of arrays (NumPy's npz: data, never code), replaced atomically."""

    path: Path

    @classmethod
    def of(
        cls, folder: Path, settings: dict[str, object], *arrays: NDArray[Any] | None
    ) -> Checkpoint:
        """Return the checkpoint of a run, identified by a digest of its settings and data."""
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
        for array in arrays:
            if array is not None:
                digest.update(f"{array.dtype.str}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
        return cls(folder / f"training-{digest.hexdigest()[:16]}.npz")

    def save(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Write all arrays; a reader sees either the old file or the new one, never part of it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as part, part.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def load(self) -> dict[str, NDArray[Any]] | None:
        """Read all arrays; None if there is no file yet."""
        if not destination(self.path).exists():
            return None
        try:
            return read_arrays(self.path)
        except (ValueError, KeyError) as error:
            raise ModelFileError(
                f"{self.path.name} is not a readable checkpoint ({error}). "
                "Hint: delete it to train from the start."
            ) from error
