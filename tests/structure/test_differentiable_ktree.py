"""More than one parent by gradient: what is drawn, what flows back, what is found."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.losses import HybridMargin
from tanager.parameters import Hybrid
from tanager.structure import FitPlan
from tanager.structure.differentiable import Differentiable
from tanager.structure.differentiable.candidates import families_of
from tanager.training import Training
from tanager.training.model import Composed, Model, TrainingRows, log_joint
from tanager.training.optimiser import ParentSearch, Task, train

ALL_EARLIER = [[], [0], [0, 1], [0, 1, 2]]


def domain_of(arities, n_classes=2):
    return Domain(tuple(f"f{i}" for i in range(len(arities))), np.array(arities), n_classes)


def structures(families):
    """Every choice of slots that is a k-tree so far, by trying all of them."""
    for chosen in product(*(range(len(slots)) for slots in families.parents)):
        parents = [families.parents[i][s] for i, s in enumerate(chosen)]
        edges = {frozenset((i, p)) for i, mine in enumerate(parents) for p in mine}
        if all(frozenset((p, q)) in edges for mine in parents for p in mine for q in mine if p < q):
            yield chosen


def test_families_are_cliques_of_candidates_that_can_be_joined():
    families = families_of(ALL_EARLIER, 2, domain_of([2, 3, 2, 2]))
    assert families.parents[3] == [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    assert families.slots.n_contexts[3].tolist() == [1, 2, 3, 2, 6, 4, 6]
    # 1 and 2 can never be joined here: neither is a candidate of the other.
    families = families_of([[], [0], [0], [1, 2, 0]], 2, domain_of([2] * 4))
    assert families.parents[3] == [(), (1,), (2,), (0,), (1, 0), (2, 0)]
    deeper = families_of(ALL_EARLIER, 3, domain_of([2] * 4))
    assert deeper.parents[3][-1] == (0, 1, 2)
    single = families_of(ALL_EARLIER, 1, domain_of([2] * 4))
    assert single.composed is None
    assert single.parents[3] == [(), (0,), (1,), (2,)]


@pytest.mark.parametrize("max_parents", [2, 3])
def test_draws_have_the_probabilities_of_exact_enumeration(max_parents):
    families = families_of(ALL_EARLIER, max_parents, domain_of([2] * 4))
    rng = np.random.default_rng(5)
    phi = np.where(families.slots.used(), rng.normal(size=families.slots.column.shape), -np.inf)
    exact = {}
    for chosen in structures(families):
        probability, edges = 1.0, set()
        for i, slot in enumerate(chosen):
            is_open = [
                all(frozenset((p, q)) in edges for p in mine for q in mine if p < q)
                for mine in families.parents[i]
            ]
            weights = np.exp(phi[i, : len(is_open)]) * is_open
            probability *= weights[slot] / weights.sum()
            edges |= {frozenset((i, p)) for p in families.parents[i][slot]}
        exact[chosen] = probability
    assert sum(exact.values()) == pytest.approx(1.0)
    assert len(exact) < np.prod(families.slots.n_slots)  # some choices are no k-tree
    sampler, n = families.sampler(), 20_000
    drawn = dict.fromkeys(exact, 0)
    for _ in range(n):
        drawn[tuple(sampler(phi + rng.gumbel(size=phi.shape)).tolist())] += 1
    for chosen, probability in exact.items():
        spread = np.sqrt(probability * (1 - probability) / n)
        assert abs(drawn[chosen] / n - probability) < 5 * spread + 1e-4


@pytest.mark.parametrize("tau", [5.0, 0.3])
@pytest.mark.parametrize("seed", [3, 4, 8])
def test_the_choice_s_gradient_is_that_of_the_mean_over_what_it_opens(tau, seed):
    """Exact for the choice that opens, and for the last feature given what was drawn.

    Of three features the second may join the first, which opens their pair to the third: the mean
    pull over the second's choices is a sum of two means of the third.
    """
    families = families_of(ALL_EARLIER[:3], 2, domain_of([2] * 3))
    sampler, used = families.sampler(), families.slots.used()
    rng = np.random.default_rng(seed)
    scores = np.where(used, rng.normal(size=used.shape), -np.inf)
    pull = np.where(used, rng.normal(size=used.shape), 0.0)
    drawn = int(sampler(scores)[1])

    def mean(values, slots, pulls):
        weights = np.exp(values[slots] / tau)
        return (weights * pulls).sum() / weights.sum()

    def third(values, joined):
        slots = [0, 1, 2, 3] if joined else [0, 1, 2]
        return mean(values[2], slots, pull[2, slots])

    def second(values):
        pulls = pull[1, :2] + [third(values, False), third(values, True)]
        return mean(values[1], [0, 1], pulls)

    ours = sampler.backward(scores, pull, tau)
    for i, total in ((1, second), (2, lambda values: third(values, drawn == 1))):
        for s in range(int(families.slots.n_slots[i])):
            step = np.zeros_like(scores)
            step[i, s] = 1e-6
            numeric = (total(scores + step) - total(scores - step)) / 2e-6
            assert ours[i, s] == pytest.approx(numeric, abs=1e-7)


def test_closed_slots_get_no_gradient_of_their_own():
    families = families_of(ALL_EARLIER, 3, domain_of([2] * 4))
    sampler, used = families.sampler(), families.slots.used()
    rng = np.random.default_rng(3)
    scores = np.where(used, rng.normal(size=used.shape), -np.inf)
    is_open = sampler.open_slots(scores)
    assert (used & ~is_open).any()
    ours = sampler.backward(scores, np.where(used, rng.normal(size=used.shape), 0.0), 0.5)
    assert not ours[~is_open].any()
    np.testing.assert_allclose(ours.sum(axis=1), 0.0, atol=1e-12)


def test_joint_values_count_up_with_the_last_member_and_unknown_is_past_the_last():
    composed = Composed.build([(0, 1), (2, 0, 1)], np.array([2, 3, 2]))
    columns = np.array([[0, 1, 1, 2], [0, 2, 3, 1], [1, 1, 0, 0]], np.uint8)
    assert composed.of(columns).tolist() == [[0, 5, 6, 6], [6, 11, 12, 12]]
    assert composed.of(columns, np.array([1])).tolist() == [[6, 11, 12, 12]]


@pytest.mark.parametrize("share", [False, True])
def test_composed_columns_train_as_columns_that_are_written_out(share, monkeypatch):
    """The kernels' gradients have their twin elsewhere; here the joint values are put to it."""

    def slow(self, columns, wanted=None):
        chosen = range(len(self.members)) if wanted is None else wanted
        out = np.zeros((len(chosen), columns.shape[1]), np.int64)
        for row, at in enumerate(chosen):
            members = [int(m) for m in self.members[at] if m >= 0]
            sizes = [int(arities[m]) for m in members]
            every = {joint: place for place, joint in enumerate(product(*map(range, sizes)))}
            for column, values in enumerate(columns[members].T.tolist()):
                out[row, column] = every.get(tuple(values), len(every))
        return out

    rng = np.random.default_rng(0)
    arities = np.array([2, 3, 2, 3])
    families = families_of(ALL_EARLIER, 2, domain_of(arities.tolist(), 3))
    codes = np.stack([rng.integers(0, a + 1, 60) for a in arities], axis=1).astype(np.uint8)
    labels = rng.integers(0, 3, 60)
    rows = TrainingRows(codes, labels, None, families.composed)
    task = Task(
        families.slots,
        HybridMargin(5.0, 2.0, 3.0),
        Training(3, batch_size=8, learning_rate=0.05, share=share, dropout=0.1),
        ParentSearch(families.sampler(), 0.02, (3.0, 0.7)),
    )
    context = FitContext(seed=np.random.SeedSequence(5))
    chosen, ends, joints = np.array([0, 1, 3, 5]), [], []
    for of in (Composed.of, slow):
        monkeypatch.setattr(Composed, "of", of)
        model = Model.start(families.slots, 3, np.random.default_rng(1))
        ends.append(train(task, rows, model, context).result)
        joints.append(log_joint(ends[-1], families.slots, rows, chosen))
    first, second = ends
    for name, array in first.arrays().items():
        assert np.array_equal(array, second.arrays()[name]), name
    assert np.array_equal(*joints)


