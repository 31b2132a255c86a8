"""Networks as XMLBIF 0.3."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tanager.network.exports.variables import distinct, join_numbers, spell_out

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["NOTE", "to_xmlbif", "xml_names"]

NOTE = "tanager = "  # begins the property that holds the codebook

# Controls have no place in XML 1.0, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_xmlbif(network: Network) -> str:
    """Return the network as XMLBIF 0.3, names and values as they are, escaped for XML.

    A property of the network holds the codebook, so that `read_network` knows cut points,
    types and the code for missing again.
    """
    variables = spell_out(network)
    names = xml_names([v.name for v in variables])
    renamed = {x: v.name for x, v in zip(names, variables, strict=True) if x != v.name}
    codebook = network.codebook.to_dict()
    note = json.dumps({"codebook": codebook, "names": renamed, "target": names[0]})
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<BIF VERSION="0.3">',
        "<NETWORK>",
        "<NAME>tanager</NAME>",
        f"<PROPERTY>{NOTE}{escape(note)}</PROPERTY>",
    ]
    for name, variable in zip(names, variables, strict=True):
        lines += ['<VARIABLE TYPE="nature">', f"  <NAME>{escape(name)}</NAME>"]
        states = xml_names(variable.states)
        lines += [f"  <OUTCOME>{escape(state)}</OUTCOME>" for state in states]
        lines.append("</VARIABLE>")
    for name, variable in zip(names, variables, strict=True):
        lines += ["<DEFINITION>", f"  <FOR>{escape(name)}</FOR>"]
        lines += [f"  <GIVEN>{escape(names[p])}</GIVEN>" for p in variable.parents]
        lines.append(f"  <TABLE>{join_numbers(variable.probabilities.ravel(), ' ')}</TABLE>")
        lines.append("</DEFINITION>")
    return "\n".join([*lines, "</NETWORK>", "</BIF>", ""])


def xml_names(names: Sequence[str]) -> list[str]:
    """Return names or states as XML can hold them, all different even where case is ignored."""
    return distinct([_NOT_XML.sub("\ufffd", name).strip() or "(empty)" for name in names])
