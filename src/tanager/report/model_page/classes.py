"""The classes that a page shows: all, or the most probable and the rest as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tanager.network import Network

__all__ = ["MAX_CLASSES", "ShownClasses", "show_classes"]

MAX_CLASSES = 12

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ShownClasses:
    """Which classes have a place of their own.

    Attributes
    ----------
    names : tuple of str
        Of the places; the last is that of the rest, where there is one.
    places : tuple of int
        The place of each class.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def n_hidden(self) -> int:
        """Classes that share the last place; 0 where every class has its own."""
        return len(self.places) - len(self.names) + 1 if len(self.places) > len(self.names) else 0

    def gather(self, by_class: Floats) -> Floats:
        """Add up the last axis, one entry a class, to one entry a place."""
        out = np.zeros((*by_class.shape[:-1], len(self.names)))
        for at, place in enumerate(self.places):
            out[..., place] += by_class[..., at]
        return out

    def of(self, labels: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the places of some classes."""
        return np.array(self.places, np.int64)[labels]


def show_classes(network: Network) -> ShownClasses:
    """Give every class a place, or the most probable ones and one to all others."""
    names = [str(label) for label in network.codebook.classes]
    if len(names) <= MAX_CLASSES:
        return ShownClasses(tuple(names), tuple(range(len(names))))
    order = np.argsort(-network.log_prior, kind="stable")[: MAX_CLASSES - 1]
    chosen = sorted(int(c) for c in order)
    place = {c: at for at, c in enumerate(chosen)}
    rest = f"{len(names) - len(chosen)} other classes"
    return ShownClasses(
        (*(names[c] for c in chosen), rest),
        tuple(place.get(c, len(chosen)) for c in range(len(names))),
    )
