"""Pernkopf and Bilmes (2008): the synthetic example, missing features."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager.evaluation.experiment import Experiment
from tanager.evaluation.protocol import CrossValidation, LearningCurve
from tanager.evaluation.results import Results
from tanager.numerics import Floats
from tanager_papers.curves import learning_curves, missing_feature_curves
from tanager_papers.findings import Block, Claim, Picture
from tanager_papers.generators import three_bits
from tanager_papers.verdicts import (
    claim_of_parts,
    judge_gap,
    judge_same,
    mean_interval,
    told_gap,
    untested,
)
from tanager_papers.workbench import Workbench

__all__ = ["missing_block", "synthetic_block"]

PAIR = (
    "Where one weak pair tells the classes apart, only a discriminative structure finds it "
    "(figure 1)"
)
SIZES = (20, 50, 100, 200, 500, 1000)
NEAR = 2  # points of rate that make no difference in the example of figure 1
HIDDEN = (0, 2, 4, 6, 8, 10, 12, 14, 16)


def synthetic_block(bench: Workbench, discriminative: str) -> tuple[Block, list[Claim]]:
    """Figures 1 and 2: only one pair of features tells the classes apart."""
    uses = {"SVM": "sklearn.svm.SVC(C=3, gamma=0.25, probability=True)@binned"}
    structures = {
        "NB": "naive",
        "TAN-CMI": "tan(root='first', adjusted=False)",
        "TAN-OMI-CR": "order(order='cmi')",
    }
    for name, structure in structures.items():
        uses[f"{name}-ML"] = f"{structure}/ml"
        uses[f"{name}-CL"] = f"{structure}/{discriminative}"
    rounds = 2 if bench.quick else 100
    dataset = Dataset("three bits", three_bits(20_000))
    curve = LearningCurve(SIZES, rounds=rounds, test_share=0.05)
    results = bench.run(
        "pernkopf-2008-synthetic", [dataset], bench.available(uses), protocol=curve,
        metrics=["zero_one_loss"],
    ).results  # fmt: skip
    title = "Figures 1 and 2: a synthetic example"
    if not results.records:
        return Block(title), [untested(PAIR, "not run")]
    found = learning_curves(results, "three bits", "zero_one_loss")
    rates = {n: 100 * (1 - mean) for n, mean in zip(found.classifiers, found.mean, strict=True)}
    rows = [(name, *(f"{value:.1f}" for value in values)) for name, values in rates.items()]
    data = {"x": found.x, "lines": rates, "x_label": "training rows",
            "y_label": "classification rate %"}  # fmt: skip
    caption = f"Mean of {rounds} shuffles, 1,000 test rows."
    title_1 = "Figure 1: generative and discriminative learning on synthetic rows"
    picture = Picture("figure-1", title_1, "curves", data, caption)
    notes = (
        f"Mean of {rounds} shuffles of 20,000 rows here, of 100 independent draws there; the paper "
        "draws curves and prints no numbers. Intervals take shuffles as independent: two of them "
        "share a twentieth of their rows.",
        "SVM: C = 3 and σ = 1 as there. It reads two indicators per feature, whose squared "
        "distances are twice those of bits, so that γ is 1/(4σ²).",
        "Figure 2, edges learned from 10,000 rows: "
        + "; ".join(f"{n} {_edges(structures[n])}" for n in ("TAN-CMI", "TAN-OMI-CR"))
        + ".",
    )
    columns = ("classification rate % by training rows", *(f"{size:g}" for size in found.x))
    block = Block(title, columns, rows, notes, (picture,))
    last = _last_rates(results)
    return block, [_pair_claim(last), _others_claim(last), _residual_claim()]


def _last_rates(results: Results) -> dict[str, Floats]:
    """Return each classifier's rates in per cent at the largest size, by shuffle."""
    found: dict[str, list[float]] = {}
    sizes = [r["fold"] for r in results.records]
    for r in sorted(results.records, key=lambda r: int(r["round"])):
        if r["fold"] == max(sizes):
            found.setdefault(r["classifier"], []).append(100 * (1 - r["zero_one_loss"]))
    return {name: np.array(rates) for name, rates in found.items()}


def _pair_claim(rates: Mapping[str, Floats]) -> Claim:
    """Judge by the shuffles' rates whether the discriminative tree alone finds the pair."""
    plain = max(("TAN-CMI-ML", "TAN-CMI-CL"), key=lambda name: float(rates[name].mean()))
    gaps = rates[plain] - rates["TAN-OMI-CR-ML"]
    low, high = mean_interval(gaps)
    number = f"{rates['TAN-OMI-CR-ML'].mean():.1f} % against {rates[plain].mean():.1f} %, "
    number += told_gap("difference", -float(gaps.mean()), (-high, -low), 1)
    number += f" (SVM {rates['SVM'].mean():.1f} %)"
    return claim_of_parts(PAIR, {"TAN-OMI-CR-ML": judge_gap((low, high))}, number)


def _residual_claim() -> Claim:
    """Judge whether the explaining-away residual finds the pair that tells the classes apart."""
    text = "Optimising the explaining-away residual also finds the pair X1, X3 (section 3)"
    edges = _edges("tan(score='ear', root='first')")
    found = "X1–X3" in edges
    parts = {"EAR": "holds" if found else "does not hold"}
    return claim_of_parts(text, parts, f"edges by the residual: {edges}")


