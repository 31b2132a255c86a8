"""The page of a comparison between new rows and those a model was trained on."""

from __future__ import annotations

import os

from tanager.atomic import write_text
from tanager.network.drift import Drift
from tanager.report.rendering import check_ending, render_page

MOST_ROWS = 30  # of a table of tests
MOST_COLUMNS = 60  # columns that are drawn
WIDTH, HEIGHT = 320, 110  # of a column's picture

_KINDS = {
    "values": "distribution",
    "missing": "missing rate",
    "outside": "outside the range of training",
    "unseen": "values never seen",
    "pair": "dependence of two features",
    "given class": "dependence on the class",
    "classes": "class frequencies",
    "calibration": "calibration",
}


def write_drift(drift: Drift, path: str | os.PathLike[str], *, title: str = "Drift") -> None:
    """Write what `Network.drift` found as one HTML file that works offline.

    Parameters
    ----------
    drift : Drift
    path : path
        The page; it holds shares of rows, never a row.
    title : str, default="Drift"

    Examples
    --------
    >>> import os, tempfile
    >>> from tanager import BayesNetClassifier
    >>> from tanager.report import write_drift
    >>> clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 20, [0, 1] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_drift(clf.drift([["a"]] * 30), os.path.join(folder, "drift.html"))
    """
    check_ending(path)
    write_text(path, render_drift(drift, title=title))


def render_drift(drift: Drift, *, title: str = "Drift") -> str:
    """Return the page of `write_drift` as text."""
    profiles = sorted(drift.profiles, key=lambda one: one.column not in drift.columns)
    return render_page(
        "drift.html.j2",
        title=title,
        drift=drift,
        profiles=profiles[:MOST_COLUMNS],
        still=[shift for shift in drift.shifts if not shift.moved],
        kinds=_KINDS,
        most_rows=MOST_ROWS,
        width=WIDTH,
        height=HEIGHT,
    )
