"""The three forms of Zaidi et al. (2017): accuracy and training time, figures 4 to 12."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tanager.evaluation.datasets import Dataset
from tanager.evaluation.protocol import CrossValidation
from tanager.evaluation.results import Results, Scores
from tanager.numerics import Floats
from tanager_papers.findings import Block, Claim, Picture
from tanager_papers.table_lists import BIG
from tanager_papers.verdicts import (
    Comparison,
    claim_of_parts,
    claim_of_records,
    duel_record,
    judge,
    judge_gap,
    judge_same,
    mean_interval,
    untested,
)
from tanager_papers.workbench import Workbench

__all__ = [
    "FORMS",
    "LOSSES",
    "STARTS",
    "STRUCTURES",
    "big_names",
    "form_blocks",
    "form_claims",
    "form_runs",
    "part_of",
    "trained",
]

STRUCTURES = {
    "NB": "naive",
    "TAN": "tan(root='first', adjusted=False)",
    "KDB-1": "kdb(k=1, adjusted=False)",
}
FORMS = {"w": "weighted", "d": "direct", "e": "extended"}
# The paper's mark of where a form starts: (I) is the generative tables, none is zero.
STARTS = {"generative": " (I)", "zero": ""}
LOSSES = {"zero_one_loss": "0-1 loss", "rmse_class_averaged": "RMSE"}
TITLES = {**LOSSES, "fit_cpu_seconds": "training CPU seconds"}
FIGURES = {"NB": (4, 5, 6), "TAN": (7, 8, 9), "KDB-1": (10, 11, 12)}
FASTER = (
    "The weighted form needs fewer iterations (figures 20 to 22); but structure and counts are "
    "part of every fit here, also of the direct and the extended form from zero, which would not "
    "need the counts."
)
MUCH = 0.95  # a loss that is much lower, as a share of the other
CLOSE = 0.05  # the relative difference of losses that are the same
SAME = (
    "On most tables all forms end at the same objective. Where the "
    "training rows can be told apart without error it comes down to zero: there is no optimum, "
    "and each form stops elsewhere on the way."
)
NO_LOSS = 1e-6  # below, the logarithm of one table's loss would outweigh those of all others

Parts = Mapping[str, Mapping[str, Scores]]  # by start, then by metric


def trained(name: str, letter: str, options: str = "", init: str = "generative") -> str:
    """Return the text of a trained classifier under the paper's rule for unseen cells.

    They keep the starting value: the generative tables' answer, or zero.
    """
    unseen = "generative" if init == "generative" else "nothing"
    more = f", {options}" if options else ""
    return (
        f"{STRUCTURES[name]}/discriminative(form='{FORMS[letter]}', init='{init}', "
        f"unseen='{unseen}'{more})"
    )


def big_names(bench: Workbench) -> frozenset[str]:
    """Return our names of the tables that the paper calls big."""
    facts = [bench.facts(name) for name in BIG]
    return frozenset(found.stem for found in facts if found is not None)


def part_of(scores: Scores, names: frozenset[str]) -> Scores:
    """Return the scores on some of the tables."""
    rows = [i for i, name in enumerate(scores.datasets) if name in names]
    kept = tuple(scores.datasets[i] for i in rows)
    return Scores(scores.metric, kept, scores.classifiers, scores.values[rows])


def form_runs(bench: Workbench, datasets: Sequence[Dataset]) -> dict[str, Results]:
    """Train all forms on all structures, from the generative tables and from zero."""
    runs = {}
    for start in STARTS:
        uses = {n: f"{structure}/m-estimate(m=1)" for n, structure in STRUCTURES.items()}
        uses |= {f"{n}{f}": trained(n, f, init=start) for n in STRUCTURES for f in FORMS}
        name = "zaidi-2017-forms" if start == "generative" else "zaidi-2017-forms-zero"
        protocol = CrossValidation(1, 2)
        contenders = bench.available(uses)
        runs[start] = bench.run(
            name, datasets, contenders, protocol=protocol, keep=["info"]
        ).results
    return runs


def _scores(runs: Mapping[str, Results]) -> dict[str, dict[str, Scores]]:
    return {start: {m: run.mean(m) for m in TITLES} for start, run in runs.items()}


def lossless(every: Parts) -> dict[str, list[str]]:
    """Return by loss the tables on which some classifier has next to none."""
    return {
        metric: sorted(
            {
                dataset
                for part in every.values()
                for dataset, row in zip(part[metric].datasets, part[metric].values, strict=True)
                if row.min() < NO_LOSS
            }
        )
        for metric in LOSSES
    }


def comparable(every: Parts) -> dict[str, dict[str, Scores]]:
    """Return the scores whose geometric means compare: all classifiers on the same tables."""
    out = lossless(every)
    return {
        start: {
            metric: part_of(scores, frozenset(scores.datasets) - frozenset(out.get(metric, ())))
            for metric, scores in part.items()
        }
        for start, part in every.items()
    }


def form_blocks(bench: Workbench, runs: Mapping[str, Results]) -> list[Block]:
    """Figures 4 to 12: scatters, geometric means and training times of the three forms."""
    every = _scores(runs)
    if not every["generative"]["zero_one_loss"].datasets:
        return [Block("Figures 4 to 12: the three forms", notes=("Not run.",))]
    big, means_of = _only_big(bench, every), comparable(every)
    means_of_big = _only_big(bench, means_of)
    blocks = []
    for name, (scatter, means, times) in FIGURES.items():
        pictures = [
            *_scatters(name, scatter, every["generative"], "all tables", ""),
            *_scatters(name, scatter, big["generative"], "big tables", "big-"),
            _means_picture(name, means, means_of, means_of_big),
            *_time_pictures(name, times, every, big),
        ]
        rows = [
            (f"{name}{form}{mark}", *_ratios(name, form, means_of[start]),
             *_ratios(name, form, means_of_big[start]))
            for start, mark in STARTS.items()
            for form in FORMS
        ]  # fmt: skip
        columns = (
            f"geometric mean, {name} = 1",
            *("0-1 loss, all", "RMSE, all", "CPU time, all"),
            *("0-1 loss, big", "RMSE, big", "CPU time, big"),
        )
        title = f"Figures {scatter} to {times}: {name} structure"
        blocks.append(Block(title, columns, rows, _notes(every, big), tuple(pictures)))
    return blocks


def _notes(every: Parts, big: Parts) -> tuple[str, ...]:
    counts = [len(part["zero_one_loss"].datasets) for part in every.values()]
    large = [len(part["zero_one_loss"].datasets) for part in big.values()]
    return (
        f"(I): started at the generative tables, {counts[0]} tables, {large[0]} of them big; "
        f"without (I): started at zero, {counts[1]} tables, {large[1]} of them big. One round of "
        "two folds. Big: more than 10,000 rows.",
        "The paper draws the means and prints no table of them.",
        *_left_out(every),
    )


def _left_out(every: Parts) -> tuple[str, ...]:
    told = [
        f"{', '.join(names)} ({LOSSES[metric]})"
        for metric, names in lossless(every).items()
        if names
    ]
    if not told:
        return ()
    return (
        "Not in the geometric means, since some classifier has next to no loss there, whose "
        f"logarithm would outweigh all others: {'; '.join(told)}.",
    )


def _only_big(bench: Workbench, every: Parts) -> dict[str, dict[str, Scores]]:
    names = big_names(bench)
    return {
        start: {metric: part_of(scores, names) for metric, scores in part.items()}
        for start, part in every.items()
    }


def _scatters(
    name: str, number: int, scores: Mapping[str, Scores], which: str, slug: str
) -> list[Picture]:
    if not scores["zero_one_loss"].datasets:
        return []
    return [
        Picture(
            f"figure-{number}-{slug}{metric.replace('_', '-')}",
            f"Figure {number}: {TITLES[metric]} of the three forms, {name}, {which}",
            "scatters",
            {
                "x": values.of(f"{name}w"),
                "others": {f"{name}{f} (I)": values.of(f"{name}{f}") for f in ("d", "e")},
                "name": f"{name}w (I)",
                "loss": TITLES[metric],
                "log": metric == "fit_cpu_seconds",
            },
            f"One point per table, started at the generative tables; above the diagonal {name}w "
            "wins.",
        )
        for metric, values in scores.items()
    ]


def _ratio(scores: Scores, first: str, second: str) -> float:
    """Return the geometric mean of one classifier's losses over another's."""
    if not scores.datasets:
        return float("nan")
    return float(np.exp(_log_ratios(scores, first, second).mean()))


def _log_ratios(scores: Scores, first: str, second: str) -> Floats:
    """Return the logarithms of one classifier's losses over another's, by table."""
    return np.log(scores.of(first) / scores.of(second))


def _ratios(name: str, form: str, scores: Mapping[str, Scores]) -> tuple[str, ...]:
    if not scores["zero_one_loss"].datasets:
        return ("not run", "", "")
    ratios = [_ratio(values, f"{name}{form}", name) for values in scores.values()]
    return (f"{ratios[0]:.3f}", f"{ratios[1]:.3f}", f"{ratios[2]:,.1f}")


def _means_picture(name: str, number: int, every: Parts, big: Parts) -> Picture:
    groups = [f"{name}{form}{mark}" for mark in STARTS.values() for form in FORMS]
    series = {
        f"{title}, {which}": [
            _ratio(parts[start][metric], f"{name}{form}", name)
            for start in STARTS
            for form in FORMS
        ]
        for which, parts in (("all", every), ("big", big))
        for metric, title in LOSSES.items()
    }
    data = {"groups": groups, "series": series, "y": f"geometric mean, {name} = 1", "line": 1.0}
    title = f"Figure {number}: losses of the three forms over those of {name}"
    return Picture(f"figure-{number}", title, "bars", data, "Below one, training pays off.")


def _time_pictures(name: str, number: int, every: Parts, big: Parts) -> list[Picture]:
    groups = [f"{name}{form}{mark}" for mark in STARTS.values() for form in FORMS]
    pictures = []
    for letter, other in (("a", name), ("b", f"{name}w")):
        series = {
            which: [
                _ratio(parts[start]["fit_cpu_seconds"], f"{name}{form}", other)
                for start in STARTS
                for form in FORMS
            ]
            for which, parts in (("all tables", every), ("big tables", big))
        }
        data = {"groups": groups, "series": series, "y": f"CPU time, {other} = 1", "line": 1.0}
        title = f"Figure {number}{letter}: training time of the three forms over that of {other}"
        caption = "Geometric means; the whole fit, structure included."
        pictures.append(Picture(f"figure-{number}{letter}", title, "bars", data, caption))
    return pictures


def form_claims(bench: Workbench, runs: Mapping[str, Results]) -> list[Claim]:
    """Judge what section 7 says of the three forms."""
    every = _scores(runs)
    big, means_of = _only_big(bench, every), comparable(every)
    means_of_big = _only_big(bench, means_of)
    faster = [
        Comparison(f"{n}w{mark} : {n}{f}{mark}",
                   duel_record(every[start]["fit_cpu_seconds"], f"{n}w", f"{n}{f}"))
        for start, mark in STARTS.items()
        for n in STRUCTURES
        for f in ("d", "e")
    ]  # fmt: skip
    return [
        claim_of_records("The weighted form trains faster (figures 6, 9, 12)", faster, FASTER),
        slower_claim(every, big),
        _time_claim(every, big),
        same_claim(means_of, means_of_big),
        gain_claim(means_of, means_of_big),
    ]


def slower_claim(every: Parts, big: Parts) -> Claim:
    """Judge how much longer training takes than counting."""
    text = (
        "Training takes longer than counting: by orders of magnitude with NB and TAN, "
        "significantly with KDB-1 (figures 6, 9, 12)"
    )
    parts: dict[str, str] = {}
    told: list[str] = []
    for start, part in every.items():
        times = part["fit_cpu_seconds"]
        for n in STRUCTURES:
            ratio = _ratio(times, f"{n}w", n)
            if not np.isfinite(ratio):
                continue
            name = f"{n}w{STARTS[start]}"
            if n == "KDB-1":
                record = duel_record(times, n, f"{n}w")
                n_parts = len(every) * len(STRUCTURES)
                parts[name] = (
                    "does not hold" if record is None else judge(record, n_comparisons=n_parts)
                )
            else:
                parts[name] = _by_size(ratio, 100)
            on_big = _ratio(big[start]["fit_cpu_seconds"], f"{n}w", n)
            more = f" (big tables {on_big:.0f})" if np.isfinite(on_big) else ""
            told.append(f"{name} {ratio:.0f} times{more}")
    why = (
        "Here both kinds of fit read and code the table, which is most of the time on small "
        "tables, and training stops at 2.2e-9."
    )
    criterion = "a factor of 100 with NB and TAN"
    return claim_of_parts(text, parts, ", ".join(told), why, criterion=criterion)


def _by_size(found: float, least: float) -> str:
    """Judge a ratio that the paper says is large: as large, in its direction, or neither."""
    return "holds" if found >= least else "holds in part" if found > 1 else "does not hold"


def _time_claim(every: Parts, big: Parts) -> Claim:
    text = (
        "Direct takes about twice the weighted form's time, extended ten times or more "
        "(figures 6, 9)"
    )
    slower = {f: _mean_time(every, f) for f in ("d", "e")}
    if not all(np.isfinite(ratio) for ratio in slower.values()):
        return untested(text, "not run")
    parts = {FORMS[f]: _by_size(slower[f], least) for f, least in (("d", 1.5), ("e", 5.0))}
    number = f"NB and TAN: d {slower['d']:.2f}, e {slower['e']:.2f} times w"
    on_big = {f: _mean_time(big, f) for f in ("d", "e")}
    if all(np.isfinite(ratio) for ratio in on_big.values()):
        number += f"; on big tables d {on_big['d']:.2f}, e {on_big['e']:.2f}"
    why = (
        "Part of it is the gradient: that of the extended form in the authors' program isn't its "
        "own and takes more passes per iteration (the last table)."
    )
    criterion = "1.5 times for direct, five times for extended"
    return claim_of_parts(text, parts, number, why, criterion=criterion)


def _mean_time(parts: Parts, form: str) -> float:
    """Return a form's time over that of the weighted one: the geometric mean of NB and TAN."""
    ratios = [
        _ratio(part["fit_cpu_seconds"], f"{n}{form}", f"{n}w")
        for part in parts.values()
        for n in ("NB", "TAN")
    ]
    found = np.array(ratios)[np.isfinite(ratios)]
    return float(np.exp(np.log(found).mean())) if len(found) else float("nan")


