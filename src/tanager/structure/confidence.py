"""Edge confidence: how often each edge occurs in structures learned from bootstrap samples."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from tanager.codes.rows import EqualByArrays
from tanager.errors import ConfigurationError
from tanager.estimator import is_whole
from tanager.numerics import Floats
from tanager.structure.structure import Structure

SHOWN_EDGES = 40


def edge_confidence(
    clf: Any, X: Any, y: Any = None, *, rounds: int = 100, sample_weight: Any = None
) -> EdgeConfidence:
    """Estimate the confidence of each edge by bootstrapping the structure learner.

    Parameters
    ----------
    clf : BayesNetClassifier
        Fitted or not; its structure learner, constraints and random state are used.
    X, y, sample_weight
        As in `BayesNetClassifier.fit`.
    rounds : int, default=100
        Number of structures to learn.

    Returns
    -------
    EdgeConfidence
        The share of structures with each arc; `threshold` separates significant edges from noise,
        `structure()` is the averaged structure, and `tanager.report.plot_network` draws it.

    Notes
    -----
    Codes are learned once, from all rows; each round learns a structure, without tables, from a
    bootstrap sample of the same size.

    References
    ----------
    N. Friedman, M. Goldszmidt and A. Wyner (1999), "Data analysis with Bayesian networks: a
    bootstrap approach", UAI.

    Examples
    --------
    >>> import numpy as np
    >>> from tanager import BayesNetClassifier
    >>> from tanager.structure import edge_confidence
    >>> rng = np.random.default_rng(0)
    >>> a, c, y = rng.integers(0, 2, (3, 200))
    >>> X = [{"a": str(i), "b": str(i ^ k), "c": str(j)} for i, j, k in zip(a, c, y)]
    >>> found = edge_confidence(BayesNetClassifier("tan", "m-estimate"), X, y, rounds=20)
    >>> found.edges(found.threshold)[0].strength
    1.0
    """
    if not is_whole(rounds, 1):
        raise ConfigurationError(f"rounds={rounds!r}. Allowed: whole numbers from 1 on.")
    # Rows are encoded far above this layer, so the name is looked up only when needed.
    fitting = import_module("tanager.classifiers.fitting")
    found = list(fitting.resampled_structures(clf, X, y, sample_weight, int(rounds)))
    names = found[0].names
    arcs = np.zeros((len(names), len(names)))
    for structure in found:
        for child, parents in structure.families:
            arcs[list(parents), child] += 1.0
    return EdgeConfidence(names, arcs / rounds, int(rounds))


class SureEdge(NamedTuple):
    """An edge between two features, in its more frequent direction."""

    parent: str
    child: str
    strength: float  # the share of structures with this edge, in either direction
    direction: float  # the share of those in this direction


@dataclass(frozen=True, eq=False)
class EdgeConfidence(EqualByArrays):
    """How often each edge occurs in structures learned from resampled rows.

    Attributes
    ----------
    names : tuple of str
    arcs : ndarray of float64, shape (n, n)
        The share of structures in which the row's feature is a parent of the column's.
    rounds : int
        Number of structures learned.
    """

    names: tuple[str, ...]
    arcs: Floats
    rounds: int

    @property
    def threshold(self) -> float:
        """Scutari's threshold: edges that occur more often than this are significant."""
        return confidence_threshold((self.arcs + self.arcs.T)[np.triu_indices(len(self.names), 1)])

    def edges(self, threshold: float = 0.0) -> list[SureEdge]:
        """Return the edges that occur more often than a threshold, most confident first."""
        found = []
        for i, j in combinations(range(len(self.names)), 2):
            there, back = float(self.arcs[i, j]), float(self.arcs[j, i])
            if there + back > threshold:
                parent, child = (i, j) if there >= back else (j, i)
                names = self.names[parent], self.names[child]
                found.append(SureEdge(*names, there + back, max(there, back) / (there + back)))
        return sorted(found, key=lambda edge: (-edge.strength, -edge.direction))

    def structure(self, threshold: float | None = None) -> Structure:
        """Return the averaged structure: the edges above a threshold, by default Scutari's.

        Each edge has its more frequent direction; the less confident edge of a cycle is left out.
        """
        limit = self.threshold if threshold is None else threshold
        index = {name: at for at, name in enumerate(self.names)}
        found = Structure.from_parents(self.names, [()] * len(self.names))
        for edge in self.edges(limit):
            parents, child = list(found.parent_indices), index[edge.child]
            parents[child] = (*parents[child], index[edge.parent])
            with suppress(ConfigurationError):  # a cycle
                found = Structure.from_parents(self.names, parents)
        return found

    def __repr__(self) -> str:
        edges, limit = self.edges(), self.threshold
        lines = [f"EdgeConfidence: {self.rounds} rounds, threshold {limit:.2f}"]
        for edge in edges[:SHOWN_EDGES]:
            mark = "*" if edge.strength > limit else " "
            lines.append(
                f"{mark} {edge.strength:.2f}  {edge.parent} -> {edge.child} ({edge.direction:.2f})"
            )
        if len(edges) > SHOWN_EDGES:
            lines.append(f"  ... {len(edges) - SHOWN_EDGES:,} more")
        return "\n".join(lines)


def confidence_threshold(strengths: Floats) -> float:
    """Return the threshold that separates significant edges from noise.

    In an ideal distribution of strengths a share t is zero and the rest is one. The t closest to
    the distribution function F in the :math:`L_1` norm is the median of F(x) over [0, 1]; the
    threshold is the strength at that quantile (Scutari and Nagarajan 2013, equation 10,
    doi:10.1016/j.artmed.2012.12.006).

    >>> confidence_threshold(np.array([0.0, 0.0, 0.1, 0.95, 1.0]))
    0.1
    """
    if strengths.size == 0:
        return 0.0
    ends = np.unique([0.0, *np.clip(strengths, 0.0, 1.0), 1.0])
    widths = np.diff(ends)
    heights = (strengths[None, :] <= ends[:-1, None]).mean(axis=1)  # F on [ends[i], ends[i+1])
    share = float(heights[np.searchsorted(np.cumsum(widths), 0.5 * widths.sum() - 1e-12)])
    ranked = np.sort(strengths)
    place = max(int(np.ceil(share * strengths.size - 1e-9)) - 1, 0)
    return float(ranked[place])
