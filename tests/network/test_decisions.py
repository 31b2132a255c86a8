"""Decisions, next questions and nearest changes, against enumeration of every row there can be."""

from itertools import combinations, product

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ColumnWarning, ConfigurationError, DataError, MemoryBoundError
from tanager.network import Interval, Soft
from tanager.network import nearest as nearest_module
from tanager.network.evidence import read_evidence
from tanager.structure import Fixed
from tests.network.test_queries import AXIS, marginal, rows, weigh

PAIRS = [
    ("auto", "layered"),
    ("naive", "hdp"),
    ("tan", "laplace"),
    ("kdb(k=2)", "m-estimate"),
    ("ktree(max_parents=2)", "layered"),
]
COSTS = {
    "leave": {"r": 0, "s": 6, "t": 9},
    "treat": {"t": 1, "r": 5, "s": 2},
    "ask a person": 3,
}
MATRIX = np.array([[0, 6, 9], [5, 2, 1], [3, 3, 3]], float)
PRICES = {"a": 0.4, "b": 0.05, "number": 0.5}
EVIDENCE = [
    {},
    {"a": "mid"},
    {"number": 1.2, "d": 0},
    {"a": Soft({"lo": 0.3, "hi": 0.9}), "number": Interval(0, 2)},
]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "/".join(pair))
def clf(request):
    X, y = rows()
    clf = BayesNetClassifier(
        *request.param, bins=5, categorical_features=["a", "b", "d"], missing="marginalize"
    )
    return clf.fit(X, y)


@pytest.fixture(scope="module")
def joint(clf):
    """P(a, b, number, d, class), by asking for each complete row."""
    sizes = [int(n) for n in clf.network_.codebook.domain.arities]
    grid = np.indices(sizes, clf.network_.codebook.dtype).reshape(len(sizes), -1)
    found = np.exp(clf.network_.log_joint_of_codes(np.ascontiguousarray(grid)))
    return found.reshape(*sizes, -1)


def given(network, joint, evidence):
    """The joint with evidence in, by the likelihood of each value."""
    known = read_evidence(network, evidence)
    likelihoods = {network.structure.names[f]: v for f, v in known.likelihoods.items()}
    for f, arity in enumerate(network.codebook.domain.arities):
        if known.codes[f, 0] < arity:
            likelihoods[network.structure.names[f]] = np.eye(arity)[known.codes[f, 0]]
    return weigh(joint, **likelihoods)


def incomplete(n=200, seed=3):
    """Rows with a third of the cells missing, as lists."""
    X, _ = rows(n, seed)
    table = X.to_pydict()
    holes = np.random.default_rng(seed).random((n, 4)) < 1 / 3
    for at, name in enumerate(table):
        table[name] = [None if holes[r, at] else v for r, v in enumerate(table[name])]
    return table


def test_decisions_have_the_least_expected_cost(clf, joint):
    table = incomplete()
    found = clf.decide(table, COSTS)
    for r in range(len(found)):
        row = {name: values[r] for name, values in table.items()}
        shares = marginal(given(clf.network_, joint, row), "class")
        expected = MATRIX @ shares
        np.testing.assert_allclose(found.expected_costs[r], expected, atol=1e-10)
        assert found.actions[r] == list(COSTS)[int(expected.argmin())]
        assert found.margin[r] == pytest.approx(np.diff(np.sort(expected))[0], abs=1e-10)
    assert len(set(found.actions)) == 3
    network = clf.network_.decide(table, COSTS)
    assert (network.actions == found.actions).all()
    assert f"leave {np.count_nonzero(found.actions == 'leave')}" in repr(found)


def test_costs_may_be_written_in_many_ways(clf):
    pd = pytest.importorskip("pandas")
    X, _ = rows()
    wanted = clf.decide(X, COSTS)
    frame = pd.DataFrame(MATRIX, index=list(COSTS), columns=["r", "s", "t"])
    assert clf.decide(X, frame[["t", "r", "s"]]) == wanted
    assert clf.decide(X, MATRIX) == clf.decide(X, MATRIX.tolist())
    shown = wanted.to_pandas()
    assert list(shown) == ["decision", "margin", "cost_leave", "cost_treat", "cost_ask a person"]
    alone = clf.decide(X, {"treat": COSTS["treat"]})
    assert set(alone.actions) == {"treat"}
    assert np.isnan(alone.margin).all()
    assert clf.decide(X, MATRIX).actions.dtype == clf.classes_.dtype


