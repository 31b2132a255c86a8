"""The sampler against exact enumeration, quadrature and the authors' program."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning
from tests.oracles.hdp import group_by
from tests.oracles.hdp_exact import posterior_means, posterior_sums
from tests.oracles.kernels.gibbs import log_gamma_variate, normal, uniform
from tests.parameters.hdp.trees import dense_counts, dense_log_prob, random_tree

from tanager.counts import FamilyCounts
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ConfigurationError
from tanager.parameters.hdp import HDP, Prior, tie
from tanager_papers.hdp_sampler import (
    Budget,
    GibbsHDP,
    Pace,
    Process,
    Seating,
    _Chain,
    _Kernel,
    _start,
    sample,
    spell_unseen,
)

EVERY_SWEEP = Pace(1)


def batch_means(tree, process, tying, n_batches=60, length=1000, seed=0, pace=EVERY_SWEEP):
    """Return the mean of every cell's probability and its standard error, by batches."""
    flat = tie(tree, tying)
    generator, run = np.random.default_rng(seed), _Kernel(flat, process)
    chain = _start(flat, process, Budget(1.0, 1, 1, 1), generator)[0]
    batches = []
    for _ in range(n_batches):
        total, escape = np.zeros(tree.cell_count.shape[0]), np.zeros(1)
        run(chain, length, pace, total, escape)
        batches.append(total / length)
    batches = np.array(batches[2:])
    return batches.mean(0), batches.std(0, ddof=1) / np.sqrt(len(batches))


def contexts_of(tree):
    """Return the context of every node, level by level."""
    found = [[()]]
    for level in tree.levels[1:]:
        pairs = zip(level.parent, level.value, strict=True)
        found.append([(*found[-1][p], int(v)) for p, v in pairs])
    return [u for level in found for u in level]


ONE_LEVEL = np.array([[3.0, 0.0, 2.0], [1.0, 4.0, 0.0]])
TWO_LEVELS = np.array([[[3.0, 0.0], [1.0, 2.0]], [[2.0, 2.0], [0.0, 0.0]]])


@pytest.mark.parametrize("tying", ["level", "parent", "single"])
@pytest.mark.parametrize("counts", [ONE_LEVEL, TWO_LEVELS], ids=["one level", "two levels"])
def test_means_equal_exact_enumeration(counts, tying):
    check_against_enumeration(counts, tying, discount=0.0)


def test_means_equal_exact_enumeration_with_a_discount():
    check_against_enumeration(ONE_LEVEL, "level", discount=0.4)


def check_against_enumeration(counts, tying, discount):
    prior = Prior(2.0, 1.0, 1.5)
    leaves = {
        tuple(map(int, u)): [int(n) for n in counts[tuple(u)]]
        for u in np.argwhere(counts.sum(-1) > 0)
    }
    arity = counts.shape[-1]
    grid = np.exp(np.linspace(np.log(5e-3), np.log(25.0), 21))
    exact = posterior_means(
        leaves,
        arity,
        group_by(tying),
        prior.shape,
        prior.rate,
        prior.root_concentration,
        grid,
        discount,
    )
    tree = FamilyCounts.from_dense(counts).tree()
    mean, error = batch_means(tree, Process(prior, discount), tying)
    values = np.concatenate([level.cell_value for level in tree.levels])
    for node, context in enumerate(contexts_of(tree)):
        for c in range(tree.node_start[node], tree.node_start[node + 1]):
            expected = exact[context][values[c]]
            assert abs(mean[c] - expected) < 4.5 * error[c] + 3e-4, (context, values[c])


def exact_means(counts, prior, discount=0, tying="level", grid=None):
    """Return (log evidence, {context: means}) by enumeration."""
    leaves = {
        tuple(map(int, u)): [int(n) for n in counts[tuple(u)]]
        for u in np.argwhere(counts.sum(-1) > 0)
    }
    grid = np.exp(np.linspace(np.log(5e-3), np.log(40.0), 41)) if grid is None else grid
    model = (group_by(tying), prior.shape, prior.rate, prior.root_concentration)
    return posterior_sums(leaves, counts.shape[-1], *model, grid, discount)


