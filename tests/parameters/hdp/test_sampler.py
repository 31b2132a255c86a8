"""The sampler against exact enumeration, quadrature and the authors' program."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning

from tanager.counts.families import tree_from_dense
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ConfigurationError
from tanager.parameters.hdp import HDP
from tanager.parameters.hdp._gibbs_kernels import run_chain, sweep_concentrations
from tanager.parameters.hdp._random_kernels import log_gamma_variate, normal, uniform
from tanager.parameters.hdp.layout import flatten
from tanager.parameters.hdp.prior import Prior
from tanager.parameters.hdp.sampler import Budget, _shared_ratios, _start, sample
from tests.oracles.hdp import group_by
from tests.oracles.hdp_exact import posterior_means
from tests.parameters.hdp.trees import dense_counts, dense_log_prob, random_tree


def batch_means(tree, prior, tying, n_batches=60, length=1000, seed=0):
    """Return the mean of every cell's probability and its standard error, by batches."""
    flat = flatten(tree, tying)
    ratios = _shared_ratios(64, prior.discount)
    generator = np.random.default_rng(seed)
    chain = _start(tree, flat, prior, Budget(1.0, 1, 1, 1, 1), ratios, generator)[0]
    batches, rates = [], prior.rates(flat.n_groups, 0)
    for _ in range(n_batches):
        total, escape = np.zeros(flat.cell_count.shape[0]), np.zeros(1)
        run_chain(flat, ratios, prior, rates, tree.arity, length, 1, *chain, total, escape)
        batches.append(total / length)
    batches = np.array(batches[2:])
    return flat, batches.mean(0), batches.std(0, ddof=1) / np.sqrt(len(batches))


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
    prior = Prior(2.0, 1.0, 1.5, discount=discount)
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
    tree = tree_from_dense(counts)
    flat, mean, error = batch_means(tree, prior, tying)
    values = np.concatenate([level.cell_value for level in tree.levels])
    for node, context in enumerate(contexts_of(tree)):
        for c in range(flat.node_start[node], flat.node_start[node + 1]):
            expected = exact[context][values[c]]
            assert abs(mean[c] - expected) < 4.5 * error[c] + 3e-4, (context, values[c])


def test_concentrations_equal_numeric_integration():
    counts, tables = np.array([5, 60, 3, 700]), np.array([3, 9, 1, 14])
    tree = tree_from_dense(np.diag(counts).astype(float))
    flat = flatten(tree, "level")
    state = (
        np.zeros(8, np.int64),
        np.zeros(8, np.int64),
        np.concatenate([[0], counts]),
        np.concatenate([[0], tables]),
    )

    def density(alpha, power=0):
        value = tables.sum() * np.log(alpha) + np.log(alpha) - 0.5 * alpha
        value += (gammaln(alpha) - gammaln(alpha + counts) + gammaln(counts)).sum()
        return alpha**power * np.exp(value)

    mass = quad(density, 0, 60)[0]
    expected = quad(density, 0, 60, args=(1,))[0] / mass
    random = np.random.default_rng(1).integers(0, 2**64, 4, np.uint64)
    alpha, work, draws = np.array([3.0]), np.empty((1, 34)), []
    rate = np.array([0.5])
    for _ in range(40_000):
        sweep_concentrations(flat, 0.0, 2.0, rate, state, random, alpha, work)
        draws.append(alpha[0])
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
    learner = HDP("gibbs", tolerance=0.05)
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
        learner = HDP("gibbs", tying, tolerance=0.05)
        found = dense_log_prob(learner.family(tree), tree)
        np.testing.assert_allclose(np.exp(found).sum(-1), 1.0, rtol=1e-6)


def test_convergence_is_watched():
    trees = [random_tree(1, (2, 3, 4), rows=200)]
    context = FitContext()
    HDP("gibbs", tolerance=0.02).from_counts(np.ones(2), trees, context)
    family = context.info["parameters"]["families"][0]
    assert context.info["parameters"]["converged"]
    assert family["trace"][-1] < 0.02
    assert family["concentration_trace"].shape == (len(family["trace"]), 2)
    with pytest.warns(ConvergenceWarning, match="max_sweeps=100"):
        HDP("gibbs", tolerance=1e-6, max_sweeps=100).from_counts(np.ones(2), trees, FitContext())


def test_nothing_counted_gives_the_uniform():
    tree = tree_from_dense(np.zeros((2, 3, 4)))
    found = dense_log_prob(HDP("gibbs").family(tree), tree)
    np.testing.assert_allclose(np.exp(found), 0.25)


def test_fractional_weights_are_refused():
    tree = random_tree(1, (2, 3), fraction=True)
    with pytest.raises(ConfigurationError, match="fixed-point"):
        HDP("gibbs").family(tree)


@pytest.mark.parametrize(
    ("name", "value"), [("burn_in", -1), ("thinning", 0), ("n_chains", 0), ("discount", 1.0)]
)
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ConfigurationError, match=name):
        HDP("gibbs", **{name: value}).family(random_tree(1, (2, 3, 4)))


def test_a_discount_needs_the_sampler():
    with pytest.raises(ConfigurationError, match="gibbs"):
        HDP(discount=0.5).family(random_tree(1, (2, 3, 4)))


@pytest.mark.shared
def test_node_estimates_equal_the_authors_program(shared):
    text = (shared / "reference" / "hdp" / "authors_vectors.json").read_text()
    tyings = {"LEVEL": "level", "SAME_PARENT": "parent", "SINGLE": "single"}
    checked = 0
    for vector in json.loads(text)["vectors"]:
        tree = tree_from_dense(dense_counts(vector))
        values = np.concatenate([level.cell_value for level in tree.levels])
        for reference in vector["reference"].values():
            if reference["tying"] not in tyings:
                continue
            flat = flatten(tree, tyings[reference["tying"]])
            budget = Budget(1e-9, 12_000, 500, 2, 2)
            estimate = sample(
                tree,
                flat,
                Prior(2.0, 1.0, 2.0, root_share=0.0),
                budget,
                np.random.default_rng(checked),
            )
            found = np.exp(estimate.log_prob)
            for node, context in enumerate(contexts_of(tree)):
                wanted = reference["nodes"].get(",".join(map(str, context)) or "root")
                if wanted is None:
                    continue
                for c in range(flat.node_start[node], flat.node_start[node + 1]):
                    allowed = 4 * wanted["sd"][values[c]] + 0.002
                    assert abs(found[c] - wanted["mean"][values[c]]) < allowed, (
                        vector["name"],
                        context,
                    )
            checked += 1
    assert checked >= 7
