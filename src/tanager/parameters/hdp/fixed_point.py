"""The HDP model on a context tree, its deterministic estimate, and Stirling numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tanager import native
from tanager.counts import ContextTree
from tanager.numerics import Floats, Ints
from tanager.parameters.spread import count_spread
from tanager.parameters.tables import FamilyTable, TreeTable

TYINGS = ("level", "parent", "single")
KNOWN = 1e12  # rows of a node whose estimate is treated as known
DENSE = 1024  # rows 0 .. DENSE are all kept
GRID = 1.02  # ratio of neighbouring rows above that; interpolation error below 1e-5
EXACT = 4096  # the recurrence runs up to here, the differential equation from here on
NEAR = 66  # columns of the near tables; not a power of two, to avoid cache conflicts
MAX_TABLES = 1024  # columns; at most this many tables per cell are sampled
# If two levels explain the same variation the fixed point isn't unique.
# From a low start the deep levels explain it first, and the redundant levels
# end as copies of their parents; from a high start the leaves
# do (occupation_k3 of docs/measurements/hdp.md: 2.1464 instead of 2.1420).
START = 2.0
MIN_CONCENTRATION, MAX_CONCENTRATION = 1e-3, 1e5
MAX_STEP = 1.5  # largest change of a log-concentration in one sweep
PROBE = 0.05  # distance in log-concentration for the slope of Newton's step
MOST = 0.95  # largest discount estimated from counts


class Prior(NamedTuple):
    """Gamma(shape, rate) on every concentration below the root, whose own is fixed."""

    shape: float
    rate: float
    root_concentration: float
    class_rate: float | None = None  # for the class level's concentration; None: same as the others
    discount: float = 0.0  # of a Pitman-Yor process; zero is the Dirichlet process
    # Share of the root's Dirichlet in the sampler's weights: one marginalises it as
    # in the paper; the authors' program uses zero (one table per value at the root).
    root_share: float = 1.0

    def rates(self, n_groups: int, class_group: int) -> Floats:
        """Return the rate for each concentration, with the class level's own, if any."""
        rates = np.full(n_groups, float(self.rate))
        if self.class_rate is not None and class_group >= 0:
            rates[class_group] = self.class_rate
        return rates


class TiedTree(NamedTuple):
    """A `ContextTree` in the kernels' layout, with each node's concentration.

    Nodes of level d are ``level_node[d]:level_node[d+1]``, cells of node u are
    ``node_start[u]:node_start[u+1]``.
    """

    level_node: Ints  # (depth + 2,)
    level_cell: Ints  # (depth + 2,)
    node_start: Ints  # (n_nodes + 1,)
    node_group: Ints  # (n_nodes,): which concentration; the root's entry is unused
    node_parent: Ints  # (n_nodes,)
    cell_parent: Ints  # (n_cells,): the same value in the parent node; unused for the root
    cell_count: Floats  # (n_cells,): the estimators use those of the leaves
    n_groups: int  # number of distinct concentrations
    class_group: int  # the one used only by the class level's nodes; -1 if none


def tie(tree: ContextTree, tying: str) -> TiedTree:
    """Tie concentrations: one for a level's nodes, a node's children, or all but the root."""
    group = np.zeros(tree.n_nodes, np.int64)
    n_groups = 1
    if tying == "level":
        for d in range(1, tree.depth + 1):
            group[tree.nodes(d)] = d - 1
        n_groups = tree.depth
    elif tying == "parent":
        group = tree.node_parent
        n_groups = int(tree.level_node[-2])
    nodes = tree.level_node, tree.level_cell, tree.node_start, group, tree.node_parent
    class_group = -1 if tying == "single" else 0
    return TiedTree(*nodes, tree.cell_parent, tree.cell_count, n_groups, class_group)


def spell_unseen(tree: ContextTree) -> ContextTree:
    """Give every node a cell, possibly of count 0, for each value seen in the root.

    Averages over samples need them: the mean of a product isn't the product of the means.
    """
    values = tree.cell_value[: tree.node_start[1]]
    width = values.shape[0]
    counts = np.zeros((tree.n_nodes, width))
    counts[tree.cell_nodes(), np.searchsorted(values, tree.cell_value)] = tree.cell_count
    above = tree.node_parent[:, None] * width + np.arange(width)
    above[0] = 0
    return replace(
        tree,
        node_start=np.arange(tree.n_nodes + 1) * width,
        cell_value=np.tile(values, tree.n_nodes),
        cell_count=counts.ravel(),
        cell_parent=above.ravel(),
    )


