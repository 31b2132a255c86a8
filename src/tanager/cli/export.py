"""Models as files for people and for other programs.

``tanager draw``, ``report`` and ``drift`` write pictures and pages; ``export`` and ``import``
convert models to and from the formats of other programs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from tanager.atomic import replacing
from tanager.cli.options import Data, Existing, Model, TableOptions, given_flags, read_costs_file
from tanager.cli.output import (
    PAGES,
    PICTURES,
    check_output,
    ending,
    report_model,
    tell,
    tell_written,
    watching,
)
from tanager.errors import ConfigurationError, invalid
from tanager.network import Network
from tanager.network.exports.recipe import expected_columns
from tanager.registry import load_plugin, plugin_names

# The network's method that writes each format, and its file extensions.
_FORMATS = {
    "bif": ("to_bif", ".bif"),
    "xmlbif": ("to_xmlbif", ".xml", ".xmlbif", ".bifxml"),
    "dot": ("to_dot", ".dot", ".gv"),
    "sql": ("to_sql", ".sql"),
    "onnx": ("to_onnx", ".onnx"),
    "json": ("to_json", ".json"),
    "javascript": ("to_javascript", ".js", ".cjs"),
    "module": ("to_javascript", ".mjs"),
    "c": ("to_c", ".h", ".c"),
}
_SCORERS = ("sql", "onnx", "json", "javascript", "module", "c")  # which read a table's columns
OF_DATA = ("target", "folds", "refits", "na_values", "encoding", "decimal", "header", "drop")
LOOK = 3  # the exit code of `drift` if anything drifted


def draw(
    context: typer.Context,
    model: Model,
    output: Path,
    table: str | None = None,
    sort: str = "context",
    leaves: bool = False,
    force: bool = False,
) -> None:
    """Plot the network, or one of its probability tables.

    Options:
        output (-o): The output file: .svg, .png or .pdf.
        table: Plot this feature's probability table instead.
        sort: Order of the table's rows: context, parents or center.
        leaves: Draw all leaves instead of folding them.
    """
    if given_flags(context, "sort") and table is None:
        raise ConfigurationError("--sort needs --table FEATURE.")
    if leaves and table is not None:
        raise ConfigurationError(
            "--leaves applies to the network, not to a table. Leave out --leaves or --table."
        )
    hint = " Graphviz: tanager export." if output.suffix == ".dot" else ""
    check_output(output, [model], PICTURES, force=force, hint=hint)
    network = Network.load(model)
    from tanager import report as plots

    if table is None:
        save_figure(plots.plot_network(network, fold=not leaves), output)
    else:
        save_figure(plots.plot_table(network, table, sort=sort), output)
    tell_written(output)


def save_figure(ax: Any, output: Path) -> None:
    """Write the figure of an axis, in the format given by the file's extension."""
    kind = ending(output)[1:]
    signed = {"Software" if kind == "png" else "Creator": "Tanager"}
    with replacing(output) as part:
        ax.figure.savefig(part, format=kind, bbox_inches="tight", dpi=150, metadata=signed)


