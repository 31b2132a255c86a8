"""What a fit says of the columns: once, in one warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

from tanager.codes import Codebook
from tanager.errors import ColumnWarning

MOST = 8  # columns named in a warning
MANY_CLASSES = 20  # from which on a target may name the rows

IN_PYTHON = (
    "To take a column as categories, name it in categorical_features; to take all as they are, "
    "pass audit=False. All findings are in info_['codes']['audit']."
)


def tell_findings(findings: Iterable[Mapping[str, Any]], remedy: str = IN_PYTHON) -> str:
    """Return one sentence of the columns that are read otherwise than written; "" without any.

    `remedy` says what the reader can do about it.
    """
    acted = [f for f in findings if f["action"] != "none"]
    if not acted:
        return ""
    shown = "; ".join(f"{f['column']!r} {f['action']} ({f['reason']})" for f in acted[:MOST])
    more = f"; and {len(acted) - MOST} more" if len(acted) > MOST else ""
    return f"Columns that are not what they seem: {shown}{more}. {remedy}"


def warn_of_columns(
    codebook: Codebook, record: Mapping[str, Any], n_rows: int, answer: str | None = None
) -> None:
    """Warn of the columns that are read otherwise than written, and of a strange target.

    `answer` is a feature that is the target itself.
    """
    findings, level = record.get("audit", ()), _caller_level()
    text = tell_findings(findings)
    if text:
        warnings.warn(ColumnWarning(text, findings), stacklevel=level)
    if answer is not None:
        warnings.warn(
            f"The column {answer!r} of the table is the target itself: the model reads the answer "
            f"there, and any score is too good. Drop it from X, or pass its name as y: {answer!r}.",
            ColumnWarning,
            stacklevel=level,
        )
    n_classes = len(codebook.classes)
    if n_classes > MANY_CLASSES and n_classes > n_rows / 2:
        warnings.warn(
            f"The target {codebook.target.name!r} has {n_classes:,} classes in {n_rows:,} rows: it "
            "names the rows rather than their kind, and little can be learned. Check the target.",
            ColumnWarning,
            stacklevel=level,
        )
    if n_classes == 1:
        warnings.warn(
            f"The target has one class only, {str(codebook.classes[0])!r}: every row will be "
            "predicted so. Check the target, or pass rows of other classes.",
            ColumnWarning,
            stacklevel=level,
        )


def _caller_level() -> int:
    """Return the stack level of the user's own line, for a warning in the calling function.

    Between them stand this package and, where a fit tells callbacks of itself, scikit-learn.
    """
    frame, level = sys._getframe(1).f_back, 2
    while frame is not None and _package(frame) in ("tanager", "sklearn", "contextlib"):
        frame, level = frame.f_back, level + 1
    return level


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
