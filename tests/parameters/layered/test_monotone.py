"""Classes that rise or fall along a feature do so for every pair of neighbours in every context."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tanager import BayesNetClassifier, load, save
from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters import Layered
from tanager.parameters.layered.members import project_scores
from tanager.structure import FitPlan, Structure

ARITIES = (7, 7, 3, 2)  # the second has "missing" as its last value
STRUCTURES = {
    "child": Structure.from_parents("abcd", [(1,), (), (1, 0), (2, 0)]),
    "parent": Structure.from_parents("abcd", [(), (0,), (1, 0), (0, 1)]),
    "immoral": Structure.from_parents("abcd", [(), (), (1, 0), (1, 2)]),
}


def make_rows(n_classes: int, seed: int) -> Rows:
    """Rows whose effects are anything but monotone."""
    generator = np.random.default_rng(seed)
    n_rows = int(generator.integers(30, 300))
    codes = np.stack([generator.integers(0, arity, n_rows) for arity in ARITIES])
    wild = np.sin(2.0 * codes[0] + codes[2]) + (codes[1] - 3) * np.cos(3.0 * codes[3] + seed)
    noise = generator.normal(0.0, 0.3, n_rows)
    edges = np.quantile(wild + noise, np.arange(1, n_classes) / n_classes)
    labels = np.searchsorted(edges, wild + noise)
    labels[:n_classes] = np.arange(n_classes)
    weights = generator.integers(1, 4, n_rows).astype(float) if seed % 2 else None
    domain = Domain(tuple("abcd"), np.array(ARITIES), n_classes, (7, 6, 0, 2))
    return Rows.in_memory(domain, codes.astype(np.uint8), labels.astype(np.uint16), weights)


def posterior_grid(tables, structure):
    """Return P(y | x) of every row there can be, (*ARITIES, n_classes)."""
    grid = np.indices(ARITIES).reshape(4, -1).astype(np.uint8)
    joint = tables.log_joint(structure, grid, np.array(ARITIES))
    joint = np.exp(joint - joint.max(axis=1, keepdims=True))
    return (joint / joint.sum(axis=1, keepdims=True)).reshape(*ARITIES, -1)


def worst_step(posterior, feature, n_ordered, signs):
    """Return the greatest step in the wrong direction, over all contexts and neighbours."""
    steps = np.diff(np.take(posterior, range(n_ordered), axis=feature), axis=feature)
    return min((sign * steps[..., c]).min() for c, sign in enumerate(signs) if sign)


@pytest.mark.parametrize(
    ("structure", "signs"),
    [
        ("child", {0: [0, 1]}),
        ("parent", {0: [0, -1], 1: [1, 0]}),
        ("immoral", {1: [0, 1], 3: [0, -1]}),
        ("child", {1: [0, 0, 1]}),
        ("parent", {0: [-1, 0, 1], 3: [0, -1, 0]}),
        ("child", {0: [0, 0, 1], 1: [0, 0, -1], 3: [0, 0, 1]}),
        ("immoral", {0: [0, 1, 0, -1]}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_pair_of_neighbours_in_every_context(structure, signs, seed):
    known = {feature: np.array(sign, np.int8) for feature, sign in signs.items()}
    rows = make_rows(len(next(iter(known.values()))), seed)
    chosen, counts = STRUCTURES[structure], Counts(rows, FitContext())
    tables = Layered(max_iter=15).learn(chosen, counts, FitPlan(signs=known))
    posterior = posterior_grid(tables, chosen)
    for feature, sign in known.items():
        assert worst_step(posterior, feature, rows.domain.n_ordered[feature], sign) > -1e-12
    # The promise is not empty: without it these rows give steps the other way.
    if seed == 2:
        wild = posterior_grid(Layered(max_iter=15).learn(chosen, counts, FitPlan()), chosen)
        assert any(
            worst_step(wild, feature, rows.domain.n_ordered[feature], sign) < -1e-3
            for feature, sign in known.items()
        )


@pytest.mark.parametrize("signs", [[0, 1], [-1, 0], [0, 0, 1], [0, -1, 0], [1, 0, 0, -1]])
def test_projected_scores_are_near_and_monotone(signs):
    known = np.array(signs, np.int8)
    generator = np.random.default_rng(3)
    scores, weights = generator.normal(size=(9, len(signs))), generator.uniform(1, 5, 9)
    found = project_scores(scores, known, weights)
    steps = np.diff(found, axis=0)
    for c, sign in enumerate(signs):
        assert (sign * (steps[:, c, None] - steps)).min() >= -1e-12
    # What is so already stays as it is; and weights of rows count.
    np.testing.assert_allclose(project_scores(found, known, weights), found, atol=1e-9)
    if len(signs) == 2:
        gap, before = np.diff(found, axis=1)[:, 0], np.diff(scores, axis=1)[:, 0]
        assert np.average(gap, weights=weights) == pytest.approx(
            np.average(before, weights=weights)
        )


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(4)
    n = 160
    X = pd.DataFrame(
        {
            "age": generator.integers(20, 80, n).astype(float),
            "price": generator.normal(size=n),
            "size": generator.choice(["S", "M", "L"], n),
            "flag": generator.random(n) < 0.5,
        }
    )
    X.loc[generator.random(n) < 0.1, "age"] = np.nan
    y = np.where(generator.random(n) < 0.5 + 0.3 * np.sin(X["price"]), "yes", "no")
    clf = BayesNetClassifier(
        ordered={"size": ["S", "M", "L"]},
        monotonic={"age": +1, "price": -1, "size": {"yes": +1}, "flag": +1},
    )
    return clf.fit(X, y, sample_weight=np.linspace(0.5, 2.0, n)), X


def test_from_the_table_to_the_file(fitted, tmp_path):
    clf, X = fitted
    save(clf, tmp_path / "m.tanager")
    again = load(tmp_path / "m.tanager")
    assert again.monotonic == clf.monotonic
    rows = X[:25]
    for model in (clf, again):
        for name, sign, values in (
            ("age", 1, np.linspace(18, 82, 40)),
            ("price", -1, np.linspace(-4, 4, 60)),
            ("size", 1, ["S", "M", "L"]),
            ("flag", 1, [False, True]),
        ):
            said = [model.predict_proba(rows.assign(**{name: v}))[:, 1] for v in values]
            assert (sign * np.diff(said, axis=0)).min() > -1e-12
    parts = (
        clf.network_.log_terms(clf.network_.codebook.encode(rows)).sum(axis=1)
        + clf.network_.tables.log_prior
    )
    np.testing.assert_allclose(parts, clf.predict_joint_log_proba(rows), atol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"monotonic": ["age"]}, "a mapping"),
        ({"monotonic": {"agee": 1}}, "'agee', which is not a feature"),
        ({"monotonic": {"word": 1}}, "no order.*ordered="),
        ({"monotonic": {"age": 2}}, "Allowed: \\+1"),
        ({"monotonic": {"age": True}}, "Allowed: \\+1"),
        ({"monotonic": {"age": {"maybe": 1}}}, "The classes are"),
        ({"monotonic": {"age": {"yes": 1, "no": 1}}}, "one class that rises"),
        ({"monotonic": {"age": 1}, "parameters": "hdp"}, "no meaning for parameters='hdp'"),
    ],
)
def test_what_cannot_be_asked(options, words):
    X = pd.DataFrame({"age": range(12), "word": ["a", "b"] * 6})
    with pytest.raises(ConfigurationError, match=words):
        BayesNetClassifier(**options).fit(X, ["yes", "no", "no"] * 4)


def test_more_classes_need_the_name_of_one():
    with pytest.raises(ConfigurationError, match="Say which one"):
        BayesNetClassifier(monotonic={0: 1}).fit(np.arange(12.0)[:, None], [0, 1, 2] * 4)
