"""A chain of common table expressions, each of which carries what later ones read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tanager.network.exports.dialects import Dialect, name_quoted


@dataclass
class _Stage:
    name: str
    source: str = ""  # if it isn't the stage before
    union: str = ""  # an earlier stage, whose rows it has too
    text: str = ""  # all of it, of one that isn't a chain's link
    added: dict[str, str] = field(default_factory=dict)  # columns: names and expressions
    reads: set[str] = field(default_factory=set)


class Stages:
    """Collects stages: `add` gives the one opened last a column, `read` notes what it needs."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._stages: list[_Stage] = []

    @property
    def names(self) -> set[str]:
        """What the statement calls its stages."""
        return {stage.name.partition("(")[0] for stage in self._stages}

    def open(self, name: str, source: str = "", *, union: str = "") -> None:
        """Begin a stage."""
        self._stages.append(_Stage(name, source, union))

    def relate(self, name: str, text: str, reads: Iterable[str] = ()) -> None:
        """Add a relation beside the chain, which reads some columns of the stage before it."""
        self._stages.append(_Stage(name, text=text, reads=set(reads)))

    def add(self, name: str, what: str) -> None:
        """Add a column: its name and its expression."""
        self._stages[-1].added[name] = what

    def read(self, name: str) -> str:
        """Return a column of an earlier stage."""
        self._stages[-1].reads.add(name)
        return name

    def select(self, columns: Sequence[str], names: Sequence[str]) -> str:
        """Return the statement; the stage opened last is its SELECT, of expressions by names."""
        place = {name: None for stage in self._stages for name in stage.added}
        needed: set[str] = set()
        carried: list[list[str]] = []
        for stage in reversed(self._stages):
            needed -= stage.added.keys()
            carried.append([name for name in place if name in needed])
            needed |= stage.reads
        written, before = [], ""
        for stage, kept in zip(self._stages[:-1], reversed(carried[1:]), strict=True):
            if stage.text:
                written.append(f"{stage.name} AS {self._dialect.materialized}({stage.text})")
            elif stage.added or stage.source or stage.union:
                written.append(self._write(stage, kept, stage.source or before))
                before = stage.name
        pairs = zip(columns, names, strict=True)
        shown = ",\n  ".join(f"{what} AS {name_quoted(name)}" for what, name in pairs)
        chain = ",\n".join(written)
        return f"WITH\n{chain}\nSELECT\n  {shown}\nFROM {before}\n"

    def _write(self, stage: _Stage, carried: list[str], source: str) -> str:
        if stage.union:
            names = ", ".join(carried)
            parts = f"SELECT {names} FROM {stage.union} UNION ALL SELECT {names} FROM {source}"
            return f"{stage.name} AS ({parts})"
        columns = [*carried, *(f"{what} AS {name}" for name, what in stage.added.items())]
        listed = ",\n  ".join(columns) or "1 AS one"
        how = self._dialect.materialized
        return f"{stage.name} AS {how}(SELECT\n  {listed}\n FROM {source})"
