"""What a fit says of the columns: once, in one warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from tanager.codes import Codebook
from tanager.errors import ColumnWarning

__all__ = ["tell_findings", "warn_of_columns"]

WHO_FITS = 5  # frames from a warning here to the caller of fit
MOST = 8  # columns named in a warning
MANY_CLASSES = 20  # from which on a target may name the rows


def tell_findings(findings: Iterable[Mapping[str, Any]], *, can_be_off: bool = True) -> str:
    """Return one sentence of the columns that are read otherwise than written; "" without any.

    `can_be_off` says whether the reader of it can switch the audit off.
    """
    acted = [f for f in findings if f["action"] != "none"]
    if not acted:
        return ""
    shown = "; ".join(f"{f['column']!r} {f['action']} ({f['reason']})" for f in acted[:MOST])
    more = f"; and {len(acted) - MOST} more" if len(acted) > MOST else ""
    off = "; to take all as they are, pass audit=False" if can_be_off else ""
    return (
        f"Columns that are not what they seem: {shown}{more}. To take a column as categories, "
        f"name it in categorical_features{off}. All findings are in info_['codes']['audit']."
    )


def warn_of_columns(
    codebook: Codebook, record: Mapping[str, Any], n_rows: int, answer: str | None = None
) -> None:
    """Warn of the columns that are read otherwise than written, and of a strange target.

    `answer` is a feature that is the target itself.
    """
    text = tell_findings(record.get("audit", ()))
    if text:
        warnings.warn(text, ColumnWarning, stacklevel=WHO_FITS)
    if answer is not None:
        warnings.warn(
            f"The column {answer!r} of the table is the target itself: the model reads the answer "
            f"there, and any score is too good. Drop it from X, or pass its name as y: {answer!r}.",
            ColumnWarning,
            stacklevel=WHO_FITS,
        )
    n_classes = len(codebook.classes)
    if n_classes > MANY_CLASSES and n_classes > n_rows / 2:
        warnings.warn(
            f"The target {codebook.target.name!r} has {n_classes:,} classes in {n_rows:,} rows: it "
            "names the rows rather than their kind, and little can be learned. Check the target.",
            ColumnWarning,
            stacklevel=WHO_FITS,
        )
    if n_classes == 1:
        warnings.warn(
            f"The target has one class only, {str(codebook.classes[0])!r}: every row will be "
            "predicted so. Check the target, or pass rows of other classes.",
            ColumnWarning,
            stacklevel=WHO_FITS,
        )
