"""Pages of the papers: Markdown, figures, HTML, index."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from tanager_papers.findings import Block, Claim, Findings, Part, Picture
from tanager_papers.pages import DRAWINGS, write_findings, write_index
from tanager_papers.plots import lower_hull

RNG = np.random.default_rng(0)
LOSSES = RNG.beta(1, 4, (9, 3))
DATA = {
    "scatter": {"a": LOSSES[:, 0], "b": LOSSES[:, 1], "names": ["one", "two"]},
    "scatters": {"x": LOSSES[:, 0], "others": {"d": LOSSES[:, 1]}, "name": "w", "log": True},
    "bars": {"groups": ["a", "b"], "series": {"x": [1, 2], "y": [3, 4]}, "line": 1.0, "log": True},
    "convergence": {"traces": {"w": [3, 2, 1], "d": [3, 2.5, 2]}},
    "histogram": {"behind": {"d": [1, 5, -2], "e": [0, 9, 9]}},
    "ranks": {"names": ["w", "d", "e"], "scores": LOSSES},
    "curves": {"x": [1, 2], "lines": {"a": [1.0, 2.0]}, "x_label": "x", "y_label": "y"},
    "margins": {"x": [1, 10], "margins": {"a": [3, -4]}, "x_label": "sweeps", "log": True},
    "envelopes": {
        "groups": {"a": {"x": [0, 1, 2, 3], "y": [3, 1, 2, 1.5]}}, "x_label": "x", "y_label": "y",
    },
}  # fmt: skip


def findings():
    pictures = tuple(Picture(f"p-{kind}", kind, kind, data) for kind, data in DATA.items())
    block = Block("Table 1: a < b", ("x", "y"), [("1 | 2", "<b>")], ("A note.",), pictures)
    claim = Claim("It is so (table 1)", "holds", "9–0–1*")
    part = Part("tables", "Run.", [claim], [block], ["nothing"])
    made_with = {"tanager": "1.2", "classifiers": []}
    command = "tanager reproduce some-2020"
    return Findings("some-2020", "Some & Body (2020).", command, [part], made_with)


def test_every_drawing_has_data_here():
    assert set(DATA) == set(DRAWINGS)


def test_pages_hold_together(tmp_path):
    (tmp_path / "some-2020").mkdir()
    (tmp_path / "some-2020" / "old.svg").write_text("stale")
    markdown, html, data = write_findings(findings(), tmp_path)
    page = markdown.read_text()
    assert "| It is so (table 1) | holds | 9–0–1* |" in page
    assert "Made with tanager 1.2 by `tanager reproduce some-2020" in page
    for kind in DATA:
        file = tmp_path / "some-2020" / f"p-{kind}.svg"
        root = ElementTree.fromstring(file.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in file.read_text()
        assert f"(some-2020/p-{kind}.svg)" in page
    assert not (tmp_path / "some-2020" / "old.svg").exists()
    text = html.read_text()
    assert text.count("<svg") == len(DATA)
    assert "&lt;b&gt;" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    HTMLParser().feed(text)
    assert json.loads(data.read_text())["parts"][0]["blocks"][0]["rows"] == [["1 | 2", "<b>"]]
    assert "cells.parquet" not in page


def test_a_page_comes_with_every_fit(tmp_path):
    with_cells = findings()
    with_cells.cells = pa.table({"run": ["one"], "log_loss": [0.25]})
    markdown, *_ = write_findings(with_cells, tmp_path)
    assert "[cells.parquet](some-2020/cells.parquet)" in markdown.read_text()
    assert parquet.read_table(tmp_path / "some-2020" / "cells.parquet").equals(with_cells.cells)


def test_the_index_gathers_claims_of_all_pages(tmp_path):
    write_findings(findings(), tmp_path)
    other = findings()
    other.paper = "other-2021"
    other.parts[0].claims = [Claim("It is not", "does not hold", "0–9–1")]
    write_findings(other, tmp_path)
    page = write_index(tmp_path).read_text()
    assert "| paper | claims | holds | holds in part | undecided | does not hold |" in page
    assert "| all | 2 | 1 | 0 | 0 | 1 | 0 |" in page
    assert "if none of the 2 claims tested were true, up to 0 of those" in page
    assert page.index("other-2021.md") < page.index("some-2020.md")


def test_the_lower_hull_is_below_every_point():
    x, y = RNG.normal(size=(2, 40))
    hull = lower_hull(x, y)
    assert (np.diff(x[hull]) > 0).all()
    below = np.interp(x, x[hull], y[hull])
    assert (y >= below - 1e-12).all()
    assert {int(x.argmin()), int(x.argmax()), int(y.argmin())} <= set(hull)