@pytest.mark.parametrize("start", ["fixed-point", "prior"])
def test_values_that_a_context_never_saw_are_averaged_too(start):
    counts = np.array([[4.0, 0.0, 0.0], [0.0, 6.0, 0.0]])
    prior = Prior(2.0, 1.0, 2.0)
    exact = exact_means(counts, prior)[1]
    learner = GibbsHDP(
        shape=2.0, rate=1.0, class_rate=None, root_concentration=2.0,
        tolerance=1e-9, max_sweeps=200_000, thinning=1, start=start,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning):
        tables = learner.from_counts(
            np.ones(2), [FamilyCounts.from_dense(counts).tree()], FitContext()
        )
    found = np.exp(tables.families[0].log_prob)
    for y in (0, 1):
        np.testing.assert_allclose(found[:, y], exact[(y,)], atol=1e-3)
    assert abs(found[2, 0] - 0.0223) < 4e-4  # split by the parent's mean it was 0.0243


def test_spelled_cells_leave_seen_ones_alone():
    tree = random_tree(3, (2, 3, 5), rows=30)
    spelled = spell_unseen(tree)
    for level, full in zip(tree.levels, spelled.levels, strict=True):
        kept = full.cell_count > 0
        np.testing.assert_array_equal(full.cell_value[kept], level.cell_value)
        np.testing.assert_array_equal(full.cell_count[kept], level.cell_count)
        np.testing.assert_array_equal(full.cell_nodes()[kept], level.cell_nodes())
    for above, level in zip(spelled.levels, spelled.levels[1:], strict=False):
        np.testing.assert_array_equal(above.cell_value[level.cell_parent], level.cell_value)
        np.testing.assert_array_equal(
            above.cell_nodes()[level.cell_parent], level.parent[level.cell_nodes()]
        )


@pytest.mark.parametrize("pace", [Pace(1, interval=5), Pace(1, window=2), Pace(1, window=40)])
def test_the_pace_does_not_change_the_target(pace):
    prior = Prior(2.0, 1.0, 1.5)
    exact = exact_means(ONE_LEVEL, prior)[1]
    tree = FamilyCounts.from_dense(ONE_LEVEL).tree()
    mean, error = batch_means(tree, Process(prior), "level", pace=pace)
    values = np.concatenate([level.cell_value for level in tree.levels])
    for node, context in enumerate(contexts_of(tree)):
        for c in range(tree.node_start[node], tree.node_start[node + 1]):
            assert abs(mean[c] - exact[context][values[c]]) < 4.5 * error[c] + 3e-4


def test_the_paper_s_improper_prior_is_allowed():
    tree = random_tree(1, (2, 3, 4), rows=200)
    for learner in (HDP(shape=0, rate=0, class_rate=0),
                    GibbsHDP(shape=0, rate=0, class_rate=0, tolerance=0.05)):  # fmt: skip
        found = np.exp(dense_log_prob(learner.family(tree), tree))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("times", [1, 20], ids=["few nodes, one by one", "many nodes, together"])
def test_concentrations_equal_numeric_integration(times):
    counts, tables = np.array([5, 60, 3, 700]), np.array([3, 9, 1, 14])
    counts, tables = np.tile(counts, times), np.tile(tables, times)
    tree = FamilyCounts.from_dense(np.diag(counts).astype(float)).tree()
    flat = tie(tree, "level")
    # No cell has more than one row, so that the tables stay as they are.
    state = Seating(
        np.zeros(2 * len(counts), np.int64),
        np.zeros(2 * len(counts), np.int64),
        np.concatenate([[0], counts]),
        np.concatenate([[0], tables]),
    )

    grid = np.linspace(1e-4, 60, 60_001)
    density = (tables.sum() + 1) * np.log(grid) - 0.5 * grid
    for n in counts:
        density += gammaln(grid) - gammaln(grid + n)
    density = np.exp(density - density.max())
    expected = (grid * density).sum() / density.sum()
    random = np.random.default_rng(1).integers(0, 2**64, 4, np.uint64)
    chain, draws = _Chain(np.array([3.0]), state, random, np.zeros(1, np.int64)), []
    run = _Kernel(flat, Process(Prior(shape=2.0, rate=0.5, root_concentration=1.0)))
    for _ in range(40_000):
        run(chain, 1, Pace(thinning=2), np.zeros(2 * len(counts)), np.zeros(1))
        draws.append(chain.alpha[0])
    batches = np.array(draws).reshape(50, -1).mean(1)
    assert abs(batches.mean() - expected) < 4 * batches.std(ddof=1) / np.sqrt(50)


