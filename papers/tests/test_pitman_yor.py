"""The fixed point with a Pitman-Yor discount: exact sums, its equations, the sampler."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma
from tests.oracles.hdp_exact import stirling
from tests.parameters.hdp.trees import dense_log_prob, random_counts, random_tree

from tanager import native
from tanager.counts import FamilyCounts
from tanager.errors import ConfigurationError
from tanager.parameters.hdp import Prior, tie
from tanager_papers.hdp_sampler import GibbsHDP, stirling_ratios
from tanager_papers.pitman_yor import PitmanYor, count_discounts, solve_discounted


def exact_mean(n, phi, alpha, discount, rest):
    """The mean number of tables of one cell, every number of tables written out."""
    weights, weight = [], 1.0
    for t in range(1, n + 1):
        weight *= phi * (alpha + discount * (rest + t - 1))
        weights.append(float(stirling(n, t, discount)) * weight)
    return float(np.dot(weights, np.arange(1, n + 1)) / sum(weights))


@pytest.mark.parametrize("discount", [0.0, 0.1, 0.5, 0.9])
def test_means_of_tables_equal_the_written_out_sum(discount):
    cases = [
        (n, phi, alpha, rest)
        for n in (1, 2, 7, 40)
        for phi in (1e-6, 0.2, 1.0)
        for alpha in (0.01, 3.0, 400.0)
        for rest in (0.0, 2.5)
    ]
    count, phi, alpha, rest = (np.array(column, float) for column in zip(*cases, strict=True))
    found = np.empty(len(cases))
    ratios = stirling_ratios(64, discount)
    table = (ratios.rows, ratios.log_count, ratios.dense)
    native.expect_tables(*table, count, phi, rest, alpha, discount, found)
    wanted = [exact_mean(n, p, a, discount, r) for n, p, a, r in cases]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    # A fractional count lies between its whole neighbours, half a row is half a table.
    native.expect_tables(*table, count - 0.5, phi, rest, alpha, discount, found)
    for value, (n, p, a, r) in zip(found, cases, strict=True):
        below = exact_mean(n - 1, p, a, discount, r) if n > 1 else 0.0
        assert value == pytest.approx((below + exact_mean(n, p, a, discount, r)) / 2, rel=1e-9)


def test_means_of_tables_of_large_counts_without_a_discount_are_digammas():
    ratios = stirling_ratios(60_000, 0.0)
    count, mass = np.array([2000.0, 50_000.0]), np.array([0.3, 9.0])
    found = np.empty(2)
    table = (ratios.rows, ratios.log_count, ratios.dense)
    native.expect_tables(*table, count, np.ones(2), np.zeros(2), mass, 0.0, found)
    np.testing.assert_allclose(found, mass * (digamma(mass + count) - digamma(mass)), rtol=1e-4)


@pytest.mark.parametrize("tying", ["level", "parent", "single"])
def test_the_estimate_solves_its_equations(tying):
    tree = random_tree(2, (2, 3, 4), rows=60)
    flat, prior = tie(tree, tying), Prior(2.0, 1.0, 1.5)
    discounts = np.array([0.0, 0.2, 0.4])
    estimate = solve_discounted(flat, prior, discounts, 1e-12, 5000)
    assert estimate.converged
    phi, alpha = np.exp(estimate.log_prob), estimate.info["concentration"]
    level_of = np.repeat(np.arange(3), np.diff(tree.level_node))
    node_of = np.repeat(np.arange(tree.n_nodes), np.diff(tree.node_start))
    # Tables from the leaves up, by their own conditional means, until they stand still.
    count = tree.cell_count.astype(float)
    tables = np.minimum(count, 1.0)
    for _ in range(200):
        for c in range(tree.n_cells - 1, int(tree.level_cell[1]) - 1, -1):
            if level_of[node_of[c]] < 2:
                below = (tree.cell_parent == c) & (level_of[node_of] == level_of[node_of[c]] + 1)
                count[c] = tables[below].sum()
            u = node_of[c]
            d, a = discounts[level_of[u]], alpha[flat.node_group[u]]
            rest = tables[node_of == u].sum() - tables[c]
            p, low = phi[tree.cell_parent[c]], int(np.floor(count[c]))
            ends = [exact_mean(n, p, a, d, rest) if n else 0.0 for n in (low, low + 1)]
            tables[c] = ends[0] + (count[c] - low) * (ends[1] - ends[0])
    gain = dict.fromkeys(range(flat.n_groups), prior.shape - 1.0)
    cost = {g: prior.rate * alpha[g] for g in gain}
    for u in range(1, tree.n_nodes):
        cells, g, d = node_of == u, flat.node_group[u], discounts[level_of[u]]
        total, own = count[cells].sum(), tables[cells].sum()
        mass = (alpha[g] + d * own) * phi[tree.cell_parent[cells]]
        wanted = (count[cells] - d * tables[cells] + mass) / (total + alpha[g])
        np.testing.assert_allclose(phi[cells], wanted, atol=1e-7)
        gain[g] += alpha[g] / d * (digamma(alpha[g] / d + own) - digamma(alpha[g] / d))
        cost[g] += alpha[g] * (digamma(alpha[g] + total) - digamma(alpha[g]))
    for g in gain:
        if cost[g] > prior.rate * alpha[g]:  # a group without nodes keeps its start
            assert gain[g] == pytest.approx(cost[g], rel=1e-5)


def test_a_vanishing_discount_is_the_plain_fixed_point():
    tree = random_tree(4, (2, 3, 4, 5), rows=300)
    plain, small = (
        dense_log_prob(PitmanYor(discount=d, tolerance=1e-9, max_sweeps=5000).family(tree), tree)
        for d in (0.0, 1e-9)
    )
    # Counts above the leaves are fractional: digammas there, a line between whole counts here.
    np.testing.assert_allclose(np.exp(small), np.exp(plain), atol=4e-3)


@pytest.mark.parametrize("discount", [0.3, 0.6])
def test_it_agrees_with_the_sampler(discount):
    tree = FamilyCounts.from_dense(random_counts(7, (2, 6, 12), rows=900)).tree()
    found = dense_log_prob(PitmanYor(discount=discount).family(tree), tree)
    sampler = GibbsHDP(discount=discount, tolerance=1e-3, max_sweeps=4000)
    drawn = dense_log_prob(sampler.family(tree), tree)
    weight = random_counts(7, (2, 6, 12), rows=900)
    losses = [-(weight * each).sum() / weight.sum() for each in (found, drawn)]
    assert abs(losses[0] - losses[1]) < 0.01
    assert np.abs(np.exp(found) - np.exp(drawn)).max() < 0.03


@pytest.mark.parametrize("discount", [0.5, "counted"])
@pytest.mark.parametrize("seed", range(6))
def test_every_context_sums_to_one(discount, seed):
    tree = random_tree(seed, (3, 2, 3, 4), rows=1 + 40 * seed, fraction=seed % 2 == 1)
    log_prob = dense_log_prob(PitmanYor(discount=discount).family(tree), tree)
    assert np.isfinite(log_prob).all()
    np.testing.assert_allclose(np.exp(log_prob).sum(-1), 1.0, rtol=1e-9)


def test_discounts_are_counted_from_cells_seen_once_and_twice():
    counts = np.array([[[1.0, 2.0, 0.0], [1.0, 5.0, 1.0]], [[2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]])
    tree = FamilyCounts.from_dense(counts).tree()
    # Leaves: four cells with one row, two with two. Class 0 gets 2, 2, 1 contexts by value and
    # class 1 gets 2, 0, 0: one cell seen once, three twice.
    found = count_discounts(tie(tree, "level"))
    np.testing.assert_allclose(found, [0.0, round(1 / 7, 2), round(4 / 8, 2)])


@pytest.mark.parametrize(
    ("kind", "discount"),
    [(PitmanYor, "sampled"), (GibbsHDP, "counted"), (PitmanYor, 1.0), (GibbsHDP, -0.1),
     (PitmanYor, None)],
)  # fmt: skip
def test_wrong_discounts_are_named(kind, discount):
    with pytest.raises(ConfigurationError, match="discount="):
        kind(discount=discount).family(random_tree(1, (2, 3, 4)))
