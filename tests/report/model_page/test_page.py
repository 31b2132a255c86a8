"""What the page is made of, without a browser."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError
from tests.report.balance import Balance
from tests.report.model_page.conftest import make_table

import tanager
from tanager import BayesNetClassifier
from tanager.errors import ColumnWarning, ConfigurationError, DataError
from tanager.evaluation.metrics import log_loss
from tanager.network import NetworkInformation
from tanager.report import write_report
from tanager.report.model_page import render_report
from tanager.report.model_page.network import asked_network, counted_bits, scorer_json
from tanager.report.model_page.page import column_facts
from tanager.report.model_page.rows import (
    logistic_regression,
    pool_neighbours,
    predict_held_out,
    read_rows,
)
from tanager.report.model_page.trust import find_slices, reliability_bins
from tanager.structure import Fixed


def data_of(page: str):
    """Return what the page's scripts read."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(found[1])


def test_the_page_is_whole_and_asks_nobody(page):
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    assert not re.search(r'(?:src|href)=["\'](?!#|data:)', page)
    assert "default-src 'none'" in page
    assert "&gt; 50 &lt;k&gt;" in page
    assert "<k>" not in page
    model = re.search(r'id="model">(.*?)</script>', page, re.S)[1]
    assert len(page.encode()) - len(model) < 200_000


@pytest.mark.parametrize("options", [{"folds": 1}, {"folds": -3}, {"max_rows": 0}])
def test_numbers_without_a_meaning_are_refused(tree, people, options):
    with pytest.raises(ConfigurationError, match=f"{next(iter(options))}=.*Allowed"):
        render_report(tree, people, "income", **options)


def test_the_page_of_a_model_file_tells_how_columns_are_read(tmp_path):
    rng = np.random.default_rng(0)
    prices = [f"{n},50" for n in rng.integers(1, 500, 200)]
    names = [f"name {i}" for i in range(200)]
    table = pd.DataFrame({"price": prices, "name": names, "y": rng.integers(0, 2, 200)})
    with pytest.warns(ColumnWarning):
        clf = BayesNetClassifier("naive", "laplace").fit(table, "y")
    tanager.save(clf, tmp_path / "m.tanager")
    for model in (clf, tmp_path / "m.tanager"):
        page = render_report(model)
        assert "Columns read differently from how they are stored" in page
        assert "decimal comma" in page
        assert "left out" in page


def test_the_models_own_rows_are_recognised_and_cross_validated(tree, people):
    rows = read_rows(tree.network_, people, "income")
    held = predict_held_out(tree, rows, folds=3)
    assert (held.own_rows, held.folds) == (True, 3)
    assert max(held.edge_folds.values()) <= 3
    seen = predict_held_out(tree, rows, folds=0)
    assert (seen.own_rows, seen.folds) == (True, 0)
    assert log_loss(held.probabilities, rows.labels) > log_loss(seen.probabilities, rows.labels)
    assert seen.probabilities == pytest.approx(tree.predict_proba(people.drop(["income"])))
    fresh = read_rows(tree.network_, make_table(people.num_rows, seed=9), "income")
    assert predict_held_out(tree, fresh, folds=3).own_rows is False
    assert predict_held_out(tree.network_, fresh, folds=3).own_rows is None


@pytest.mark.parametrize("seed", [0, 9])
def test_rows_are_recognised_though_a_sample_is_kept(tree, people, seed):
    rows = read_rows(tree.network_, make_table(people.num_rows, seed), "income", max_rows=100)
    assert len(rows.labels) == 100
    assert predict_held_out(tree, rows, folds=0).own_rows is (seed == 0)


def test_weighted_rows_are_not_recognised_and_nothing_is_said_of_them(people):
    weights = np.linspace(0.5, 2, people.num_rows)
    clf = BayesNetClassifier("naive", "laplace").fit(people, "income", sample_weight=weights)
    assert (
        predict_held_out(clf, read_rows(clf.network_, people, "income"), folds=0).own_rows is None
    )
    page = render_report(clf, people, "income")
    assert "The scores are valid only if none of them was used in training." in page