def test_parts_of_a_table_are_decided_as_the_whole(clf):
    X, _ = rows()
    whole = clf.decide(X, COSTS)
    parts = [clf.decide(X.slice(low, 7), COSTS).expected_costs for low in range(0, 300, 7)]
    assert (np.concatenate(parts) == whole.expected_costs).all()


def test_of_actions_that_cost_the_same_the_first_is_taken():
    clf = BayesNetClassifier("naive", "ml").fit([["a"], ["a"]] * 3, ["no", "yes"] * 3)
    for actions in (["x", "y"], ["y", "x"]):
        # 0.3 · 0.5 + 0.1 · 0.5 and 0.2 · 0.5 + 0.2 · 0.5 differ in the last digit.
        costs = {actions[0]: {"no": 0.3, "yes": 0.1}, actions[1]: {"no": 0.2, "yes": 0.2}}
        assert clf.decide([["a"]], costs).actions[0] == actions[0]


def test_decisions_with_one_class_and_with_classes_that_are_numbers():
    with pytest.warns(ColumnWarning, match="one class only"):
        one = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]], [7, 7])
    assert one.decide([["a"]], {"go": {7: 1}, "stay": 2}).actions.tolist() == ["go"]
    assert one.next_question({}, {"go": {7: 1}, "stay": 2}).plan == ()
    assert one.next_question({}).now == 0
    assert one.nearest({"x0": "a"}) == []
    two = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 9, [0, 1] * 9)
    found = two.decide([["a"], ["b"]], [[0, 1], [1, 0]])
    assert found.actions.tolist() == [0, 1]
    assert found.actions.dtype == two.classes_.dtype
    named = two.decide([["a"]], {"x": {"0": 1, "1.0": 2}, "y": {0: 5, np.int64(1): 5}})
    assert named.actions.tolist() == ["x"]


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ({"go": {"r": 1, "s": 2}, "stay": 1}, "costs of 'go' lacks the class 't'"),
        ({"go": {"r": 1, "S": 2}}, r"'S' is not one of the classes.*Did you mean 's'"),
        ({"go": {"r": 1, "s": np.nan, "t": 1}}, "costs of 'go' under 's': nan isn't"),
        ({"go": {"r": 1, "s": "two", "t": 1}}, "'two' isn't a finite number"),
        ({"go": float("inf")}, "costs of 'go': inf isn't a finite number"),
        ({}, "Name at least one, each once"),
        ([[0, 1, 2]], r"must be 3 by 3 numbers.*shape \(1, 3\)"),
        ([[0, 1]], "must be 3 by 3 numbers"),
        ({1: 0, "1": 2}, "Name at least one, each once"),
        ([[0, "x", 2]] * 3, "must be 3 by 3 numbers"),
        ([[0, np.nan, 2]] * 3, "costs of 'r' under 's': nan"),
        ("cubic", "costs='cubic'"),
        ("absolute", "needs ordered classes"),
    ],
)
def test_costs_that_cannot_be_are_refused(costs, words):
    X, y = rows()
    clf = BayesNetClassifier("naive", "laplace").fit(X, y)
    with pytest.raises(ConfigurationError, match=words):
        clf.decide(X, costs)


def left(joint, names, costs):
    """Expected cost or entropy once some features are known, by going through their values."""
    total = 0.0
    shares = np.atleast_2d(marginal(joint, *names, "class")).reshape(-1, joint.shape[-1])
    for cell in shares:
        if costs is not None:
            total += min(float(row @ cell) for row in MATRIX)
        else:
            total -= sum(p * np.log2(p / cell.sum()) for p in cell if p > 0)
    return total


@pytest.mark.parametrize("evidence", EVIDENCE, ids=range(len(EVIDENCE)))
@pytest.mark.parametrize("costs", [None, COSTS], ids=["bits", "cost"])
def test_questions_are_worth_what_enumeration_says(clf, joint, evidence, costs):
    seen = given(clf.network_, joint, evidence)
    found = clf.next_question(evidence, costs, prices=PRICES)
    now = left(seen, [], costs)
    assert found.now == pytest.approx(now, abs=1e-10)
    known = [name for name, v in evidence.items() if not isinstance(v, Soft | Interval)]
    assert {q.feature for q in found.questions} == set(AXIS) - {"class", *known}
    for q in found.questions:
        assert q.gain == pytest.approx(now - left(seen, [q.feature], costs), abs=1e-10)
        assert q.price == PRICES.get(q.feature, 0)
    worth = [q.gain if costs is None else q.net for q in found.questions]
    assert worth == sorted(worth, reverse=True)
    if costs is not None:
        assert found.action == list(COSTS)[int((MATRIX @ marginal(seen, "class")).argmin())]


