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
    "LEVEL",
    "MARGIN",
    "RULE",
    "Comparison",
    "claim_of_parts",
    "claim_of_records",
    "duel_record",
    "gap_interval",
    "judge",
    "judge_gap",
    "judge_same",
    "mean_interval",
    "on_generated_rows",
    "power",
    "rate_interval",
    "share_interval",
    "told_gap",
    "untested",
    "variance_interval",
]

LEVEL = 0.05  # of significance, shared by the comparisons of a claim
MARGIN = 0.10  # by which a share of wins may differ and still be the paper's

RULE = (
    "A claim is split into comparisons: one for each structure, table, metric or size that it "
    "mentions. All intervals are at the level 0.05 divided by the number of the claim's "
    "comparisons (Bonferroni).",
    "**Wins and losses over tables.** The share of wins among the tables that aren't tied has an "
    "exact (Clopper–Pearson) interval. A comparison *holds* if the interval lies above one half. "
    "It *does not hold* if the interval lies below one half, or includes it but ends more than 10 "
    "percentage points below the share that the paper prints. If the interval lies above one half "
    "and still ends more than 10 points below the paper's share, the direction is confirmed and "
    "the size isn't: the comparison *holds in part*. Anything else is *undecided*. The paper's "
    "share follows the interval. The power is the probability of an interval above one half "
    "on as many tables as we have if the paper's share were the true one; with a power of 0.2, "
    "*undecided* says little.",
    "**Differences of means and rates.** Over tables, folds, shuffles or trainings the interval is "
    "Student's (Welch's where they aren't paired), with Nadeau and Bengio's variance where "
    "training sets overlap. Two error rates on the same test rows have the interval of "
    "independent binomials, which is conservative; where the paper's rates are the lowest of many "
    "trainings, chosen on the test rows, so are ours, and no interval covers that choice. A "
    "comparison holds if its "
    "interval excludes zero on the paper's side, and doesn't if it does on the other. "
    "A claim that something makes no difference holds only if the whole interval stays within a "
    "margin, which is given with the claim; that a difference isn't significant is no evidence. "
    "All margins were set before the claims were judged by them, though after most of the fits had "
    "been run.",
    "**Sizes, orders and constants**: factors of time, printed digits, edges that are found. The "
    "criterion is given with the claim where it isn't plain.",
    "A claim *holds* if all its comparisons do, and *holds in part* if some do or if the direction "
    "is right and the size isn't. If none does, it *does not hold* where one is refuted, and is "
    "*undecided* otherwise. A claim that could be tested on rows of our own generators only, "
    "or whose runs are missing, *cannot be tested here*; what those rows show is added. Each page "
    "says what is missing where "
    "a claim doesn't hold in full, and why as far as we know.",
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
    """Return the exact interval (Clopper and Pearson's) of the share of wins among decided tables.

    >>> [round(end, 3) for end in share_interval(WinDrawLoss(36, 0, 13))]
    [0.589, 0.851]
    """
    from scipy.special import betaincinv

    wins, losses = record.wins, record.losses
    low = betaincinv(wins, losses + 1, level / 2) if wins else 0.0
    high = betaincinv(wins + 1, losses, 1 - level / 2) if losses else 1.0
    return float(low), float(high)


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


def gap_interval(
    first: Sequence[float] | Floats, second: Sequence[float] | Floats, n_comparisons: int = 1
) -> tuple[float, float]:
    """Return Welch's interval of the difference of two means, at a level shared by comparisons.

    >>> [round(end, 2) for end in gap_interval([1.0, 1.2, 1.1], [2.0, 2.4, 2.2, 2.2])]
    [-1.36, -0.84]
    """
    from scipy.stats import ttest_ind

    if min(len(first), len(second)) < 2:
        return -np.inf, np.inf
    found = ttest_ind(first, second, equal_var=False)
    ends = found.confidence_interval(1 - LEVEL / n_comparisons)
    return float(ends.low), float(ends.high)


def rate_interval(
    first: float, second: float, n_rows: int, n_comparisons: int = 1
) -> tuple[float, float]:
    """Return the interval of the difference of two error rates, in per cent, on the same rows.

    That of independent binomials: errors on the same rows go together, so that it's too wide.

    >>> [round(end, 2) for end in rate_interval(8.9, 10.0, 6667)]
    [-2.09, -0.11]
    """
    from scipy.stats import norm

    shares = np.array([first, second]) / 100
    deviation = 100 * np.sqrt((shares * (1 - shares)).sum() / n_rows)
    half = float(norm.ppf(1 - LEVEL / n_comparisons / 2) * deviation)
    return first - second - half, first - second + half


def variance_interval(
    ratio: float, n_first: int, n_second: int, n_comparisons: int = 1
) -> tuple[float, float]:
    """Return Fisher's interval of the ratio of two variances, of so many values each.

    >>> [round(end, 2) for end in variance_interval(2.0, 5, 5)]
    [0.21, 19.21]
    """
    from scipy.stats import f

    ends = f.ppf([1 - LEVEL / n_comparisons / 2, LEVEL / n_comparisons / 2], n_first - 1,
                 n_second - 1)  # fmt: skip
    return float(ratio / ends[0]), float(ratio / ends[1])


def judge_gap(interval: tuple[float, float], bound: float = 0.0) -> str:
    """Return the verdict on "the difference is below the bound" by its interval.

    >>> judge_gap((-2.09, -0.11)), judge_gap((-2.09, 0.3)), judge_gap((-2.09, 0.3), bound=0.75)
    ('holds', 'undecided', 'holds')
    """
    low, high = interval
    return "holds" if high < bound else "does not hold" if low > bound else "undecided"


def judge_same(interval: tuple[float, float], margin: float) -> str:
    """Return the verdict on "there's no difference", which is one of at most a margin.

    >>> judge_same((-0.2, 0.3), 0.5), judge_same((-0.2, 0.6), 0.5), judge_same((0.6, 0.9), 0.5)
    ('holds', 'undecided', 'does not hold')
    """
    low, high = interval
    if low > margin or high < -margin:
        return "does not hold"
    return "holds" if low > -margin and high < margin else "undecided"


def told_gap(name: str, gap: float, interval: tuple[float, float], digits: int = 2) -> str:
    """Write a difference with its interval."""
    ends = f"({interval[0]:+.{digits}f} to {interval[1]:+.{digits}f})"
    return f"{name} {gap:+.{digits}f} {ends if np.isfinite(interval[0]) else '(no interval)'}"


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
    smaller = paper is not None and high < _share(paper) - MARGIN
    if low > 0.5:
        return "holds in part" if smaller else "holds"
    return "does not hold" if high < 0.5 or smaller else "undecided"


def _share(record: tuple[int, int, int]) -> float:
    """Return the share of wins among tables that aren't a draw."""
    return record[0] / max(1, record[0] + record[2])


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
        printed = "" if paper is None else f", paper {100 * _share(paper):.0f} %"
        told.append(f"{name} {ours} ({100 * low:.0f} to {100 * high:.0f} %{printed})")
        if paper is not None:
            chances.append(power(ours.wins + ours.losses, _share(paper), level))
    number = "; ".join(told)
    if chances:
        least, most = f"{min(chances):.2f}", f"{max(chances):.2f}"
        number += f"; power {least if least == most else f'{least} to {most}'}"
    return claim_of_parts(text, parts, number, why)


def claim_of_parts(
    text: str, parts: dict[str, str], number: str, why: str = "", *, criterion: str = ""
) -> Claim:
    """Return a claim by the verdicts on its named parts, and tell which of them don't hold.

    `criterion` is added to the number: what a part must meet where the claim leaves it open.
    """
    if not parts:
        return untested(text, "not run")
    number += f"; criterion: {criterion}" if criterion else ""
    names: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
    for name, found in parts.items():
        names[found].append(name)
    borne, leads = names["holds"], names["holds in part"]
    open_, failed = names["undecided"], names["does not hold"]
    if len(borne) == len(parts):
        return Claim(text, "holds", number)
    verdict = "holds in part" if borne or leads else "does not hold" if failed else "undecided"
    told = f"{len(borne)} of {len(parts)} comparisons hold"
    told += f"; direction only: {_listed(leads)}" if leads else ""
    told += f"; undecided: {_listed(open_)}" if open_ else ""
    told += f"; refuted: {_listed(failed)}" if failed else ""
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
            "it undecided", "it's undecided"
        ),
    )
