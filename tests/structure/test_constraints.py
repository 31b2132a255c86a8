"""Constraints: exact trees, every learner, contradictions named by their smallest set."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

import tanager
from tanager import BayesNetClassifier, Constraints
from tanager.errors import ConfigurationError
from tanager.structure import ACLL, KDB, TAN, Differentiable, Fixed, OrderBased, Structure
from tanager.structure.constraints import Limits
from tanager.structure.ktree import heaviest_tree
from tanager.structure.tan import maximum_branching
from tanager.training import Training
from tests.cli.calling import call
from tests.oracles.constraints import forests, graphs, satisfied

NAMES = tuple("abcde")
FORESTS = [np.array(parents) for parents in forests(5)]


def random_statements(rng, names, n_required=2):
    """Return a few random statements, as pairs of a kind and what it says."""
    pick = lambda: str(rng.choice(names))  # noqa: E731
    found = []
    for _ in range(rng.integers(0, n_required + 1)):
        p, c = rng.choice(names, 2, replace=False)
        found.append(("required", (str(p), str(c))))
    for _ in range(rng.integers(0, 3)):
        p, c = rng.choice(names, 2, replace=False)
        found.append(("forbidden", ("*" if rng.random() < 0.2 else str(p), str(c))))
    if rng.random() < 0.4:
        cut = int(rng.integers(1, 3))
        shuffled = [str(name) for name in rng.permutation(names)[:4]]
        found.append(("tiers", [shuffled[:cut], shuffled[cut:]]))
    if rng.random() < 0.3:
        found.append(("order", [[str(name)] for name in rng.permutation(names)[:3]]))
    if rng.random() < 0.3:
        found.append(("roots", pick()))
    if rng.random() < 0.3:
        found.append(("leaves", pick()))
    if rng.random() < 0.3:
        found.append(("max_parents", (pick(), int(rng.integers(0, 2)))))
    return found


def constraints_of(statements):
    given = {"required": [], "forbidden": [], "roots": [], "leaves": [], "max_parents": {}}
    for kind, said in statements:
        if kind == "tiers":
            given["tiers"] = said
        elif kind == "order":
            given["order"] = [group[0] for group in said]
        elif kind == "max_parents":
            given["max_parents"][said[0]] = said[1]
        else:
            given[kind].append(said)
    return Constraints(**given)


def holds(statements, parents, names=NAMES):
    return all(satisfied(statement, parents, names) for statement in statements)


def tree_limits(statements):
    limits = constraints_of(statements).resolve(NAMES)
    limits.check_learner(1, "a tree")
    return limits


@pytest.mark.parametrize("seed", range(60))
def test_the_branching_is_the_heaviest_of_all_trees_of_five_features(seed):
    rng = np.random.default_rng(seed)
    statements = random_statements(rng, NAMES)
    weights = rng.normal(0.3, 1.0, (5, 5))
    if seed % 2:
        weights = weights + weights.T
    wanted = [f for f in FORESTS if holds(statements, [(p,) if p >= 0 else () for p in f])]
    if not wanted:
        with pytest.raises(ConfigurationError, match="contradict one another"):
            tree_limits(statements)
        return
    worth = lambda f: sum(weights[p, c] for c, p in enumerate(f) if p >= 0)  # noqa: E731
    found = maximum_branching(weights, tree_limits(statements))
    assert holds(statements, [(p,) if p >= 0 else () for p in found])
    # The oracle takes required arcs at their weight, as the branching does.
    assert np.isclose(worth(found), max(worth(f) for f in wanted))


ALL_OF_FOUR = list(graphs(4))


@pytest.mark.parametrize("seed", range(60))
def test_a_contradiction_is_named_by_its_smallest_set(seed):
    rng, names = np.random.default_rng(seed), NAMES[:4]
    statements = list({repr(s): s for s in random_statements(rng, names, 6)}.values())
    smallest = next(
        (
            size
            for size in range(1, len(statements) + 1)
            if any(
                not any(holds(some, parents, names) for parents in ALL_OF_FOUR)
                for some in combinations(statements, size)
            )
        ),
        None,
    )
    if smallest is None:
        constraints_of(statements).resolve(names)
        return
    with pytest.raises(ConfigurationError, match="contradict one another") as told:
        constraints_of(statements).resolve(names)
    text = str(told.value)
    kinds = ("required", "forbidden", "tiers", "order", "roots", "leaves", "max_parents")
    assert sum(text.count(kind) for kind in kinds) == smallest


def table(seed=0, n=400):
    """Return rows in which each feature depends on the one before it and on the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    columns = [rng.integers(0, 2, n)]
    for _ in range(4):
        noise = rng.random(n) < 0.2
        columns.append((columns[-1] ^ y ^ noise) if rng.random() < 0.7 else (columns[-1] ^ noise))
    return [dict(zip(NAMES, map(str, row), strict=True)) for row in zip(*columns, strict=True)], y


