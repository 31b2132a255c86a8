"""``tanager fit``: from a table to a model file."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tanager.cli.console import (
    Bins,
    Categorical,
    Data,
    Dates,
    Decimal,
    Drop,
    Encoding,
    Json,
    NaValues,
    human_size,
    open_data,
    print_json,
    read_bins,
    read_categorical,
)
from tanager.cli.engines import open_engine
from tanager.cli.safety import Force, check_output, is_model
from tanager.errors import ConfigurationError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(fit)


def fit(
    data: Data,
    target: Annotated[str, typer.Option("--target", "-t", help="The column to predict.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    structure: Annotated[
        str,
        typer.Option(
            "--structure",
            "-s",
            help="Which features condition which: auto, naive, tan, kdb(k=2), …",
        ),
    ] = "auto",
    parameters: Annotated[
        str,
        typer.Option(
            "--parameters", "-p", help="The probability tables: layered, hdp, m-estimate(m=1), …"
        ),
    ] = "layered",
    drop: Drop = None,
    categorical: Categorical = None,
    dates: Dates = None,
    ordered: Annotated[
        list[str] | None,
        typer.Option(
            "--ordered",
            help="A column's categories from the first to the last: size=S,M,L; may be repeated.",
        ),
    ] = None,
    monotonic: Annotated[
        list[str] | None,
        typer.Option(
            "--monotonic",
            help="A column along which the second class rises or falls: age=+1, price=-1; or, with "
            "more classes, age=high:+1. May be repeated.",
        ),
    ] = None,
    missing: Annotated[
        str, typer.Option("--missing", help="value: a value of its own. marginalize: summed out.")
    ] = "value",
    bins: Bins = "auto",
    weight: Annotated[
        str | None, typer.Option("--weight", help="The column of row weights.")
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Give every class the same total weight.")
    ] = False,
    na_values: NaValues = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 is one a core.")] = 1,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit", help="For rows and counts: 4GB, 512MiB, … Else half of the free."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", help="A folder: a killed fit goes on from there."),
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="local: threads. dask: the workers of a cluster.")
    ] = "local",
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", help="Address of a Dask scheduler; else workers of this machine."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of learners that draw numbers.")] = 0,
    audit: Annotated[
        bool, typer.Option(help="Read dates and numbers written as text; leave out ids.")
    ] = True,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn a classifier from a table and write it to a model file.

    The table may be larger than memory: files are streamed. Text, booleans and
    dictionary columns are categories; numbers are cut into intervals.
    """
    check_output(output, data, ours=is_model, kind="model file", force=force)
    from tanager.classifiers import BayesNetClassifier, save
    from tanager.parameters import resolve_pair

    start = time.perf_counter()
    resolve_pair(structure, parameters)  # before any row is read
    cluster = open_engine(engine, scheduler)
    estimator = BayesNetClassifier(
        structure,
        parameters,
        categorical_features=read_categorical(categorical),
        dates=dates,
        ordered=read_orders(ordered),
        monotonic=read_monotonic(monotonic),
        missing=missing,
        bins=read_bins(bins),
        class_weight="balanced" if balanced else None,
        audit=audit,
        n_jobs=jobs,
        memory_limit=memory_limit,
        checkpoint=checkpoint,
        random_state=seed,
        verbose=int(sys.stderr.isatty()),
    )
    if drop and (target in drop or weight in drop):
        raise ConfigurationError("--drop names the target or the weight. Drop another column.")
    table = open_data(data, na_values, encoding, decimal, drop)
    with cluster as estimator.engine:
        estimator.fit(table, target, sample_weight=weight)
    save(estimator, output)
    _report(estimator, output, time.perf_counter() - start, as_json=as_json)


def read_orders(texts: list[str] | None) -> dict[str, list[str]] | None:
    """Return the orders that --ordered gives.

    >>> read_orders(["size=S,M,L"])
    {'size': ['S', 'M', 'L']}
    """
    found = {}
    for text in texts or ():
        name, equals, values = text.rpartition("=")
        if not equals or not name or "," not in values:
            raise ConfigurationError(
                f"--ordered {text!r}. Allowed: a column, an equals sign and its values from the "
                "first to the last with commas between them, such as size=S,M,L."
            )
        found[name] = [value.strip() for value in values.split(",")]
    return found or None


def read_monotonic(texts: list[str] | None) -> dict[str, Any] | None:
    """Return what --monotonic asks for.

    >>> read_monotonic(["age=+1", "price=low:-1,high:+1"])
    {'age': 1, 'price': {'low': -1, 'high': 1}}
    """
    found: dict[str, Any] = {}
    signs = {"+1": 1, "1": 1, "+": 1, "-1": -1, "-": -1}
    for text in texts or ():
        name, equals, asked = text.rpartition("=")
        parts = [part.strip().rpartition(":") for part in asked.split(",")]
        good = all(sign in signs for _, _, sign in parts)
        if not (equals and name and good and (len(parts) == 1 or all(p[1] for p in parts))):
            raise ConfigurationError(
                f"--monotonic {text!r}. Allowed: a column, an equals sign, and +1 or -1, such as "
                "age=+1; or classes with their signs, such as age=low:-1,high:+1."
            )
        by_class = {label: signs[sign] for label, colon, sign in parts if colon}
        found[name] = by_class or signs[parts[0][2]]
    return found or None


def _report(estimator: Any, output: Path, seconds: float, *, as_json: bool) -> None:
    network = estimator.network_
    n_bytes = output.stat().st_size
    if as_json:
        print_json(
            {
                "model": str(output),
                "bytes": n_bytes,
                "seconds": seconds,
                "classes": [str(label) for label in estimator.classes_],
                "features": network.codebook.domain.n_features,
                "selected": list(network.structure.features),
                "parents": {name: list(ps) for name, ps in network.structure.parents.items()},
            }
        )
        return
    n_edges = sum(map(len, network.structure.parent_indices))
    print(
        f"{output}: {len(network.structure.selected)} of {network.codebook.domain.n_features} "
        f"features, {n_edges} edges, {len(estimator.classes_)} classes; "
        f"{human_size(n_bytes)}, {seconds:.1f} s"
    )
