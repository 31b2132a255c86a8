"""Networks as XMLBIF 0.3."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tanager.network.exports.variables import distinct, join_numbers, spell_out

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["to_xmlbif"]

# Controls have no place in XML 1.0, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_xmlbif(network: Network) -> str:
    """Return the network as XMLBIF 0.3, names and values as they are, escaped for XML."""
    variables = spell_out(network)
    names = distinct([_text(v.name) for v in variables])
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<BIF VERSION="0.3">',
        "<NETWORK>",
        "<NAME>tanager</NAME>",
    ]
    for name, variable in zip(names, variables, strict=True):
        lines += ['<VARIABLE TYPE="nature">', f"  <NAME>{escape(name)}</NAME>"]
        states = distinct([_text(state) for state in variable.states])
        lines += [f"  <OUTCOME>{escape(state)}</OUTCOME>" for state in states]
        lines.append("</VARIABLE>")
    for name, variable in zip(names, variables, strict=True):
        lines += ["<DEFINITION>", f"  <FOR>{escape(name)}</FOR>"]
        lines += [f"  <GIVEN>{escape(names[p])}</GIVEN>" for p in variable.parents]
        lines.append(f"  <TABLE>{join_numbers(variable.probabilities.ravel(), ' ')}</TABLE>")
        lines.append("</DEFINITION>")
    return "\n".join([*lines, "</NETWORK>", "</BIF>", ""])


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text).strip() or "(empty)"