def test_a_part_of_the_rows_is_not_said_to_be_new(tree, people):
    page = render_report(tree, people.slice(1), "income")
    assert "other than the training data" in page


def test_rows_that_were_added_are_counted_and_no_longer_recognised(people):
    table = make_table(100, seed=4)
    clf = BayesNetClassifier("naive", "laplace").fit(people, "income")
    kept = {stage: dict(record) for stage, record in clf.info_.items()}
    clf.partial_fit(table, "income")
    assert clf.info_["codes"]["rows"] == people.num_rows + 100
    assert clf.info_["codes"]["audit"] == kept["codes"]["audit"]
    first = {k: v for k, v in kept["structure"].items() if k != "mutual_information"}
    assert clf.info_["structure"] == first
    assert (
        predict_held_out(clf, read_rows(clf.network_, people, "income"), folds=0).own_rows is None
    )
    both = pa.concat_tables([people, table])
    assert predict_held_out(clf, read_rows(clf.network_, both, "income"), folds=0).own_rows is None


@pytest.mark.filterwarnings("ignore:The target has one class")
@pytest.mark.parametrize(("n_rows", "folds"), [(1, 0), (2, 2), (4, 4), (5, 5), (9, 5)])
def test_a_fit_of_few_rows_has_fewer_folds(n_rows, folds):
    table = {"x": list("ababababa")[:n_rows], "y": list("ppqqpqppq")[:n_rows]}
    clf = BayesNetClassifier("naive", "laplace").fit(table, "y")
    assert data_of(render_report(clf, table, "y"))["folds"] == folds


def test_more_folds_than_rows_are_refused_where_they_are_asked_for():
    table = {"x": list("abab"), "y": list("ppqq")}
    clf = BayesNetClassifier("naive", "laplace").fit(table, "y")
    with pytest.raises(ConfigurationError, match="folds=5 needs as many rows; the table has 4"):
        render_report(clf, table, "y", folds=5)


def test_folds_never_see_the_row_they_predict():
    """A column that tells rows apart is worthless where the fit did not see the row."""
    n = 200
    y = np.random.default_rng(0).integers(0, 2, n)
    table = pa.table({"id": [f"r{i}" for i in range(n)], "same": ["x"] * n})
    clf = BayesNetClassifier("naive", "laplace", audit=False).fit(table, y)
    rows = read_rows(clf.network_, table, y)
    held = predict_held_out(clf, rows, folds=4)
    shares = np.bincount(y) / n
    assert np.abs(held.probabilities - shares).max() < 0.05


def test_scores_stand_beside_class_shares_and_logistic_regression(page, people):
    scores = data_of(page)["scores"]
    income = np.array(people["income"].to_pylist())
    share = np.mean(income == "> 50 <k>")
    entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert scores["shares"]["loss"] == pytest.approx(entropy)
    assert scores["shares"]["errors"] == pytest.approx(min(share, 1 - share))
    assert scores["model"]["loss"] < entropy
    assert scores["logistic"]["loss"] < entropy
    assert scores["rows"] == people.num_rows


def test_effects_are_the_networks_marginals_and_the_rows_counts(tree, people, page):
    information = NetworkInformation(tree.network_)
    for facts in data_of(page)["features"]:
        joint = information.joint(facts["name"])
        assert np.array(facts["p"]) == pytest.approx(joint, rel=1e-3)
        assert np.sum(facts["n"]) == people.num_rows
        for given in facts.get("given", ()):
            assert np.sum(given["p"]) == pytest.approx(1, rel=2e-3)
        if "given" in facts:
            mixed = sum(g["share"] * np.array(g["p"]) for g in facts["given"])
            assert mixed == pytest.approx(joint, rel=1e-2, abs=1e-4)


