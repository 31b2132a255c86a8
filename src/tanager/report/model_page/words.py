"""What a page says in words and bars: on which rows it measured, how well, and what matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tanager.escaping import visible

if TYPE_CHECKING:
    from tanager.report.model_page.held_out import Measurement

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

    def signed_loss(self, at: int) -> str:
        """Return the loss without a feature with its sign; a dash where it wasn't measured."""
        value = None if self.losses is None else self.losses[at]
        return (
            "–"
            if value is None
            else f"{value:+z.4f}".replace("+0.0000", "0.0000").replace("-", "−")
        )

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


class ScoreBar(NamedTuple):
    """One classifier's score: its name, a text, and the length of its bar from 0 to 1."""

    name: str
    text: str
    share: float
    own: bool  # whether it is the model's


def score_bars(scores: Mapping[str, Any]) -> Iterator[tuple[str, str, list[ScoreBar]]]:
    """Yield the name and meaning of each measure, with a bar per classifier."""
    for key, title, meaning in _MEASURES:
        # Class frequencies are calibrated by definition.
        shown = [who for who in RIVALS if who in scores and (key, who) != ("calibration", "shares")]
        most = max(scores[who][key] for who in shown) or 1.0
        bars = []
        for who in shown:
            value = scores[who][key]
            text = f"{value:.3f}" if key == "loss" else f"{100 * value:.1f} %"
            bars.append(ScoreBar(RIVALS[who], text, value / most, who == "model"))
        yield title, meaning, bars
