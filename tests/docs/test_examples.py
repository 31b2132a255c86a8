"""The code blocks of the documentation, run as they stand; see `pages.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import NOT_RUN, blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
RUN = ("python", "toml", "")
SKELETONS = ROOT / "CONTRIBUTING.md"  # run by a test of their own
WITH_CODE = [
    page
    for page in PAGES
    if page != SKELETONS and any(language in RUN for language, _, _ in blocks(page))
]


@pytest.fixture(scope="session")
def run_page(tmp_path_factory):
    """Run a page and say what went wrong; one process loads the packages, and forks for each."""
    if not hasattr(os, "fork"):
        pytest.skip("pages run in forked processes, which this system does not have")
    script, said = Path(__file__).with_name("pages.py"), tmp_path_factory.mktemp("pages") / "said"
    with (
        said.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-W", "error", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "MPLBACKEND": "agg"},
        ) as process,
    ):

        def run(page):
            process.stdin.write(f"{page}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer, said.read_text()
            return json.loads(answer)

        yield run


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_page_runs_with_what_it_says_to_install(page, run_page):
    wrong = run_page(page)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mark", NOT_RUN)
def test_every_block_that_is_not_run_is_there(mark):
    assert any(mark in code for page in WITH_CODE for _, code, _ in blocks(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_code_on_pages_is_code(page):
    for language, code, line in blocks(page):
        if language == "python" and ">>>" not in code:
            compile(code, f"{page.name}:{line + 2}", "exec")


def test_skeletons_of_new_learners_work():
    """The two skeletons of CONTRIBUTING are learners that fit and predict."""
    from sklearn.base import clone

    from tanager import BayesNetClassifier

    names = {}
    for language, code, _ in blocks(SKELETONS):
        if language == "python":
            exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    clf = BayesNetClassifier(names["Chain"](), names["Dirichlet"](strength=2.0))
    X = [["a", "x", "1"], ["b", "y", "2"], ["a", "y", "1"], ["b", "x", "2"]] * 4
    clf = clone(clf).fit(X, [0, 1, 1, 0] * 4)
    assert clf.structure_.parents["x2"] == ("x1",)
    assert clf.predict_proba(X).shape == (16, 2)
