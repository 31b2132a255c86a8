"""Convergence in Zaidi et al. (2017): tables 5 and 6, figures 15 to 17 and 20 to 22."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tanager.evaluation.datasets import Dataset
from tanager.evaluation.results import Results
from tanager.evaluation.statistics import (
    WinDrawLoss,
    average_ranks,
    critical_difference,
    friedman,
    win_draw_loss,
)
from tanager_papers.curves import iterations_behind
from tanager_papers.duels import record_text
from tanager_papers.findings import Block, Claim, Picture
from tanager_papers.verdicts import (
    Comparison,
    claim_of_parts,
    claim_of_records,
    untested,
)
from tanager_papers.workbench import Workbench
from tanager_papers.zaidi_curves import (
    Traces,
    curve_block,
    scaling_block,
    traces_of,
)
from tanager_papers.zaidi_forms import (
    FORMS,
    STARTS,
    STRUCTURES,
    big_names,
)
from tanager_papers.zaidi_released import released_block

__all__ = ["apart_claim", "big_claim", "convergence_blocks", "later_claim"]

# Tables 5 and 6, all datasets: negative log-likelihood of the weighted form
# against another after 5, 10 and 50 iterations.
TRACES = {
    "d": {
        "NB": ((67, 2, 2), (67, 2, 2), (56, 14, 1)),
        "TAN": ((64, 6, 1), (63, 7, 1), (44, 25, 2)),
        "KDB-1": ((66, 5, 0), (65, 5, 1), (46, 22, 3)),
    },
    "e": {
        "NB": ((69, 0, 2), (68, 0, 3), (61, 10, 0)),
        "TAN": ((67, 4, 0), (65, 5, 1), (51, 19, 1)),
        "KDB-1": ((66, 5, 0), (65, 5, 1), (52, 19, 0)),
    },
}
# The same on the 12 tables of more than 10,000 rows; both forms have the same counts.
TRACES_BIG = {
    "NB": ((12, 0, 0), (12, 0, 0), (12, 0, 0)),
    "TAN": ((12, 0, 0), (12, 0, 0), (11, 1, 0)),
    "KDB-1": ((12, 0, 0), (12, 0, 0), (11, 1, 0)),
}
ITERATIONS = (5, 10, 50)
MOST = 10_000  # iterations of a fit
FRIEDMAN = 0.001  # the p-value that the paper prints for all its diagrams
# The paper's counts of a form, by structure, one for each number of iterations.
Printed = Mapping[str, tuple[tuple[int, int, int], ...]]
OWN_GRADIENT = (
    "The extended form's own gradient brings it on faster than the one of the authors' program: "
    "the last table has both."
)
TRACE_NOTE = (
    "The extended form here has its true gradient, through the normalisation (equation 14). That "
    "of the authors' program is another one; a table below compares the two."
)


def convergence_blocks(
    bench: Workbench, runs: Mapping[str, Results], datasets: Sequence[Dataset]
) -> tuple[list[Block], list[Claim]]:
    """Return the blocks and claims that follow from the optimiser's traces, by start."""
    traces = {start: traces_of(run) for start, run in runs.items()}
    blocks = [
        _trace_block("Tables 5 and 6: objective after some iterations (paper: 71 tables)", traces,
                     TRACES),
        _trace_block("Tables 5 and 6, tables of more than 10,000 rows (paper: 12)",
                     _big_traces(bench, traces), {"d": TRACES_BIG, "e": TRACES_BIG}),
        _behind_block(traces),
    ]  # fmt: skip
    ranks, rank_claims = _rank_block(runs["generative"], traces["generative"])
    curves, curve_claim = curve_block(bench, datasets)
    synthetic, scaling_claim = scaling_block(bench)
    claims = [
        _trace_claim(traces, "d", 5),
        _trace_claim(traces, "e", 6),
        later_claim(traces),
        big_claim(_big_traces(bench, traces)),
        _behind_claim(traces),
    ]
    blocks += [ranks, curves, synthetic, released_block(bench, datasets)]
    return blocks, [*claims, *rank_claims, curve_claim, scaling_claim]


