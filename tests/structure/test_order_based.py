import numpy as np
import pytest

from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.parameters import MaximumLikelihood
from tanager.structure import FitPlan, Greedy, OrderBased
from tanager.structure import joint as joint_module
from tanager.structure.joint import RunningJoint
from tanager.structure.order_based import order_by_class_information, order_by_single_condition
from tests.oracles.discriminative import (
    PlainScore,
    conditional_information,
    plain_greedy,
    plain_information_order,
    plain_order_based,
)


def make_rows(seed, n_rows=80, n_features=5, n_classes=3, unknown=0.0, weighted=False):
    """Features that depend on the class and on one another."""
    rng = np.random.default_rng(seed)
    arities = rng.integers(2, 4, n_features)
    labels = rng.integers(0, n_classes, n_rows).astype(np.uint16)
    codes = np.empty((n_features, n_rows), np.uint8)
    for i in range(n_features):
        shift = codes[rng.integers(0, i)] if i else np.zeros(n_rows, np.uint8)
        noise = rng.integers(0, arities[i], n_rows)
        mixed = np.where(rng.random(n_rows) < 0.7, labels * shift + i, noise)
        codes[i] = mixed % arities[i]
    if unknown:
        codes = np.where(rng.random(codes.shape) < unknown, arities[:, None], codes)
    weights = rng.integers(1, 4, n_rows) / 2 if weighted else None
    domain = Domain(tuple(f"f{i}" for i in range(n_features)), arities.astype(np.int64), n_classes)
    return Rows.in_memory(domain, np.ascontiguousarray(codes.astype(np.uint8)), labels, weights)


def plain(rows, score, folds=None):
    chunk = rows.gather()
    running = RunningJoint(rows.domain, chunk, score=score, folds=folds)
    domain = rows.domain
    return PlainScore(
        chunk.codes,
        chunk.labels,
        domain.arities,
        domain.n_classes,
        chunk.weights,
        folds,
        score=score,
        grid=2 * running.grid.unit,
    )


def learn(learner, rows, engine=None, seed=0):
    context = FitContext(engine or LocalEngine(), np.random.SeedSequence(seed))
    structure = learner.learn(Counts(rows, context), FitPlan(context))
    return structure, context.info["structure"]


CASES = [
    {},
    {"unknown": 0.2},
    {"weighted": True},
    {"n_classes": 2, "unknown": 0.1, "weighted": True},
]


@pytest.mark.parametrize("options", CASES)
@pytest.mark.parametrize("score", ["cr", "cl"])
@pytest.mark.parametrize("n_folds", [0, 3])
def test_gains_equal_a_fresh_evaluation(options, score, n_folds):
    rows = make_rows(1, n_rows=40, **options)
    folds = np.arange(40) % n_folds if n_folds else None
    oracle = plain(rows, score, folds)
    running = RunningJoint(rows.domain, rows.gather(), score=score, folds=folds)
    parents = [()] * 5
    scale = 1.0 if score == "cr" else running.grid.step
    for child, family in ((1, (0,)), (2, (1, 0)), (4, (2, 1, 0)), (3, (4,))):
        change = running.change(child, family)
        gain = running.gain(child, family, change)
        trial = list(parents)
        trial[child] = family
        assert gain * scale == pytest.approx(oracle(trial) - oracle(parents), abs=1e-9)
        running.add(child, family, change)
        parents = trial
        assert running.score * scale == pytest.approx(oracle(parents), abs=1e-9)


@pytest.mark.parametrize("score", ["cr", "cl"])
def test_a_gain_below_the_floor_comes_back_as_a_bound(score):
    rows = make_rows(2, n_rows=300)
    running = RunningJoint(rows.domain, rows.gather(), score=score)
    for child in range(1, 5):
        for p in range(child):
            change = running.change(child, (p,))
            exact = running.gain(child, (p,), change)
            for floor in (exact - 1, exact, exact + 1, exact + 50):
                found = running.gain(child, (p,), change, floor)
                assert found == exact if exact > floor else exact <= found <= floor


