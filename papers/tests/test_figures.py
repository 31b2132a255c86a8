from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from tanager.evaluation.metrics import reliability
from tanager.evaluation.statistics import nemenyi
from tanager.report.style import INK
from tanager_papers import plots as figures
from tanager_papers.plots import to_svg

RNG = np.random.default_rng(0)
LOSSES = RNG.beta(1, 4, (20, 4))
P = RNG.dirichlet([0.5] * 3, 200)

PICTURES = {
    "scatter": lambda ax=None: figures.plot_loss_scatter(
        LOSSES[:, 0], LOSSES[:, 1], ("one", "two"), labels=[f"t{i}" for i in range(20)], ax=ax
    ),
    "scatter of times": lambda ax=None: figures.plot_loss_scatter(
        LOSSES[:, 0], LOSSES[:, 1], ("one", "two"), log=True, ax=ax
    ),
    "critical difference": lambda ax=None: figures.plot_critical_difference(
        "abcd", nemenyi(LOSSES), ax=ax
    ),
    "reliability": lambda ax=None: figures.plot_reliability(
        {"a": reliability(P, P.argmax(1)), "b": reliability(P, P.argmin(1))}, ax=ax
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_become_svg_in_the_pages_colours(name):
    svg = to_svg(PICTURES[name]().figure, title="a < b")
    ElementTree.fromstring(svg)
    assert 'aria-label="a &lt; b"' in svg
    assert "currentColor" in svg
    assert INK not in svg
    assert not re.search(r"https?://(?!www\.w3\.org)", svg)


def test_a_picture_is_the_same_bytes_twice():
    once, twice = (to_svg(PICTURES["scatter"]().figure, title="x") for _ in range(2))
    assert once == twice


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_use_the_callers_axes_and_leave_its_style_alone(name):
    before = dict(mpl.rcParams)
    ax = Figure().add_subplot()
    assert PICTURES[name](ax) is ax
    assert dict(mpl.rcParams) == before


def test_the_scatter_says_who_wins():
    ax = figures.plot_loss_scatter([0.1, 0.2, 0.3], [0.2, 0.3, 0.1], ("one", "two"))
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["one wins 2", "two wins 1"]
    assert ax.get_xlim() == ax.get_ylim()


def test_the_diagram_names_every_classifier_with_its_rank():
    scores = np.array([[1.0, 2, 3], [1, 2, 3], [2, 1, 3], [1, 2, 3]])
    texts = [t.get_text() for t in figures.plot_critical_difference("abc", nemenyi(scores)).texts]
    assert {"a  1.25", "b  1.75", "3.00  c"} < set(texts)