def _big_traces(bench: Workbench, traces: Mapping[str, Traces]) -> dict[str, Traces]:
    names = big_names(bench)
    return {
        start: {c: {d: t for d, t in found.items() if d in names} for c, found in part.items()}
        for start, part in traces.items()
    }


def _trace_block(
    title: str,
    traces: Mapping[str, Traces],
    counts: Mapping[str, Printed],
) -> Block:
    rows = []
    for other, by_structure in counts.items():
        for name, printed in by_structure.items():
            for start, mark in STARTS.items():
                row = [f"{name}w{mark} : {name}{other}{mark}"]
                for at, expected in zip(ITERATIONS, printed, strict=True):
                    record = wins_at(traces[start], f"{name}w", f"{name}{other}", at)
                    ours = "not run" if record is None else record_text(record)
                    row += [record_text(expected), ours]
                rows.append(tuple(row))
    columns = ["first against second"]
    for at in ITERATIONS:
        columns += [f"NLL at {at}, paper", "ours"]
    n = {start: max((len(t) for t in part.values()), default=0) for start, part in traces.items()}
    notes = (
        "Wins are lower objectives after so many iterations; that within 0.1 % it is a draw is our "
        "choice. (I): started at the generative "
        f"tables ({n['generative']} of our tables), else at zero ({n['zero']}); the "
        "paper's table has no such mark.",
        TRACE_NOTE,
    )
    return Block(title, tuple(columns), rows, notes)


def _trace_claim(traces: Mapping[str, Traces], other: str, table: int) -> Claim:
    form = FORMS[other]
    text = f"The weighted objective is below the {form} one after five iterations (table {table})"
    records = [
        Comparison(
            f"{n}{mark}",
            wins_at(traces[start], f"{n}w", f"{n}{other}", 5),
            TRACES[other][n][0],
        )
        for start, mark in STARTS.items()
        for n in STRUCTURES
    ]
    return claim_of_records(text, records, OWN_GRADIENT if other == "e" else "")


def later_claim(traces: Mapping[str, Traces]) -> Claim:
    """Judge tables 5 and 6 after ten and fifty iterations."""
    text = (
        "The weighted objective is below both others after ten and after fifty iterations "
        "(tables 5 and 6)"
    )
    return _many(text, _later_records(traces, TRACES, (1, 2)))


def big_claim(traces: Mapping[str, Traces]) -> Claim:
    """Judge tables 5 and 6 on the tables of more than 10,000 rows."""
    text = (
        "On big tables the weighted objective is below both others after 5, 10 and 50 iterations "
        "(tables 5 and 6)"
    )
    printed = {"d": TRACES_BIG, "e": TRACES_BIG}
    return _many(text, _later_records(traces, printed, range(len(ITERATIONS))))


def _later_records(
    traces: Mapping[str, Traces], printed: Mapping[str, Printed], places: Iterable[int]
) -> list[Comparison]:
    """Compare the weighted form with the others after `ITERATIONS` at some places."""
    return [
        Comparison(
            f"{n}{other}{mark} at {ITERATIONS[place]}",
            wins_at(traces[start], f"{n}w", f"{n}{other}", ITERATIONS[place]),
            printed[other][n][place],
        )
        for start, mark in STARTS.items()
        for other in printed
        for n in STRUCTURES
        for place in places
    ]


def _many(text: str, records: Sequence[Comparison]) -> Claim:
    """Judge dozens of comparisons, whose counts the tables have, and tell how many are won."""
    run = [record.ours for record in records if record.ours is not None]
    ahead = [ours for ours in run if ours.wins > ours.losses]
    clear = sum(ours.p_value <= 0.05 for ours in ahead)
    number = f"ahead in {len(ahead)} of {len(run)} comparisons, in {clear} with p ≤ 0.05 each"
    claim = claim_of_records(text, records, OWN_GRADIENT)
    number += "".join(claim.number.rpartition("; power")[1:])
    return claim if not run else replace(claim, number=number)


