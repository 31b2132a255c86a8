"""Tables by gradient: limits, joint tables, deep families."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.parameters import Hybrid, MaximumLikelihood
from tanager.structure import TAN, FitPlan, Structure
from tanager.structure.differentiable import Differentiable
from tanager.training import Training

ARITIES = np.array([2, 3, 2, 4])
NAMES = ("a", "b", "c", "d")
DEEP = Structure(NAMES, (0, 1, 3), ((), (0,), (1, 0)))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 900)
    codes = np.stack([(rng.integers(0, a, 900) + labels * rng.integers(0, 2)) % a for a in ARITIES])
    codes[3] = (codes[0] + codes[1] + labels) % 4
    noise = rng.random(900) < 0.3
    codes[3, noise] = rng.integers(0, 4, noise.sum())
    return Rows.in_memory(
        Domain(NAMES, ARITIES, 3), codes.astype(np.uint8), labels.astype(np.uint16)
    )


def learn(learner, structure, rows, seed=0, joint=None):
    context = FitContext(seed=np.random.SeedSequence(seed))
    context.info |= {"structure": {}, "parameters": {}}
    plan = FitPlan(context, joint_tables=joint)
    return learner.learn(structure, Counts(rows, context), plan), context


def test_the_generative_loss_ends_at_the_frequencies(rows):
    learner = Hybrid(
        "nll", training=Training(epochs=150, batch_size=900, learning_rate=0.3, dropout=0.0)
    )
    ours, _ = learn(learner, DEEP, rows)
    frequencies, _ = learn(MaximumLikelihood(), DEEP, rows)
    np.testing.assert_allclose(np.exp(ours.log_prior), np.exp(frequencies.log_prior), atol=1e-3)
    for a, b in zip(ours.families, frequencies.families, strict=True):
        dense = b.to_dense().log_prob
        np.testing.assert_allclose(np.exp(a.to_dense().log_prob), np.exp(dense), atol=0.01)


@pytest.mark.parametrize("loss", ["hybrid", "margin", "cll", "nll"])
def test_every_loss_gives_proper_tables_on_a_deep_structure(rows, loss):
    tables, context = learn(Hybrid(loss, training=Training(epochs=5)), DEEP, rows)
    shapes = [table.log_prob.shape for table in tables.families]
    assert shapes == [(2, 3), (2, 3, 3), (3, 2, 4, 3)]
    assert np.exp(tables.log_prior).sum() == pytest.approx(1.0)
    for table in tables.families:
        np.testing.assert_allclose(np.exp(table.log_prob).sum(axis=-2), 1.0)
    trace = context.info["parameters"]["trace"]
    assert trace["loss"][-1] < trace["loss"][0]
    assert len(trace["accuracy"]) == 5


def test_the_margin_makes_fewer_errors_than_frequencies_where_naive_bayes_is_wrong(rows):
    naive = Structure.from_parents(NAMES, [(), (), (), ()])
    chunk = rows.gather()

    def error(tables):
        joint = tables.log_joint(naive, chunk.codes, ARITIES)
        return np.mean(joint.argmax(axis=1) != chunk.labels)

    hybrid, _ = learn(Hybrid(training=Training(epochs=30, learning_rate=0.1)), naive, rows)
    frequencies, _ = learn(MaximumLikelihood(), naive, rows)
    assert error(hybrid) < error(frequencies)


def test_joint_tables_are_kept_or_left(rows):
    context = FitContext()
    learner = Differentiable("all", training=Training(epochs=5))
    structure, joint = learner.learn_jointly(Counts(rows, context), FitPlan(context))
    kept, told = learn(Hybrid(), structure, rows, joint=joint)
    assert told.info["parameters"]["joint_tables"] == "keep"
    for table, carried in zip(kept.families, joint.log_prob, strict=True):
        assert np.array_equal(table.log_prob, carried)
    fresh, told = learn(
        Hybrid(joint="restart", training=Training(epochs=2)), structure, rows, joint=joint
    )
    alone, _ = learn(Hybrid(training=Training(epochs=2)), structure, rows)
    assert told.info["parameters"]["joint_tables"] == "none"
    assert np.array_equal(fresh.families[1].log_prob, alone.families[1].log_prob)


def test_joint_tables_of_another_structure_are_not_used(rows):
    context = FitContext()
    learner = Differentiable("all", training=Training(epochs=2))
    _, joint = learner.learn_jointly(Counts(rows, context), FitPlan(context))
    _, told = learn(Hybrid(training=Training(epochs=1)), DEEP, rows, joint=joint)
    assert told.info["parameters"]["joint_tables"] == "none"
    assert len(told.info["parameters"]["trace"]["loss"]) == 1


def test_unknown_values_contribute_nothing(rows):
    chunk = rows.gather()
    codes = chunk.codes.copy()
    codes[2] = ARITIES[2]
    blind = Rows.in_memory(rows.domain, codes, chunk.labels)
    with_c = Structure(NAMES, (0, 2), ((), (0,)))
    tables, _ = learn(Hybrid(training=Training(epochs=3)), with_c, blind)
    start, _ = learn(Hybrid(training=Training(epochs=1, learning_rate=1e-15)), with_c, blind)
    np.testing.assert_allclose(tables.families[1].log_prob, start.families[1].log_prob, atol=1e-12)


def test_mistakes_are_told(rows):
    with pytest.raises(ConfigurationError, match="joint='forget'"):
        learn(Hybrid(joint="forget"), DEEP, rows)
    wide = Domain(NAMES, np.array([200, 200, 200, 200]), 3)
    chunk = rows.gather()
    structure = Structure.from_parents(NAMES, [(), (0,), (0, 1), (0, 1, 2)])
    with pytest.raises(MemoryBoundError, match=r"'d' (alone takes|needs the most)"):
        learn(Hybrid(), structure, Rows.in_memory(wide, chunk.codes, chunk.labels))


def test_learning_leaves_the_learner_as_it_was(rows):
    learner = Hybrid(training=Training(epochs=1))
    before = repr(learner.get_params())
    learn(learner, TAN().learn(*_given(rows)), rows)
    assert repr(learner.get_params()) == before


def _given(rows):
    context = FitContext(info={"structure": {}})
    return Counts(rows, context), FitPlan(context)
