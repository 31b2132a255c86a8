"""Tables of wins, draws and losses: the paper's counts beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tanager.evaluation.results import Scores
from tanager.evaluation.statistics import WinDrawLoss, win_draw_loss
from tanager_papers.findings import Block

__all__ = ["DECIMALS", "Duel", "duel_block", "record_text"]

# Losses that agree to so many digits count as a draw: further digits are the
# order of a sum.
DECIMALS = 9


class Duel(NamedTuple):
    """Two classifiers, and the paper's wins, draws and losses of the first by metric."""

    a: str
    b: str
    printed: Mapping[str, tuple[int, int, int]]


def record_text(record: tuple[int, int, int]) -> str:
    """Write wins, draws and losses, with a star where the sign test is significant."""
    counted = WinDrawLoss(*record)
    return f"{counted}{'*' if counted.p_value <= 0.05 else ''}"


def duel_block(
    title: str,
    duels: Sequence[Duel],
    scores: Mapping[str, Scores],
    titles: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Block:
    """Make the block; `scores` by metric, of which only those measured appear."""
    told = {metric for duel in duels for metric in duel.printed}  # what the paper has
    columns = ["first against second"]
    for metric in titles:
        n = len(scores[metric].datasets) if metric in scores else 0
        if metric in told:
            columns += [f"{titles[metric]}, paper", f"ours ({n} tables)"]
        else:
            columns.append(f"{titles[metric]}, ours ({n} tables)")
    rows = []
    for duel in duels:
        row = [f"{duel.a} : {duel.b}"]
        for metric in titles:
            printed = duel.printed.get(metric)
            if metric in told:
                row.append("" if printed is None else record_text(printed))
            row.append(_ours(scores.get(metric), duel))
        rows.append(tuple(row))
    every = ("Win–draw–loss of the first; * where the two-tailed sign test has p ≤ 0.05.", *notes)
    return Block(title, tuple(columns), rows, every)


def _ours(scores: Scores | None, duel: Duel) -> str:
    if scores is None or not {duel.a, duel.b} <= set(scores.classifiers) or not scores.datasets:
        return "not run"
    return record_text(win_draw_loss(scores.of(duel.a), scores.of(duel.b), DECIMALS))
