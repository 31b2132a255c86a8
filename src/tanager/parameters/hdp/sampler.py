"""The Gibbs sampler of the hierarchical Dirichlet process, and its check of convergence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.counts import ContextTree
from tanager.errors import ConfigurationError
from tanager.numerics import Floats, Ints
from tanager.parameters.hdp import fixed_point
from tanager.parameters.hdp.fixed_point import (
    MAX_TABLES,
    Estimate,
    Prior,
    Ratios,
    TiedTree,
    stirling_ratios,
)

BLOCK = 10  # recorded states in a batch mean
BLOCKS = 100  # batch means of a budget that is used up; longer ones have longer blocks
LEAST_BLOCKS = 5  # a variance of fewer batch means says nothing
SPREAD = 2.0  # factor by which the chains' first concentrations differ
WINDOW = 8  # table counts among which a cell chooses in one sweep
DISCOUNTS = tuple(round(0.05 * i, 2) for i in range(20))  # their prior is uniform
STEPS = 4  # to a neighbour of the grid, in one draw


class Pace(NamedTuple):
    """Sweeps between recorded states and between concentrations; the width of the window."""

    thinning: int = 2
    interval: int = 1
    window: int = WINDOW


class Budget(NamedTuple):
    """How long to sample."""

    tolerance: float
    max_sweeps: int
    burn_in: int
    n_chains: int
    pace: Pace = Pace()
    start: str = "fixed-point"


class Seating(NamedTuple):
    """Tables and the counts they imply: per cell, per cell, per node, per node."""

    counts: Ints
    tables: Ints
    node_counts: Ints
    node_tables: Ints


class _Chain(NamedTuple):
    alpha: Floats
    state: Seating
    random: NDArray[np.uint64]
    clock: Ints


def sample(
    tree: ContextTree, flat: TiedTree, prior: Prior, budget: Budget, generator: np.random.Generator
) -> Estimate:
    """Estimate one family by the mean of its posterior."""
    leaves = flat.cell_count[flat.level_cell[-2] :]
    if not np.array_equal(leaves, np.floor(leaves)):
        raise ConfigurationError(
            "inference='gibbs' needs whole counts, but the rows have fractional weights. "
            "Use inference='fixed-point', which takes any weights."
        )
    if flat.cell_count.shape[0] == 0:
        return fixed_point.solve(tree, flat, prior, budget.tolerance, 1)
    chains = _start(tree, flat, prior, budget, generator)
    models = [_Model(tree, flat, prior) for _ in chains]
    nowhere, nothing = np.zeros(flat.cell_count.shape[0]), np.zeros(1)
    never = budget.pace._replace(thinning=budget.burn_in + 1)
    for model, chain in zip(models, chains, strict=True):
        model.run(chain, budget.burn_in, never, nowhere, nothing)
        model.move_discount(chain, generator)
    watch = _Watch(flat, budget.n_chains)
    sweeps = budget.burn_in
    thinning = budget.pace.thinning
    length = BLOCK * thinning
    if prior.discount is not None:  # one that is free moves between blocks
        length *= max(1, budget.max_sweeps // (BLOCKS * length))
    while True:
        length = max(min(length, budget.max_sweeps - sweeps), thinning)
        for at, (model, chain) in enumerate(zip(models, chains, strict=True)):
            total, escape = np.zeros_like(nowhere), np.zeros(1)
            model.run(chain, length, budget.pace, total, escape)
            recorded = length // thinning
            watch.add(at, total / recorded, escape[0] / recorded)
            model.move_discount(chain, generator)
        sweeps += length
        error = watch.check([chain.alpha for chain in chains])
        converged = error < budget.tolerance and watch.n_blocks >= LEAST_BLOCKS
        if converged or sweeps >= budget.max_sweeps:
            break
    estimate = watch.estimate(converged=converged, sweeps=sweeps)
    if prior.discount is None:
        estimate.info["discount"] = float(np.mean([model.seen for model in models]))
    return estimate


class _Model:
    """What a chain's kernel reads besides its state; a free discount differs by chain."""

    def __init__(self, tree: ContextTree, flat: TiedTree, prior: Prior) -> None:
        self.tree, self.flat, self.prior = tree, flat, prior
        self.discount = DISCOUNTS[len(DISCOUNTS) // 4] if prior.discount is None else prior.discount
        self.max_count = _largest_count(flat)
        self.rates = prior.rates(flat.n_groups, flat.class_group)
        self.seen: list[float] = []

    @property
    def ratios(self) -> Ratios:
        return stirling_ratios(self.max_count, self.discount)

    def run(self, chain: _Chain, n_sweeps: int, pace: Pace, total: Floats, escape: Floats) -> None:
        """Sweep so often, adding the estimates of every recorded state to total and escape."""
        flat, prior = self.flat, self.prior
        nodes = (flat.level_node, flat.level_cell, flat.node_start, flat.node_group)
        above = (flat.node_parent, flat.cell_parent)
        root = (prior.root_concentration, prior.root_share)
        model = (*nodes, *above, *self.ratios, *root, prior.shape, self.rates, self.tree.arity)
        moving = (chain.alpha, *chain.state, chain.random, chain.clock)
        given = (*model, n_sweeps, *pace, *moving, total, escape)
        native.run_chain(*given)

    def move_discount(self, chain: _Chain, generator: np.random.Generator) -> None:
        """Draw a free discount: Metropolis steps to neighbours on the grid."""
        if self.prior.discount is not None:
            return
        place, given = DISCOUNTS.index(self.discount), (self.flat, chain.state, chain.alpha)
        now = log_likelihood(*given, self.discount, self.max_count)
        for _ in range(STEPS):
            other = place + (1 if generator.random() < 0.5 else -1)
            chance = generator.random()
            if not 0 <= other < len(DISCOUNTS):
                continue
            there = log_likelihood(*given, DISCOUNTS[other], self.max_count)
            if np.log(chance) < there - now:
                place, now = other, there
        self.discount = DISCOUNTS[place]
        self.seen.append(self.discount)


def _start(
    tree: ContextTree, flat: TiedTree, prior: Prior, budget: Budget, generator: np.random.Generator
) -> list[_Chain]:
    """Return chains around the fixed point, or the prior's mean, with their random states."""
    solved = fixed_point.solve(tree, flat, prior._replace(discount=0.0), 1e-3, 200)
    phi = np.exp(solved.log_prob)
    centre = np.clip(solved.info["concentration"], 0.1, 1e4)
    if budget.start == "prior":
        centre = prior.shape / prior.rates(flat.n_groups, flat.class_group)
    most = min(_largest_count(flat), MAX_TABLES)
    chains = []
    for at in range(budget.n_chains):
        alpha = centre * SPREAD ** (at - (budget.n_chains - 1) / 2)
        sizes = np.repeat([len(flat.cell_count), len(flat.node_group)], 2)
        state = Seating(*(np.zeros(size, np.int64) for size in sizes))
        nodes = (flat.level_node, flat.level_cell, flat.node_start, flat.node_group)
        given = (*nodes, flat.cell_parent, flat.cell_count, phi, alpha, most, *state)
        native.start_chain(*given)
        random = generator.integers(0, 2**64, 4, np.uint64, endpoint=False)
        chains.append(_Chain(alpha, state, random, np.zeros(1, np.int64)))
    return chains


class _Watch:
    """Batch means of every predictive probability, and how sure they are."""

    def __init__(self, flat: TiedTree, n_chains: int) -> None:
        n_cells = flat.cell_count.shape[0]
        self.flat = flat
        self.chain_sum = np.zeros((n_chains, n_cells))
        self.square = np.zeros(n_cells)
        self.escape = 0.0
        self.added = 0
        self.trace: list[float] = []
        self.concentrations: list[Floats] = []
        leaves = flat.level_cell[-2]
        self.weight = flat.cell_count[leaves:] / max(flat.cell_count[leaves:].sum(), 1e-300)
        self.leaves = slice(int(leaves), n_cells)

    @property
    def n_blocks(self) -> int:
        """Number of blocks that every chain has run."""
        return self.added // self.chain_sum.shape[0]

    def add(self, chain: int, mean: Floats, escape: float) -> None:
        """Take one block's mean of one chain."""
        self.chain_sum[chain] += mean
        self.square += mean * mean
        self.escape += escape
        self.added += 1

    def check(self, alphas: list[Floats]) -> float:
        """Return the standard error, root mean square over rows, by batches or chains if larger."""
        n_chains = self.chain_sum.shape[0]
        self.concentrations.append(np.mean(alphas, axis=0))
        if self.added < 2:
            self.trace.append(np.inf)
            return np.inf
        mean = self.chain_sum[:, self.leaves].sum(0) / self.added
        spread = np.maximum(self.square[self.leaves] / self.added - mean * mean, 0.0)
        variance = spread / (self.added - 1)
        if n_chains > 1:
            between = self.chain_sum[:, self.leaves] / self.n_blocks
            variance = np.maximum(variance, between.var(0, ddof=1) / n_chains)
        error = float(np.sqrt((self.weight * variance).sum()))
        self.trace.append(error)
        return error

    def estimate(self, *, converged: bool, sweeps: int) -> Estimate:
        """Return the means, with the escape masses that make every context sum to one."""
        mean = self.chain_sum.sum(0) / self.added
        info = {
            "sweeps": sweeps,
            "trace": np.array(self.trace),
            "concentration": np.mean(self.concentrations, axis=0),
            "concentration_trace": np.array(self.concentrations),
        }
        escape = _escapes(self.flat, mean, self.escape / self.added)
        return Estimate(np.log(mean), np.log(escape), converged, info)


def _escapes(flat: TiedTree, mean: Floats, root: float) -> Floats:
    """Return what the seen values leave in each node, over what they leave in its parent."""
    starts = flat.node_start[:-1]
    left = 1.0 - np.add.reduceat(mean, starts)
    above = 1.0 - np.add.reduceat(mean[flat.cell_parent], starts)
    share = np.where(above > 1e-12, left / np.maximum(above, 1e-12), 1.0)
    share[0] = root
    clipped: Floats = np.clip(share, 1e-12, 1.0)
    return clipped


def _largest_count(flat: TiedTree) -> int:
    """Return a power of two no cell below the root can exceed, so that tables are shared."""
    below = flat.cell_count[flat.level_cell[1] :]
    return int(2 ** np.ceil(np.log2(max(below.max(initial=0.0), 64.0))))


def log_likelihood(
    flat: TiedTree, state: Seating, alpha: Floats, discount: float, max_count: int
) -> float:
    r"""Return the terms of the tables' probability that depend on the discount.

    .. math:: \sum_u \sum_{i < t_u} \log(\alpha_u + i d) + \sum_c \log S_d(n_c, t_c)

    over the nodes and cells below the root, whose Dirichlet has no discount.
    """
    counts, tables, _, node_tables = state
    below = slice(int(flat.level_cell[1]), None)
    busy = counts[below] > 1
    pairs, times = np.unique(
        np.stack([counts[below][busy], tables[below][busy]]), axis=1, return_counts=True
    )
    total = float(times @ _log_stirling(pairs[0], pairs[1], discount, max_count))
    concentration = alpha[flat.node_group[1:]]
    if discount == 0.0:
        return total + float(node_tables[1:] @ np.log(concentration))
    from scipy.special import gammaln

    # prod_{i<t} (alpha + i d) = d^t Gamma(alpha/d + t) / Gamma(alpha/d)
    start = concentration / discount
    rising = gammaln(start + node_tables[1:]) - gammaln(start)
    return total + float(rising.sum() + node_tables[1:].sum() * np.log(discount))


def _log_stirling(counts: Ints, tables: Ints, discount: float, max_count: int) -> Floats:
    """Return log S_d(n, t), from S_d(n, 1) = Gamma(n - d) / Gamma(1 - d) and the ratios."""
    from scipy.special import gammaln

    ratios = stirling_ratios(max_count, discount)
    logs = gammaln(counts - discount) - gammaln(1.0 - discount)
    for at, (n, t) in enumerate(zip(counts.tolist(), tables.tolist(), strict=True)):
        logs[at] += np.log(ratios.row(n)[1:t]).cumsum()[-1] if t > 1 else 0.0
    return np.asarray(logs, np.float64)
