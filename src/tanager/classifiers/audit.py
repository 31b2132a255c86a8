"""What a fit says of the columns: once, in one warning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from tanager.codes import Codebook
from tanager.errors import ColumnWarning

__all__ = ["warn_of_columns"]

MOST = 8  # columns named in a warning


def warn_of_columns(codebook: Codebook, record: Mapping[str, Any]) -> None:
    """Warn of the columns that are read otherwise than written, and of a single class."""
    acted = [f for f in record.get("audit", ()) if f["action"] != "none"]
    if acted:
        shown = "; ".join(f"{f['column']!r} {f['action']} ({f['reason']})" for f in acted[:MOST])
        more = f"; and {len(acted) - MOST} more" if len(acted) > MOST else ""
        warnings.warn(
            f"Columns that are not what they seem: {shown}{more}. To take a column as it is, name "
            "it in categorical_features, or pass audit=False. All findings are in "
            "info_['codes']['audit'].",
            ColumnWarning,
            stacklevel=4,
        )
    if len(codebook.classes) == 1:
        warnings.warn(
            f"The target has one class only, {str(codebook.classes[0])!r}: every row will be "
            "predicted so. Check the target, or pass rows of other classes.",
            ColumnWarning,
            stacklevel=4,
        )
