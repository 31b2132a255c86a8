"""How a claim fares: from wins and losses to a verdict, by one rule for all papers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tanager.evaluation.results import Scores
from tanager.evaluation.statistics import WinDrawLoss, win_draw_loss
from tanager.numerics import Floats
from tanager_papers.duels import DECIMALS
from tanager_papers.findings import VERDICTS, Claim

__all__ = [
    "MARGIN",
    "RULE",
    "Comparison",
    "claim_of_parts",
    "claim_of_records",
    "duel_record",
    "judge",
    "mean_interval",
    "on_generated_rows",
    "power",
    "share_interval",
    "untested",
]

LEVEL = 0.05  # of significance, shared by the comparisons of a claim
MARGIN = 0.10  # by which a share of wins may differ and still be the paper's

RULE = (
    "A claim is divided into comparisons: one for each structure, table, metric or size that it "
    "speaks of. Of wins against losses the share of wins has an exact (Clopper–Pearson) "
    "interval at level 0.05 divided by the number of the claim's comparisons, so that a claim "
    "of many has no better chance than a claim of one. A comparison *holds* where the interval "
    "lies above one half. It *does not hold* where the interval lies below one half, or reaches "
    "one half but stays more than 10 points, a margin fixed in advance, below the share of wins "
    "that the paper prints. Else it's *undecided*: chance would explain it, and so would the "
    "paper. The power beside it is the chance of an interval above one half if the paper's "
    "share were the truth, on as many tables as we have. Other comparisons are borne out where "
    "the numbers have the order, or about the size, that the paper says. A claim *holds* where "
    "all its comparisons do and *holds in part* where some do, or where the paper's winner "
    "leads without being borne out. If none does, it *does not hold* where one is refuted, and "
    "is *undecided* otherwise. What rests on rows of our own generators alone *cannot be tested "
    "here*. Where a claim does not hold in full, its page says what is missing, and why as far "
    "as we know."
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


def share_interval(record: WinDrawLoss, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact interval of the share of wins among tables that aren't a draw.

    >>> [round(end, 3) for end in share_interval(WinDrawLoss(36, 0, 13))]
    [0.589, 0.851]
    """
    from scipy.stats import binomtest

    n = record.wins + record.losses
    if n == 0:
        return 0.0, 1.0
    found = binomtest(record.wins, n).proportion_ci(1 - level, method="exact")
    return float(found.low), float(found.high)


def mean_interval(
    gaps: Sequence[float] | Floats, n_comparisons: int = 1, overlap: float = 0.0
) -> tuple[float, float]:
    """Return Student's interval of a mean difference, at a level shared by the comparisons.

    `overlap` is the number of test rows over that of training rows where the differences come
    from divisions of the same table: the variance is then Nadeau and Bengio's (2003).

    >>> [round(end, 2) for end in mean_interval([-1.0, -0.5, -0.9, -0.6, -0.8])]
    [-1.02, -0.5]
    """
    from scipy.stats import t

    values = np.asarray(gaps, np.float64)
    n = len(values)
    if n < 2:
        return -np.inf, np.inf
    half = t.ppf(1 - LEVEL / n_comparisons / 2, n - 1) * values.std(ddof=1)
    half *= np.sqrt(1 / n + overlap)
    return float(values.mean() - half), float(values.mean() + half)


def power(n_tables: int, share: float, level: float = LEVEL) -> float:
    """Return the chance that the interval lies above one half if `share` is the truth.

    >>> round(power(49, 52 / 67), 2), round(power(9, 0.7), 2)
    (0.98, 0.2)
    """
    from scipy.stats import binom

    wins = range(n_tables + 1)
    enough = [k for k in wins if share_interval(WinDrawLoss(k, 0, n_tables - k), level)[0] > 0.5]
    return float(binom.sf(enough[0] - 1, n_tables, share)) if enough else 0.0


def judge(
    ours: WinDrawLoss, paper: tuple[int, int, int] | None = None, n_comparisons: int = 1
) -> str:
    """Return the verdict on "the first wins", one of the claim's comparisons; see `RULE`."""
    low, high = share_interval(ours, LEVEL / n_comparisons)
    if low > 0.5:
        return "holds"
    refuted = paper is not None and high < paper[0] / max(1, paper[0] + paper[2]) - MARGIN
    return "does not hold" if high < 0.5 or refuted else "undecided"


def claim_of_records(text: str, comparisons: Sequence[Comparison], why: str = "") -> Claim:
    """Return a claim that all the comparisons must bear out.

    `why` is told where it does not hold in full.
    """
    run = [(c.name, c.ours, c.paper) for c in comparisons if c.ours is not None]
    if not run:
        return untested(text, "not run")
    level = LEVEL / len(run)
    parts = {name: judge(ours, paper, len(run)) for name, ours, paper in run}
    told, chances = [], []
    for name, ours, paper in run:
        low, high = share_interval(ours, level)
        told.append(f"{name} {ours} ({100 * low:.0f} to {100 * high:.0f} %)")
        if paper is not None:
            share = paper[0] / max(1, paper[0] + paper[2])
            chances.append(power(ours.wins + ours.losses, share, level))
    number = "; ".join(told)
    if chances:
        least, most = f"{min(chances):.2f}", f"{max(chances):.2f}"
        number += f"; power {least if least == most else f'{least} to {most}'}"
    return claim_of_parts(text, parts, number, why)


def claim_of_parts(text: str, parts: dict[str, str], number: str, why: str = "") -> Claim:
    """Return a claim by the verdicts on its named parts, and tell which are not borne out."""
    if not parts:
        return untested(text, "not run")
    names: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
    for name, found in parts.items():
        names[found].append(name)
    borne, leads = names["holds"], names["holds in part"]
    open_, failed = names["undecided"], names["does not hold"]
    if len(borne) == len(parts):
        return Claim(text, "holds", number)
    verdict = "holds in part" if borne or leads else "does not hold" if failed else "undecided"
    told = f"{len(borne)} of {len(parts)} comparisons borne out"
    told += f"; a lead only: {_listed(leads)}" if leads else ""
    told += f"; undecided: {_listed(open_)}" if open_ else ""
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


def on_generated_rows(claim: Claim) -> Claim:
    """Return a claim on rows that nobody has: untested, with what generated ones say."""
    if claim.verdict == "cannot be tested here":
        return claim
    return untested(
        claim.text,
        f"on generated rows it {claim.verdict}: {claim.number}".replace(
            "it undecided", "is undecided"
        ),
    )