def wins_at(traces: Traces, a: str, b: str, at: int) -> WinDrawLoss | None:
    """Return on how many tables the first has the lower objective after so many iterations."""
    common = sorted(set(traces.get(a, {})) & set(traces.get(b, {})))
    if not common:
        return None
    x, y = (
        np.array([traces[c][d][min(at, len(traces[c][d]) - 1)] for d in common]) for c in (a, b)
    )
    close = np.abs(x - y) <= 1e-3 * np.maximum(np.abs(x), np.abs(y))
    return win_draw_loss(np.where(close, y, x), y)


def _behind(traces: Traces, name: str, other: str) -> list[int]:
    a, b = traces.get(f"{name}w", {}), traces.get(f"{name}{other}", {})
    return [iterations_behind(a[d], b[d]) for d in sorted(set(a) & set(b))]


def _behind_block(traces: Mapping[str, Traces]) -> Block:
    rows, pictures = [], []
    for name, number in zip(STRUCTURES, (15, 16, 17), strict=True):
        for start, mark in STARTS.items():
            found = {other: _behind(traces[start], name, other) for other in ("d", "e")}
            for other, printed in (("d", "about 10"), ("e", "about 15")):
                behind = found[other]
                ours = "not run" if not behind else f"{np.mean(behind):.1f}"
                middle = "" if not behind else f"{np.median(behind):.0f}"
                rows.append((f"{name}{other}{mark} behind {name}w{mark}", printed, ours, middle))
            if all(found.values()):
                data = {"behind": {f"{name}{other}{mark}": v for other, v in found.items()}}
                title = f"Figure {number}: iterations behind {name}w{mark} at the fifth"
                slug = f"figure-{number}{'-zero' if start == 'zero' else ''}"
                pictures.append(Picture(slug, title, "histogram", data, "All tables."))
    columns = ("iterations behind at the fifth", "mean, paper", "mean, ours", "median, ours")
    title = "Figures 15 to 17: histograms of convergence"
    notes = (
        "How many more iterations a form takes to reach what the weighted one has after the "
        "fifth; negative where it is ahead. Where it never does, the rest of its course counts.",
    )
    return Block(title, columns, rows, notes, tuple(pictures))


def _behind_claim(traces: Mapping[str, Traces]) -> Claim:
    text = "At the fifth iteration d is about 10, e about 15 iterations behind w (figures 15 to 17)"
    means: dict[tuple[str, str], float] = {}
    for start in STARTS:
        for other in ("d", "e"):
            every = [v for name in STRUCTURES for v in _behind(traces[start], name, other)]
            if every:
                means[start, other] = float(np.mean(every))
    if not means:
        return untested(text, "not run")
    parts = {}
    for (start, other), mean in means.items():
        near = mean > {"d": 5, "e": 7.5}[other]
        verdict = "holds" if near else "holds in part" if mean > 0 else "does not hold"
        parts[f"{other}{STARTS[start]}"] = verdict
    told = ", ".join(f"{other}{STARTS[start]} {mean:.1f}" for (start, other), mean in means.items())
    ahead = "The weighted form is ahead of both, by fewer iterations than in the paper. "
    why = f"{ahead if min(means.values()) > 0 else ''}{OWN_GRADIENT}"
    number, criterion = f"on average behind: {told}", "half as many iterations as in the paper"
    return claim_of_parts(text, parts, number, why, criterion=criterion)


