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
    from tanager.report.model_page.held_out import Measurement


def lead_text(
    target: str, classes: Sequence[str], n_used: int, n_all: int, n_fitted: int | None
) -> str:
    """Return one sentence on what the model does."""
    classes = [visible(name) for name in classes]
    named = [f"<b>{escape(name if len(name) <= 40 else name[:39] + '…')}</b>" for name in classes]
    if len(named) > 4:
        which = f"{len(named)} classes"
    else:
        which = " or ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]
    rows = f", learned from {n_fitted:,} rows" if n_fitted else ""
    features = f"{n_used} of {n_all}" if n_used < n_all else f"{n_used}"
    features += " feature" if n_all == 1 else " features"
    return f"Predicts <b>{escape(visible(target))}</b>, {which}, from {features}{rows}."


def how_measured(held: Measurement, n_rows: int, n_source: int, *, edited: bool) -> str:
    """Return in words on which rows the scores stand."""
    rows = f"{n_source:,} row{'' if n_source == 1 else 's'}"
    rows = rows if n_rows == n_source else f"{n_rows:,} of {rows}"
    if held.folds:
        return (
            f"Measured by {held.folds}-fold cross-validation on the {rows} of the training data: "
            "each row is predicted by a model trained without it."
            + (" Edits made by hand are not included." if edited else "")
        )
    if held.own_rows is None:
        return (
            f"Measured on {rows}. The scores are valid only if none of them was used in training."
        )
    if held.own_rows:
        return f"Measured on the training data itself ({rows}): expect worse on new rows."
    return (
        f"Measured on {rows} other than the training data. The scores are valid only if none of "
        "them was used in training."
    )


def about_structure(
    network: Network,
    name: str,
    held: Measurement | None = None,
    fitted: Mapping[str, Any] | None = None,
) -> str:
    """Return what the drawing shows, and how much of it folds have, too.

    `fitted` is what the parameters' learner reported.
    """
    structure, target = network.structure, escape(name)
    n_edges = sum(map(len, structure.parent_indices))
    if n_edges == 0:
        return (
            f"Naive Bayes: each feature depends only on {target}. Select a feature to see its "
            "effect."
        )
    left = len(structure.names) - len(structure.selected)
    omitted = f" {left} {'feature was' if left == 1 else 'features were'} left out." if left else ""
    return (
        f"{target} is a parent of every feature; {n_edges} "
        f"{'edge connects' if n_edges == 1 else 'edges connect'} features that depend on each "
        f"other given {target}.{omitted} Select a feature to see its parents and what each edge "
        f"contributes.{_found_again(held)}{_found_in_fit(fitted or {})}"
    )


def _found_again(held: Measurement | None) -> str:
    """Return in words how many arrows stand in the models of the folds, too."""
    if held is None or held.folds == 0 or not held.edge_folds:
        return ""
    found = list(held.edge_folds.values())
    often = sum(2 * n > held.folds for n in found)
    share = sum(found) / (len(found) * held.folds)
    rest = " The others vary with the rows and the seed." if often < len(found) else ""
    return (
        f" {often:,} of {len(found):,} edges also occur in most of the {held.folds} "
        f"cross-validation models (an edge in {100 * share:.0f} % of them on average).{rest}"
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
        f"Node: bits of information about {escape(visible(target))} {shades}" if shades else "",
        f"Edge: bits about the feature, given {escape(visible(target))} {widths}" if widths else "",
        "<span class='swatch dash'></span>weaker parent" if legend.further else "",
        "+n: folded leaves; select them to see all" if legend.folded else "",
    ]
    return "".join(f"<li>{item}</li>" for item in items if item)


def _found_in_fit(fitted: Mapping[str, Any]) -> str:
    """Return in words what the arrows brought in the folds of the fit itself."""
    shares = [share for *_, share in fitted.get("found_again") or ()]
    losses = fitted.get("held_out_loss")
    if not shares or not losses:
        return ""
    return (
        f" During training, an edge was found in {100 * sum(shares) / len(shares):.0f} % of the "
        f"internal folds on average; the held-out log-loss was {losses[0]:.3f}, compared with "
        f"{losses[1]:.3f} without edges."
    )