def test_random_numbers_have_their_moments():
    random = np.random.default_rng(2).integers(0, 2**64, 4, np.uint64)
    n = 20_000
    flat = np.array([uniform(random) for _ in range(n)])
    assert abs(flat.mean() - 0.5) < 4 / np.sqrt(12 * n)
    bell = np.array([normal(random) for _ in range(n)])
    assert abs(bell.mean()) < 4 / np.sqrt(n)
    assert abs(bell.var() - 1.0) < 4 * np.sqrt(2 / n)
    for shape in (0.3, 1.0, 7.5):
        drawn = np.exp([log_gamma_variate(random, shape) for _ in range(n)])
        assert abs(drawn.mean() - shape) < 4 * np.sqrt(shape / n)


def test_one_stream_per_family_whatever_the_threads():
    trees = [random_tree(seed, (2, 3, 4), rows=200) for seed in (1, 1, 2, 3)]
    learner = GibbsHDP(tolerance=0.05)
    tables = [
        learner.from_counts(np.ones(2), trees, FitContext(engine=LocalEngine(n_jobs))).families
        for n_jobs in (1, 3)
    ]
    for one, three in zip(*tables, strict=True):
        np.testing.assert_array_equal(one.log_prob, three.log_prob)
    assert (tables[0][0].log_prob != tables[0][1].log_prob).any()  # the same counts, apart


@pytest.mark.parametrize("tying", ["level", "parent", "single"])
def test_every_context_sums_to_one(tying):
    for seed in range(5):
        tree = random_tree(seed, (3, 2, 3, 4), rows=40)
        learner = GibbsHDP(tying, tolerance=0.05)
        found = dense_log_prob(learner.family(tree), tree)
        np.testing.assert_allclose(np.exp(found).sum(-1), 1.0, rtol=1e-6)


def test_convergence_is_watched():
    trees = [random_tree(1, (2, 3, 4), rows=200)]
    context = FitContext()
    GibbsHDP(tolerance=0.02).from_counts(np.ones(2), trees, context)
    family = context.info["parameters"]["families"][0]
    assert context.info["parameters"]["converged"]
    assert family["trace"][-1] < 0.02
    assert family["concentration_trace"].shape == (len(family["trace"]), 2)
    with pytest.warns(ConvergenceWarning, match="max_sweeps=100"):
        GibbsHDP(tolerance=1e-6, max_sweeps=100).from_counts(np.ones(2), trees, FitContext())


def test_nothing_counted_gives_the_uniform():
    tree = FamilyCounts.from_dense(np.zeros((2, 3, 4))).tree()
    found = dense_log_prob(GibbsHDP().family(tree), tree)
    np.testing.assert_allclose(np.exp(found), 0.25)


def test_fractional_weights_are_refused():
    tree = random_tree(1, (2, 3), fraction=True)
    with pytest.raises(ConfigurationError, match="fixed point"):
        GibbsHDP().family(tree)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("burn_in", -1),
        ("burn_in", 1.5),
        ("thinning", 0),
        ("n_chains", 0),
        ("discount", 1.0),
        ("start", "nowhere"),
    ],
)
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ConfigurationError, match=name):
        GibbsHDP(**{name: value}).family(random_tree(1, (2, 3, 4)))


@pytest.mark.shared
def test_node_estimates_equal_the_authors_program(shared):
    text = (shared / "reference" / "hdp" / "authors_vectors.json").read_text()
    tyings = {"LEVEL": "level", "SAME_PARENT": "parent", "SINGLE": "single"}
    checked = 0
    for vector in json.loads(text)["vectors"]:
        tree = FamilyCounts.from_dense(dense_counts(vector)).tree()
        values = np.concatenate([level.cell_value for level in tree.levels])
        for reference in vector["reference"].values():
            if reference["tying"] not in tyings:
                continue
            flat = tie(tree, tyings[reference["tying"]])
            budget = Budget(1e-9, 12_000, 500, 2)
            estimate = sample(
                flat,
                Process(Prior(2.0, 1.0, 2.0), root_share=0.0),
                budget,
                np.random.default_rng(checked),
            )
            found = np.exp(estimate.log_prob)
            for node, context in enumerate(contexts_of(tree)):
                wanted = reference["nodes"].get(",".join(map(str, context)) or "root")
                if wanted is None:
                    continue
                for c in range(tree.node_start[node], tree.node_start[node + 1]):
                    allowed = 4 * wanted["sd"][values[c]] + 0.002
                    assert abs(found[c] - wanted["mean"][values[c]]) < allowed, (
                        vector["name"],
                        context,
                    )
            checked += 1
    assert checked >= 7