def report(
    context: typer.Context,
    model: Model,
    reading: TableOptions,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]", help="Rows to evaluate the model on: Parquet, Arrow or CSV."
        ),
    ] = None,
    target: str | None = None,
    html: Path = Path("report.html"),
    card: Existing = None,
    title: str | None = None,
    folds: int | None = None,
    refits: bool = False,
    costs: str | None = None,
    force: bool = False,
) -> None:
    """Write an HTML report of a model.

    The page shows the model's performance, its network and every feature's effect, and answers
    what-if queries. It's one file that loads nothing. With DATA, the model is also evaluated;
    training rows are recognised and predicted by cross-validation. The page holds aggregates,
    never rows.

    Options:
        target (-t): The column of true classes in DATA. [default: the model's target]
        html (--output, -o): The HTML page; with .md, only the model card, as Markdown.
        card: A text file with notes for the model card.
        title: Title of the page.
        folds: Cross-validation folds if DATA is the training data; 0: none. [default: 5, or the
            number of rows]
        refits: Refit on subsets of the columns, to compare with unknown features.
        costs: A TOML file as for tanager decide: the page also shows decisions.
    """
    from tanager.report import write_report

    inputs = [model, *(data or ()), *([card] if card else ())]
    check_output(html, inputs, (*PAGES, ".md"), force=force)
    if not data and (strange := ", ".join(given_flags(context, *OF_DATA))):
        raise ConfigurationError(f"{strange} needs DATA. Pass the rows too, or omit these options.")
    network, table = Network.load(model), reading.open(data) if data else None
    if table is not None and target is None:
        target = network.codebook.target.name
    priced, prices = read_costs_file(network, costs)
    notes = card.read_text(encoding="utf-8") if card is not None else None
    how: dict[str, Any] = {"folds": folds, "with_refits": refits, "costs": priced, "prices": prices}
    if sys.stderr.isatty():
        how["progress"] = lambda text: print(f"tanager: {text} …", file=sys.stderr)
    write_report(model, html, table, target, title=title, notes=notes, **how)
    tell_written(html)


