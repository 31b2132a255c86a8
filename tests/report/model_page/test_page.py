"""What the page is made of, without a browser."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.report.balance import Balance
from tests.report.model_page.conftest import make_table

import tanager
from tanager import BayesNetClassifier
from tanager.errors import ColumnWarning, ConfigurationError, DataError
from tanager.evaluation.metrics import log_loss
from tanager.network import NetworkInformation
from tanager.report import write_report
from tanager.report.model_page import render_report
from tanager.report.model_page.asked import asked_network, scorer_json
from tanager.report.model_page.card import render_notes
from tanager.report.model_page.held_out import naive_probabilities, predict_held_out
from tanager.report.model_page.rows import pool_neighbours, read_rows
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


def test_rows_are_in_the_page_only_when_asked(tree, people, page):
    assert len(data_of(page)["loadable"]) == 5
    plain = data_of(render_report(tree, people, "income", folds=0))
    assert "loadable" not in plain
    with pytest.raises(ConfigurationError, match="need rows"):
        render_report(tree, loadable_rows=3)
    with pytest.raises(ConfigurationError, match=r"loadable_rows=-1\. Allowed: 0 or more"):
        render_report(tree, people, "income", loadable_rows=-1)


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
        assert "Columns that are not what they seem" in page
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
    assert "given with this page. The model must not have seen them." in page


def test_a_part_of_the_rows_is_not_said_to_be_new(tree, people):
    page = render_report(tree, people.slice(1), "income")
    assert "that are not, all together, those of the fit" in page


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


def test_scores_stand_beside_class_shares_and_naive_bayes(page, people):
    scores = data_of(page)["scores"]
    income = np.array(people["income"].to_pylist())
    share = np.mean(income == "> 50 <k>")
    entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert scores["shares"]["loss"] == pytest.approx(entropy)
    assert scores["shares"]["errors"] == pytest.approx(min(share, 1 - share))
    assert scores["model"]["loss"] < entropy
    assert scores["naive"]["loss"] < entropy
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


def test_edges_carry_their_information_and_their_loss(tree, page):
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


def test_notes_cannot_bring_markup():
    html = render_notes("# A\n- one **two**\n- `x<y`\n\n<script>alert(1)</script>")
    assert html == (
        "<h3>A</h3><ul><li>one <b>two</b></li><li><code>x&lt;y</code></li></ul>"
        "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"
    )


def test_what_is_wrong_is_said(tree, people, tmp_path):
    with pytest.raises(ConfigurationError, match="without their classes"):
        render_report(tree, people)
    with pytest.raises(ConfigurationError, match="no column 'salary'"):
        render_report(tree, people, "salary")
    with pytest.raises(DataError, match="lacks the column"):
        render_report(tree, people.drop(["age"]), "income")
    with pytest.raises(ConfigurationError, match="Fit the classifier first"):
        render_report(BayesNetClassifier())
    with pytest.raises(ConfigurationError, match="needs the estimator"):
        render_report(tree.network_, people, "income", with_learning_curve=True)


def test_the_command_and_the_methods_write_the_page(tree, people, tmp_path, monkeypatch, capsys):
    import pyarrow.parquet as pq

    from tanager.cli.app import run

    monkeypatch.chdir(tmp_path)
    tanager.save(tree, "m.tanager")
    pq.write_table(people, "people.parquet")
    (tmp_path / "notes.md").write_text("Only for **tests**.")
    given = ["report", "m.tanager", "people.parquet", "--target", "income", "--folds", "0"]
    assert run([*given, "--card", "notes.md", "-o", "a.html"]) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Only for <b>tests</b>." in page
    assert "SHA-256" in page
    assert run(["report", "m.tanager", "-o", "b.html"]) == 0
    assert "Nothing was measured" in (tmp_path / "b.html").read_text(encoding="utf-8")
    assert run(["report", "m.tanager", "people.parquet", "--folds", "0", "-o", "own.html"]) == 0
    assert "Measured on" in (tmp_path / "own.html").read_text(encoding="utf-8")
    pq.write_table(people.drop(["income"]), "unlabelled.parquet")
    assert run(["report", "m.tanager", "unlabelled.parquet"]) == 2
    assert "with --target" in capsys.readouterr().err
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
    # Naive Bayes must not be worse for the fine intervals than it would be alone.
    alone = BayesNetClassifier("naive", "laplace", bins=10).fit(table, y)
    loss = log_loss(naive_probabilities(clf.network_, rows), y)
    assert loss < log_loss(alone.predict_proba(table), y) + 0.01


def test_neighbours_are_pooled_by_weight():
    groups = pool_neighbours(np.ones(100), 99, 10)
    assert np.bincount(groups).tolist() == [10, 10, 10, 10, 9, 10, 10, 10, 10, 10, 1]
    assert pool_neighbours(np.zeros(3), 3, 2).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["page.pdf", "page", "page.HTML.txt"])
def test_a_name_that_promises_no_page_is_refused_before_any_work(tree, people, tmp_path, name):
    with pytest.raises(ConfigurationError, match=r"a page is HTML\. Let its name end in \.html"):
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


def test_a_learning_curve_of_too_few_rows_is_refused(people):
    clf = BayesNetClassifier("naive", "laplace").fit(people.slice(0, 12), "income")
    with pytest.raises(ConfigurationError, match="A learning curve needs 25 rows"):
        render_report(clf, people.slice(0, 12), "income", with_learning_curve=True)