def _differences(every: Parts, big: Parts, forms: str, other: str) -> dict[str, Floats]:
    """Return log ratios by table: of the forms over another letter's losses, or over none's."""
    return {
        f"{n}{f}{STARTS[start]}, {title}, {which}": _log_ratios(
            part[metric], f"{n}{f}", f"{n}{other}"
        )
        for which, parts in (("all", every), ("big", big))
        for start, part in parts.items()
        for metric, title in LOSSES.items()
        if len(part[metric].datasets) > 1
        for n in STRUCTURES
        for f in forms
    }


def same_claim(every: Parts, big: Parts) -> Claim:
    """Judge whether the three forms end at the same losses."""
    text = "The three forms have the same accuracy, on big tables above all (figures 4, 7, 10)"
    found = _differences(every, big, "de", "w")
    if not found:
        return untested(text, "not run")
    margin = float(np.log1p(CLOSE))
    judged = {
        name: judge_same(mean_interval(logs, len(found)), margin) for name, logs in found.items()
    }
    told = []
    for which in (f"{title}, {where}" for title in LOSSES.values() for where in ("all", "big")):
        gaps = [abs(np.expm1(logs.mean())) for n, logs in found.items() if n.endswith(which)]
        if gaps:
            told.append(f"{which} {100 * max(gaps):.1f} %")
    number = f"geometric means differ from the weighted form's at most by: {'; '.join(told)}"
    criterion = f"intervals within {100 * CLOSE:.0f} %"
    return claim_of_parts(text, judged, number, SAME, criterion=criterion)


