"""Familiar or strange: percentiles, surprise, class shares and drift against brute force."""

from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import tanager
from tanager import BayesNetClassifier
from tanager.errors import ColumnWarning, ConfigurationError, DataError, ModelFileError
from tanager.network import Network
from tanager.network.checks import check_reference
from tanager.network.drift import Watch
from tanager.network.reference import LEVELS, Recalibration, estimate_shares, recalibrate
from tanager.network.shifts import (
    Shift,
    _compare_shares,
    _exceedance,
    correct_shifts,
    find_pair_shift,
)
from tanager.sources.files import FilePart
from tests.keel import read_keel


def churn(n, seed):
    """Return customers like those of a telephone company, and whether they leave."""
    rng = np.random.default_rng(seed)
    contract = rng.choice(["Month-to-month", "One year", "Two year"], n, p=[0.55, 0.2, 0.25])
    long = contract != "Month-to-month"
    tenure = np.clip(rng.gamma(2.0, 12.0, n) + 15 * long, 0, 72).round()
    charges = (rng.uniform(18, 119, n) + 0.1 * tenure).round(2)
    total = np.where(tenure == 0, np.nan, tenure * charges)
    logit = -1.5 + 0.02 * charges - 0.05 * tenure - 0.8 * long
    leaves = np.where(rng.random(n) < 1 / (1 + np.exp(-logit)), "Yes", "No")
    columns = {
        "tenure": tenure,
        "Contract": contract,
        "MonthlyCharges": charges,
        "TotalCharges": pa.array(total, from_pandas=True),
        "Partner": rng.choice(["Yes", "No"], n),
    }
    return pa.table(columns), leaves


@pytest.fixture(scope="module")
def customers():
    X, y = churn(4000, 1)
    return (
        BayesNetClassifier(random_state=0).fit(X.slice(0, 2000), y[:2000]),
        X.slice(2000),
        y[2000:],
    )


def changed(X, name, column):
    return X.set_column(X.column_names.index(name), name, pa.array(column))


SMALL = [("naive", "laplace"), ("tan", "hdp"), ("kdb(k=2)", "m-estimate"), ("auto", "layered")]


def small_table(seed=0, n=300):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = (a + (rng.random(n) < 0.3)) % 3
    c = rng.integers(0, 2, n)
    y = ((a == 0) ^ (rng.random(n) < 0.2)).astype(int) + (c == 1)
    names = np.array(["u", "v", "w"])
    return pa.table({"a": names[a], "b": names[b], "c": names[c]}), y


# Familiar or strange


@pytest.mark.parametrize("learners", SMALL)
def test_surprise_is_the_conditional_by_enumeration(learners):
    X, y = small_table()
    network = BayesNetClassifier(*learners, random_state=0).fit(X, y).network_
    values = [["u", "v", "w"], ["u", "v", "w"], ["u", "v"]]
    rows = list(product(*values))
    table = pa.table(dict(zip("abc", map(list, zip(*rows, strict=True)), strict=True)))
    p = dict(zip(rows, np.exp(network.log_joint(table)).sum(axis=1), strict=True))
    assert sum(p.values()) == pytest.approx(1, abs=1e-9)
    found = network.surprise(table)
    for row, logs in zip(rows, found, strict=True):
        for i in range(3):
            total = sum(p[(*row[:i], value, *row[i + 1 :])] for value in values[i])
            assert logs[i] == pytest.approx(np.log(p[row] / total), abs=1e-9)


def test_surprise_of_gaps_and_of_values_never_seen():
    X, y = small_table()
    network = BayesNetClassifier("tan", "hdp", missing="marginalize").fit(X, y).network_
    found = network.surprise([{"a": "u", "b": None, "c": "zzz"}])[0]
    assert found[1] == 0
    assert found[2] == pytest.approx(-np.log(301))  # no value of c occurred once in 300 rows
    known = network.log_probability({"a": "u", "b": "v"}) - network.log_probability({"b": "v"})
    assert network.surprise([{"a": "u", "b": "v", "c": None}])[0, 0] == pytest.approx(known)


