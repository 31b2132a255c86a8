"""The sampler of Petitjean et al. (2018): figures 4 and 5, sweeps and tying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager.evaluation.protocol import CrossValidation
from tanager.evaluation.results import Scores
from tanager_papers.findings import Block, Claim, Picture
from tanager_papers.petitjean_sampler import SAMPLER
from tanager_papers.verdicts import (
    Comparison,
    claim_of_parts,
    claim_of_records,
    duel_record,
    untested,
)
from tanager_papers.workbench import Workbench

__all__ = ["sweep_block"]

TYINGS = ("level", "parent", "single")
OURS = "level, our start"
# How the chains of each line are tied and started.
LINES = {
    **{tying: f"tying='{tying}', start='prior'" for tying in TYINGS},
    OURS: "tying='level'",
}
COUNTS = {False: (500, 5000, 50_000), True: (50, 200, 1000)}
# Rows and features of the largest table.
ROWS = {False: 1000, True: 250}
FEATURES = 25

TIED_REASON = (
    "The tables here are small, and a single concentration has most to learn from; the paper's "
    "go up to 67,557 rows."
)

LINEAR = "Training time grows linearly with the number of sweeps (section 6.6)"
SECONDS = "seconds"

Counts = tuple[int, ...]


def sweep_block(
    bench: Workbench, structures: Mapping[str, str], datasets: Sequence[Dataset]
) -> tuple[Block, list[Claim]]:
    """Figures 4 and 5: fewer sweeps against most sweeps, other tyings against that by level."""
    counts = COUNTS[bench.quick]
    small = [d for d in datasets if bench.n_rows[d.name] <= ROWS[bench.quick]]
    small = [d for d in small if bench.n_features[d.name] <= FEATURES]
    title = "Figures 4 and 5: sweeps and tying of the sampler"
    more = "More sweeps are significantly better, up to 50,000 (figure 4)"
    level = "One concentration per level beats a single one and one per parent (figure 5)"
    scores = _run(bench, structures, small, counts) if small else {}
    if not scores or not scores["RMSE"].datasets:
        return Block(title), [untested(text, "not run") for text in (more, level, LINEAR)]
    rmse = scores["RMSE"]
    columns = ("RMSE, win–draw–loss", *(f"{sweeps:,} sweeps" for sweeps in counts))
    rows = [*_sweep_rows(rmse, structures, counts), *_tying_rows(rmse, structures, counts)]
    pictures = [
        _margins(found, structures, counts, figure, label)
        for label, found in scores.items()
        if label != SECONDS
        for figure in (4, 5)
    ]
    notes = (
        f"Sweeps up to {counts[-1]:,} as in the paper, one round of two folds; number of tables "
        f"{len(rmse.datasets)}, of up to {ROWS[bench.quick]:,} rows and {FEATURES} features: "
        f"{', '.join(rmse.datasets)}.",
        "One chain of which the first tenth is left out, concentrations drawn after every fifth "
        "sweep and started at 2, the mean of their prior, as in the authors' program (its text "
        "has them drawn after every sweep). Our start: "
        "at the concentrations of the fixed point, as our sampler does unless it is told "
        "otherwise.",
        "The paper draws curves and prints one number: with TAN and a single concentration 5,000 "
        "sweeps win 13 times and lose 42 times against 50,000.",
    )
    block = Block(title, columns, rows, notes, tuple(pictures))
    claims = _claims(rmse, structures, counts, (more, level))
    return block, [*claims, _linear_claim(scores[SECONDS], structures, counts)]


def _run(
    bench: Workbench, structures: Mapping[str, str], datasets: Sequence[Dataset], counts: Counts
) -> dict[str, Scores]:
    uses, like = {}, {}
    for name, structure in structures.items():
        for line, options in LINES.items():
            for sweeps in counts:
                pace = (
                    f"max_sweeps={sweeps}, burn_in={sweeps // 10}, tolerance=1e-12, n_chains=1, "
                    "concentration_interval=5, thinning=5"
                )
                learner = SAMPLER.replace("(", f"({options}, {pace}, ")
                label = _run_name(name, line, sweeps)
                uses[label] = f"{structure}/{learner}"
                # The fewest sweeps tell whether the sampler has changed; the most take minutes.
                fewest = _run_name(name, line, counts[0])
                like[label] = Contender(fewest, uses[fewest])
    results = bench.run(
        "petitjean-2018-sweeps", datasets, bench.available(uses), protocol=CrossValidation(1, 2),
        like=like,
    ).results  # fmt: skip
    return {
        "RMSE": results.mean("rmse_true_class"),
        "log-loss": results.mean("log_loss"),
        SECONDS: results.mean("fit_cpu_seconds"),
    }


def _claims(
    rmse: Scores, structures: Mapping[str, str], counts: Counts, texts: tuple[str, str]
) -> list[Claim]:
    most = counts[-1]
    records = [
        Comparison(f"{n}, {line}, {most:,} against {few:,}",
                   duel_record(rmse, _run_name(n, line, most), _run_name(n, line, few)),
                   (42, 0, 13) if (n, line, few) == ("TAN", "single", 5000) else None)
        for n in structures
        for line in TYINGS
        for few in counts[:-1]
    ]  # fmt: skip
    tied = [
        Comparison(
            f"{n}, {t}", duel_record(rmse, _run_name(n, "level", most), _run_name(n, t, most))
        )
        for n in structures
        for t in TYINGS[1:]
    ]
    return [
        claim_of_records(texts[0], records, _sweeps_reason(rmse, structures, counts)),
        claim_of_records(texts[1], tied, TIED_REASON),
    ]


def _linear_claim(seconds: Scores, structures: Mapping[str, str], counts: Counts) -> Claim:
    """Judge section 6.6: how much longer the most sweeps take than a part of them."""
    few, most = counts[-2:]
    ratios = {
        f"{n}, {line}": float(
            np.median(
                seconds.of(_run_name(n, line, most))
                / np.maximum(seconds.of(_run_name(n, line, few)), 1e-6)
            )
        )
        for n in structures
        for line in TYINGS
    }
    times = most / few
    parts = {
        name: "holds" if 0.7 <= ratio / times <= 1.4 else "does not hold"
        for name, ratio in ratios.items()
    }
    told = ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
    number = f"{most:,} sweeps take as many times the CPU time of {few:,}, medians: {told}"
    why = "The times include counts and structure, which don't depend on the number of sweeps."
    criterion = f"{0.7 * times:g} to {1.4 * times:g} times"
    return claim_of_parts(LINEAR, parts, number, why, criterion=criterion)


def _sweeps_reason(rmse: Scores, structures: Mapping[str, str], counts: Counts) -> str:
    """Tell how much there is to win by more sweeps."""
    gains = []
    for line in ("level", OURS):
        for few in counts[:-1]:
            found = [
                100 * (rmse.of(_run_name(n, line, few)) / rmse.of(_run_name(n, line, counts[-1]))
                       - 1)
                for n in structures
            ]  # fmt: skip
            mean = sum(float(part.mean()) for part in found) / len(found)
            gains.append(
                f"{few:,} sweeps {mean:+.2f} % ({'theirs' if line == 'level' else 'ours'})"
            )
    return (
        f"There is little to gain: compared with {counts[-1]:,} sweeps RMSE changes on average by "
        f"{', '.join(gains)}, by where the chains start."
    )


def _run_name(structure: str, line: str, sweeps: int) -> str:
    return f"{structure}, {line}, {sweeps}"


def _sweep_rows(
    scores: Scores, structures: Mapping[str, str], counts: Counts
) -> list[tuple[str, ...]]:
    rows = []
    for name in structures:
        for line in LINES:
            most = _run_name(name, line, counts[-1])
            records = [duel_record(scores, _run_name(name, line, c), most) for c in counts[:-1]]
            rows.append((f"{name}, {line}: against {counts[-1]:,} sweeps", *map(str, records), ""))
    return rows


def _tying_rows(
    scores: Scores, structures: Mapping[str, str], counts: Counts
) -> list[tuple[str, ...]]:
    rows = []
    for name in structures:
        for tying in TYINGS[1:]:
            records = [
                duel_record(scores, _run_name(name, tying, c), _run_name(name, "level", c))
                for c in counts
            ]
            rows.append((f"{name}, {tying}: against level", *map(str, records)))
    return rows


def _margins(
    scores: Scores, structures: Mapping[str, str], counts: Counts, figure: int, label: str
) -> Picture:
    lines: dict[str, list[int]] = {}
    shown = counts[:-1] if figure == 4 else counts
    for name in structures:
        for line in TYINGS if figure == 4 else TYINGS[1:]:
            values = []
            for sweeps in shown:
                other = (line, counts[-1]) if figure == 4 else ("level", sweeps)
                record = duel_record(scores, _run_name(name, line, sweeps), _run_name(name, *other))
                values.append(0 if record is None else record.wins - record.losses)
            lines[f"{name}, {line}"] = values
    against = f"{counts[-1]:,} sweeps" if figure == 4 else "tying by level"
    data = {
        "x": list(shown),
        "margins": lines,
        "x_label": "sweeps",
        "y_label": f"{label}: wins less losses",
        "log": True,
    }
    slug = "rmse" if label == "RMSE" else "log-loss"
    title = f"Figure {figure}: {label} against {against}"
    caption = f"Below zero {against} wins more often."
    return Picture(f"figure-{figure}-{slug}", title, "margins", data, caption)