@pytest.mark.parametrize("budget", [None, 0.5, 0.0])
@pytest.mark.parametrize("costs", [None, COSTS], ids=["bits", "cost"])
def test_an_exact_plan_is_the_best_of_all_sets(clf, joint, costs, budget):
    evidence = {"d": 1}
    seen = given(clf.network_, joint, evidence)
    now = left(seen, [], costs)
    best = 0.0
    for size in (1, 2, 3):
        for some in combinations(["a", "b", "number"], size):
            price = sum(PRICES[name] for name in some)
            if budget is None or price <= budget:
                gain = now - left(seen, some, costs)
                best = max(best, gain - price if costs else gain)
    found = clf.next_question(evidence, costs, prices=PRICES, budget=budget, n=3, method="exact")
    assert found.exact
    price = sum(PRICES[name] for name in found.plan)
    assert found.price == pytest.approx(price)
    assert budget is None or price <= budget
    assert found.gain == pytest.approx(now - left(seen, found.plan, costs), abs=1e-10)
    assert (found.gain - price if costs else found.gain) == pytest.approx(best, abs=1e-10)
    greedy = clf.next_question(evidence, costs, prices=PRICES, budget=budget, n=3)
    assert not greedy.exact
    assert greedy.gain == pytest.approx(now - left(seen, greedy.plan, costs), abs=1e-10)
    assert (greedy.gain - greedy.price if costs else greedy.gain) <= best + 1e-10


def test_questions_that_are_worth_something_only_together_need_an_exact_plan():
    X = [[a, b] for a, b in product("ab", "ab")] * 20
    y = [int(row[0] == row[1]) for row in X]
    clf = BayesNetClassifier("tan", "laplace").fit(X, y)
    costs = [[0, 1], [1, 0]]
    assert clf.next_question({}, costs, n=2).plan == ()
    assert "Nothing is worth asking" in str(clf.next_question({}, costs, n=2))
    exact = clf.next_question({}, costs, n=2, method="exact")
    assert exact.plan == ("x0", "x1")
    assert exact.gain == pytest.approx(0.5 - 1 / 22, abs=0.05)
    assert clf.next_question({}, costs, n=2, method="exact", prices=0.3).plan == ()


def test_greedy_plans_spend_a_budget_on_several_cheap_questions():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    columns = [(y ^ (rng.random(4000) < p)).astype(str) for p in (0.15, 0.2, 0.2, 0.2)]
    clf = BayesNetClassifier("naive", "laplace").fit(np.stack(columns, axis=1), y)
    found = clf.next_question({}, prices={"x0": 3, "x1": 1, "x2": 1, "x3": 1}, budget=3, n=3)
    assert sorted(found.plan) == ["x1", "x2", "x3"]
    assert found.questions[0].feature == "x0"


def best_tree(joint, names, budget, n, costs):
    """Return the least expected cost (or entropy) of plans that depend on the answers."""
    best = left(joint, [], costs)
    for name in names if n else []:
        price = PRICES[name]
        if price > budget + 1e-12:
            continue
        rest, here = [one for one in names if one != name], price if costs else 0.0
        for value in range(joint.shape[AXIS[name]]):
            part = np.zeros_like(joint)
            at = [slice(None)] * joint.ndim
            at[AXIS[name]] = value
            part[tuple(at)] = joint[tuple(at)]
            if part.sum() > 0:
                chance = part.sum() / joint.sum()
                here += chance * best_tree(part, rest, budget - price, n - 1, costs)
        best = min(best, here)
    return best


@pytest.mark.parametrize("budget", [None, 0.5])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("costs", [None, COSTS], ids=["bits", "cost"])
def test_an_exact_adaptive_plan_is_the_best_of_all_trees(clf, joint, costs, n, budget):
    evidence = {"d": 1}
    seen = given(clf.network_, joint, evidence)
    most = np.inf if budget is None else budget
    options = {"prices": PRICES, "budget": budget, "n": n}
    found = clf.next_question(evidence, costs, **options, method="exact", adaptive=True)
    wanted = best_tree(seen, ["a", "b", "number"], most, n, costs)
    assert found.exact
    assert found.tree.left == pytest.approx(wanted, abs=1e-10)
    worth = found.gain - found.price if costs else found.gain
    assert worth == pytest.approx(found.now - wanted, abs=1e-10)
    together = clf.next_question(evidence, costs, **options, method="exact")
    assert worth >= (together.gain - together.price if costs else together.gain) - 1e-10
    greedy = clf.next_question(evidence, costs, **options, adaptive=True)
    assert greedy.tree.left >= wanted - 1e-10
    assert followed(seen, greedy.tree, costs) == pytest.approx(greedy.tree.left, abs=1e-10)


