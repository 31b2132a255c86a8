"""``tanager score``: how well a model does on rows whose classes are known."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanager.cli.console import console, plain, plain_table, print_json, watching
from tanager.cli.options import (
    Data,
    Decimal,
    Drop,
    Encoding,
    Header,
    Json,
    Model,
    NaValues,
    Threads,
    open_data,
)
from tanager.cli.predict import Scoring, match_input
from tanager.errors import DataError

if TYPE_CHECKING:
    from tanager.codes import MatchedTable
    from tanager.evaluation.sheet import Sheet
    from tanager.network import Network

__all__ = ["score"]

MOST_CLASSES = 12  # up to which the confusion matrix is printed


def score(
    model: Model,
    data: Data,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="The column of true classes; else the model's."),
    ] = None,
    na_values: NaValues = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    header: Header = None,
    drop: Drop = None,
    jobs: Threads = 1,
    as_json: Json = False,
) -> None:
    """Score a model on rows whose classes are known.

    Accuracy, log-loss, AUC, F1, Brier score, calibration, the confusion matrix and
    every class by itself. Scores on training rows are too good, so those rows are
    recognised and you are told. For comparison, every number is also given for a model
    that predicts the class frequencies of these rows.
    """
    from tanager.evaluation.sheet import make_sheet
    from tanager.network.files import read_model
    from tanager.network.own_rows import labelled_codes, own_rows

    network, facts = read_model(model)
    column = target if target is not None else network.codebook.target.name
    table = open_data(data, na_values, encoding, decimal, drop, header)
    if column not in table.names:
        raise DataError(
            f"The table has no column {column!r} of true classes. Its columns: "
            f"{', '.join(table.names)}. Name the column with --target."
        )
    matched = match_input(network, table, target=column, ignore_extra=True)
    probabilities, labels = _predict(network, matched, jobs)
    info = facts.get("info", {})
    own = own_rows(network, info, len(labels), lambda: labelled_codes(matched))
    classes = tuple(str(label) for label in network.codebook.classes)
    sheet = make_sheet(probabilities, labels, classes)
    if as_json:
        print_json(
            {"model": str(model), "target": column, "rows_of_the_fit": own, **sheet.to_dict()}
        )
    else:
        _print_sheet(sheet)
    if own:
        print(
            "tanager: these are the rows that the model was fitted on, so the numbers flatter it. "
            f"Score other rows, or let tanager report {model} DATA cross-validate these.",
            file=sys.stderr,
        )


def _predict(network: Network, table: MatchedTable, jobs: int) -> tuple[Any, Any]:
    """Return the probabilities and the class codes of all rows."""
    import numpy as np

    from tanager.parameters import posterior

    scoring = Scoring(network, probabilities=True, jobs=jobs)
    parts, labels = [], []
    with watching() as progress:
        progress.start("score", table.source.n_rows)
        for batch in scoring.scored(table):
            labels.append(table.labels(batch.rows))
            parts.append(posterior(batch.log_joint))
            progress.advance(batch.rows.n_rows)
        progress.finish()
    scoring.unseen.warn(table)
    if not parts:
        raise DataError("The table has no rows. Pass a table with at least one row.")
    return np.concatenate(parts), np.concatenate(labels).astype(np.int64)


def _print_sheet(sheet: Sheet) -> None:
    from tanager.evaluation.metrics import METRICS

    out = console()
    rows = "1 row" if sheet.n_rows == 1 else f"{sheet.n_rows:,} rows"
    lines = plain_table("", rows, "always the rows' own class shares")
    for name, value in sheet.metrics.items():
        base = sheet.baseline.get(name)
        lines.add_row(METRICS[name].title, _number(value), "" if base is None else _number(base))
    out.print(lines)
    out.print()
    by_class = plain_table("class", "rows", "precision", "recall", "F1", "AUC")
    for at, label in enumerate(sheet.classes):
        numbers = (sheet.precision[at], sheet.recall[at], sheet.f1[at], sheet.auc[at])
        by_class.add_row(
            plain(label), f"{int(sheet.confusion[at].sum()):,}", *map(_number, numbers)
        )
    out.print(by_class)
    if len(sheet.classes) <= MOST_CLASSES:
        out.print()
        matrix = plain_table("true class (down), predicted (across)", *sheet.classes)
        for label, row in zip(sheet.classes, sheet.confusion, strict=True):
            matrix.add_row(plain(label), *(f"{int(n):,}" for n in row))
        out.print(matrix)


def _number(value: float) -> str:
    """Return a number with four digits, without the sign of a zero; NaN is undefined."""
    return "" if value != value else f"{value:z.4f}"
