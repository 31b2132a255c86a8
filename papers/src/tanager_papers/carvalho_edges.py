"""Why aCLL beats LL or does not: which edges the two scores find in generated binding sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager.evaluation.protocol import CrossValidation
from tanager_papers.carvalho_sites import gain_of, too_sure
from tanager_papers.duels import record_text
from tanager_papers.findings import Block, Claim, Picture
from tanager_papers.generators import BindingSites, binding_sites, site_pairs
from tanager_papers.verdicts import claim_of_parts, duel_record, untested
from tanager_papers.workbench import Workbench

__all__ = ["edges_block"]

# How far single positions tell sites from background, and the dependence both share.
CONSERVATION = (0.0, 0.4)
SHARED = {False: (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), True: (0.0, 0.5)}
NAMES = ("LL", "aCLL, Dirichlet")

Shares = Mapping[str, float]


class _Place(NamedTuple):
    """One cell of the grid; without results where time ran out."""

    conservation: float
    shared: float
    gain: float
    record: str
    pairs: Shares  # share of the tied pairs that each score's tree has
    chain: Shares  # share of its edges that join neighbours
    sure: Shares  # how far its probabilities are above its rate of hits


def edges_block(bench: Workbench, uses: Mapping[str, str]) -> tuple[Block, Claim]:
    """Change what single positions tell and what the classes share, both together."""
    n_tables = 2 if bench.quick else 12
    shares = SHARED[bench.quick]
    grid = [
        place
        for conservation in CONSERVATION
        for shared in shares
        if (place := _place(bench, uses, conservation, shared, n_tables)) is not None
    ]
    columns = (
        "conservation",
        "shared dependence",
        "win–draw–loss of aCLL, held out",
        "gain, 0.001 nats per row",
        "dependent pairs found, LL",
        "aCLL",
        "edges between neighbours, LL",
        "aCLL",
        "overconfidence in points, LL",
        "aCLL",
    )
    rows = [
        (
            f"{p.conservation:g}",
            f"{p.shared:g}",
            p.record,
            f"{1000 * p.gain:+.1f}",
            *(f"{100 * p.pairs[name]:.0f} %" for name in NAMES),
            *(f"{100 * p.chain[name]:.0f} %" for name in NAMES),
            *(f"{100 * p.sure[name]:+.1f}" for name in NAMES),
        )
        for p in grid
    ]
    title = "Why: which edges the two scores find (not in the paper)"
    pictures = (_picture(grid, shares),) if grid else ()
    return Block(title, columns, rows, _notes(n_tables), pictures), _claim(grid)


def _notes(n_tables: int) -> tuple[str, ...]:
    return (
        f"{n_tables} factors per line, 1,000 rows each. Conservation 0: no position on its own "
        "tells a site from background, only the dependent pairs do. Shared dependence: the "
        "probability that a position copies its left neighbour, in sites and background alike.",
        "Overconfidence: the mean probability of the predicted class minus the share of rows where "
        "it is the true one, on held-out rows.",
        "A tree has one parent per position. LL gives it to the strongest dependence within "
        "classes, wherever it is; aCLL subtracts what the classes share. So aCLL wins where the "
        "shared chain is as strong as the dependent pairs and takes their places in LL's tree. "
        "With a weaker chain both scores find the pairs, and there is nothing to gain.",
        "With a stronger chain aCLL still finds pairs that LL misses, yet it doesn't win. "
        "Neighbours that depend on each other carry the same evidence, which a tree without their "
        "edge counts twice. aCLL leaves such edges out, so its trees are more overconfident.",
    )


def _place(
    bench: Workbench, uses: Mapping[str, str], conservation: float, shared: float, n_tables: int
) -> _Place | None:
    options = replace(BindingSites(), conservation=conservation, background=shared)
    seeds = range(2000, 2000 + n_tables)
    tables = [Dataset(f"sites-{s}", binding_sites(options, seed=s)) for s in seeds]
    contenders = bench.available({name: uses[name] for name in NAMES})
    results = bench.run(
        f"carvalho-2013-edges-{conservation:g}-{shared:g}", tables, contenders,
        protocol=CrossValidation(1, 2), metrics=["log_loss"], quiet=True,
        publish=["reliability"],
    ).results  # fmt: skip
    scores = results.mean("log_loss")
    record = duel_record(scores, "aCLL, Dirichlet", "LL")
    if record is None:
        return None
    pairs, chain = _edges(tables, contenders, [site_pairs(options, seed=s) for s in seeds])
    sure = _means(
        {name: [v for key, v in too_sure(results).items() if key[0] == name] for name in NAMES}
    )
    return _Place(conservation, shared, gain_of(scores), record_text(record), pairs, chain, sure)


def _edges(
    tables: Sequence[Dataset],
    contenders: Sequence[Contender],
    planted: Sequence[Sequence[tuple[str, str]]],
) -> tuple[Shares, Shares]:
    """Return, by score, the share of tied pairs found and of edges between neighbours."""
    pairs: dict[str, list[float]] = {c.name: [] for c in contenders}
    chain: dict[str, list[float]] = {c.name: [] for c in contenders}
    for dataset, tied in zip(tables, planted, strict=True):
        features = dataset.source.drop_columns(["class"])
        labels = np.array(dataset.source["class"].to_pylist())
        names = features.column_names
        neighbours = {frozenset(pair) for pair in pairwise(names)}
        wanted = {frozenset(pair) for pair in tied}
        for contender in contenders:
            parents = contender.build(0).fit(features, labels).structure_.parents
            edges = {frozenset((x, p)) for x, own in parents.items() for p in own}
            pairs[contender.name].append(len(edges & wanted) / len(wanted))
            chain[contender.name].append(len(edges & neighbours) / len(edges))
    return _means(pairs), _means(chain)


def _means(found: Mapping[str, Sequence[float]]) -> Shares:
    return {name: float(np.mean(values)) for name, values in found.items()}


def _picture(grid: Sequence[_Place], shares: Sequence[float]) -> Picture:
    lines = {
        f"conservation {c:g}": [1000 * p.gain for p in grid if p.conservation == c]
        for c in CONSERVATION
    }
    whole = {name: values for name, values in lines.items() if len(values) == len(shares)}
    data = {
        "x": list(shares),
        "margins": whole,
        "x_label": "dependence that both classes share",
        "y_label": "gain of aCLL, 0.001 nats per row",
    }
    title = "Where aCLL beats LL, by the information in single positions and what the classes share"
    return Picture("edges", title, "margins", data, "Above zero aCLL is better, rows held out.")


def _claim(grid: Sequence[_Place]) -> Claim:
    text = "aCLL gains where classes share dependence that LL spends its edges on (implied)"
    gains = {(p.conservation, p.shared): 1000 * p.gain for p in grid}
    wanted = [(0.0, 0.5), (0.0, 0.0), (0.4, 0.5)]
    if not all(place in gains for place in wanted):
        return untested(text, "not run")
    competing, alone, evident = (gains[place] for place in wanted)
    found = {
        "no position is informative on its own": competing > max(alone, 0.0),
        "positions are informative on their own": evident > 0,
    }
    parts = {name: "holds" if gained else "does not hold" for name, gained in found.items()}
    number = (
        f"{competing:+.1f} with shared dependence 0.5, {alone:+.1f} without; {evident:+.1f} with "
        "it where positions are informative on their own (0.001 nats per row held out)"
    )
    return claim_of_parts(text, parts, number)
