"""What a reproduction found: a paper's tables, figures and claims, with our numbers beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tanager.errors import ConfigurationError

__all__ = ["CELLS", "KEPT", "VERDICTS", "Block", "Claim", "Findings", "Part", "Picture"]

# The files of `Findings.cells` and `Findings.kept`, in the folder of the paper's figures.
CELLS, KEPT = "cells.parquet", "kept.json"
VERDICTS = ("holds", "holds in part", "undecided", "does not hold", "cannot be tested here")


@dataclass(frozen=True)
class Picture:
    """A figure of a paper, drawn again: what to draw, as plain data.

    Attributes
    ----------
    name : str
        Short, for the file: ``figure-4-nb``.
    title : str
        With the paper's own number for it.
    kind : str
        Which drawing; `tanager_papers.pages` has one function for each.
    data : mapping
        What that function draws.
    caption : str
    """

    name: str
    title: str
    kind: str
    data: Mapping[str, Any]
    caption: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {key: _plain(value) for key, value in vars(self).items()}


@dataclass(frozen=True)
class Block:
    """One table of a paper, reproduced, with the figures that belong to it.

    Attributes
    ----------
    title : str
        With the paper's own number for it.
    columns : tuple of str
    rows : sequence of tuple of str
        The paper's numbers and ours, ready to read.
    notes : tuple of str
        Reasons for differences.
    pictures : tuple of Picture
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()
    notes: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and what became of it here.

    Attributes
    ----------
    text : str
        In short, with where the paper says it.
    verdict : str
        One of `VERDICTS`.
    number : str
        What was measured.
    why : str
        What is missing where it does not hold in full, and why.
    """

    text: str
    verdict: str
    number: str
    why: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ConfigurationError(
                f"verdict {self.verdict!r} isn't valid. Allowed: {', '.join(VERDICTS)}."
            )


@dataclass
class Part:
    """What one part of a paper found: experiments that are run together, and apart from others.

    Attributes
    ----------
    name : str
        As `Findings` and the option ``--only`` call it.
    how : str
        Protocol, tables and machine of its run.
    claims : list of Claim
    blocks : list of Block
    absent : list of str
        What was not run, and why.
    """

    name: str = "tables"
    how: str = ""
    claims: list[Claim] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        blocks = [
            {**_plain(vars(block)), "pictures": [p.to_dict() for p in block.pictures]}
            for block in self.blocks
        ]
        return {**vars(self), "claims": [vars(claim) for claim in self.claims], "blocks": blocks}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Part:
        """Return what `to_dict` gave."""
        blocks = [
            Block(
                block["title"],
                tuple(block["columns"]),
                [tuple(row) for row in block["rows"]],
                tuple(block["notes"]),
                tuple(Picture(**picture) for picture in block["pictures"]),
            )
            for block in data["blocks"]
        ]
        claims = [Claim(**claim) for claim in data["claims"]]
        return cls(data["name"], data["how"], claims, blocks, list(data["absent"]))


@dataclass
class Findings:
    """A paper's reproduction.

    Attributes
    ----------
    paper : str
        Short name, such as ``petitjean-2018``.
    title : str
        Authors, year, title, DOI where it has one.
    command : str
        What to type to get it again.
    parts : list of Part
    made_with : dict
        The version, and for each classifier its text and what it said of the probe.
    cells : pyarrow.Table or None
        Every fit behind the numbers: what was fitted to what, its losses and its cost.
    kept : dict
        Numbers behind the page that are no fits' losses, by the name of their file and by key.
    """

    paper: str
    title: str
    command: str = ""
    parts: list[Part] = field(default_factory=list)
    made_with: dict[str, Any] = field(default_factory=dict)
    cells: Any = None
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def claims(self) -> list[Claim]:
        """The claims of all parts."""
        return [claim for part in self.parts for claim in part.claims]

    @property
    def blocks(self) -> list[Block]:
        """The tables and figures of all parts."""
        return [block for part in self.parts for block in part.blocks]

    @property
    def absent(self) -> list[str]:
        """What was not run of any part."""
        return list(dict.fromkeys(line for part in self.parts for line in part.absent))

    @property
    def how(self) -> list[str]:
        """How each part was run; where there are several, with their names."""
        named = len(self.parts) > 1
        return [f"Part {part.name}. {part.how}" if named else part.how for part in self.parts]

    @property
    def pictures(self) -> list[Picture]:
        """All pictures, in the order of the blocks."""
        return [picture for block in self.blocks for picture in block.pictures]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, without fits and kept numbers."""
        return {
            "paper": self.paper,
            "title": self.title,
            "command": self.command,
            "parts": [part.to_dict() for part in self.parts],
            "made_with": self.made_with,
        }

    def to_markdown(self, figures: Mapping[str, str] | None = None) -> str:
        """Return a page for the documentation; `figures` gives each picture's file by its name."""
        files = figures or {}
        lines = [f"# {self.paper}", "", self.title, ""]
        lines += [f"- {how}" for how in self.how] if len(self.parts) > 1 else self.how
        lines.append("")
        if self.claims:
            lines += [
                "## Claims",
                "",
                *_table(("claim", "here", "measured"), self._claim_rows(), "---"),
            ]
            lines += self._reasons()
        for block in self.blocks:
            lines += [f"## {block.title}", ""]
            if block.rows:
                lines += _table(block.columns, block.rows)
            for picture in block.pictures:
                if picture.name in files:
                    lines += [f"![{picture.title}]({files[picture.name]})", ""]
                    lines += [f"*{picture.title}. {picture.caption}*", ""]
            lines += [f"- {note}" for note in block.notes]
            if block.notes:
                lines.append("")
        if self.absent:
            lines += ["## Not run", "", *(f"- {line}" for line in self.absent), ""]
        if self.cells is not None:
            lines += [f"Every fit with its losses and its cost: [{CELLS}]({self.paper}/{CELLS}).",
                      ""]  # fmt: skip
        lines += [f"Made with tanager {self.made_with.get('tanager', 'of an unknown version')} by "
                  f"`{self.command} --write docs/reproduction`.", ""]  # fmt: skip
        return "\n".join(lines)

    def _reasons(self) -> list[str]:
        """Return why claims do not hold in full, as a list below their table."""
        told = [f"- *{claim.text}*: {claim.why}" for claim in self.claims if claim.why]
        return ["What is missing where a claim does not hold in full ([the rule](index.md)):", "",
                *told, ""] if told else []  # fmt: skip

    def _claim_rows(self) -> list[tuple[str, ...]]:
        return [(claim.text, claim.verdict, claim.number) for claim in self.claims]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], align: str = "---:") -> list[str]:
    head = [_row(columns), _row(["---", *(align for _ in columns[1:])])]
    return [*head, *(_row(row) for row in rows), ""]


def _row(cells: Any) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _plain(value: Any) -> Any:
    """Return lists and dictionaries for arrays and tuples, numbers in seven digits."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return float(f"{float(value):.7g}") if isinstance(value, float | np.floating) else value
