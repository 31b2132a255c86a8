"""``tanager show --effect``: what each value of a feature says of a class, as a curve of bars."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.cli.console import console, plain, plain_table
from tanager.errors import ConfigurationError

if TYPE_CHECKING:
    from tanager.network import Network

__all__ = ["Effect", "effect_of", "print_effect"]

MOST_VALUES = 16  # rows of a curve; neighbours are joined
HALF_BAR = 14


@dataclass(frozen=True)
class Effect:
    """What the values of a feature say of a class.

    Attributes
    ----------
    feature, target : str
    values : list of str
        Of an ordered feature in their order, neighbours joined; else from the one that
        speaks most for the class.
    shares : list of float
        Of the rows, by the model.
    log_odds : list of float
        Log P(value | class) less log P(value | not class), other features summed out.
    n_values : int
        Before neighbours were joined.
    """

    feature: str
    target: str
    values: list[str]
    shares: list[float]
    log_odds: list[float]
    n_values: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def effect_of(network: Network, feature: str, target: int | None) -> Effect:
    """Return the effect of a feature on a class; on the last where none is named."""
    from tanager.codes import join_values
    from tanager.network import NetworkInformation
    from tanager.network.information import log_odds
    from tanager.network.labelled import group_labels

    classes = [str(label) for label in network.codebook.classes]
    if len(classes) == 1:
        raise ConfigurationError(
            f"The model has one class, {classes[0]!r}: every row is predicted so, and no value "
            "has an effect."
        )
    joint = NetworkInformation(network).joint(feature)
    if joint is None:
        raise ConfigurationError(f"The table of {feature!r} is too large for an effect.")
    column = network.codebook.columns[network.structure.names.index(feature)]
    c = len(classes) - 1 if target is None else target
    labels = column.labels()
    if column.n_ordered > MOST_VALUES:
        groups = join_values(joint, column.n_ordered, MOST_VALUES)
        labels = group_labels(column, groups)
        starts = np.flatnonzero(np.diff(groups.astype(np.int64), prepend=-1))
        joint = np.add.reduceat(joint, starts, axis=0)
    odds, shares = log_odds(joint, c), joint.sum(axis=1)
    order = np.arange(len(labels))
    if column.n_ordered == 0:
        order = np.argsort(-odds, kind="stable")
    return Effect(
        feature,
        classes[c],
        [labels[at] for at in order],
        shares[order].tolist(),
        odds[order].tolist(),
        column.arity,
    )


def print_effect(effect: Effect) -> None:
    """Print one line a value: its share, its log-odds, and a bar to either side."""
    columns = (effect.feature, "share", f"log-odds of {effect.target}", "")
    table, out = plain_table(*columns, left=(0, 3)), console()
    taken = max(map(len, (effect.feature, *effect.values))) + 7 + len(columns[2]) + 4
    half = min(HALF_BAR, max(3, (out.width - taken - 1) // 2))
    top = max(1.0, *map(abs, effect.log_odds))  # what says little gets a short bar
    for value, share, odds in zip(effect.values, effect.shares, effect.log_odds, strict=True):
        size = round(half * abs(odds) / top)
        left = ("█" * size if odds < 0 else "").rjust(half)
        right = "█" * size if odds > 0 else ""
        bar = f"[red]{left}[/]│[green]{right}[/]"
        table.add_row(plain(value), f"{share:.3f}", f"{odds:+.2f}", bar)
    out.print(table)
    if effect.n_values > len(effect.values):
        out.print(f"{effect.n_values} values, neighbours joined", markup=False)