@pytest.mark.parametrize("learners", SMALL)
def test_familiarity_is_the_share_of_training_rows_at_most_as_probable(learners):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    y = (X[:, 0] + rng.normal(size=1000) > 0).astype(int)
    clf = BayesNetClassifier(*learners, random_state=0).fit(X, y)
    inside = np.clip(rng.normal(size=(200, 3)), X.min(axis=0), X.max(axis=0))
    training, new = clf.score_samples(X), clf.score_samples(inside)
    exact = (training[None, :] <= new[:, None]).mean(axis=1)
    found = clf.familiarity(inside)
    assert np.abs(found - exact).max() <= np.diff(LEVELS).max() + 1e-9
    assert clf.familiarity(inside[:1])[0] == found[0]


def test_rows_that_were_never_seen_are_strange(customers):
    clf, X, _ = customers
    row = X.slice(0, 1)
    usual = clf.familiarity(row)[0]
    for name, value in (("Contract", "MONTH-TO-MONTH"), ("MonthlyCharges", 7000.0)):
        strange = changed(row, name, [value])
        assert clf.familiarity(strange)[0] < min(usual, 0.05)
        surprise = clf.surprise(strange)[0]
        assert X.column_names[surprise.argmin()] == name


# The pieces, each against brute force


def test_em_on_priors_finds_the_shares_of_an_enumerated_population():
    X, y = small_table()
    clf = BayesNetClassifier("tan", "hdp").fit(X, y)
    rows = list(product("uvw", "uvw", "uv"))
    table = pa.table(dict(zip("abc", map(list, zip(*rows, strict=True)), strict=True)))
    joint = clf.predict_joint_log_proba(table)
    prior = np.exp(clf.network_.log_prior)
    given_class = np.exp(joint) / prior
    wanted = np.array([0.6, 0.3, 0.1])
    # As many copies of each row as the population with these shares has, in a million.
    copies = np.rint(1e6 * given_class @ wanted).astype(int)
    posteriors = np.repeat(np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True), copies, axis=0)
    assert estimate_shares(posteriors, prior) == pytest.approx(wanted, abs=1e-4)


def test_em_on_priors_maximises_the_likelihood_on_a_grid():
    rng = np.random.default_rng(3)
    posteriors = rng.dirichlet([1.0, 2.0], size=200)
    assumed = np.array([0.3, 0.7])
    shares = np.linspace(1e-6, 1 - 1e-6, 200_001)
    grid = np.array([np.log(posteriors[:, 0] * s / 0.3 + posteriors[:, 1] * (1 - s) / 0.7).sum()
                     for s in shares[::100]])  # fmt: skip
    best = shares[::100][grid.argmax()]
    assert estimate_shares(posteriors, assumed)[0] == pytest.approx(best, abs=1e-3)


def test_calibration_is_logistic_regression_on_the_logit():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    logit = rng.normal(size=4000)
    hit = (rng.random(4000) < 1 / (1 + np.exp(-(0.4 + 0.6 * logit)))).astype(float)
    p = 1 / (1 + np.exp(-logit))
    known = LogisticRegression(C=np.inf, tol=1e-10).fit(logit[:, None], hit)
    found = recalibrate(p, hit)
    assert found.intercept == pytest.approx(known.intercept_[0], abs=2e-3)
    assert found.slope == pytest.approx(known.coef_[0, 0], abs=2e-3)
    assert Recalibration(0.0, 1.0).apply(p) == pytest.approx(p, abs=1e-9)


def test_exceedance_is_that_of_random_orders():
    rng = np.random.default_rng(0)
    n, m = 12, 8
    beyond = np.zeros(5)
    for _ in range(20_000):
        order = rng.permutation(n + m)
        top = (order[n:] > order[:n].max()).sum()
        beyond += np.arange(5) <= top
    exact = np.array([_exceedance(k, n, m) for k in range(5)])
    assert beyond / 20_000 == pytest.approx(exact, abs=0.015)