@dataclass(frozen=True)
class Estimate:
    """The estimates for every node of one family's tree."""

    log_prob: Floats  # (n_cells,): for every (context, value) seen, at every depth
    log_escape: Floats  # (n_nodes,): log share of the parent's estimate in unseen values
    converged: bool
    info: dict[str, Any] = field(default_factory=dict)  # concentrations, sweeps and the trace

    def table(self, tree: ContextTree) -> TreeTable:
        """Return the estimates as a table on the tree."""
        return TreeTable(tree.without_counts(), self.log_prob, self.log_escape, inherit=True)

    def spread(self, tree: ContextTree, tying: str) -> FamilyTable | None:
        """Return the variances of the estimates."""
        if self.log_prob.shape != (tree.n_cells,):
            tree = spell_unseen(tree)
        node, flat = tree.cell_nodes(), tie(tree, tying)
        phi, escape = np.exp(self.log_prob), np.exp(self.log_escape)
        alpha = self.info["concentration"][flat.node_group]
        total = alpha / escape  # the node's rows plus its concentration
        total[0] = KNOWN
        above = phi[tree.cell_parent]
        inside = np.bincount(node, above, minlength=tree.n_nodes)
        n_rest = np.maximum(tree.node_start[1] - np.diff(tree.node_start), 1)
        unseen = alpha * np.maximum(1.0 - inside, 0.0) / n_rest
        shares = np.minimum(escape[node] * above / phi, 1.0)
        # A concentration is known to about a factor of e: the squared derivative of the estimate.
        doubt = (escape[node] * (above / phi - 1.0)) ** 2
        rows = phi * total[node]
        return count_spread(tree, rows, unseen, total, shares=shares, doubt=doubt)


class Ratios(NamedTuple):
    """V(n, t) for the sampler's kernels."""

    rows: Floats  # (n_rows, n_columns): ``rows[i, t]`` is V(n_i, t); column 0 is unused
    log_count: Floats  # (n_rows - DENSE,): log n_i from row `DENSE` on
    dense: int  # rows up to this number have n_i = i
    discount: float
    near: Floats  # (<= DENSE + 1, NEAR): a cache-friendly copy of the first columns, used most
    growth: Floats  # likewise: S(n + 1, t) / S(n, t) = n - t d + 1 / V(n, t - 1)


@lru_cache(maxsize=24)
def stirling_ratios(max_count: int, discount: float = 0.0) -> Ratios:
    """Tabulate V(n, t) for counts up to `max_count`, shared by all families: 11 MB at a million."""
    top = max(max_count, 2)
    counts = [*range(min(top, DENSE) + 1)]
    while counts[-1] < top:
        counts.append(min(top, int(np.ceil(counts[-1] * GRID))))
    rows = np.zeros((len(counts), min(top, MAX_TABLES) + 1))
    _fill(counts, discount, rows[:, 1:])
    near = rows[: DENSE + 1, :NEAR].copy()
    log_count = np.log(np.array(counts[DENSE:], np.float64))
    return Ratios(rows, log_count, DENSE, discount, near, _kept_counts(near, discount))


def _fill(counts: list[int], discount: float, rows: Floats) -> None:
    """Write V(n, t), t = 1, 2, ..., for increasing counts n to rows (n_counts, n_columns)."""
    place = {n: at for at, n in enumerate(counts)}
    ratio, n = np.zeros(rows.shape[1]), 1
    while n < min(counts[-1], EXACT):
        some = ratio[:n]  # zero for t > n
        some += _step(n, some, discount)
        n += 1
        if n in place:
            rows[place[n]] = ratio
    for after in (m for m in counts if m > min(counts[-1], EXACT)):
        ratio = _follow(ratio, n, after, discount)
        rows[place[after]], n = ratio, after


def _step(n: float, ratio: Floats, discount: float) -> Floats:
    """Return V(n + 1, t) - V(n, t), t = 1, 2, ..., from V(n, t)."""
    inverse = np.zeros_like(ratio)  # 1 / V(n, t - 1)
    np.divide(1.0, ratio[:-1], out=inverse[1:])
    rest = n - discount * np.arange(1, len(ratio) + 1)
    return np.asarray((1.0 - (discount + inverse) * ratio) / (rest + inverse))


