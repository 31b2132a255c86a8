"""The options that commands share: one name, one help, one way to read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tanager.errors import ConfigurationError, DataError, TanagerError, listed, nearest

if TYPE_CHECKING:
    from tanager.network import Network
    from tanager.sources import Source

__all__ = [
    "AUDIT_REMEDY",
    "COLUMNS",
    "READING",
    "RUNNING",
    "Audit",
    "Balanced",
    "Bins",
    "Categorical",
    "Data",
    "Dates",
    "Decimal",
    "Drop",
    "Encoding",
    "Header",
    "Json",
    "Missing",
    "Model",
    "Monotonic",
    "NaValues",
    "Ordered",
    "Parameters",
    "Processes",
    "Structure",
    "TableFolder",
    "Target",
    "Threads",
    "given_flags",
    "open_data",
    "read_bins",
    "read_categorical",
    "read_class",
    "written_here",
]

# The boxes in which a command's help has its options.
READING = "How the table is read"
COLUMNS = "What its columns are"
LEARNING = "What is learned"
RUNNING = "How it runs"

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
Threads = Annotated[
    int, typer.Option("--jobs", "-j", help="Threads; -1 is one a core.", rich_help_panel=RUNNING)
]

Processes = Annotated[
    int, typer.Option("--jobs", "-j", help="Processes; -1 is one a core.", rich_help_panel=RUNNING)
]
TableFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder of tables; else TANAGER_DATA.")
]

# How a table is read.
NaValues = Annotated[
    list[str] | None,
    typer.Option(
        "--na-values",
        help="A text that means missing, as '?'; may be repeated.",
        rich_help_panel=READING,
    ),
]
Encoding = Annotated[
    str, typer.Option("--encoding", help="CSV: such as latin-1 or cp1252.", rich_help_panel=READING)
]
Decimal = Annotated[
    str, typer.Option("--decimal", help="CSV: the decimal mark, . or ,", rich_help_panel=READING)
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="CSV: whether the first line names the columns; else unless it is all numbers.",
        rich_help_panel=READING,
    ),
]

# What its columns are.
Target = Annotated[
    str, typer.Option("--target", "-t", help="The column to predict.", rich_help_panel=COLUMNS)
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", help="A column to leave out; may be repeated.", rich_help_panel=COLUMNS),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical",
        help="A column to take as categories, as it is; may be repeated. Or: all.",
        rich_help_panel=COLUMNS,
    ),
]
Dates = Annotated[
    list[str] | None,
    typer.Option(
        "--dates",
        help="A column of text that is dates; may be repeated. In doubt with how they are "
        "written: --dates when=%d/%m/%Y",
        rich_help_panel=COLUMNS,
    ),
]
Ordered = Annotated[
    list[str] | None,
    typer.Option(
        "--ordered",
        help="A column's categories from the first to the last: size=S,M,L; may be repeated.",
        rich_help_panel=COLUMNS,
    ),
]
Monotonic = Annotated[
    list[str] | None,
    typer.Option(
        "--monotonic",
        help="A column along which the second class rises or falls: age=+1, price=-1; or, with "
        "more classes, age=high:+1. May be repeated. For layered parameters.",
        rich_help_panel=COLUMNS,
    ),
]

# What is learned.
Structure = Annotated[
    str,
    typer.Option(
        "--structure",
        "-s",
        help="Which features condition which: auto, naive, tan, kdb(k=2), …",
        rich_help_panel=LEARNING,
    ),
]
Parameters = Annotated[
    str,
    typer.Option(
        "--parameters",
        "-p",
        help="The probability tables: layered, hdp, m-estimate(m=1), …",
        rich_help_panel=LEARNING,
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        "--missing",
        help="value: a value of its own. marginalize: summed out.",
        rich_help_panel=LEARNING,
    ),
]
Bins = Annotated[
    str,
    typer.Option(
        "--bins",
        help="How numbers are cut: auto, mdl, fine, or also into so many equal bins.",
        rich_help_panel=LEARNING,
    ),
]
Balanced = Annotated[
    bool,
    typer.Option(
        "--balanced", help="Let every class count alike in the prior.", rich_help_panel=LEARNING
    ),
]
Audit = Annotated[
    bool,
    typer.Option(
        help="Read dates and numbers written as text; leave out ids.", rich_help_panel=LEARNING
    ),
]


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
    "To take a column as categories, give it as --categorical; to take all as they are, pass "
    "--no-audit. All findings: tanager audit DATA."
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


def open_data(
    data: list[str],
    na_values: list[str] | None,
    encoding: str,
    decimal: str,
    drop: list[str] | None = None,
    header: bool | None = None,
    drop_missing: Sequence[str] = (),
) -> Source:
    """Open the table that a command was given."""
    from tanager.sources import open_table

    return open_table(
        list(data),
        na_values=na_values or (),
        encoding=encoding,
        decimal=decimal,
        header=header,
        drop=drop or (),
        drop_missing=drop_missing,
    )


def read_categorical(names: list[str] | None) -> str | list[str]:
    """Return what ``--categorical`` says, as `BayesNetClassifier` takes it."""
    if not names:
        return "from_dtype"
    return "all" if names == ["all"] else names


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


def read_bins(text: str) -> str | int:
    """Return what ``--bins`` says."""
    return int(text) if text.isdecimal() else text
