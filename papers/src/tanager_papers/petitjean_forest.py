"""Petitjean et al. (2018), section 6.4: against a forest like Weka's, and both ways to cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tanager.evaluation.datasets import Dataset
from tanager.evaluation.protocol import CrossValidation
from tanager.evaluation.results import Results, Scores
from tanager.evaluation.statistics import WinDrawLoss
from tanager_papers.duels import DECIMALS, record_text
from tanager_papers.findings import Block, Claim
from tanager_papers.petitjean_claims import LARGEST, TABLE_5
from tanager_papers.verdicts import (
    MARGIN,
    Comparison,
    claim_of_parts,
    claim_of_records,
    duel_record,
    judge_same,
    mean_interval,
    told_gap,
)
from tanager_papers.workbench import Workbench, joined

__all__ = ["COMPARED", "forest_blocks"]

WEKA = "Weka's forest"
WEKA_ROOT = "Weka's forest, √n features"
FORESTS = {
    WEKA: "tanager_papers.forest.MultiwayForest()@codes",
    WEKA_ROOT: "tanager_papers.forest.MultiwayForest(drawn='sqrt')@codes",
}
COMPARED = ("TAN-m", "SkDB-m", "TAN-HDP", "SkDB-HDP")
HDP = ("TAN-HDP", "SkDB-HDP")
METRICS = {
    "zero_one_loss": "0-1 loss",
    "rmse_true_class": "RMSE of the true class",
    "rmse_class_averaged": "RMSE over classes",
}
N_LARGEST = 10
WHOLE = " (cut on all rows)"
NOTES = (
    "Weka's forest: 100 trees on bootstrap samples, a branch per value, int(log2 n + 1) features "
    "drawn at a node and more until one gains, no pruning, mean of the leaves' frequencies, as "
    "its source has it; RF: scikit-learn's, 100 trees with two branches on indicators of the "
    "same bins, √n of the indicators drawn.",
    "One round of two folds: the first of table 5's. Win–draw–loss of the first; * where the "
    "two-tailed sign test has p ≤ 0.05.",
)
LARGEST_NOTES = (
    "The paper's sentence names neither the metric nor where numbers were cut; the group's "
    "released program averages RMSE over classes and cuts on all rows, test rows and their "
    "classes included. Tables without numbers are the same under both.",
)


def cut_table(dataset: Dataset) -> Dataset:
    """Return a table whose numbers are cut on all rows, as the group's released program does."""
    import pyarrow as pa

    from tanager.codes import learn_codebook
    from tanager.engines import FitContext

    data = dataset.load()
    codebook, _ = learn_codebook(data.features, data.labels, bins="mdl", context=FitContext())
    names = codebook.domain.names
    codes = codebook.encode(data.features)
    columns: dict[str, Any] = {n: [f"v{c}" for c in codes[i]] for i, n in enumerate(names)}
    labels = [data.classes[code] for code in data.labels]
    return Dataset(f"{dataset.name}{WHOLE}", pa.table({**columns, "class": labels}))


def has_numbers(dataset: Dataset) -> bool:
    """Tell whether any column is a number, so that it matters on which rows it is cut."""
    import pyarrow as pa

    types = dataset.load().features.schema.types
    return any(pa.types.is_floating(t) or pa.types.is_integer(t) for t in types)


def run_forests(bench: Workbench, datasets: Sequence[Dataset]) -> Results:
    """Grow both forests on all tables, in one round of two folds."""
    return bench.run(
        "petitjean-2018-forest", datasets, bench.available(FORESTS), protocol=CrossValidation(1, 2)
    ).results


def run_whole_cuts(
    bench: Workbench, datasets: Sequence[Dataset], uses: Mapping[str, str]
) -> Results:
    """Run the largest tables that have numbers, cut on all rows."""
    largest = sorted(datasets, key=lambda d: -bench.n_rows[d.name])[:N_LARGEST]
    cut = [cut_table(d) for d in largest if has_numbers(d)]
    wanted = {**{n: uses[n] for n in (*HDP, "RF")}, WEKA: FORESTS[WEKA]}
    return bench.run(
        "petitjean-2018-whole", cut, bench.available(wanted), protocol=CrossValidation(1, 2)
    ).results


