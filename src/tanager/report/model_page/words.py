"""The words of a page, and its first screen: how well the model predicts, and what matters most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from tanager.escaping import visible
from tanager.report.model_page.features import MAX_DETAILED

if TYPE_CHECKING:
    from tanager.drawing import Legend
    from tanager.network import Network
    from tanager.report.model_page.features import ShownClasses
    from tanager.report.model_page.held_out import HeldOutRows


def lead_text(target: str, classes: Sequence[str], n_used: int, n_fitted: int | None) -> str:
    """Return one sentence on what the model does."""
    classes = [visible(name) for name in classes]
    named = [f"<b>{escape(name if len(name) <= 40 else name[:39] + '…')}</b>" for name in classes]
    if len(named) > 4:
        which = f"{len(named)} classes"
    else:
        which = " or ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]
    rows = f", learned from {n_fitted:,} rows" if n_fitted else ""
    features = "1 feature" if n_used == 1 else f"{n_used} features"
    return f"Predicts <b>{escape(visible(target))}</b>, {which}, from {features}{rows}."


def how_measured(held: HeldOutRows, n_rows: int, n_source: int, *, edited: bool) -> str:
    """Return in words on which rows the scores stand."""
    rows = f"{n_source:,} row{'' if n_source == 1 else 's'}"
    rows = rows if n_rows == n_source else f"{n_rows:,} of {rows}"
    if held.folds:
        return (
            f"Measured by {held.folds}-fold cross-validation on the {rows} of the fit: each row is "
            "predicted by a model that did not see it."
            + (" Edits by hand are not in those models." if edited else "")
        )
    if held.own_rows is None:
        return f"Measured on {rows} given with this page. The model must not have seen them."
    if held.own_rows:
        return f"Measured on the {rows} of the fit itself: new rows will do worse."
    return (
        f"Measured on {rows} that are not, all together, those of the fit. The model must not have "
        "seen a part of them, either."
    )


def about_structure(
    network: Network,
    name: str,
    held: HeldOutRows | None = None,
    fitted: Mapping[str, Any] | None = None,
) -> str:
    """Return what the drawing shows, and how much of it folds have, too.

    `fitted` is what the parameters' learner reported.
    """
    structure, target = network.structure, escape(name)
    n_edges = sum(map(len, structure.parent_indices))
    if n_edges == 0:
        return (
            f"Naive: each feature depends on {target} alone. Choose a feature to see what it says."
        )
    left = len(structure.names) - len(structure.selected)
    omitted = f" {left} features were left out." if left else ""
    return (
        f"{target} is a parent of every feature; {n_edges} "
        f"{'arrow leads' if n_edges == 1 else 'arrows lead'} from feature to feature, where one "
        f"says more than {target} does.{omitted} Choose a feature to see its parents and what each "
        f"arrow brings.{_found_again(held)}{_found_in_fit(fitted or {})}"
    )


def _found_again(held: HeldOutRows | None) -> str:
    """Return in words how many arrows stand in the models of the folds, too."""
    if held is None or held.folds == 0 or not held.edge_folds:
        return ""
    found = list(held.edge_folds.values())
    often = sum(2 * n > held.folds for n in found)
    share = sum(found) / (len(found) * held.folds)
    rest = " The others depend on the rows and the seed." if often < len(found) else ""
    return (
        f" {often:,} of {len(found):,} arrows are also in most of the {held.folds} models that "
        f"leave out a fold each ({100 * share:.0f} % on average).{rest}"
    )


def legend_html(legend: Legend, target: str) -> str:
    """Return what boxes and arrows mean, with samples, as items of a list."""
    shades = "".join(
        f"<span class='swatch dark' style='--k:{share:.2f}'></span>{bits:g} "
        for bits, share in legend.shades
    )
    widths = "".join(
        f"<span class='swatch line' style='height:{1 + 4 * share:.1f}px'></span>{bits:g} "
        for bits, share in legend.widths
    )
    items = [
        f"Box: bits about {escape(visible(target))} {shades}" if shades else "",
        f"Arrow: bits about the feature, that known {widths}" if widths else "",
        "<span class='swatch dash'></span>from a weaker parent" if legend.further else "",
        "+n: leaves folded; choose them to see all" if legend.folded else "",
    ]
    return "".join(f"<li>{item}</li>" for item in items if item)


def _found_in_fit(fitted: Mapping[str, Any]) -> str:
    """Return in words what the arrows brought in the folds of the fit itself."""
    shares = [share for *_, share in fitted.get("found_again") or ()]
    losses = fitted.get("held_out_loss")
    if not shares or not losses:
        return ""
    return (
        f" In the fit's own folds an arrow was found by {100 * sum(shares) / len(shares):.0f} % of "
        f"them on average; held out, the log-loss was {losses[0]:.3f}, and {losses[1]:.3f} with "
        "each feature's curve alone."
    )


def about_features(
    network: Network, classes: ShownClasses, features: Sequence[dict[str, Any]] = ()
) -> str:
    """Return what the effects are, how well they agree with the rows, and what was left out."""
    n = len(network.structure.selected)
    text = "What each value, known alone, says about the class, in the model's view."
    counts = [facts["inside"] for facts in features if "inside" in facts]
    of = sum(n_all for _, n_all in counts)
    if of:
        inside = sum(n_inside for n_inside, _ in counts)
        text += (
            " The 95 % intervals are those of the rows' own counts: "
            f"{100 * inside / of:.0f} % of the model's effects lie within them."
        )
    if n > MAX_DETAILED:
        text += f" The {MAX_DETAILED} of {n} features that matter most have a picture."
    if classes.n_hidden:
        text += (
            f" Of {len(network.codebook.classes)} classes the "
            f"{len(classes.names) - 1} most common are shown; the others count as one."
        )
    return text


def about_asking(network: Network, asked: Network) -> str:
    """Return what can be asked, and what cannot."""
    n, n_asked = len(network.structure.selected), len(asked.structure.selected)
    text = (
        "Fill in what you know and leave the rest unknown. The probabilities are those of the "
        "model itself, computed here: what is unknown is summed out exactly."
    )
    if not network.tables.normalized:
        text += " The tables of this model are scores, so with unknown inputs it is approximate."
    if n_asked < n:
        text += (
            f" To keep the page small, {n_asked} of the {n} features can be asked; the other "
            f"{n - n_asked} are unknown here."
        )
    return text


MOST = 8
LITTLE_BITS = 0.005  # differences that aren't worth a word

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
    counted: Sequence[tuple[float, float]] | None = None  # in the rows, with standard errors

    def whose_bits(self) -> str:
        """Return in words that bits are the model's, and where the rows say otherwise."""
        text = "Bits: what the feature, known alone, says about the class in the model's view."
        if self.counted is None:
            return text
        beyond = [
            f"{visible(self.names[at][:80])} {self.counted[at][0]:.3f}"
            for at in self.order[:MOST]
            if abs(self.bits[at] - self.counted[at][0]) > 1.96 * self.counted[at][1] + LITTLE_BITS
        ]
        if not beyond:
            return text + " The rows' own counts say the same within sampling error."
        return f"{text} The rows' own counts say otherwise of {', '.join(beyond)}."


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
    meaning = escape(ranking.whose_bits())
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