def gain_claim(every: Parts, big: Parts) -> Claim:
    """Judge how much lower the losses of trained parameters are."""
    text = (
        "All forms have lower losses than generative parameters, much lower with NB and TAN, "
        "above all on big tables (figures 5, 8, 11)"
    )
    found = _differences(every, big, "".join(FORMS), "")
    if not found:
        return untested(text, "not run")
    parts = {}
    for name, logs in found.items():
        interval = mean_interval(logs, len(found))
        much = 1.0 if name.startswith("KDB-1") else MUCH
        parts[name] = judge_gap(interval)
        if parts[name] == "holds" and logs.mean() > np.log(much):
            parts[name] = "holds in part"
    told = []
    for which in ("all", "big"):
        ratios = [float(np.exp(logs.mean())) for n, logs in found.items() if n.endswith(which)]
        if ratios:
            lower = sum(ratio < 1 for ratio in ratios)
            told.append(
                f"{which} {min(ratios):.3f} to {max(ratios):.3f}, below 1 in {lower} of "
                f"{len(ratios)}"
            )
    number = f"geometric means, generative = 1: {'; '.join(told)}"
    why = "Many tables are small, and training pays off in errors more than in probabilities there."
    criterion = f"intervals below 1, and with NB and TAN means below {MUCH}"
    return claim_of_parts(text, parts, number, why, criterion=criterion)
