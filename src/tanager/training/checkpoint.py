"""Checkpoints of a long training: a killed run continues to the same result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.atomic import destination, replacing
from tanager.engines.journal import read_arrays
from tanager.errors import ConfigurationError, ModelFileError

KEY = "fingerprint"


@dataclass(frozen=True)
class Checkpoint:
    """A file of arrays (NumPy's npz: data, never code), replaced atomically."""

    path: Path
    every: int  # epochs between two writes
    fingerprint: str  # names the run, by `fingerprint`; another run's file is refused

    def save(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Write all arrays; a reader sees the old file or the new one, never half of it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as part, part.open("wb") as file:
            np.savez(file, **arrays, **{KEY: np.array(self.fingerprint)})  # type: ignore[arg-type]

    def load(self) -> dict[str, NDArray[Any]] | None:
        """Read all arrays; None where there is no file yet."""
        if not destination(self.path).exists():
            return None
        try:
            arrays = read_arrays(self.path)
            found = str(arrays.pop(KEY))
        except (ValueError, KeyError) as error:
            raise ModelFileError(
                f"{self.path.name} is not a readable checkpoint ({error}). "
                "Hint: delete it to train from the start."
            ) from error
        if found != self.fingerprint:
            raise ConfigurationError(
                f"{self.path.name} is the checkpoint of another run: other data, settings or "
                "random_state. Hint: resume with exactly the same ones (random_state an integer, "
                "not None), or delete the file to train from the start."
            )
        return arrays


def fingerprint(settings: dict[str, object], *arrays: NDArray[Any] | None) -> str:
    """Return a digest of a run's settings and data."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for array in arrays:
        if array is not None:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