def test_edges_carry_their_information(tree, page):
    data = data_of(page)
    carried = NetworkInformation(tree.network_).of_edges()
    names = [f["name"] for f in data["features"]]
    found = {(names[e["from"]], names[e["to"]]): e for e in data["edges"]}
    assert set(found) == set(carried)
    for edge, facts in found.items():
        assert facts["bits"] == pytest.approx(carried[edge] / np.log(2), abs=1e-5)
        assert 0 <= facts["again"] <= 2


def test_a_smaller_network_answers_as_the_whole_with_the_rest_unknown(many):
    network = many[0].network_
    order = [2, 0, 1, 3]
    small = asked_network(network, order, max_cells=10**9, max_features=3)
    kept = set(small.structure.selected)
    assert 0 < len(kept) < 4
    rng = np.random.default_rng(0)
    arities = network.codebook.domain.arities
    codes = np.array([rng.integers(0, n + 1, 50) for n in arities], np.uint8)
    for feature in set(range(4)) - kept:
        codes[feature] = arities[feature]
    assert small.log_joint_of_codes(codes) == pytest.approx(network.log_joint_of_codes(codes))
    assert asked_network(network, order) is network


def test_a_large_network_is_written_with_nine_decimals():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(5000, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    clf = BayesNetClassifier(Fixed({"x1": ["x0"]}), "laplace", bins="fine").fit(X, y)
    whole, written = clf.network_.to_json(unknowns=False), scorer_json(clf.network_)
    assert len(written) < 0.8 * len(whole)
    for one, other in zip(
        json.loads(whole)["features"], json.loads(written)["features"], strict=True
    ):
        assert one.keys() == other.keys()
        logs = [key for key in one if key.startswith("log_")]
        for key in logs:
            assert np.array(one[key]) == pytest.approx(np.array(other[key]), abs=6e-10)
        assert {k: v for k, v in one.items() if k not in logs} == {
            k: v for k, v in other.items() if k not in logs
        }


def test_reliability_bins_hold_every_row_once_and_never_split_equal_predictions():
    rng = np.random.default_rng(0)
    predicted = rng.choice([0.1, 0.2, 0.9], 1000)
    bins = reliability_bins(predicted, rng.random(1000) < predicted)
    assert [b[0] for b in bins] == pytest.approx([0.1, 0.2, 0.9])
    assert sum(b[2] for b in bins) == 1000
    smooth = reliability_bins(np.sort(rng.random(1000)), np.ones(1000, bool))
    assert len(smooth) == 10
    assert {b[1] for b in smooth} == {1.0}


def test_the_worst_slice_is_the_one_made_worst(tree, people):
    rows = read_rows(tree.network_, people, "income")
    p = np.full((people.num_rows, 2), 0.5)
    sales = np.array(people["job"].to_pylist()) == "sales"
    p[np.arange(len(p)), rows.labels] = np.where(sales, 0.2, 0.8)
    p[np.arange(len(p)), 1 - rows.labels] = np.where(sales, 0.8, 0.2)
    worst = find_slices(tree.network_, rows, p)[0]
    assert (worst["feature"], worst["value"], worst["rows"]) == ("job", "sales", sales.sum())
    assert worst["loss"] == pytest.approx(-np.log(0.2), abs=1e-4)
    assert worst["sure"]
    assert worst["errors"] == 1.0


def test_large_sources_are_drawn_from_by_a_hash(tree):
    big = make_table(3000, seed=3)
    rows = read_rows(tree.network_, big, "income", max_rows=500)
    again = read_rows(tree.network_, big, "income", max_rows=500)
    assert rows.n_source == 3000
    assert len(rows.labels) == 500
    assert np.array_equal(rows.index, np.unique(rows.index))
    assert np.array_equal(rows.index, again.index)
    assert rows.table["age"].to_pylist() == big["age"].take(rows.index).to_pylist()


def test_notes_cannot_bring_markup(tree):
    page = render_report(tree, notes="A: x<y\n\n<script>alert(1)</script>")
    assert "A: x&lt;y\n\n&lt;script&gt;alert(1)&lt;/script&gt;</div>" in page


def test_what_is_wrong_is_said(tree, people, tmp_path):
    with pytest.raises(ConfigurationError, match="passed without y"):
        render_report(tree, people)
    with pytest.raises(DataError, match="no column 'salary'"):
        render_report(tree, people, "salary")
    with pytest.raises(DataError, match="lacks the column"):
        render_report(tree, people.drop(["age"]), "income")
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        render_report(BayesNetClassifier())
    with pytest.raises(ConfigurationError, match="a Network is needed, not a dict"):
        render_report({})


def test_the_command_and_the_methods_write_the_page(tree, people, tmp_path, monkeypatch, capsys):
    import pyarrow.parquet as pq

    from tanager.cli.app import run

    monkeypatch.chdir(tmp_path)
    tanager.save(tree, "m.tanager")
    pq.write_table(people, "people.parquet")
    (tmp_path / "notes.txt").write_text("Only for *tests*.")
    given = ["report", "m.tanager", "people.parquet", "--target", "income", "--folds", "0"]
    assert run([*given, "--card", "notes.txt", "-o", "a.html"]) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Only for *tests*.</div>" in page
    assert "SHA-256" in page
    assert run(["report", "m.tanager", "-o", "b.html"]) == 0
    assert "Not evaluated" in (tmp_path / "b.html").read_text(encoding="utf-8")
    assert run(["report", "m.tanager", "people.parquet", "--folds", "0", "-o", "own.html"]) == 0
    assert "Measured on" in (tmp_path / "own.html").read_text(encoding="utf-8")
    pq.write_table(people.drop(["income"]), "unlabelled.parquet")
    assert run(["report", "m.tanager", "unlabelled.parquet"]) == 1
    assert "--target: The table has no column 'income'" in capsys.readouterr().err
    tree.report(tmp_path / "c.html")
    tree.network_.report(tmp_path / "d.html", people, "income")
    write_report("m.tanager", tmp_path / "e.html")
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("c.html", "d.html", "e.html"))


