"""Pictures of models: drawn for awkward names and many features, on any axis."""

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.network import NetworkInformation
from tanager.network.explanation import explain_row
from tanager.report import (
    plot_beeswarm,
    plot_calibration,
    plot_effect,
    plot_explanation,
    plot_network,
    plot_table,
)
from tanager.report.model_page.network import count_interval
from tanager.report.model_page.trust import reliability_bins
from tanager.structure import KDB


@pytest.fixture(scope="module")
def wide():
    """Sixty features with awkward names."""
    import pyarrow as pa

    rng = np.random.default_rng(3)
    hidden = rng.integers(0, 3, 500)
    columns = {}
    for i in range(60):
        noise = rng.random(500) < 0.4
        column = np.where(noise, rng.integers(0, 3, 500), hidden)
        columns[f"$f_{i}$ {'x' * (i % 40)}"] = [f"v{v}" for v in column]
    return pa.table(columns), np.array(["no", "yes", "$5"])[hidden]


@pytest.fixture(scope="module", params=["naive", "tan", KDB(k=2)], ids=str)
def model(request, wide):
    return BayesNetClassifier(request.param, "laplace").fit(*wide)


def drawn(ax):
    """Lay everything out as a saved picture has it."""
    ax.figure.draw_without_rendering()
    return ax


def test_texts_of_a_network_do_not_overlap(model):
    ax = drawn(plot_network(model))
    boxes = [t.get_window_extent() for t in ax.texts]
    assert len(boxes) >= 25
    for i, a in enumerate(boxes):
        assert not any(a.overlaps(b) for b in boxes[i + 1 :])


def test_names_fit_on_a_given_axis(model):
    ax = Figure(figsize=(24, 12)).add_subplot()
    assert plot_network(model.network_, ax=ax) is ax
    drawn(ax)
    frame = ax.get_window_extent().padded(8)  # letters are set on whole pixels
    for text in ax.texts:
        box = text.get_window_extent()
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        assert frame.y0 <= box.y0
        assert box.y1 <= frame.y1


def test_arrows_are_as_wide_as_they_are_informative(model):
    """Unfolded, there is one line an edge, and widths rank as the network's information does."""
    ax = plot_network(model, fold=False)
    lines = {p.get_gid(): p.get_linewidth() for p in ax.patches if p.get_gid()}
    carried = NetworkInformation(model.network_).of_edges()
    place = {name: at for at, name in enumerate(model.structure_.features)}
    assert len(lines) == len(carried) == sum(map(len, model.structure_.parent_indices))
    if carried:
        most = max(carried.values())
        widest = max(lines.values())
        for (parent, child), nats in carried.items():
            width = lines[f"arrow-{place[parent]}-{place[child]}"]
            assert width / widest == pytest.approx((1 + 4 * np.sqrt(nats / most)) / 5)


def test_tables_of_any_size(model):
    for feature in model.structure_.features[:3]:
        ax = drawn(plot_table(model, feature))
        table = model.network_.table(feature)
        shown = ax.images[0].get_array()
        assert shown.shape == (len(table.contexts), len(table.values))
        assert np.allclose(shown.sum(axis=1), 1)
        scale = ax.figure.axes[1]
        assert scale.get_ylabel() == "probability"
        assert scale.get_ylim() == pytest.approx((0, table.probabilities.max()))


def test_a_waterfall_ends_at_the_posterior(model, wide):
    row = wide[0].slice(7, 1)
    explanation = explain_row(model.network_, row)
    ax = drawn(plot_explanation(model, row, most=10))
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    assert ends[-3] == pytest.approx(explanation.posterior)  # the bar of all others
    assert ends[-1] == pytest.approx(explanation.posterior)
    assert len(ax.patches) == 13
    low, high = ax.get_xlim()
    assert low < min(ends)
    assert max(ends) < high


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (BayesNetClassifier(), NotFittedError, "not fitted yet"),
        (
            make_pipeline(BayesNetClassifier()),
            ConfigurationError,
            r"A fitted .* is needed, not a .*pipeline\[-1",
        ),
    ],
)
def test_what_is_no_fitted_classifier_is_refused(given, kind, said, wide):
    asks = (
        lambda: plot_network(given),
        lambda: plot_table(given, "a"),
        lambda: plot_effect(given, "a"),
        lambda: plot_explanation(given, wide[0][:1]),
    )
    for ask in asks:
        with pytest.raises(kind, match=said):
            ask()