def followed(joint, step, costs):
    """Return what following a plan costs, by enumeration of the answers."""
    if step.question is None:
        if costs:
            assert step.action in COSTS
        return left(joint, [], costs)
    shares, axis = [], AXIS[step.question]
    for value in range(joint.shape[axis]):
        part = np.moveaxis(np.zeros_like(joint), axis, 0)
        part[value] = np.moveaxis(joint, axis, 0)[value]
        if part.sum() > 1e-12:
            shares.append(np.moveaxis(part, 0, axis))
    total = PRICES[step.question] if costs else 0.0
    for part, (chance, following) in zip(shares, step.answers.values(), strict=True):
        assert chance == pytest.approx(part.sum() / joint.sum())
        total += chance * followed(part, following, costs)
    return total


def test_adaptive_plans_ask_what_the_answer_makes_worth_asking():
    rng = np.random.default_rng(0)
    which, first, second = rng.integers(0, 2, (3, 4000)).astype(str)
    y = np.where(which == "0", first, second)
    X = np.stack([which, first, second], axis=1)
    parents = {"x0": [], "x1": ["x0"], "x2": ["x0"]}
    clf = BayesNetClassifier(Fixed(parents), "laplace").fit(X, y)
    costs = [[0, 1], [1, 0]]
    found = clf.next_question({}, costs, n=2, prices=0.01, method="exact", adaptive=True)
    assert found.plan == ("x0",)
    assert [step.question for _, step in found.tree.answers.values()] == ["x1", "x2"]
    assert found.gain == pytest.approx(0.5, abs=0.02)
    assert found.price == pytest.approx(0.02)
    together = clf.next_question({}, costs, n=2, prices=0.01, method="exact")
    assert together.gain < 0.3
    text = str(found)
    assert "ask x0" in text
    assert "  '0' (0." in text
    assert found.to_dict()["tree"]["question"] == "x0"
    assert clf.next_question({}, costs, n=2, prices=5, adaptive=True).plan == ()


@pytest.mark.parametrize(
    ("method", "hint"), [("exact", "use method='greedy'"), ("greedy", "lower n")]
)
def test_adaptive_plans_are_refused_by_how_many_answers_there_can_be(method, hint):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (90, 12)).astype(str), rng.integers(0, 2, 90)
    clf = BayesNetClassifier("naive", "laplace").fit(X, y)
    options = {"method": method, "adaptive": True}
    with pytest.raises(ConfigurationError, match=rf"combinations of answers.*{hint}\.$"):
        clf.next_question({}, n=11, **options)
    few = ["x0", "x1", "x2"]
    found = clf.next_question({}, n=1000, among=few, **options)
    assert found.tree == clf.next_question({}, n=3, among=few, **options).tree


def test_an_answer_called_missing_is_not_a_missing_one():
    X = {"a": ["missing", None, "b"] * 20}
    y = [0, 1, 1] * 20
    found = BayesNetClassifier("naive", "laplace").fit(X, y).next_question({}, adaptive=True)
    assert list(found.tree.answers) == ["b", "missing", "missing "]
    assert sum(chance for chance, _ in found.tree.answers.values()) == pytest.approx(1.0)