def test_a_number_of_many_values_has_few_slices_and_few_intervals():
    rng = np.random.default_rng(3)
    table = pa.table({"a": rng.normal(size=5000), "b": rng.choice(["u", "v"], 5000)})
    y = (table["a"].to_numpy() + rng.normal(size=5000) > 0).astype(int)
    clf = BayesNetClassifier(Fixed({"b": ["a"]}), "laplace", bins="fine").fit(table, y)
    facts = {f["name"]: f for f in data_of(render_report(clf, table, y, folds=0))["features"]}
    bands = facts["a"]["bands"]
    assert len(bands) == len(facts["a"]["p"]) == 255
    assert np.unique(bands).tolist() == list(range(32))
    assert (np.diff(bands) >= 0).all()
    assert "bands" not in facts["b"]
    rows = read_rows(clf.network_, table, y)
    right = np.full((5000, 2), 0.5)
    slices = find_slices(clf.network_, rows, right)
    assert all(found["rows"] >= 400 for found in slices)
    # Logistic regression reads ten intervals: on one informative number, it equals naive Bayes.
    alone = BayesNetClassifier("naive", "laplace", bins=10).fit(table, y)
    found = logistic_regression(clf.network_, rows)
    assert log_loss(found, y) < log_loss(alone.predict_proba(table), y) + 0.01


def test_neighbours_are_pooled_by_weight():
    groups = pool_neighbours(np.ones(100), 99, 10)
    assert np.bincount(groups).tolist() == [10, 10, 10, 10, 9, 10, 10, 10, 10, 10, 1]
    assert pool_neighbours(np.zeros(3), 3, 2).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["page.pdf", "page", "page.HTML.txt"])
