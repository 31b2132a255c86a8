"""What a fit says of the columns: once, in one warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from tanager.codes import Codebook
from tanager.errors import ColumnWarning

__all__ = ["tell_findings", "warn_of_columns"]

CALLER_OF_FIT = 5  # frames from a warning here
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
    findings = record.get("audit", ())
    text = tell_findings(findings)
    if text:
        warnings.warn(ColumnWarning(text, findings), stacklevel=CALLER_OF_FIT)
    if answer is not None:
        warnings.warn(
            f"The column {answer!r} of the table is the target itself: the model reads the answer "
            f"there, and any score is too good. Drop it from X, or pass its name as y: {answer!r}.",
            ColumnWarning,
            stacklevel=CALLER_OF_FIT,
        )
    n_classes = len(codebook.classes)
    if n_classes > MANY_CLASSES and n_classes > n_rows / 2:
        warnings.warn(
            f"The target {codebook.target.name!r} has {n_classes:,} classes in {n_rows:,} rows: it "
            "names the rows rather than their kind, and little can be learned. Check the target.",
            ColumnWarning,
            stacklevel=CALLER_OF_FIT,
        )
    if n_classes == 1:
        warnings.warn(
            f"The target has one class only, {str(codebook.classes[0])!r}: every row will be "
            "predicted so. Check the target, or pass rows of other classes.",
            ColumnWarning,
            stacklevel=CALLER_OF_FIT,
        )
