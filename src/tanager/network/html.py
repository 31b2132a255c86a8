"""Networks and estimators in a notebook: small, self-contained, light and dark."""

from __future__ import annotations

from html import escape
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.drawing import plan_drawing
from tanager.drawing.cards import HUES, card, network_view, shown
from tanager.network.explanation import SPOKEN_FOR
from tanager.network.graph import network_graph
from tanager.network.information import NetworkInformation

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["estimator_html", "network_html"]

MAX_FEATURES = 60
MAX_EFFECTS = 5
COMMON = 0.01  # share of rows from which on a value is worth naming

Floats = NDArray[np.float64]


def network_html(network: Network) -> str:
    """Return a fitted network as a small piece of HTML."""
    head = f"<b>Network</b> <span class='t-soft'>{network.summary()}</span>"
    return card(head + _body(network))


def estimator_html(estimator: Any) -> str:
    """Return an estimator, fitted or not, as a small piece of HTML."""
    head = f"<b>{escape(_one_line(repr(estimator)))}</b>"
    network = getattr(estimator, "network_", None)
    if network is None:
        return card(f"{head} <span class='t-soft'>not fitted</span>")
    seconds = sum(
        stage.get("seconds", 0.0) for stage in estimator.info_.values() if isinstance(stage, dict)
    )
    fitted = f", fitted in {seconds:.2f} s" if seconds else ""  # a model file does not say
    facts = f"<div class='t-soft'>{network.summary()}{fitted}</div>"
    return card(head + facts + _body(network))


def _body(network: Network) -> str:
    information = NetworkInformation(network)
    bits = information.of_features() / log(2.0)
    drawing = network_view(plan_drawing(network_graph(network, information)))
    parts = [_prior(network), drawing, _effects(information, bits)]
    return "".join([*parts, _families(network), _history(network)])


def _effects(information: NetworkInformation, bits: Floats) -> str:
    """Return what the most informative features say, for and against one class."""
    network = information.network
    classes = network.codebook.classes
    if len(classes) < 2:
        return ""
    target = 1 if len(classes) == 2 else int(network.log_prior.argmax())
    beyond = information.beyond_parents() / log(2.0)
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
        texts = [f"{shown(labels[v])} <b>{effect[v]:+.2f}</b>" for v in ends]
        rows.append(
            f"<tr><td>{shown(column.name)}</td><td class='t-n'>{bits[feature]:.3f}</td>"
            f"<td class='t-n'>{beyond[feature]:.3f}</td>"
            f"<td>{texts[0]}</td><td>{texts[1]}</td></tr>"
        )
    label = shown(classes[target])
    head = (
        "<tr><th>feature</th><th class='t-n'>bits, alone</th>"
        f"<th class='t-n'>beyond parents</th><th>most for {label}</th>"
        "<th>most against it</th></tr>"
    )
    if not rows:
        return ""
    return (
        f"<details open><summary>what says most</summary>"
        f"<div class='t-wide'><table>{head}{''.join(rows)}</table></div>"
        f"<div class='t-soft'>For and against: in log-odds, of a value known alone. {SPOKEN_FOR}"
        "</div></details>"
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _prior(network: Network) -> str:
    prior = np.exp(network.log_prior)
    order = np.argsort(-prior, kind="stable")[: len(HUES) * 2]
    labels = [str(label) for label in network.codebook.classes]
    bars = "".join(
        f"<span style='flex:{prior[c]:.4f};background:{HUES[at % len(HUES)]}' "
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
    return (
        f"<details{is_open}><summary>structure</summary><div class='t-wide'>{table}</div></details>"
    )


def _history(network: Network) -> str:
    if not network.history:
        return ""
    edits = "".join(f"<li>{escape(str(edit))}</li>" for edit in network.history)
    return f"<details open><summary>edited by hand</summary><ul>{edits}</ul></details>"
