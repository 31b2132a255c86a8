"""``tanager show`` and ``tanager explain``: what a model knows, and why it says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanager.cli.console import (
    Data,
    Decimal,
    Drop,
    Encoding,
    Json,
    Model,
    NaValues,
    console,
    human_size,
    open_data,
    print_json,
)
from tanager.cli.effect import effect_of, print_effect
from tanager.cli.safety import check_output
from tanager.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from rich.table import Table

    from tanager.codes.reading import Reading
    from tanager.network import Network
    from tanager.network.explanation import Explanation
    from tanager.sources import Source

__all__ = ["print_explanation", "print_structure", "register"]

BAR_WIDTH = 12


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(show)
    app.command()(explain)


def show(
    model: Model,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Print a feature's probabilities; may be repeated. Or: all."),
    ] = None,
    effect: Annotated[
        list[str] | None,
        typer.Option(
            "--effect", help="Print what each value of a feature says of a class; may be repeated."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--class", help="The class of --effect; else the last.")
    ] = None,
    sort: Annotated[
        str, typer.Option(help="Order of a table's rows: context, parents or center.")
    ] = "context",
    as_json: Json = False,
) -> None:
    """Show what a model has learned: structure, sizes, informative features, tables."""
    from tanager.network.files import read_model

    network, header = read_model(model)
    names = list(network.structure.features) if table == ["all"] else table or []
    tables = [network.table(name).sorted(sort) for name in names]
    effects = [effect_of(network, name, target) for name in effect or []]
    facts = _facts(network, header, model)
    if as_json:
        facts["effects"] = [one.to_json() for one in effects]
        facts["tables"] = [
            {
                "feature": t.feature,
                "given": list(t.given),
                "values": list(t.values),
                "contexts": [list(context) for context in t.contexts],
                "probabilities": t.probabilities.tolist(),
            }
            for t in tables
        ]
        print_json(facts)
        return
    if not tables and not effects:
        _print_facts(facts)
        print_structure(network)
        console().print(f"all of it, with pictures: tanager report {model}", markup=False)
    for one in effects:
        print_effect(one)
    for t in tables:
        console().print(str(t), markup=False)


def explain(
    model: Model,
    data: Data,
    row: Annotated[int, typer.Option("--row", "-r", help="Which row; the first is 0.")] = 0,
    target: Annotated[
        str | None, typer.Option("--class", help="The class to explain; else the most probable.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="The other class; else the next most probable.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw it: .svg, .png or .pdf.")
    ] = None,
    na_values: NaValues = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    drop: Drop = None,
    as_json: Json = False,
) -> None:
    """Explain one row: how each feature moves the odds between two classes."""
    check_output(output, [model, *data])
    from tanager.network import Network
    from tanager.network.explanation import explain_row

    network = Network.load(model)
    explanation = explain_row(
        network,
        _read_row(network, open_data(data, na_values, encoding, decimal, drop), row),
        target=target,
        against=against,
    )
    if output is not None:
        from tanager.cli.draw import save_figure
        from tanager.report import plot_explanation

        save_figure(plot_explanation(explanation), output)
    if as_json:
        print_json(explanation.to_json())
    else:
        print_explanation(explanation)


def _read_row(network: Network, source: Source, row: int) -> Any:
    from tanager.cli.predict import match_features

    source = network.codebook.complete(source)
    features = match_features(network, source, (), ignore_extra=True)
    source = network.codebook.read_as_trained(source, features)
    before = 0
    for batch in source.batches(features) if row >= 0 else ():
        if row < before + batch.num_rows:
            one = batch.slice(row - before, 1)
            return one.rename_columns(list(network.codebook.domain.names))
        before += batch.num_rows
    if row < 0:
        raise ConfigurationError(f"--row {row}: rows are counted from 0.")
    raise DataError(f"There is no row {row}: the table has {before} rows, counted from 0.")


def _facts(network: Network, header: dict[str, Any], path: Path) -> dict[str, Any]:
    import numpy as np

    structure, codebook = network.structure, network.codebook
    from tanager.network import NetworkInformation

    information = NetworkInformation(network)
    cells = [
        getattr(t, "log_prob", getattr(t, "cell_log_prob", np.zeros(0))).size
        for t in network.tables.families
    ]
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "tanager": header.get("tanager"),
        "structure": _describe(header, "structure"),
        "parameters": _describe(header, "parameters"),
        "rows": header.get("info", {}).get("codes", {}).get("rows"),
        "missing": codebook.missing,
        "target": codebook.target.name,
        "prior": {
            str(label): float(p)
            for label, p in zip(codebook.classes, np.exp(network.log_prior), strict=True)
        },
        "history": [str(edit) for edit in network.history],
        "readings": {name: _how(reading) for name, reading in codebook.readings.items()},
        "monotonic": _monotonic(header, [str(label) for label in codebook.classes]),
        "n_features": codebook.domain.n_features,
        "n_selected": len(structure.selected),
        "n_edges": sum(map(len, structure.parent_indices)),
        "n_probabilities": int(sum(cells)) + len(codebook.classes),
        "features": {
            name: {
                "kind": codebook.columns[at].kind,
                "values": int(codebook.domain.arities[at]),
                "parents": list(structure.parents[name]),
                "probabilities": int(n),
            }
            for name, at, n in zip(structure.features, structure.selected, cells, strict=True)
        },
        "left_out": [name for name in structure.names if name not in set(structure.features)],
        "information": dict(
            zip(codebook.domain.names, information.of_features().tolist(), strict=True)
        ),
        "information_beyond_parents": {
            name: float(nats) if np.isfinite(nats) else None
            for name, nats in zip(codebook.domain.names, information.beyond_parents(), strict=True)
        },
        "edges": [
            {"parent": parent, "feature": feature, "information": carried}
            for (parent, feature), carried in information.of_edges().items()
        ],
    }


def _how(reading: Reading) -> str:
    """Say how a column is read."""
    if reading.kind == "nothing":
        return "left out"
    style = "" if reading.style in ("plain", "ISO") else f", written as {reading.style}"
    return f"read as {reading.kind}s{style}"


def _monotonic(header: dict[str, Any], classes: list[str]) -> dict[str, str]:
    """Say of each feature that was asked about which class rises or falls along it."""
    stored = (header.get("estimator") or {}).get("monotonic")
    found = {}
    for name, asked in stored.get("$map", []) if isinstance(stored, dict) else []:
        pairs = asked.get("$map", []) if isinstance(asked, dict) else [[classes[-1], asked]]
        words = [f"{label} {'rises' if sign > 0 else 'falls'}" for label, sign in pairs]
        found[str(name)] = ", ".join(words)
    return found


def _describe(header: dict[str, Any], axis: str) -> str:
    """Return a learner as its text: ``kdb`` or ``KDB(k=2)``."""
    stored = (header.get("estimator") or {}).get(axis)
    if not isinstance(stored, dict):
        return str(stored) if stored else "given"
    name = str(stored.get("$object", "")).partition(":")[2]
    if name == "Fixed":
        return "given"
    options = stored.get("parameters", {})
    return f"{name}({', '.join(f'{k}={v}' for k, v in options.items())})"


def _print_facts(facts: dict[str, Any]) -> None:
    out = console()
    shown = list(facts["prior"].items())
    prior = ", ".join(f"{label} {p:.3f}" for label, p in shown[:8])
    more = f", … {len(shown) - 8} more" if len(shown) > 8 else ""
    lines = [
        f"{facts['model']}  {human_size(facts['bytes'])}, written by Tanager {facts['tanager']}",
        f"structure   {facts['structure']}: {facts['n_selected']} of {facts['n_features']} "
        f"features, {facts['n_edges']} edges",
        f"parameters  {facts['parameters']}: {facts['n_probabilities']:,} probabilities",
        f"target      {facts['target']}: {prior}{more}",
        f"missing     {'a value of its own' if facts['missing'] == 'value' else 'summed out'}",
    ]
    if facts["rows"]:
        lines.append(f"rows        {facts['rows']:,} in the fit")
    lines += [f"column      {name} {how}" for name, how in facts["readings"].items()]
    lines += [f"monotonic   {how} along {name}" for name, how in facts["monotonic"].items()]
    lines += [f"edited      {edit}" for edit in facts["history"]]
    for line in lines:
        out.print(line, markup=False)
    out.print()


def print_structure(network: Network, most: int = 60) -> None:
    """Print each feature with its parents and what they say, the most informative first."""
    from math import log

    from tanager.network import NetworkInformation
    from tanager.network.explanation import SPOKEN_FOR

    structure, arities = network.structure, network.codebook.domain.arities
    information = NetworkInformation(network)
    bits = information.of_features() / log(2.0)
    edges = information.of_edges()
    order = sorted(structure.selected, key=lambda feature: -bits[feature])
    beyond = information.beyond_parents() / log(2.0)
    table = _plain_table("feature", "values", "bits", "", "beyond", "parents, besides the class")
    for right in (1, 2, 4):
        table.columns[right].justify = "right"
    top = bits.max(initial=0.0) or 1.0
    for feature in order[:most]:
        name = structure.names[feature]
        parents = [
            f"{parent} {edges[parent, name] / log(2.0):.3f}" if (parent, name) in edges else parent
            for parent in structure.parents[name]
        ]
        bar = "█" * round(BAR_WIDTH * float(bits[feature] / top))
        cells = [str(int(arities[feature])), f"{bits[feature]:.3f}", bar, f"{beyond[feature]:.3f}"]
        table.add_row(_escape(name), *cells, _escape(", ".join(parents)))
    out = console()
    out.print(table)
    if len(order) > most:
        out.print(f"… {len(order) - most} more; see --json")
    left = [name for name in structure.names if name not in set(structure.features)]
    if left:
        out.print(f"left out: {', '.join(left)}", markup=False)
    out.print("bits: what a feature, alone, says about the class; beyond: what it says when its")
    out.print("parents are known; beside a parent: what that says about the feature, class known")
    out.print(SPOKEN_FOR)


def print_explanation(explanation: Explanation, most: int = 20) -> None:
    """Print the waterfall of log-odds from prior to posterior."""
    from tanager.network.explanation import SPOKEN_FOR

    out = console()
    odds = [
        (f"{label}", float(p))
        for label, p in zip(explanation.classes, explanation.probabilities, strict=True)
    ]
    odds.sort(key=lambda pair: -pair[1])
    shown = ", ".join(f"{label} {p:.3f}" for label, p in odds[:6])
    out.print(f"P(class | row): {shown}", markup=False)
    out.print(
        f"log-odds of {explanation.target} against {explanation.against}, by feature:", markup=False
    )
    table = _plain_table("", "value", "adds", "", "so far", f"P({explanation.target})")
    for right in (2, 4, 5):
        table.columns[right].justify = "right"
    top = max(map(abs, explanation.contributions), default=1.0) or 1.0
    for at, step in enumerate(explanation.steps(most)):
        colour = "green" if step.adds > 0 else "red"
        bar = f"[{colour}]{'█' * round(BAR_WIDTH * abs(step.adds) / top)}[/]" if step.value else ""
        adds = f"{step.adds:+.3f}" if at else ""
        end = (f"{step.log_odds:+.3f}", f"{step.probability:.3f}")
        table.add_row(_escape(step.feature), _escape(step.value), adds, bar, *end)
    out.print(table)
    out.print(explanation.why_silent() or SPOKEN_FOR, markup=False)
    if len(explanation.classes) > 2:
        out.print(f"P: of {explanation.target} against {explanation.against} alone", markup=False)


def _plain_table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
