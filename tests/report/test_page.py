from __future__ import annotations

import re
from html import escape
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.report.balance import Balance

from tanager.evaluation import Contender, CrossValidation, Dataset, Experiment
from tanager.evaluation.statistics import win_draw_loss
from tanager.evaluation.summary import summarize
from tanager.report import write_comparison
from tanager.report.page import render_comparison


def make_dataset(name: str, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=80)
    x = y + rng.normal(scale=0.7, size=80)
    return Dataset(name, pa.table({"x": x, "z": rng.normal(size=80), "class": y.astype(str)}))


@pytest.fixture(scope="module")
def results():
    tree = "sklearn.tree.DecisionTreeClassifier(max_depth={})@native"
    experiment = Experiment(
        [make_dataset(name, i) for i, name in enumerate(["wine", "Iris & Co", "<adult>", "zoo"])],
        [
            Contender("stump", tree.format(1)),
            Contender("tree", tree.format(3)),
            Contender("deep <b>", tree.format(8)),
        ],
        CrossValidation(2, 2),
        metrics=["zero_one_loss", "calibration_error"],
        name="Trees & <depth>",
    )
    return experiment.run()


def test_the_page_is_whole_and_self_contained(written):
    page = written.read_text(encoding="utf-8")
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    outside = re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)
    assert [o for o in outside if "xlink" not in o] == []
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    assert "prefers-color-scheme: dark" in page
    assert "&lt;adult&gt;" in page
    assert "Trees &amp; &lt;depth&gt;" in page


def test_every_mean_is_on_the_page(results, written):
    page = written.read_text(encoding="utf-8")
    for metric in results.metrics:
        for row in results.mean(metric).values:
            for value in row:
                assert f">{value:.4f}</td>" in page


def test_the_page_says_what_is_of_a_rounds_rows_together(written):
    page = written.read_text(encoding="utf-8")
    assert "Calibration error: computed over all held-out rows of a round" in page
    assert page.count("Over all held-out rows of a round, averaged over rounds.") == 1
    assert page.count("<caption>Mean over cells.</caption>") == 1


def test_failed_cells_are_listed():
    failing = "sklearn.svm.SVC(kernel='nothing', probability=True)@native"
    experiment = Experiment([make_dataset("t", 0)], [failing], CrossValidation(1, 2))
    page = render_comparison(experiment.run())
    assert "Failed cells" in page
    assert "kernel" in page


def test_a_report_that_cannot_be_written_leaves_nothing(results, tmp_path, monkeypatch):
    monkeypatch.setattr("tanager.report.page.render_comparison", lambda _: "page")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_comparison(results, tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_the_page_needs_no_matplotlib(results, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    page = render_comparison(results)
    assert page.count("<svg") == 5  # ranks twice, two classifiers against the best, calibration


def test_the_figures_say_who_wins_and_every_rank(results):
    page, summary = render_comparison(results), summarize(results, "zero_one_loss")
    best, other = list(summary.ranks)[:2]
    record = win_draw_loss(summary.scores.of(best), summary.scores.of(other))
    first, second = escape(best), escape(other)
    assert f">{first} wins {record.wins}</text>" in page
    assert f">{second} wins {record.losses}</text>" in page
    for at, (name, rank) in enumerate(summary.ranks.items()):
        text = f"{escape(name)}  {rank:.2f}" if at < 2 else f"{rank:.2f}  {escape(name)}"
        assert f">{text}</text>" in page
    assert f"critical difference {summary.nemenyi.critical_difference:.2f}" in page


@pytest.fixture(scope="module")
def written(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_comparison(results, path)
    return path


@pytest.fixture
def opened(browser, written):
    def open_page(**options):
        page = browser.new_context(**options).new_page()
        problems: list[str] = []
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:")) else problems.append(r.url),
        )
        page.goto(written.as_uri())
        return page, problems

    return open_page


@pytest.mark.browser
def test_the_page_opens_and_sorts_in_a_browser(opened):
    page, problems = opened()
    table = page.locator("table.sortable").first
    names = table.locator("tbody td:first-child")
    assert names.all_text_contents() == ["wine", "Iris & Co", "<adult>", "zoo"]
    table.get_by_role("button", name="dataset").click()
    assert names.all_text_contents() == sorted(names.all_text_contents(), key=str.lower)
    column = table.locator("tbody td:nth-child(3)")
    for direction, reverse in (("ascending", False), ("descending", True)):
        table.locator("th button").nth(2).click()
        values = [float(text) for text in column.all_text_contents()]
        assert values == sorted(values, reverse=reverse)
        head = table.locator("th").nth(2)
        assert head.get_attribute("aria-sort") == direction
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for svg in page.locator("figure svg").all():
        box = svg.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 60
    assert problems == []


@pytest.mark.browser
def test_the_page_fits_a_phone(opened):
    page, problems = opened(viewport={"width": 380, "height": 720})
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    assert problems == []


@pytest.mark.browser
def test_the_page_turns_dark(opened):
    colours = []
    for scheme in ("light", "dark"):
        page, problems = opened(color_scheme=scheme)
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        text = page.locator("figure svg text").first
        ink = text.evaluate("element => getComputedStyle(element).fill")
        body = page.evaluate("getComputedStyle(document.body).color")
        assert ink == body
        assert problems == []
    assert colours[0] != colours[1]
