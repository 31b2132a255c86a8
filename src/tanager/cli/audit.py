"""``tanager audit``: what the columns of a table are, before anything is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanager.cli.console import (
    Data,
    Decimal,
    Encoding,
    Json,
    NaValues,
    console,
    open_data,
    print_json,
)

if TYPE_CHECKING:
    from tanager.codes.audit import ColumnSheet

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(audit)


def audit(
    data: Data,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column to predict: not judged.")
    ] = None,
    na_values: NaValues = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    as_json: Json = False,
) -> None:
    """Look at the columns of a table: types, gaps, ids, dates and numbers written as text.

    Says what a fit will do about each: read it as dates or numbers, leave it out,
    or take it as it is. Reads up to 100,000 rows of files.
    """
    from tanager.codes.audit import describe_columns

    sheets = describe_columns(open_data(data, na_values, encoding, decimal), target)
    if as_json:
        print_json({"columns": [sheet.to_json() for sheet in sheets]})
        return
    table = _table(("column", "type", "values", "missing", "most frequent", "what a fit does"))
    for sheet in sheets:
        table.add_row(*_cells(sheet))
    out = console()
    out.print(table)
    out.print("To overrule: --categorical COLUMN takes it as it is, --drop COLUMN leaves it out.")


def _cells(sheet: ColumnSheet) -> list[str]:
    from rich.markup import escape

    does = sheet.action if not sheet.reason else f"{sheet.action}: {sheet.reason}"
    if sheet.action not in ("taken as it is", "the target"):
        does = f"[bold]{escape(does)}[/]"
    else:
        does = escape(does)
    return [
        escape(sheet.column) or "(no name)",
        sheet.type,
        f"{sheet.n_values:,}",
        f"{sheet.missing:.1%}" if sheet.missing else "",
        escape(f"{sheet.top} ({sheet.top_share:.0%})"),
        does,
    ]


def _table(columns: tuple[str, ...]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in columns:
        right = name in ("values", "missing")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    return table
