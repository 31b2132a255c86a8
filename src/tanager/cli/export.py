"""``tanager export`` and ``tanager import``: models to and from other programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from tanager.atomic import replacing
from tanager.classifiers import read_network, save
from tanager.cli.console import human_size, report_model
from tanager.cli.options import Force, Json, Model, Texts, read_costs_file
from tanager.cli.output import check_output
from tanager.errors import ConfigurationError
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
    keep: Texts = None
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
    force: Force = False,
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
    if kind == "onnx":
        written = written.SerializeToString()
    with replacing(output) as part:
        part.write_bytes(written.encode("utf-8") if isinstance(written, str) else written)
    print(f"{output}: {human_size(output.stat().st_size)}")
    if kind in _SCORERS:
        reads_text = kind == "sql" and special.dialect != "case"
        for expected, names in expected_columns(network, reads_text=reads_text).items():
            print(f"  {expected}: {', '.join(names)}")


def _choose(output: Path, kind: str | None) -> tuple[str, Callable[..., Any]]:
    """Return a format and its writer: the network's method, or that of an installed package."""
    added = plugin_names("tanager.exports")
    ending = output.suffix.lower()
    if kind is None:
        named = [name for name, (_, *endings) in _FORMATS.items() if ending in endings]
        kind = next(iter(named), ending[1:])
        if not named and kind not in added:
            known = [one for _, *endings in _FORMATS.values() for one in endings]
            allowed = ", ".join([*known, *(f".{name}" for name in added)])
            raise ConfigurationError(
                f"--output {output}: the extension {output.suffix!r} isn't supported. Allowed: "
                f"{allowed}. Or name the format with --format."
            )
    if kind in _FORMATS:
        return kind, getattr(Network, _FORMATS[kind][0])
    write = load_plugin("tanager.exports", kind)
    if write is None:
        names = ", ".join([*_FORMATS, *added])
        raise ConfigurationError(f"--format {kind} isn't valid. Allowed: {names}.")
    return kind, write


def _check_options(kind: str, options: dict[str, Any]) -> None:
    """Reject options that aren't keywords of the format's method."""
    known = {
        name: signature(getattr(Network, method)).parameters
        for name, (method, *_) in _FORMATS.items()
    }
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
    hidden: Texts = None,
    format_: str | None = None,
    force: Force = False,
    as_json: Json = False,
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
    check_output(output, [network], force=force)
    estimator = read_network(network, target=target, hidden=hidden or (), format=format_)
    save(estimator, output)
    report_model(estimator.network_, output, None, as_json=as_json)