def test_log_joint_is_that_of_maximum_likelihood_tables():
    rows = make_rows(6, n_rows=500, n_features=15)
    structure, info = learn(OrderBased(max_parents=2, n_folds=0), rows)
    assert structure.max_parents == 2
    context = FitContext()
    tables = MaximumLikelihood().learn(structure, Counts(rows, context), FitPlan(context))
    chunk = rows.gather()
    log_joint = tables.log_joint(structure, chunk.codes, rows.domain.arities)
    assert info["score"] == np.mean(log_joint.argmax(axis=1) == chunk.labels)


@pytest.mark.parametrize("options", CASES)
@pytest.mark.parametrize("score", ["cr", "cl"])
def test_trees_equal_the_plain_search(options, score):
    for seed in range(3):
        rows = make_rows(seed, n_rows=50, n_features=4, **options)
        order = np.random.default_rng(seed).permutation(4)
        structure, _ = learn(OrderBased(order=order, score=score), rows)
        expected = plain_order_based(plain(rows, score), order.tolist(), tolerance=1e-9)
        assert structure.parent_indices == tuple(expected)


@pytest.mark.parametrize(("n_folds", "score"), [(0, "cr"), (0, "cl"), (4, "cr"), (3, "cl")])
def test_k_trees_equal_the_plain_search(n_folds, score):
    found = 0
    for seed in range(3):
        rows = make_rows(seed, n_rows=60, n_features=5, n_classes=2)
        learner = OrderBased(range(5), score, max_parents=3, n_folds=n_folds)
        folds = learner._folds(rows.gather(), FitContext(seed=np.random.SeedSequence(seed)))
        structure, _ = learn(learner, rows, seed=seed)
        oracle = plain(rows, score, folds)
        expected = plain_order_based(oracle, range(5), 3, tolerance=1e-9)
        assert structure.parent_indices == tuple(expected)
        found = max(found, structure.max_parents)
    if (n_folds, score) == (0, "cl"):
        assert found >= 2  # cliques were really formed


@pytest.mark.parametrize("score", ["cr", "cl"])
@pytest.mark.parametrize("options", CASES)
def test_greedy_equals_the_plain_climb(options, score):
    for seed in range(2):
        rows = make_rows(seed + 10, n_rows=50, n_features=4, **options)
        structure, _ = learn(Greedy(score=score), rows)
        expected = plain_greedy(plain(rows, score), 4, tolerance=1e-9)
        assert structure.parent_indices == tuple(expected)


@pytest.mark.parametrize(
    "learner",
    [OrderBased(), OrderBased(max_parents=2), OrderBased(score="cl"), Greedy(), Greedy("cl")],
)
def test_threads_and_kept_tables_change_nothing(learner, monkeypatch):
    rows = make_rows(4, n_rows=400, n_features=12)
    expected, info = learn(learner, rows)
    again, threaded = learn(learner, rows, LocalEngine(3))
    assert (expected, info["score"]) == (again, threaded["score"])
    monkeypatch.setattr("tanager.structure.joint.KEPT_BYTES", 0)
    assert learn(learner, rows)[0] == expected


def test_the_greedy_search_keeps_to_the_nearest_candidates():
    rows = make_rows(12, n_rows=300, n_features=8)
    nearness = Counts(rows, FitContext()).cmi().copy()
    np.fill_diagonal(nearness, -1)
    structure, info = learn(Greedy(candidates=2), rows)
    for child, parents in enumerate(structure.parent_indices):
        assert set(parents) <= set(np.argsort(-nearness[child], kind="stable")[:2].tolist())
    assert info["families_scored"] < learn(Greedy(), rows)[1]["families_scored"]
    assert learn(Greedy(candidates=7), rows)[0] == learn(Greedy(), rows)[0]
    with pytest.raises(ConfigurationError, match="candidates"):
        learn(Greedy(candidates=0), rows)


