"""Pictures of models: drawn for awkward names and many features, on any axis."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.network.explanation import explain_row
from tanager.report import plot_calibration, plot_explanation, plot_structure, plot_table
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


def test_every_feature_has_a_place_of_its_own(model):
    ax = drawn(plot_structure(model))
    boxes = [t.get_window_extent() for t in ax.texts]
    assert len(boxes) == 60
    for i, a in enumerate(boxes):
        assert not any(a.overlaps(b) for b in boxes[i + 1 :])


def test_names_fit_on_a_given_axis(model):
    ax = Figure(figsize=(24, 12)).add_subplot()
    assert plot_structure(model.network_, ax=ax) is ax
    drawn(ax)
    frame = ax.get_window_extent().padded(8)  # letters are set on whole pixels
    for text in ax.texts:
        box = text.get_window_extent()
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        assert frame.y0 <= box.y0
        assert box.y1 <= frame.y1


def test_every_edge_is_drawn(model):
    ax = plot_structure(model)
    n_edges = sum(map(len, model.structure_.parent_indices))
    assert len(ax.patches) == n_edges


def test_tables_of_any_size(model):
    for feature in model.structure_.features[:3]:
        ax = drawn(plot_table(model, feature))
        table = model.network_.table(feature)
        shown = ax.images[0].get_array()
        assert shown.shape == (min(36, len(table.contexts)), len(table.values))
        assert np.allclose(shown.sum(axis=1), 1)


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


def test_one_panel_a_class(model, wide):
    panels = plot_explanation(model, wide[0].slice(0, 1), target="each")
    assert len(panels) == 3
    drawn(panels[0])
    with pytest.raises(ConfigurationError, match="no ax"):
        plot_explanation(model, wide[0].slice(0, 1), target="each", ax=panels[0])


def test_calibration_of_two_and_more_classes(model, wide):
    X, y = wide
    ax = drawn(plot_calibration(model, X, y))
    assert len(ax.containers) == 3
    binary = BayesNetClassifier("naive", "laplace").fit(X, y == "no")
    ax = drawn(plot_calibration(binary, X, y == "no"))
    assert len(ax.containers) == 1
    heights = ax.containers[0].lines[0].get_ydata()
    assert heights.mean() == pytest.approx((y == "no").mean(), abs=0.01)


def test_html_is_small_and_escaped(model):
    for html in (model._repr_html_(), model.network_._repr_html_()):
        assert len(html) < 40_000
        assert "<script" not in html
        assert "http" not in html
    assert "not fitted" in BayesNetClassifier()._repr_html_()
    odd = BayesNetClassifier("naive", "laplace").fit([["<b>"], ["'\""]], ["<i>", "&"])
    html = odd._repr_html_()
    assert "&lt;i&gt;" in html
    assert "<i>" not in html
