"""A few models, their pages and a browser, made once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.report.model_page import render_report
from tanager.structure import Fixed


def make_table(n: int = 600, seed: int = 0) -> pa.Table:
    """Numbers, categories and gaps, with a class that depends on them."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    married = rng.random(n) < 0.3 + 0.4 * (age > 35)
    hours = np.where(rng.random(n) < 0.15, np.nan, rng.normal(40 + 5 * married, 8, n).round(1))
    job = rng.choice(["clerk", "craft", "sales", "tech"], n)
    score = 0.05 * (age - 40) + 1.2 * married + 0.5 * (job == "tech") - 1.5
    rich = rng.random(n) < 1 / (1 + np.exp(-score))
    return pa.table(
        {
            "age": age,
            "married": np.where(married, "yes", "no"),
            "hours": pa.array(hours, from_pandas=True),
            "job": [None if r < 0.05 else j for j, r in zip(job, rng.random(n), strict=True)],
            "income": np.where(rich, "> 50 <k>", "≤ 50 & less"),
        }
    )


@pytest.fixture(scope="session")
def people() -> pa.Table:
    return make_table()


@pytest.fixture(scope="session")
def tree(people):
    parents = {"age": [], "married": ["age"], "hours": ["married"], "job": ["age"]}
    return BayesNetClassifier(Fixed(parents), "laplace", bins=4).fit(people, "income")


@pytest.fixture(scope="session")
def many(people):
    """Three classes, two parents."""
    y = np.random.default_rng(1).choice(["a", "b", "c"], people.num_rows)
    y = np.where(np.array(people["job"].to_pylist()) == "tech", "c", y)
    parents = {"age": [], "married": ["age"], "hours": ["married", "age"], "job": ["hours"]}
    learner = BayesNetClassifier(Fixed(parents), "laplace", bins=4, missing="marginalize")
    return learner.fit(people.drop(["income"]), y), y


@pytest.fixture(scope="session")
def page(tree, people):
    """The page of the tree with the rows of its fit."""
    return render_report(tree, people, "income", folds=2, notes="# Use\n\nFor <b>tests</b>.")


@pytest.fixture
def opened(browser, tmp_path):
    """Open a page's text; returns it with a list that collects every complaint."""
    contexts = []

    def open_page(text: str, hash_: str = "", **options):
        file = tmp_path / f"page{len(contexts)}.html"
        file.write_text(text, encoding="utf-8")
        context = browser.new_context(reduced_motion="reduce", **options)
        contexts.append(context)
        page = context.new_page()
        problems: list[str] = []
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:")) else problems.append(r.url),
        )
        page.goto(file.as_uri() + hash_)
        page.wait_for_selector("html[data-ready]")
        return page, problems

    yield open_page
    for context in contexts:
        context.close()