def test_shares_are_compared_as_by_the_tests_of_scipy():
    table = np.array([[30.0, 970.0], [60.0, 940.0]])
    known = stats.chi2_contingency(table, correction=False).pvalue
    assert _compare_shares(30, 1000, 60, 1000) == pytest.approx(known)
    few = stats.binomtest(0, 7, 0.5).pvalue
    assert _compare_shares(0, 5000, 7, 5000) == pytest.approx(few)
    assert _compare_shares(5000, 5000, 4993, 5000) == pytest.approx(few)


def test_pairs_know_a_changed_dependence_from_changed_shares():
    rng = np.random.default_rng(0)

    def table(n, p, agree):
        a = rng.random(n) < p
        b = np.where(rng.random(n) < agree, a, rng.random(n) < p)
        return np.histogram2d(a, b, bins=2)[0]

    names, alike = ("a", "b"), (2000, 0.5, 0.5)
    same = [
        find_pair_shift("pair", names, table(*alike), table(*alike)).p_value for _ in range(200)
    ]
    assert np.mean(np.array(same) < 0.05) < 0.11
    weaker = find_pair_shift("pair", ("a", "b"), table(2000, 0.5, 0.5), table(2000, 0.5, 0.1))
    assert weaker.p_value < 1e-6
    assert weaker.effect > 0.1
    old = np.array([[40.0, 10.0], [10.0, 40.0]]) * 20  # the odds ratio stays, the shares don't
    moved = find_pair_shift("pair", ("a", "b"), old, old * np.array([[3.0], [1.0]]))
    assert moved.p_value > 0.9
    assert moved.effect < 0.01


def test_p_values_are_adjusted_as_holm_does():
    raw = [0.01, 0.04, 0.03, 0.005]
    tests = [Shift("values", (str(at),), 1.0, p) for at, p in enumerate(raw)]
    found = {shift.columns[0]: shift.p_value for shift in correct_shifts(tests, 0.05, 0.0, 0.0)}
    assert [found[str(at)] for at in range(4)] == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize("learners", [("tan", "hdp"), ("auto", "layered")])
def test_watched_codes_are_the_models_codes(learners):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), rng.integers(0, 4, 500), np.zeros(500)])
    clf = BayesNetClassifier(*learners, random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    network = clf.network_
    watches, codebook = network.watching
    new = np.column_stack(
        [rng.normal(size=900) * 2, rng.normal(size=900) * 4, rng.normal(size=900)]
    )
    new = np.vstack([new, X])
    new[3, 1] = np.nan
    coded = network.codebook.encode(new)
    fine = codebook.encode(new)
    for at, watch in enumerate(watches):
        assert (watch.codes[fine[at]] == coded[at]).all()
        known = X[:, at]
        cells = np.bincount(watch.cells[codebook.encode(X)[at]])
        assert cells.tolist() == network.reference.cells[at][: len(cells)].tolist()
        below = (new[:, at] < known.min()).sum(), (new[:, at] > known.max()).sum()
        outside = np.bincount(watch.cells[fine[at]], minlength=len(network.reference.cells[at]))
        assert tuple(outside[-3:-1]) == below
        assert isinstance(watch, Watch)


# Drift


@pytest.mark.parametrize(
    ("name", "change", "kind"),
    [
        ("MonthlyCharges", lambda x: x * 100, "outside"),
        ("tenure", lambda x: x * 30, "outside"),
        ("Contract", lambda x: [v.upper() for v in x[:-1]] + [x[-1]], "unseen"),
        ("TotalCharges", lambda x: np.where(np.arange(len(x)) % 5, x, np.nan), "missing"),
        ("Partner", lambda x: ["Yes" if at % 4 else "No" for at in range(len(x))], "values"),
    ],
)
def test_changes_that_nothing_spoke_of_are_named(customers, name, change, kind):
    clf, X, _ = customers
    column = X[name].to_pandas().to_numpy()
    new = changed(X, name, change(column))
    if name == "TotalCharges":
        new = changed(X, name, pa.array(change(column), from_pandas=True))
    found = clf.drift(new)
    assert found.columns == (name,)
    assert (kind, (name,)) in [(shift.kind, shift.columns) for shift in found.moved]
    assert name in str(found)


@pytest.mark.parametrize("labelled", [False, True])
def test_nothing_is_said_of_rows_like_those_of_training(customers, labelled):
    clf, X, y = customers
    assert clf.drift(X, y if labelled else None).moved == ()


def test_broken_dependence_shares_and_calibration_are_named(customers):
    clf, X, y = customers
    rng = np.random.default_rng(0)
    shuffled = changed(
        X, "TotalCharges", X["TotalCharges"].take(rng.permutation(len(y))).combine_chunks()
    )
    found = clf.drift(shuffled)
    assert found.columns == ()
    assert {"pair"} == {shift.kind for shift in found.moved}
    assert all("TotalCharges" in shift.columns for shift in found.moved)
    more = (y == "Yes") | (rng.random(len(y)) < 0.3)
    shares = clf.drift(X.filter(pa.array(more)))
    assert "classes" in [shift.kind for shift in shares.moved]
    assert shares.shares[1] == pytest.approx((y[more] == "Yes").mean(), abs=0.08)
    wrong = np.where(rng.random(len(y)) < 0.7, rng.permutation(y), y)
    assert "calibration" in [shift.kind for shift in clf.drift(X, wrong).moved]


def test_small_changes_of_large_tables_are_not_alarms():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100_000, 1)), rng.integers(0, 2, 100_000)
    clf = BayesNetClassifier("naive", "laplace").fit(X[:50_000], y[:50_000])
    new = X[50_000:] + 0.04
    assert clf.drift(new).moved == ()
    assert clf.drift(new, least=0.0).columns == ("x0",)


