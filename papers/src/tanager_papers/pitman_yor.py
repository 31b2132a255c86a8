"""The fixed point of a hierarchical Pitman-Yor process, as the learner ``pitman-yor``."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from tanager import native
from tanager.counts import ContextTree
from tanager.numerics import Floats
from tanager.parameters.hdp import HDP, START, Estimate, Prior, TiedTree, tie
from tanager_papers.hdp_sampler import stirling_ratios

__all__ = ["PitmanYor", "count_discounts", "solve_discounted"]

MIN_CONCENTRATION, MAX_CONCENTRATION = 1e-3, 1e5
MAX_STEP = 1.5  # largest change of a log-concentration in one sweep
PROBE = 0.05  # distance in log-concentration for the slope of Newton's step
MOST = 0.95  # largest discount estimated from counts


@dataclass(eq=False, repr=False)
class PitmanYor(HDP):
    """`HDP` with a discount: values seen once count for less.

    For features with dozens of values or more, most of them rare. Takes 20 to 150 times as long.

    Parameters
    ----------
    discount : float or "counted"
        From 0 (the Dirichlet process) to less than 1; "counted" estimates one per level from
        the numbers of cells seen once and twice. The other parameters are those of `HDP`.
    """

    discount: float | str = "counted"

    def estimate(self, tree: ContextTree, generator: np.random.Generator) -> Estimate:
        """Estimate one family."""
        if self.discount == 0:
            return super().estimate(tree, generator)
        flat = tie(tree, self.tying)
        counted = isinstance(self.discount, str)
        discounts = count_discounts(flat) if counted else np.full(tree.depth + 1, self.discount)
        ends = self.tolerance, self.max_sweeps
        return solve_discounted(flat, self.prior, discounts, *ends)

    def _check(self) -> None:
        super()._check()
        small = isinstance(self.discount, Real) and 0 <= self.discount < 1
        allowed = "a number from 0 to below 1, or 'counted'"
        self._allow("discount", small or self.discount == "counted", allowed)


def count_discounts(flat: TiedTree) -> Floats:
    """Return a discount for each level from the numbers of cells seen once and twice."""
    tree = flat.tree
    count = np.where(tree.cell_count > 0, tree.cell_count, 0.0)
    discounts = np.zeros(tree.depth + 1)
    for level in range(tree.depth, 0, -1):
        cells = _cells(flat, level)
        once = float(np.sum((count[cells] > 0.5) & (count[cells] <= 1.5)))
        twice = float(np.sum((count[cells] > 1.5) & (count[cells] <= 2.5)))
        if once:
            # Two digits are precise enough, and families share tables of Stirling ratios.
            discounts[level] = min(round(once / (once + 2.0 * twice), 2), MOST)
        above = _cells(flat, level - 1)
        seen = (count[cells] > 0).astype(float)
        count[above] = np.bincount(
            flat.tree.cell_parent[cells] - above.start, seen, minlength=above.stop - above.start
        )
    return discounts


def solve_discounted(
    flat: TiedTree,
    prior: Prior,
    discounts: Floats,
    tolerance: float,
    max_sweeps: int,
) -> Estimate:
    """Estimate one family; `discounts` (depth + 1,) are by level, the root's is unused."""
    sweeps = _DiscountedSweeps(flat, prior, discounts)
    trace: list[float] = []
    while len(trace) < max_sweeps:
        sweeps.go_up()
        moved = sweeps.move_concentrations()
        trace.append(moved + sweeps.go_down())
        if trace[-1] < tolerance:
            break
    spare = sweeps.spare()
    spare[0] = prior.root_concentration / (sweeps.total[0] + prior.root_concentration)
    info = {
        "sweeps": len(trace),
        "trace": np.array(trace),
        "concentration": sweeps.alpha,
        "discount": discounts[1:],
    }
    with np.errstate(divide="ignore"):
        return Estimate(flat, np.log(sweeps.phi), np.log(spare), trace[-1] < tolerance, info)


def _cells(flat: TiedTree, level: int) -> slice:
    return slice(int(flat.tree.level_cell[level]), int(flat.tree.level_cell[level + 1]))


def _nodes(flat: TiedTree, level: int) -> slice:
    return slice(int(flat.tree.level_node[level]), int(flat.tree.level_node[level + 1]))


