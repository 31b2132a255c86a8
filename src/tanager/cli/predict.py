"""``tanager predict``, ``decide`` and ``score``: predict rows batch by batch, and evaluate."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tanager.classifiers.prediction import ScoredBatch, score_table
from tanager.cli.options import Data, Model, TableOptions, read_costs_file
from tanager.cli.output import (
    TABLES,
    check_output,
    console,
    open_output,
    plain,
    plain_table,
    print_json,
    watching,
)
from tanager.codes import MatchedTable
from tanager.engines import LocalEngine
from tanager.errors import ConfigurationError, DataError, listed
from tanager.evaluation.metrics import METRICS, make_sheet
from tanager.network import Network
from tanager.network.decisions import PredictionSets, check_share
from tanager.network.files import read_model
from tanager.network.reference import labelled_rows, own_rows
from tanager.network.sensitivity import interval_of_codes
from tanager.parameters import posterior
from tanager.sources.plain import plain_array
from tanager.sources.remote import is_url, local_path, without_credentials

MOST_CLASSES = 12  # maximum for printing the confusion matrix


@dataclass(frozen=True)
class WritingOptions:
    """How to write the predictions for a table's rows.

    Options:
        output (-o): A .parquet, .arrow or .csv file, or a URL of one. [default: CSV to standard
            output, or -]
        keep: An input column to keep; may be repeated. 'all': every column.
        ignore_extra: Ignore columns the model doesn't know.
    """

    output: str | None = None
    keep: list[str] | None = None
    ignore_extra: bool = False
    jobs: int = 1
    force: bool = False
    as_json: bool = False


def predict(
    model: Model,
    data: Data,
    reading: TableOptions,
    writing: WritingOptions,
    probabilities: bool = True,
    interval: float | None = None,
    coverage: float | None = None,
    per_class: bool = False,
    abstain: float | None = None,
) -> None:
    """Classify the rows of a table.

    Writes the column prediction and one column p_CLASS per class. The table
    is streamed: it may be larger than memory. Columns are matched by name.

    Options:
        probabilities: Write a column p_CLASS per class, or only the label.
        interval: Credible level such as 0.9: adds columns low_CLASS and high_CLASS for each
            p_CLASS.
        coverage (--set): Coverage such as 0.9: adds the column set with a conformal prediction set.
        per_class: With --set: guarantee the coverage per class.
        abstain: Abstain when the most probable class is below this probability.
    """
    if per_class and coverage is None:
        raise ConfigurationError("--per-class is for prediction sets: give --set too.")
    for name, value in (("interval", interval), ("set", coverage), ("abstain", abstain)):
        if value is not None:
            check_share(f"--{name}", value)

    def columns(network: Network) -> tuple[list[str], Columns]:
        classes, labels = network.codebook.target.values, network.codebook.classes.tolist()
        names = ["prediction"]
        names += [f"p_{label}" for label in labels if probabilities]
        names += [f"{end}_{x}" for x in labels if interval is not None for end in ("low", "high")]
        names += ["set"] if coverage is not None else []

        def fill(batch: ScoredBatch) -> Iterator[pa.Array]:
            best = plain_array(batch.log_joint.argmax(axis=1), pa.int32())
            chances = posterior(batch.log_joint)
            if abstain is not None:
                unsure = pa.array(chances.max(axis=1, initial=0.0) < abstain)
                best = pc.if_else(unsure, pa.scalar(None, pa.int32()), best)
            as_text = pa.types.is_string(classes.type)
            yield pa.DictionaryArray.from_arrays(best, classes) if as_text else classes.take(best)
            if probabilities:
                yield from _numbers(chances)
            if interval is not None:
                found = interval_of_codes(network, batch.rows.codes, interval)
                yield from _numbers(found.reshape(len(found), -1))
            if coverage is not None:
                sets = PredictionSets(network, chances, coverage, per_class=per_class)
                yield pa.array(["|".join(map(str, one)) for one in sets], pa.string())

        return names, fill

    _write_answers(model, data, reading, writing, columns)


def decide(
    model: Model, data: Data, reading: TableOptions, writing: WritingOptions, costs: str
) -> None:
    """Choose the action with the lowest expected cost for each row.

    Writes the columns decision, margin (how much more the second-best action costs) and
    cost_ACTION, the expected cost of each action. They come from the table costs of a
    TOML file, one line per action: treat = {sick = 0, well = 20}, or one number for all
    classes: "ask a person" = 4.

    Options:
        costs: A TOML file with the cost of each action per class; for ordered classes also
            'absolute' or 'squared'.
    """

    def columns(network: Network) -> tuple[list[str], Columns]:
        priced = read_costs_file(network, costs)[0]

        def fill(batch: ScoredBatch) -> Iterator[pa.Array]:
            found = priced.decisions(batch.log_joint)
            yield pa.array(found.actions)
            yield from _numbers(np.column_stack([found.margin, found.expected_costs]))

        return ["decision", "margin", *(f"cost_{name}" for name in priced.names)], fill

    _write_answers(model, data, reading, writing, columns)


Columns = Callable[[ScoredBatch], Iterator[pa.Array]]  # the columns to write for some rows


def _numbers(table: Any) -> Iterator[pa.Array]:
    return (plain_array(column, pa.float64()) for column in np.ascontiguousarray(table.T))


def _write_answers(
    model: Path,
    data: list[str],
    reading: TableOptions,
    writing: WritingOptions,
    columns: Callable[[Network], tuple[list[str], Columns]],
) -> None:
    """Write the kept columns and those that `columns` gives a name and a function for."""
    output, as_json = writing.output, writing.as_json
    place = _place(output)
    check_output(place, [model, *data], TABLES, force=writing.force)
    if place is None and as_json:
        raise ConfigurationError("--json describes the output file: pass --output.")
    start, rows = time.perf_counter(), 0
    network = Network.load(model)
    names, fill = columns(network)
    table = reading.open(data)
    kept = list(table.names) if writing.keep == ["all"] else writing.keep or []
    table.check_has(kept, "keep")
    remedy = "Name unseen columns with --keep, or pass --ignore-extra."
    options: dict[str, Any] = {"kept": kept, "ignore_extra": writing.ignore_extra}
    matched = MatchedTable.of(network.codebook, table, remedy=remedy, **options)
    if clash := sorted(set(names) & set(matched.kept)):
        raise ConfigurationError(
            f"The kept column(s) {listed(clash)} would be written twice. Rename them "
            "in the input, or do not keep them."
        )
    with open_output(place) as write:
        for batch in _scored(network, matched, writing.jobs):
            arrays = [] if batch.rows.kept is None else list(batch.rows.kept.columns)
            write(pa.RecordBatch.from_arrays([*arrays, *fill(batch)], [*matched.kept, *names]))
            rows += batch.rows.n_rows
    if rows == 0:
        print("tanager: the table has no rows.", file=sys.stderr)
    seconds = time.perf_counter() - start
    shown = without_credentials(str(output))
    if as_json:
        print_json({"output": shown, "rows": rows, "seconds": seconds})
    elif place is not None:
        print(f"{shown}: {rows:,} rows, {seconds:.1f} s")


def _scored(network: Network, matched: MatchedTable, jobs: int) -> Iterator[ScoredBatch]:
    """Score all rows with a progress bar."""
    with watching() as progress:
        progress.start("predict", matched.source.n_rows)
        for batch in score_table(network, matched, LocalEngine(jobs)):
            yield batch
            progress.advance(batch.rows.n_rows)
        progress.finish()


def _place(output: str | None) -> Path | str | None:
    """Return where to write the rows: a path, a URL as text, or None for the terminal."""
    if output is None or output == "-":
        return None
    return (local_path(output) or output) if is_url(output) else Path(output)


def score(
    model: Model,
    data: Data,
    reading: TableOptions,
    target: str | None = None,
    jobs: int = 1,
    as_json: bool = False,
) -> None:
    """Evaluate a model on rows with known classes.

    Accuracy, log-loss, AUC, F1, Brier score, calibration, the confusion matrix and
    scores by class. For comparison, accuracy and log-loss are also given for a model
    that predicts the class frequencies of these rows. Training rows are recognised,
    with a note that their scores are optimistic.

    Options:
        target (-t): The column of true classes. [default: the model's target]
    """
    network, facts = read_model(model)
    column = target if target is not None else network.codebook.target.name
    table = reading.open(data)
    matched = MatchedTable.of(network.codebook, table, target=column, ignore_extra=True)
    parts = [
        (posterior(batch.log_joint), matched.labels(batch.rows))
        for batch in _scored(network, matched, jobs)
    ]
    if not parts:
        raise DataError("The table has no rows. Pass a table with at least one row.")
    probabilities, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    labels = labels.astype(np.int64)
    own = own_rows(facts.get("info", {}), labelled_rows(matched))
    classes = tuple(str(label) for label in network.codebook.classes)
    sheet = make_sheet(probabilities, labels, classes)
    if as_json:
        print_json({"model": str(model), "target": column, "rows_of_the_fit": own, **sheet})
    else:
        print_sheet(sheet)
    if own:
        print(
            "tanager: this is the model's training data, so the scores are optimistic. Score "
            f"held-out rows, or run tanager report {model} DATA to cross-validate.",
            file=sys.stderr,
        )


def print_sheet(sheet: dict[str, Any]) -> None:
    """Print scores, by class too, beside those of the class frequencies."""
    out, baseline = console(), sheet["baseline"]
    rows = "1 row" if sheet["rows"] == 1 else f"{sheet['rows']:,} rows"
    lines = plain_table("", rows, "baseline: class frequencies")
    for name, value in sheet["metrics"].items():
        lines.add_row(METRICS[name].title, _number(value), _number(baseline.get(name)))
    out.print(lines)
    out.print()
    by_class = plain_table("class", "rows", "precision", "recall", "F1", "AUC")
    for label, (n, *numbers) in ((one, facts.values()) for one, facts in sheet["classes"].items()):
        by_class.add_row(plain(label), f"{n:,}", *map(_number, numbers))
    out.print(by_class)
    if len(sheet["classes"]) <= MOST_CLASSES:
        out.print("\nConfusion matrix: true classes in rows, predictions in columns")
        matrix = plain_table("", *sheet["classes"])
        for label, row in sheet["confusion"].items():
            matrix.add_row(plain(label), *(f"{n:,}" for n in row.values()))
        out.print(matrix)


def _number(value: float | None) -> str:
    """Format a number with four digits, never as -0; None is undefined."""
    return "" if value is None else f"{value:z.4f}"
