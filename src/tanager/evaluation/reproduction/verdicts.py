"""How a claim fares: from wins and losses to a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tanager.evaluation.reproduction.duels import DECIMALS, record_text
from tanager.evaluation.reproduction.findings import Claim
from tanager.evaluation.results import Scores
from tanager.evaluation.statistics import WinDrawLoss, win_draw_loss

__all__ = ["claim_of_records", "duel_record", "judge", "untested"]


def duel_record(scores: Scores | None, a: str, b: str) -> WinDrawLoss | None:
    """Return the first's wins, draws and losses, or None where they were not both run."""
    if scores is None or not {a, b} <= set(scores.classifiers) or not scores.datasets:
        return None
    return win_draw_loss(scores.of(a), scores.of(b), DECIMALS)


def judge(record: WinDrawLoss) -> str:
    """Return the verdict on "the first wins": a significant sign test, a lead, or neither."""
    if record.wins <= record.losses:
        return "does not hold"
    return "holds" if record.p_value <= 0.05 else "holds in part"


def claim_of_records(text: str, records: Sequence[tuple[str, WinDrawLoss | None]]) -> Claim:
    """Return a claim that all the named records must bear out; the worst and best decide."""
    run = [(name, record) for name, record in records if record is not None]
    if not run:
        return untested(text, "not run")
    verdicts = {judge(record) for _, record in run}
    if verdicts == {"holds"}:
        verdict = "holds"
    elif verdicts == {"does not hold"}:
        verdict = "does not hold"
    else:
        verdict = "holds in part"
    return Claim(text, verdict, "; ".join(f"{name} {record_text(record)}" for name, record in run))


def untested(text: str, reason: str) -> Claim:
    """Return a claim that was not tested, with why."""
    return Claim(text, "cannot be tested here", reason)


def rising(values: Iterable[float]) -> bool:
    """Tell whether a sequence goes up on the whole: Spearman's rank correlation above 0.5."""
    found = np.asarray(list(values), float)
    if len(found) < 3 or np.ptp(found) == 0:
        return False
    ranks = np.argsort(np.argsort(found))
    return bool(np.corrcoef(np.arange(len(found)), ranks)[0, 1] > 0.5)
