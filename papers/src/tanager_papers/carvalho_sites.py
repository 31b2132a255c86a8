"""Generated binding sites for Carvalho et al. (2013), and when aCLL pays on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tanager.evaluation.datasets import Dataset
from tanager.evaluation.protocol import CrossValidation
from tanager.evaluation.results import Results, Scores
from tanager_papers.findings import Block, Picture
from tanager_papers.generators import BindingSites, binding_sites
from tanager_papers.verdicts import duel_record
from tanager_papers.workbench import Workbench

__all__ = [
    "collection",
    "gain_of",
    "on_training_rows",
    "study_block",
    "ternary",
    "too_sure",
]

# What the study changes, one thing at a time, around `MIDDLE`.
MIDDLE = BindingSites()
SETTINGS: Mapping[str, BindingSites] = {
    "as generated for tables 1 and 2": MIDDLE,
    "no dependence in the background": replace(MIDDLE, background=0.0),
    "strong dependence in the background": replace(MIDDLE, background=0.7),
    "no dependence in sites": replace(MIDDLE, dependence=0.0),
    "strong dependence in sites": replace(MIDDLE, dependence=0.9),
    "hardly conserved": replace(MIDDLE, conservation=0.1),
    "well conserved": replace(MIDDLE, conservation=0.9),
    "one row in ten a site": replace(MIDDLE, share=0.1),
    "200 rows": replace(MIDDLE, n_rows=200),
    "5,000 rows": replace(MIDDLE, n_rows=5000),
    "background as dependent as sites": replace(MIDDLE, background=0.5),
}


def collection(n_tables: int) -> list[Dataset]:
    """Return tables of generated binding sites, one a factor."""
    return [Dataset(f"sites-{i + 1}", binding_sites(seed=i)) for i in range(n_tables)]


def on_training_rows(tables: Sequence[Dataset]) -> list[Dataset]:
    """Return datasets that are tested on the very rows they are trained on."""
    import pyarrow as pa

    return [
        Dataset(d.name, pa.concat_tables([d.source, d.source]), train_rows=d.source.num_rows)
        for d in tables
    ]


def ternary(tables: Sequence[Dataset]) -> list[Dataset]:
    """Give each table the next one's sites as a third class, as section 5 does."""
    import pyarrow as pa

    made = []
    for i, dataset in enumerate(tables):
        following = tables[(i + 1) % len(tables)].source
        sites = following.filter(np.array(following["class"].to_pylist()) == "site")
        place = sites.column_names.index("class")
        sites = sites.set_column(place, "class", pa.array(["another site"] * sites.num_rows))
        made.append(Dataset(f"{dataset.name}-3", pa.concat_tables([dataset.source, sites])))
    return made


def study_block(bench: Workbench, uses: Mapping[str, str]) -> Block:
    """Change one property of the sites at a time, to see when aCLL beats LL."""
    n_tables = 4 if bench.quick else 24
    names = ("LL", "aCLL, Dirichlet")
    contenders = bench.available({name: uses[name] for name in names})
    rows = []
    margins: dict[str, list[float]] = {"training rows": [], "rows held out": []}
    for number, (setting, options) in enumerate(SETTINGS.items()):
        tables = [
            Dataset(f"sites-{number}-{i}", binding_sites(options, seed=1000 + i))
            for i in range(n_tables)
        ]
        training = bench.run(
            f"carvalho-2013-study-{number}-training", on_training_rows(tables), contenders,
            metrics=["log_loss"],
        ).results  # fmt: skip
        held_out = bench.run(
            f"carvalho-2013-study-{number}-test", tables, contenders,
            protocol=CrossValidation(1, 2), metrics=["log_loss"],
        ).results  # fmt: skip
        cells = [*_cells(training), *_cells(held_out)]
        rows.append((setting, *cells))
        for what, results in zip(margins, (training, held_out), strict=True):
            margins[what].append(1000 * gain_of(results.mean("log_loss")))
    columns = (
        "sites",
        "training rows: win–draw–loss of aCLL",
        "gain, 0.001 nats per row",
        "held out: win–draw–loss",
        "gain, 0.001 nats per row",
    )
    notes = (
        f"aCLL under the Dirichlet assumption against LL, {n_tables} factors per line, 1,000 rows "
        "each but where the line says otherwise; 12 positions, half of the rows sites.",
        "One property changes at a time here; the next table changes two together.",
    )
    picture = Picture(
        "study",
        "When aCLL beats LL",
        "bars",
        {
            "groups": [str(i + 1) for i in range(len(SETTINGS))],
            "series": margins,
            "y": "gain of aCLL, 0.001 nats per row",
            "line": 0.0,
        },
        "Settings in the order of the table; above zero aCLL is better.",
    )
    title = "When does aCLL beat LL? (not in the paper)"
    return Block(title, columns, rows, notes, (picture,))


def _cells(results: Results) -> tuple[str, str]:
    scores = results.mean("log_loss")
    record = duel_record(scores, "aCLL, Dirichlet", "LL")
    return ("not run", "") if record is None else (str(record), f"{1000 * gain_of(scores):+.2f}")


def gain_of(scores: Scores) -> float:
    """Return by how much aCLL's log-loss is below that of LL, nats per row."""
    if not scores.datasets:
        return 0.0
    return float((scores.of("LL") - scores.of("aCLL, Dirichlet")).mean())


def too_sure(results: Results) -> dict[tuple[str, str], float]:
    """Return, by classifier and table, how far its probabilities are above its rate of hits.

    The mean probability of the predicted class, less the share of rows where it is the true one.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for record in results.records:
        if record["status"] == "ok":
            rows, confidence, hits = (sum(part) for part in record["reliability"])
            key = (record["classifier"], record["dataset"])
            found.setdefault(key, []).append((confidence - hits) / rows)
    return {key: float(np.mean(values)) for key, values in found.items()}