def test_a_long_name_leaves_room_for_its_value():
    name = "How satisfied were you with the temperature in the room on the first day?"
    table = {name: [float(i) for i in range(60)]}
    clf = BayesNetClassifier("naive", "laplace").fit(table, ["no"] * 30 + ["yes"] * 30)
    ax = plot_explanation(clf, {name: [3.0]})
    label = ax.get_yticklabels()[1].get_text()
    assert label.startswith("How satisfied")
    assert label.endswith("…he first day? 3, ≤ 29.5")


LONG = "a long text value that goes on and on and on until it ends with "


@pytest.fixture(scope="module")
def long_values():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=(2, 300))
    codes[1] = np.where(rng.random(300) < 0.8, codes[0], codes[1])
    table = {
        f"{LONG}{name}": [f"{LONG}{c}" for c in row] for name, row in zip("ab", codes, strict=True)
    }
    clf = BayesNetClassifier("tan", "laplace").fit(table, [f"{LONG}{c % 2}" for c in codes[0]])
    return clf, {name: column[:1] for name, column in table.items()}


def test_long_values_of_a_table_are_told_apart(long_values):
    clf, _ = long_values
    for feature in clf.structure_.features:
        ax = drawn(plot_table(clf, feature))
        for labels, table in (
            (ax.get_xticklabels(), clf.network_.table(feature).values),
            (ax.get_yticklabels(), clf.network_.table(feature).contexts),
        ):
            texts = [label.get_text() for label in labels]
            assert len(set(texts)) == len(texts) == len(table)
            assert max(map(len, texts)) <= 56
        effect = drawn(plot_effect(clf, feature))
        texts = [label.get_text() for label in effect.get_yticklabels()]
        assert len(set(texts)) == 3


def test_a_printed_explanation_fits_a_line(long_values):
    lines = repr(explain_row(*long_values)).splitlines()
    assert max(map(len, lines)) <= 160
    features = [line for line in lines if line.startswith("a long text value")]
    assert len({line[:36] for line in features}) == 2
    assert explain_row(*long_values).features[0].startswith(LONG)  # whole as data
    assert len(explain_row(*long_values).why_silent()) <= 3 * 160


def test_calibration_of_two_and_more_classes(model, wide):
    X, y = wide
    ax = drawn(plot_calibration(model, X, y))
    assert len(ax.containers) == 3
    binary = BayesNetClassifier("naive", "laplace").fit(X, y == "no")
    with pytest.raises(ConfigurationError, match=r"n_bins=0\. Allowed: an integer of at least 1"):
        plot_calibration(model, X, y, n_bins=0)
    ax = drawn(plot_calibration(binary, X, y == "no"))
    assert len(ax.containers) == 1
    heights = ax.containers[0].lines[0].get_ydata()
    bins = reliability_bins(binary.predict_proba(X)[:, 1], y == "no")
    assert heights.tolist() == [share for _, share, _ in bins]
    shares = np.average(heights, weights=[n_rows for *_, n_rows in bins])
    assert shares == pytest.approx((y == "no").mean(), abs=1e-4)


def test_html_is_small_and_escaped(model):
    for html in (model._repr_html_(), model.network_._repr_html_()):
        assert len(html) < 80_000
        assert "<script" not in html
        assert "http" not in html
    assert "not fitted" in BayesNetClassifier()._repr_html_()
    odd = BayesNetClassifier("naive", "laplace").fit([["<b>"], ["'\""]], ["<i>", "&"])
    html = odd._repr_html_()
    assert "&lt;i&gt;" in html
    assert "<i>" not in html


def test_an_effect_is_drawn_with_its_intervals():
    import pyarrow as pa

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    hours = np.where(rng.random(400) < 0.1, np.nan, y + rng.normal(0, 0.7, 400))
    job = np.where(rng.random(400) < 0.5, "a$", np.where(y, "b", "c"))
    table = pa.table({"hours": pa.array(hours, from_pandas=True), "job": job})
    clf = BayesNetClassifier("tan", "laplace").fit(table, y)
    information = NetworkInformation(clf.network_)
    ax = drawn(plot_effect(clf, "job", table, y))
    bars = sorted(bar.get_width() for bar in ax.patches)
    assert bars == pytest.approx(sorted(information.effect("job", 1)))
    assert len(ax.collections[0].get_segments()) == 3
    ax = drawn(plot_effect(clf.network_, "hours", table, y))
    steps = next(p for p in ax.patches if hasattr(p, "get_data"))
    assert steps.get_data().values == pytest.approx(information.effect("hours", 1)[:-1])
    assert "missing" in [text.get_text() for text in ax.texts]
    mine = Figure().add_subplot()
    assert plot_effect(clf, "job", target=0, ax=mine) is mine
    assert mine.get_xlabel() == "log-odds of 0"
    with pytest.raises(ConfigurationError, match="'pay' is not in the network"):
        plot_effect(clf, "pay")
    with pytest.raises(ConfigurationError, match="not one of the classes"):
        plot_effect(clf, "job", target="?")


