"""How a claim fares: from wins and losses to a verdict, by one rule for all papers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tanager.evaluation.results import Scores
from tanager.evaluation.statistics import WinDrawLoss, win_draw_loss
from tanager_papers.duels import DECIMALS, record_text
from tanager_papers.findings import Claim

__all__ = [
    "RULE",
    "Comparison",
    "claim_of_parts",
    "claim_of_records",
    "duel_record",
    "judge",
    "untested",
]

RULE = (
    "A claim is divided into comparisons: one for each structure, table, metric or size that it "
    "speaks of. One of wins against losses is borne out where the paper's winner leads and its "
    "lead is significant (two-tailed sign test, p ≤ 0.05) or as large as in the paper: the shares "
    "of wins do not differ (Fisher's exact test, p > 0.05) on at least a third as many tables. We "
    "have fewer tables than the papers, and the same share of wins on fewer tables may miss "
    "significance. Other comparisons are borne out where the numbers have the order, or about the "
    "size, that the paper says. *Holds*: all comparisons are borne out. *Holds in part*: some "
    "are, or the paper's winner leads without being borne out. *Does not hold*: neither. Where a "
    "claim does not hold in full, its page says what is missing, and why as far as we know."
)


class Comparison(NamedTuple):
    """Wins, draws and losses of who should win: ours, and the paper's where it prints them."""

    name: str
    ours: WinDrawLoss | None
    paper: tuple[int, int, int] | None = None


def duel_record(scores: Scores | None, a: str, b: str) -> WinDrawLoss | None:
    """Return the first's wins, draws and losses, or None where they were not both run."""
    if scores is None or not {a, b} <= set(scores.classifiers) or not scores.datasets:
        return None
    return win_draw_loss(scores.of(a), scores.of(b), DECIMALS)


def judge(ours: WinDrawLoss, paper: tuple[int, int, int] | None = None) -> str:
    """Return the verdict on "the first wins": borne out, a lead, or neither; see `RULE`."""
    if ours.wins <= ours.losses:
        return "does not hold"
    sure = ours.p_value <= 0.05 or (paper is not None and _as_often(ours, WinDrawLoss(*paper)))
    return "holds" if sure else "holds in part"


def _as_often(ours: WinDrawLoss, paper: WinDrawLoss) -> bool:
    """Tell whether the share of wins is as in the paper, on enough tables to tell."""
    from scipy.stats import fisher_exact

    if 3 * (ours.wins + ours.losses) < paper.wins + paper.losses:
        return False
    counts = [[ours.wins, ours.losses], [paper.wins, paper.losses]]
    return bool(fisher_exact(counts).pvalue > 0.05)


def claim_of_records(text: str, comparisons: Sequence[Comparison], why: str = "") -> Claim:
    """Return a claim that all the comparisons must bear out; the worst and best decide.

    `why` is told where it does not hold in full.
    """
    run = [(c.name, c.ours, c.paper) for c in comparisons if c.ours is not None]
    if not run:
        return untested(text, "not run")
    parts = {name: judge(ours, paper) for name, ours, paper in run}
    number = "; ".join(f"{name} {record_text(ours)}" for name, ours, _ in run)
    return claim_of_parts(text, parts, number, why)


def claim_of_parts(text: str, parts: dict[str, str], number: str, why: str = "") -> Claim:
    """Return a claim by the verdicts on its named parts, and tell which are not borne out."""
    if not parts:
        return untested(text, "not run")
    verdicts = set(parts.values())
    verdict = verdicts.pop() if len(verdicts) == 1 else "holds in part"
    if verdict == "holds":
        return Claim(text, verdict, number)
    leads = [name for name, found in parts.items() if found == "holds in part"]
    failed = [name for name, found in parts.items() if found == "does not hold"]
    n_borne = len(parts) - len(leads) - len(failed)
    told = f"{n_borne} of {len(parts)} comparisons borne out"
    told += f"; a lead only: {_listed(leads)}" if leads else ""
    told += f"; not: {_listed(failed)}" if failed else ""
    return Claim(text, verdict, number, f"{told}. {why}".strip())


def _listed(names: Sequence[str]) -> str:
    return "; ".join(names) if len(names) <= 6 else f"{len(names)} of them"


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