SHORT = Training(3, batch_size=100)
LEARNERS = {
    "tan": "tan",
    "tan-adjusted": TAN(adjusted=True),
    "kdb": KDB(k=2),
    "kdb-moral": KDB(k=2, moral=True),
    "ktree": "ktree",
    "skdb": "skdb",
    "acll": ACLL(),
    "order": OrderBased(),
    "order-2": OrderBased(max_parents=2),
    "greedy": "greedy",
    "differentiable": Differentiable(k=4, training=SHORT),
    "differentiable-free": Differentiable(k=4, ordering="free", training=SHORT),
    "random": "random",
}


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_that_searches_satisfies_constraints(name):
    rows, y = table()
    refused = 0
    for seed in range(8):
        statements = random_statements(np.random.default_rng(seed), NAMES)
        constraints = constraints_of(statements)
        try:
            limits = constraints.resolve(NAMES)
        except ConfigurationError:
            continue
        clf = BayesNetClassifier(
            clone(LEARNERS[name]) if not isinstance(LEARNERS[name], str) else LEARNERS[name],
            "m-estimate",
            constraints=constraints,
        )
        try:
            clf.fit(rows, y)
        except ConfigurationError as error:
            refused += "contradict one another" in str(error) and limits.n_required > 1
            assert limits.n_required > 1
            continue
        found = dict(zip(clf.structure_.selected, clf.structure_.parent_indices, strict=True))
        assert holds(statements, [found.get(i, ()) for i in range(5)])
    assert refused < 4


def test_the_default_learner_keeps_required_arcs_and_its_accuracy():
    rows, y = table(n=1500)
    train, test = slice(0, 1000), slice(1000, None)
    plain = BayesNetClassifier(random_state=0).fit(rows[train], y[train])
    true = Constraints(
        required=[("a", "b"), ("c", "d")], tiers=[["a"], ["b", "c"], ["d", "e"]], roots=["a"]
    )
    clf = BayesNetClassifier(constraints=true, random_state=0).fit(rows[train], y[train])
    assert "a" in clf.structure_.parents["b"]
    assert "c" in clf.structure_.parents["d"]
    assert clf.structure_.parents["a"] == ()
    losses = [log_loss(y[test], one.predict_proba(rows[test])) for one in (clf, plain)]
    assert losses[0] <= 1.01 * losses[1]


def test_without_constraints_limits_change_no_learner():
    rows, y = table()
    for learner in ("tan", "kdb(k=2)", "kdb(k=2, moral=True)", "ktree", "skdb", "acll", "order"):
        plain = BayesNetClassifier(learner, "m-estimate").fit(rows, y)
        free = BayesNetClassifier(learner, "m-estimate", constraints=Constraints()).fit(rows, y)
        assert free.structure_ == plain.structure_, learner