def test_intervals_of_counts_hold_the_true_log_odds_as_often_as_they_say():
    rng = np.random.default_rng(0)
    p, q, inside = 0.3, 0.15, 0
    truth = np.log(p / q)
    for _ in range(600):
        own, other = rng.binomial(200, p), rng.binomial(300, q)
        counts = np.array([[300 - other, 200 - own], [other, own]], float)
        low, high = count_interval(counts, 1)[:, 1]
        inside += low <= truth <= high
    assert 0.93 <= inside / 600 <= 0.97


def test_the_card_shows_the_network_and_what_says_most(wide):
    X, y = wide
    small = BayesNetClassifier("tan", "laplace").fit(X.select(X.column_names[:6]), y)
    html = small._repr_html_()
    assert html.count('<g class="node"') == 6
    n_edges = sum(map(len, small.structure_.parent_indices))
    assert html.count('<g class="edge"') == n_edges > 0
    assert "most informative features" in html
    assert "beyond parents" in html
    assert 'role="button"' not in html
    large = BayesNetClassifier("tan", "laplace").fit(X, y)._repr_html_()
    assert large.count('<g class="node') <= 60
    assert "<svg" in large


def test_a_large_table_is_a_heat_map_of_its_most_probable_contexts():
    """Two parents of 24 values and two classes: 1,152 contexts, of which 400 are drawn."""
    import pyarrow as pa

    from tanager.structure import Fixed

    rng = np.random.default_rng(0)
    n = 3000
    a = np.minimum(rng.geometric(0.12, n), 24)
    b = np.minimum(rng.geometric(0.12, n), 24)
    table = pa.table({"a": a.astype(str), "b": b.astype(str), "x": (a % 3).astype(str)})
    given = Fixed({"a": [], "b": [], "x": ["a", "b"]})
    clf = BayesNetClassifier(given, "laplace", audit=False).fit(table, a > 6)
    ax = drawn(plot_table(clf, "x", sort="center"))
    shown = np.asarray(ax.images[0].get_array())
    assert shown.shape == (400, 3)
    assert (np.diff(shown @ np.arange(3)) >= -1e-12).all()
    assert "(400 of 1,152 contexts)" in ax.get_title(loc="left")
    assert len(ax.get_yticklabels()) == 40
    weights = np.moveaxis(NetworkInformation(clf.network_).context("x"), -1, 0).ravel()
    kept = np.sort(np.argsort(-weights, kind="stable")[:400])
    expected = clf.network_.table("x").probabilities[kept]
    assert sorted(map(tuple, shown)) == sorted(map(tuple, expected))
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_a_notebook_shows_what_a_plot_returns(model, wide):
    pictures = [
        plot_network(model),
        plot_table(model, model.structure_.features[0]),
        plot_explanation(model, wide[0].slice(0, 1)),
    ]
    for shown in pictures:
        assert shown._repr_svg_().startswith("<svg ")
    ours = Figure().add_subplot()  # whoever gives axes shows them
    assert not hasattr(plot_effect(model, model.structure_.features[0], ax=ours), "_repr_svg_")
    assert pickle.loads(pickle.dumps(pictures[1])).get_title(loc="left")


@pytest.mark.parametrize("rows", [1, 150, 5_000])
def test_a_beeswarm_has_a_dot_per_row_and_feature_at_what_it_adds(rows):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"n": rng.normal(size=rows + 60), "c": rng.choice(list("ab"), rows + 60)})
    y = (X["n"] + (X["c"] == "a") + rng.normal(size=len(X)) > 0).to_numpy()
    clf = BayesNetClassifier("tan", "m-estimate").fit(X, y)
    ax = plot_beeswarm(clf, X[:rows])
    dots = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
    added = clf.explain(X[:rows])
    step = -(-rows // 2_000)
    wanted = np.sort(added.to_numpy()[::step].ravel())
    assert np.sort(dots[:, 0]) == pytest.approx(wanted)
    order = np.abs(added).mean().sort_values(ascending=False).index
    assert [label.get_text() for label in ax.get_yticklabels()] == list(order)
    for line, name in enumerate(order):
        near = np.abs(dots[:, 1] - line) < 0.5
        assert np.sort(dots[near, 0]) == pytest.approx(np.sort(added[name].to_numpy()[::step]))