def test_edges_of_questions(clf):
    known = {"a": "mid", "b": True, "number": 0.5, "d": 0}
    assert clf.next_question(known, COSTS).questions == ()
    assert "nothing to ask" in str(clf.next_question(known, COSTS))
    poor = clf.next_question({}, COSTS, prices=2.0, budget=1.0)
    assert poor.questions == poor.plan == ()
    some = clf.next_question({}, prices={"a": 5}, budget=1, among=["a", "b"])
    assert [q.feature for q in some.questions] == ["b"]
    row = rows()[0].slice(0, 1).select(["a", "d"])
    wanted = {name: row[name][0].as_py() for name in row.column_names}
    assert clf.next_question(row) == clf.next_question(wanted)
    assert clf.next_question({"a": None}) == clf.next_question({})
    table = clf.next_question({}, COSTS, n=2).to_dict()
    assert table["unit"] == "cost"
    assert set(table["questions"][0]) == {"feature", "gain", "price"}
    pd = pytest.importorskip("pandas")
    assert clf.next_question(pd.Series({"a": "mid"})) == clf.next_question({"a": "mid"})
    assert list(clf.next_question({}).to_pandas()) == ["gain", "price", "net"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prices": {"A": 1}}, "prices: the model has no feature 'A'. Did you mean 'a'"),
        ({"prices": {"a": -1}}, r"prices\['a'\]=-1. Allowed"),
        ({"prices": np.nan}, "prices=nan"),
        ({"budget": -1}, "budget=-1"),
        ({"among": ["z"]}, "among: the model has no feature 'z'"),
        ({"n": 0}, "n=0"),
        ({"method": "best"}, "method='best'"),
    ],
)
def test_questions_that_cannot_be_are_refused(clf, options, words):
    with pytest.raises(ConfigurationError, match=words):
        clf.next_question({}, **options)


def test_rows_that_cannot_be_asked_about_are_refused(clf):
    with pytest.raises(ConfigurationError, match="One row is needed"):
        clf.next_question(rows()[0])
    with pytest.raises(DataError, match="has no value 'huge'"):
        clf.next_question({"a": "huge"})
    with pytest.raises(DataError, match="has no value 'huge'"):
        clf.nearest({"a": "huge"})
    with pytest.raises(ConfigurationError, match="The model has no feature 'z'"):
        clf.nearest({"z": 1})


def test_exact_plans_have_bounds(monkeypatch):
    X, y = rows()
    clf = BayesNetClassifier("naive", "laplace").fit(X, y)
    monkeypatch.setattr("tanager.network.next_question.MOST_SETS", 5)
    with pytest.raises(ConfigurationError, match="Name fewer with among="):
        clf.next_question({}, n=2, method="exact")
    monkeypatch.setattr("tanager.network.next_question.MOST_CELLS", 12)
    with pytest.raises(MemoryBoundError, match=r"Comparing the answers to .* beyond"):
        clf.next_question({}, n=2)


def all_changes(clf, joint, codes, fixed, to, costs, most):
    """The best row of every smallest set of changed features, by going through all rows."""
    names = list(AXIS)[:4]
    known = [at for at in range(4) if codes[at] < joint.shape[at]]
    matrix = 1 - np.eye(3) if costs is None else MATRIX
    actions = ["r", "s", "t"] if costs is None else list(COSTS)
    unknown = tuple(at for at in range(4) if at not in known)
    seen = joint.sum(axis=unknown, keepdims=True)
    found = {}
    for values in product(*(range(seen.shape[at]) for at in range(4))):
        changed = tuple(at for at in known if values[at] != codes[at])
        if any(names[at] in fixed for at in changed) or len(changed) > most:
            continue
        cell = seen[values]
        expected = matrix @ cell / cell.sum()
        if actions[int(expected.argmin())] != to:
            continue
        if changed not in found or cell.sum() > found[changed][0]:
            found[changed] = cell.sum(), values
    if not found:
        return []
    least = min(map(len, found))
    ranked = sorted((-p, key, values) for key, (p, values) in found.items() if len(key) == least)
    return [({names[at]: values[at] for at in key}, -p) for p, key, values in ranked]


@pytest.mark.parametrize("costs", [None, COSTS], ids=["class", "cost"])
@pytest.mark.parametrize("fixed", [(), ("number",), ("a", "b")])
def test_nearest_changes_are_those_of_enumeration(clf, joint, costs, fixed):
    network = clf.network_
    table = incomplete(30, seed=5)
    lengths = set()
    for r in range(30):
        row = {name: values[r] for name, values in table.items() if values[r] is not None}
        codes = read_evidence(network, row).codes[:, 0]
        for to in ["r", "s", "t"] if costs is None else COSTS:
            wanted = all_changes(clf, joint, codes, fixed, to, costs, 2)
            found = clf.nearest(row, to, fixed=fixed, costs=costs, max_changes=2, n=99)
            lengths |= {len(change.changes) for change in found}
            assert len(found) == len(wanted)
            for change, (values, probability) in zip(found, wanted, strict=True):
                assert change.exact
                assert change.after == to
                labels = {
                    name: tuple(
                        network.codebook.columns[AXIS[name]].labels()[code]
                        for code in (codes[AXIS[name]], value)
                    )
                    for name, value in values.items()
                }
                assert change.changes == labels
                own = marginal_of(joint, codes)
                assert change.ratio == pytest.approx(probability / own, rel=1e-8)
                assert sum(change.probabilities) == pytest.approx(1)
    assert {0, 1} <= lengths


