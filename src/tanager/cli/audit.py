"""``tanager audit``: what the columns of a table are, before anything is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tanager.cli.console import console, plain, plain_table, print_json
from tanager.cli.options import (
    Categorical,
    Data,
    Dates,
    Decimal,
    Drop,
    Encoding,
    Header,
    Json,
    NaValues,
    open_data,
)
from tanager.errors import ConfigurationError, listed

if TYPE_CHECKING:
    from tanager.codes.audit import ColumnSheet

__all__ = ["audit"]


def audit(
    data: Data,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column to predict: not judged.")
    ] = None,
    na_values: NaValues = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    header: Header = None,
    drop: Drop = None,
    categorical: Categorical = None,
    dates: Dates = None,
    as_json: Json = False,
) -> None:
    """Look at the columns of a table: types, gaps, ids, dates and numbers written as text.

    Says what a fit will do about each: read it as dates or numbers, leave it out,
    or take it as it is. Reads up to 100,000 rows of files.
    """
    from tanager.codes.audit import describe_columns
    from tanager.codes.dates import as_date_styles, read_dates

    table = open_data(data, na_values, encoding, decimal, drop, header)
    if target is not None and target not in table.names:
        raise ConfigurationError(
            f"--target names {target!r}, which the table does not have. "
            f"Its columns are: {listed(table.names)}."
        )
    features = [name for name in table.names if name != target]
    taken = features if categorical == ["all"] else categorical or []
    strange = [name for name in taken if name not in features]
    if strange:
        raise ConfigurationError(
            f"--categorical names {listed(strange)}, which is not a feature. "
            f"The features are: {listed(features)}."
        )
    table = table.as_text(as_date_styles(dates))
    asked = read_dates(table, features, dates)
    sheets = describe_columns(table, target, categorical=taken, dates=asked)
    if as_json:
        print_json({"columns": [sheet.to_dict() for sheet in sheets]})
        return
    columns = ("column", "type", "values", "missing", "most frequent", "what a fit does")
    shown = plain_table(*columns, left=(0, 1, 4, 5))
    for sheet in sheets:
        shown.add_row(*_cells(sheet))
    out = console()
    out.print(shown)
    out.print(
        "To overrule: --categorical COLUMN takes it as it is, --dates COLUMN as dates, "
        "--drop COLUMN leaves it out."
    )


def _cells(sheet: ColumnSheet) -> list[str]:
    does = sheet.action if not sheet.reason else f"{sheet.action}: {sheet.reason}"
    if sheet.action not in ("taken as it is", "the target"):
        does = f"[bold]{plain(does)}[/]"
    else:
        does = plain(does)
    return [
        plain(sheet.column) or "(no name)",
        sheet.type,
        f"{sheet.n_values:,}",
        f"{sheet.missing:.1%}" if sheet.missing else "",
        plain(f"{sheet.top} ({sheet.top_share:.0%})"),
        does,
    ]