def _rank_block(results: Results, traces: Traces) -> tuple[Block, list[Claim]]:
    rows, pictures, first = [], [], []
    apart: dict[tuple[str, str], tuple[float, float]] = {}
    for name, number in zip(STRUCTURES, (20, 21, 22), strict=True):
        trio = [f"{name}{letter}" for letter in FORMS]
        if not all(t in traces for t in trio):
            continue
        common = sorted(set.intersection(*(set(traces[t]) for t in trio)))
        lengths = [[len(traces[t][d]) for t in trio] for d in common]
        times = results.mean("fit_cpu_seconds")
        kept = [i for i, d in enumerate(times.datasets) if d in common]
        seconds = times.values[kept][:, [times.classifiers.index(t) for t in trio]]
        for what, matrix in (("training time", seconds), ("iterations", np.array(lengths, float))):
            if len(matrix) < 2:
                continue
            ranks, p_value = average_ranks(matrix), friedman(matrix).p_value
            cells = [f"{rank:.2f}" for rank in ranks]
            critical = critical_difference(3, len(matrix))
            difference = f"{critical:.2f}"
            for letter, rank in zip("de", ranks[1:], strict=True):
                apart[f"{name}{letter}", what] = (float(rank - ranks[0]), critical)
            p = f"{p_value:.2g}"
            rows.append((f"{name}, {what}", "w first", *cells, "≤ 0.001", p, "0.39", difference))
            first.append(
                (f"{name}, {what} p {p}", bool(ranks[0] == min(ranks)), p_value <= FRIEDMAN)
            )
            data = {"names": [f"{form} (I)" for form in trio], "scores": matrix}
            title = f"Figure {number}: ranks of {what}"
            caption = "A bar joins forms that do not differ by Nemenyi's test."
            slug = f"figure-{number}-{what.replace(' ', '-')}"
            pictures.append(Picture(slug, title, "ranks", data, caption))
    columns = ("average rank", "paper", "w", "d", "e", "Friedman's p, paper", "ours",
               "critical difference, paper", "ours")  # fmt: skip
    notes = (
        "The paper prints diagrams: w ranks first in all six; that for KDB-1 it is the training "
        "time which does not differ from that of d is read from figure 22, and so are p and the "
        "critical difference, which follows from 72 tables.",
        "All started at the generative tables, and went on to a relative improvement of 2.2e-9 or "
        f"10,000 iterations ({_cut_short(traces)} of all the courses). Iterations are those of the "
        "first fold, times the means of two.",
    )
    title = "Figures 20 to 22: ranks of training time and iterations"
    block = Block(title, columns, rows, notes, tuple(pictures))
    return block, [_rank_claim(first), apart_claim(apart)]


def _cut_short(traces: Traces) -> int:
    return sum(len(course) > MOST for found in traces.values() for course in found.values())


def apart_claim(apart: Mapping[tuple[str, str], tuple[float, float]]) -> Claim:
    """Judge by Nemenyi's test which forms w differs from: ranks above w's, critical difference."""
    text = (
        "w differs from d and e by Nemenyi's test, in time and iterations, but for KDB-1d in time "
        "(figures 20 to 22)"
    )
    parts, told = {}, []
    for (form, what), (above, critical) in apart.items():
        name = f"{form}, {what}"
        if (form, what) == ("KDB-1d", "training time"):
            parts[name] = "holds" if abs(above) < critical else "does not hold"
        else:
            ahead = "holds in part" if above > 0 else "does not hold"
            parts[name] = "holds" if above >= critical else ahead
        told.append(f"{name} {above:+.2f}")
    if not parts:
        return untested(text, "not run")
    critical = max(critical for _, critical in apart.values())
    number = f"ranks above that of w (critical {critical:.2f}): {'; '.join(told)}"
    why = "With fewer tables the critical difference is larger than the paper's 0.39."
    return claim_of_parts(text, parts, number, why)


def _rank_claim(first: Sequence[tuple[str, bool, bool]]) -> Claim:
    text = (
        f"The weighted form ranks first in time and iterations, Friedman's p ≤ {FRIEDMAN} "
        "(figures 20 to 22)"
    )
    if not first:
        return untested(text, "not run")
    parts = {
        what.split(" p ")[0]: "does not hold"
        if not ahead
        else "holds"
        if clear
        else "holds in part"
        for what, ahead, clear in first
    }
    told = "; ".join(f"{what}{'' if ahead else ', not first'}" for what, ahead, _ in first)
    return claim_of_parts(text, parts, told)
