"""Prior tables against closed forms, class priors, and fits that go on from a network."""

import numpy as np
import pytest

import tanager
from tanager import BayesNetClassifier, Constraints
from tanager.classifiers.priors import with_prior_rows
from tanager.codes import Domain, Rows
from tanager.counts import Counts, PriorCounts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters import TablePrior
from tanager.structure import KDB, Fixed, Structure

COUNTED = ("ml", "laplace", "m-estimate(m=1)", "friedman", "hdp", "acll")


def rows_of(seed=0, n=60):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    a = rng.integers(0, 3, n)
    b = (a + y + rng.integers(0, 2, n)) % 3
    rows = [{"a": f"v{i}", "b": f"w{j}"} for i, j in zip(a, b, strict=True)]
    return rows, np.array(["no", "yes"])[y], np.stack([y, a, b])


@pytest.mark.parametrize("parameters", COUNTED)
def test_a_prior_is_worth_the_rows_that_it_stands_for(parameters):
    """Eight rows per context of the table, copied by hand, are the same model."""
    rows, y, _ = rows_of()
    table = {("no", "v0"): {"w0": 0.25, "w2": 0.75}, ("yes", "v2"): {"w1": 1.0}}
    prior = TablePrior({"b | class, a": table}, strength=8)
    structure = Fixed({"b": ["a"]})
    found = BayesNetClassifier(structure, parameters, prior=prior).fit(rows, y).network_
    added = [({"a": "v0", "b": "w0"}, "no")] * 2 + [({"a": "v0", "b": "w2"}, "no")] * 6
    added += [({"a": "v2", "b": "w1"}, "yes")] * 8
    more = rows + [row for row, _ in added]
    labels = np.array([*y, *(label for _, label in added)])
    wanted = BayesNetClassifier(structure, parameters).fit(more, labels).network_
    theirs, ours = wanted.table("b").probabilities, found.table("b").probabilities
    # The constants of aCLL depend on the number of rows, which a prior does not add to.
    assert np.allclose(ours, theirs, rtol=0, atol=1e-3 if parameters == "acll" else 1e-9)
    plain = BayesNetClassifier(structure, parameters).fit(rows, y).network_
    assert np.array_equal(found.table("a").probabilities, plain.table("a").probabilities)
    assert not np.allclose(ours, plain.table("b").probabilities, atol=1e-3)


def test_a_prior_in_closed_form_spread_over_classes_and_other_parents():
    rows, y, (label, a, b) = rows_of()
    table = np.array([0.2, 0.3, 0.5])
    clf = BayesNetClassifier(Fixed({"b": ["a"]}), "laplace", prior={"b": table}).fit(rows, y)
    counts = np.zeros((2, 3, 3))
    np.add.at(counts, (label, a, b), 1.0)
    counts += 10.0 * table / 6  # ten rows over two classes and three values of a
    wanted = (counts + 1) / (counts + 1).sum(axis=-1, keepdims=True)
    assert np.allclose(clf.network_.table("b").probabilities, wanted.reshape(6, 3), atol=1e-12)