def forest_blocks(
    bench: Workbench, datasets: Sequence[Dataset], main: Results, uses: Mapping[str, str]
) -> tuple[list[Block], list[Claim]]:
    """Compare with both forests: on all tables, and on the ten largest under both ways to cut."""
    first = Results(main.description, [r for r in main.records if r["round"] == 0])
    results = joined(first, run_forests(bench, datasets))
    scores = {metric: results.mean(metric) for metric in METRICS}
    whole = run_whole_cuts(bench, datasets, uses)
    by_cut = {"training rows": scores, "all rows": _replaced(scores, whole)}
    names = _largest(bench, scores["zero_one_loss"])
    largest = {
        cut: {metric: _only(found, names) for metric, found in part.items()}
        for cut, part in by_cut.items()
    }
    blocks = [_table_5(scores), _largest_block(largest, names)]
    return blocks, [*_claims(scores), _largest_claim(largest), _root_claim(scores)]


def _replaced(scores: Mapping[str, Scores], whole: Results) -> dict[str, Scores]:
    """Return the scores with those of tables that were cut on all rows in their places."""
    out = {}
    for metric, found in scores.items():
        other, values = whole.mean(metric), found.values.copy()
        columns = [found.classifiers.index(n) for n in other.classifiers if found.datasets]
        for name, row in zip(other.datasets, other.values, strict=True):
            if name.removesuffix(WHOLE) in found.datasets:
                values[found.datasets.index(name.removesuffix(WHOLE)), columns] = row
        out[metric] = found._replace(values=values)
    return out


def _largest(bench: Workbench, scores: Scores) -> list[str]:
    return sorted(scores.datasets, key=lambda name: -bench.n_rows[name])[:N_LARGEST]


def _only(scores: Scores, names: Sequence[str]) -> Scores:
    rows = [scores.datasets.index(name) for name in names]
    return scores._replace(datasets=tuple(names), values=scores.values[rows])


def _text(record: WinDrawLoss | None) -> str:
    return "not run" if record is None else record_text(record)


def _table_5(scores: Mapping[str, Scores]) -> Block:
    """Return table 5 with each of the forests."""
    printed = {duel.a: duel.printed for duel in TABLE_5}
    rows = []
    for name in COMPARED:
        for forest in (WEKA, WEKA_ROOT, "RF"):
            cells = [f"{name} : {forest}"]
            for metric in METRICS:
                counts = printed[name].get(metric)
                if metric != "rmse_class_averaged":
                    cells.append("" if counts is None else record_text(counts))
                cells.append(_text(duel_record(scores[metric], name, forest)))
            rows.append(tuple(cells))
    n = len(scores["zero_one_loss"].datasets)
    columns = ("first against second", "0-1 loss, paper", f"ours ({n} tables)", "RMSE, paper",
               "ours, of the true class", "ours, over classes")  # fmt: skip
    return Block("Table 5 with a forest like Weka's", columns, rows, NOTES)


def _largest_block(largest: Mapping[str, Mapping[str, Scores]], names: Sequence[str]) -> Block:
    rows = [
        (f"{name} : {forest}", f"{record_text(LARGEST[name.split('-')[0]])}", title,
         *(_text(duel_record(part[metric], name, forest)) for part in largest.values()))
        for name in HDP
        for forest in (WEKA, "RF")
        for metric, title in METRICS.items()
    ]  # fmt: skip
    columns = ("first against second", "paper", "metric",
               *(f"ours, cut on {cut}" for cut in largest))  # fmt: skip
    title = "Section 6.4: the ten largest tables, by metric, forest and cut"
    notes = (f"{', '.join(names)}.", *LARGEST_NOTES, *_nearest(largest))
    return Block(title, columns, rows, notes)


