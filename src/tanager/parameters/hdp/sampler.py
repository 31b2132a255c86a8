"""The Gibbs sampler of the hierarchical Dirichlet process, and its convergence check."""

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
    TiedTree,
    stirling_ratios,
)

BLOCK = 10  # recorded states per batch mean
BLOCKS = 100  # batch means in a full budget; longer budgets have longer blocks
LEAST_BLOCKS = 5  # minimum number of batch means for a variance
SPREAD = 2.0  # factor by which the chains' first concentrations differ
WINDOW = 8  # table counts a cell chooses from in one sweep


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
    """Estimate one family by its posterior mean."""
    leaves = flat.cell_count[flat.level_cell[-2] :]
    if not np.array_equal(leaves, np.floor(leaves)):
        raise ConfigurationError(
            "inference='gibbs' needs whole counts, but the rows have fractional weights. "
            "Use inference='fixed-point', which takes any weights."
        )
    if flat.cell_count.shape[0] == 0:
        return fixed_point.solve(tree, flat, prior, budget.tolerance, 1)
    chains = _start(tree, flat, prior, budget, generator)
    run = _Kernel(tree, flat, prior)
    nowhere, nothing = np.zeros(flat.cell_count.shape[0]), np.zeros(1)
    never = budget.pace._replace(thinning=budget.burn_in + 1)
    for chain in chains:
        run(chain, budget.burn_in, never, nowhere, nothing)
    watch = _Watch(flat, budget.n_chains)
    sweeps = budget.burn_in
    thinning = budget.pace.thinning
    length = BLOCK * thinning
    length *= max(1, budget.max_sweeps // (BLOCKS * length))
    while True:
        length = max(min(length, budget.max_sweeps - sweeps), thinning)
        for at, chain in enumerate(chains):
            total, escape = np.zeros_like(nowhere), np.zeros(1)
            run(chain, length, budget.pace, total, escape)
            recorded = length // thinning
            watch.add(at, total / recorded, escape[0] / recorded)
        sweeps += length
        error = watch.check([chain.alpha for chain in chains])
        converged = error < budget.tolerance and watch.n_blocks >= LEAST_BLOCKS
        if converged or sweeps >= budget.max_sweeps:
            break
    return watch.estimate(converged=converged, sweeps=sweeps)


class _Kernel:
    """The inputs of the chains' kernel other than their states."""

    def __init__(self, tree: ContextTree, flat: TiedTree, prior: Prior) -> None:
        nodes = (flat.level_node, flat.level_cell, flat.node_start, flat.node_group)
        ratios = stirling_ratios(_largest_count(flat), prior.discount)
        root = (prior.root_concentration, prior.root_share)
        gamma = (prior.shape, prior.rates(flat.n_groups, flat.class_group))
        above = (flat.node_parent, flat.cell_parent)
        self._model = (*nodes, *above, *ratios, *root, *gamma, tree.arity)

    def __call__(
        self, chain: _Chain, n_sweeps: int, pace: Pace, total: Floats, escape: Floats
    ) -> None:
        """Run `n_sweeps` sweeps, adding every recorded state's estimates to total and escape."""
        moving = (chain.alpha, *chain.state, chain.random, chain.clock)
        given = (*self._model, n_sweeps, *pace, *moving, total, escape)
        native.run_chain(*given)


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
    """Batch means of every predictive probability, and their standard errors."""

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
        """Number of blocks completed by every chain."""
        return self.added // self.chain_sum.shape[0]

    def add(self, chain: int, mean: Floats, escape: float) -> None:
        """Add the mean of one block of one chain."""
        self.chain_sum[chain] += mean
        self.square += mean * mean
        self.escape += escape
        self.added += 1

    def check(self, alphas: list[Floats]) -> float:
        """Return the standard error, RMS over rows: the larger of that by batches and by chains."""
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
    """Return the mass left by the seen values in each node, relative to that in its parent."""
    starts = flat.node_start[:-1]
    left = 1.0 - np.add.reduceat(mean, starts)
    above = 1.0 - np.add.reduceat(mean[flat.cell_parent], starts)
    share = np.where(above > 1e-12, left / np.maximum(above, 1e-12), 1.0)
    share[0] = root
    clipped: Floats = np.clip(share, 1e-12, 1.0)
    return clipped


def _largest_count(flat: TiedTree) -> int:
    """Return a power of two that no cell below the root can exceed, so that tables are shared."""
    below = flat.cell_count[flat.level_cell[1] :]
    return int(2 ** np.ceil(np.log2(max(below.max(initial=0.0), 64.0))))
