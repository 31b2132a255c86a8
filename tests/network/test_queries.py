"""Questions to networks, against enumeration of every row there can be."""

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ColumnWarning, ConfigurationError, DataError, MemoryBoundError
from tanager.network import Interval, OneOf, Soft
from tanager.network.evidence import read_evidence
from tanager.network.queries import _draw_codes
from tanager.numerics import IMPOSSIBLE, LOG_ZERO
from tanager.parameters.tables import TreeTable
from tanager.structure import Fixed

PAIRS = [
    ("naive", "hdp"),
    ("tan", "laplace"),
    ("kdb(k=2)", "m-estimate"),
    ("ktree(max_parents=2)", "layered"),
]


def rows(n=300, seed=0):
    """Four columns, one of them a number, that depend on one another and on the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    a = (y + rng.integers(0, 2, n)) % 3
    b = (a + rng.integers(0, 2, n)) % 2
    number = np.round(a + b + rng.normal(size=n), 1)
    d = ((number > 1) + rng.integers(0, 2, n)) % 2
    text = np.array(["lo", "mid", "hi"])
    table = pa.table({"a": text[a], "b": b.astype(bool), "number": number, "d": d})
    return table, np.array(["r", "s", "t"])[y]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "/".join(pair))
def network(request):
    X, y = rows()
    clf = BayesNetClassifier(*request.param, bins=5, categorical_features=["a", "b", "d"])
    return clf.fit(X, y).network_


@pytest.fixture(scope="module")
def joint(network):
    """P(a, b, number, d, class), by asking for each complete row."""
    sizes = [int(n) for n in network.codebook.domain.arities]
    grid = np.indices(sizes, network.codebook.dtype).reshape(len(sizes), -1)
    found = np.exp(network.log_joint_of_codes(np.ascontiguousarray(grid)))
    return found.reshape(*sizes, -1)


AXIS = {"a": 0, "b": 1, "number": 2, "d": 3, "class": 4}


def weigh(joint, **likelihoods):
    for name, values in likelihoods.items():
        shape = [1] * joint.ndim
        shape[AXIS[name]] = -1
        joint = joint * np.asarray(values, float).reshape(shape)
    return joint


def marginal(joint, *names):
    summed = joint.sum(
        axis=tuple(at for at in range(joint.ndim) if at not in [AXIS[n] for n in names])
    )
    order = np.argsort(np.argsort([AXIS[name] for name in names]))
    return np.transpose(summed, order) / joint.sum()


def test_the_joint_is_a_distribution(joint):
    assert joint.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    "targets", [["a"], ["number"], ["class"], ["d", "a"], ["class", "number", "b"]]
)
def test_a_query_without_evidence_is_a_marginal(network, joint, targets):
    answer = network.query(targets)
    np.testing.assert_allclose(answer.probabilities, marginal(joint, *targets), atol=1e-12)
    assert answer.log_evidence == pytest.approx(0, abs=1e-9)
    assert answer.probabilities.sum() == pytest.approx(1)


def test_a_query_given_values(network, joint):
    values = network.codebook.columns[0].values.to_pylist()
    under = weigh(joint, a=[value == "mid" for value in values], d=[0, 1])
    answer = network.query(["class", "b"], {"a": "mid", "d": 1})
    np.testing.assert_allclose(answer.probabilities, marginal(under, "class", "b"), atol=1e-12)
    assert answer.log_evidence == pytest.approx(np.log(under.sum()))


def test_a_query_given_sets_intervals_and_likelihoods(network, joint):
    column = network.codebook.columns[2]
    values = network.codebook.columns[0].values.to_pylist()
    high = (column.cuts[1] + column.cuts[2]) / 2
    evidence = {
        "a": OneOf("lo", "hi"),
        "number": Interval(None, high),
        "d": Soft({0: 0.3, 1: 0.9}),
        "class": Soft({"r": 1, "t": 2}),
    }
    covered = np.zeros(len(column.labels()))
    covered[:2], covered[2] = 1.0, 0.5
    under = weigh(
        joint,
        a=[value != "mid" for value in values],
        number=covered,
        d=[1 / 3, 1],
        **{"class": [0.5, 0, 1]},
    )
    answer = network.query(["b", "class"], evidence)
    np.testing.assert_allclose(answer.probabilities, marginal(under, "b", "class"), atol=1e-9)
    assert network.log_probability(evidence) == pytest.approx(np.log(under.sum()), abs=1e-9)
    # What is asked about may have evidence of its own, as long as it is uncertain.
    np.testing.assert_allclose(
        network.query("number", evidence).probabilities, marginal(under, "number"), atol=1e-9
    )


def test_the_probability_of_an_interval_is_the_part_of_each_bin_that_it_covers(network, joint):
    cuts = network.codebook.columns[2].cuts
    marginals = marginal(joint, "number")
    third = (cuts[1] - cuts[0]) / 3
    inside = Interval(cuts[0], cuts[0] + third)
    rest = Interval(cuts[0] + third, cuts[1])
    chances = [np.exp(network.log_probability({"number": part})) for part in (inside, rest)]
    np.testing.assert_allclose(chances, marginals[1] * np.array([1, 2]) / 3, rtol=1e-9)
    assert network.sensitivity({"number": rest}).probability == pytest.approx(chances[1])
    under = weigh(joint, number=[1, 0.8 / 3 + 2 / 3, *[1] * (len(marginals) - 2)])
    soft = Soft({inside: 0.8, rest: 1, Interval(None, cuts[0]): 1, Interval(cuts[1], None): 1})
    found = network.query("class", {"number": soft}).probabilities
    np.testing.assert_allclose(found, marginal(under, "class"), atol=1e-9)


def test_an_outer_bin_has_no_end(network):
    far = network.query("class", {"number": 1e6}).probabilities
    for interval in (Interval(1e6, 1e7), Interval(1e6, None)):
        np.testing.assert_allclose(network.query("class", {"number": interval}).probabilities, far)
    far = network.query("class", {"number": -1e6}).probabilities
    for interval in (Interval(-1e7, -1e6), Interval(None, -1e6)):
        np.testing.assert_allclose(network.query("class", {"number": interval}).probabilities, far)


def test_many_rows_are_asked_at_once(network):
    X, _ = rows(7, seed=3)
    some = X.select(["a", "number"])
    answer = network.query(["d", "class"], some)
    assert answer.probabilities.shape == (7, 2, 3)
    for at, row in enumerate(some.to_pylist()):
        one = network.query(["d", "class"], row)
        np.testing.assert_allclose(answer.probabilities[at], one.probabilities, atol=1e-12)
        assert answer.log_evidence[at] == pytest.approx(one.log_evidence)


def test_the_most_probable_completions_are_those_of_enumeration(network, joint):
    values = network.codebook.columns[0].values.to_pylist()
    under = weigh(joint, a=[value == "hi" for value in values])
    best = np.sort(under.ravel())[::-1][:6] / under.sum()
    found = network.most_probable({"a": "hi"}, n=6)
    np.testing.assert_allclose([c.probability for c in found], best, atol=1e-12)
    assert len({tuple(c.values.items()) for c in found}) == 6
    for completion in found:
        codes = [
            network.codebook.columns[at].labels().index(completion.values.get(name, "hi"))
            for at, name in enumerate(network.codebook.domain.names)
        ]
        label = list(network.codebook.classes).index(completion.values["class"])
        assert joint[(*codes, label)] / under.sum() == pytest.approx(completion.probability)


def test_the_most_probable_completions_come_to_an_end(network):
    everything = network.most_probable({"number": 0.0, "a": "lo"}, n=10_000)
    assert len(everything) == 2 * 2 * 3
    assert sum(c.probability for c in everything) == pytest.approx(1)


def test_most_probable_under_uncertain_evidence(network, joint):
    values = network.codebook.columns[0].values.to_pylist()
    chances = {"lo": 0.5, "mid": 0.2, "hi": 0.8}
    under = weigh(joint, d=[0.3, 0.9], a=[chances[value] for value in values])
    found = network.most_probable({"d": Soft({0: 0.3, 1: 0.9}), "a": Soft(chances)}, n=60)
    best = np.sort(under.ravel())[::-1][:60] / under.sum()
    np.testing.assert_allclose([c.probability for c in found], best, atol=1e-9)


def test_the_most_probable_values_of_some_features(network, joint):
    shares = marginal(joint, "a", "d")
    found = network.most_probable(n=2, of=["a", "d"])
    np.testing.assert_allclose([c.probability for c in found], np.sort(shares.ravel())[::-1][:2])


@pytest.mark.parametrize(
    "evidence", [{}, {"a": "mid", "d": 0}, {"number": Interval(0, 1), "class": "s"}]
)
def test_samples_follow_the_network(network, joint, evidence):
    n = 20_000
    known = read_evidence(network, evidence)
    codes, labels = _draw_codes(network, known, n, np.random.default_rng(5))
    cells = np.zeros(joint.shape)
    np.add.at(cells, (*codes, labels), 1)
    given = [name for name in evidence if not isinstance(evidence[name], Interval)]
    asked = [name for name in AXIS if name not in given or name == "class"]
    exact = network.query(asked, evidence)
    axes = tuple(AXIS[name] for name in AXIS if name not in asked)
    seen = cells.sum(axis=axes).ravel()
    wanted = n * exact.probabilities.ravel()
    likely = wanted > 5
    errors = (seen - wanted)[likely] / np.sqrt(wanted[likely])
    assert (errors**2).sum() < likely.sum() + 5 * np.sqrt(2 * likely.sum())
    assert seen[wanted < 1e-6].sum() == 0


def test_samples_are_rows_of_the_training_table(network):
    drawn = network.sample(500, given={"b": True}, random_state=1)
    assert drawn.column_names == ["a", "b", "number", "d", "class"]
    assert set(drawn["a"].to_pylist()) <= {"lo", "mid", "hi"}
    assert set(drawn["b"].to_pylist()) == {True}
    again = network.codebook.encode(drawn.drop_columns(["class"]))
    assert (again < network.codebook.domain.arities[:, None]).all()
    assert drawn.equals(network.sample(500, given={"b": True}, random_state=1))
    assert not drawn.equals(network.sample(500, given={"b": True}, random_state=2))


def test_sampled_numbers_lie_in_their_interval(network):
    column = network.codebook.columns[2]
    inside = Interval(column.cuts[0], column.cuts[1])
    numbers = network.sample(200, given={"number": inside}, random_state=0)["number"].to_numpy()
    assert ((numbers > column.cuts[0]) & (numbers <= column.cuts[1])).all()


def test_dates_and_whole_numbers_are_sampled_as_such():
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 300, 200)
    X = pa.table({"day": days, "whole": rng.integers(0, 40, 200)})
    y = np.where(days > np.datetime64("2024-06-01"), "late", "early")
    network = BayesNetClassifier("tan", "hdp", bins=6).fit(X, y).network_
    drawn = network.sample(
        50, given={"day": Interval(np.datetime64("2024-08-01"), None)}, random_state=0
    )
    assert drawn["day"].to_numpy().min() > np.datetime64("2024-06-01")
    assert drawn["day"].type == pa.timestamp("us")
    assert all(value == int(value) for value in drawn["whole"].to_pylist())


def test_impute_fills_only_gaps(network, joint):
    X = pa.table(
        {
            "a": ["mid", None, "hi"],
            "b": [True, True, None],
            "number": [None, 0.5, 1.0],
            "d": [0, 1, None],
        }
    )
    for method in ("mean", "mode", "draw"):
        filled = network.impute(X, method, random_state=0)
        assert filled.column_names == X.column_names
        for name in X.column_names:
            pairs = zip(X[name].to_pylist(), filled[name].to_pylist(), strict=True)
            assert all(new is not None and old in (None, new) for old, new in pairs)
    shares = network.query("a", X.slice(1, 1).drop_columns(["a"])).probabilities[0]
    mode = network.codebook.columns[0].labels()[int(shares.argmax())]
    assert network.impute(X, "mode")["a"][1].as_py() == mode


def test_imputed_means_are_expectations(network):
    X = pa.table({"a": ["mid"], "b": [True], "number": pa.array([None], pa.float64()), "d": [1]})
    shares = network.query("number", {"a": "mid", "b": True, "d": 1}).probabilities
    cuts = network.codebook.columns[2].cuts
    middles = np.convolve(
        np.concatenate([[2 * cuts[0] - cuts[1]], cuts, [2 * cuts[-1] - cuts[-2]]]),
        [0.5, 0.5],
        "valid",
    )
    assert network.impute(X)["number"][0].as_py() == pytest.approx(shares @ middles)


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        (lambda x: x, pa.int64()),
        (lambda x: x + 0.25, pa.float32()),
        (lambda x: x * 86400, pa.duration("s")),
        (lambda x: x * 86400, pa.timestamp("s")),
        (lambda x: x, pa.date32()),
    ],
    ids=["integers", "fractions", "durations", "times", "dates"],
)
def test_numbers_without_cuts_lie_among_those_of_training(unit, kind):
    numbers = [unit(40 + i % 7) for i in range(70)]
    values = pa.array(numbers, pa.int32() if kind == pa.date32() else None).cast(kind)
    X = pa.table({"n": values, "other": ["a", "b"] * 35})
    network = BayesNetClassifier("tan", "laplace").fit(X, [0, 1] * 35).network_
    assert len(network.codebook.columns[0].cuts) == 0
    gaps = X.set_column(0, "n", pa.nulls(70, kind))
    parts = [network.impute(gaps, method, 0)["n"] for method in ("mean", "mode", "draw")]
    for drawn in (network.sample(50, random_state=0)["n"], *parts):
        assert drawn.null_count == 0
        numbers = drawn.combine_chunks().cast(kind, safe=False)
        assert min(numbers.to_pylist()) >= values[0].as_py()
        assert max(numbers.to_pylist()) <= values[6].as_py()


def test_integers_past_those_of_doubles_are_imputed():
    X = pa.table({"n": pa.array([2**60 + i for i in range(70)])})
    network = BayesNetClassifier("naive", "laplace").fit(X, [0, 1] * 35).network_
    filled = network.impute({"n": pa.array([2**60, None])})["n"].to_pylist()
    assert filled[1] == pytest.approx(2**60)


def test_dates_read_from_text_are_imputed():
    X = pa.table({"day": [f"{1 + i % 28:02}.{1 + i % 12:02}.2020" for i in range(80)]})
    with pytest.warns(ColumnWarning, match="'day' read as dates"):
        clf = BayesNetClassifier("naive", "laplace").fit(X, [i % 12 > 5 for i in range(80)])
    network = clf.network_
    filled = network.impute({"day": ["01.02.2020", None]}, "draw", 0)["day"].to_pylist()
    assert filled[0].month == 2
    assert filled[1] is not None


def test_a_model_file_answers_the_same(network, tmp_path):
    path = tmp_path / "model.tanager"
    network.save(path)
    same = type(network).load(path)
    before = network.query(["a", "class"], {"d": 1}).probabilities
    np.testing.assert_array_equal(same.query(["a", "class"], {"d": 1}).probabilities, before)


def test_missing_cells_are_a_value_where_training_had_some():
    X = [["u", 1], [None, 2], ["v", 1], [None, 2]] * 10
    network = (
        BayesNetClassifier("tan", "laplace", categorical_features=[0, 1])
        .fit(X, [0, 1, 0, 1] * 10)
        .network_
    )
    assert network.query("class", {"x0": None}).probabilities[1] > 0.9
    assert network.query("class", {}).probabilities[1] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (lambda n: n.query("nothing"), "no feature 'nothing'"),
        (lambda n: n.query(["a", "a"]), "each once"),
        (lambda n: n.query("a", {"a": "mid"}), "both asked about and given"),
        (lambda n: n.query("a", {"nmber": 3}), "Did you mean 'number'"),
        (lambda n: n.query("b", {"a": "Mid"}), "Did you mean 'mid'"),
        (lambda n: n.query("b", {"a": ["mid", "lo"]}), r"Use OneOf\("),
        (lambda n: n.query("b", {"a": Interval(1, 2)}), "categorical"),
        (lambda n: n.query("b", {"number": Interval(2, 1)}), "empty"),
        (lambda n: n.query("b", {"d": Soft({0: -1})}), "at least 0"),
        (lambda n: n.query("b", {"d": Soft({0: 0})}), "no value possible"),
        (lambda n: n.query("b", {"class": Soft({"r": -1, "s": 2})}), "at least 0"),
        (lambda n: n.query("b", {"class": OneOf()}), "no value possible"),
        (lambda n: n.query("b", {"class": ["r", "s"]}), r"Use OneOf\("),
        (lambda n: n.query("b", {"class": Interval(0, 1)}), "is the class"),
        (lambda n: n.sensitivity({"a": "mid"}, n=-1), "at least 1"),
        (lambda n: n.most_probable([["mid", True, 1.0, 0]] * 2), "One row is needed"),
        (lambda n: n.most_probable(n=0), "at least 1"),
        (lambda n: n.sample(-1), "at least 0"),
        (lambda n: n.impute([["mid", True, 1.0, 0]], "median"), "'mean', 'mode', 'draw'"),
    ],
)
def test_errors_say_what_to_do(network, question, words):
    with pytest.raises((ConfigurationError, DataError), match=words):
        question(network)


def test_scores_without_a_distribution_are_refused():
    X, y = rows(200)
    collider = Fixed({"number": ["a", "b"], "d": []})
    network = BayesNetClassifier(collider, "discriminative").fit(X, y).network_
    for question in (network.query, lambda name: network.sample(1), network.log_probability):
        with pytest.raises(ConfigurationError, match="tables are scores"):
            question("a")


def test_score_samples_is_the_probability_of_the_evidence():
    X, y = rows()
    clf = BayesNetClassifier("kdb(k=2)", "hdp", missing="marginalize").fit(X, y)
    some = X.slice(0, 20)
    exact = [clf.network_.log_probability(row) for row in some.to_pylist()]
    np.testing.assert_allclose(clf.score_samples(some), exact)
    trained = BayesNetClassifier(Fixed({"number": ["a", "b"], "d": []}), "discriminative")
    with pytest.raises(ConfigurationError, match="tables are scores"):
        trained.fit(X, y).score_samples(X)


def test_answers_are_shown():
    X, y = rows()
    network = BayesNetClassifier("tan", "laplace").fit(X, y).network_
    answer = network.query(["a", "d"], {"class": "r"})
    assert "P(a, d | evidence)" in answer._repr_html_()
    frame = answer.to_pandas()
    assert frame["probability"].sum() == pytest.approx(1)
    assert frame.index.names == ["a", "d"]
    assert answer.to_dict()["targets"] == ["a", "d"]
    many = network.query("a", X.select(["d"]).slice(0, 3))
    assert many.to_pandas().shape == (3, 3)
    assert str(many) == "P(a | evidence): 3 rows, 3 values"


def test_answers_too_large_are_refused():
    rng = np.random.default_rng(0)
    X = np.char.add("v", rng.integers(0, 60, (600, 5)).astype(str))
    network = BayesNetClassifier("naive", "laplace").fit(X, rng.integers(0, 2, 600)).network_
    with pytest.raises(MemoryBoundError, match="Ask about fewer"):
        network.query(["x0", "x1", "x2", "x3", "x4"])


@pytest.fixture(scope="module", params=[("tan", "hdp"), ("kdb(k=2)", "m-estimate")], ids=str)
def exported(request, tmp_path_factory):
    """A network of categories, and its BIF file."""
    X, y = rows(400, seed=2)
    X = X.set_column(
        2, "number", pa.array(np.char.add("n", (X["number"].to_numpy() > 1).astype(str)))
    )
    X = X.set_column(1, "b", pa.array(np.char.add("b", X["b"].to_numpy().astype(int).astype(str))))
    X = X.set_column(3, "d", pa.array(np.char.add("d", X["d"].to_numpy().astype(str))))
    network = BayesNetClassifier(*request.param).fit(X, y).network_
    path = tmp_path_factory.mktemp("peers") / "network.bif"
    path.write_text(network.to_bif())
    return network, path


GIVEN = {"a": "mid", "d": "d1"}


@pytest.mark.peers
def test_pyagrum_gives_the_same_answers(exported):
    gum = pytest.importorskip("pyagrum")
    network, path = exported
    engine = gum.LazyPropagation(gum.loadBN(str(path)))
    engine.setEvidence({**GIVEN, "number": [0.3, 0.9]})  # likelihoods of nFalse, nTrue
    engine.makeInference()
    evidence = {**GIVEN, "number": Soft({"nFalse": 0.3, "nTrue": 0.9})}
    for name in ("b", "number", "class"):
        ours = network.query(name, evidence).probabilities
        np.testing.assert_allclose(ours, engine.posterior(name).toarray(), atol=1e-9)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_pgmpy_gives_the_same_answers(exported):
    pytest.importorskip("pgmpy")
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

    network, path = exported
    engine = VariableElimination(BIFReader(str(path)).get_model())
    for name in ("b", "number", "class"):
        theirs = engine.query([name], evidence=GIVEN, show_progress=False)
        answer = network.query(name, GIVEN)
        order = [theirs.state_names[name].index(value) for value in answer.values[0]]
        np.testing.assert_allclose(answer.probabilities, theirs.values[order], atol=1e-9)
    best = network.most_probable(GIVEN, 1)[0].values
    names = ["b", "number", "class"]
    assert best == engine.map_query(names, evidence=GIVEN, show_progress=False)


def test_soft_evidence_on_a_feature_that_was_left_out_says_nothing():
    X, y = rows()
    clf = BayesNetClassifier("tan", "laplace", categorical_features=["a", "b", "d"])
    network = clf.fit(X, y).network_.edit("d", forbid=True)
    soft = {"d": Soft({0: 0.9, 1: 0.1}), "b": True}
    assert network.log_probability(soft) == network.log_probability({"b": True})
    found = network.query("a", soft).probabilities
    np.testing.assert_array_equal(found, network.query("a", {"b": True}).probabilities)


def test_soft_evidence_reads_a_large_table_for_what_is_known_alone(monkeypatch):
    X, y = rows()
    structure = Fixed({"a": [], "b": ["a"], "number": [], "d": ["a", "b", "number"]})
    clf = BayesNetClassifier(structure, "hdp", categorical_features=["a", "b", "d"], bins=5)
    small = clf.fit(X, y).network_
    monkeypatch.setattr("tanager.parameters.tables.SMALL_CELLS", 0)
    monkeypatch.setattr("tanager.parameters.tables.DENSE_FACTOR", 0)
    large = clf.fit(X, y).network_
    assert isinstance(large.tables.families[3], TreeTable)
    given = {"a": Soft({"lo": 0.3, "hi": 0.9}), "number": 1.2, "d": 1}
    n_cells = 3 * len(large.log_prior)
    monkeypatch.setattr("tanager.network.views.LARGE_CELLS", 2 * n_cells)
    expected = small.query(["class", "b"], given).probabilities
    np.testing.assert_allclose(large.query(["class", "b"], given).probabilities, expected)
    with pytest.raises(MemoryBoundError, match="Spelled out, the table"):
        large.query("class", {"a": Soft({"lo": 0.3, "hi": 0.9})})


@pytest.fixture(scope="module")
def wide():
    """A network of so many features that the probability of a whole row is below 1e-600."""
    codes = np.random.default_rng(1).integers(0, 10, (200, 700)).astype(str)
    clf = BayesNetClassifier("naive", "laplace", audit=False, missing="marginalize")
    table = {f"x{at}": column for at, column in enumerate(codes.T)}
    return clf.fit(table, np.arange(200) % 2), {name: str(v[0]) for name, v in table.items()}


def test_improbable_evidence_is_not_called_impossible(wide):
    clf, row = wide
    network, given = clf.network_, {k: v for k, v in row.items() if k != "x3"}
    assert network.log_probability(given) < -1400
    found = network.query("class", given)
    assert np.allclose(found.probabilities, clf.predict_proba([given])[0])
    asked = network.query("x3", given)
    best = network.most_probable(given, n=1)[0]
    assert best.values["x3"] == asked.values[0][int(np.argmax(asked.probabilities))]
    assert network.sample(2, given=given, random_state=0).num_rows == 2
    assert clf.next_question(given).questions[0].feature == "x3"


@pytest.mark.parametrize("n_known", [1, 30, 700, 5000])
def test_zeros_of_a_network_contradict_however_much_is_known(n_known):
    assert LOG_ZERO + n_known * np.log(0.3) < IMPOSSIBLE < n_known * np.log(1e-3)


def test_a_feature_may_be_called_class():
    X = [{"class": "ab"[i % 2], "z": "xyz"[i % 3]} for i in range(24)]
    network = BayesNetClassifier("tan", "laplace").fit(X, [i % 2 * 2 for i in range(24)]).network_
    assert network.codebook.class_name == "class_"
    answer = network.query(["class", "class_"], {"z": "x"})
    assert answer.values == (("a", "b"), ("0", "2"))
    assert answer.probabilities.trace() > 0.8
    assert network.query("class_", {"class": "b"}).probabilities[1] > 0.8
    assert network.sample(2, {"class_": 2}, random_state=0).column_names == ["class", "z", "class_"]
    assert set(network.most_probable(n=1)[0].values) == {"class", "z", "class_"}
    assert network.sensitivity({"class_": 2}, {"class": "b"}, n=1).question.startswith("P(class_=2")


def test_rows_of_wide_tables_are_improbable_but_not_impossible():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 330)), rng.integers(0, 2, 200)
    clf = BayesNetClassifier("naive", "laplace", bins=10).fit(X, y)
    network = clf.network_
    row = dict(zip(network.codebook.domain.names, X[0].tolist(), strict=True))
    assert network.log_probability(row) < -700
    chances = clf.predict_proba(X[:1])[0]
    np.testing.assert_allclose(network.query("class", row).probabilities, chances, atol=1e-12)
    soft = {**row, "x3": Interval(-1.0, 1.0)}
    assert network.query("class", soft).probabilities.sum() == pytest.approx(1)
    assert len(network.most_probable(n=1)) == 1
    assert len(network.most_probable(row, n=2)) == 2
    assert network.sensitivity({"class": 1}, row, n=1).probability == pytest.approx(chances[1])
    assert network.sample(2, row, random_state=0).num_rows == 2


def test_evidence_of_likelihood_zero_is_impossible_where_the_tables_say_so():
    X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    network = BayesNetClassifier("naive", "laplace").fit(X, [0, 0, 1, 1] * 5).network_
    network = network.with_table("x0", {"0": {"a": 1.0}, "1": {"a": 1.0}})
    for evidence in ({"x0": "b"}, {"x0": Soft({"a": 0, "b": 1})}, {"x0": OneOf("b"), "x1": "a"}):
        for ask in (network.most_probable, lambda known: network.query("class", known)):
            with pytest.raises(DataError, match="impossible"):
                ask(evidence)
    assert len(network.most_probable(n=10)) == 4
    edited = network.with_edge("x0", "x1").without_edge("x0", "x1")
    with pytest.raises(DataError, match="impossible"):
        edited.query("class", {"x0": "b"})
