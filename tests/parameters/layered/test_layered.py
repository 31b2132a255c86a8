"""A layered pool is the geometric mean of its members, honest, and one network."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss

from tanager import BayesNetClassifier, Constraints, load, save
from tanager.codes import Domain, Rows
from tanager.codes.groups import coarsen_groups
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ColumnWarning, ConfigurationError
from tanager.loglinear.cells import by_class
from tanager.loglinear.optimiser import climb
from tanager.parameters import PARAMETERS, DenseTable, GroupedTable, Layered, Tables
from tanager.parameters.layered.members import PRECISION, STRENGTHS, Generative, Smooth
from tanager.parameters.layered.part import LEAST_SLANTED, Part, _shorten, _within, n_read
from tanager.parameters.layered.pool import (
    _Inputs,
    pool_members,
)
from tanager.parameters.proper_network import family_shares, smooth_shares
from tanager.progress import Progress
from tanager.structure import FitPlan, Structure
from tanager.structure.ktree import KTree, heaviest_tree

MORAL = Structure.from_parents("abc", [(), (0,), (1, 0)])
IMMORAL = Structure.from_parents("abc", [(), (), (1, 0)])


def make_rows(n_rows: int = 300, n_classes: int = 3, seed: int = 0) -> Rows:
    """Two numbers of 7 and 6 intervals, one with "missing", and a category."""
    generator = np.random.default_rng(seed)
    a, b = generator.integers(0, 7, n_rows), generator.integers(0, 7, n_rows)
    c = generator.integers(0, 3, n_rows)
    labels = (a // 3 + (b > 3) * (c == 1) + (generator.random(n_rows) < 0.2)) % n_classes
    domain = Domain(tuple("abc"), np.array([7, 7, 3]), n_classes, (7, 6, 0))
    return Rows.in_memory(domain, np.stack([a, b, c]).astype(np.uint8), labels.astype(np.uint16))


def make_part(rows: Rows, structure: Structure) -> Part:
    context = FitContext()
    counts = Counts(rows, context)
    return Part.of(rows, counts, structure, FitPlan(context).for_rows(counts), context)


def softmax(scores):
    out = np.exp(scores - scores.max(axis=1, keepdims=True))
    return out / out.sum(axis=1, keepdims=True)


def check_posterior(found, total, rows):
    """Compare scores with a pool's, but for class offsets that predict as many rows as there are.

    Scores (n_rows, n_classes) are known up to what all classes of a row have alike.
    """
    away = found - total
    away -= away.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(away, np.tile(away[0], (rows.n_rows, 1)), atol=1e-9)
    counts = np.bincount(rows.gather().labels, minlength=found.shape[1])
    np.testing.assert_allclose(softmax(found).sum(axis=0), counts, rtol=1e-3)


def table(n_rows: int = 240, seed: int = 0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_rows, 4))
    X[:, 3] = generator.integers(0, 3, n_rows)
    y = (X[:, 0] + X[:, 1] * (X[:, 3] > 0) > 0).astype(int)
    return X, y


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    return BayesNetClassifier().fit(X, y), X, y


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("structure", [MORAL, IMMORAL], ids=["moral", "immoral"])
def test_the_tables_have_the_posterior_of_thepool_members(structure, n_classes):
    rows = make_rows(n_classes=n_classes)
    part = make_part(rows, structure)
    members = [Smooth(depth, Layered()._settings()) for depth in (0, 1, 2)]
    members.append(Generative(PARAMETERS.resolve("hdp")))
    scores, shares = [member.scores(part) for member in members], np.array([0.2, 0.5, 0.3, 0.4])
    tables = pool_members(part, part.structure, members, shares, Progress(), members[2])
    codes = rows.gather().codes
    # The definition: every member's sum of scores, by the row's values and groups.
    total = np.zeros((rows.n_rows, n_classes))
    for share, (class_node, values, groups) in zip(shares, scores, strict=True):
        total += share * class_node
        for feature, (alone, family) in enumerate(zip(values, groups, strict=True)):
            parents = structure.parent_indices[feature][: family.ndim - 2]
            read = [part.groups[p][codes[p]] for p in (*parents, feature)]
            total += (
                share
                * np.broadcast_to(alone, (len(part.groups[feature]), n_classes))[codes[feature]]
            )
            spread = [int(part.groups[p].max()) + 1 for p in (*parents, feature)]
            total += share * np.broadcast_to(family, (*spread, n_classes))[tuple(read)]
    check_posterior(tables.log_joint(structure, codes, rows.domain.arities), total, rows)
    assert tables.normalized == structure.is_moral()


def tables_of(part, depth):
    return [(one, parents) for one, parents, slant in part.interactions(depth) if slant is None]


def test_pairs_of_numbers_have_curves_along_slants():
    rows = make_rows(2_000)
    chunk = rows.gather()
    labels = (chunk.codes[0].astype(int) - chunk.codes[1] > 0).astype(np.uint16)
    part = make_part(Rows.in_memory(rows.domain, chunk.codes, labels), MORAL)
    ordered = [part.columns.n_ordered[3 + one] >= LEAST_SLANTED for one in range(3)]
    assert sum(ordered) == 2
    slanted = [(one, parents, slant) for one, parents, slant in part.interactions(2) if slant]
    assert {(one, parents) for one, parents, _ in slanted} == {(1, (0,))}
    first = slanted[0][2]  # of ranks: what the codes stand for isn't known
    assert np.all(np.diff(first.first) * np.diff(first.second)[0] < 0)
    slants = [slant for *_, slant in slanted]
    assert slants == [slant for *_, slant in part.shortened(1).interactions(1) if slant]
    signed = replace(part.plan, signs={1: np.array([0, 1, 0], np.int8)})
    part = Part.of(part.rows, Counts(part.rows, FitContext()), MORAL, signed, FitContext())
    assert part.slants == {}


@pytest.mark.parametrize("slope", [1.0, 0.0])
def test_curves_follow_straight_lines_where_held_out_rows_gain(slope, monkeypatch):
    draw = np.random.default_rng(8)
    X = draw.normal(size=(240, 6))
    steps = 3.0 * (np.abs(X[:, 0]) < 0.5) - 3.0 * (np.abs(X[:, 1]) > 1.0)
    score = 2.0 * X.sum(axis=1) if slope else steps
    y = (score + draw.logistic(size=240) > np.median(score)).astype(int)
    clf = BayesNetClassifier("naive", "layered", random_state=0).fit(X[:120], y[:120])
    assert clf.info_["parameters"]["straight"] is bool(slope)
    monkeypatch.setattr(Part, "find_lines", lambda self: {})
    curved = BayesNetClassifier("naive", "layered", random_state=0).fit(X[:120], y[:120])
    assert not curved.info_["parameters"]["straight"]
    losses = [log_loss(y[120:], one.predict_proba(X[120:])) for one in (clf, curved)]
    assert losses[0] < 0.9 * losses[1] if slope else losses[0] == losses[1]


@pytest.mark.parametrize("structure", [MORAL, IMMORAL], ids=["moral", "immoral"])
def test_of_many_rows_every_parent_has_a_table_of_its_own(structure, monkeypatch):
    monkeypatch.setattr("tanager.parameters.layered.part.OWN_TABLE_ROWS", 0)
    rows = make_rows()
    part = make_part(rows, structure)
    alone = [(2, (1,)), (2, (0,)), (2, (1, 0))]
    assert tables_of(part, 2) == ([(1, (0,))] if structure is MORAL else []) + alone
    member, fits, fit = None, [], Smooth._fit
    for depth in range(3):
        member = Smooth(depth, Layered()._settings(), member)
    monkeypatch.setattr(Smooth, "_fit", lambda *args: fits.append(fit(*args)) or fits[-1])
    tables = pool_members(part, part.structure, [member], np.ones(1), Progress(), member)
    # The definition: the score of each feature's value, and of each table's groups.
    codes, terms = rows.gather().codes, part.terms(2)
    cells = terms.scores(fits[-1].free)
    scores = terms.family_scores(cells)
    total = by_class(cells[:1]) + sum(scores[feature][codes[feature]] for feature in range(3))
    for (feature, parents, _), layer in zip(part.interactions(2), scores[3:], strict=True):
        read = part.groups
        if len(parents) > 1:  # larger tables are read coarsely
            pairs = zip(part.groups, rows.domain.n_ordered, strict=True)
            read = [coarsen_groups(group, n_ordered) for group, n_ordered in pairs]
        total = total + layer[tuple(read[p][codes[p]] for p in (*parents, feature))]
    check_posterior(tables.log_joint(structure, codes, rows.domain.arities), total, rows)


def test_with_many_rows_further_parents_have_a_table_alone_and_one_together(monkeypatch):
    structure = Structure.from_parents("abcd", [(), (0,), (1, 0), (2, 1, 0)])
    domain = Domain(tuple("abcd"), np.full(4, 2), 2, (0,) * 4)
    rows = Rows.in_memory(domain, np.zeros((4, 9), np.uint8), np.zeros(9, np.uint16))
    given = (np.arange(2),) * 4, structure, FitPlan(), FitContext()
    part = Part(rows, *given, reads=n_read(structure, FitPlan()))
    together = [(1, (0,)), (2, (1,)), (2, (1, 0)), (3, (2,)), (3, (2, 1)), (3, (2, 1, 0))]
    assert tables_of(part, 3) == together
    monkeypatch.setattr("tanager.parameters.layered.part.OWN_TABLE_ROWS", 0)
    alone = [(1, (0,)), (2, (1,)), (2, (0,)), (2, (1, 0)), (3, (2,)), (3, (1,)), (3, (2, 1))]
    assert tables_of(part, 3) == [*alone, (3, (0,)), (3, (2, 1, 0))]


def test_members_without_a_share_are_not_fitted(monkeypatch):
    fitted = []
    judged = lambda members, trial: (members, np.eye(len(members))[1], [0.5] * (len(members) + 1))  # noqa: E731
    monkeypatch.setattr("tanager.parameters.layered._worthwhile", judged)
    own = Smooth.scores
    monkeypatch.setattr(Smooth, "scores", lambda self, part: fitted.append(self) or own(self, part))
    X = np.random.default_rng(0).integers(0, 3, (200, 4))
    clf = BayesNetClassifier(categorical_features="all").fit(X, (X[:, 0] == X[:, 1]).astype(int))
    assert [member.depth for member in fitted] == [1]
    assert clf.structure_.max_parents == 2  # P(x) reads one more than the scores
    members = clf.info_["parameters"]["members"]
    assert [m.get("converged") is None for m in members][:2] == [True, False]


def test_scores_are_divided_into_those_of_groups_and_those_within():
    generator = np.random.default_rng(0)
    scores, groups = generator.normal(size=(6, 3)), np.array([0, 0, 0, 1, 1, 2], np.uint16)
    weights = np.array([5.0, 0.0, 1.0, 30.0, 10.0, 0.0])
    within, totals = _within(scores, groups, weights)
    for group in range(3):
        np.testing.assert_allclose(np.exp(within[groups == group]).sum(axis=0), 1.0)
    rest = within + totals[groups] - scores  # the same for all classes
    np.testing.assert_allclose(rest, np.repeat(rest[:, :1], 3, axis=1), atol=1e-12)
    # Of scores that say nothing the shares of the rows are left, and a sixth of a row each.
    even, _ = _within(np.zeros((6, 3)), groups, weights)
    np.testing.assert_allclose(np.exp(even[3]), (30 + 1 / 6) / (40 + 2 / 6))


@pytest.mark.parametrize("row", [1.0, 2.5])
def test_inputs_are_smoothed_as_leaving_each_row_out_says(row):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, (3, 2, 4), (60, 3))
    weighed = np.zeros((3, 2, 4))
    np.add.at(weighed, tuple(codes.T), row)
    above = weighed.sum(axis=(0, 1)) / row + 0.25
    expected = above = above / above.sum()
    for depth in (1, 2):
        held = weighed.sum(axis=tuple(range(depth, 2))) / row
        found = {}
        for n in 2.0 ** np.arange(-1, 10):
            total = 0.0
            for *parents, own in codes[:, [*range(depth), 2]].tolist():
                rest = held[tuple(parents)].copy()
                rest[own] -= 1.0
                up = expected[tuple(parents[:-1])]
                total += np.log((rest[own] + n * up[own]) / (rest.sum() + n))
            found[n] = total
        n = max(found, key=found.__getitem__)
        expected = np.stack([
            (held[at] + n * expected[at[:-1]]) / (held[at].sum() + n)
            for at in np.ndindex(held.shape[:-1])
        ]).reshape(held.shape)  # fmt: skip
    shares, likelihood = smooth_shares(weighed, row)
    np.testing.assert_allclose(shares, expected, atol=1e-12)
    np.testing.assert_allclose(likelihood, row * found[n])


def test_the_network_is_proper_and_has_the_rows_shares():
    rows = make_rows()
    part = make_part(rows, MORAL)
    member = Smooth(2, Layered()._settings())
    tables = pool_members(part, part.structure, [member], np.ones(1), Progress(), member)
    for family in tables.families:
        np.testing.assert_allclose(np.exp(family.to_dense().log_prob).sum(axis=-2), 1.0)
    # Enumerate all rows: the joint sums to one.
    grid = np.indices((7, 7, 3)).reshape(3, -1).astype(np.uint8)
    joint = np.exp(tables.log_joint(MORAL, grid, rows.domain.arities))
    assert joint.sum() == pytest.approx(1.0)
    codes = rows.gather().codes
    for feature, arity in enumerate((7, 7, 3)):
        shares = np.bincount(grid[feature], joint.sum(axis=1), arity)
        wanted = np.bincount(codes[feature], minlength=arity) / rows.n_rows
        np.testing.assert_allclose(shares, wanted, atol=0.02)


def test_shares_of_families_are_those_of_the_joint():
    rows = make_rows()
    part = make_part(rows, MORAL)
    member = Smooth(2, Layered()._settings())
    tables = pool_members(part, part.structure, [member], np.ones(1), Progress(), member)
    logs = [family.to_dense().log_prob for family in tables.families]
    found = family_shares(MORAL, logs, tables.log_prior)
    grid = np.indices((7, 7, 3)).reshape(3, -1)
    joint = np.exp(tables.log_joint(MORAL, grid.astype(np.uint8), rows.domain.arities))
    for feature, parents in enumerate(MORAL.parent_indices):
        expected = np.zeros_like(found[feature])
        np.add.at(expected, (*grid[list(parents)], grid[feature]), joint)
        np.testing.assert_allclose(found[feature], expected, atol=1e-12)
    inputs = _Inputs.of(part).shares
    assert all(part.sum() == pytest.approx(1.0) for part in inputs)


@pytest.mark.parametrize("most_spelled", [0, 1 << 14], ids=["in two parts", "spelled out"])
@pytest.mark.parametrize("own", [[0, 1, 2, 3], [0, 0, 1, 1]], ids=["values", "groups"])
def test_a_grouped_table_answers_as_the_dense_one(own, most_spelled, monkeypatch):
    monkeypatch.setattr("tanager.parameters.tables.SMALL_CELLS", most_spelled)
    generator = np.random.default_rng(0)
    given = [0, 0, 1, 1, 2], [0, 1, 1], own
    groups = [np.array(group, np.uint16) for group in given]
    log_group = generator.normal(size=(3, 2, max(own) + 1, 2))
    log_within = generator.normal(size=(4, 2))
    grouped = GroupedTable.of_groups(log_group, log_within, groups)
    dense = grouped.to_dense()
    # The definition, cell by cell.
    for values in np.ndindex(5, 3, 4):
        read = tuple(group[value] for group, value in zip(groups, values, strict=True))
        expected = log_group[read] + log_within[values[-1]]
        np.testing.assert_allclose(dense.log_prob[values], expected)
    assert isinstance(grouped, GroupedTable)
    assert grouped.member_arities == dense.member_arities == (5, 3, 4)
    assert grouped.n_numbers == grouped.log_prob.size == 3 * 2 * 4 * 2
    assert "log_prob" not in pickle.loads(pickle.dumps(grouped)).__dict__
    arities = np.array([4, 3, 5])
    codes = np.stack([generator.integers(0, a + 1, 200) for a in arities]).astype(np.uint8)
    members = np.array([2, 1, 0])
    first, second = np.zeros((2, 200, 2))
    grouped.add_terms(codes, arities, members, first)
    dense.add_terms(codes, arities, members, second)
    np.testing.assert_allclose(first, second, atol=1e-12)
    structure = Structure.from_parents("abc", [(2, 1), (), ()])
    rest = (DenseTable(generator.normal(size=(3, 2))), DenseTable(generator.normal(size=(5, 2))))
    prior = np.zeros(2)
    np.testing.assert_allclose(
        Tables(prior, (grouped, *rest)).log_joint(structure, codes, arities),
        Tables(prior, (dense, *rest)).log_joint(structure, codes, arities),
        atol=1e-12,
    )


def test_parents_that_no_member_reads_are_left_out_of_the_network():
    rows = make_rows()
    part = make_part(rows, MORAL)
    assert part.shortened(1).structure.max_parents == 1
    assert part.shortened(2).structure == MORAL
    noise = np.random.default_rng(0).normal(size=(400, 5))
    clf = BayesNetClassifier("ktree(max_parents=3)").fit(noise, noise[:, 0] > 0)
    used = max(len(family.member_arities) - 1 for family in clf.network_.tables.families)
    assert clf.structure_.max_parents == used
    assert clf.structure_.is_moral()


def test_parents_stay_where_a_network_needs_them():
    # The first two parents of d, b and a, are joined by the second parent of b.
    whole = Structure.from_parents("abcd", [(), (2, 0), (0,), (1, 0, 2)])
    assert whole.is_moral()
    assert _shorten(whole, dict.fromkeys(range(4), 2)).parent_indices == ((), (2, 0), (0,), (1, 0))
    assert _shorten(whole, dict.fromkeys(range(4), 1)).parent_indices == ((), (2,), (0,), (1,))
    generator = np.random.default_rng(0)
    for _ in range(20):
        weights = generator.random((9, 9))
        tree = Structure.from_parents("abcdefghi", heaviest_tree(weights + weights.T, 3))
        for depth in range(4):
            short = _shorten(tree, dict.fromkeys(tree.selected, depth))
            assert short.is_moral()
            pairs = zip(tree.parent_indices, short.parent_indices, strict=True)
            assert all(mine[:depth] == held[:depth] for held, mine in pairs)
        assert short == tree


def test_a_saved_model_is_the_same(fitted, tmp_path):
    clf, X, _ = fitted
    assert any(isinstance(t, GroupedTable) for t in clf.network_.tables.families)
    save(clf, tmp_path / "m.tanager")
    again = load(tmp_path / "m.tanager")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert again.network_.tables == clf.network_.tables


def test_terms_add_up_and_unknown_values_are_summed_out(fitted):
    clf, X, _ = fitted
    joint = clf.predict_joint_log_proba(X[:20])
    parts = (
        clf.network_.log_terms(clf.network_.codebook.encode(X[:20])).sum(axis=1)
        + clf.network_.tables.log_prior
    )
    np.testing.assert_allclose(parts, joint, atol=1e-9)
    # Every value of an unknown feature, weighed by the model itself.
    codes = clf.network_.codebook.encode(X[:20])
    arity = int(clf.network_.codebook.domain.arities[0])
    each = []
    for value in range(arity):
        filled = codes.copy()
        filled[0] = value
        each.append(clf.network_.log_joint_of_codes(filled))
    unknown = codes.copy()
    unknown[0] = arity
    expected = np.logaddexp.reduce(each, axis=0)
    np.testing.assert_allclose(clf.network_.log_joint_of_codes(unknown), expected, atol=1e-9)


def test_a_parents_intervals_are_read_by_groups(fitted):
    clf, _, _ = fitted
    structure = clf.structure_
    feature = next(name for name, held in structure.parents.items() if held)
    shown = clf.network_.table(feature)
    assert len({context[1] for context in shown.contexts}) <= 9
    np.testing.assert_allclose(shown.probabilities.sum(axis=1), 1.0)


def test_a_fine_table_is_read_by_joined_neighbours(fitted):
    clf, _, _ = fitted
    table = clf.network_.table("x0")
    joined = table.joined(6)
    assert len(table.values) > 20
    assert len(joined.values) == 6
    assert joined.values[0].startswith("<= ")
    # Joined probabilities are sums: cumulated, they are those at the cuts that stay.
    fine, coarse = np.cumsum(table.probabilities, axis=1), np.cumsum(joined.probabilities, axis=1)
    ends = [np.argmin(np.abs(fine[0] - one)) for one in coarse[0]]
    np.testing.assert_allclose(fine[:, ends], coarse)
    assert len(str(table).splitlines()[1]) < 40 * len(joined.values)
    assert "neighbours merged" in str(table)
    assert table.joined(len(table.values)) is table


def test_the_record_says_what_was_chosen(fitted):
    record = fitted[0].info_["parameters"]
    assert len(record["shares"]) == len(record["members"]) == len(record["held_out_loss"]) - 1
    # At most the best member's, and what the prior around equal shares takes for it alone.
    pool, *members = record["held_out_loss"]
    prior = 0.5 * PRECISION * (1 - 1 / len(members)) / len(fitted[2])
    assert pool <= min(members) + prior
    assert all(member["l2"] in STRENGTHS for member in record["members"][:-1])


@pytest.mark.parametrize("n_classes", [2, 5])
def test_noise_stays_noise(n_classes):
    generator = np.random.default_rng(3)
    X, y = generator.normal(size=(1100, 40)), generator.integers(0, n_classes, 100)
    clf = BayesNetClassifier().fit(X[:100], y)
    # The expected loss where every class has the same chance whatever the row is.
    found = -clf.predict_log_proba(X[100:]).mean()
    shares = np.bincount(y, minlength=n_classes) / 100
    assert found < -np.log(shares).mean() + 0.01
    # The generative tables know less than the shares, and are left out.
    assert all("smooth" in member["member"] for member in clf.info_["parameters"]["members"])


def test_folds_learn_their_own_groups_and_structure():
    context = FitContext()
    seen = []

    class Spy:
        def learn(self, counts, plan):
            seen.append(counts.rows.n_rows)
            return Structure.from_parents(counts.domain.names, [()] * 3)

    rows = make_rows(200)
    structure = Structure.from_parents("abc", [()] * 3)
    Layered().learn(structure, Counts(rows, context), FitPlan(context, Spy()))
    assert len(seen) == 5
    assert sum(200 - n_rows for n_rows in seen) == 200


def test_the_same_fit_twice_and_whatever_the_chunks():
    rows = make_rows(200)
    codes, labels = rows.gather()[:2]
    small = Rows.in_memory(rows.domain, codes, labels, None, block_rows=37)
    first, second = (
        Layered().learn(MORAL, Counts(one, FitContext()), FitPlan()) for one in (rows, small)
    )
    assert first == second


def test_few_rows_and_one_class():
    X, y = table(8)
    assert BayesNetClassifier().fit(X, y).predict_proba(X).shape == (8, 2)
    with pytest.warns(ColumnWarning, match="one class"):
        alone = BayesNetClassifier().fit(X, [1] * 8)
    assert alone.predict_proba(X).tolist() == [[1.0]] * 8


@pytest.mark.parametrize(
    "options",
    [{"max_iter": 0}, {"tol": -1.0}, {"generative": "discriminative"}],
)
def test_options_that_are_not_allowed(options):
    X, y = table(30)
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        BayesNetClassifier("tan", Layered(**options)).fit(X, y)


def test_strengths_are_climbed_to_the_least_loss():
    losses = [5.0, 4.0, 3.0, 3.5, 6.0]

    def gain(before, after):
        return losses[before] - losses[after]

    assert climb(gain, 4, 5, 0.0) == 2
    assert climb(gain, 0, 5, 0.0) == 2
    assert climb(gain, 3, 5, 1.0) == 3


@pytest.mark.parametrize("total", [1.0, 1 / 1024, 37.5])
def test_class_shares_sum_to_one_whatever_the_weights(total):
    rows = make_rows()
    chunk = rows.gather()
    weights = np.full(rows.n_rows, total / rows.n_rows)
    light = Rows.in_memory(rows.domain, chunk.codes, chunk.labels, weights)
    structure = Structure.from_parents(rows.domain.names, [()] * rows.domain.n_features)
    groups = tuple(np.arange(arity) for arity in rows.domain.arities)
    part = Part(light, groups, structure, FitPlan(), FitContext())
    assert part.class_shares.sum() == pytest.approx(1.0)
    assert part.class_shares == pytest.approx(np.bincount(chunk.labels) / rows.n_rows)


def test_each_edge_has_the_share_of_folds_that_found_it():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (900, 4)).astype(str)
    X[:, 1] = np.where(rng.random(900) < 0.9, X[:, 0], X[:, 1])  # a link that nobody can miss
    y = (X[:, 0] == X[:, 2]) ^ (rng.random(900) < 0.1)
    clf = BayesNetClassifier("ktree", "layered").fit(X, y)
    found = {(p, f): share for p, f, share in clf.info_["parameters"]["found_again"]}
    parents = clf.structure_.parents
    assert set(found) == {(p, feature) for feature, held in parents.items() for p in held}
    assert all(share * 5 == round(share * 5) for share in found.values())
    assert found.get(("x0", "x2"), found.get(("x2", "x0"))) == 1.0


@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
def test_steep_scores_do_not_bend_the_probability_of_inputs(balance: tuple[Any, Any]) -> None:
    # Independent features, and a class that they settle: the sum of steep scores over the classes
    # is no product of small tables, so P(x) needs the features together.
    X, y = balance
    clf = BayesNetClassifier(random_state=0).fit(X, y)
    assert clf.structure_.max_parents == 3
    grid = np.array(list(product(range(5), repeat=4)))
    truth = np.sign(grid[:, 0] * grid[:, 1] - grid[:, 2] * grid[:, 3])
    lost = []
    for some in ([0], [0, 1], [1, 2], [0, 2, 3]):
        known = [[row[at] if at in some else None for at in range(4)] for row in grid[::7].tolist()]
        said = clf.predict_proba(known)
        alike = (grid[:, None, some] == grid[None, ::7, some]).all(axis=2)
        true = np.stack([(alike & (truth == c)[:, None]).sum(axis=0) for c in clf.classes_], axis=1)
        true = true / alike.sum(axis=0)[:, None]
        lost.append(
            float((true * (np.log(np.maximum(true, 1e-9)) - np.log(said))).sum(axis=1).mean())
        )
    assert max(lost) < 0.1  # 0.47 with two parents


def test_a_network_that_is_not_bent_keeps_few_parents() -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 800)
    X = (rng.random((800, 6)) < 0.3 + 0.4 * y[:, None]).astype(int)
    assert BayesNetClassifier(random_state=0).fit(X.astype(str), y).structure_.max_parents <= 2


def test_widened_trees_keep_to_constraints(balance: tuple[Any, Any]) -> None:
    X, y = balance
    rules = Constraints(forbidden=[("x3", "x0"), ("x0", "x3")], max_parents=2)
    clf = BayesNetClassifier(random_state=0, constraints=rules).fit(X, y)
    parents = clf.structure_.parents
    assert max(map(len, parents.values())) <= 2
    assert "x3" not in parents["x0"]
    assert "x0" not in parents["x3"]


@pytest.fixture(scope="module")
def balance() -> tuple[Any, Any]:
    """Half of the rows of a scale: two weights times distances."""
    grid = np.array(list(product(range(5), repeat=4)))
    drawn = np.random.default_rng(0).permutation(len(grid))[:320]
    rows = grid[drawn]
    return rows, np.sign(rows[:, 0] * rows[:, 1] - rows[:, 2] * rows[:, 3])


def test_scores_read_a_third_parent_only_with_room_for_fine_groups():
    generator = np.random.default_rng(0)
    n_rows = 1_500
    X = generator.normal(size=(n_rows, 7))
    X[:, 4:] = X[:, 4:] > 0
    y = (X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] * X[:, 5] * X[:, 6] > 0.3).astype(int)
    seen = []
    learn = Layered._members

    def spy(self, generative, part, *given):
        seen.append(part)
        return learn(self, generative, part, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layered, "_members", spy)
        clf = BayesNetClassifier().fit(X, y)
    (part,) = seen
    sizes = [24] * 4 + [2] * 3
    families = dict(zip(part.structure.selected, part.structure.parent_indices, strict=True))
    assert 3 in part.reads.values()
    for feature, parents in families.items():
        held = parents[: part.reads[feature]]
        size = np.prod([sizes[one] for one in (feature, *held)])
        assert len(held) <= 2 or size <= 3 * n_rows
        for one, other in product(held, held):  # scores alone have no immoralities, either
            read = families[one][: part.reads[one]], families[other][: part.reads[other]]
            assert one == other or one in read[1] or other in read[0]
    assert clf.structure_.is_moral()


def test_small_categories_get_more_than_three_parents_where_rows_suffice():
    generator = np.random.default_rng(7)
    tables = generator.normal(0.0, 2.0, (3,) * 5)
    X = generator.integers(0, 3, (9_000, 5))
    likely = 1.0 / (1.0 + np.exp(-tables[tuple(X.T)]))
    y = (generator.random(9_000) < likely).astype(int)
    X = X.astype(str)
    few, many = (
        BayesNetClassifier(structure, "layered", bins="fine").fit(X[:6_000], y[:6_000])
        for structure in (KTree(max_parents=3), KTree())
    )
    assert few.structure_.max_parents == 3
    assert many.structure_.max_parents == 4  # all others
    losses = [log_loss(y[6_000:], clf.predict_proba(X[6_000:])) for clf in (few, many)]
    assert losses[1] < 0.97 * losses[0]