def drift(
    model: Model,
    data: Data,
    reading: TableOptions,
    target: str | None = None,
    output: Path | None = None,
    least: float = 0.02,
    alpha: float = 0.05,
    jobs: int = 1,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Detect drift: compare new rows with a model's training data.

    Reports which columns and dependences changed, whether the class frequencies did (estimated
    without labels) and, with --target, whether the probabilities are still calibrated. DATA is
    read once. The exit code is 3 if anything drifted.

    Options:
        target (-t): The column of true classes, if DATA has one.
        output (-o): Also write an HTML report.
        least: Smallest effect to report, 0 to 1.
        alpha: Significance level: the probability of a false alarm when nothing changed.
    """
    check_output(output, [model, *data], PAGES, force=force)
    network, table = Network.load(model), reading.open(data)
    how: dict[str, Any] = {"alpha": alpha, "least": least, "n_jobs": jobs}
    with watching() as progress:
        found = network.drift(table, target, progress=progress, **how)
    if output is not None:
        from tanager.report import write_drift

        write_drift(found, output, title=f"Drift: {', '.join(map(str, data))}")
    tell(found, as_json=as_json)
    if output is not None and not as_json:
        tell_written(output)
    if found.moved:
        raise typer.Exit(LOOK)


@dataclass(frozen=True)
class ExportOptions:
    """Options specific to some formats.

    Options:
        dialect: SQL: duckdb (default), sqlite, postgres, case.
        table: SQL: the table's name, or schema.table; 'rows' by default.
        keep: SQL: a column to include in the output, such as a key; may be repeated.
        contributions: SQL, ONNX: also output each feature's contribution.
        log_probability: SQL, ONNX: also output log P(row), which is low for unusual rows.
        complete_rows: Don't support unknown values; the code gets shorter and simpler.
        float32: ONNX: numbers in single precision.
        opset: ONNX: 18 or later.
        missing_text: ONNX: the text for missing; empty by default.
        costs: SQL, ONNX, JSON, JavaScript, C: also output decisions, as tanager decide does.
        name: C: prefix of all names.
    """

    dialect: str | None = None
    table: str | None = None
    keep: list[str] | None = None
    contributions: bool = False
    log_probability: bool = False
    complete_rows: bool = False
    float32: bool = False
    opset: int | None = None
    missing_text: str | None = None
    costs: str | None = None
    name: str | None = None

    def given(self) -> dict[str, Any]:
        """Return the options that were given, named as the network's methods name them."""
        given = asdict(self).items()
        found = {name: value for name, value in given if value is not None and value is not False}
        if found.pop("complete_rows", False):
            found["unknowns"] = False
        if self.table is not None:
            found["table"] = self.table.split(".")
        return found


def export(
    model: Model,
    output: Path,
    special: ExportOptions,
    format_: str | None = None,
    force: bool = False,
) -> None:
    """Export a model to SQL, ONNX, JSON, JavaScript, C, BIF or Graphviz.

    The exported code returns the same probabilities as predict, also for unknown values. Prints
    the type that it expects for each column.

    Options:
        output (-o): The output file. Its extension determines the format: .sql, .onnx, .json, .js,
            .mjs, .h, .bif, .xml or .dot.
        format_: Overrides the extension: bif, xmlbif, dot, sql, onnx, json, javascript, module, c.
    """
    (kind, write), options = _choose(output, format_), special.given()
    check_output(output, [model], force=force)
    _check_options(kind, options)
    network = Network.load(model)
    if special.costs is not None:
        options["costs"] = read_costs_file(network, special.costs)[0]
    if kind == "module":
        options["kind"] = kind
    written: Any = write(network, **options)
    written = written.SerializeToString() if kind == "onnx" else written
    with replacing(output) as part:
        part.write_bytes(written.encode("utf-8") if isinstance(written, str) else written)
    tell_written(output)
    if kind in _SCORERS:
        reads_text = kind == "sql" and special.dialect != "case"
        for expected, names in expected_columns(network, reads_text=reads_text).items():
            print(f"  {expected}: {', '.join(names)}")


def _choose(output: Path, kind: str | None) -> tuple[str, Callable[..., Any]]:
    """Return a format and its writer: the network's method, or that of an installed package."""
    added = plugin_names("tanager.exports")
    kinds = {end: name for name, (_, *endings) in _FORMATS.items() for end in endings}
    kinds = {f".{name}": name for name in added} | kinds
    if kind is None:
        kind = kinds.get(output.suffix.lower())
        if kind is None:
            raise ConfigurationError(
                f"--output {output}: the extension {output.suffix!r} isn't supported. Allowed: "
                f"{', '.join(kinds)}. Or name the format with --format."
            )
    if kind in _FORMATS:
        return kind, getattr(Network, _FORMATS[kind][0])
    write = load_plugin("tanager.exports", kind)
    if write is None:
        raise invalid("format", kind, ", ".join([*_FORMATS, *added]))
    return kind, write


def _check_options(kind: str, options: dict[str, Any]) -> None:
    """Reject options that aren't keywords of the format's method."""
    ways = {name: getattr(Network, method) for name, (method, *_) in _FORMATS.items()}
    known = {name: signature(way).parameters for name, way in ways.items()}
    for option in options:
        if option not in known.get(kind, ()):
            flag = "complete-rows" if option == "unknowns" else option.replace("_", "-")
            owners = ", ".join(name for name, keywords in known.items() if option in keywords)
            raise ConfigurationError(
                f"--{flag} can't be used with the format {kind}; it is for {owners}. Leave it out."
            )


def import_network(
    network: Annotated[
        Path,
        typer.Argument(
            help="A network in BIF, XMLBIF, GeNIe's XDSL or Hugin's NET: .bif, .xml, .xmlbif, "
            ".bifxml, .xdsl or .net, optionally compressed as .gz."
        ),
    ],
    target: str,
    output: Path,
    hidden: list[str] | None = None,
    format_: str | None = None,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Import another program's network as a classifier.

    It predicts one of the network's nodes from the others. The joint distribution is kept
    exactly; columns that a table lacks are summed out.

    Options:
        target (-t): The node to predict.
        output (-o): The model file.
        hidden: An unobserved node to marginalize out; may be repeated.
        format_: Overrides the extension: bif, xmlbif, xdsl or net.
    """
    from tanager.classifiers.files import read_network, save

    check_output(output, [network], force=force)
    estimator = read_network(network, target=target, hidden=hidden or (), format=format_)
    save(estimator, output)
    report_model(estimator.network_, output, None, as_json=as_json)
