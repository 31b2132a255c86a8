"""The first screen: what the model predicts, how well, and what matters most."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from tanager.escaping import visible

__all__ = ["Ranking", "glance_html"]

MOST = 8

_MEASURES = (
    ("loss", "Log-loss", "less is better; it punishes being sure and wrong"),
    ("errors", "Errors", "the share of rows whose most probable class is wrong"),
    ("calibration", "Calibration error", "how far probabilities are from shares, on average"),
)


class Ranking(NamedTuple):
    """The features by what they say: information in bits, and the loss without each."""

    names: Sequence[str]
    bits: Sequence[float]
    losses: Sequence[float | None] | None
    order: Sequence[int]


def glance_html(
    ranking: Ranking, scores: dict[str, Any] | None, measured: str, *, flattering: bool
) -> str:
    """Return the tiles of scores and of what matters most."""
    parts = []
    if scores is not None:
        parts.append(_score_tile(scores, measured, flattering=flattering))
    parts.append(_ranking_tile(ranking))
    if scores is None:
        parts.append(
            "<div class='tile'><h3>How good is it?</h3><p class='quiet'>Nothing was measured: this "
            "page was made from the model alone. Give rows with their classes, and it shows "
            "losses, calibration, errors and where the model serves worst.</p></div>"
        )
    return f"<div class='tiles'>{''.join(parts)}</div>"


def _score_tile(scores: dict[str, Any], measured: str, *, flattering: bool) -> str:
    lines = []
    rivals = (("model", "this model"), ("naive", "naive Bayes"), ("shares", "class shares"))
    for key, title, meaning in _MEASURES:
        shown = [(who, name) for who, name in rivals if (key, who) != ("calibration", "shares")]
        most = max(scores[who][key] for who, _ in shown) or 1.0
        lines.append(f"<span class='head' title='{meaning}'>{title}</span>")
        for who, name in shown:
            value = scores[who][key]
            text = f"{value:.3f}" if key == "loss" else f"{100 * value:.1f} %"
            kind = "meter" if who == "model" else "meter other"
            label = f"<b>{name}</b>" if who == "model" else name
            width = f"width:{100 * value / most:.1f}%"
            lines.append(
                f"<span>{label}</span><span class='{kind}' aria-hidden='true'>"
                f"<i style='{width}'></i></span><span class='num'>{text}</span>"
            )
    note = f"<p class='note'>{escape(measured)}</p>" if flattering else ""
    quiet = "" if flattering else f" {escape(measured)}"
    return (
        f"<div class='tile'><h3>How good is it?</h3>{note}<div class='score'>{''.join(lines)}</div>"
        f"<p class='quiet'>Shorter is better. The log-loss is known to ±{2 * scores['se']:.3f}. "
        f"Naive Bayes knows every feature but no links between them; class shares know no "
        f"feature.{quiet}</p></div>"
    )


def _ranking_tile(ranking: Ranking) -> str:
    most = max([*ranking.bits, 1e-12])
    measured = ranking.losses is not None
    head = "<span class='quiet'>bits</span>"
    head += "<span class='quiet'>loss without</span>" if measured else ""
    lines = [f"<span></span><span></span>{head}"]
    for at in ranking.order[:MOST]:
        width = f"width:{max(0.0, 100 * ranking.bits[at] / most):.1f}%"
        lines.append(
            f"<a href='#features' data-feature='{at}'>{escape(visible(ranking.names[at][:80]))}</a>"
            f"<span class='meter' aria-hidden='true'><i style='{width}'></i></span>"
            f"<span class='num'>{ranking.bits[at]:.3f}</span>"
        )
        if ranking.losses is not None:
            lines.append(f"<span class='num'>{_signed(ranking.losses[at])}</span>")
    meaning = "Bits: what the feature, known alone, says about the class."
    if measured:
        meaning += (
            " Loss without: how much the log-loss rises when the feature alone is not known; "
            "near nothing where others say the same."
        )
    kind = "ranks two" if measured else "ranks"
    return (
        f"<div class='tile'><h3>What matters most</h3><div class='{kind}'>{''.join(lines)}</div>"
        f"<p class='quiet' style='margin-top:.8rem'>{meaning}</p></div>"
    )


def _signed(value: float | None) -> str:
    if value is None:
        return "–"
    text = f"{value:+.4f}"
    return "0.0000" if text in ("+0.0000", "-0.0000") else text.replace("-", "−")