def test_false_alarms_on_unchanged_halves_of_real_tables_are_at_most_5_percent():
    alarms = runs = 0
    for name in ("titanic", "bupa", "heart", "tae", "pima"):
        X, y = read_keel(name)
        for seed in range(16):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = order[: len(y) // 2], order[len(y) // 2 :]
            clf = BayesNetClassifier("tan", "hdp", audit=False).fit(X.take(train), y[train])
            alarms += bool(clf.drift(X.take(test), y[test]).moved)
            runs += 1
    # At 5 %, 4 of 80 are expected; 9 and more have a probability below 2 %.
    assert alarms <= stats.binom.ppf(0.98, runs, 0.05)


# One read, whatever the source


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    X, y = churn(30_000, 5)
    X = X.append_column("leaves", pa.array(y))
    path = tmp_path_factory.mktemp("drift") / "new.parquet"
    pq.write_table(X, path, row_group_size=7_000)
    clf = BayesNetClassifier("tan", "hdp", n_jobs=1).fit(
        X.slice(0, 5_000).drop(["leaves"]), y[:5_000]
    )
    return clf, X, y, path


def test_drift_is_bit_equal_for_threads_chunks_and_sources(large, monkeypatch):
    clf, X, y, path = large
    monkeypatch.setattr("tanager.network.drift.MOST_SCORED", 4_000)
    usual = clf.drift(X, "leaves").to_dict()
    assert clf.drift(path, "leaves").to_dict() == usual
    assert clf.network_.drift(path, "leaves", n_jobs=3).to_dict() == usual
    assert clf.drift(X.drop(["leaves"]), y).to_dict() == usual
    assert clf.drift(X.to_pandas(), "leaves").to_dict() == usual


def test_a_file_is_read_once(large, monkeypatch):
    clf, _, _, path = large
    read = []
    original = FilePart.read

    def batches(self, *given, **options):
        for batch in original(self, *given, **options):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(FilePart, "read", batches)
    clf.drift(path)
    assert sum(read) == 30_000


def test_weights_count_as_rows():
    X, y = small_table(n=60)
    twice = BayesNetClassifier("tan", "laplace").fit(X, y, sample_weight=[2.0] * 60)
    doubled = pa.concat_tables([X, X])
    once = BayesNetClassifier("tan", "laplace").fit(doubled, np.concatenate([y, y]))
    mine, theirs = twice.network_.reference, once.network_.reference
    for name in ("classes", "pair_counts", "class_counts", "scores"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name)), name
    for a, b in zip(mine.cells, theirs.cells, strict=True):
        assert a.tolist() == b.tolist()


# Edited networks


