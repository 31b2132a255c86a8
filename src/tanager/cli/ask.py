"""``tanager ask``, ``sample`` and ``explain``: queries, samples and explanations."""

from __future__ import annotations

import datetime
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tanager.cli.options import AtLeastOne, Data, Model, TableOptions, read_class, read_costs_file
from tanager.cli.output import (
    PICTURES,
    TABLES,
    check_output,
    console,
    open_output,
    plain,
    plain_table,
    print_json,
    say,
    tell,
)
from tanager.codes import Column, MatchedTable, NumericColumn
from tanager.errors import ConfigurationError, DataError, listed, nearest
from tanager.network import Change, Interval, Network, OneOf
from tanager.network.evidence import find_feature
from tanager.network.explanation import Explanation, explain_row
from tanager.network.information import SPOKEN_FOR
from tanager.sources import Source

Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FEATURE]...", help="The features to query, or the target. [default: the target]"
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--given",
        "-g",
        help="Evidence: NAME=VALUE, NAME=A|B for one of several values, NAME=LOW..HIGH for a "
        "number or date above LOW and at most HIGH. Repeat for each feature.",
    ),
]


def ask(
    model: Model,
    targets: Targets = None,
    given: Given = None,
    best: AtLeastOne = None,
    next_: AtLeastOne = None,
    costs: str | None = None,
    budget: float | None = None,
    exact: bool = False,
    adaptive: bool = False,
    sensitivity: bool = False,
    as_json: bool = False,
) -> None:
    """Query the network: any features or the class, given any others.

    Everything that is neither given nor asked about is summed out exactly. With --next, the
    features named are those that can be asked about.

    Options:
        best: Show this many most probable completions instead.
        next_: Plan this many questions to ask next instead.
        costs: --next: a TOML file as for tanager decide, with the [prices] of questions. By
            default, questions are ranked by information gain in bits.
        budget: --next: maximum cost of the plan.
        exact: --next: search all plans exhaustively.
        adaptive: --next: let each question depend on the answers so far.
        sensitivity: For targets NAME=VALUE: how sensitive their probability is to each table entry
            and piece of evidence.
    """
    network = Network.load(model)
    evidence = read_given(network, given or [])
    if (next_ is not None) + (best is not None) + sensitivity > 1:
        raise ConfigurationError("--best, --next and --sensitivity can't be combined: pass one.")
    if next_ is None and (costs is not None or budget is not None or exact or adaptive):
        raise ConfigurationError("--costs, --budget, --exact and --adaptive need --next.")
    if sensitivity and not (targets and all("=" in target for target in targets)):
        raise ConfigurationError("--sensitivity takes a target NAME=VALUE, such as sick=yes.")
    among = targets or None
    if next_ is not None:
        table, prices = read_costs_file(network, costs)
        how: dict[str, Any] = {"method": "exact" if exact else "greedy", "adaptive": adaptive}
        plan: dict[str, Any] = {"prices": prices, "budget": budget, "among": among, "n": next_}
        tell(network.next_question(evidence, table, **plan, **how), as_json=as_json)
    elif sensitivity:
        tell(network.sensitivity(read_given(network, targets or []), evidence), as_json=as_json)
    elif best is not None:
        _print_completions(network.most_probable(evidence, best, of=among), as_json=as_json)
    else:
        answer = network.query(targets or network.codebook.class_name, evidence)
        tell(answer, as_json=as_json)
        if not as_json and answer.log_evidence < -1e-9:
            say(f"log P(given) = {answer.log_evidence:.3f}")


def sample(
    model: Model,
    rows: Annotated[int, typer.Option(min=1)] = 10,
    given: Given = None,
    output: Path | None = None,
    seed: int | None = None,
    force: bool = False,
) -> None:
    """Sample rows from the network, with the training data's columns.

    Options:
        rows (--rows, -n): How many rows.
        output (-o): A .csv, .parquet or .arrow file. [default: CSV to standard output]
        seed: Seed for the draws.
    """
    check_output(output, [model], TABLES, force=force)
    network = Network.load(model)
    table = network.sample(rows, read_given(network, given or []), seed)
    with open_output(output) as write:
        for batch in table.to_batches():
            write(batch)


def read_given(network: Network, given: list[str]) -> dict[str, Any]:
    """Parse the evidence given as options: see `Given`."""
    columns = {column.name: column for column in network.codebook.columns}
    columns[network.codebook.class_name] = network.codebook.target
    evidence: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise ConfigurationError(f"--given {text}: write NAME=VALUE.")
        find_feature(list(columns), name, f"--given {text}")
        if name in evidence:
            raise ConfigurationError(f"--given {text}: {name!r} is given twice.")
        evidence[name] = _read_value(columns[name], value, text)
    return evidence