def _nearest(largest: Mapping[str, Mapping[str, Scores]]) -> list[str]:
    """Say which readings of the sentence come nearest to the paper's counts."""
    notes = []
    for name in HDP:
        printed, far = LARGEST[name.split("-")[0]], dict[str, int]()
        for cut, part in largest.items():
            for metric, title in METRICS.items():
                for forest in (WEKA, "RF"):
                    record = duel_record(part[metric], name, forest)
                    if record is not None:
                        gap = sum(abs(a - b) for a, b in zip(record, printed, strict=True))
                        far[f"{title} against {forest}, cut on {cut} ({record})"] = gap
        best = [text for text, gap in far.items() if gap == min(far.values())]
        if best:
            notes.append(f"Nearest to {name}'s {record_text(printed)}: {'; '.join(best)}.")
    return notes


def _claims(scores: Mapping[str, Scores]) -> list[Claim]:
    """Judge table 5 against the forest that the paper describes."""
    printed = {duel.a: duel.printed for duel in TABLE_5}
    every = [
        (name, title, duel_record(scores[metric], name, WEKA), printed[name].get(metric))
        for metric, title in METRICS.items()
        for name in COMPARED
    ]
    ours = [Comparison(f"{n}, {t}", r, p) for n, t, r, p in every if n in HDP]
    theirs = [
        Comparison(f"{n}, {t}", None if r is None else WinDrawLoss(*tuple(r)[::-1]),
                   None if p is None else p[::-1])
        for n, t, r, p in every
        if n not in HDP
    ]  # fmt: skip
    return [
        claim_of_records("TAN and SkDB with HDP beat a forest like Weka's (table 5)", ours),
        claim_of_records(
            "A forest like Weka's beats TAN and SkDB with m-estimates (table 5)", theirs
        ),
    ]


def _largest_claim(largest: Mapping[str, Mapping[str, Scores]]) -> Claim:
    """Judge the ten largest tables by every metric and cut that the sentence may mean."""
    text = "On the ten largest tables TAN and SkDB with HDP beat a forest like Weka's (section 6.4)"
    records = [
        Comparison(f"{name}, {title}, cut on {cut}", duel_record(part[metric], name, WEKA),
                   LARGEST[name.split("-")[0]])
        for cut, part in largest.items()
        for metric, title in METRICS.items()
        for name in HDP
    ]  # fmt: skip
    return claim_of_records(text, records, "Ten tables decide little.")


def _root_claim(scores: Mapping[str, Scores]) -> Claim:
    """Judge footnote 5: against the other forest the share of wins stays within the margin."""
    text = "Drawing √n features instead gives similar results (footnote 5)"
    parts, told = {}, []
    run = [
        (f"{name}, {title}", scores[metric], name)
        for metric, title in METRICS.items()
        for name in HDP
        if {name, WEKA, WEKA_ROOT} <= set(scores[metric].classifiers)
        and len(scores[metric].datasets) > 1
    ]
    for place, found, name in run:
        pair = [duel_record(found, name, forest) for forest in (WEKA, WEKA_ROOT)]
        # Half a point for a draw; the tables are the same, so that the difference is paired.
        points = [
            np.sign(np.round(found.of(forest) - found.of(name), DECIMALS)) / 2
            for forest in (WEKA, WEKA_ROOT)
        ]
        change = 100 * (points[1] - points[0])
        interval = mean_interval(change, len(run))
        parts[place] = judge_same(interval, 100 * MARGIN)
        gap = told_gap("changes by", float(change.mean()), interval, 0)
        told.append(f"{place} {pair[0]} and {pair[1]}, {gap}")
    criterion = (
        f"the share of wins, with half a win for a draw, changes by less than {100 * MARGIN:.0f} "
        "points"
    )
    return claim_of_parts(text, parts, "; ".join(told), criterion=criterion)