def edited_table(n=400):
    rng = np.random.default_rng(1)
    X = pa.table({name: rng.choice(list("pqr"), n) for name in "abcd"})
    return X, np.where((X["a"].to_numpy() == "p") ^ (rng.random(n) < 0.1), "k", "l")


@pytest.mark.parametrize("edit", [{"forbid": True}, {"effect": {"p": 3.0}}])
@pytest.mark.parametrize("labelled", [False, True])
def test_edits_are_no_drift(edit, labelled, tmp_path):
    X, y = edited_table()
    network = BayesNetClassifier("naive", "laplace").fit(X, y).network_.edit("a", **edit)
    network.save(tmp_path / "m.tanager")
    loaded = Network.load(tmp_path / "m.tanager")
    for one in (network, loaded):
        found = one.drift(X, y if labelled else None)
        assert not found.moved
        assert found.familiarity == ()
        assert sum(found.shares) == pytest.approx(1)
    moved = changed(X, "b", ["p"] * 400)
    assert loaded.drift(moved, y if labelled else None).columns == ("b",)


def test_familiarity_is_not_told_by_the_scores_of_another_network():
    X, y = edited_table()
    network = BayesNetClassifier("naive", "laplace").fit(X, y).network_
    edited = network.edit("a", forbid=True)
    with pytest.raises(ConfigurationError, match="edited after its fit"):
        edited.familiarity(X)
    assert network.familiarity(X).mean() == pytest.approx(0.5, abs=0.1)
    assert edited.surprise(X).shape == (400, 4)


def test_options_of_drift_that_are_no_numbers_and_columns_that_are_not_there(customers):
    clf, X, _ = customers
    for options in ({"alpha": "a"}, {"least": None}):
        with pytest.raises(ConfigurationError, match="a number from 0 to below 1"):
            clf.drift(X, **options)
    with pytest.raises(DataError, match="no column 'Contrakt' of true classes"):
        clf.drift(X, "Contrakt")


# The model file


def test_the_largest_numbers_travel_in_the_model_file(tmp_path):
    X = pa.table({"a": [1e305, -1e305] * 20})
    clf = BayesNetClassifier("naive", "laplace").fit(X, ["k", "l"] * 20)
    clf.network_.save(tmp_path / "m.tanager")
    assert Network.load(tmp_path / "m.tanager").drift(X) == clf.drift(X)


def test_the_reference_travels_in_the_model_file(customers, tmp_path):
    clf, X, y = customers
    tanager.save(clf, tmp_path / "m.tanager")
    loaded = tanager.load(tmp_path / "m.tanager")
    assert loaded.drift(X, y).to_dict() == clf.drift(X, y).to_dict()
    assert (loaded.familiarity(X) == clf.familiarity(X)).all()
    again = loaded.network_.edit("Partner", neutralise=True)
    assert again.drift(X).n_training == 2000


def test_networks_without_a_reference_say_what_is_missing(customers):
    from dataclasses import replace

    clf, X, _ = customers
    old = replace(clf.network_, reference=None)
    for ask in (old.drift, old.familiarity, old.surprise):
        with pytest.raises(ConfigurationError, match=r"earlier release.*Fit it again"):
            ask(X)


@pytest.mark.parametrize(
    "forge",
    [
        lambda d: d.update(classes=[1]),
        lambda d: d.update(cells=d["cells"][1:]),
        lambda d: d["cells"].__setitem__(0, [1, 2]),
        lambda d: d["ends"].__setitem__(0, [2.0, 1.0]),
        lambda d: d["pairs"].append([0, 99]),
        lambda d: d.update(scores=[1.0]),
        lambda d: d["bounds"].__setitem__(0, [4, 3, 2, 1]),
        lambda d: d.update(assumed=[5.0, 5.0]),
        lambda d: d.update(estimated=[1.0]),
        lambda d: d.update(classes=[0, 0]),
        lambda d: d["cells"][0].__setitem__(0, -1),
        lambda d: d.update(pair_counts="text"),
    ],
)
def test_forged_references_are_refused(customers, forge):
    network = customers[0].network_
    data = network.reference.to_dict()
    assert check_reference(data, network.codebook) is not None
    forge(data)
    with pytest.raises(ModelFileError):
        check_reference(data, network.codebook)