def test_the_arcs_of_a_prior_are_required():
    rows, y, _ = rows_of()
    uniform = np.full((3, 3), 1 / 3)
    clf = BayesNetClassifier("tan", "m-estimate", prior={"a | b": uniform}).fit(rows, y)
    assert clf.structure_.parents["a"] == ("b",)
    against = Constraints(forbidden=[("b", "a")])
    with pytest.raises(ConfigurationError, match="contradict one another"):
        BayesNetClassifier("tan", "m-estimate", prior={"a | b": uniform}, constraints=against).fit(
            rows, y
        )


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"z": [1.0]}, "neither a feature nor the class"),
        ({"b | z": [1.0]}, "name 'z', which is neither"),
        ({"class | a": np.ones((3, 2)) / 2}, "gives the class parents"),
        ({"b | b": np.ones((3, 3)) / 3}, "names a node twice"),
        ({"b": [0.5, 0.5]}, r"shape \(2,\); \(3,\) is expected"),
        ({"b": [0.5, 0.4, 0.0]}, "do not sum to one"),
        ({"b": [1.5, -0.5, 0.0]}, "negative"),
        ({"b": {"w9": 1.0}}, "names the value 'w9'"),
        ({"b | a": {("v0", "v1"): {"w0": 1.0}}}, "one value for each of 1 parents"),
        ({"b": [1, 0, 0], ("b", ("a",)): np.ones((3, 3)) / 3}, "a second table"),
        (TablePrior({"b": [1, 0, 0]}, strength=0), "strength must be a number above 0"),
        ("b", "prior='b' isn't valid. Allowed"),
    ],
)
def test_priors_that_make_no_sense_are_refused(prior, message):
    rows, y, _ = rows_of()
    with pytest.raises(ConfigurationError, match=message):
        BayesNetClassifier("naive", "laplace", prior=prior).fit(rows, y)


TRAINED = ("layered", "dfe", "hybrid", "discriminative(l2=0)", "discriminative(towards='zero')")


