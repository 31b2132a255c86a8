"""Networks, explanations, tables and answers in a notebook: small, self-contained HTML."""

from __future__ import annotations

from html import escape
from itertools import product
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.drawing import plan_drawing
from tanager.drawing.svg import HUES, card, network_view, shown
from tanager.network.explanation import SPOKEN_FOR
from tanager.network.graph import network_graph
from tanager.network.information import NetworkInformation
from tanager.numerics import Floats

if TYPE_CHECKING:
    from tanager.network.answers import Answer, LabelledTable
    from tanager.network.explanation import Explanation, ExplanationStep
    from tanager.network.network import Network

MAX_FEATURES = 60
MAX_EFFECTS = 5
COMMON = 0.01  # share of rows from which on a value is worth naming


def network_html(network: Network) -> str:
    """Return a fitted network as a small piece of HTML."""
    head = f"<b>Network</b> <span class='t-soft'>{network.summary()}</span>"
    return card(head + _body(network))


def estimator_html(estimator: Any) -> str:
    """Return an estimator, fitted or not, as a small piece of HTML."""
    head = f"<b>{escape(' '.join(repr(estimator).split()))}</b>"
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
        common = np.ones(len(effect), bool)
        if joint is not None and len(effect) > 1:
            # Of many bins none may have so many rows; two values are always worth naming.
            shares = joint.sum(axis=1)
            common = shares >= min(COMMON, 0.5 / len(shares), np.sort(shares)[-2])
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
        f"<details open><summary>most informative features</summary>"
        f"<div class='t-wide'><table>{head}{''.join(rows)}</table></div>"
        f"<div class='t-soft'>For and against: in log-odds, of a value known alone. {SPOKEN_FOR}"
        "</div></details>"
    )


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


MAX_CLASSES = 6
MAX_ROWS = 40  # of a table
MAX_COLUMNS = 30
NUMBERED = 16  # columns up to which the cells hold numbers
MAX_STEPS = 12  # of an explanation; the others are one


def explanation_html(explanation: Explanation) -> str:
    """Return the waterfall from prior to posterior, with the probability after each step."""
    steps = explanation.steps(MAX_STEPS)
    ends = [0.0, *(step.log_odds for step in steps)]
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0
    rows, before = [], 0.0
    for at, step in enumerate(steps):
        rows.append(_step_row(step, before if at else 0.0, low, span, is_prior=at == 0))
        before = step.log_odds
    order = np.argsort(-explanation.probabilities, kind="stable")[:MAX_CLASSES]
    odds = ", ".join(
        f"{shown(explanation.classes[c])} {explanation.probabilities[c]:.3f}" for c in order
    )
    more = len(explanation.classes) - len(order)
    odds += f", … {more} more" if more else ""
    target, against = shown(explanation.target), shown(explanation.against)
    head = (
        "<tr><th>feature</th><th>value</th><th class='t-n'>adds</th>"
        f"<th class='t-n'>P({target})</th><th></th><th class='t-n'>log-odds</th></tr>"
    )
    total = (
        "<tr class='t-total'><td><b>posterior</b></td><td></td><td></td>"
        f"<td class='t-n'><b>{steps[-1].probability:.3f}</b></td>"
        f"<td class='t-bar'>{_bar(0.0, explanation.posterior, low, span, 't-sum')}</td>"
        f"<td class='t-n'><b>{explanation.posterior:+.2f}</b></td></tr>"
    )
    notes = [
        explanation.why_silent(),
        f"P: of {explanation.target} against {explanation.against} alone."
        if len(explanation.classes) > 2
        else "",
    ]
    below = "".join(f"<div class='t-soft'>{shown(note, 2000)}</div>" for note in notes if note)
    return card(
        f"<b>Why {target}, not {against}?</b><div>P(class | row): {odds}</div>"
        f"<div class='t-wide'><table>{head}{''.join(rows)}{total}</table></div>{below}"
    )


