"""A chain of common table expressions, and separate relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tanager.network.exports.dialects import Dialect, name_quoted


class Stages:
    """Collects the stages that a statement's SELECT reads.

    A stage passes on the columns of the previous one by kind, the first letter of their names:
    most engines keep all columns of a stage, whether they are read or not.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._how = dialect.materialized
        self._written: list[str] = []
        self._last = ""
        self._columns: list[str] = []  # of the last stage
        self.names: set[str] = set()

    def add(self, name: str, columns: Mapping[str, str], keep: str = "", source: str = "") -> None:
        """Add a stage from the expressions of its columns; one that adds nothing is omitted."""
        if columns:
            carried = self._kept(keep)
            shown = [*carried, *(f"{what} AS {column}" for column, what in columns.items())]
            self.relate(
                name, "SELECT\n  " + ",\n  ".join(shown) + f"\n FROM {source or self._last}"
            )
            self._last, self._columns = name, [*carried, *columns]

    def unite(self, name: str, other: str, keep: str) -> None:
        """Add a stage with the rows of the last stage and of another with the same columns."""
        self._columns = self._kept(keep)
        shown = ", ".join(self._columns)
        self.relate(name, f"SELECT {shown} FROM {other} UNION ALL SELECT {shown} FROM {self._last}")
        self._last = name

    def relate(self, name: str, text: str) -> None:
        """Add a relation outside the chain."""
        self._written.append(f"{name} AS {self._how}({text})")
        self.names.add(name.partition("(")[0])

    def select(self, columns: Sequence[str], names: Sequence[str]) -> str:
        """Return the statement that selects expressions under names."""
        pairs = zip(columns, names, strict=True)
        shown = ",\n  ".join(f"{what} AS {name_quoted(name)}" for what, name in pairs)
        chain = ",\n".join(self._written)
        return f"WITH\n{chain}\nSELECT\n  {shown}\nFROM {self._last}\n"

    def _kept(self, keep: str) -> list[str]:
        return [column for column in self._columns if column[0] in keep]