@pytest.mark.parametrize("parameters", TRAINED)
def test_trained_parameters_move_towards_a_prior_with_its_strength(parameters):
    """The data say that b is common in class "no"; the prior says the opposite, ever stronger."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    b = np.where(rng.random(60) < 0.7, y, 1 - y)
    rows, labels = [{"b": f"w{j}"} for j in b], np.array(["no", "yes"])[y]
    table = {"no": [0.1, 0.9], "yes": [0.9, 0.1]}
    found = []
    for strength in (0.01, 30, 10_000):
        prior = TablePrior({"b | class": table}, strength)
        clf = BayesNetClassifier("naive", parameters, prior=prior, random_state=0).fit(rows, labels)
        low, high = clf.predict_proba([{"b": "w0"}, {"b": "w1"}])[:, 1]
        found.append(np.log(high / (1 - high)) - np.log(low / (1 - low)))
    assert found[0] > 0 > found[2]
    assert found[0] > found[1] > found[2]


@pytest.mark.parametrize("weighted", [False, True])
def test_prior_rows_bring_the_counts_that_the_prior_wants(weighted):
    """A cell gets t more, contexts keep their shares, and the total is what the prior is worth."""
    rng = np.random.default_rng(1)
    y, a, b = rng.integers(0, 2, 200), rng.integers(0, 3, 200), rng.integers(0, 2, 200)
    weights = rng.integers(1, 4, 200).astype(float) if weighted else None
    domain = Domain(("a", "b", "c"), np.array([3, 2, 2]), 2)
    codes = np.stack([a, b, rng.integers(0, 3, 200)]).astype(np.uint8)  # c has unknown values
    structure = Structure(("a", "b", "c"), (0, 1, 2), ((), (0,), ()))
    table = rng.dirichlet([1, 1], (2, 1)) * 5.0  # P(b | class), worth five rows per class
    prior = PriorCounts(np.array([6.0, 2.0]), {1: ((), table[:, 0])})
    seen = []
    for block in (7, 200):
        rows = Rows.in_memory(domain, codes, y.astype(np.uint16), weights, block)
        counts = Counts(rows, FitContext())
        more = Counts(with_prior_rows(structure, counts, prior), FitContext())
        seen.append(np.concatenate([t.to_dense().ravel() for t in more.trees(structure).merged()]))
    assert np.array_equal(*seen)
    before = counts.trees(structure).merged()[1].to_dense()
    after = more.trees(structure).merged()[1].to_dense()
    share = counts.classes / counts.classes.sum()
    contexts = before.sum(axis=2) + share[:, None]
    wanted = contexts[:, :, None] * table / 5.0
    wanted *= 10.0 / wanted.sum()
    # The class's own prior rows are spread as the rows of the class are.
    own = before * (np.array([6.0, 2.0]) / counts.classes)[:, None, None]
    assert after == pytest.approx(before + wanted + own, rel=1e-9)


def test_a_prior_is_the_centre_of_a_ridge():
    """The stronger the ridge, the nearer trained tables come to those of the counts."""
    rows, y, _ = rows_of()
    prior = TablePrior({"b | class": {"no": [0.6, 0.2, 0.2], "yes": [0.2, 0.2, 0.6]}}, 200)
    counted = BayesNetClassifier("naive", "m-estimate(m=1)", prior=prior).fit(rows, y)
    plain = BayesNetClassifier("naive", "m-estimate(m=1)").fit(rows, y)
    wanted, without = counted.predict_proba(rows), plain.predict_proba(rows)
    gaps = []
    for l2 in (0.01, 1.0, 1e4):
        text = f"discriminative(form='direct', l2={l2})"
        found = BayesNetClassifier("naive", text, prior=prior).fit(rows, y).predict_proba(rows)
        gaps.append(float(np.abs(found - wanted).max()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3 < np.abs(wanted - without).max()


def test_priors_hold_without_a_fold():
    rows, y, _ = rows_of(0, 200)
    table = {("no", "v0"): {"w0": 0.5, "w1": 0.5}, ("yes", "v1"): {"w2": 1.0}}
    prior = TablePrior({"b | class, a": table}, strength=30)
    text = "discriminative(form='weighted', level=1, l2=1.0)"
    clf = BayesNetClassifier(Fixed({"b": ["a"]}), text, prior=prior).fit(rows, y)
    plain = BayesNetClassifier(Fixed({"b": ["a"]}), text).fit(rows, y)
    assert not np.allclose(clf.predict_proba(rows), plain.predict_proba(rows), atol=1e-3)


def test_a_prior_on_the_class_adds_rows_to_it():
    rows, y, _ = rows_of()
    prior = TablePrior({"class": {"no": 0.9, "yes": 0.1}}, strength=100)
    clf = BayesNetClassifier("naive", "ml", prior=prior).fit(rows, y)
    counts = np.array([(y == "no").sum() + 90, (y == "yes").sum() + 10])
    assert np.allclose(np.exp(clf.network_.log_prior), counts / counts.sum())


def test_partial_fit_keeps_the_prior():
    rows, y, _ = rows_of()
    prior = TablePrior({"b": [0.2, 0.3, 0.5]}, strength=20)
    fixed = Fixed({"b": ["a"]})
    whole = BayesNetClassifier(fixed, "laplace", prior=prior).fit(rows, y)
    parts = BayesNetClassifier(fixed, "laplace", prior=prior)
    parts.partial_fit(rows[:40], y[:40]).partial_fit(rows[40:], y[40:])
    assert np.allclose(
        parts.network_.table("b").probabilities, whole.network_.table("b").probabilities
    )


def test_going_on_from_a_network_adds_its_own_rows(tmp_path):
    rows, y, _ = rows_of(0, 400)
    first = BayesNetClassifier(KDB(k=1), "laplace").fit(rows, y).network_
    edited = (
        first.with_edge("b", "a")
        if "b" not in first.structure.parents["a"] and not (first.structure.parents["b"])
        else first
    )
    more, labels, _ = rows_of(1, 50)
    clf = BayesNetClassifier(parameters="ml", prior=TablePrior(edited, 1e9)).fit(more, labels)
    assert clf.structure_ == edited.structure
    assert clf.network_.codebook == edited.codebook
    for name in ("a", "b"):
        ours, theirs = clf.network_.table(name), edited.table(name)
        assert np.allclose(ours.probabilities, theirs.probabilities, atol=1e-5)
    # With little weight the rows speak.
    light = BayesNetClassifier(parameters="ml", prior=TablePrior(edited, 1e-6)).fit(more, labels)
    alone = BayesNetClassifier(Fixed(dict(edited.structure.parents)), "ml").fit(more, labels)
    assert np.allclose(light.predict_proba(more), alone.predict_proba(more), atol=1e-3)
    tanager.save(clf, tmp_path / "m.tanager")
    loaded = tanager.load(tmp_path / "m.tanager")
    assert loaded.prior is None
    assert loaded.network_ == clf.network_


def test_a_network_goes_on_with_its_history_and_reads_new_values_as_unknown():
    rows, y, _ = rows_of(0, 400)
    first = BayesNetClassifier("naive", "laplace").fit(rows, y).network_
    edited = first.with_table("a", np.full((2, 3), 1 / 3), reason="survey", author="Ada")
    more = [{"a": "never", "b": "w0"}, {"a": "v1", "b": "w1"}] * 5
    clf = BayesNetClassifier(parameters="m-estimate", prior=edited).fit(more, ["no", "yes"] * 5)
    assert [edit.author for edit in clf.network_.history] == ["Ada"]
    assert clf.predict_proba(more).shape == (10, 2)


@pytest.mark.parametrize("parameters", ["m-estimate", "hdp", "layered", "discriminative"])
def test_a_class_prior_moves_the_odds_by_its_ratio(parameters):
    rows, y, _ = rows_of(0, 300)
    plain = BayesNetClassifier("tan", parameters).fit(rows, y)
    moved = BayesNetClassifier("tan", parameters, class_prior={"yes": 0.02}).fit(rows, y)
    odds = plain.decision_function(rows), moved.decision_function(rows)
    shift = odds[1] - odds[0]
    assert np.allclose(shift, shift[0])
    share = (y == "yes").mean()
    expected = np.log(0.02 / 0.98) - np.log(share / (1 - share))
    assert np.isclose(shift[0], expected, atol=0.02)
    if parameters in ("m-estimate", "hdp"):
        assert np.allclose(np.exp(moved.network_.log_prior), [0.98, 0.02])


def test_classes_without_a_prior_share_the_rest_as_in_the_rows():
    rows, y, _ = rows_of(0, 300)
    y = np.where(np.arange(300) % 3 == 0, "maybe", y)
    clf = BayesNetClassifier("naive", "ml", class_prior={"yes": 0.5}).fit(rows, y)
    shares = np.exp(clf.network_.log_prior)
    rest = np.array([(y == c).sum() for c in ("maybe", "no")])
    assert np.allclose(shares, [*(0.5 * rest / rest.sum()), 0.5])


@pytest.mark.parametrize(
    "given",
    [{}, {"yes": 0}, {"yes": 1.5}, {"yes": 1.0}, {"yes": 0.5, "no": 0.6}, {"other": 0.1}, 0.5],
)
def test_class_priors_that_make_no_sense_are_refused(given):
    rows, y, _ = rows_of()
    with pytest.raises(ConfigurationError):
        BayesNetClassifier("naive", "ml", class_prior=given).fit(rows, y)


def test_a_class_prior_of_a_class_that_is_not_there_names_the_option():
    with pytest.raises(
        ConfigurationError, match=r"class_prior: 'Yes' .* 'yes'. Did you mean"
    ) as it:
        BayesNetClassifier("naive", "ml", class_prior={"Yes": 0.1}).fit([[0], [1]], ["no", "yes"])
    assert it.value.parameter == "class_prior"


@pytest.mark.parametrize("options", [{"class_weight": "balanced"}, {"class_prior": {"a": 0.2}}])
def test_more_rows_count_beside_a_prior_as_if_all_were_fitted_at_once(options):
    X, y = [["u"], ["v"], ["u"]] * 30, ["a", "b", "c"] * 30
    y[:12] = ["c"] * 12
    prior = TablePrior({"class": [0.7, 0.1, 0.2]}, strength=50)
    clf = BayesNetClassifier("naive", "ml", prior=prior, **options)
    together = clf.fit(X, y).predict_proba(X)
    apart = clf.fit(X[:45], y[:45]).partial_fit(X[45:], y[45:]).predict_proba(X)
    np.testing.assert_allclose(apart, together, rtol=1e-12)