def test_a_name_that_promises_no_page_is_refused_before_any_work(tree, people, tmp_path, name):
    with pytest.raises(ConfigurationError, match=r"the report is HTML\. Use the extension \.html"):
        tree.report(tmp_path / name, people, "income")
    assert list(tmp_path.iterdir()) == []


def test_rows_are_read_as_in_training(tmp_path):
    """Classes like '01' stay text, and a column that may be lacking may lack."""
    lines = [f"{a},{n},{'01' if a == 'u' else 'x2'}" for n, a in enumerate("uvuv" * 9)]
    (tmp_path / "all.csv").write_text("\n".join(["a,n,y", *lines]))
    clf = BayesNetClassifier("naive", "laplace", missing="marginalize").fit(
        tmp_path / "all.csv", "y"
    )
    assert clf.classes_.tolist() == ["01", "x2"]
    (tmp_path / "some.csv").write_text("a,y\nu,01\nu,01\n")
    rows = read_rows(clf.network_, tmp_path / "some.csv", "y")
    assert rows.labels.tolist() == [0, 0]
    expected = clf.predict_proba(pd.DataFrame({"a": ["u", "u"], "n": [np.nan, np.nan]}))
    assert predict_held_out(clf, rows, folds=0).probabilities == pytest.approx(expected)


def test_errors_tell_the_tables_row_though_a_sample_is_kept(tree):
    big = make_table(3000, seed=3)
    rows = read_rows(tree.network_, big, "income", max_rows=50)
    lost = int(rows.index[7])
    labels = big["income"].to_pylist()
    labels[lost] = None
    at = big.column_names.index("income")
    with pytest.raises(DataError, match=rf"'income'.*first in row {lost}, counted from 0"):
        read_rows(tree.network_, big.set_column(at, "income", [labels]), "income", max_rows=50)


def churn_table(n=3_000, seed=3):
    """Customers of whom six columns repeat that they have no internet, as in Telco churn."""
    rng = np.random.default_rng(seed)
    internet = np.where(rng.random(n) < 0.22, "No", np.where(rng.random(n) < 0.55, "Fiber", "DSL"))
    contract = np.where(rng.random(n) < 0.55, "month", np.where(rng.random(n) < 0.45, "1y", "2y"))
    tenure = np.clip(rng.gamma(1.2, np.where(contract == "month", 15, 40)), 0, 72).round()
    columns = {"internet": internet, "contract": contract, "tenure": tenure}
    score = -1.2 + 1.6 * (contract == "month") + 1.1 * (internet == "Fiber") - 0.03 * tenure
    taste = rng.random(n)
    for at in range(6):
        service = np.where(rng.random(n) < 0.3 + 0.3 * taste, "yes", "no")
        columns[f"service {at}"] = np.where(internet == "No", "no internet", service)
        score -= 0.25 * (columns[f"service {at}"] == "yes") + (internet == "No") / 6
    columns["churn"] = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    return pa.table(columns)


def test_what_the_page_says_of_the_data_agrees_with_the_data():
    table = churn_table()
    clf = BayesNetClassifier(random_state=0).fit(table, "churn")
    page = render_report(clf, table, "churn", folds=2)
    data, frame = data_of(page), table.to_pandas()
    churned = frame["churn"] == "yes"
    assert data["prior"][1] == pytest.approx(churned.mean(), abs=0.005)
    inside = of = 0
    for facts in data["features"]:
        inside, of = inside + facts["inside"][0], of + facts["inside"][1]
        if facts["name"] == "tenure":
            continue
        # P(churn | value), within three standard errors of the raw table's share.
        for value, (no, yes) in zip(facts["labels"], facts["p"], strict=True):
            mine = churned[frame[facts["name"]] == value]
            if len(mine):
                error = np.sqrt(mine.mean() * (1 - mine.mean()) / len(mine))
                assert yes / (no + yes) == pytest.approx(mine.mean(), abs=3 * error)
        both = pd.crosstab(frame[facts["name"]], churned).to_numpy() / len(frame)
        alone = both.sum(axis=1, keepdims=True) * both.sum(axis=0)
        bits = float((both * np.log2(both / alone)).sum())
        assert facts["bits"] == pytest.approx(bits, abs=0.01)
    assert inside >= 0.9 * of
    shares = [share for *_, share in clf.info_["parameters"]["found_again"]]
    assert f"an edge was found in {100 * np.mean(shares):.0f} % of the internal folds" in page
    words = page.replace("&#x27;", "'")
    assert f"{100 * inside / of:.0f} % of the model's effects lie within" in words
    assert "The counts in the rows agree" in words