@pytest.fixture(scope="module")
def two_tree():
    """Rows of a 2-tree: each feature from the third on is drawn given two joined ones."""
    rng = np.random.default_rng(2)
    parents = [(), (0,), (0, 1), (1, 2), (0, 2)]
    n = 3000
    labels = rng.integers(0, 2, n)
    codes = np.zeros((5, n), np.int64)
    for i, mine in enumerate(parents):
        logits = 2.0 * rng.normal(size=(2, 4, 2))
        # No parent alone says much: the pair's parity carries it.
        given = np.zeros(n, np.int64)
        for p in mine:
            given = 2 * given + codes[p]
        codes[i] = (logits[labels, given] + rng.gumbel(size=(n, 2))).argmax(axis=1)
    return codes.astype(np.uint8), labels.astype(np.uint16), parents


def likelihood(codes, labels, parents):
    """Log-likelihood of the rows under the frequencies of each family."""
    total = 0.0
    for i, mine in enumerate(parents):
        context = labels.astype(np.int64)
        for p in mine:
            context = 2 * context + codes[p]
        counts = np.zeros((context.max() + 1, 2))
        np.add.at(counts, (context, codes[i]), 1)
        seen = counts[counts.sum(axis=1) > 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(seen > 0, seen * np.log(seen / seen.sum(axis=1, keepdims=True)), 0.0)
        total += terms.sum()
    return total


def learn(learner, codes, labels, seed=0):
    context = FitContext(seed=np.random.SeedSequence(seed))
    domain = Domain(tuple(f"f{i}" for i in range(len(codes))), np.full(len(codes), 2), 2)
    counts = Counts(Rows.in_memory(domain, codes, labels), context)
    structure, joint = learner.learn_jointly(counts, FitPlan(context))
    return structure, context, joint


def test_the_generative_loss_finds_the_two_tree_of_greatest_likelihood(two_tree):
    codes, labels, true = two_tree
    earlier = [list(range(i)) for i in range(5)]
    families = families_of(earlier, 2, domain_of([2] * 5))
    best = max(
        ([families.parents[i][s] for i, s in enumerate(chosen)] for chosen in structures(families)),
        key=lambda parents: likelihood(codes, labels, parents),
    )
    assert best == true
    learner = Differentiable(
        "all", max_parents=2, order="columns", loss="nll", init="generative",
        training=Training(30, learning_rate=0.1, dropout=0.0),
    )  # fmt: skip
    structure, _, joint = learn(learner, codes, labels)
    assert list(structure.parent_indices) == best
    tables = joint.log_prob
    assert tables[3].shape == (2, 2, 2, 2)
    np.testing.assert_allclose(np.exp(tables[3]).sum(axis=-2), 1.0)
    tree, _, _ = learn(learner.set_params(max_parents=1), codes, labels)
    assert max(len(p) for p in tree.parent_indices) == 1


def test_a_pair_that_tells_the_classes_apart_is_found_by_the_margin():
    # The class is the parity of three features: a tree has no edge that helps.
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (4, 3000)).astype(np.uint8)
    labels = (codes[0] ^ codes[1] ^ codes[2]).astype(np.uint16)
    X = codes.T.astype(str)
    errors = {}
    for most in (1, 2):
        structure = Differentiable(
            "all", max_parents=most, order="columns", training=Training(30, dropout=0.0)
        )
        clf = BayesNetClassifier(structure, Hybrid(), random_state=0).fit(X[:2000], labels[:2000])
        errors[most] = 1 - clf.score(X[2000:], labels[2000:])
    assert errors[1] > 0.4
    assert errors[2] == 0.0


