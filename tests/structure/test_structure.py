"""Structures and the learners that are plain to state."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.structure import KDB, STRUCTURES, TAN, FitPlan, Fixed, Naive, Structure
from tanager.structure.tan import maximum_spanning_tree


def make_counts(seed=0, n_features=5, n_rows=400):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (n_features, n_rows)).astype(np.uint8)
    codes[1] = np.where(rng.random(n_rows) < 0.7, codes[0], codes[1])
    labels = ((codes[0] + codes[2] + rng.integers(0, 2, n_rows)) % 3).astype(np.uint16)
    names = tuple("abcdefgh"[:n_features])
    rows = Rows.in_memory(Domain(names, np.full(n_features, 3), 3), codes, labels)
    return Counts(rows, context())


def context():
    return FitContext(info={"structure": {}, "parameters": {}})


def test_the_spanning_tree_is_the_heaviest_of_all():
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = rng.integers(0, 6, (5, 5)).astype(float)
        weights = weights + weights.T
        parents = maximum_spanning_tree(weights, np.arange(len(weights)))
        got = sum(weights[i, p] for i, p in enumerate(parents) if p >= 0)
        best = 0.0
        for choice in product(range(5), repeat=4):
            edges = list(enumerate(choice, start=1))
            if all(reaches_root(node, choice) for node in range(1, 5)):
                best = max(best, sum(weights[i, p] for i, p in edges))
        assert got == best
        assert parents[0] == -1


def reaches_root(node, choice):
    for _ in range(6):
        if node == 0:
            return True
        node = choice[node - 1]
    return False


@pytest.mark.parametrize("parameters", ["laplace", "m-estimate", "hdp"])
@pytest.mark.parametrize("adjusted", [True, False])
def test_the_order_of_columns_decides_nothing_but_exact_ties_of_a_tree(parameters, adjusted):
    rng = np.random.default_rng(3)
    structure = TAN(root="information", adjusted=adjusted)
    n, names = 300, ["d", "a", "c", "b", "e"]
    codes = rng.integers(0, 3, (n, 5))
    codes[:, 1] = np.where(rng.random(n) < 0.7, codes[:, 0], codes[:, 1])
    if adjusted:  # which decides even exact ties by name
        codes[:, 4] = codes[:, 2]  # two columns that say the same
    y = (codes[:, 0] + codes[:, 2] + rng.integers(0, 2, n)) > 2
    table = pa.table({name: codes[:, i].astype(str) for i, name in enumerate(names)})
    first = BayesNetClassifier(structure, parameters, random_state=0).fit(table, y)
    mi = dict(first.info_["structure"]["mutual_information"])
    roots = [f for f, parents in first.structure_.parents.items() if not parents]
    assert mi[roots[0]] == max(mi.values())
    for _ in range(5):
        other = table.select(rng.permutation(names).tolist())
        again = BayesNetClassifier(structure, parameters, random_state=0).fit(other, y)
        assert dict(again.structure_.parents) == dict(first.structure_.parents)
        assert again.predict_proba(other) == pytest.approx(first.predict_proba(table), abs=1e-12)


def test_the_papers_root_is_the_first_column():
    structure = TAN().learn(make_counts(), FitPlan(context()))
    assert structure.parent_indices[0] == ()
    edges = {frozenset((i, *p)) for i, p in enumerate(structure.parent_indices) if p}
    other = TAN(root="information").learn(make_counts(), FitPlan(context()))
    assert other.parent_indices[int(np.argmax(make_counts().mi()))] == ()
    assert {frozenset((i, *p)) for i, p in enumerate(other.parent_indices) if p} == edges
    with pytest.raises(ConfigurationError, match="Allowed: 'first', 'information'"):
        TAN(root="last").learn(make_counts(), FitPlan(context()))


def test_kdb_takes_the_most_informative_earlier_features():
    counts = make_counts()
    structure = KDB(k=2, adjusted=False).learn(counts, FitPlan(context()))
    order = np.argsort(-counts.mi(), kind="stable").tolist()
    information = counts.cmi()
    for feature, parents in zip(structure.selected, structure.parent_indices, strict=True):
        earlier = order[: order.index(feature)]
        expected = sorted(earlier, key=lambda p, f=feature: (-information[f, p], order.index(p)))
        assert list(parents) == expected[:2]


def test_kdb_with_no_dependence_is_naive():
    counts = make_counts()
    assert KDB(k=0).learn(counts, FitPlan(context())) == Naive().learn(counts, FitPlan(context()))


@pytest.mark.parametrize("k", [-1, 1.5, "2"])
def test_kdb_refuses_a_k_that_is_no_count(k):
    with pytest.raises(ConfigurationError, match="Allowed: a whole number from 0 on"):
        KDB(k=k).learn(make_counts(), FitPlan(context()))


def test_one_feature_has_no_parent():
    counts = make_counts(n_features=3)
    single = Counts(
        Rows.in_memory(
            Domain(("a",), np.array([3]), 3),
            counts.rows.gather().codes[:1],
            counts.rows.gather().labels,
        ),
        context(),
    )
    for learner in (TAN(), KDB(k=3), Naive()):
        assert learner.learn(single, FitPlan(context())).parent_indices == ((),)


def test_a_given_structure_is_checked():
    counts = make_counts()
    structure = Fixed({"c": ["a", "b"], "b": ("a",)}).learn(counts, FitPlan(context()))
    assert structure.parents["c"] == ("a", "b")
    assert structure.parents["d"] == ()
    for parents, message in [
        ({"a": ["z"]}, "'z', which is not a column"),
        ({"a": ["b"], "b": ["a"]}, "cycle among 'a', 'b'"),
        ({"a": ["a"]}, "distinct features other than itself"),
        ({"a": "b"}, "give a list"),
    ]:
        with pytest.raises(ConfigurationError, match=message):
            Fixed(parents).learn(counts, FitPlan(context()))


def test_the_first_parent_that_is_left_out_is_named():
    with pytest.raises(ConfigurationError, match="'b' is a parent of 'a' but is not in the struct"):
        Structure(("a", "b", "c"), (0,), ((1, 2),))


def test_topological_order_puts_parents_first():
    structure = Structure(("a", "b", "c", "d"), (3, 0, 2), ((2, 0), (2,), ()))
    assert [structure.selected[at] for at in structure.topological_order()] == [2, 0, 3]
    assert structure.features == ("d", "a", "c")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigurationError, match="'kdb', 'ktree', 'naive'"):
        STRUCTURES.resolve("cow")


def test_every_learner_works_with_a_bare_context():
    import numpy as np

    from tanager.codes import Domain, Rows
    from tanager.counts import Counts
    from tanager.engines import FitContext
    from tanager.structure import STRUCTURES

    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (3, 60)).astype(np.uint8)
    domain = Domain(("a", "b", "c"), np.array([2, 2, 2]), 2)
    rows = Rows.in_memory(domain, codes, (codes[0] ^ codes[1]).astype(np.uint16))
    for name in STRUCTURES:
        if name not in ("fixed", "differentiable"):
            context = FitContext()
            structure = STRUCTURES.resolve(name).learn(Counts(rows, context), FitPlan(context))
            assert set(structure.features) <= {"a", "b", "c"}
