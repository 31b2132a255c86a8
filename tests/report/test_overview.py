"""The first screen of a comparison, with few and many classifiers, tables and letters."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

from tanager.evaluation.metrics import COSTS
from tanager.evaluation.results import Results
from tanager.evaluation.statistics import average_ranks, critical_difference
from tanager.evaluation.summary import score_intervals, verdict
from tanager.report import plot_comparison
from tanager.report.page import dot_plot, render_comparison, scale_ticks, score_table

METRICS = ("accuracy", "log_loss")


def make_results(n_classifiers, n_tables, *, long=False, failed=False, n_cells=4):
    """Cells with made-up scores: what a page shows of them does not depend on how they came."""
    rng = np.random.default_rng(0)
    tail = " with options(form='weighted', level=3, towards='generative')" if long else ""
    names = [f"classifier {j}{tail}" for j in range(n_classifiers)]
    tables = [f"table {i}{tail}" for i in range(n_tables)]
    records = []
    for table in tables:
        hard = rng.uniform(0.2, 0.8)
        for j, name in enumerate(names):
            for fold in range(n_cells):
                loss = hard * (1 + 0.05 * j + rng.normal(0, 0.05))
                ok = not (failed and j == n_classifiers - 1)
                cell = {"dataset": table, "classifier": name, "round": 0, "fold": fold}
                cell |= {"n_train": 75, "n_test": 25, "status": "ok" if ok else "failed"}
                cell |= {"error": None if ok else "ImportError: no module <xgb>"}
                cell |= {"log_loss": loss, "accuracy": 1 - loss / 2}
                records.append(cell | dict.fromkeys(COSTS, 1.0))
    description = {
        "name": f"A comparison{tail}",
        "datasets": [{"name": name} for name in tables],
        "classifiers": [{"name": name, "use": name} for name in names],
        "protocol": {"rounds": 1, "folds": n_cells},
        "metrics": list(METRICS),
        "seed": 0,
    }
    return Results(description, records)


def test_intervals_of_one_table_are_corrected_for_shared_rows():
    results = make_results(3, 1, n_cells=5)
    intervals = score_intervals(results, "log_loss")
    for at, name in enumerate(intervals.names):
        values = np.array([c["log_loss"] for c in results.cells("log_loss", "table 0", name)])
        half = stats.t.ppf(0.975, 4) * values.std(ddof=1) * np.sqrt(1 / 5 + 1 / 3)
        assert intervals.centers[at] == pytest.approx(values.mean())
        assert intervals.lows[at] == pytest.approx(values.mean() - half)
        assert intervals.highs[at] == pytest.approx(values.mean() + half)
    assert list(intervals.centers) == sorted(intervals.centers)
    best_first = score_intervals(results, "accuracy").centers
    assert list(best_first) == sorted(best_first, reverse=True)
    one = score_intervals(make_results(2, 1, n_cells=1), "log_loss")
    assert one.lows == one.centers == one.highs
    assert "no interval can be estimated" in one.meaning


def test_intervals_of_many_tables_overlap_where_nemenyi_does_not_tell_apart():
    results = make_results(6, 12)
    intervals = score_intervals(results, "log_loss")
    ranks = average_ranks(results.mean("log_loss").losses)
    assert sorted(intervals.centers) == pytest.approx(sorted(ranks))
    difference = critical_difference(6, 12)
    for i in range(6):
        for j in range(i + 1, 6):
            overlap = intervals.highs[i] >= intervals.lows[j]
            assert overlap == (abs(intervals.centers[i] - intervals.centers[j]) <= difference)
    assert min(intervals.lows) >= 1
    assert max(intervals.highs) <= 6


@pytest.mark.parametrize("n_tables", [1, 5])
def test_the_table_has_every_mean_with_its_deviation(n_tables):
    results = make_results(4, n_tables)
    table = score_table(results)
    ranked = n_tables > 1
    assert table["columns"] == ["average rank"] * ranked + ["log-loss ↓", "accuracy ↑"]
    by_name = {row["name"]: row["cells"][ranked:] for row in table["rows"]}
    for at, metric in enumerate(("log_loss", "accuracy")):
        scores, spread = results.mean(metric), results.deviation(metric)
        means = scores.values.mean(axis=0)
        for j, name in enumerate(scores.classifiers):
            cell = by_name[name][at]
            assert cell.text == f"{means[j]:.4f}"
            assert cell.spread == f"± {np.sqrt((spread.values[:, j] ** 2).mean()):.4f}"
        best = means.max() if scores.greater else means.min()
        assert [c[at].best for c in by_name.values()] == [
            c[at].sort == best for c in by_name.values()
        ]
    page = render_comparison(results)
    first = page[: page.index("<nav")]
    assert verdict(results) in first.replace("&#39;", "'").replace("&lt;", "<")
    for cells in by_name.values():
        assert all(f">{cell.text}<span" in first for cell in cells)


def test_one_cell_has_no_deviation_and_a_shared_rank_no_winner():
    alone = score_table(make_results(2, 1, n_cells=1))
    assert [cell.spread for row in alone["rows"] for cell in row["cells"]] == [""] * 4
    results = make_results(2, 2)
    for record in results.records:  # each is best on one table
        better = record["classifier"][-1] == record["dataset"][-1]
        record["log_loss"] = 0.2 if better else 0.4
    ranks = [row["cells"][0] for row in score_table(results)["rows"]]
    assert [(cell.text, cell.best) for cell in ranks] == [("1.50", True)] * 2


def test_a_classifier_that_failed_is_a_row_with_its_reason():
    page = render_comparison(make_results(3, 1, failed=True))
    first = page[: page.index("<nav")]
    assert "failed: ImportError: no module &lt;xgb&gt;" in first
    assert len(score_table(make_results(3, 1, failed=True))["rows"]) == 3


def test_dots_stand_where_their_values_are():
    results = make_results(5, 1)
    dots, intervals = dot_plot(results), score_intervals(results, "log_loss")
    (first, left), (last, right) = dots["ticks"][0], dots["ticks"][-1]
    assert (left, right) == (0, 100)
    low, span = float(first), float(last) - float(first)
    for at, (_, *values) in enumerate(dots["rows"]):
        assert values == [intervals.centers[at], intervals.lows[at], intervals.highs[at]]
        for value in values:
            assert low + span * dots["place"](value) / 100 == pytest.approx(value, abs=1e-3)
    assert dot_plot(make_results(1, 1)) is None
    ax = plot_comparison(results, "log_loss")
    drawn = ax.collections[1].get_offsets()[:, 0]
    assert list(drawn) == pytest.approx(list(intervals.centers))


@pytest.mark.parametrize(("low", "high"), [(0.23, 0.4), (1, 14.3), (-2, 3), (0.1, 0.10001), (5, 5)])
def test_scales_hold_their_range_with_few_ticks(low, high):
    ticks = scale_ticks(low, high)
    assert ticks[0] <= low <= high <= ticks[-1]
    assert 2 <= len(ticks) <= 7


def test_the_verdict_names_few_and_counts_many():
    few = verdict(make_results(3, 20, long=True))
    assert few.count("…") >= 2
    many = verdict(make_results(15, 20))
    assert re.search(r"than \d+ others \(p", many)
    assert len(many) < 400


CASES = [(2, 1, False), (8, 1, True), (15, 20, False), (15, 20, True)]


@pytest.mark.browser
@pytest.mark.parametrize(("n_classifiers", "n_tables", "long"), CASES)
def test_nothing_is_cut_off_and_no_texts_collide(browser, tmp_path, n_classifiers, n_tables, long):
    file = tmp_path / "page.html"
    results = make_results(n_classifiers, n_tables, long=long, failed=n_tables == 1)
    file.write_text(render_comparison(results), encoding="utf-8")
    for width in (390, 1400):
        context = browser.new_context(viewport={"width": width, "height": 900})
        page = context.new_page()
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # On the first screen no box hides a part of itself or leaves the page.
        outside = page.evaluate(
            """() => [...document.querySelectorAll(".verdict, .first-screen *")].filter((one) => {
              const box = one.getBoundingClientRect();
              return box.width && (box.right > innerWidth + 1 || box.left < -1);
            }).map((one) => one.className + one.textContent.slice(0, 60))"""
        )
        assert outside == []
        texts = page.evaluate(
            """() => [...document.querySelectorAll(
              ".dot-name, .dot-text, .tick span, .scores th, .scores td, .first-screen figcaption")]
              .map((one) => one.getBoundingClientRect())
              .filter((box) => box.width && box.height)
              .map((box) => [box.left, box.top, box.right, box.bottom])"""
        )
        for i, a in enumerate(texts):
            for b in texts[i + 1 :]:
                apart = a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 1 or b[3] <= a[1] + 1
                assert apart, (width, a, b)
        labels = page.evaluate(
            """() => [...document.querySelectorAll("figure svg")].map((svg) => {
              const frame = svg.getBoundingClientRect();
              return [...svg.querySelectorAll("text")].map((one) => one.getBoundingClientRect())
                .filter((box) => box.width && (box.left < frame.left - 2 ||
                                               box.right > frame.right + 2)).length;
            })"""
        )
        assert not any(labels)
        context.close()