def test_k_trees_are_moral_and_missing_features_are_summed_out(two_tree):
    codes, labels, _ = two_tree
    X = codes.T.astype(str).astype(object)
    structure = Differentiable("subset", k=3, max_parents=2, training=Training(3))
    clf = BayesNetClassifier(structure, "hybrid", missing="marginalize", random_state=0)
    clf.fit(X[:800], labels[:800])
    assert clf.structure_.max_parents == 2
    assert clf.structure_.is_moral()
    hidden = X[900].copy()
    hidden[2] = None
    filled = np.array([[*hidden[:2], value, *hidden[3:]] for value in "01"], dtype=object)
    joint = np.exp(clf.predict_joint_log_proba(filled))
    np.testing.assert_allclose(
        clf.predict_proba(hidden[None, :])[0], joint.sum(axis=0) / joint.sum(), rtol=1e-9
    )


def test_same_seed_same_two_tree(two_tree):
    codes, labels, _ = two_tree
    learner = Differentiable(k=3, max_parents=2, training=Training(2))
    one, first, _ = learn(learner, codes, labels, 4)
    two, second, _ = learn(learner, codes, labels, 4)
    assert one == two
    assert first.info["structure"]["trace"] == second.info["structure"]["trace"]
    assert all(0 < p <= 1 for p in first.info["structure"]["probabilities"])


@pytest.mark.parametrize(
    ("learner", "match"),
    [
        (Differentiable(max_parents=0), "max_parents=0"),
        (Differentiable(max_parents=1.5), r"max_parents=1\.5"),
        (Differentiable(max_parents=2, ordering="free"), "ordering='fixed'"),
    ],
)
def test_mistakes_are_told(two_tree, learner, match):
    with pytest.raises(ConfigurationError, match=match):
        learn(learner, *two_tree[:2])
