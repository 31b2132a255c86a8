"""The options that commands share: one name, one help, one way to read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tanager.errors import ConfigurationError, DataError, TanagerError, listed, nearest

if TYPE_CHECKING:
    from tanager.network import Costs, Network
    from tanager.sources import Source

# The boxes in which a command's help has its options.
reading_option = partial(typer.Option, rich_help_panel="Reading the table")
column_option = partial(typer.Option, rich_help_panel="Columns")
learning_option = partial(typer.Option, rich_help_panel="Learning")
running_option = partial(typer.Option, rich_help_panel="Execution")

Texts = list[str] | None

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.", exists=True)]
Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Parquet, Arrow, CSV, JSON lines or Excel: files, a glob, a folder, a URL, or - for "
        "standard input.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Threads = Annotated[int, running_option("--jobs", "-j", help="Threads; -1 is one per core.")]
Processes = Annotated[int, running_option("--jobs", "-j", help="Processes; -1 is one per core.")]
TableFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder of tables. [default: $TANAGER_DATA]")
]

# How a table is read.
NaValues = Annotated[
    Texts, reading_option(help="A text that means missing, such as '?'; may be repeated.")
]
Encoding = Annotated[str, reading_option(help="CSV: the encoding, such as latin-1 or cp1252.")]
Decimal = Annotated[str, reading_option(help="CSV: the decimal mark, . or ,")]
Header = Annotated[
    bool | None,
    reading_option(
        help=(
            "CSV: whether the first line holds column names. [default: yes, unless it's all "
            "numbers]"
        )
    ),
]

# What its columns are.
Target = Annotated[str, column_option("--target", "-t", help="The column to predict.")]
Drop = Annotated[Texts, column_option(help="A column to leave out; may be repeated.")]
Categorical = Annotated[
    Texts,
    column_option(help="A column to treat as categorical; may be repeated. 'all': every column."),
]
Dates = Annotated[
    Texts,
    column_option(
        help="A text column to read as dates; may be repeated. To give the format: --dates "
        "when=%d/%m/%Y"
    ),
]
Ordered = Annotated[
    Texts,
    column_option(help="A column's categories in order: size=S,M,L; may be repeated."),
]
Monotonic = Annotated[
    Texts,
    column_option(
        help="A monotonic effect: the probability of the second class rises (age=+1) or falls "
        "(price=-1) with the column; with more classes, age=high:+1. May be repeated. Layered "
        "parameters only."
    ),
]

# What is learned.
Structure = Annotated[
    str,
    learning_option(
        "--structure", "-s", help="Which features condition which: auto, naive, tan, kdb(k=2), …"
    ),
]
Parameters = Annotated[
    str,
    learning_option(
        "--parameters", "-p", help="The probability tables: layered, hdp, m-estimate(m=1), …"
    ),
]
Missing = Annotated[
    str,
    learning_option(
        help="How to treat missing values: value (as a separate value) or marginalize."
    ),
]
Bins = Annotated[
    str,
    learning_option(
        help="How to discretize numbers: auto, mdl, fine, or a number of equal-frequency bins."
    ),
]
Balanced = Annotated[
    bool, learning_option("--balanced", help="Give all classes the same prior probability.")
]
Audit = Annotated[
    bool, learning_option(help="Read dates and numbers stored as text, and leave out ids.")
]


@dataclass(frozen=True)
class TableOptions:
    """How a command reads the table that it was given."""

    na_values: NaValues = None
    encoding: Encoding = "utf-8"
    decimal: Decimal = "."
    header: Header = None
    drop: Drop = None

    def open(self, data: Sequence[str], drop_missing: Sequence[str] = ()) -> Source:
        """Open the table, without the rows where a column of `drop_missing` is missing."""
        from tanager.sources import open_table

        return open_table(
            list(data),
            na_values=self.na_values or (),
            encoding=self.encoding,
            decimal=self.decimal,
            header=self.header,
            drop=self.drop or (),
            drop_missing=drop_missing,
        )


@dataclass(frozen=True)
class ColumnOptions:
    """Options that say how to read the columns."""

    categorical: Categorical = None
    dates: Dates = None
    ordered: Ordered = None
    monotonic: Monotonic = None


def spread_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with one option per field in place of each parameter that is a dataclass."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    if not groups:
        return command

    @wraps(command)
    def run(**given: Any) -> Any:
        for name, group in groups.items():
            options = {option.name: given.pop(option.name) for option in fields(group)}
            given[name] = group(**options)
        return command(**given)

    found: list[Parameter] = []
    for own in signature(command).parameters.values():
        if own.name in groups:
            kinds = get_type_hints(groups[own.name], include_extras=True)
            found += [
                Parameter(o.name, own.KEYWORD_ONLY, default=o.default, annotation=kinds[o.name])
                for o in fields(groups[own.name])
            ]
        else:
            found.append(own.replace(kind=own.KEYWORD_ONLY, annotation=hints[own.name]))
    run.__signature__ = Signature(found)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in found}
    return run


# Parameters of the library whose options are called otherwise here.
OPTIONS = {
    "categorical_features": "--categorical",
    "loadable_rows": "--rows",
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "sample_weight": "--weight",
    "unknowns": "--complete-rows",
}
AUDIT_REMEDY = (
    "To treat a column as categorical, pass --categorical COLUMN; to turn this off, pass "
    "--no-audit. For all findings, run tanager audit DATA."
)


def written_here(error: TanagerError) -> str:
    """Return an error's message with the option in place of the parameter that it's about.

    >>> written_here(ConfigurationError("n_jobs=0 has no meaning.", parameter="n_jobs"))
    '--jobs 0 has no meaning.'
    """
    name, text = error.parameter, str(error)
    if name is None:
        return text
    option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
    rest = text.removeprefix(name)
    if rest == text:
        return f"{option}: {text}"
    return f"{option} {rest[1:]}" if rest.startswith("=") else f"{option}{rest}"


def given_flags(context: typer.Context, *names: str) -> list[str]:
    """Return which of these options were given on the command line, as they are written there."""
    written = {option.name: max(option.opts, key=len) for option in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    return [written[n] for n, source in sources.items() if source and source.name == "COMMANDLINE"]


def read_class(network: Network, text: str, option: str) -> int:
    """Return the place of the class that an option names.

    It is matched as labels of a table are: ``1`` names the class 1.0, ``true`` the class True.
    """
    try:
        return int(network.codebook.encode_labels([text])[0])
    except DataError as error:
        known = [str(label) for label in network.codebook.classes]
        raise ConfigurationError(
            f"{option} {text!r} is not one of the classes {listed(known)}.{nearest(text, known)}"
        ) from error


def read_costs_file(network: Network, path: str) -> tuple[Costs, dict[str, float]]:
    """Return what actions cost, and the prices of questions: the tables of a TOML file."""
    import tomllib

    from tanager.network.decisions import read_costs

    if path in ("absolute", "squared"):
        return read_costs(network, path), {}
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--costs {path} isn't a valid TOML file: {error}.") from error
    if "costs" not in tables or set(tables) - {"costs", "prices"}:
        raise ConfigurationError(
            f"--costs {path} has the tables {listed(tables)}. Needed: [costs], one line per action "
            "as treat = {sick = 0, well = 20}; allowed: [prices] of questions."
        )
    return read_costs(network, tables["costs"]), tables.get("prices", {})


def read_bins(text: str) -> str | int:
    """Return what ``--bins`` says."""
    return int(text) if text.isdecimal() else text
