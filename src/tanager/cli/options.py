"""The options that commands share, and how a command's docstring declares its own.

A command is a function with plain annotations. Its docstring, and those of the dataclasses it takes
options from, list the options under headings, which become the titles of boxes in ``--help``::

    Options:
        target (--class): The class to explain. [default: the most probable]
        output (-o): The file to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from tanager.errors import ConfigurationError, DataError, TanagerError, listed, nearest

if TYPE_CHECKING:
    from tanager.network import Network
    from tanager.sources import Source

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.", exists=True)]
Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Parquet, Arrow, CSV, JSON lines or Excel: files, a glob, a folder, a URL, or - for "
        "standard input.",
    ),
]
Existing = Annotated[Path | None, typer.Option(exists=True)]
AtLeastOne = Annotated[int | None, typer.Option(min=1)]
Processes = Annotated[
    int,
    typer.Option("--jobs", "-j", help="Processes; -1: one per core.", rich_help_panel="Execution"),
]

# Options that mean the same in all commands but plug-ins, declared like a command's own.
SHARED = """
Options:
    as_json (--json): Print JSON for scripts.
    force: Overwrite an existing file.
Execution:
    jobs (-j): Threads; -1: one per core.
"""


@dataclass(frozen=True)
class TableOptions:
    """How a command reads its input table.

    Reading the table:
        na_values: A text that means missing, such as '?'; may be repeated.
        encoding: CSV: the encoding, such as latin-1 or cp1252.
        decimal: CSV: the decimal mark, . or ,
        header: CSV: whether the first line holds column names. [default: yes, unless it's all
            numbers]
    Columns:
        drop: A column to leave out; may be repeated.
    """

    na_values: list[str] | None = None
    encoding: str = "utf-8"
    decimal: str = "."
    header: bool | None = None
    drop: list[str] | None = None

    def open(self, data: Sequence[str], drop_missing: Sequence[str] = ()) -> Source:
        """Open the table, without the rows that have no value in a column of `drop_missing`."""
        from tanager.sources import open_table

        options = {field.name: getattr(self, field.name) for field in fields(TableOptions)}
        given = {name: value for name, value in options.items() if value is not None}
        return open_table(list(data), drop_missing=drop_missing, **given)


@dataclass(frozen=True)
class ReadingAs:
    """Columns to read as another type than the one they're stored with.

    Columns:
        categorical: A column to treat as categorical; may be repeated. 'all': every column.
        dates: A text column to read as dates; may be repeated. To give the format: --dates
            when=%d/%m/%Y
    """

    categorical: list[str] | None = None
    dates: list[str] | None = None


@dataclass(frozen=True)
class ColumnOptions(ReadingAs):
    """Prior knowledge about the columns.

    Columns:
        ordered: A column's categories in order: size=S,M,L; may be repeated.
        monotonic: A monotonic effect: the probability of the second class rises (age=+1) or falls
            (price=-1) with the column; with more classes, age=high:+1. May be repeated. Layered
            parameters only.
        classes_ordered: All classes from lowest to highest, separated by commas: low,mid,high.
    Learning:
        bins: How to discretize numbers: auto, mdl, fine, or a number of equal-frequency bins.
    """

    ordered: list[str] | None = None
    monotonic: list[str] | None = None
    classes_ordered: str | None = None
    bins: str = "auto"

    @property
    def classes(self) -> list[str]:
        """The ordered classes, or none."""
        return self.classes_ordered.split(",") if self.classes_ordered else []

    @property
    def binning(self) -> str | int:
        """The option `bins` as the library takes it."""
        return int(self.bins) if self.bins.isdecimal() else self.bins


@dataclass(frozen=True)
class LearningOptions:
    """Which classifier to learn.

    Learning:
        structure (-s): Which features condition which: auto, naive, tan, kdb(k=2), …
        parameters (-p): The probability tables: layered, hdp, m-estimate(m=1), …
        missing: How to treat missing values: value (as a separate value) or marginalize.
        balanced: Give all classes the same prior probability.
        audit: Read dates and numbers stored as text, and leave out ids.
    """

    structure: str = "auto"
    parameters: str = "layered"
    missing: str = "value"
    balanced: bool = False
    audit: bool = True


def as_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command whose options are those the docstrings declare, one per dataclass field."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    text, own = _read_docstring(function.__doc__ or "")
    found: list[Parameter] = []
    for name, given in signature(function).parameters.items():
        options, kinds, declared = [(name, given.default)], hints, own
        ours = groups.get(name, function).__module__.startswith("tanager.cli.")
        if name in groups:
            kinds, declared = get_type_hints(groups[name], include_extras=True), {}
            options = [(field.name, field.default) for field in fields(groups[name])]
            for base in groups[name].__mro__[::-1]:
                declared |= _read_docstring(base.__doc__ or "")[1]
        for option, default in options:
            kind = _option(option, kinds[option], default, declared, ours=ours)
            found.append(Parameter(option, given.KEYWORD_ONLY, default=default, annotation=kind))

    @wraps(function)
    def run(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return function(**given)

    run.__doc__ = text
    run.__signature__ = Signature(found)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in found}
    return run


def _read_docstring(text: str) -> tuple[str, dict[str, tuple[str, str, str]]]:
    """Return the text before the lists of options, and each option's flags, help and box."""
    head, *boxes = re.split(r"^([A-Z][\w ]*):\n(?=    )", cleandoc(text), flags=re.MULTILINE)
    entry = re.compile(r"^    (\w+)(?: \((.*?)\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)
    paragraphs = head.strip().split("\n\n")
    # The terminal breaks lines of prose; indented lines and lists keep theirs.
    prose = [p if re.search(r"^[ -]", p, re.M) else " ".join(p.split()) for p in paragraphs]
    return "\n\n".join(prose), {
        name: (flags, " ".join(words.split()), box)
        for box, entries in zip(boxes[::2], boxes[1::2], strict=True)
        for name, flags, words in entry.findall(entries)
    }


def _option(
    name: str, hint: Any, default: Any, declared: dict[str, tuple[str, str, str]], *, ours: bool
) -> Any:
    """Return the annotation of an option, with the brackets in its help escaped for Rich."""
    own = [one for one in get_args(hint)[1:] if isinstance(one, OptionInfo | ArgumentInfo)]
    option = copy(own[0]) if own else typer.Option()
    if ours and not own:  # a plug-in may mean something else by the same name
        declared = _read_docstring(SHARED)[1] | declared
    if name in declared:
        flags, option.help, box = declared[name]
        names = [flag for flag in flags.split(", ") if flag]
        if not any(flag.startswith("--") for flag in names):
            long = f"--{name.strip('_').replace('_', '-')}"
            both = default is not False and bool in (hint, *get_args(hint))
            names.insert(0, f"{long}/--no-{long[2:]}" if both else long)
        option.param_decls, option.rich_help_panel = names, None if box == "Options" else box
    elif not own:
        return hint
    option.help = (option.help or "").replace("[", r"\[")
    return Annotated[get_args(hint)[0] if own else hint, option]


# Parameters of the library whose options have another name on the command line.
OPTIONS = {
    "categorical_features": "--categorical",
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
    """Return an error's message with the command-line option in place of the parameter.

    >>> written_here(ConfigurationError("n_jobs=0 has no meaning.", parameter="n_jobs"))
    '--jobs 0 has no meaning.'

    Options of a learner stay as they are: they're part of ``--structure`` or ``--parameters``.
    """
    name, text = error.parameter, str(error)
    if name is None or text.partition(": ")[2].startswith(f"{name}="):
        return text
    option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
    rest = text.removeprefix(name)
    if rest == text:
        return f"{option}: {text}"
    return f"{option} {rest[1:]}" if rest.startswith("=") else f"{option}{rest}"


def given_flags(context: typer.Context, *names: str) -> list[str]:
    """Return which of these options were given on the command line, as flags."""
    written = {option.name: max(option.opts, key=len) for option in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    return [written[n] for n, source in sources.items() if source and source.name == "COMMANDLINE"]


def read_class(network: Network, text: str, option: str) -> int:
    """Return the index of the class that an option names, matched like the labels of a table."""
    try:
        return int(network.codebook.encode_labels([text])[0])
    except DataError as error:
        known = [str(label) for label in network.codebook.classes]
        raise ConfigurationError(
            f"{option} {text!r} is not one of the classes {listed(known)}.{nearest(text, known)}"
        ) from error


def read_costs_file(network: Network, path: str | None) -> tuple[Any, dict[str, float]]:
    """Read the costs of actions and the prices of questions from a TOML file, if there is one."""
    import tomllib

    from tanager.network.decisions import read_costs

    if path in (None, "absolute", "squared"):
        return None if path is None else read_costs(network, path), {}
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