def _others_claim(rates: Mapping[str, Floats]) -> Claim:
    """Judge what section 3 says of the others, by rates in per cent at the largest size."""
    text = (
        "There parameters do not matter, naive Bayes guesses, an SVM is as good as the "
        "discriminative tree (figure 1)"
    )
    gaps = {
        "CL over ML, TAN-CMI": rates["TAN-CMI-CL"] - rates["TAN-CMI-ML"],
        "CL over ML, TAN-OMI-CR": rates["TAN-OMI-CR-CL"] - rates["TAN-OMI-CR-ML"],
        "naive Bayes over 50 %": rates["NB-ML"] - 50,
        "SVM over TAN-OMI-CR": rates["SVM"] - rates["TAN-OMI-CR-ML"],
    }
    ends = {name: mean_interval(gap, len(gaps)) for name, gap in gaps.items()}
    parts = {name: judge_same(interval, NEAR) for name, interval in ends.items()}
    told = [told_gap(name, float(gaps[name].mean()), ends[name], 1) for name in gaps]
    criterion = f"within {NEAR} points"
    return claim_of_parts(text, parts, f"points: {'; '.join(told)}", criterion=criterion)


def _edges(structure: str) -> str:
    table = three_bits(10_000, seed=1)
    labels = np.array(table["class"].to_pylist(), dtype=np.int64)
    model = Contender.of(f"{structure}/ml").build(0).fit(table.drop_columns(["class"]), labels)
    parents: Mapping[str, tuple[str, ...]] = model.structure_.parents
    edges = [f"{p}–{child}" for child, above in parents.items() for p in above]
    return ", ".join(edges) or "none"


def missing_block(bench: Workbench, uses: Mapping[str, str]) -> tuple[Block, Claim]:
    """Figure 3 on tables at hand: features hidden at random from trained classifiers."""
    text = "Discriminative structure stays ahead where features are missing (figure 3)"
    title = "Figure 3: missing features"
    rows: list[tuple[str, ...]] = []
    pictures, names = [], []
    ahead: dict[tuple[str, str], NDArray[np.bool_]] = {}
    repeats = 3 if bench.quick else 20
    options = {"missing": "marginalize"}
    contenders = [Contender(c.name, c.use, options) for c in bench.available(uses)]
    for wanted in ("Vehicle",) if bench.quick else ("Satellite", "Segment"):
        if bench.facts(wanted) is None:
            bench.leave_out(f"figure 3 on {wanted}: the table isn't available")
            continue
        limit, bench.max_rows = bench.max_rows, None
        dataset = bench.tables([wanted])[0]
        bench.max_rows = limit
        stamps = {c.name: bench.stamp_of(c) for c in contenders}
        experiment = Experiment(
            [dataset], contenders, CrossValidation(1, 5), bins="mdl", stamps=stamps
        )
        rates = _missing_rates(bench, experiment, repeats)
        if rates is None:
            bench.leave_out(f"figure 3 on {wanted}: no time")
            continue
        rows += [
            (f"{dataset.name}, {name}", *(f"{value:.1f}" for value in values))
            for name, values in rates.items()
        ]
        data = {"x": list(HIDDEN), "lines": rates, "x_label": "missing features", "log": False,
                "y_label": "classification rate %"}  # fmt: skip
        heading = f"Figure 3: {dataset.name}"
        pictures.append(Picture(f"figure-3-{dataset.name}", heading, "curves", data, "Exact sums."))
        for name in ("TAN-OMI-CR", "TAN-OMISP-CR", "TAN-CR"):
            ahead[dataset.name, name] = rates[f"{name}-ML"] > rates["TAN-CMI-ML"]
        names.append(dataset.name)
    if not rows:
        return Block(title), untested(text, "not run")
    notes = (
        f"The paper draws curves for TIMIT and prints no numbers; ours are on {', '.join(names)}, "
        f"the same hidden features for every classifier, {repeats} draws each (100 there).",
    )
    columns = ("classification rate % by missing features", *map(str, HIDDEN))
    return Block(title, columns, rows, notes, tuple(pictures)), _missing_claim(text, ahead)


def _missing_claim(text: str, ahead: Mapping[tuple[str, str], NDArray[np.bool_]]) -> Claim:
    """Judge by table and structure at how many numbers of missing features it is ahead."""
    parts = {
        f"{table}, {name}": "holds" if won.all()
        else "holds in part" if won.mean() > 0.5
        else "does not hold"
        for (table, name), won in ahead.items()
    }  # fmt: skip
    number = "ahead of TAN-CMI at " + ", ".join(
        f"{won.sum()} of {len(won)} ({table}, {name})" for (table, name), won in ahead.items()
    )
    behind = [f"{table}, {name}" for (table, name), won in ahead.items() if not won[0]]
    why = f"Behind with no feature missing, too: {'; '.join(behind)}." if behind else ""
    number += " numbers of missing features"
    criterion = "the higher mean rate at all of them; in part, at more than half"
    return claim_of_parts(text, parts, number, why, criterion=criterion)


def _missing_rates(
    bench: Workbench, experiment: Experiment, repeats: int
) -> dict[str, NDArray[np.float64]] | None:
    """Return rates in per cent over `HIDDEN`, kept or computed now; None for want of time."""
    key = " ".join([*(cell.key for cell in experiment.cells()), str(repeats)])
    key = hashlib.sha256(key.encode()).hexdigest()[:20]

    def compute() -> dict[str, list[float]]:
        name = experiment.datasets[0].name
        curves = missing_feature_curves(experiment, name, HIDDEN, repeats=repeats)
        lines = zip(curves.classifiers, curves.mean, strict=True)
        return {n: [float(100 * (1 - loss)) for loss in mean] for n, mean in lines}

    found = bench.kept("pernkopf-2008-missing", key, compute)
    return None if found is None else {name: np.array(line) for name, line in found.items()}
