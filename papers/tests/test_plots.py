"""The papers' plots are drawn in the style of the package's."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from tanager.report.style import INK
from tanager_papers import Curves, plots
from tanager_papers.plots import to_svg

CURVES = Curves(np.array([10.0, 100, 1000]), ("a", "b"), np.ones((2, 3)), np.full((2, 3), 0.1))
LOSSES = np.random.default_rng(0).beta(1, 4, (3, 4))
PICTURES = {
    "convergence": lambda ax=None: plots.plot_convergence(
        {"w": [3, 2, 1], "d": [3, 2.5, 2, 1.5]}, ax=ax
    ),
    "histogram": lambda ax=None: plots.plot_convergence_histogram(
        {"d": [1, 5, -2], "e": [0, 9, 9]}, ax=ax
    ),
    "curves": lambda ax=None: plots.plot_curves(CURVES, ax=ax),
    "surface": lambda ax=None: plots.plot_surface(LOSSES, (1, 3), ax=ax),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_become_svg_in_the_pages_colours(name):
    svg = to_svg(PICTURES[name]().figure, title="a < b")
    ElementTree.fromstring(svg)
    assert 'aria-label="a &lt; b"' in svg
    assert "currentColor" in svg
    assert INK not in svg
    assert not re.search(r"https?://(?!www\.w3\.org)", svg)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_use_the_callers_axes_and_leave_its_style_alone(name):
    before = dict(mpl.rcParams)
    ax = Figure().add_subplot()
    assert PICTURES[name](ax) is ax
    assert dict(mpl.rcParams) == before
