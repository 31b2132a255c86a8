"""Selective kDB: leave-one-out against refitting, and what the selection promises."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

from tanager import BayesNetClassifier
from tanager.codes import Domain, Rows
from tanager.codes.rows import exact_weights
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.structure import KDB, FitPlan, SelectiveKDB
from tanager.structure.leave_one_out import SCORES, STRENGTH
from tests.oracles import leave_one_out


def make_rows(seed, n_rows=40, n_features=4, n_classes=2, weights=None, unknown=False, **kwargs):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    labels[:n_classes] = np.arange(n_classes)
    arities = rng.integers(2, 5, n_features)
    codes = [
        (labels + rng.integers(0, a, n_rows) * rng.integers(0, 2, n_rows)) % a for a in arities
    ]
    codes = np.stack(codes).astype(np.uint8)
    if unknown:
        codes = np.where(rng.random(codes.shape) < 0.1, arities[:, None], codes).astype(np.uint8)
    domain = Domain(tuple(f"x{i}" for i in range(n_features)), arities.astype(np.int64), n_classes)
    return Rows.in_memory(domain, codes, labels.astype(np.uint16), weights, **kwargs)


def learn(rows, n_jobs=None, **kwargs):
    context = FitContext(engine=LocalEngine(n_jobs), info={"structure": {}})
    structure = SelectiveKDB(**{"adjusted": False, **kwargs}).learn(
        Counts(rows, context), FitPlan(context)
    )
    return structure, context.info["structure"]


def oracle(rows, info, max_k, score, shares=None, lean=0.0):
    codes, labels, weights = rows.gather()[:3]
    weights = np.ones(len(labels)) if weights is None else weights
    context = FitContext(info={"structure": {}})
    full = KDB(k=max_k, adjusted=False).learn(Counts(rows, context), FitPlan(context))
    order = [full.names.index(name) for name in info["order"]]
    families = [(f, full.parent_indices[f]) for f in order]
    shares = np.ones(len(labels)) if shares is None else shares
    domain = rows.domain
    table = (codes, labels, weights, shares)
    return leave_one_out.surface(
        *table, domain.arities, domain.n_classes, families, max_k, score, lean
    )


@pytest.mark.parametrize("smoothing", STRENGTH)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("score", SCORES)
def test_surface_equals_refitting_without_each_row(n_classes, score, smoothing):
    rows = make_rows(1, n_classes=n_classes)
    _, info = learn(rows, max_k=2, score=score, smoothing=smoothing)
    expected = oracle(rows, info, 2, score, lean=STRENGTH[smoothing])
    np.testing.assert_allclose(info["surface"], expected, rtol=1e-7)


def test_a_class_of_one_row_backs_off_to_the_marginal():
    rng = np.random.default_rng(3)
    labels = np.array([0] * 10 + [1], np.uint16)
    codes = rng.integers(0, 3, (3, 11)).astype(np.uint8)
    rows = Rows.in_memory(Domain(("a", "b", "c"), np.full(3, 3), 2), codes, labels)
    for smoothing, lean in STRENGTH.items():
        _, info = learn(rows, max_k=2, smoothing=smoothing)
        expected = oracle(rows, info, 2, "rmse", lean=lean)
        np.testing.assert_allclose(info["surface"], expected, rtol=1e-7)


def test_fractional_weights_leave_with_their_row():
    raw = np.random.default_rng(5).exponential(size=30) + 0.1
    weights = exact_weights(raw, raw.sum())
    rows = make_rows(5, n_rows=30, n_classes=3, weights=weights)
    for smoothing, lean in STRENGTH.items():
        _, info = learn(rows, max_k=2, smoothing=smoothing)
        expected = oracle(rows, info, 2, "rmse", shares=weights, lean=lean)
        np.testing.assert_allclose(info["surface"], expected, rtol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_integer_weights_equal_repeated_rows(n_classes):
    repeats = np.random.default_rng(6).integers(1, 4, 50)
    single = make_rows(6, n_rows=50, n_classes=n_classes, weights=repeats.astype(float))
    codes, labels, _ = single.gather()[:3]
    many = Rows.in_memory(single.domain, np.repeat(codes, repeats, 1), np.repeat(labels, repeats))
    structure, info = learn(single)
    expected_structure, expected = learn(many)
    assert structure == expected_structure
    np.testing.assert_allclose(info["surface"], expected["surface"], rtol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_chunks_and_threads_change_nothing(n_classes, weighted):
    raw = np.random.default_rng(7).exponential(size=700)
    weights = exact_weights(raw, raw.sum()) if weighted else None
    kwargs = {"n_rows": 700, "n_features": 6, "n_classes": n_classes, "weights": weights}
    structure, info = learn(make_rows(7, **kwargs))
    for block_rows, n_jobs in ((64, 1), (97, 3)):
        again, other = learn(make_rows(7, block_rows=block_rows, **kwargs), n_jobs)
        assert again == structure
        np.testing.assert_array_equal(other["surface"], info["surface"])


def with_gaps(rows, feature, n_gaps):
    codes, labels, _ = rows.gather()[:3]
    codes = codes.copy()
    codes[feature, :n_gaps] = rows.domain.arities[feature]
    return Rows.in_memory(rows.domain, codes, labels)


@pytest.mark.parametrize("n_gaps", [1, 2, 13, 40])
@pytest.mark.parametrize("score", SCORES)
def test_gaps_in_the_top_feature_equal_refitting_without_each_row(score, n_gaps):
    complete = make_rows(1)
    top = complete.domain.names.index(learn(complete, max_k=0)[1]["order"][0])
    rows = with_gaps(complete, top, n_gaps)
    _, info = learn(rows, max_k=2, score=score, smoothing="back-off")
    expected = oracle(rows, info, 2, score, lean=STRENGTH["back-off"])
    np.testing.assert_allclose(info["surface"], expected, rtol=1e-7)


@pytest.mark.parametrize("smoothing", STRENGTH)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("score", SCORES)
def test_surface_with_gaps_equals_refitting_without_each_row(n_classes, score, smoothing):
    rows = make_rows(8, n_classes=n_classes, unknown=True)
    _, info = learn(rows, max_k=3, score=score, smoothing=smoothing)
    expected = oracle(rows, info, 3, score, lean=STRENGTH[smoothing])
    np.testing.assert_allclose(info["surface"], expected, rtol=1e-7)


def test_fractional_weights_with_gaps_leave_with_their_row():
    raw = np.random.default_rng(5).exponential(size=30) + 0.1
    weights = exact_weights(raw, raw.sum())
    rows = make_rows(5, n_rows=30, n_classes=3, weights=weights, unknown=True)
    _, info = learn(rows, max_k=2, score="log-loss", smoothing="back-off")
    expected = oracle(rows, info, 2, "log-loss", shares=weights, lean=STRENGTH["back-off"])
    np.testing.assert_allclose(info["surface"], expected, rtol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_line_of_few_parents_does_not_depend_on_how_many_are_tried(n_classes):
    rows = make_rows(9, n_rows=300, n_features=6, n_classes=n_classes, unknown=True)
    surface = learn(rows, max_k=5)[1]["surface"]
    for max_k in range(5):
        fewer = learn(rows, max_k=max_k)[1]["surface"]
        np.testing.assert_array_equal(fewer, surface[: max_k + 1])


def test_rows_of_which_nothing_is_known_are_scored_by_the_class_alone():
    rows = make_rows(10, n_rows=41, n_classes=3)
    codes, labels, _ = rows.gather()[:3]
    codes = np.repeat(rows.domain.arities[:, None], 41, 1).astype(codes.dtype)
    _, info = learn(Rows.in_memory(rows.domain, codes, labels), max_k=2, score="log-loss")
    counts = np.bincount(labels)
    own = (counts[labels] - 1 + 1 / 3) / (40 + 1)
    np.testing.assert_allclose(info["surface"], -np.log(own).mean(), rtol=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_losses_of_many_rows_with_gaps_fit_their_integers(score):
    n_rows = 200_000
    rng = np.random.default_rng(3)
    labels = (np.arange(n_rows) % 2).astype(np.uint16)
    codes = np.stack([labels, rng.integers(0, 2, n_rows)]).astype(np.uint8)
    codes[0, ::1000] = 2
    domain = Domain(("own", "noise"), np.array([2, 2]), 2)
    _, info = learn(Rows.in_memory(domain, codes, labels), max_k=1, score=score)
    assert (info["surface"] >= 0).all()
    # The class shares alone decide rows with the gap, and leaving one out makes its class rarer.
    unsure = {"rmse": 0.25, "rmse-class-averaged": 0.25, "zero-one": 1.0, "log-loss": np.log(2)}
    expected = unsure[score] / 1000
    expected = np.sqrt(expected) if score.startswith("rmse") else expected
    np.testing.assert_allclose(info["surface"][:, 0], expected, rtol=0.02)


def test_selection_is_the_least_loss_and_prefers_small_models():
    rows = make_rows(9, n_rows=300, n_features=5)
    structure, info = learn(rows)
    surface = info["surface"]
    k, n = info["k"], info["n_features"]
    assert surface.shape == (5, 5)  # four parents at most among five features
    assert surface[k, n - 1] == surface.min()
    assert structure.max_parents <= k
    assert len(structure.selected) == n
    assert set(structure.features) == set(info["order"][:n])
    equal = np.argwhere(surface == surface.min())
    assert tuple(equal[0]) == (k, n - 1)


def test_zero_parents_select_among_naive_bayes_models():
    structure, info = learn(make_rows(10), max_k=0)
    assert structure.max_parents == 0
    assert info["surface"].shape == (1, 4)


def test_more_odds_than_a_float_holds_stay_finite():
    n_rows = 400
    labels = np.arange(n_rows) % 2
    codes = np.repeat(labels[None].astype(np.uint8), 300, 0)
    domain = Domain(tuple(f"x{i}" for i in range(300)), np.full(300, 2), 2)
    for weights in (None, np.full(n_rows, 0.5)):
        _, info = learn(
            Rows.in_memory(domain, codes, labels.astype(np.uint16), weights),
            max_k=0,
            score="log-loss",
        )
        assert np.isfinite(info["surface"]).all()
        assert info["surface"][0, -1] < 1e-9


@pytest.mark.parametrize(
    ("name", "value"), [("max_k", -1), ("max_k", 1.5), ("score", "auc"), ("smoothing", "none")]
)
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ConfigurationError, match=name):
        learn(make_rows(11), **{name: value})


def test_learner_clones():
    learner = SelectiveKDB(max_k=3, score="zero-one", smoothing="m-estimate")
    assert clone(learner).get_params() == learner.get_params()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("few_rows", [False, True])
def test_features_in_groups_and_few_rows_at_a_time_score_alike(n_classes, few_rows, monkeypatch):
    rows = make_rows(5, 300, n_features=6, n_classes=n_classes, block_rows=70, unknown=few_rows)
    structure, info = learn(rows, max_k=3)
    if few_rows:
        monkeypatch.setattr("tanager.structure.leave_one_out.ROW_NUMBERS", 200)
    monkeypatch.setattr("tanager.structure.kdb.GROUP_BYTES", 20_000)
    other, grouped = learn(rows, n_jobs=2, max_k=3)
    assert np.array_equal(grouped["surface"], info["surface"])
    assert other == structure


@pytest.mark.filterwarnings("ignore:.*looks like an identifier")
def test_many_classes_beyond_the_memory_limit_are_refused_before_they_take_it():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 8, (4_000, 5)).astype(str), rng.permutation(4_000) % 1_000
    clf = BayesNetClassifier("skdb", "laplace", memory_limit="1MB")
    tracemalloc.start()
    try:
        with pytest.raises(MemoryBoundError, match=r"Raise memory_limit, .* the 1,000 classes"):
            clf.fit(X, y)
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()