def test_a_weight_of_two_is_a_repeated_row():
    rows = make_rows(5, n_rows=100)
    chunk = rows.gather()
    weights = np.ones(100)
    weights[:30] = 2
    weighted = Rows.in_memory(rows.domain, chunk.codes, chunk.labels, weights)
    codes, labels = rows.gather()[:2]
    again = np.concatenate([np.arange(100), np.arange(30)])
    repeated = Rows.in_memory(rows.domain, np.ascontiguousarray(codes[:, again]), labels[again])
    for learner in (OrderBased(score="cl"), OrderBased("cmisp"), Greedy()):
        assert learn(learner, weighted)[0] == learn(learner, repeated)[0]


def test_parents_of_a_k_tree_form_a_clique():
    rows = make_rows(6, n_rows=500, n_features=15)
    structure, _ = learn(OrderBased(max_parents=3, n_folds=0), rows)
    joined = {
        frozenset((i, p))
        for i, ps in zip(structure.selected, structure.parent_indices, strict=True)
        for p in ps
    }
    assert structure.max_parents == 3
    for ps in structure.parent_indices:
        for a in range(len(ps)):
            assert all(frozenset((ps[a], q)) in joined for q in ps[a + 1 :])


def test_cross_validation_keeps_noise_out():
    rng = np.random.default_rng(0)
    domain = Domain(tuple("abcdefgh"), np.full(8, 3), 2)
    codes = rng.integers(0, 3, (8, 120)).astype(np.uint8)
    rows = Rows.in_memory(domain, codes, rng.integers(0, 2, 120).astype(np.uint16))
    loose, overfit = learn(OrderBased(max_parents=2, n_folds=0), rows)
    tight, honest = learn(OrderBased(max_parents=2), rows)
    assert overfit["edges"] > honest["edges"]
    assert overfit["score"] > 0.75 > honest["score"]
    assert loose != tight


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cap", [0, 1, 2, 5])
def test_information_order_equals_joint_entropies(weighted, cap):
    rows = make_rows(7, n_rows=70, n_features=6, weighted=weighted, unknown=0.1)
    chunk = rows.gather()
    weights = np.ones(70) if chunk.weights is None else chunk.weights
    order = order_by_class_information(rows.domain, chunk, FitContext(), cap)
    expected = plain_information_order(chunk.codes, chunk.labels, weights, cap)
    assert order.tolist() == expected


def test_default_cap_leaves_five_rows_to_a_pattern_and_class():
    rows = make_rows(8, n_rows=200, n_features=6, n_classes=2)
    chunk = rows.gather()
    order = order_by_class_information(rows.domain, chunk, FitContext()).tolist()
    patterns = [len(np.unique(chunk.codes[order[:m]], axis=1).T) for m in range(1, 7)]
    cap = sum(n <= 200 / (5 * 2) for n in patterns)
    assert 0 < cap < 6
    assert order == order_by_class_information(rows.domain, chunk, FitContext(), cap).tolist()


def test_single_condition_order_takes_the_best_earlier_feature(monkeypatch):
    rows = make_rows(9, n_rows=150, n_features=6)
    chunk, ones = rows.gather(), np.ones(150)

    def given(i, j):
        return conditional_information(chunk.codes, chunk.labels, ones, i, j)

    order = [int(np.argmax([given(i, []) for i in range(6)]))]
    while len(order) < 6:
        rest = [i for i in range(6) if i not in order]
        gains = [max(round(given(i, [j]), 9) for j in order) for i in rest]
        order.append(rest[int(np.argmax(gains))])
    counts = Counts(rows, FitContext())
    assert order_by_single_condition(counts).tolist() == order
    monkeypatch.setattr("tanager.counts.pairs.PAIR_CELLS", 1)
    wide = Counts(rows, FitContext())
    assert order_by_single_condition(wide).tolist() == order


