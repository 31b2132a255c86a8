"""How sure edges are: the bootstrap, Scutari's threshold, the averaged structure."""

import numpy as np
import pytest

from tanager import BayesNetClassifier, Constraints
from tanager.errors import ConfigurationError
from tanager.structure import EdgeConfidence, edge_confidence
from tanager.structure.confidence import confidence_threshold


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y, a, d, e = rng.integers(0, 2, (4, n))
    b = a ^ (rng.random(n) < 0.1)
    c = b ^ y ^ (rng.random(n) < 0.1)
    columns = dict(zip("abcde", (a, b, c, d, e), strict=True))
    return [{k: str(v[i]) for k, v in columns.items()} for i in range(n)], y


@pytest.mark.parametrize("seed", range(20))
def test_the_threshold_is_nearest_to_the_ideal_distribution(seed):
    rng = np.random.default_rng(seed)
    strengths = rng.beta(0.3, 0.4, int(rng.integers(3, 60))).round(2)
    grid = np.linspace(0, 1, 4001)
    height = (strengths[None] <= grid[:, None]).mean(axis=1)  # the empirical cdf
    norm = [np.trapezoid(np.abs(height - t), grid) for t in grid]
    best = grid[int(np.argmin(norm))]
    found = confidence_threshold(strengths)
    # The share of strengths at most the threshold is the t of the least norm.
    share = (strengths <= found).mean()
    at = norm[round(share * 4000)]
    assert at <= min(norm) + 1e-3, (best, share)


def test_true_edges_are_sure_and_noise_is_not():
    rows, y = table()
    found = edge_confidence(BayesNetClassifier("tan", "m-estimate"), rows, y, rounds=30)
    sure = {frozenset((e.parent, e.child)) for e in found.edges(found.threshold)}
    assert {frozenset("ab"), frozenset("bc")} <= sure
    assert frozenset("de") not in sure
    assert found.rounds == 30
    assert (found.arcs + found.arcs.T <= 1 + 1e-12).all()
    averaged = found.structure()
    joined = {frozenset((p, c)) for c, ps in averaged.parents.items() for p in ps}
    assert joined == sure
    assert found.structure(1.0).max_parents == 0
    assert "threshold" in repr(found)


def test_rounds_are_repeatable_and_the_rows_of_each_are_others():
    rows, y = table(60)
    clf = BayesNetClassifier("tan", "m-estimate", random_state=3)
    one = edge_confidence(clf, rows, y, rounds=10)
    assert one == edge_confidence(clf, rows, y, rounds=10)
    assert np.count_nonzero((one.arcs > 0) & (one.arcs < 1)) > 0
    weights = np.where(np.arange(60) < 30, 1.0, 0.0)
    weighted = edge_confidence(clf, rows, y, rounds=10, sample_weight=weights)
    assert weighted.arcs.shape == (5, 5)


def test_constraints_hold_in_every_round_and_the_default_learner_works():
    rows, y = table()
    known = Constraints(required=[("d", "e")], forbidden=[("*", "a")])
    clf = BayesNetClassifier(constraints=known)
    found = edge_confidence(clf, rows, y, rounds=3)
    assert found.arcs[3, 4] == 1.0
    assert (found.arcs[:, 0] == 0).all()


def test_an_edge_that_would_close_a_cycle_is_left_out():
    arcs = np.zeros((3, 3))
    arcs[0, 1], arcs[1, 2], arcs[2, 0] = 0.9, 0.8, 0.7
    found = EdgeConfidence(("a", "b", "c"), arcs, 10)
    assert dict(found.structure(0.5).parents) == {"a": (), "b": ("a",), "c": ("b",)}
    assert [e.strength for e in found.edges(0.75)] == [0.9, 0.8]
    with pytest.raises(ConfigurationError, match="rounds=0"):
        edge_confidence(BayesNetClassifier(), [], [], rounds=0)


def test_widths_are_drawn_by_confidence():
    pytest.importorskip("matplotlib")
    from tanager.report import plot_network

    arcs = np.zeros((3, 3))
    arcs[0, 1], arcs[1, 2] = 1.0, 0.6
    ax = plot_network(EdgeConfidence(("a", "b", "c"), arcs, 10))
    texts = [text.get_text() for text in ax.texts]
    assert "arrow: share of 10 structures" in texts