# Odd tables


def test_odd_tables():
    X, y = small_table(n=40)
    clf = BayesNetClassifier("tan", "hdp").fit(X, y)
    assert clf.drift(X.slice(0, 1)).n_rows == 1
    with pytest.raises(ConfigurationError, match="alpha"):
        clf.drift(X, alpha=2)
    with pytest.warns(ColumnWarning, match="one class"):
        one = BayesNetClassifier("naive", "laplace").fit([["a", 1.0], ["b", 1.0]] * 9, [0] * 18)
    assert one.drift([["a", 1.0]] * 3).moved == ()
    many = [[f"v{at}"] for at in range(300)]
    unique = BayesNetClassifier("naive", "laplace", audit=False).fit(many, [0, 1] * 150)
    assert unique.drift([[f"w{at}"] for at in range(300)]).moved == ()  # all are new, as ever
    gaps = BayesNetClassifier("tan", "hdp", missing="marginalize").fit(
        [[1.0, None], [2.0, 3.0]] * 20, [0, 1] * 20
    )
    assert gaps.drift([[1.0, 3.0]] * 40).columns


def test_the_reference_of_many_classes_is_measured_in_blocks(monkeypatch):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 40, 600)
    X = {"a": rng.normal(size=600) + y, "b": rng.integers(0, 9, 600).astype(str)}
    whole = BayesNetClassifier("naive", "laplace").fit(X, y).network_
    asked, log_joint = [], Network.log_joint_of_codes

    def watched(self, codes):
        asked.append(codes.shape[1] * len(self.codebook.classes))
        return log_joint(self, codes)

    monkeypatch.setattr("tanager.network.reference.BLOCK_CELLS", 1_000)
    monkeypatch.setattr("tanager.network.reference.FEW_CELLS", 1_000)
    monkeypatch.setattr(Network, "log_joint_of_codes", watched)
    divided = BayesNetClassifier("naive", "laplace").fit(X, y).network_
    assert max(asked) <= 1_000
    assert np.array_equal(divided.reference.scores, whole.reference.scores)


def test_values_outside_on_both_sides_are_told_apart():
    X = pa.table({"x": np.arange(100.0)})
    network = BayesNetClassifier("naive", "laplace").fit(X, [0, 1] * 50).network_
    new = pa.table({"x": np.r_[np.full(20, -5.0), np.full(30, 500.0), np.full(50, 7.0)]})
    shift = next(s for s in network.drift(new).shifts if s.kind == "outside")
    assert shift.effect == pytest.approx(0.5)
    said = "20.0 % of values below 0 and 30.0 % above 99, the smallest and the largest in training"
    assert shift.words == said
    below = next(s for s in network.drift(new.slice(0, 50)).shifts if s.kind == "outside")
    assert below.words.startswith("40.0 % of values below 0 and 60.0 % above 99")
    only = next(s for s in network.drift(new.slice(0, 20)).shifts if s.kind == "outside")
    assert only.words == "100.0 % of values below 0, the smallest in training"


def test_new_values_make_rows_of_a_drift_check_unfamiliar(customers):
    model, X, _ = customers
    far = changed(X, "MonthlyCharges", X["MonthlyCharges"].to_numpy() * 100)
    new = changed(far, "Contract", np.where(np.arange(len(X)) % 2, "weekly", X["Contract"]))
    for rows in (X, far, new):
        found = model.familiarity(rows)
        expected = [(found <= level).mean() for level in (0.01, 0.05, 0.25, 0.5)]
        assert model.drift(rows).familiarity == pytest.approx(expected)
    assert model.drift(new).familiarity[0] > 0.5


def test_new_values_of_a_column_that_is_not_used_surprise_nobody(customers):
    model, X, _ = customers
    network = model.network_.edit("Contract", forbid=True)
    new = changed(X, "Contract", ["weekly"] * len(X)).slice(0, 5)
    np.testing.assert_array_equal(network.surprise(new), network.surprise(X.slice(0, 5)))
    assert (network.surprise(new)[:, 1] == 0).all()
