"""The page in a browser: every control, exact answers, hostile models, access for all."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.report.model_page import render_report
from tanager.structure import Fixed

pytestmark = pytest.mark.browser

ANSWER = """rows => rows.map(codes => {
  codes.forEach((code, i) => { asking.codes[i] = code; });
  return asking.posterior();
})"""


@pytest.mark.parametrize("name", ["tree", "many"])
def test_posteriors_are_those_of_predict_proba(name, request, opened):
    clf = request.getfixturevalue(name)
    clf = clf[0] if isinstance(clf, tuple) else clf
    network = clf.network_
    rng = np.random.default_rng(2)
    arities = network.codebook.domain.arities
    codes = np.array([rng.integers(0, n, 200) for n in arities], np.uint8)
    unknown = rng.random(codes.shape) < rng.random(200)
    codes = np.where(unknown, arities[:, None], codes).astype(np.uint8)
    page, problems = opened(render_report(clf))
    found = np.array(page.evaluate(ANSWER, codes.T.tolist()))
    joint = network.log_joint_of_codes(codes)
    expected = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
    assert np.abs(found - expected).max() < 1e-6
    assert problems == []


def test_raw_values_answer_as_predict_proba(tree, people, opened):
    page, problems = opened(render_report(tree))
    X = people.drop(["income"])
    for row in (0, 1, 2, 30):
        values = X.slice(row, 1).to_pylist()[0]
        page.evaluate("row => asking.setAll(row)", values)
        found = page.evaluate("asking.posterior()")
        assert found == pytest.approx(tree.predict_proba(X.slice(row, 1))[0], abs=1e-9)
    assert problems == []


def test_every_control_of_what_if_works(tree, page, opened):
    view, problems = opened(page, permissions=["clipboard-read", "clipboard-write"])
    form = view.locator("#asking")
    known = view.locator(".answer .quiet")
    shown = view.locator(".answer [data-class='1']")
    before = shown.inner_text()
    age = form.get_by_label("age", exact=True)
    age.fill("60")
    known.get_by_text("1 of 4 known").wait_for()
    assert shown.inner_text() != before
    assert view.locator("svg.chart[aria-label*='age']").count() >= 1
    form.get_by_label("married", exact=True).select_option("yes")
    known.get_by_text("2 of 4 known").wait_for()
    form.get_by_label("hours, by interval").press("ArrowRight")
    known.get_by_text("3 of 4 known").wait_for()
    view.locator(".control", has=view.get_by_label("hours", exact=True)).get_by_role(
        "button", name="missing"
    ).click()
    form.get_by_label("job", exact=True).select_option("missing")
    known.get_by_text("4 of 4 known").wait_for()
    table = pa.table(
        {
            "age": pa.array([60]),
            "married": pa.array(["yes"]),
            "hours": pa.array([None], pa.float64()),
            "job": pa.array([None], pa.string()),
        }
    )
    assert view.evaluate("asking.posterior()") == pytest.approx(tree.predict_proba(table)[0])
    view.get_by_text("All features are known.").wait_for()
    view.get_by_role("button", name="Copy as JSON").click()
    view.get_by_text("JSON copied.").wait_for()
    copied = json.loads(view.evaluate("navigator.clipboard.readText()"))
    assert copied["known"] == {"age": 60, "married": "yes", "hours": None, "job": None}
    assert sum(copied["probabilities"].values()) == pytest.approx(1)
    view.get_by_role("button", name="Copy as link").click()
    view.get_by_text("Link copied.").wait_for()
    link = view.evaluate("navigator.clipboard.readText()")
    expected = view.evaluate("asking.posterior()")
    view.get_by_role("button", name="Reset").click()
    known.get_by_text("0 of 4 known").wait_for()
    again, more = opened(page, hash_="#" + link.partition("#")[2])
    assert again.evaluate("asking.posterior()") == pytest.approx(expected)
    assert problems == more == []


@pytest.mark.parametrize("name", ["tree", "many"])
def test_the_page_decides_and_asks_as_python_does(name, request, opened):
    clf = request.getfixturevalue(name)
    clf = clf[0] if isinstance(clf, tuple) else clf
    labels = clf.classes_.tolist()
    costs = {
        "treat": dict(zip(labels, (3, 0, 2), strict=False)),
        "<b>wait</b>": dict(zip(labels, (0, 5, 4), strict=False)),
        "ask": 1.25,
    }
    prices = {"age": 0.02, "hours": 0.3}
    page, problems = opened(render_report(clf, costs=costs, prices=prices))
    said = page.locator(".decision [role=status]")
    for row in ({}, {"married": "yes"}, {"age": 70, "job": "tech"}, {"age": 20, "married": "no"}):
        page.evaluate("row => asking.setAll(row)", row)
        wanted = clf.next_question(row, costs, prices=prices)
        said.filter(has_text=wanted.action).wait_for()
        page.locator(".questions li button").first.wait_for()
        page.wait_for_timeout(100)
        found = page.locator(".questions li").all_inner_texts()
        for line, q in zip(found, wanted.questions, strict=False):
            price = f" for {q.price:g}" if q.price else ""
            assert line.split("\n") == [q.feature, f"saves {q.gain:.3f}{price}"]
        chosen = page.locator("table.decide tr.chosen")
        assert chosen.locator("th").inner_text() == wanted.action
        assert float(chosen.locator("td.num").inner_text()) == pytest.approx(wanted.now, abs=0.006)
    page.get_by_label(f"ask where {labels[0]}", exact=True).fill("-100")
    said.filter(has_text="ask").wait_for()
    assert problems == []


def test_the_next_question_is_the_one_that_lowers_entropy_most(tree, opened):
    page, problems = opened(render_report(tree))
    page.evaluate("() => { asking.set(1, 'yes'); asking.update(); }")
    page.locator(".questions li button").first.wait_for()
    page.wait_for_timeout(100)
    found = page.locator(".questions li").all_inner_texts()
    network = tree.network_
    arities = network.codebook.domain.arities

    def posterior(codes):
        joint = np.exp(network.log_joint_of_codes(codes))
        return joint / joint.sum(axis=1, keepdims=True), joint.sum(axis=1)

    def bits(p):
        return -(p * np.log2(p)).sum(axis=1)

    base = np.array(arities, np.uint8)[:, None].copy()
    base[1] = network.codebook.columns[1].labels().index("yes")
    p, mass = posterior(base)
    gains = {}
    for i in (0, 2, 3):
        codes = np.repeat(base, arities[i], axis=1)
        codes[i] = np.arange(arities[i])
        q, part = posterior(codes)
        gains[network.codebook.columns[i].name] = bits(p)[0] - (part / mass * bits(q)).sum()
    order = sorted(gains, key=lambda name: -gains[name])
    assert [text.split("\n")[0] for text in found] == order
    for text in found:
        name, gain = text.split("\n")
        assert float(gain.removeprefix("−").removesuffix(" bits")) == pytest.approx(
            gains[name], abs=6e-4
        )
    assert problems == []


def test_network_features_and_trust_answer_to_mouse_and_keyboard(page, opened):
    view, problems = opened(page)
    node = view.get_by_role("button", name="married", exact=True).first
    node.click()
    assert node.get_attribute("aria-pressed") == "true"
    assert view.locator("#inspector h3").inner_text() == "married"
    node.press("ArrowLeft")
    view.get_by_role("button", name="Larger").click()
    view.get_by_role("button", name="All", exact=True).click()
    assert view.locator(".class-edges").first.is_visible()
    view.locator("#picker").get_by_role("button", name="hours").click()
    assert "missing value contributes" in view.locator("#effect").inner_text()
    view.locator("#effect summary").click()
    view.locator("#effect tbody tr").nth(1).wait_for()
    view.locator("#picker").get_by_role("button", name="married").click()
    view.get_by_label("Given").select_option(index=1)
    assert view.locator("#effect svg.chart").count() == 1
    view.get_by_label("Threshold", exact=True).focus()
    facts = view.locator(".big div", has_text="cost per 1,000 rows")
    before = facts.inner_text()
    view.get_by_label("Cost of a false positive (> 50 <k> predicted as ≤ 50 & less)").fill("9")
    assert facts.inner_text() != before
    assert "0.900" in view.locator(".big div", has_text="optimal if calibrated").inner_text()
    view.locator(".ranks a").first.click()
    assert problems == []


@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
def test_a_model_of_one_class_and_odd_columns_draws_all_the_same(opened):
    n = 60
    start = np.datetime64("2020-01-01", "us")
    table = pa.table(
        {
            "when": pa.array(start + np.arange(n) * np.timedelta64(1, "D")),
            "flag": pa.array([i % 2 == 0 for i in range(n)]),
            "empty": pa.nulls(n, pa.float64()),
            "same": ["x"] * n,
        }
    )
    for labels in (["a"] * n, ["a"] * (n // 2) + ["b"] * (n // 2)):
        clf = BayesNetClassifier("naive", "laplace", audit=False).fit(table, labels)
        view, problems = opened(render_report(clf, table, labels, folds=0))
        for button in view.locator("#picker button").all():
            button.click()
        view.get_by_label("flag", exact=True).last.select_option("True")
        assert problems == []


def hostile() -> tuple[pa.Table, np.ndarray, dict[str, list[str]]]:
    """300 features, 50 classes, 10,000 values in one column, names that are markup."""
    rng = np.random.default_rng(0)
    n = 12_000
    y = rng.integers(0, 50, n)
    columns = {
        "</script><script>alert(1)</script>": [f"v{v % 10_000}" for v in range(n)],
        '"><img src=x onerror=alert(1)>': [f"<b>{v}" for v in y % 7],
        "{{title}}": [f"'{v}\"" for v in (y + rng.integers(0, 3, n)) % 5],
        "🙂 名前 " + "x" * 200: [f"{v}" for v in y % 3],
        "": ["a" if v else "b" for v in y % 2],
    }
    for i in range(295):
        noise = np.where(rng.random(n) < 0.5, y, rng.integers(0, 50, n))
        columns[f"f{i}"] = [f"{v}" for v in noise % 3]
    names = list(columns)
    parents = {name: [names[(i - 1) // 2]] if i > 1 else [] for i, name in enumerate(names)}
    parents[names[0]], parents[names[1]] = [names[2]], []
    parents[names[2]] = []
    labels = np.array([f"<i>class {v}</i>&amp;" for v in y], dtype=object)
    return pa.table(columns), labels, parents


def test_a_hostile_model_renders_soon_and_small(opened):
    X, y, parents = hostile()
    clf = BayesNetClassifier(Fixed(parents), "laplace", audit=False).fit(X, y)
    text = render_report(clf, X.slice(0, 1000), y[:1000])
    assert len(text.encode()) < 3_000_000
    assert "of the 300 features; the other" in text
    page, problems = opened(text, viewport={"width": 1400, "height": 900})
    assert problems == []
    assert page.locator("img").count() == 0
    assert page.locator(".network .node").count() == 300
    assert 10 < page.evaluate("asking.model.features.length") <= 80
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_has_no_serious_barrier(page, opened, axe, width, scheme):
    view, problems = opened(
        page, viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    view.add_script_tag(content=axe)
    found = view.evaluate("axe.run()")["violations"]
    serious = [
        (v["id"], [n["target"] for n in v["nodes"]][:3])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert problems == []


@pytest.fixture(scope="session")
def axe(tmp_path_factory, pytestconfig) -> str:
    """axe-core's source, from npm, kept in pytest's cache."""
    folder = Path(pytestconfig.cache.mkdir("axe"))
    source = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed, and axe-core comes from it")
        command = [npm, "install", "--no-save", "--silent", "--prefix", str(folder), "axe-core"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"axe-core could not be installed from npm: {error}")
    return source.read_text(encoding="utf-8")


INTERVALS = """rows => rows.map(codes => {
  codes.forEach((code, i) => { asking.codes[i] = code; });
  return asking.intervals();
})"""


@pytest.mark.parametrize(
    ("structure", "parameters"),
    [("tan", "hdp"), ("kdb(k=2)", "m-estimate"), ("auto", "layered")],
)
def test_intervals_of_complete_rows_are_those_of_predict_interval(
    people, opened, structure, parameters
):
    clf = BayesNetClassifier(structure, parameters, random_state=0).fit(people, "income")
    network = clf.network_
    page, problems = opened(render_report(clf))
    X = people.drop(["income"]).slice(0, 40)
    codes = network.codebook.encode(X)[list(network.structure.selected)]
    found = page.evaluate(INTERVALS, codes.T.tolist())
    expected = clf.predict_interval(X, level=0.9)
    assert np.abs(np.array(found) - expected).max() < 1e-4
    arities = network.codebook.domain.arities[list(network.structure.selected)]
    gap = codes[:, 0].copy()
    gap[int(arities.argmax())] = arities.max()
    assert page.evaluate(INTERVALS, [gap.tolist()]) == [None]
    page.evaluate("asking.update()")
    page.get_by_text("Fill in every feature to see 90 % credible intervals.").wait_for()
    page.evaluate("row => asking.setAll(row)", X.slice(0, 1).to_pylist()[0])
    page.get_by_text("It covers the uncertainty from having few training rows").wait_for()
    shown = page.locator(".answer .num.quiet").all_inner_texts()
    ends = [[float(end) for end in text.removesuffix(" %").split(" – ")] for text in shown]
    assert np.abs(np.array(ends) - 100 * expected[0]).max() < 0.1
    assert problems == []


def test_a_model_without_spread_has_no_intervals(tree, opened):
    table = tree.network_.table("job").probabilities.reshape(2, 5, 5)
    page, problems = opened(render_report(tree.network_.with_table("job", table)))
    assert page.evaluate("asking.intervals()") is None
    assert "credible" not in page.locator(".answer").inner_text()
    assert problems == []
