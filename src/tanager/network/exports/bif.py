"""Networks in the Bayesian Interchange Format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING

from tanager.network.exports.variables import distinct, join_numbers, spell_out

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["to_bif"]

# Words with a meaning of their own in BIF.
_RESERVED = {
    *("network", "variable", "probability", "property"),
    *("type", "discrete", "table", "default"),
}
_SIGNS = {"<=": "le_", ">=": "ge_", "<": "lt_", ">": "gt_"}
_WORD = re.compile(r"[^A-Za-z0-9_]+")


def to_bif(network: Network) -> str:
    """Return the network in the Bayesian Interchange Format.

    BIF knows only plain words, so names and values are spelled with letters,
    digits and underscores: ``<= 2.45`` becomes ``le_2_45``. Names that would
    fall together are numbered. XMLBIF keeps every name as it is.
    """
    variables = spell_out(network)
    names = _words(v.name for v in variables)
    states = [_words(v.states) for v in variables]
    lines = ["network tanager {", "}"]
    for name, values in zip(names, states, strict=True):
        lines.append(f"variable {name} {{")
        lines.append(f"  type discrete [ {len(values)} ] {{ {', '.join(values)} }};")
        lines.append("}")
    for at, variable in enumerate(variables):
        if not variable.parents:
            lines.append(f"probability ( {names[at]} ) {{")
            lines.append(f"  table {join_numbers(variable.probabilities, ', ')};")
        else:
            given = ", ".join(names[p] for p in variable.parents)
            lines.append(f"probability ( {names[at]} | {given} ) {{")
            rows = variable.probabilities.reshape(-1, len(variable.states))
            contexts = product(*(states[p] for p in variable.parents))
            for context, row in zip(contexts, rows, strict=True):
                lines.append(f"  ({', '.join(context)}) {join_numbers(row, ', ')};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _words(texts: Iterable[str]) -> list[str]:
    """Return plain words, all different even where case is ignored."""
    words = []
    for text in texts:
        spelled = re.sub(r"(?<![\w.])-(?=\d)", "minus_", text)
        for sign, word in _SIGNS.items():
            spelled = re.sub(rf"^{sign} ?(?=[^\s<>=])", word, spelled)
        spelled = re.sub(r"^\((\S+), (\S+)\]$", r"\1_to_\2", spelled)
        word = _WORD.sub("_", spelled).strip("_") or "x"
        word = f"v{word}" if word[0].isdigit() else word
        words.append(f"{word}_" if word.lower() in _RESERVED else word)
    return distinct(words)
