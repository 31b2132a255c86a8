"""``tanager export`` and ``tanager import``: models to and from other programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from tanager.atomic import replacing
from tanager.classifiers import read_network, save
from tanager.cli.console import human_size, print_json
from tanager.cli.options import Force, Json, Model, Texts, read_costs_file
from tanager.cli.output import check_output
from tanager.errors import ConfigurationError
from tanager.network import Network
from tanager.network.exports.recipe import expected_columns
from tanager.registry import load_plugin, plugin_names


class _Format(NamedTuple):
    """An export format: the network's method that writes it, its file extensions and options."""

    method: str
    endings: tuple[str, ...]
    options: tuple[str, ...] = ()
    write: Callable[[Network], str | bytes] | None = None  # of an installed package


_FORMATS = {
    "bif": _Format("to_bif", (".bif",)),
    "xmlbif": _Format("to_xmlbif", (".xml", ".xmlbif", ".bifxml")),
    "dot": _Format("to_dot", (".dot", ".gv")),
    "sql": _Format(
        "to_sql",
        (".sql",),
        ("dialect", "table", "keep", "contributions", "unknowns", "costs", "log_probability"),
    ),
    "onnx": _Format(
        "to_onnx",
        (".onnx",),
        (
            *("opset", "float32", "contributions", "unknowns", "missing_text"),
            *("costs", "log_probability"),
        ),
    ),
    "json": _Format("to_json", (".json",), ("unknowns", "costs")),
    "javascript": _Format("to_javascript", (".js", ".cjs"), ("unknowns", "costs")),
    "module": _Format("to_javascript", (".mjs",), ("unknowns", "costs")),
    "c": _Format("to_c", (".h", ".c"), ("name", "unknowns", "costs")),
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
    (kind, known), options = _choose(output, format_), special.given()
    check_output(output, [model], force=force)
    _check_options(kind, known, options)
    network = Network.load(model)
    if special.costs is not None:
        options["costs"] = read_costs_file(network, special.costs)[0]
    if kind == "module":
        options["kind"] = kind
    written: Any = (
        known.write(network) if known.write else getattr(network, known.method)(**options)
    )
    if kind == "onnx":
        written = written.SerializeToString()
    with replacing(output) as part:
        part.write_bytes(written.encode("utf-8") if isinstance(written, str) else written)
    print(f"{output}: {human_size(output.stat().st_size)}")
    if kind in _SCORERS:
        reads_text = kind == "sql" and special.dialect != "case"
        for expected, names in expected_columns(network, reads_text=reads_text).items():
            print(f"  {expected}: {', '.join(names)}")


def _choose(output: Path, kind: str | None) -> tuple[str, _Format]:
    """Return a format by its name or its extension, built-in or added by an installed package."""
    added = plugin_names("tanager.exports")
    ending = output.suffix.lower()
    if kind is None:
        named = [name for name, known in _FORMATS.items() if ending in known.endings]
        kind = next(iter(named), ending[1:])
        if not named and kind not in added:
            known = [*(e for one in _FORMATS.values() for e in one.endings)]
            allowed = ", ".join([*known, *(f".{name}" for name in added)])
            raise ConfigurationError(
                f"--output {output}: the extension {output.suffix!r} isn't supported. Allowed: "
                f"{allowed}. Or name the format with --format."
            )
    if kind in _FORMATS:
        return kind, _FORMATS[kind]
    write = load_plugin("tanager.exports", kind)
    if write is None:
        names = ", ".join([*_FORMATS, *added])
        raise ConfigurationError(f"--format {kind} isn't valid. Allowed: {names}.")
    return kind, _Format("", (f".{kind}",), (), write)


def _check_options(kind: str, wanted: _Format, options: dict[str, Any]) -> None:
    for option in options:
        if option not in wanted.options:
            flag = "complete-rows" if option == "unknowns" else option.replace("_", "-")
            owners = [name for name, known in _FORMATS.items() if option in known.options]
            raise ConfigurationError(
                f"--{flag} can't be used with the format {kind}; it is for {', '.join(owners)}. "
                "Leave it out."
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
    n_bytes = output.stat().st_size
    if as_json:
        structure = estimator.network_.structure
        print_json(
            {
                "model": str(output),
                "bytes": n_bytes,
                "classes": [str(label) for label in estimator.classes_],
                "features": len(structure.selected),
                "parents": {name: list(above) for name, above in structure.parents.items()},
            }
        )
        return
    print(f"{output}: {estimator.network_.summary()}; {human_size(n_bytes)}")
