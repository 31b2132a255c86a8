"""Networks and estimators in a notebook: small, self-contained, light and dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["estimator_html", "network_html"]

MAX_FEATURES = 60

# Colours follow the page: text in its own ink, lines and bars mixed from it.
_STYLE = """<style>
.tanager{font:13px/1.45 system-ui,sans-serif;max-width:52em;border:1px solid
 color-mix(in srgb,currentColor 22%,transparent);border-radius:6px;padding:.6em .9em}
.tanager b{font-weight:600}.tanager .t-soft{opacity:.65}
.tanager .t-prior{display:flex;gap:2px;height:.7em;margin:.35em 0 .5em;border-radius:3px;
 overflow:hidden}
.tanager .t-prior span{min-width:2px}
.tanager table{border-collapse:collapse;margin:.4em 0 0;font:inherit;color:inherit}
.tanager td,.tanager th{padding:.1em 1em .1em 0;text-align:left;border:0;background:none}
.tanager td.t-n,.tanager th.t-n{text-align:right;font-variant-numeric:tabular-nums}
.tanager summary{cursor:pointer}
</style>"""
_HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")


def network_html(network: Network) -> str:
    """Return a fitted network as a small piece of HTML."""
    structure, codebook = network.structure, network.codebook
    n_edges = sum(map(len, structure.parent_indices))
    head = (
        f"<b>Network</b> <span class='t-soft'>{len(structure.selected)} of "
        f"{codebook.domain.n_features} features, {n_edges} edges, "
        f"{len(codebook.classes)} classes</span>"
    )
    return _card(head + _prior(network) + _families(network) + _history(network))


def estimator_html(estimator: Any) -> str:
    """Return an estimator, fitted or not, as a small piece of HTML."""
    head = f"<b>{escape(_one_line(repr(estimator)))}</b>"
    network = getattr(estimator, "network_", None)
    if network is None:
        return _card(f"{head} <span class='t-soft'>not fitted</span>")
    seconds = sum(
        stage.get("seconds", 0.0) for stage in estimator.info_.values() if isinstance(stage, dict)
    )
    n_edges = sum(map(len, network.structure.parent_indices))
    facts = (
        f"<div class='t-soft'>{len(network.structure.selected)} of "
        f"{network.codebook.domain.n_features} features, {n_edges} edges, "
        f"{len(network.codebook.classes)} classes, fitted in {seconds:.2f} s</div>"
    )
    return _card(head + facts + _prior(network) + _families(network) + _history(network))


def _card(content: str) -> str:
    return f"{_STYLE}<div class='tanager'>{content}</div>"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _prior(network: Network) -> str:
    prior = np.exp(network.log_prior)
    order = np.argsort(-prior, kind="stable")[: len(_HUES) * 2]
    labels = [str(label) for label in network.codebook.classes]
    bars = "".join(
        f"<span style='flex:{prior[c]:.4f};background:{_HUES[at % len(_HUES)]}' "
        f"title='{escape(labels[c], quote=True)}: {prior[c]:.3f}'></span>"
        for at, c in enumerate(order)
    )
    words = ", ".join(f"{escape(labels[c])} {prior[c]:.3f}" for c in order[:6])
    more = f", … {len(labels) - 6} more" if len(labels) > 6 else ""
    name = escape(network.codebook.target.name or "class")
    return f"<div class='t-prior'>{bars}</div><div>P({name}): {words}{more}</div>"


def _families(network: Network) -> str:
    structure, arities = network.structure, network.codebook.domain.arities
    rows = []
    for feature in structure.selected[:MAX_FEATURES]:
        name = structure.names[feature]
        parents = ", ".join(structure.parents[name]) or "–"
        rows.append(
            f"<tr><td>{escape(name)}</td><td class='t-n'>{int(arities[feature])}</td>"
            f"<td>{escape(parents)}</td></tr>"
        )
    hidden = len(structure.selected) - len(rows)
    if hidden > 0:
        rows.append(f"<tr><td class='t-soft' colspan='3'>… {hidden} more</td></tr>")
    head = "<tr><th>feature</th><th class='t-n'>values</th><th>parents, besides the class</th></tr>"
    is_open = " open" if len(structure.selected) <= 12 else ""
    table = f"<table>{head}{''.join(rows)}</table>"
    return f"<details{is_open}><summary>structure</summary>{table}</details>"


def _history(network: Network) -> str:
    if not network.history:
        return ""
    edits = "".join(f"<li>{escape(str(edit))}</li>" for edit in network.history)
    return f"<details open><summary>edited by hand</summary><ul>{edits}</ul></details>"
