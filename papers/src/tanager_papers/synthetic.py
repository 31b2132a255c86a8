"""Tables of the papers that are synthetic, made anew by their published definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tanager.evaluation.datasets import Dataset
from tanager_papers.generators import corral, led, mofn, waveform
from tanager_papers.keel import TableFacts

__all__ = ["made_facts", "made_table"]


class _Made(NamedTuple):
    draw: Callable[[], Any]
    facts: TableFacts
    train_rows: int | None = None  # where the paper has one division into training and test


# Sizes of Friedman, Geiger and Goldszmidt (1997), table 1, and of Zaidi et al. (2017), table 3.
_MADE = {
    "corral": _Made(lambda: corral(128), TableFacts("corral", 128, 6, 2)),
    "mofn-3-7-10": _Made(mofn, TableFacts("mofn-3-7-10", 1324, 10, 2), 300),
    "waveform-21": _Made(
        lambda: waveform(5000, 0, seed=21), TableFacts("waveform-21", 5000, 21, 3), 300
    ),
    "LED": _Made(lambda: led(1000), TableFacts("LED", 1000, 7, 10)),
    "Waveform-5000": _Made(lambda: waveform(5000), TableFacts("Waveform-5000", 5000, 40, 3)),
}


def made_facts(paper_name: str) -> TableFacts | None:
    """Return what is known of a synthetic table, or None where it is not one."""
    return _MADE[paper_name].facts if paper_name in _MADE else None


def made_table(paper_name: str) -> Dataset | None:
    """Make a synthetic table by the papers' name for it, or return None."""
    if paper_name not in _MADE:
        return None
    made = _MADE[paper_name]
    return Dataset(made.facts.stem, made.draw(), train_rows=made.train_rows)