def _follow(ratio: Floats, low: int, high: int, discount: float) -> Floats:
    """Return V(high, t) from V(low, t) by fourth-order Runge-Kutta steps in log n."""

    def slope(place: float, ratio: Floats) -> Floats:
        # A difference is the slope at the midpoint of its step.
        n = np.exp(place) - 0.5
        before = ratio - 0.5 * _step(n, ratio, discount)
        return _step(n, before, discount) * (n + 0.5)

    place, distance = np.log(low), np.log(high / low)
    # Errors decay at rates of up to 1 / V and move on to larger t: as with upwind differences for
    # a transport equation, steps of up to 1.39 V are stable.
    n_steps = int(np.ceil(distance * (1.0 / ratio[-1] + 1.0)))
    h = distance / n_steps
    for at in range(n_steps):
        x = place + at * h
        a = slope(x, ratio)
        b = slope(x + h / 2, ratio + h / 2 * a)
        c = slope(x + h / 2, ratio + h / 2 * b)
        d = slope(x + h, ratio + h * c)
        ratio = ratio + h / 6 * (a + 2 * b + 2 * c + d)
    return ratio


def _kept_counts(near: Floats, discount: float) -> Floats:
    """Return S(n + 1, t) / S(n, t) for the near columns; zero where t > n."""
    count, tables = np.ogrid[: near.shape[0], : near.shape[1]]
    more = np.where((tables >= 1) & (tables <= count), count - tables * discount, 0.0)
    seen = (tables[:, 2:] <= count) & (near[:, 1:-1] > 0)
    more[:, 2:] += np.divide(1.0, near[:, 1:-1], out=np.zeros_like(near[:, 2:]), where=seen)
    return more


def solve(
    tree: ContextTree, flat: TiedTree, prior: Prior, tolerance: float, max_sweeps: int
) -> Estimate:
    """Estimate one family; `max_sweeps` bounds the work, `tolerance` the last change."""
    alpha = np.full(flat.n_groups, START)
    phi = np.empty(flat.cell_count.shape[0])
    escape = np.empty(flat.node_group.shape[0])
    trace = np.zeros(max_sweeps)
    nodes = flat.level_node, flat.level_cell, flat.node_start, flat.node_group
    gamma = prior.shape, prior.rates(flat.n_groups, flat.class_group)
    model = *nodes, flat.cell_parent, flat.cell_count, tree.arity, prior.root_concentration, *gamma
    out = alpha, phi, escape, trace
    n_sweeps = native.solve_fixed_point(*model, tolerance, max_sweeps, *out)
    converged = bool(trace[n_sweeps - 1] < tolerance)
    info = {"sweeps": int(n_sweeps), "trace": trace[:n_sweeps].copy(), "concentration": alpha}
    return Estimate(phi, escape, converged, info)


def count_discounts(tree: ContextTree, flat: TiedTree) -> Floats:
    """Return a discount for each level from the numbers of cells seen once and twice."""
    count = np.where(flat.cell_count > 0, flat.cell_count, 0.0)
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
            flat.cell_parent[cells] - above.start, seen, minlength=above.stop - above.start
        )
    return discounts


def solve_discounted(
    tree: ContextTree,
    flat: TiedTree,
    prior: Prior,
    discounts: Floats,
    tolerance: float,
    max_sweeps: int,
) -> Estimate:
    """Estimate one family; `discounts` (depth + 1,) are by level, the root's is unused."""
    sweeps = _DiscountedSweeps(tree, flat, prior, discounts)
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
        return Estimate(np.log(sweeps.phi), np.log(spare), trace[-1] < tolerance, info)


def _cells(flat: TiedTree, level: int) -> slice:
    return slice(int(flat.level_cell[level]), int(flat.level_cell[level + 1]))


def _nodes(flat: TiedTree, level: int) -> slice:
    return slice(int(flat.level_node[level]), int(flat.level_node[level + 1]))


class _DiscountedSweeps:
    """The state of the sweeps: of cells (n_cells,), of nodes (n_nodes,), of groups (n_groups,)."""

    def __init__(self, tree: ContextTree, flat: TiedTree, prior: Prior, discounts: Floats) -> None:
        self.tree, self.flat, self.prior, self.discounts = tree, flat, prior, discounts
        self.owner = owner = np.repeat(np.arange(tree.n_nodes), np.diff(flat.node_start))
        self.counts = count = flat.cell_count.astype(float)
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
            count, node, parent = self.counts[cells], self.owner[cells], flat.cell_parent[cells]
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
            self.phi[cells] = own / weight + share[node] * self.phi[flat.cell_parent[cells]]
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
