"""Pernkopf and Bilmes (2008): the worst, the mean and the best of many random orders."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codebook, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager.evaluation.experiment import Cell, Experiment
from tanager.evaluation.protocol import CrossValidation
from tanager.evaluation.runner import Bench
from tanager.parameters import MaximumLikelihood
from tanager.structure import FitPlan, Structure
from tanager_papers.workbench import Workbench

__all__ = ["PICKS", "order_rates", "random_orders"]

Floats = NDArray[np.float64]

# What the paper reports of many orders: the mean of their rates on test rows, and the rate of the
# order whose structure is worst, and best, on training rows.
PICKS = ("Mean", "Min", "Max")
# Options of the search, and how many orders are tried on tables of few rows, and of more.
KINDS = {"TAN": ("", 1000, 100), "2-tree": (", max_parents=2", 100, 10)}
FEW_ROWS = 4000


def random_orders(bench: Workbench, datasets: Sequence[Dataset]) -> tuple[dict[str, Any], str]:
    """Run many random orders on each table.

    Returns the rates under the names of table 1, with the names of the tables, and a note.
    """
    found: dict[str, Any] = {"tables": ()}
    for kind, (options, many, few) in KINDS.items():
        like = Contender("orders", f"order(order='random', n_orders=5{options})/ml")
        by_table = {}
        for dataset in datasets:
            n_orders = many if bench.n_rows.get(dataset.name, 0) <= FEW_ROWS else few
            n_orders = 5 if bench.quick else n_orders
            use = f"order(order='random', n_orders={n_orders}{options})/ml"
            rates = _table_rates(bench, dataset, Contender(kind, use), like)
            if rates is not None:
                by_table[dataset.name] = rates
        if kind == "TAN":
            found["tables"] = tuple(by_table)
        columns = np.array(list(by_table.values())).reshape(-1, len(PICKS)).T
        for pick, values in zip(PICKS, columns, strict=True):
            found[f"{kind}-RO-CR-ML, {pick}"] = values
    tan, two = (("5", "5") if bench.quick else (f"{k[1]:,}", str(k[2])) for k in KINDS.values())
    note = (
        f"RO: {tan[0]} random orders in every fold of tables up to {FEW_ROWS:,} rows, {tan[1]} of "
        f"larger ones ({two[0]} and {two[1]} for 2-trees; 1,000 in the paper, which has no 2-trees "
        f"here), on {len(found['tables'])} tables. Max and Min: the structures with the highest "
        "and the lowest rate on training rows."
    )
    return found, note


def _table_rates(
    bench: Workbench, dataset: Dataset, contender: Contender, like: Contender
) -> list[float] | None:
    """Return the mean over folds of what `PICKS` names, from the runs' folder or computed now."""
    experiment = Experiment(
        [dataset], [contender], CrossValidation(1, 5), ["zero_one_loss"], bins="mdl",
        stamps={contender.name: bench.stamp_of(contender, like)},
    )  # fmt: skip
    lab = Bench(experiment)
    rows = []
    for cell in experiment.cells():
        compute = partial(_cell_rates, lab, experiment, cell)
        found = bench.kept("pernkopf-2008-orders", cell.key, compute)
        if found is None:
            bench.leave_out(f"random orders of {contender.name} on {dataset.name}: no time")
            return None
        *rates, n_orders, seconds = found
        bench.n_cells += int(n_orders)
        bench.cpu_seconds += seconds
        rows.append(rates)
    return [float(value) for value in np.mean(rows, axis=0)]


def _cell_rates(lab: Bench, experiment: Experiment, cell: Cell) -> list[float]:
    """Return rates by `PICKS`, the number of orders, and the CPU seconds of one fold."""
    data, split = lab.load(cell.dataset), lab.split(cell)
    present, y = np.unique(data.labels[split.train], return_inverse=True)
    began = time.process_time()
    model = experiment.contenders[0].build(cell.fold, experiment.bins)
    model.fit(data.features.take(split.train), y)
    info = model.info_["structure"]
    structures = [order["parents"] for order in info["orders"]]
    scores = np.array([order["score"] for order in info["orders"]])
    codebook = model.network_.codebook
    truth = np.searchsorted(present, data.labels[split.test])
    truth[~np.isin(data.labels[split.test], present)] = -1  # a class that was never seen
    rates = order_rates(
        codebook,
        (data.features.take(split.train), y),
        (data.features.take(split.test), truth),
        structures,
    )
    picked = [float(rates.mean()), rates[np.argmin(scores)], rates[np.argmax(scores)]]
    return [*map(float, picked), float(len(scores)), time.process_time() - began]


def order_rates(
    codebook: Codebook,
    train: tuple[Any, NDArray[np.integer]],
    test: tuple[Any, NDArray[np.integer]],
    structures: Sequence[Sequence[Sequence[str]]],
) -> Floats:
    """Return the classification rate on test rows of many structures with ML tables.

    A family's terms on the test rows are made once, whatever the number of structures that have it.
    """
    domain = codebook.domain
    place = {name: at for at, name in enumerate(domain.names)}
    codes = np.ascontiguousarray(codebook.encode(train[0]))
    counts = Counts(Rows.in_memory(domain, codes, train[1].astype(np.uint16)), FitContext())
    asked = np.ascontiguousarray(codebook.encode(test[0]))
    terms: dict[tuple[int, tuple[int, ...]], Floats] = {}
    prior = np.zeros(domain.n_classes)
    rates = np.empty(len(structures))
    for number, structure in enumerate(structures):
        parents = [tuple(place[p] for p in mine) for mine in structure]
        missing = [i for i, mine in enumerate(parents) if (i, mine) not in terms]
        if missing:
            whole = Structure.from_parents(domain.names, parents)
            tables = MaximumLikelihood().learn(whole, counts, FitPlan())
            prior = tables.log_prior
            found = tables.terms(whole, asked, domain.arities)
            for i in missing:
                terms[i, parents[i]] = np.ascontiguousarray(found[:, i])
        joint = np.tile(prior, (asked.shape[1], 1))
        for i, mine in enumerate(parents):
            joint += terms[i, mine]
        rates[number] = (joint.argmax(axis=1) == test[1]).mean()
    return rates
