"""Explanations and tables in a notebook."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from tanager.drawing.cards import card, shown

if TYPE_CHECKING:
    from tanager.network.answers import Answer
    from tanager.network.explanation import Explanation, ExplanationStep
    from tanager.network.labelled import LabelledTable

__all__ = ["answer_html", "explanation_html", "table_html"]

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