def test_where_the_model_differs_from_the_rows_the_page_says_so():
    table = churn_table()
    clf = BayesNetClassifier("naive", "laplace").fit(table, "churn")
    other = churn_table(seed=4)
    turned = other.set_column(
        other.column_names.index("contract"),
        "contract",
        pa.array(np.random.default_rng(0).permutation(other["contract"].to_numpy())),
    )
    page = render_report(clf.network_, turned, "churn").replace("&#x27;", "'")
    assert "The counts in the rows differ for contract 0.000" in page


def test_bits_of_counts_are_those_of_their_shares_less_chance():
    counts = np.array([[30.0, 10.0], [5.0, 55.0], [0.0, 0.0]])
    bits, error = counted_bits(counts)
    shares = counts[:2] / 100
    alone = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0)
    plain = (shares * np.log2(shares / alone)).sum()
    assert bits == pytest.approx(plain - 1 / (200 * np.log(2)))
    rng = np.random.default_rng(0)
    again = rng.multinomial(100, shares.ravel(), 4_000).reshape(-1, 2, 2)
    assert error == pytest.approx(np.std([counted_bits(one)[0] for one in again]), rel=0.1)
    assert counted_bits(np.zeros((2, 2))) == (0.0, 0.0)


def test_the_page_draws_what_unknown_inputs_cost_beside_refits(tree, people):
    with pytest.raises(ConfigurationError, match="Turn the refits off"):
        render_report(tree, people, "income", folds=2, with_refits=True)  # its structure is given
    tree = BayesNetClassifier("tan", "laplace", bins=4).fit(people, "income")
    page = render_report(tree, people, "income", folds=2, with_refits=True)
    shares, losses, refits = zip(*data_of(page)["trust"]["known"], strict=True)
    assert shares == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    classes = np.unique(people["income"].to_numpy(), return_counts=True)[1] / people.num_rows
    assert losses[0] == pytest.approx(-(classes * np.log(classes)).sum(), rel=0.02)
    held = predict_held_out(tree, read_rows(tree.network_, people, "income"), folds=2)
    labels = tree.network_.codebook.encode_labels(people["income"])
    assert losses[-1] == pytest.approx(log_loss(held.probabilities, labels))
    # round(0.2 * 4) = 1, 2, 2 and 3 of four features: each refit knows them alone.
    assert [refit is not None for refit in refits] == [False, True, True, True, True, False]
    assert [loss for _, loss, _ in held.known] == list(losses)
    with pytest.raises(ConfigurationError, match="need the training data"):
        render_report(tree.network_, people, "income", with_refits=True)


def test_the_page_says_how_many_edges_other_folds_have(page):
    found = [edge["again"] for edge in data_of(page)["edges"]]
    often = sum(2 * n > 2 for n in found)
    assert (
        f"{often} of {len(found)} edges also occur in most of the 2 cross-validation models" in page
    )


def test_an_audit_that_is_no_list_tells_nothing():
    codebook = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]], [0, 1]).network_.codebook
    assert column_facts({"codes": {"audit": 3}}, codebook) == column_facts({}, codebook)