def marginal_of(joint, codes):
    """P(row), unknown features summed out."""
    at = tuple(int(c) if c < joint.shape[f] else slice(None) for f, c in enumerate(codes))
    return joint[at].sum()


def test_any_other_decision_will_do_where_none_is_named(clf):
    row = {"a": "mid", "b": True, "number": 0.5, "d": 0}
    found = clf.nearest(row, n=99)
    own = clf.predict([row])[0]
    assert found[0].before == own
    assert all(change.after != own for change in found)
    best = [clf.nearest(row, to, n=99) for to in set(clf.classes_) - {own}]
    least = min(len(some[0].changes) for some in best if some)
    assert len(found[0].changes) == least
    assert found[0].ratio == pytest.approx(
        max(one.ratio for some in best for one in some if len(one.changes) == least)
    )


def test_more_changes_than_can_be_tried_are_searched_from_the_nearest(clf, monkeypatch):
    row = {"a": "mid", "b": True, "number": 0.5, "d": 0}
    exact = {to: clf.nearest(row, to, n=99) for to in clf.classes_}
    monkeypatch.setattr(nearest_module, "MOST_ROWS", 0)
    for to, wanted in exact.items():
        found = clf.nearest(row, to, n=99)
        # There are fewer rows than the beam is wide: nothing is lost but the certainty.
        assert [one.changes for one in found] == [one.changes for one in wanted]
        assert all(one.exact is (not one.changes) for one in found)
    monkeypatch.setattr(nearest_module, "BEAM", 1)
    for to in clf.classes_:
        assert all(one.after == to for one in clf.nearest(row, to))


def test_no_feature_is_changed_to_missing():
    X = [["a", "u"], ["b", "u"], [None, "v"], ["a", "v"]] * 10
    clf = BayesNetClassifier("naive", "laplace").fit(X, [0, 0, 1, 1] * 10)
    assert clf.network_.codebook.columns[0].arity == 3
    found = clf.nearest({"x0": "b", "x1": "u"}, 1, n=99)
    assert found
    assert all(new != "missing" for one in found for _, new in one.changes.values())


def test_nearest_refuses_what_it_cannot_change(clf):
    with pytest.raises(ConfigurationError, match="to='x' is not one of the decisions 'r', 's'"):
        clf.nearest({"a": "mid"}, "x")
    with pytest.raises(ConfigurationError, match="fixed: the model has no feature 'z'"):
        clf.nearest({"a": "mid"}, "r", fixed=["z"])
    with pytest.raises(ConfigurationError, match="give one value per feature"):
        clf.nearest({"number": Interval(0, 1)}, "r")
    with pytest.raises(ConfigurationError, match="max_changes=-1"):
        clf.nearest({"a": "mid"}, "r", max_changes=-1)
    assert clf.nearest({}) == []


def test_an_unfitted_classifier_says_so():
    from sklearn.exceptions import NotFittedError

    for ask in (
        lambda c: c.decide([["a"]], COSTS),
        lambda c: c.next_question({}),
        lambda c: c.nearest({}),
    ):
        with pytest.raises(NotFittedError):
            ask(BayesNetClassifier())


def test_costs_with_names_that_would_be_ignored_are_refused():
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 5, ["no", "yes"] * 5)
    named = {"yes": [0, 1], "no": [5, 0]}
    for costs in (pl.DataFrame(named), pa.table(named)):
        with pytest.raises(ConfigurationError, match="none for its actions"):
            clf.decide([["a"]], costs)


def test_actions_may_be_tuples():
    clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 5, ["no", "yes"] * 5)
    costs = {("go", 1): {"no": 0, "yes": 1}, ("stay", 2): {"no": 1, "yes": 0}}
    found = clf.decide([["a"], ["b"]], costs)
    assert found.actions.tolist() == [("go", 1), ("stay", 2)]
    assert "('go', 1) 1, ('stay', 2) 1" in repr(found)


def test_one_name_is_a_name_and_not_its_letters():
    X = [["rain", "cold"], ["sun", "warm"]] * 10
    clf = BayesNetClassifier("naive", "laplace").fit(X, [0, 1] * 10)
    row = {"x0": "rain", "x1": "cold"}
    assert clf.nearest(row, fixed="x0") == clf.nearest(row, fixed=["x0"])
    assert clf.next_question({}, among="x1").plan == ("x1",)