class _DiscountedSweeps:
    """The state of the sweeps: of cells (n_cells,), of nodes (n_nodes,), of groups (n_groups,)."""

    def __init__(self, flat: TiedTree, prior: Prior, discounts: Floats) -> None:
        self.flat, self.prior, self.discounts = flat, prior, discounts
        self.tree = tree = flat.tree
        self.owner = owner = np.repeat(np.arange(tree.n_nodes), np.diff(flat.tree.node_start))
        self.counts = count = flat.tree.cell_count.astype(float)
        self.total = np.bincount(owner, count, minlength=tree.n_nodes).astype(float)
        self.phi = (count + 1.0 / tree.arity) / (self.total[owner] + 1.0)
        self.tables = np.minimum(count, 1.0)
        self.node_tables = np.bincount(owner, self.tables, minlength=tree.n_nodes).astype(float)
        self.alpha = np.full(flat.n_groups, START)
        self._residual, self._damping = np.zeros(flat.n_groups), np.ones(flat.n_groups)

    def go_up(self) -> None:
        """Replace every cell's tables by their conditional mean, from the leaves up."""
        flat = self.flat
        for level in range(len(self.discounts) - 1, 0, -1):
            cells, nodes, above = _cells(flat, level), _nodes(flat, level), _cells(flat, level - 1)
            count, node = self.counts[cells], self.owner[cells]
            parent = flat.tree.cell_parent[cells]
            # The bound on the counts is a power of two, so that families share tables of ratios.
            top = 1 << max(6, int(np.ceil(count.max(initial=1.0))).bit_length())
            discount = float(self.discounts[level])
            ratios = stirling_ratios(top, discount)
            native.expect_tables(
                ratios.rows,
                ratios.log_count,
                ratios.dense,
                count,
                self.phi[parent],
                np.maximum(self.node_tables[node] - self.tables[cells], 0.0),
                self.alpha[flat.node_group[node]],
                discount,
                self.tables[cells],
            )
            for receiver, place, start, given in (
                (self.node_tables[nodes], node, nodes.start, self.tables[cells]),
                (self.total[nodes], node, nodes.start, count),
                (self.counts[above], parent, above.start, self.tables[cells]),
            ):
                receiver[:] = np.bincount(place - start, given, minlength=len(receiver))

    def spare(self) -> Floats:
        """Return each node's share of its parent's estimate."""
        share = np.ones(len(self.total))
        for level in range(1, len(self.discounts)):
            nodes = _nodes(self.flat, level)
            alpha = self.alpha[self.flat.node_group[nodes]]
            mass = alpha + self.discounts[level] * self.node_tables[nodes]
            share[nodes] = mass / (self.total[nodes] + alpha)
        return share

    def go_down(self) -> float:
        """Blend every node's counts with its parent's estimate; return the largest change."""
        flat, before = self.flat, self.phi.copy()
        root, mass = _cells(flat, 0), self.prior.root_concentration
        self.total[0] = self.counts[root].sum()
        self.phi[root] = (self.counts[root] + mass / self.tree.arity) / (self.total[0] + mass)
        share = self.spare()
        for level in range(1, len(self.discounts)):
            cells = _cells(flat, level)
            node = self.owner[cells]
            own = self.counts[cells] - self.discounts[level] * self.tables[cells]
            weight = self.total[node] + self.alpha[flat.node_group[node]]
            self.phi[cells] = own / weight + share[node] * self.phi[flat.tree.cell_parent[cells]]
        return float(np.abs(self.phi - before).max(initial=0.0))

    def move_concentrations(self) -> float:
        """Take one damped Newton step on every log-concentration; return a bound on its effect."""
        before, damping = self.alpha.copy(), self._damping
        value = self._balance(before)
        slope = (self._balance(before * np.exp(PROBE)) - value) / PROBE
        falling = slope < 0
        step = np.where(falling, -value / np.where(falling, slope, -1.0), value)
        turned = value * self._residual < 0
        damping[:] = np.where(turned, 0.5 * damping, np.minimum(1.0, 1.3 * damping))
        self._residual[:] = value
        moved = before * np.exp(damping * np.clip(step, -MAX_STEP, MAX_STEP))
        self.alpha[:] = np.clip(moved, MIN_CONCENTRATION, MAX_CONCENTRATION)
        largest = np.zeros(self.flat.n_groups)
        np.maximum.at(largest, self.flat.node_group[1:], self.total[1:])
        share = before / (before + largest)  # d phi / d log alpha <= alpha N / (N + alpha)^2
        weight = np.where(share > 0.5, share * (1.0 - share), 0.25)
        return float((weight * np.abs(np.log(self.alpha / before))).max(initial=0.0))

    def _balance(self, alpha: Floats) -> Floats:
        """Return the log ratio of gain to cost of raising each concentration; zero at the mode."""
        from scipy.special import digamma

        flat, prior = self.flat, self.prior
        gain = np.full(flat.n_groups, prior.shape - 1.0)
        cost = prior.rates(flat.n_groups, flat.class_group) * alpha
        for level in range(1, len(self.discounts)):
            nodes, discount = _nodes(flat, level), self.discounts[level]
            group = flat.node_group[nodes]
            own, opened, total = alpha[group], self.node_tables[nodes], self.total[nodes]
            if discount > 0:
                ratio = own / discount
                opened = ratio * (digamma(ratio + opened) - digamma(ratio))
            taken = own * (digamma(own + total) - digamma(own))
            gain += np.bincount(group, opened, minlength=flat.n_groups)
            cost += np.bincount(group, taken, minlength=flat.n_groups)
        tiny = np.finfo(float).tiny
        return np.asarray(np.log(np.maximum(gain, tiny) / np.maximum(cost, tiny)))
