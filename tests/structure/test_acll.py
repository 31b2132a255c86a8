import json
from itertools import product

import numpy as np
import pytest

from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.structure import ACLL, TAN, FitPlan
from tanager.structure.acll import dirichlet_beta, uniform_beta
from tests.oracles.acll import acll, prior, theta
from tests.oracles.arborescence import is_tree


def make_rows(seed, n_rows=60, n_features=4, n_classes=3):
    rng = np.random.default_rng(seed)
    arities = rng.integers(2, 4, n_features)
    labels = rng.integers(0, n_classes, n_rows).astype(np.uint16)
    codes = rng.integers(0, arities[:, None], (n_features, n_rows))
    for i in range(1, n_features):
        told = rng.random(n_rows) < 0.6
        codes[i] = np.where(told, (codes[i - 1] + labels) % arities[i], codes[i])
    domain = Domain(tuple(f"f{i}" for i in range(n_features)), arities.astype(np.int64), n_classes)
    return Rows.in_memory(domain, np.ascontiguousarray(codes.astype(np.uint8)), labels)


def learn(learner, rows):
    context = FitContext(info={"structure": {}})
    return learner.learn(Counts(rows, context), FitPlan(context)), context.info["structure"]


def brute_force(rows, parents, beta, floor):
    chunk, domain = rows.gather(), rows.domain
    tables = [
        np.log(
            theta(chunk.codes, chunk.labels, domain.arities, domain.n_classes, i, ps, beta, floor)
        )
        for i, ps in enumerate(parents)
    ]
    log_prior = np.log(prior(chunk.labels, domain.n_classes, beta, floor))
    return acll(chunk.codes, chunk.labels, log_prior, tables, parents, beta)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("assumption", ["dirichlet", "uniform"])
@pytest.mark.parametrize("pseudo_count", [0.5, 5.0])
def test_the_tree_is_the_best_of_all_trees(n_classes, assumption, pseudo_count):
    rows = make_rows(n_classes, n_classes=n_classes)
    structure, info = learn(ACLL(assumption, pseudo_count), rows)
    scores = {}
    for parents in product(range(-1, 4), repeat=4):
        if all(p != i for i, p in enumerate(parents)) and is_tree(parents):
            families = tuple((p,) if p >= 0 else () for p in parents)
            scores[families] = brute_force(rows, families, info["beta"], pseudo_count)
    assert scores[structure.parent_indices] == pytest.approx(max(scores.values()), abs=1e-8)
    # The score in the record includes the class-prior term.
    assert info["score"] == pytest.approx(max(scores.values()), abs=1e-8)


def test_pairs_too_wide_for_dense_counts_score_the_same(monkeypatch):
    rows = make_rows(5, n_rows=200, n_features=6)
    expected, info = learn(ACLL(), rows)
    residual = learn(TAN("ear"), rows)[0]
    monkeypatch.setattr("tanager.counts.pairs.PAIR_CELLS", 1)
    wide, again = learn(ACLL(), rows)
    assert wide == expected
    assert again["score"] == pytest.approx(info["score"], rel=1e-12)
    assert learn(TAN("ear"), rows)[0] == residual


@pytest.mark.shared
def test_constants_and_examples_of_the_reference(shared):
    values = json.loads((shared / "reference/acll/values.json").read_text())
    for key, expected in values["dirichlet_beta_gamma"].items():
        s, a, b = (int(part.split("=")[1]) for part in key.split(","))
        np.testing.assert_allclose(dirichlet_beta(s, a, b), expected[0], rtol=1e-10)
    for key, expected in values["uniform_beta"].items():
        s = int(key.split("=")[1])
        assert uniform_beta(s) == pytest.approx(expected, abs=1e-12)
    example = values["theorem_3_9_example"]
    x1, x2, y = np.array(example["data"]).T
    domain = Domain(("x1", "x2"), np.array([2, 2]), 2)
    rows = Rows.in_memory(domain, np.array([x1, x2], np.uint8), y.astype(np.uint16))
    beta_uniform = uniform_beta(2)
    beta_dirichlet = dirichlet_beta(2, 1, 1000)
    for name, beta, floor in (
        ("uniform_Nprime_1", beta_uniform, 1.0),
        ("uniform_Nprime_0.5", beta_uniform, 0.5),
        ("dir_b1000_Nprime_1", beta_dirichlet, 1.0),
    ):
        forward = brute_force(rows, ((), (0,)), beta, floor)
        backward = brute_force(rows, ((1,), ()), beta, floor)
        np.testing.assert_allclose((forward, backward), example[name], atol=1e-12)
    structure, info = learn(ACLL("uniform", 1.0), rows)
    assert dict(structure.parents) == {"x1": (), "x2": ("x1",)}
    assert info["score"] == pytest.approx(example["uniform_Nprime_1"][0], abs=1e-12)


def test_closed_forms_agree_with_quadrature():
    from tanager.structure import acll as module

    for s in (2, 3):
        beta = -module.integrate(
            lambda t, s=s: module.mean_exp(t) ** (s - 1) * module._log_excess(t) / t
        )
        assert uniform_beta(s) == pytest.approx(beta, abs=1e-11)


def test_a_given_slope_is_used():
    rows = make_rows(3, n_rows=200)
    exact, expected = learn(ACLL("dirichlet"), rows)
    assert learn(ACLL(expected["beta"]), rows) == (exact, expected)


def test_residual_equals_the_difference_of_two_informations():
    rows = make_rows(8, n_rows=120)
    structure, info = learn(TAN("ear"), rows)
    counts = Counts(rows, FitContext())
    residual = np.zeros((4, 4))
    for i in range(4):
        for j in range(4):
            if i != j:
                joint = counts.pair(i, j).sum(axis=2) / 120
                outer = np.outer(joint.sum(1), joint.sum(0))
                seen = joint > 0
                mutual = (joint[seen] * np.log(joint[seen] / outer[seen])).sum()
                residual[i, j] = counts.cmi()[i, j] - mutual
    best = max(
        sum(residual[p, i] for i, p in enumerate(parents) if p >= 0)
        for parents in product(range(-1, 4), repeat=4)
        if all(p != i for i, p in enumerate(parents)) and is_tree(parents)
    )
    assert info["tree_weight"] == pytest.approx(best, abs=1e-8)
    assert structure.max_parents == 1


def test_errors_say_what_is_allowed():
    rows = make_rows(0)
    for learner in (
        ACLL("gaussian"),
        ACLL(pseudo_count=0.0),
        ACLL(0.5),
        ACLL(lambda generator, n, s: np.ones((n, s + 1))),
        TAN("mi"),
    ):
        with pytest.raises(ConfigurationError):
            learn(learner, rows)
