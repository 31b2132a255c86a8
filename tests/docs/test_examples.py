"""The examples of the documentation, run."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def _blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return [
        (m.group(2), text[: m.start()].count("\n"))
        for m in FENCE.finditer(text)
        if m.group(1) == language
    ]


WITH_EXAMPLES = [p for p in PAGES if any(">>>" in code for code, _ in _blocks(p, "python"))]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_examples_print_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    names = {}
    for code, line in _blocks(page, "python"):
        if ">>>" not in code:
            continue
        example = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
        runner.run(example, clear_globs=False)
        names.update(example.globs)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_code_on_pages_is_code(page):
    for code, line in _blocks(page, "python"):
        if ">>>" not in code:
            compile(code, f"{page.name}:{line + 2}", "exec")


def test_skeletons_of_new_learners_work(tmp_path, monkeypatch):
    """The two skeletons of CONTRIBUTING are learners that fit and predict."""
    from sklearn.base import clone

    from tanager import BayesNetClassifier

    names = {}
    for code, _ in _blocks(ROOT / "CONTRIBUTING.md", "python"):
        exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    clf = BayesNetClassifier(names["Chain"](), names["Dirichlet"](strength=2.0))
    X = [["a", "x", "1"], ["b", "y", "2"], ["a", "y", "1"], ["b", "x", "2"]] * 4
    clf = clone(clf).fit(X, [0, 1, 1, 0] * 4)
    assert clf.structure_.parents["x2"] == ("x1",)
    assert clf.predict_proba(X).shape == (16, 2)