def _read_value(column: Column, value: str, given: str) -> Any:
    """Parse one value, a set of values or an interval."""
    values: dict[str, Any] = {}
    if not isinstance(column, NumericColumn):
        values = dict(zip(column.labels(), column.values.to_pylist(), strict=False))
    if value.rstrip() in ("", "missing") and value not in values:
        return None
    if isinstance(column, NumericColumn):
        ends = [_number(column, end, given) if end else None for end in value.split("..", 1)]
        return Interval(*ends) if len(ends) == 2 else ends[0]
    parts = [value] if value in values else value.split("|")
    unknown = [part for part in parts if part not in values]
    if unknown:
        hint = f"{nearest(unknown[0], list(values))} Known: {listed(values)}."
        what = f"--given {given}: {column.name!r} has no value {unknown[0]!r}."
        raise ConfigurationError(f"{what}{hint}")
    found = [values[part] for part in parts]
    return found[0] if len(found) == 1 else OneOf(*found)


def _number(column: Any, text: str, given: str) -> Any:
    """Parse a number, date, time of day or duration."""
    readers: dict[str, Any] = {
        "": float,
        "date": datetime.datetime.fromisoformat,
        "time": datetime.time.fromisoformat,
        "duration": lambda seconds: datetime.timedelta(seconds=float(seconds)),
    }
    try:
        return readers[column.temporal](text)
    except ValueError:
        wanted = {"": "a number", "duration": "a number of seconds"}
        kind = wanted.get(column.temporal, f"a {column.temporal} like 2024-12-31 or 23:59")
        raise ConfigurationError(f"--given {given}: {text!r} isn't {kind}.") from None


def _print_completions(found: list[Any], *, as_json: bool) -> None:
    if as_json:
        print_json([{"values": one.values, "probability": one.probability} for one in found])
        return
    names = list(found[0].values) if found else []
    table = plain_table("P", *names, left=range(1, len(names) + 1))
    for one in found:
        table.add_row(f"{one.probability:.3g}", *(plain(one.values[name]) for name in names))
    console().print(table)


def explain(
    model: Model,
    data: Data,
    reading: TableOptions,
    row: int = 0,
    target: str | None = None,
    against: str | None = None,
    to: str | None = None,
    fixed: list[str] | None = None,
    changes: Annotated[int, typer.Option(min=0)] = 3,
    costs: str | None = None,
    output: Path | None = None,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Explain a prediction: each feature's contribution to the log-odds.

    Options:
        row (--row, -r): Row number, counted from 0.
        target (--class): The class to explain. [default: the most probable]
        against: The class to compare it with. [default: the next most probable]
        to: Find the smallest changes that lead to this class, or to this action of --costs,
            instead; 'any': any other class.
        fixed: --to: a feature that can't change; may be repeated.
        changes: --to: maximum number of features to change.
        costs: --to: a TOML file as for tanager decide.
        output (-o): Plot the explanation: .svg, .png or .pdf.
    """
    check_output(output, [model, *data], PICTURES, force=force)
    network = Network.load(model)
    labels = network.codebook.classes.tolist()
    classes = {
        role: labels[read_class(network, text, option)]
        for role, text, option in (("target", target, "--class"), ("against", against, "--against"))
        if text is not None
    }
    one = _read_row(network, reading.open(data), row)
    if to is not None:
        if classes or output is not None:
            raise ConfigurationError("--class, --against and --output can't be combined with --to.")
        table = read_costs_file(network, costs)[0]
        known = map(str, labels if table is None else table.actions)
        wanted = None if to == "any" and to not in known else to
        found = network.nearest(one, wanted, fixed=fixed or (), costs=table, max_changes=changes)
        _print_changes(found, changes, as_json=as_json)
        return
    explanation = explain_row(network, one, **classes)
    if output is not None:
        from tanager.cli.export import save_figure
        from tanager.report import plot_explanation

        save_figure(plot_explanation(explanation), output)
    if as_json:
        print_json(explanation.to_dict())
    else:
        print_explanation(explanation)


def _print_changes(found: list[Change], most: int, *, as_json: bool) -> None:
    """Print the changes that lead to another decision, each with the changed row's probability."""
    if as_json:
        print_json([asdict(change) for change in found])
        return
    lines = [f"{one}\n  P(changed row) / P(row) = {one.ratio:.3g}" for one in found]
    if not found:
        lines.append(f"No change of up to {most} features leads to it.")
    elif not found[0].exact:
        lines.append("Not all combinations were searched: smaller changes may exist.")
    say("\n".join(lines))


def _read_row(network: Network, source: Source, row: int) -> Any:
    matched = MatchedTable.of(network.codebook, source, ignore_extra=True)
    if row < 0:
        raise ConfigurationError(f"--row {row}: rows are counted from 0.")
    before = 0
    for batch in matched.source.batches(matched.features):
        if row < before + batch.num_rows:
            one = batch.slice(row - before, 1)
            return one.rename_columns(list(network.codebook.domain.names))
        before += batch.num_rows
    raise DataError(f"There is no row {row}: the table has {before} rows, counted from 0.")


def print_explanation(explanation: Explanation) -> None:
    """Print the waterfall of log-odds from prior to posterior."""
    lines = [repr(explanation), explanation.why_silent() or SPOKEN_FOR]
    if len(explanation.classes) > 2:
        lines.append(f"P: {explanation.target} against {explanation.against} only")
    say("\n".join(lines))