def about_features(
    network: Network, classes: ShownClasses, features: Sequence[dict[str, Any]] = ()
) -> str:
    """Return what the effects are, how well they agree with the rows, and what was left out."""
    n = len(network.structure.selected)
    text = "The model's effect of each value on the class when nothing else is known."
    counts = [facts["inside"] for facts in features if "inside" in facts]
    of = sum(n_all for _, n_all in counts)
    if of:
        inside = sum(n_inside for n_inside, _ in counts)
        text += (
            " The 95 % intervals come from the counts in the rows: "
            f"{100 * inside / of:.0f} % of the model's effects lie within them."
        )
    if n > MAX_DETAILED:
        text += f" Plots are shown for the {MAX_DETAILED} most informative of {n} features."
    if classes.n_hidden:
        text += (
            f" The {len(classes.names) - 1} most common of {len(network.codebook.classes)} classes "
            "are shown; the others are pooled."
        )
    return text


def about_asking(network: Network, asked: Network) -> str:
    """Return what can be asked, and what cannot."""
    n, n_asked = len(network.structure.selected), len(asked.structure.selected)
    text = (
        "Fill in what you know and leave the rest unknown. The page computes the model's own "
        "probabilities and marginalizes exactly over unknown features."
    )
    if not network.tables.normalized:
        text += (
            " This model's tables are scores, not probabilities, so results with unknown features "
            "are approximate."
        )
    if n_asked < n:
        text += (
            f" To keep the page small, you can set {n_asked} of the {n} features; the other "
            f"{n - n_asked} stay unknown here."
        )
    return text


MOST = 8
LITTLE_BITS = 0.005  # differences that aren't worth a word

RIVALS = {
    "model": "this model",
    "logistic": "logistic regression",
    "naive": "naive Bayes",  # only where the model has edges
    "shares": "class frequencies",
}
_MEASURES = (
    ("loss", "Log-loss", "lower is better; confident errors are penalized most"),
    ("errors", "Error rate", "the share of rows whose most probable class is wrong"),
    (
        "calibration",
        "Calibration error",
        "mean gap between predicted probability and observed frequency",
    ),
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
        text = "Bits: the feature's mutual information with the class, according to the model."
        if self.counted is None:
            return text
        beyond = [
            f"{visible(self.names[at][:80])} {self.counted[at][0]:.3f}"
            for at in self.order[:MOST]
            if abs(self.bits[at] - self.counted[at][0]) > 1.96 * self.counted[at][1] + LITTLE_BITS
        ]
        if not beyond:
            return text + " The counts in the rows agree within sampling error."
        return f"{text} The counts in the rows differ for {', '.join(beyond)}."


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
            "<div class='tile'><h3>How good is it?</h3><p class='quiet'>Not evaluated: this "
            "page was made from the model alone. Pass labelled rows to see log-loss, calibration, "
            "errors and the slices where the model does worst.</p></div>"
        )
    return f"<div class='tiles'>{''.join(parts)}</div>"


def _score_tile(scores: dict[str, Any], measured: str, *, flattering: bool) -> str:
    lines = []
    for key, title, meaning in _MEASURES:
        shown = [
            (who, name)
            for who, name in RIVALS.items()
            if who in scores and (key, who) != ("calibration", "shares")
        ]
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
        "<p class='quiet'>Lower is better. "
        f"95 % interval of the log-loss: ±{2 * scores['se']:.3f}. "
        "Baselines are cross-validated on these rows, with numbers in ten bins."
        f"{quiet}</p></div>"
    )


def _ranking_tile(ranking: Ranking) -> str:
    most = max([*ranking.bits, 1e-12])
    measured = ranking.losses is not None
    head = "<span class='quiet'>bits</span>"
    head += "<span class='quiet'>loss increase</span>" if measured else ""
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
            " Loss increase: how much the log-loss rises when only this feature is unknown; close "
            "to zero where other features carry the same information."
        )
    kind = "ranks two" if measured else "ranks"
    return (
        f"<div class='tile'><h3>Most informative features</h3>"
        f"<div class='{kind}'>{''.join(lines)}</div>"
        f"<p class='quiet' style='margin-top:.8rem'>{meaning}</p></div>"
    )


def _signed(value: float | None) -> str:
    if value is None:
        return "–"
    text = f"{value:+.4f}"
    return "0.0000" if text in ("+0.0000", "-0.0000") else text.replace("-", "−")
