"""Reports of a fit: its record, and warnings about suspicious columns."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tanager.codes import Codebook
from tanager.errors import ColumnWarning

LONG = 8  # entries beyond which a list or mapping is only counted
_OF_FIRST_ROWS = frozenset(("fingerprint", "mutual_information"))
MOST = 8  # columns named in a warning
MANY_CLASSES = 20  # or more: the target may be an identifier
IN_PYTHON = (
    "To take a column as categories, name it in categorical_features; to take all as they are, "
    "pass audit=False. All findings are in info_['codes']['audit']."
)


class Info(dict[str, Any]):
    """The record of a fit, by stage; its repr shows short entries and the length of long ones.

    >>> Info({"structure": {"seconds": 0.5, "order": ["a", "b"], "trace": list(range(50))}})
    structure
      seconds  0.5
      order    a, b
      trace    50 entries, in info_['structure']['trace']
    """

    def grown(self, n_rows: int, stages: Mapping[str, Any]) -> Info:
        """Return the record after more rows, without facts that only hold for the first rows."""
        grown = {
            stage: {key: fact for key, fact in record.items() if key not in _OF_FIRST_ROWS}
            for stage, record in self.items()
        }
        n_all = grown["codes"]["rows"] + n_rows
        for stage, record in stages.items():
            grown[stage] = {**grown.get(stage, {}), **record}
        grown["codes"]["rows"] = n_all
        return Info(grown)

    def __repr__(self) -> str:
        lines: list[str] = []
        for stage, record in self.items():
            lines.append(str(stage))
            facts = record if isinstance(record, Mapping) else {"": record}
            width = max((len(str(key)) for key in facts), default=0)
            for key, value in facts.items():
                entries = f"{len(value)} entries" if hasattr(value, "__len__") else ""
                shown = short_fact(value) or f"{entries}, in info_[{stage!r}][{key!r}]"
                lines.append(f"  {key!s:<{width}}  {shown}")
        return "\n".join(lines)

    __str__ = __repr__


def short_fact(value: Any) -> str:
    """Return a fact as text; empty if it's a long or nested list or mapping."""
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if not isinstance(plain, Mapping | list | tuple):
        return f"{plain:.4g}" if isinstance(plain, float) else str(plain)
    inside = plain.values() if isinstance(plain, Mapping) else plain
    if len(plain) > LONG or any(isinstance(one, Mapping | list | tuple) for one in inside):
        return ""
    shown = [short_fact(one) for one in inside]
    if isinstance(plain, Mapping):
        shown = [f"{name} {one}" for name, one in zip(plain, shown, strict=True)]
    return ", ".join(shown) or "none"


def tell_findings(findings: Iterable[Mapping[str, Any]], remedy: str = IN_PYTHON) -> str:
    """Return a sentence about columns that aren't read as they're stored, and a remedy, or ""."""
    acted = [f for f in findings if f["action"] != "none"]
    if not acted:
        return ""
    shown = "; ".join(f"{f['column']!r} {f['action']} ({f['reason']})" for f in acted[:MOST])
    more = f"; and {len(acted) - MOST} more" if len(acted) > MOST else ""
    return f"Some columns are read differently from how they are stored: {shown}{more}. {remedy}"


def warn_of_columns(
    codebook: Codebook, record: Mapping[str, Any], n_rows: int, X: Any, y: Any
) -> None:
    """Warn about columns that aren't read as stored, a suspicious target, and the target in X."""
    findings, level = record.get("audit", ()), _caller_level()
    text, n_classes = tell_findings(findings), len(codebook.classes)
    told: list[str | ColumnWarning] = [ColumnWarning(text, findings)] if text else []
    answer = _target_among(X, y)
    if answer is not None:
        told.append(
            f"Column {answer!r} of the table is the target itself, so the model reads the answer "
            f"there and any score is too good. Drop it from X, or pass its name as y: {answer!r}."
        )
    if n_classes > MANY_CLASSES and n_classes > n_rows / 2:
        told.append(
            f"The target {codebook.target.name!r} has {n_classes:,} classes in {n_rows:,} rows: it "
            "looks like an identifier, from which little can be learned. Check the target."
        )
    if n_classes == 1:
        told.append(
            f"The target has one class only, {str(codebook.classes[0])!r}, which the model will "
            "predict for every row. Check the target, or add rows of other classes."
        )
    for message in told:
        warnings.warn(message, ColumnWarning, stacklevel=level)


def _target_among(X: Any, y: Any) -> str | None:
    """Return the name of X's column that equals the series `y` of the same name, else None."""
    name = getattr(y, "name", None)
    lazy = hasattr(X, "compute")  # comparing would compute a Dask DataFrame
    if lazy or not isinstance(name, str) or name not in getattr(X, "columns", ()):
        return None
    column = X[name]
    return name if type(column) is type(y) and column.equals(y) else None


def _caller_level() -> int:
    """Return the stack level of the user's code, above this package and scikit-learn."""
    frame, level = sys._getframe(1).f_back, 2
    inner = "tanager", "sklearn", "contextlib"
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inner:
        frame, level = frame.f_back, level + 1
    return level
