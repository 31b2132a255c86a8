"""Zaidi et al. (2017), section 5: regularisation, squared error, and other optimisers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tanager.evaluation.datasets import Dataset
from tanager.evaluation.protocol import CrossValidation
from tanager.evaluation.results import Results
from tanager.evaluation.statistics import WinDrawLoss
from tanager_papers.duels import Duel, duel_block, record_text
from tanager_papers.findings import Block, Claim
from tanager_papers.table_lists import ZAIDI
from tanager_papers.verdicts import Comparison, claim_of_records, duel_record
from tanager_papers.workbench import Workbench
from tanager_papers.zaidi_convergence import wins_at
from tanager_papers.zaidi_curves import traces_of
from tanager_papers.zaidi_forms import LOSSES, STRUCTURES, trained

__all__ = ["section_5_blocks"]

ROWS = {False: 2_500, True: 160}  # of the largest table
# First-order methods that section 5.5.1 names, by our names for them.
OPTIMISERS = {
    "gradient": "gradient descent",
    "cg": "conjugate gradients",
    "lbfgs": "L-BFGS",
    "sgd": "stochastic gradient descent",
}
AT = (5, 10)  # iterations after which objectives are compared
ITERATIONS = 10


def section_5_blocks(bench: Workbench) -> tuple[list[Block], list[Claim]]:
    """Run what section 5 says of the weighted form beside the conditional likelihood."""
    facts = {name: bench.facts(name) for name in ZAIDI}
    limit = min(ROWS[bench.quick], bench.max_rows or ROWS[bench.quick])
    datasets = bench.tables([n for n, f in facts.items() if f is not None and f.rows <= limit])
    parts = [make(bench, datasets) for make in (_regularised, _squared, _optimisers)]
    note = f"Tables of up to {limit:,} rows, one round of two folds."
    blocks = [
        Block(block.title, block.columns, block.rows, (*block.notes, note)) for block, _ in parts
    ]
    return blocks, [claim for _, claim in parts]


def _run(
    bench: Workbench,
    name: str,
    datasets: Sequence[Dataset],
    uses: Mapping[str, str],
    keep: Sequence[str] = (),
) -> Results:
    return bench.run(
        f"zaidi-2017-{name}", datasets, bench.available(uses), protocol=CrossValidation(1, 2),
        keep=keep,
    ).results  # fmt: skip


def _regularised(bench: Workbench, datasets: Sequence[Dataset]) -> tuple[Block, Claim]:
    """Section 5.2: a prior centred at the generative tables, of a strength that folds choose."""
    uses = {}
    for n, structure in STRUCTURES.items():
        uses[n] = f"{structure}/m-estimate(m=1)"
        uses[f"{n}w"] = trained(n, "w")
        uses[f"{n}w, λ"] = trained(n, "w", "l2='cv'")
    results = _run(bench, "regularised", datasets, uses)
    scores = {metric: results.mean(metric) for metric in LOSSES}
    pairs = [(f"{n}w, λ", other) for n in STRUCTURES for other in (n, f"{n}w")]
    block = duel_block(
        "Section 5.2: weights drawn towards one", [Duel(*pair, {}) for pair in pairs], scores,
        LOSSES,
        ("λ: the precision of a Gaussian prior around w = 1, chosen by the conditional likelihood "
         "of five held-out folds of the training rows. The paper conjectures, and runs nothing.",),
    )  # fmt: skip
    text = (
        "With λ tuned by cross-validation weights beat generative and discriminative parameters "
        "(conjecture of section 5.2)"
    )
    records = [
        Comparison(f"{a} : {b}, {title}", duel_record(scores[metric], a, b))
        for a, b in pairs
        for metric, title in LOSSES.items()
    ]
    return block, claim_of_records(text, records)


def _squared(bench: Workbench, datasets: Sequence[Dataset]) -> tuple[Block, Claim]:
    """Section 5.3: the two forms under the squared error, which is not convex."""
    uses = {
        f"{n}{form}": trained(n, form, "objective='mse'") for n in STRUCTURES for form in ("w", "d")
    }
    uses |= {f"{n}w, likelihood": trained(n, "w") for n in STRUCTURES}
    uses |= {n: f"{structure}/m-estimate(m=1)" for n, structure in STRUCTURES.items()}
    results = _run(bench, "squared", datasets, uses, ["info"])
    traces = traces_of(results)
    rows, records = [], []
    rmse = results.mean("rmse_class_averaged")
    for n in STRUCTURES:
        found = [wins_at(traces, f"{n}w", f"{n}d", at) for at in AT]
        duels = [duel_record(rmse, f"{n}w", other) for other in (f"{n}w, likelihood", n)]
        rows.append((n, *(_text(record) for record in (*found, *duels))))
        records += [
            Comparison(f"{n} after {at}", record) for at, record in zip(AT, found, strict=True)
        ]
    columns = (
        "squared error as objective",
        *(f"objective after {at}, w : d" for at in AT),
        "RMSE, w : w by likelihood",
        "RMSE, w : generative",
    )
    notes = (
        "Win–draw–loss of the first; * where the two-tailed sign test has p ≤ 0.05. Started at "
        "the generative tables; objectives within 0.1 % are a draw.",
    )
    text = "Under the squared error, too, the weighted form leads the direct one (section 5.3)"
    why = "The paper refers to another one for it, and prints no numbers."
    block = Block("Section 5.3: squared error", columns, rows, notes)
    return block, claim_of_records(text, records, why)


def _optimisers(bench: Workbench, datasets: Sequence[Dataset]) -> tuple[Block, Claim]:
    """Section 5.5.1: the same first steps by every first-order method."""
    uses = {
        f"{form}, {name}": trained(
            "NB", form, f"optimiser='{name}', max_iter={ITERATIONS}, tol=0.0", "zero"
        )
        for name in OPTIMISERS
        for form in ("w", "d")
    }
    traces = traces_of(_run(bench, "optimisers", datasets, uses, ["info"]))
    rows, records = [], []
    for name, title in OPTIMISERS.items():
        found = [wins_at(traces, f"w, {name}", f"d, {name}", at) for at in AT]
        rows.append((title, *map(_text, found)))
        records.append(Comparison(title, found[-1]))
    notes = (
        "Win–draw–loss of w by the objective; * where the two-tailed sign test has p ≤ 0.05. Naive "
        "Bayes, the conditional likelihood, started at zero. Steps along the gradient are halved "
        "until the objective falls, and doubled after; an iteration of stochastic gradient "
        "descent goes through all rows in 50 batches.",
    )
    text = "Pre-conditioning by the generative tables helps every first-order method (section 5.5)"
    columns = ("NBw : NBd by", *(f"objective after {at} iterations" for at in AT))
    block = Block("Section 5.5.1: other first-order methods", columns, rows, notes)
    return block, claim_of_records(text, records)


def _text(record: WinDrawLoss | None) -> str:
    return "not run" if record is None else record_text(record)
