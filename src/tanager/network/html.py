"""Networks and estimators in a notebook: small, self-contained, light and dark."""

from __future__ import annotations

from html import escape
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.network.drawing import draw_network
from tanager.network.information import NetworkInformation

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["estimator_html", "network_html"]

MAX_FEATURES = 60
MAX_DRAWN = 40  # features in the picture
MAX_EFFECTS = 5
COMMON = 0.01  # share of rows from which on a value is worth naming

Floats = NDArray[np.float64]

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
.tanager svg.network{max-width:100%;height:auto;display:block;margin:.5em 0}
.tanager .edge{fill:none;stroke:color-mix(in srgb,currentColor 30%,transparent);
 marker-end:url(#tip)}
.tanager .further{stroke-dasharray:5 4}
.tanager marker path{fill:currentColor;opacity:.5}.tanager .class-edges{display:none}
.tanager svg text{fill:currentColor}.tanager .class-node text{font-weight:600}
.tanager .class-node rect{fill:none;stroke:#009E73;stroke-width:1.5}
.tanager .node rect{fill:color-mix(in srgb,#0072B2 calc(var(--k)*46%),transparent);
 stroke:color-mix(in srgb,#0072B2 55%,transparent)}
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
    return _card(head + _body(network))


def estimator_html(estimator: Any) -> str:
    """Return an estimator, fitted or not, as a small piece of HTML."""
    head = f"<b>{escape(_one_line(repr(estimator)))}</b>"
    network = getattr(estimator, "network_", None)
    if network is None:
        return _card(f"{head} <span class='t-soft'>not fitted</span>")
    seconds = sum(
        stage.get("seconds", 0.0) for stage in estimator.info_.values() if isinstance(stage, dict)
    )
    fitted = f", fitted in {seconds:.2f} s" if seconds else ""  # a model file does not say
    n_edges = sum(map(len, network.structure.parent_indices))
    facts = (
        f"<div class='t-soft'>{len(network.structure.selected)} of "
        f"{network.codebook.domain.n_features} features, {n_edges} edges, "
        f"{len(network.codebook.classes)} classes{fitted}</div>"
    )
    return _card(head + facts + _body(network))


def _body(network: Network) -> str:
    information = NetworkInformation(network)
    bits = information.of_features() / log(2.0)
    parts = [_prior(network), _drawing(network, information, bits), _effects(information, bits)]
    return "".join([*parts, _families(network), _history(network)])


def _drawing(network: Network, information: NetworkInformation, bits: Floats) -> str:
    """Return the picture of a network that is small enough to be read at a glance."""
    structure = network.structure
    if not 1 < len(structure.selected) <= MAX_DRAWN or structure.max_parents == 0:
        return ""
    shown = bits[list(structure.selected)]
    relevance = np.sqrt(np.clip(shown / (shown.max() or 1.0), 0.0, 1.0)).tolist()
    target = network.codebook.target.name or "class"
    return draw_network(structure, target, relevance, information.of_edges(), interactive=False)


def _effects(information: NetworkInformation, bits: Floats) -> str:
    """Return what the most informative features say, for and against one class."""
    network = information.network
    classes = network.codebook.classes
    if len(classes) < 2:
        return ""
    target = 1 if len(classes) == 2 else int(network.log_prior.argmax())
    rows = []
    for feature in np.argsort(-bits, kind="stable")[:MAX_EFFECTS]:
        column = network.codebook.columns[feature]
        effect = information.effect(column.name, target) if bits[feature] > 0 else None
        if effect is None:
            continue
        joint = information.joint(column.name)
        common = np.ones(len(effect), bool) if joint is None else joint.sum(axis=1) >= COMMON
        labels = column.labels()
        ends = [
            int(np.where(common, effect, -np.inf).argmax()),
            int(np.where(common, effect, np.inf).argmin()),
        ]
        texts = [f"{escape(_short(labels[v]))} <b>{effect[v]:+.2f}</b>" for v in ends]
        rows.append(
            f"<tr><td>{escape(_short(column.name))}</td><td class='t-n'>{bits[feature]:.3f}</td>"
            f"<td>{texts[0]}</td><td>{texts[1]}</td></tr>"
        )
    label = escape(_short(str(classes[target])))
    head = (
        f"<tr><th>feature</th><th class='t-n'>bits</th><th>most for {label}</th>"
        "<th>most against it</th></tr>"
    )
    if not rows:
        return ""
    return (
        f"<details open><summary>what says most</summary><table>{head}{''.join(rows)}</table>"
        "<div class='t-soft'>in log-odds, of a value known alone</div></details>"
    )


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


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
    is_open = " open" if structure.max_parents == 0 and len(structure.selected) <= 12 else ""
    table = f"<table>{head}{''.join(rows)}</table>"
    return f"<details{is_open}><summary>structure</summary>{table}</details>"


def _history(network: Network) -> str:
    if not network.history:
        return ""
    edits = "".join(f"<li>{escape(str(edit))}</li>" for edit in network.history)
    return f"<details open><summary>edited by hand</summary><ul>{edits}</ul></details>"
