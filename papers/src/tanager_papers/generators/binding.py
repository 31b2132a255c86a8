"""Transcription-factor-like binding sites: aligned DNA positions against a background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BindingSites", "binding_sites", "site_pairs"]

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

NUCLEOTIDES = ("A", "C", "G", "T")


@dataclass(frozen=True)
class BindingSites:
    """What a table of binding sites is like.

    Parameters
    ----------
    n_rows : int
        Rows, sites and background together.
    share : float
        Share of the rows that are sites.
    length : int
        Aligned positions, the features.
    conservation : float
        How far a site's positions are from the background's composition: 0, not
        at all; 1, one nucleotide each.
    dependence : float
        Share of a site's pairs of positions that agree with the pair's rule
        rather than be drawn apart: 0 is a weight matrix.
    n_pairs : int
        Pairs of positions of a site that depend on each other.
    background : float
        Dependence between neighbouring positions that sites and background have
        in common: what a generative score models and no classifier needs.
    """

    n_rows: int = 1000
    share: float = 0.5
    length: int = 12
    conservation: float = 0.4
    dependence: float = 0.5
    n_pairs: int = 4
    background: float = 0.3


def binding_sites(options: BindingSites | None = None, seed: int = 0) -> Any:
    """Draw one factor's table: its motif and its rows follow from the seed.

    The background is a chain: each position repeats a fixed partner of its left
    neighbour with chance `background`, and is drawn from the composition
    otherwise. A site is such a chain in which each position is, with a chance of
    its own up to `conservation`, the position's favourite nucleotide; then pairs of
    positions are tied: with chance `dependence` the second takes the value that a
    random rule gives the first.

    Returns
    -------
    pyarrow.Table
        Columns ``p1`` ... and ``class`` with values ``site`` and ``background``.

    Notes
    -----
    In the manner of the 89 tables from TRANSFAC of Barash, Elidan, Friedman and
    Kaplan (2003), "Modeling dependencies in protein-DNA binding sites", RECOMB,
    which Carvalho et al. (2013) classify and which are not free.

    Examples
    --------
    >>> table = binding_sites(BindingSites(n_rows=40, share=0.25), seed=1)
    >>> table.num_rows, table["class"].to_pylist().count("site")
    (40, 10)
    """
    import pyarrow as pa

    rows, is_site, _ = _draw(options or BindingSites(), seed)
    names = np.array(NUCLEOTIDES)
    columns = {f"p{i + 1}": names[row] for i, row in enumerate(rows)}
    return pa.table({**columns, "class": np.where(is_site, "site", "background")})


def site_pairs(options: BindingSites | None = None, seed: int = 0) -> list[tuple[str, str]]:
    """Return the pairs of positions that are tied in the sites of `binding_sites`.

    Examples
    --------
    >>> site_pairs(BindingSites(length=4, n_pairs=1), seed=2)
    [('p1', 'p4')]
    """
    _, _, places = _draw(options or BindingSites(), seed)
    return [(f"p{first + 1}", f"p{second + 1}") for first, second in places.tolist()]


def _draw(options: BindingSites, seed: int) -> tuple[Bytes, NDArray[np.bool_], NDArray[np.int64]]:
    """Return nucleotides (length, n_rows), which rows are sites, and the tied pairs."""
    rng = np.random.default_rng([seed, 1201])
    composition = rng.dirichlet(np.full(4, 20.0))
    partner = rng.permutation(4)
    rows = _chain(rng, options, composition, partner)
    n_sites = round(options.n_rows * options.share)
    places = _plant(rng, rows[:, :n_sites], options)
    order = rng.permutation(options.n_rows)
    return rows[:, order], order < n_sites, places


def _chain(
    rng: np.random.Generator, options: BindingSites, composition: Floats, partner: NDArray[Any]
) -> Bytes:
    """Return the background's nucleotides, shape (length, n_rows)."""
    rows = rng.choice(4, size=(options.length, options.n_rows), p=composition).astype(np.uint8)
    for position in range(1, options.length):
        repeat = rng.random(options.n_rows) < options.background
        rows[position, repeat] = partner[rows[position - 1, repeat]]
    return rows


def _plant(rng: np.random.Generator, sites: Bytes, options: BindingSites) -> NDArray[np.int64]:
    """Turn chains (length, n_sites) into sites, in place; return the tied pairs."""
    n_sites = sites.shape[1]
    for position in range(options.length):
        favourite = rng.integers(4)
        conserved = rng.random(n_sites) < options.conservation * rng.random()
        sites[position, conserved] = favourite
    order = rng.permutation(options.length)[: 2 * min(options.n_pairs, options.length // 2)]
    places = order.reshape(-1, 2)
    for first, second in places:
        rule = rng.permutation(4)
        tied = rng.random(n_sites) < options.dependence
        sites[second, tied] = rule[sites[first, tied]]
    return places
