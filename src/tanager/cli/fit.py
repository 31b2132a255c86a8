"""``tanager audit`` and ``tanager fit``: inspect a table, and learn a model file from it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from tanager.classifiers.bayesnet import BayesNetClassifier
from tanager.classifiers.files import plain_parameters, save
from tanager.classifiers.priors import parse_signs
from tanager.cli.options import (
    ColumnOptions,
    Data,
    Existing,
    LearningOptions,
    ReadingAs,
    TableOptions,
    given_flags,
)
from tanager.cli.output import check_output, console, plain, plain_table, print_json, report_model
from tanager.codes.audit import (
    as_date_styles,
    describe_columns,
    feature_index,
    parse_orders,
    read_dates,
)
from tanager.errors import ConfigurationError, EngineError
from tanager.parameters import resolve_pair
from tanager.structure import Constraints

CONNECT_SECONDS = 30  # timeout for connecting to a scheduler


def audit(
    data: Data,
    reading: TableOptions,
    columns: ReadingAs,
    target: str | None = None,
    as_json: bool = False,
) -> None:
    """Inspect a table's columns, and show how a fit reads each of them.

    Finds types, missing values, ids, and dates and numbers stored as text, which a fit converts
    or leaves out. Reads up to 100,000 rows of files.

    Options:
        target (-t): The column to predict; it isn't audited.
    """
    table = reading.open(data)
    table.check_has([] if target is None else [target], "target")
    features = [name for name in table.names if name != target]
    taken = features if columns.categorical == ["all"] else columns.categorical or []
    for name in taken:
        feature_index(features, name, "categorical_features")
    table = table.as_text(as_date_styles(columns.dates))
    asked = read_dates(table, features, columns.dates)
    sheets = describe_columns(table, target, categorical=taken, dates=asked)
    if as_json:
        print_json({"columns": [asdict(sheet) for sheet in sheets]})
        return
    heads = ("column", "type", "values", "missing", "most frequent", "what fit does")
    shown = plain_table(*heads, left=(0, 1, 4, 5))
    for sheet in sheets:
        does = plain(sheet.action if not sheet.reason else f"{sheet.action}: {sheet.reason}")
        share = "<1%" if sheet.top_share < 0.005 else f"{sheet.top_share:.0%}"
        value = f"{float(sheet.top):.6g}" if sheet.type in ("double", "float") else sheet.top
        usual = sheet.action in ("taken as it is", "the target")
        shown.add_row(
            plain(sheet.column) or "(no name)",
            sheet.type,
            f"{sheet.n_values:,}",
            f"{sheet.missing:.1%}" if sheet.missing else "",
            plain(f"{value} ({share})"),
            does if usual else f"[bold]{does}[/]",
        )
    out = console()
    out.print(shown)
    out.print(
        "To override: --categorical COLUMN keeps a column as categories, --dates COLUMN "
        "reads it as dates, --drop COLUMN leaves it out."
    )


def fit(
    context: typer.Context,
    data: Data,
    target: str,
    output: Path,
    reading: TableOptions,
    columns: ColumnOptions,
    learning: LearningOptions,
    constraints: Existing = None,
    weight: str | None = None,
    class_prior: list[str] | None = None,
    drop_missing_target: bool = False,
    jobs: int = 1,
    memory_limit: str | None = None,
    checkpoint: Path | None = None,
    scheduler: str | None = None,
    seed: int = 0,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Learn a classifier from a table and write it to a model file.

    The table may be larger than memory: files are streamed. Text, booleans and
    dictionary columns are categories; numbers are cut into intervals.

    Options:
        output (-o): The model file to write.
        constraints: A TOML file with constraints on the structure: required, forbidden, tiers,
            order, roots, leaves, max_parents.
    Reading the table:
        drop_missing_target: Leave out rows whose target is missing.
    Columns:
        target (-t): The column to predict.
        weight: The column of row weights.
        class_prior: Frequency of a class in deployment, if it differs from the training data:
            sick=0.02. May be repeated.
    Execution:
        memory_limit: Memory for rows and counts: 4GB, 512MiB, … [default: half of the free memory]
        checkpoint: Folder for checkpoints: an interrupted fit resumes from it.
        scheduler: Address of a Dask scheduler, to run on its cluster's workers.
        seed: Seed for learners that use random numbers.
    """
    check_output(output, data, force=force)
    if scheduler is not None and given_flags(context, "jobs"):
        raise ConfigurationError(
            "--jobs sets the threads of this process, but a cluster has its own workers. Leave "
            "out --jobs or --scheduler."
        )
    start = time.perf_counter()
    resolve_pair(learning.structure, learning.parameters)  # before any row is read
    named = columns.categorical
    estimator = BayesNetClassifier(
        learning.structure,
        learning.parameters,
        categorical_features="all" if named == ["all"] else named or "from_dtype",
        dates=columns.dates,
        ordered=parse_orders(columns.ordered or ()) or None,
        monotonic=parse_signs(columns.monotonic or ()) or None,
        constraints=None if constraints is None else Constraints.from_toml(constraints),
        missing=learning.missing,
        bins=columns.binning,
        class_weight="balanced" if learning.balanced else None,
        classes_ordered=columns.classes or None,
        class_prior=_read_shares(class_prior or ()) or None,
        audit=learning.audit,
        n_jobs=jobs,
        memory_limit=memory_limit,
        checkpoint=checkpoint,
        random_state=seed,
        verbose=int(sys.stderr.isatty()),
    )
    if {target, weight} & {*(reading.drop or ())}:
        raise ConfigurationError("--drop can't name the target or the weight column.")
    plain_parameters(estimator)  # reject unsaveable parameters before the fit
    table = reading.open(data, drop_missing=[target] if drop_missing_target else [])
    with _open_engine(scheduler) as estimator.engine:
        estimator.fit(table, target, sample_weight=weight)
    save(estimator, output)
    report_model(estimator.network_, output, time.perf_counter() - start, as_json=as_json)


def _read_shares(given: Sequence[str]) -> dict[str, float]:
    """Parse class probabilities such as ``sick=0.02``."""
    shares = {}
    for text in given:
        label, _, share = text.rpartition("=")
        try:
            shares[label] = float(share)
        except ValueError:
            hint = "Write a class and its probability: sick=0.02."
            raise ConfigurationError(f"--class-prior {text}. {hint}") from None
    return shares


@contextmanager
def _open_engine(scheduler: str | None) -> Iterator[Any]:
    """Yield a value for `BayesNetClassifier(engine=...)`; disconnect from a cluster at the end."""
    if scheduler is None:
        yield "local"
        return
    from distributed import Client

    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        what = f"--scheduler {scheduler}: no Dask scheduler answers there ({error})."
        raise EngineError(what) from error
    with client:
        yield client
