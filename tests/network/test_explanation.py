"""What notebooks and terminals show of explanations, structures and tables."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ColumnWarning, ConfigurationError
from tanager.network import LabelledTable, NetworkInformation, explain_row
from tanager.structure import KDB, Fixed, Structure


@pytest.fixture(scope="module")
def people():
    """Marital status decides; relationship repeats it; age is a number."""
    rng = np.random.default_rng(0)
    n = 800
    married = rng.random(n) < 0.5
    rich = rng.random(n) < np.where(married, 0.8, 0.2)
    echo = np.where(rng.random(n) < 0.01, ~married, married)
    age = np.where(rich, rng.normal(52, 8, n), rng.normal(35, 8, n)).round()
    return pa.table(
        {
            "status": np.where(married, "married", "single"),
            "relation": np.where(echo, "<spouse>", "none"),
            "age": age,
            "income": np.where(rich, "rich", "poor"),
        }
    )


@pytest.fixture(scope="module")
def model(people):
    parents = {"status": [], "relation": ["status"], "age": []}
    return BayesNetClassifier(Fixed(parents), "laplace").fit(people, "income")


def test_information_beyond_parents_is_that_of_the_joint(model):
    """Against the definition, summed over the whole joint of the network."""
    network = model.network_
    arities = network.codebook.domain.arities
    codes = np.indices(tuple(arities)).reshape(len(arities), -1).astype(network.codebook.dtype)
    joint = np.exp(network.log_joint_of_codes(codes)).reshape(*arities, -1)
    joint /= joint.sum()
    of_family = joint.sum(axis=2)  # status, relation, class
    expected = 0.0
    for s, r, c in np.ndindex(of_family.shape):
        p = of_family[s, r, c]
        both = of_family[s].sum()
        expected += p * np.log(p * both / (of_family[s, r].sum() * of_family[s, :, c].sum()))
    information = NetworkInformation(network)
    beyond = information.beyond_parents()
    assert beyond[1] == pytest.approx(expected, abs=1e-12)
    alone = information.of_features()
    assert beyond[0] == pytest.approx(alone[0])  # without parents, the same
    assert beyond[1] < 0.1 * alone[1]


def test_steps_lead_from_the_prior_to_the_posterior(model, people):
    row = people.drop(["income"]).slice(3, 1)
    why = explain_row(model, row)
    steps = why.steps()
    assert steps[0].log_odds == pytest.approx(why.prior)
    assert steps[-1].log_odds == pytest.approx(why.posterior)
    total = why.prior
    for step in steps[1:]:
        total += step.adds
        assert step.log_odds == pytest.approx(total)
        assert step.probability == pytest.approx(1 / (1 + np.exp(-total)))
    assert steps[-1].probability == pytest.approx(model.predict_proba(row).max())
    age = row["age"][0].as_py()
    assert next(s.value for s in steps if s.feature == "age").startswith(f"{age:g}, ")
    assert [s.feature for s in why.steps(most=1)] == ["prior", steps[1].feature, "2 others"]


def test_a_row_of_known_features_is_explained_without_sums_over_rows(people, monkeypatch):
    row = people.drop(["income"]).slice(3, 1)
    deep = BayesNetClassifier(KDB(k=2), "hdp").fit(people, "income")
    expected = deep.predict_proba(row)[0]
    monkeypatch.setattr("tanager.network.views.add_unknown_sums", None)
    why = explain_row(deep, row)
    np.testing.assert_allclose(why.probabilities, expected, rtol=1e-12)
    assert np.isfinite(why.alone).all()


def test_what_a_feature_says_alone_is_the_marginal_log_odds(model, people):
    row = people.drop(["income"]).slice(3, 1)
    why = explain_row(model, row, target="rich", against="poor")
    codes = model.network_.codebook.encode(row)[:, 0]
    information = NetworkInformation(model.network_)
    for at, name in enumerate(why.features):
        assert why.alone[at] == pytest.approx(information.effect(name, 1)[codes[at]])


def test_the_feature_whose_parent_speaks_for_it_is_named_where_it_is_silent(model, people):
    row = people.drop(["income"]).filter(people["status"].to_numpy() == "married").slice(0, 1)
    why = explain_row(model, row)
    assert [why.features[at] for at in why.spoken_for()] == ["relation"]
    text = why.why_silent()
    assert f"relation alone would add {why.alone[1]:+.2f}" in text
    assert f"given status it adds {why.contributions[1]:+.2f}" in text
    assert text in why._repr_html_().replace("&lt;", "<").replace("&gt;", ">")
    naive = BayesNetClassifier("naive", "laplace").fit(people, "income")
    silent = explain_row(naive, row)
    assert silent.spoken_for() == []
    assert silent.why_silent() == ""


def test_an_explanation_shows_values_and_probabilities(model, people):
    row = people.drop(["income"]).slice(3, 1)
    why = explain_row(model, row)
    html = why._repr_html_()
    for step in why.steps():
        assert f"{step.probability:.3f}</td>" in html
        assert f"{step.log_odds:+.2f}</td>" in html
    assert "&lt;spouse&gt;" in html or "none" in html
    assert "<spouse>" not in html
    bars = [float(w) for w in re.findall(r"left:[\d.]+%;width:([\d.]+)%", html)]
    ends = [0.0, *(s.log_odds for s in why.steps())]
    span = max(ends) - min(ends)
    expected = [abs(why.prior), *(abs(s.adds) for s in why.steps()[1:]), abs(why.posterior)]
    assert bars == pytest.approx([100 * e / span for e in expected], abs=0.06)


def test_a_structure_shows_its_drawing_and_what_it_left_out():
    names = ("a", "<b>", "c", "d")
    html = Structure(names, (0, 1, 2), ((), (0,), (0,)))._repr_html_()
    assert html.count('<g class="node"') == 3
    assert html.count('<g class="edge"') == 2
    assert "left out: d" in html
    assert "&lt;b&gt;" in html
    assert "<b>," not in html
    assert "3 of 4 features, 2 edges" in html


def test_a_table_is_a_heat_map_with_a_scale(model):
    table = model.network_.table("relation")
    html = table._repr_html_()
    shades = [float(p) for p in re.findall(r"--p:([\d.]+)", html)]
    expected = (table.probabilities / table.probabilities.max()).ravel()
    assert shades == pytest.approx(expected, abs=0.006)
    assert "t-scale" in html
    assert f"</span>{table.probabilities.max():.2g}</div>" in html
    assert "&lt;spouse&gt;" in html
    assert "<spouse>" not in html


def test_large_tables_say_what_they_leave_out():
    rng = np.random.default_rng(0)
    contexts = [(c, f"v{i}") for c in "ny" for i in range(100)]
    probabilities = rng.dirichlet([1] * 50, 200)
    values = tuple(f"w{i}" for i in range(50))
    html = LabelledTable("x", ("class", "z"), contexts, values, probabilities)._repr_html_()
    assert "160 more contexts, 20 more values" in html
    assert len(html) < 120_000


def test_tables_are_sorted_as_asked(model):
    table = model.network_.table("relation")
    by_parents = table.sorted("parents")
    assert [c[1] for c in by_parents.contexts] == sorted(c[1] for c in by_parents.contexts)
    rows = dict(zip(table.contexts, table.probabilities.tolist(), strict=True))
    for order in ("context", "parents", "center"):
        one = table.sorted(order)
        assert dict(zip(one.contexts, one.probabilities.tolist(), strict=True)) == rows
    center = table.sorted("center").probabilities @ np.arange(len(table.values))
    assert (np.diff(center) >= 0).all()
    with pytest.raises(ConfigurationError, match="sorted by 'size'"):
        table.sorted("size")


def test_a_mapping_is_one_row_also_an_empty_one(people):
    model = BayesNetClassifier("naive", "laplace", missing="marginalize").fit(people, "income")
    assert not np.any(explain_row(model, {}).contributions)


def test_a_mapping_of_columns_is_a_table_of_one_row(model, people):
    row = people.drop_columns(["income"]).slice(2, 1)
    expected = explain_row(model, row).contributions
    columns = row.to_pydict()
    cells = {name: values[0] for name, values in columns.items()}
    for given in (columns, cells):
        np.testing.assert_array_equal(explain_row(model, given).contributions, expected)


def test_an_explanation_is_plain_data_as_a_dict(model, people):
    told = explain_row(model, people.slice(0, 1)).to_dict()
    assert json.loads(json.dumps(told)) == told
    assert [part["feature"] for part in told["contributions"]] == ["status", "relation", "age"]


def test_of_one_class_there_is_nothing_to_explain():
    with pytest.warns(ColumnWarning, match="one class"):
        clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 3, ["p"] * 6)
    with pytest.raises(ConfigurationError, match=r"one class, 'p': there's nothing to explain"):
        explain_row(clf, [["a"]])


def test_the_card_names_two_values_of_a_number_with_many_bins():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=6_000), rng.integers(0, 2, 6_000)
    clf = BayesNetClassifier("naive", "hdp", bins="fine").fit((x + y)[:, None], y)
    row = clf.network_._repr_html_().split("most against it")[1].split("</tr>")[1]
    most_for, most_against = (float(n) for n in re.findall(r"<b>([-+.\d]+)</b>", row))
    assert most_for > 1.0
    assert most_against < -1.0