def test_the_best_of_random_orders_is_kept():
    rows = make_rows(11, n_rows=200, n_features=6)
    structure, info = learn(OrderBased("random", n_orders=5), rows, seed=3)
    scores = [entry["score"] for entry in info["orders"]]
    assert info["score"] == max(scores)
    assert len({tuple(entry["order"]) for entry in info["orders"]}) > 1
    best = info["orders"][int(np.argmax(scores))]
    assert tuple(map(tuple, best["parents"])) == tuple(
        structure.parents[n] for n in ["f0", "f1", "f2", "f3", "f4", "f5"]
    )
    assert learn(OrderBased("random", n_orders=5), rows, seed=3)[0] == structure


def test_sparse_candidates_are_the_nearest_by_conditional_information():
    rows = make_rows(12, n_rows=300, n_features=8)
    nearness = Counts(rows, FitContext()).cmi()
    structure, info = learn(OrderBased(order=range(8), candidates=2), rows)
    assert info["families_scored"] == 1 + 2 * 6
    for child, ps in enumerate(structure.parent_indices):
        nearest = np.argsort(-nearness[child, :child], kind="stable")[:2]
        assert set(ps) <= set(nearest.tolist())


def population():
    """The three-feature example of Pernkopf and Bilmes, section 3, as weighted rows."""
    codes, labels, weights = [], [], []
    for c in range(2):
        for x1 in range(2):
            for x2 in range(2):
                p2 = 0.5 * (x2 == x1) + 0.25
                for x3 in range(2):
                    told = x1 if c == 0 else 1 - x1
                    p3 = 0.3 * (x3 == told) + 0.5 * (x3 == x2) + 0.1
                    codes.append((x1, x2, x3))
                    labels.append(c)
                    weights.append(0.25 * p2 * p3)
    domain = Domain(("X1", "X2", "X3"), np.full(3, 2), 2)
    return Rows.in_memory(
        domain,
        np.ascontiguousarray(np.array(codes, np.uint8).T),
        np.array(labels, np.uint16),
        np.array(weights),
    )


@pytest.mark.parametrize("learner", [OrderBased(), OrderBased("cmisp"), Greedy(), Greedy("cl")])
def test_population_of_the_synthetic_example_finds_the_discriminative_edge(learner):
    structure, info = learn(learner, population())
    edges = {frozenset((n, p)) for n, ps in structure.parents.items() for p in ps}
    assert frozenset(("X1", "X3")) in edges
    if learner.score == "cr":
        assert info["score"] == pytest.approx(0.65)
        assert edges == {frozenset(("X1", "X3"))}


def test_errors_say_what_is_allowed(monkeypatch):
    rows = make_rows(0)
    bad = [
        OrderBased(order="alphabetic"),
        OrderBased(order=[0, 1]),
        OrderBased(order=["f0", "f1", "f2", "f3", "f9"]),
        OrderBased(score="auc"),
        OrderBased(max_parents=0),
        OrderBased(n_orders=2),
        OrderBased(candidates=-1),
        OrderBased(epsilon=0),
        Greedy(score="ll"),
    ]
    for learner in bad:
        with pytest.raises(ConfigurationError):
            learn(learner, rows)
    monkeypatch.setattr(joint_module, "MAX_CELLS", 30)
    with pytest.raises(MemoryBoundError, match="values"):
        learn(OrderBased(), rows)


def test_a_weight_counts_as_so_many_rows_when_the_order_is_found():
    from torture.same import fit, rows

    data = rows(0)
    n = len(data.y)
    weights = np.where(np.arange(n) % 3 == 0, 6.0, 3.0)
    places = np.repeat(np.arange(n), weights.astype(int))
    repeated = data._replace(X=data.X.take(places), y=data.y[places])
    weighted = fit(("order", "laplace"), data._replace(weights=weights), data.X)
    assert np.array_equal(weighted, fit(("order", "laplace"), repeated, data.X))
