import numpy as np
import pytest

from tanager import BayesNetClassifier, load, save
from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters import ACLLParameters
from tanager.structure import FitPlan, Fixed, Structure
from tests.oracles.acll import acll, prior, theta


def make_rows(seed, n_rows=50, n_classes=3):
    rng = np.random.default_rng(seed)
    arities = np.array([2, 3, 4, 2])
    codes = rng.integers(0, arities[:, None], (4, n_rows)).astype(np.uint8)
    labels = rng.integers(0, n_classes, n_rows).astype(np.uint16)
    codes[1] = np.where(rng.random(n_rows) < 0.6, (labels + codes[0]) % 3, codes[1])
    return Rows.in_memory(Domain(tuple("abcd"), arities, n_classes), codes, labels)


STRUCTURE = Structure.from_parents("abcd", [(), (0,), (1, 0), (2, 1, 0)])


def learn(learner, rows):
    context = FitContext()
    tables = learner.learn(STRUCTURE, Counts(rows, context), FitPlan(context))
    return tables, context.info["parameters"]["beta"]


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("assumption", ["dirichlet", "uniform"])
@pytest.mark.parametrize("floor", [0.5, 5.0])
def test_tables_are_theorem_3_8(n_classes, assumption, floor):
    rows = make_rows(n_classes, n_classes=n_classes)
    chunk, domain = rows.gather(), rows.domain
    tables, beta = learn(ACLLParameters(assumption, floor), rows)
    for i, (ps, table) in enumerate(zip(STRUCTURE.parent_indices, tables.families, strict=True)):
        expected = theta(chunk.codes, chunk.labels, domain.arities, n_classes, i, ps, beta, floor)
        found = np.exp(table.to_dense().log_prob)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_allclose(found.sum(axis=-2), 1.0)
    np.testing.assert_allclose(
        np.exp(tables.log_prior), prior(chunk.labels, n_classes, beta, floor)
    )


def test_no_tables_within_the_bounds_score_higher():
    rows = make_rows(1)
    chunk = rows.gather()
    floor = 2.0
    tables, beta = learn(ACLLParameters("uniform", floor), rows)
    dense = [table.to_dense().log_prob for table in tables.families]
    parents = STRUCTURE.parent_indices
    best = acll(chunk.codes, chunk.labels, tables.log_prior, dense, parents, beta)
    rng = np.random.default_rng(0)
    for _ in range(60):
        which = rng.integers(4)
        theta_old = np.exp(dense[which])
        least = theta_old.min(axis=-2, keepdims=True)  # the bound where something was clipped
        mixed = np.maximum(theta_old * np.exp(rng.normal(0, 0.3, theta_old.shape)), least)
        moved = least + (mixed - least) * (1 - least * theta_old.shape[-2]) / np.maximum(
            (mixed - least).sum(axis=-2, keepdims=True), 1e-12
        )
        uniform = (mixed - least).sum(axis=-2, keepdims=True) < 1e-12
        trial = list(dense)
        trial[which] = np.log(np.where(uniform, theta_old, moved))
        np.testing.assert_allclose(np.exp(trial[which]).sum(axis=-2), 1.0)
        assert (
            acll(chunk.codes, chunk.labels, tables.log_prior, trial, parents, beta) <= best + 1e-9
        )


def test_one_family_by_itself_is_the_family_of_the_whole():
    rows = make_rows(2)
    tables, _ = learn(ACLLParameters(), rows)
    learner = ACLLParameters()
    counts = Counts(rows, FitContext())
    for tree, table in zip(counts.trees(STRUCTURE), tables.families, strict=True):
        np.testing.assert_allclose(
            learner.family(tree).to_dense().log_prob, table.to_dense().log_prob
        )
    np.testing.assert_allclose(learner.log_prior(counts.classes), tables.log_prior)


def test_errors_say_what_is_allowed():
    for learner in (ACLLParameters("gaussian"), ACLLParameters(pseudo_count=-1)):
        with pytest.raises(ConfigurationError):
            learn(learner, make_rows(0))


def test_a_model_with_many_values_is_saved_and_loaded(tmp_path):
    """Families too wide for dense tables have contexts that never answer: they sum to one too."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    a = [f"a{v}" for v in rng.integers(0, 150, 400)]
    b = [f"{v}-{a[i]}" for i, v in enumerate(rng.integers(0, 2, 400))]
    clf = BayesNetClassifier(Fixed({"b": ["a"]}), "acll").fit({"a": a, "b": b}, y)
    save(clf, tmp_path / "m.tanager")
    rows = {"a": a[:9], "b": b[:9]}
    assert np.array_equal(load(tmp_path / "m.tanager").predict_proba(rows), clf.predict_proba(rows))