def test_a_forbidden_arc_turns_round_and_the_tree_keeps_its_weight():
    rows, y = table()
    plain = BayesNetClassifier("tan", "laplace").fit(rows, y)
    parent, child = next((ps[0], c) for c, ps in plain.structure_.parents.items() if ps)
    turned = Constraints(forbidden=[(parent, child)])
    clf = BayesNetClassifier("tan", "laplace", constraints=turned).fit(rows, y)
    weights = [c.info_["structure"]["tree_weight"] for c in (plain, clf)]
    assert np.isclose(*weights)
    assert parent not in clf.structure_.parents[child]


def test_arcs_that_name_the_class_are_answered_in_words():
    rows, y = table()
    limits = Constraints(required=[("y", "a")], forbidden=[("b", "y")]).resolve(NAMES, "y")
    assert limits.n_required == 0
    assert limits.allowed.sum() == 20
    with pytest.raises(ConfigurationError, match="'y' is the class, which has no parents here"):
        Constraints(required=[("a", "y")]).resolve(NAMES, "y")
    with pytest.raises(ConfigurationError, match=r"the parent of every feature\. Drop the column"):
        Constraints(forbidden=[("y", "a")]).resolve(NAMES, "y")
    named = [{**row, "y": int(label)} for row, label in zip(rows, y, strict=True)]
    with pytest.raises(ConfigurationError, match="'y' is the class"):
        BayesNetClassifier("tan", constraints=Constraints(required=[("a", "y")])).fit(named, "y")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"required": [("a", "z")]}, "required names 'z', which is not a feature"),
        ({"required": [("a", "a")]}, "no feature is its own parent"),
        ({"required": [("*", "a")]}, r"required names '\*'"),
        ({"required": ["ab"]}, r"Give pairs \(parent, child\)"),
        ({"required": "ab"}, "Give a list"),
        ({"roots": "a"}, "Give a list"),
        ({"tiers": [["a"], ["a", "b"]]}, "tiers names 'a' twice"),
        ({"max_parents": -1}, "whole numbers from 0 on"),
        ({"max_parents": {"a": 1.5}}, "whole numbers from 0 on"),
        (
            {"required": [("a", "b"), ("b", "c"), ("c", "a")]},
            r"required \('a', 'b'\), required \('b', 'c'\) and required \('c', 'a'\)",
        ),
        (
            {"required": [("a", "b"), ("c", "b")], "max_parents": 1},
            r"required \('a', 'b'\), required \('c', 'b'\) and max_parents 1",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(given, message):
    with pytest.raises(ConfigurationError, match=message):
        Constraints(**given).resolve(NAMES)


def test_learners_that_do_not_search_refuse_what_they_cannot_give():
    rows, y = table()
    known = Constraints(required=[("a", "b")])
    with pytest.raises(ConfigurationError, match="Naive gives a feature at most 0 parents"):
        BayesNetClassifier("naive", "laplace", constraints=known).fit(rows, y)
    with pytest.raises(ConfigurationError, match=r"lacks the required \('a', 'b'\)"):
        BayesNetClassifier(Fixed({"c": ["a"]}), "laplace", constraints=known).fit(rows, y)
    wrong = Constraints(forbidden=[("a", "c")])
    with pytest.raises(ConfigurationError, match="'c' has the parent 'a'"):
        BayesNetClassifier(Fixed({"c": ["a"]}), "laplace", constraints=wrong).fit(rows, y)
    two = Constraints(required=[("a", "c"), ("b", "c")])
    with pytest.raises(ConfigurationError, match="TAN gives a feature at most 1 parents"):
        BayesNetClassifier("tan", "laplace", constraints=two).fit(rows, y)
    with pytest.raises(ConfigurationError, match=r"constraints=\{\}"):
        BayesNetClassifier("tan", "laplace", constraints={}).fit(rows, y)


def test_required_parents_that_may_not_be_joined_contradict_a_tree_of_cliques():
    rows, y = table()
    apart = Constraints(required=[("a", "c"), ("b", "c")], forbidden=[("a", "b"), ("b", "a")])
    with pytest.raises(ConfigurationError, match="joined among themselves"):
        BayesNetClassifier("ktree", "m-estimate", constraints=apart).fit(rows, y)
    clf = BayesNetClassifier(KDB(k=2), "m-estimate", constraints=apart).fit(rows, y)
    assert set(clf.structure_.parents["c"]) == {"a", "b"}


def test_the_tree_of_cliques_stays_moral_under_constraints():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        weights = rng.random((5, 5))
        weights += weights.T
        statements = random_statements(rng, NAMES, 3)
        try:
            limits = constraints_of(statements).resolve(NAMES)
            limits = limits.moral(limits.arrange(range(5)))
            limits.check_learner(3, "a tree")
        except ConfigurationError:
            continue
        parents = heaviest_tree(weights, 3, limits)
        assert holds(statements, parents)
        assert Structure.from_parents(NAMES, parents).is_moral()


def test_constraints_travel_with_the_model_and_are_read_from_toml(tmp_path):
    rows, y = table()
    path = tmp_path / "known.toml"
    path.write_text(
        'required = ["a -> b", ["c", "d"]]\ntiers = [["a"], ["e"]]\nmax_parents = { e = 0 }\n'
    )
    known = Constraints.from_toml(path)
    clf = BayesNetClassifier("tan", "laplace", constraints=known).fit(rows, y)
    assert (clf.structure_.parents["b"], clf.structure_.parents["d"]) == (("a",), ("c",))
    tanager.save(clf, tmp_path / "m.tanager")
    assert tanager.load(tmp_path / "m.tanager").constraints == known
    assert clone(clf).constraints == known
    import pyarrow as pa
    import pyarrow.csv

    named = pa.table({name: [row[name] for row in rows] for name in NAMES} | {"y": y})
    pyarrow.csv.write_csv(named, tmp_path / "t.csv")
    model = tmp_path / "n.tanager"
    arguments = ("fit", tmp_path / "t.csv", "-t", "y", "-o", model, "--structure", "tan")
    assert call(*arguments, "--parameters", "laplace", "--constraints", path) == 0
    assert tanager.load(model).structure_.parents["d"] == ("c",)
    path.write_text("requierd = []\n")
    with pytest.raises(ConfigurationError, match="Did you mean 'required'"):
        Constraints.from_toml(path)
    path.write_text("required = [\n")
    with pytest.raises(ConfigurationError, match="this is not TOML"):
        Constraints.from_toml(path)


def test_limits_of_no_constraints_allow_everything():
    limits = Limits.none(NAMES)
    assert limits.arrange([3, 1, 0, 2, 4]).tolist() == [3, 1, 0, 2, 4]
    assert limits.moral(range(5)).required == ((),) * 5


def test_the_default_gives_a_feature_as_many_parents_as_are_required():
    """Five required parents, joined among themselves; a given number of parents holds."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (200, 7))
    rows = [{f"f{i}": str(v) for i, v in enumerate(row)} for row in codes]
    y = (codes[:, 5] + codes[:, 6] > 0).astype(int)
    arcs = [(f"f{i}", "f6") for i in range(5)]
    known = Constraints(required=arcs)
    found = BayesNetClassifier(constraints=known).fit(rows, y)
    assert {parent for parent, _ in arcs} <= set(found.structure_.parents["f6"])
    answer = found.network_.query("f0", {"f6": "1", "f3": "0"}).probabilities
    assert answer.sum() == pytest.approx(1.0)
    assert found.predict_proba(rows).sum(axis=1) == pytest.approx(1.0)
    with pytest.raises(ConfigurationError, match="at most 3 parents"):
        BayesNetClassifier("ktree(max_parents=3)", "layered", constraints=known).fit(rows, y)
