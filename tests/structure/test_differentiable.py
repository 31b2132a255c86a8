"""Structure by gradient: what it finds, what it promises, how it resumes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ConfigurationError
from tanager.losses import HybridMargin, NegativeLogLikelihood
from tanager.parameters import Hybrid
from tanager.progress import Progress
from tanager.structure import TAN, FitPlan, Structure
from tanager.structure.constraints import Limits
from tanager.structure.differentiable import (
    Arborescence,
    Differentiable,
    image_order,
    resolve_candidates,
)
from tanager.training import ParentSearch, Training
from tanager.training.model import Slots


def draw_tree(rng, parents, n_rows, n_classes=2, arity=3, strength=1.5):
    """Draw rows from a random tree-augmented network; parents come before children."""
    labels = rng.integers(0, n_classes, n_rows)
    codes = np.zeros((len(parents), n_rows), np.uint8)
    for i, parent in enumerate(parents):
        logits = strength * rng.normal(size=(n_classes, arity, arity))
        given = codes[parent] if parent >= 0 else np.zeros(n_rows, np.int64)
        noisy = logits[labels, given] + rng.gumbel(size=(n_rows, arity))
        codes[i] = noisy.argmax(axis=1)
    return codes, labels.astype(np.uint16)


def counts_of(codes, labels, context, weights=None, arity=3):
    names = tuple(f"f{i}" for i in range(codes.shape[0]))
    domain = Domain(names, np.full(codes.shape[0], arity), int(labels.max()) + 1)
    return Counts(Rows.in_memory(domain, codes, labels, weights, block_rows=97), context)


def learn(learner, codes, labels, **given):
    return learn_jointly(learner, codes, labels, **given)[:2]


def learn_jointly(learner, codes, labels, seed=0, weights=None, engine=None, progress=None):
    context = FitContext(engine or LocalEngine(), np.random.SeedSequence(seed))
    context.info["structure"] = {}
    context.progress = progress or Progress()
    counts = counts_of(codes, labels, context, weights)
    structure, joint = learner.learn_jointly(counts, FitPlan(context))
    return structure, context, joint


def undirected(structure):
    return {frozenset((i, p[0])) for i, p in enumerate(structure.parent_indices) if p}


@pytest.fixture(scope="module")
def rows():
    return draw_tree(np.random.default_rng(1), [-1, 0, 0, 1, 2, 3], 600)


@pytest.mark.parametrize("ordering", ["fixed", "free"])
def test_the_generative_loss_recovers_the_chow_liu_tree(ordering):
    codes, labels = draw_tree(np.random.default_rng(7), [-1, 0, 0, 1, 2, 2, 4], 4000)
    chow_liu = TAN().learn(counts_of(codes, labels, FitContext()), FitPlan())
    order = [chow_liu.features[at] for at in chow_liu.topological_order()]
    learner = Differentiable(
        "all",
        ordering=ordering,
        order=order,
        loss="nll",
        training=Training(epochs=40, learning_rate=0.3),
    )
    structure, _ = learn(learner, codes, labels)
    assert undirected(structure) == undirected(chow_liu)
    if ordering == "fixed":
        assert structure == chow_liu


def test_a_free_ordering_finds_parents_that_a_fixed_one_forbids():
    # f0 is a noisy exclusive or of the class and f1: it wants f1 as its parent.
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 1500)
    codes = rng.integers(0, 2, (2, 1500))
    codes[0] = labels ^ codes[1] ^ (rng.random(1500) < 0.05)
    codes, labels = codes.astype(np.uint8), labels.astype(np.uint16)
    fixed, _ = learn(Differentiable({"f0": ["f1"]}, training=Training(epochs=30)), codes, labels)
    assert fixed.parent_indices == ((1,), ())
    free, _ = learn(
        Differentiable({"f0": ["f1"], "f1": ["f0"]}, ordering="free", training=Training(epochs=30)),
        codes,
        labels,
    )
    assert len(undirected(free)) == 1


def test_same_seed_same_model_on_any_threads_and_another_seed_another(rows):
    learner = Differentiable(k=2, training=Training(epochs=3))
    one, first, joint = learn_jointly(learner, *rows, seed=4)
    two, second, again = learn_jointly(learner, *rows, seed=4, engine=LocalEngine(2))
    assert one == two
    assert first.info["structure"]["trace"] == second.info["structure"]["trace"]
    for a, b in zip(joint.log_prob, again.log_prob, strict=True):
        assert np.array_equal(a, b)
    _, third = learn(learner, *rows, seed=5)
    assert third.info["structure"]["trace"] != first.info["structure"]["trace"]


def test_tables_are_carried_normalised_and_traces_are_told(rows):
    learner = Differentiable("all", training=Training(epochs=4))
    structure, context, joint = learn_jointly(learner, *rows)
    assert joint.parent_indices == structure.parent_indices
    for parents, table in zip(joint.parent_indices, joint.log_prob, strict=True):
        assert table.shape == (3,) * (len(parents) + 1) + (2,)
        np.testing.assert_allclose(np.exp(table).sum(axis=-2), 1.0)
    info = context.info["structure"]
    assert {len(values) for values in info["trace"].values()} == {4}
    assert info["trace"]["temperature"][0] == 10.0
    assert info["trace"]["temperature"][-1] == pytest.approx(0.1)
    assert info["trace"]["entropy"][-1] <= np.log(6)
    assert all(0 < p <= 1 for p in info["probabilities"])


def test_the_search_keeps_the_best_configuration_on_held_out_rows(rows):
    _, context = learn(
        Differentiable(training=Training(epochs=3, tune=4, validation_fraction=0.3)), *rows
    )
    info = context.info["structure"]
    table = info["search"]
    assert len(table) == 4
    best = min(table, key=lambda row: (row["validation_error"], row["validation_log_loss"]))
    loss = HybridMargin(best["lambda_"], best["gamma"], best["eta"])
    assert info["loss"] == repr(loss)
    assert info["learning_rate"] == best["learning_rate"]
    assert info["dropout"] == best["dropout"]
    assert len({row["dropout"] for row in table}) > 1
    assert all(1 <= row["lambda_"] <= 1000 and 0.1 <= row["gamma"] <= 100 for row in table)


def test_a_generative_start_has_the_smoothed_frequencies(rows):
    codes, labels = rows
    weights = np.random.default_rng(3).integers(1, 4, labels.size).astype(np.float64)
    codes = codes.copy()
    codes[0, :50] = 3  # unknown, as a parent and as a child
    learner = Differentiable(
        {"f1": ["f0"]}, init="generative", training=Training(epochs=1, learning_rate=1e-12)
    )
    structure, _, joint = learn_jointly(learner, codes, labels, weights=weights)
    assert structure.parent_indices[1] == (0,)
    for i, parents in enumerate(structure.parent_indices):
        for c in range(2):
            inside = weights * (labels == c)
            alone = np.array([inside[codes[i] == x].sum() + 5 / 3 for x in range(3)])
            alone /= alone.sum()
            if not parents:
                np.testing.assert_allclose(np.exp(joint.log_prob[i][:, c]), alone, rtol=1e-9)
                continue
            for u in range(3):
                given = inside * (codes[parents[0]] == u)
                prob = np.array([given[codes[i] == x].sum() for x in range(3)]) + 5 * alone
                ours = np.exp(joint.log_prob[i][u, :, c])
                np.testing.assert_allclose(ours, prob / prob.sum(), rtol=1e-9)
    prior = np.bincount(labels, weights) + 5 / 2
    np.testing.assert_allclose(np.exp(joint.log_prior), prior / prior.sum(), rtol=1e-9)


def test_a_context_never_seen_follows_its_table_when_steps_are_shared():
    rng = np.random.default_rng(0)
    labels = np.arange(600).astype(np.uint16) % 2
    child = np.where(rng.random(600) < 0.1, 2, labels)
    codes = np.array([rng.integers(0, 2, 600), child], np.uint8)  # the parent is never 2
    structure = Structure.from_parents(("f0", "f1"), [(), (0,)])
    unseen = {}
    for share in (False, True):
        context = FitContext()
        learner = Hybrid("nll", training=Training(epochs=30, share=share))
        tables = learner.learn(structure, counts_of(codes, labels, context), FitPlan(context))
        unseen[share] = np.exp(tables.families[1].log_prob[2])
    assert abs(unseen[False] - 1 / 3).max() < 0.05
    assert unseen[True][0, 0] > 0.6
    assert unseen[True][1, 1] > 0.6


def test_a_loss_of_ones_own_plugs_in(rows):
    def likelihood(log_joint, y):
        at = np.arange(y.shape[0])
        gradient = np.zeros_like(log_joint)
        gradient[at, y] = -1 / y.shape[0]
        return -log_joint[at, y].mean(), gradient

    own, mine = learn(Differentiable(loss=likelihood, training=Training(epochs=3)), *rows)
    ours, theirs = learn(
        Differentiable(loss=NegativeLogLikelihood(), training=Training(epochs=3)), *rows
    )
    assert own == ours
    np.testing.assert_allclose(
        mine.info["structure"]["trace"]["loss"], theirs.info["structure"]["trace"]["loss"]
    )


def test_the_documented_loss_runs_and_has_the_gradient_it_says():
    page = (Path(__file__).parents[2] / "docs" / "differentiable.md").read_text(encoding="utf-8")
    code = next(c for c in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "brier" in c)
    names: dict = {}
    exec(code, names)
    assert names["clf"].score(names["X"], [0, 1, 1, 0] * 25) == 1.0
    log_joint, y = np.random.default_rng(0).normal(size=(3, 4)), np.array([0, 3, 1])
    gradient = names["brier"](log_joint, y)[1]
    for at in np.ndindex(3, 4):
        step = np.zeros((3, 4))
        step[at] = 1e-6
        above, below = (names["brier"](log_joint + s * step, y)[0] for s in (1, -1))
        assert gradient[at] == pytest.approx((above - below) / 2e-6, abs=1e-8)


def test_a_weight_of_two_equals_a_repeated_row(rows):
    codes, labels = rows
    twice = np.random.default_rng(0).random(labels.size) < 0.5
    learner = Differentiable(
        "all", order="columns", training=Training(epochs=10, batch_size=10_000, dropout=0.0)
    )
    _, _, weighted = learn_jointly(learner, codes, labels, weights=1.0 + twice)
    repeated = np.concatenate([np.arange(labels.size), np.nonzero(twice)[0]])
    again = np.ascontiguousarray(codes[:, repeated]), labels[repeated]

    # One batch an epoch; the Gumbel draws that follow the shuffle would differ.
    class Quiet(np.random.Generator):
        def gumbel(self, size):
            return np.zeros(size)

    context = FitContext()
    results = []
    for data, weights in (((codes, labels), 1.0 + twice), (again, None)):
        context = FitContext()
        context.generator = lambda *key: Quiet(np.random.PCG64(sum(key) % 1000))  # type: ignore[method-assign]
        joint = learner.learn_jointly(counts_of(*data, context, weights), FitPlan(context))[1]
        results.append((context.info["structure"]["trace"], joint))
    np.testing.assert_allclose(results[0][0]["loss"], results[1][0]["loss"], rtol=1e-9)
    for a, b in zip(results[0][1].log_prob, results[1][1].log_prob, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)
    assert weighted.log_prior.shape == (2,)


def test_the_best_parent_is_a_draw_from_the_softmax():
    rng = np.random.default_rng(0)
    phi = np.array([[0.0, 1.0, -0.5]])
    draws = [int(ParentSearch().choose(phi + rng.gumbel(size=phi.shape))[0]) for _ in range(20_000)]
    expected = np.exp(phi[0]) / np.exp(phi[0]).sum()
    found = np.bincount(draws, minlength=3) / 20_000
    error = np.sqrt(expected * (1 - expected) / 20_000)
    assert np.all(np.abs(found - expected) < 4 * error)


def test_a_free_draw_is_the_heaviest_forest_and_never_cyclic():
    rng = np.random.default_rng(3)
    candidates = [[1, 2], [0, 3], [3, 1, 0], [2]]
    slots = Slots.build(
        [[-1, *c] for c in candidates], [[1] + [2] * len(c) for c in candidates], np.full(4, 2), 2
    )
    sampler = Arborescence(slots)
    for _ in range(100):
        scores = np.where(slots.used(), rng.normal(size=slots.column.shape), -np.inf)
        chosen = sampler.choose(scores)
        parents = [int(slots.column[i, s]) for i, s in enumerate(chosen)]
        Structure.from_parents("abcd", [() if p < 0 else (p,) for p in parents])
        ours = scores[np.arange(4), chosen].sum()
        assert ours == pytest.approx(heaviest_forest(scores, slots))


def heaviest_forest(scores, slots):
    best = -np.inf
    for chosen in np.ndindex(*slots.n_slots):
        parents = [int(slots.column[i, s]) for i, s in enumerate(chosen)]
        try:
            Structure.from_parents("abcd", [() if p < 0 else (p,) for p in parents])
        except ConfigurationError:
            continue
        best = max(best, sum(scores[i, s] for i, s in enumerate(chosen)))
    return best


@pytest.mark.parametrize(
    ("learner", "match"),
    [
        (Differentiable("some"), "candidates='some'"),
        (Differentiable(k=0), "k=0"),
        (Differentiable(ordering="none"), "ordering='none'"),
        (Differentiable(order="A"), "order='A'"),
        (Differentiable(init="zero"), "init='zero'"),
        (Differentiable(training=Training(epochs=0)), "epochs=0"),
        (Differentiable(training=Training(learning_rate=2.0)), r"learning_rate=2\.0"),
        (Differentiable(temperature=(1.0, 0.0)), "temperature"),
        (Differentiable(training=Training(average=1.0)), r"average=1\.0"),
        (Differentiable(training=Training(dropout=1.0)), r"dropout=1\.0"),
        (Differentiable(loss="nll", training=Training(tune=3)), "tune=3"),
        (Differentiable("neighbours"), "6 features are not the pixels"),
        (Differentiable({"f0": ["f9"]}), "'f9'"),
        (Differentiable({"f0": ["f1"], "f1": ["f0"]}), "cycle"),
    ],
)
def test_mistakes_are_told(rows, learner, match):
    with pytest.raises(ConfigurationError, match=match):
        learn(learner, *rows)


def test_a_diverging_loss_is_an_error_not_a_model(rows):
    def bad(log_joint, y):
        return float("nan"), np.zeros_like(log_joint)

    with pytest.raises(ValueError, match="Training diverged in epoch 1"):
        learn(Differentiable(loss=bad, training=Training(epochs=2)), *rows)


PIXELS = [f"p{i}" for i in range(36)]


def resolve(candidates="subset", k=8, order="auto", shape=None, free=False, seed=0):
    ordering = "free" if free else "fixed"
    learner = Differentiable(candidates, k, ordering=ordering, order=order, image_shape=shape)
    return resolve_candidates(learner, Limits.none(PIXELS), np.random.default_rng(seed))


@pytest.mark.parametrize("choice", ["A", "B", "C"])
@pytest.mark.parametrize("side", [1, 2, 5, 6])
def test_image_orders_visit_every_pixel_once(choice, side):
    assert sorted(image_order(choice, side, side)) == list(range(side * side))


def test_order_c_goes_outwards_as_described():
    # 4 x 4: the central four, two above, two below, two left, two right, four corners.
    assert image_order("C", 4, 4) == [5, 6, 9, 10, 1, 2, 13, 14, 4, 8, 7, 11, 0, 3, 12, 15]


def test_order_b_pairs_each_pixel_with_its_mirror_image():
    order = image_order("B", 4, 4)
    assert order[:4] == [0, 4, 1, 5]
    mirrored = [(p % 4) * 4 + p // 4 for p in order]
    assert sorted(mirrored) == sorted(order)
    with pytest.raises(ConfigurationError, match="square"):
        image_order("B", 3, 4)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("candidates", ["subset", "neighbours"])
def test_a_smaller_k_gives_subsets(candidates, free):
    small, large = (resolve(candidates, k, free=free) for k in (2, 8))
    assert all(set(a) <= set(b) for a, b in zip(small, large, strict=True))
    assert max(map(len, large)) == 8
    if free:
        assert min(map(len, large)) == 8


@pytest.mark.parametrize("candidates", ["subset", "all", "neighbours"])
def test_a_fixed_ordering_admits_no_cycle(candidates):
    chosen = resolve(candidates)
    waiting = {i: set(c) for i, c in enumerate(chosen)}
    while waiting:
        ready = [i for i, c in waiting.items() if not c & waiting.keys()]
        assert ready
        for i in ready:
            del waiting[i]


def test_all_is_every_earlier_feature_or_every_other():
    assert resolve("all", order="columns") == [list(range(i)) for i in range(36)]
    assert all(len(c) == 35 for c in resolve("all", free=True))


@pytest.mark.parametrize("choice", ["A", "B", "C"])
def test_neighbours_are_the_nearest_earlier_pixels(choice):
    chosen = resolve("neighbours", 3, choice)
    place = {p: at for at, p in enumerate(image_order(choice, 6, 6))}

    def distance(p, q):
        return (p // 6 - q // 6) ** 2 + (p % 6 - q % 6) ** 2

    for pixel, found in enumerate(chosen):
        earlier = [q for q in range(36) if place[q] < place[pixel]]
        assert len(found) == min(3, len(earlier))
        assert all(q in earlier for q in found)
        nearest = sorted(distance(pixel, q) for q in earlier)[: len(found)]
        assert [distance(pixel, q) for q in found] == nearest


def test_orders_by_name_and_rectangles():
    backwards = resolve("all", order=PIXELS[::-1])
    assert backwards[35] == []
    assert backwards[0] == list(range(35, 0, -1))
    assert resolve("neighbours", 2, "A", (4, 9))[9] == [0, 1]
    with pytest.raises(ConfigurationError, match="order must name each of the 36 features once"):
        resolve(order=PIXELS[:5])


def test_an_order_by_index_is_that_by_name():
    order = np.random.default_rng(3).permutation(36)
    assert resolve("all", order=order) == resolve("all", order=[PIXELS[i] for i in order])
