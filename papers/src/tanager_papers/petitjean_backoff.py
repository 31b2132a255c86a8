"""Petitjean et al. (2018), section 6.1: m-estimates with and without back-off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tanager import BayesNetClassifier
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager.evaluation.protocol import CrossValidation
from tanager.parameters import MEstimate
from tanager.structure import STRUCTURES
from tanager_papers.duels import record_text
from tanager_papers.findings import Block, Claim
from tanager_papers.verdicts import Comparison, claim_of_records, duel_record
from tanager_papers.workbench import Workbench

__all__ = ["PlainMEstimate", "backoff_block"]

MOST_ROWS = 50_000
METRICS = {"zero_one_loss": "0-1 loss", "rmse_true_class": "RMSE"}


@dataclass(eq=False, repr=False)
class PlainMEstimate(MEstimate):
    """The m-estimate without back-off: a context that never occurred is uniform."""

    backoff = False


def backoff_block(
    bench: Workbench, structures: Mapping[str, str], datasets: Sequence[Dataset]
) -> tuple[Block, Claim]:
    """Compare m-estimates, m = 1, that back off with those that don't."""
    small = [d for d in datasets if bench.n_rows[d.name] <= MOST_ROWS]
    protocol = CrossValidation(1, 2)
    contenders: list[Contender] = []
    like: dict[str, Contender] = {}
    for name, use in structures.items():
        usual = Contender(f"{name}-m, back-off", f"{use}/m-estimate(m=1)")
        learners = STRUCTURES.resolve(use), PlainMEstimate(1.0)
        plain = Contender(f"{name}-m, none", BayesNetClassifier(*learners, bins="mdl"))
        contenders += [usual, plain]
        like |= {usual.name: usual, plain.name: Contender(plain.name, f"{use}/laplace(alpha=1)")}
    results = bench.run(
        "petitjean-2018-backoff", small, contenders, protocol=protocol, metrics=list(METRICS),
        like=like,
    ).results  # fmt: skip
    rows, records = [], []
    for name in structures:
        found = [
            duel_record(results.mean(metric), f"{name}-m, back-off", f"{name}-m, none")
            for metric in METRICS
        ]
        rows.append((name, *("not run" if r is None else record_text(r) for r in found)))
        records += [
            Comparison(f"{name}, {title}", record)
            for title, record in zip(METRICS.values(), found, strict=True)
        ]
    columns = ("back-off against none", *METRICS.values())
    notes = (
        f"{len(results.datasets)} tables of up to {MOST_ROWS:,} rows, one round of 2-fold "
        "cross-validation; m = 1. Without back-off a context that never occurred has the uniform "
        "distribution. Win–draw–loss of back-off; * where the two-tailed sign test has p ≤ 0.05. "
        "The paper prints no counts.",
    )
    text = "Without back-off m-estimates are significantly worse (sections 6.1 and 6.3)"
    title = "Section 6.1: m-estimates without back-off"
    return Block(title, columns, rows, notes), claim_of_records(text, records)