def _step_row(
    step: ExplanationStep, before: float, low: float, span: float, *, is_prior: bool
) -> str:
    kind = "t-sum" if is_prior else "t-for" if step.adds > 0 else "t-against"
    adds = "" if is_prior else f"{step.adds:+.2f}"
    return (
        f"<tr><td class='t-text'>{shown(step.feature)}</td>"
        f"<td class='t-text'>{shown(step.value)}</td>"
        f"<td class='t-n'>{adds}</td><td class='t-n'>{step.probability:.3f}</td>"
        f"<td class='t-bar'>{_bar(before, step.log_odds, low, span, kind)}</td>"
        f"<td class='t-n'>{step.log_odds:+.2f}</td></tr>"
    )


def _bar(start: float, end: float, low: float, span: float, kind: str) -> str:
    left = 100 * (min(start, end) - low) / span
    wide = 100 * abs(end - start) / span
    return f"<i class='{kind}' style='left:{left:.1f}%;width:{wide:.1f}%'></i>"


def table_html(table: LabelledTable) -> str:
    """Return a table as a heat map with its scale."""
    columns = min(len(table.values), MAX_COLUMNS)
    shares = table.probabilities[:MAX_ROWS, :columns]
    most = float(shares.max(initial=0.0)) or 1.0
    given = "".join(f"<th>{shown(name, 24)}</th>" for name in table.given)
    values = "".join(f"<th class='t-n'>{shown(v, 24)}</th>" for v in table.values[:columns])
    rows = []
    for context, row in zip(table.contexts[:MAX_ROWS], shares, strict=True):
        names = "".join(f"<th>{shown(value, 24)}</th>" for value in context)
        cells = "".join(_cell(p, most, numbered=columns <= NUMBERED) for p in row)
        rows.append(f"<tr>{names}{cells}</tr>")
    hidden = [
        f"{len(table.contexts) - MAX_ROWS:,} more contexts"
        if len(table.contexts) > MAX_ROWS
        else "",
        f"{len(table.values) - columns:,} more values" if len(table.values) > columns else "",
    ]
    left = ", ".join(part for part in hidden if part)
    scale = f"<div>0<span class='t-scale'></span>{most:.2g}</div>"
    more = f"<div class='t-soft'>… {left}</div>" if left else ""
    title = f"P({shown(table.feature)} | {shown(', '.join(table.given), 80)})"
    return card(
        f"<b>{title}</b><div class='t-wide'><table class='t-heat'><tr>{given}{values}</tr>"
        f"{''.join(rows)}</table></div>{more}{scale}"
    )


def _cell(p: float, most: float, *, numbered: bool) -> str:
    text = (f"{p:.2f}" if p >= 0.005 else "·") if numbered else ""
    return f"<td class='t-n' style='--p:{p / most:.2f}' title='{p:.4f}'>{text}</td>"


def answer_html(answer: Answer) -> str:
    """Return the answer to a question with a bar per combination of values."""
    if answer.n_rows is not None:
        return card(f"<b>{shown(str(answer), 200)}</b>")
    shares = answer.probabilities.ravel()
    most = float(shares.max(initial=0.0)) or 1.0
    head = "".join(f"<th>{shown(name, 24)}</th>" for name in answer.targets)
    rows = []
    for names, p in list(zip(product(*answer.values), shares.tolist(), strict=True))[:MAX_ROWS]:
        cells = "".join(f"<td class='t-text'>{shown(name, 24)}</td>" for name in names)
        bar = f"<i class='t-sum' style='left:0%;width:{100 * p / most:.1f}%'></i>"
        rows.append(f"<tr>{cells}<td class='t-n'>{p:.4f}</td><td class='t-bar'>{bar}</td></tr>")
    rest = len(shares) - len(rows)
    more = f"<div class='t-soft'>… {rest:,} more</div>" if rest else ""
    title = f"P({shown(', '.join(answer.targets), 80)} | evidence)"
    return card(
        f"<b>{title}</b><div class='t-wide'><table><tr>{head}<th class='t-n'>P</th><th></th></tr>"
        f"{''.join(rows)}</table></div>{more}"
    )
