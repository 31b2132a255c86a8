"""A pool is the weighted geometric mean of its members, and one network."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import check_grad

from tanager import BayesNetClassifier, load, save
from tanager.codes import Domain
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters import HDP, Discriminative, MEstimate, Pooled
from tanager.parameters import tables as tables_module
from tanager.parameters.pooled.shares import FLOOR, PRECISION, HeldOut, fit_shares
from tanager.parameters.scores import layout as layout_module
from tanager.structure import Structure
from tests.parameters.discriminative.problems import (
    in_blocks,
    learn,
    make_rows,
    make_structure,
    posterior,
)

WEIGHTS = Discriminative(level=1, base="hdp", l2=1.0, towards="zero", prefixes=True)
FREE = Discriminative("direct", l2=0.5, towards="zero")


def geometric_mean(parts, shares):
    """The definition, row by row."""
    out = np.empty_like(parts[0])
    for row in range(len(out)):
        for y in range(out.shape[1]):
            out[row, y] = np.prod([p[row, y] ** a for p, a in zip(parts, shares, strict=True)])
        out[row] /= out[row].sum()
    return out


@pytest.mark.parametrize("name", ["naive", "tree", "clique", "immoral"])
@pytest.mark.parametrize("sparse", [False, True])
def test_posterior_is_the_weighted_geometric_mean(name, sparse, monkeypatch):
    if sparse:  # only the contexts that were seen have cells
        monkeypatch.setattr(layout_module, "SMALL_CELLS", 0)
        monkeypatch.setattr(layout_module, "DENSE_FACTOR", 0)
    rows = make_rows(3, 200)
    structure = make_structure(rows, name)
    members, shares = ["hdp", MEstimate(m=2.0), WEIGHTS, FREE], [0.5, 0.1, 0.9, 0.2]
    tables, info = learn(Pooled(members, shares=shares), rows, structure)
    parts = [
        posterior(learn(member, rows, structure)[0], structure, rows)
        for member in (HDP(), *members[1:])
    ]
    expected = geometric_mean(parts, shares)
    np.testing.assert_allclose(posterior(tables, structure, rows), expected, atol=1e-9)
    assert info["shares"] == shares
    assert tables.normalized == (name != "immoral")


@pytest.mark.parametrize("sparse", [(layout_module,), (layout_module, tables_module)], ids=len)
def test_sparse_tables_answer_unseen_contexts_as_their_members_do(sparse, monkeypatch):
    for module in sparse:  # one member sparse, or both
        monkeypatch.setattr(module, "SMALL_CELLS", 0)
        monkeypatch.setattr(module, "DENSE_FACTOR", 0)
    rows, others = make_rows(3, 12, arities=(4, 4, 4, 4)), make_rows(4, 300, arities=(4, 4, 4, 4))
    structure = make_structure(rows, "immoral")
    members = [HDP(), FREE]
    tables, _ = learn(Pooled(members, shares=[0.7, 0.4]), rows, structure)
    parts = [posterior(learn(m, rows, structure)[0], structure, others) for m in members]
    expected = geometric_mean(parts, [0.7, 0.4])
    np.testing.assert_allclose(posterior(tables, structure, others), expected, atol=1e-9)


@pytest.mark.parametrize("n_parents", [0, 1])
def test_a_member_may_see_fewer_parents(n_parents):
    rows = make_rows(5, 300)
    structure = make_structure(rows, "clique")
    tables, _ = learn(Pooled([(FREE, n_parents)], shares=[1.0]), rows, structure)
    cut = Structure.from_parents(
        rows.domain.names, [parents[:n_parents] for parents in structure.parent_indices]
    )
    expected = posterior(learn(FREE, rows, cut)[0], cut, rows)
    np.testing.assert_allclose(posterior(tables, structure, rows), expected, atol=1e-9)


def test_the_pool_is_a_network_that_sums_out_the_unknown():
    rows = make_rows(7, 250)
    structure = make_structure(rows, "tree")
    tables, _ = learn(Pooled(["hdp", WEIGHTS, (FREE, 0)]), rows, structure)
    for table in tables.families:
        np.testing.assert_allclose(np.exp(table.to_dense().log_prob).sum(axis=-2), 1.0)
    assert np.exp(tables.log_prior).sum() == pytest.approx(1.0)
    cells = np.array(list(product(*map(range, rows.domain.arities))), np.uint8).T.copy()
    joint = np.exp(tables.log_joint(structure, cells, rows.domain.arities))
    assert joint.sum() == pytest.approx(1.0)


def test_shares_have_the_right_gradient_and_are_the_optimum():
    rng = np.random.default_rng(0)
    logs = np.log(rng.dirichlet(np.ones(3), size=(4, 80)))
    held_out = HeldOut(logs, rng.integers(0, 3, 80).astype(np.uint16), rng.random(80))
    start = rng.random(4)
    gap = check_grad(lambda a: held_out.loss(a)[0], lambda a: held_out.loss(a)[1], start)
    assert gap < 1e-4
    shares = fit_shares(held_out)
    slopes = held_out.loss(shares)[1] + PRECISION * (shares - 0.25)
    free = shares > 0
    assert (shares >= 0).all()
    np.testing.assert_allclose(slopes[free], 0.0, atol=1e-3)
    assert (slopes[~free] >= -1e-3).all()


def test_shares_go_to_the_member_that_predicts():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 4000).astype(np.uint16)
    good = np.full((4000, 2), 0.2)
    good[np.arange(4000), np.where(rng.random(4000) < 0.8, labels, 1 - labels)] = 0.8
    noise = rng.dirichlet(np.ones(2), 4000)
    shares = fit_shares(HeldOut(np.log([good, noise]), labels, np.ones(4000)))
    # Alone and calibrated, a member has share 1; the prior around 1/2 holds it back a little.
    assert shares[0] == pytest.approx(0.97, abs=0.06)
    assert shares[1] < 0.1


def test_held_out_losses_are_reported_and_the_pools_is_the_least_but_for_the_prior():
    rows = make_rows(2, 2000)
    _, info = learn(Pooled(), rows, make_structure(rows, "tree"))
    pool, *members = info["held_out_loss"]
    assert len(members) == len(info["members"]) == len(info["shares"]) == 4
    assert pool < min(members) + 0.5 * PRECISION / 2000  # the prior's share of the objective
    assert pool < np.mean(members)
    assert [m["member"].split("(")[0] for m in info["members"]] == ["HDP"] + 3 * ["Discriminative"]


def test_same_tables_for_any_threads_and_blocks():
    rows = make_rows(9, 300, unknown=0.05, weights=np.random.default_rng(0).integers(1, 4, 300) / 2)
    structure = make_structure(rows, "tree")
    first, _ = learn(Pooled(), rows, structure)
    for blocks, n_jobs in ((37, 1), (300, 2)):
        again, _ = learn(Pooled(), in_blocks(rows, blocks), structure, n_jobs=n_jobs)
        assert again == first


def test_choices_are_made_on_a_sample_and_tables_on_all_rows():
    rows = make_rows(4, 900)
    structure = make_structure(rows, "tree")
    shares = learn(Pooled(["hdp", "laplace"], max_rows=300), rows, structure)[1]["shares"]
    assert shares != learn(Pooled(["hdp", "laplace"]), rows, structure)[1]["shares"]
    assert shares == learn(Pooled(["hdp", "laplace"], max_rows=300), rows, structure)[1]["shares"]
    tables, _ = learn(Pooled(["hdp"], max_rows=300), rows, structure)
    expected = posterior(learn(HDP(), rows, structure)[0], structure, rows)
    np.testing.assert_allclose(posterior(tables, structure, rows), expected, atol=1e-9)


def test_settling_fixes_the_strength_that_learning_would_choose():
    rows = make_rows(6, 400)
    structure = make_structure(rows, "tree")
    learner = Discriminative(l2="cv")
    settled = learner.choose(structure, Counts(rows, FitContext()), FitContext()).learner
    assert settled.l2 == learn(learner, rows, structure)[1]["l2"]
    assert learner.l2 == "cv"
    assert learn(settled, rows, structure)[0] == learn(learner, rows, structure)[0]


def test_weights_count_as_repetitions_with_fixed_shares():
    rows = make_rows(8, 120)
    codes, labels, _ = rows.gather()[:3]
    repeats = np.random.default_rng(3).integers(0, 3, 120)
    weighted = type(rows).in_memory(rows.domain, codes, labels, repeats.astype(float))
    repeated = type(rows).in_memory(
        rows.domain, np.repeat(codes, repeats, axis=1).copy(), np.repeat(labels, repeats)
    )
    structure = make_structure(rows, "tree")
    pool = Pooled([MEstimate(1.0), HDP(tolerance=1e-12), FREE], shares="equal")
    one, two = (
        posterior(learn(pool, r, structure)[0], structure, rows) for r in (weighted, repeated)
    )
    np.testing.assert_allclose(one, two, atol=1e-4)


@pytest.mark.parametrize(
    ("n_rows", "arities", "n_classes"),
    [(1, (3, 2, 4, 2), 1), (2, (3, 2, 4, 2), 2), (11, (1, 1, 1, 1), 2), (400, (3, 2, 4, 2), 150)],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_odd_tables(n_rows, arities, n_classes):
    rows = make_rows(0, n_rows, arities, n_classes)
    structure = make_structure(rows, "tree")
    p = posterior(learn(Pooled(), rows, structure)[0], structure, rows)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_a_zero_of_one_member_is_no_veto():
    rows = make_rows(1, 40)
    logs = np.log(np.random.default_rng(0).dirichlet(np.ones(3), (2, 40)))
    logs[0, :, 1] = -1e6  # one member rules a class out
    held_out = HeldOut(np.maximum(logs, FLOOR), np.ones(40, np.uint16), np.ones(40))
    shares = fit_shares(held_out)
    assert np.isfinite(held_out.mean_loss(shares))
    assert shares[0] < shares[1]
    structure = make_structure(rows, "naive")
    p = posterior(learn(Pooled(["ml", "hdp"]), rows, structure)[0], structure, make_rows(2, 300))
    assert np.isfinite(p).all()


@pytest.mark.filterwarnings("ignore::tanager.errors.ApproximationWarning")
def test_members_that_know_nothing_leave_the_classes_alike():
    # Every value occurs with both classes; whoever remembers rows is wrong about the others.
    X = np.repeat([f"v{i}" for i in range(300)], 4)[:, None].astype(object)
    y = np.tile([0, 1], 600)
    clf = BayesNetClassifier("naive", Pooled(["ml", "laplace"])).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), 0.5, atol=0.02)


def test_two_columns_of_many_values_are_not_joined():
    n = 600
    X = np.array([[f"a{i}", f"b{-i}", "xyz"[i % 3]] for i in range(n)], object)
    y = np.arange(n) % 2
    plain = "tan(adjusted=False)"  # by chance alone they seem to depend on each other
    clf = BayesNetClassifier(plain, "pooled", audit=False).fit(X, y)
    (edge,) = clf.info_["structure"]["dropped"]
    assert set(edge) == {"x0", "x1"}
    assert clf.network_.tables.normalized
    whole = BayesNetClassifier(plain, "hdp", audit=False).fit(X, y)
    parents = whole.structure_.parents
    assert parents["x1"] == ("x0",) or parents["x0"] == ("x1",)


def test_a_limited_structure_stays_moral():
    domain = Domain(tuple("abcd"), np.array([900, 900, 3, 3]), 2)
    structure = Structure.from_parents("abcd", [(), (0,), (0, 1), (2, 1)])
    limited = Pooled().affordable(structure, domain)
    assert limited.parent_indices == (
        (),
        (),
        (0,),
        (2,),
    )  # (1) left b, and c with a and b is immoral
    assert Pooled().affordable(limited, domain) == limited


@pytest.mark.parametrize("n_parents", [1, 2])
def test_shorter_members_of_sparse_families_answer_unseen_contexts(n_parents, monkeypatch):
    for module in (layout_module, tables_module):
        monkeypatch.setattr(module, "SMALL_CELLS", 0)
        monkeypatch.setattr(module, "DENSE_FACTOR", 0)
    rows, others = make_rows(3, 15, (4, 4, 4, 4)), make_rows(4, 300, (4, 4, 4, 4))
    structure = Structure.from_parents(rows.domain.names, [(), (0,), (1, 0), (2, 1, 0)])
    cut = Structure.from_parents(
        rows.domain.names, [parents[:n_parents] for parents in structure.parent_indices]
    )
    for member in (HDP(), MEstimate(m=1.0)):
        tables, _ = learn(Pooled([(member, n_parents)], shares=[1.0]), rows, structure)
        expected = posterior(learn(member, rows, cut)[0], cut, others)
        np.testing.assert_allclose(posterior(tables, structure, others), expected, atol=1e-9)


def test_model_files_keep_the_pool(tmp_path):
    X = [["a", "u"], ["a", "v"], ["b", "u"], ["b", "v"], ["b", "v"]] * 4
    clf = BayesNetClassifier("tan", Pooled(["hdp", (FREE, 0)])).fit(X, [0, 0, 1, 1, 0] * 4)
    save(clf, tmp_path / "model.tanager")
    again = load(tmp_path / "model.tanager")
    assert repr(again) == repr(clf)
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_streamed_rows_give_the_same_model(tmp_path):
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "a": rng.choice(["x", "y", "z"], 500),
            "b": rng.normal(size=500),
            "label": rng.choice(["yes", "no"], 500),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=90)
    one = BayesNetClassifier("tan", "pooled").fit(table, "label")
    two = BayesNetClassifier("tan", "pooled").fit(tmp_path / "rows.parquet", "label")
    X = table.drop_columns("label")
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": []}, "members=\\[\\]"),
        ({"members": "hdp"}, "members='hdp'"),
        ({"members": [("hdp", -1)]}, "a pair"),
        ({"members": ["hpd"]}, "'hpd' is not known"),
        ({"shares": "best"}, "'cv', 'equal'"),
        ({"shares": [1.0]}, "each of the 4 members"),
        ({"shares": [0, 0, 0, 0]}, "not all 0"),
        ({"shares": [np.inf, 1, 1, 1]}, "shares="),
        ({"shares": 0.5}, "shares=0.5"),
        ({"members": ("hdp", 0)}, "such as"),
        ({"members": [5]}, "member 5"),
        ({"max_rows": 3}, "max_rows=3"),
    ],
)
def test_errors_name_the_option(options, message):
    rows = make_rows()
    with pytest.raises(ConfigurationError, match=message):
        learn(Pooled(**options), rows, make_structure(rows, "tree"))
