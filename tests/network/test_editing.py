"""Changes by hand: what they do to the posterior, and that they are remembered."""

import json

import numpy as np
import pyarrow as pa
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, ModelFileError
from tanager.network import Network
from tanager.network.files import checksum
from tanager.parameters import GroupedTable
from tanager.structure import KDB, Fixed


@pytest.fixture(scope="module", params=["naive", "tan", "2-tree", "default"])
def fitted(request):
    """A network of numbers, texts and gaps, and rows of it."""
    rng = np.random.default_rng(3)
    n = 400
    y = rng.integers(0, 2, n)
    table = pa.table(
        {
            "age": pa.array(np.where(rng.random(n) < 0.1, np.nan, rng.normal(40 + 5 * y, 8, n))),
            "pay": pa.array(rng.normal(10 * y, 8, n)),
            "job": pa.array(np.array(["clerk", "smith", "cook"])[(y + rng.integers(0, 2, n)) % 3]),
            "town": pa.array(np.array(["a", "b"])[(rng.random(n) < 0.3 + 0.3 * y).astype(int)]),
        }
    )
    structure = KDB(k=2, moral=True, adjusted=False) if request.param == "2-tree" else request.param
    clf = BayesNetClassifier(structure, "hdp", bins=4)
    if request.param == "default":  # its tables read parents in groups of values
        clf = BayesNetClassifier("kdb(k=2, moral=True, adjusted=False)", "layered")
    clf.fit(table, np.array(["no", "yes"])[y])
    grouped = [isinstance(t, GroupedTable) for t in clf.network_.tables.families]
    assert any(grouped) == (request.param == "default")
    return clf, table


def log_odds(network, table):
    joint = network.log_joint(table)
    return joint[:, 1] - joint[:, 0]


def plain_terms(network, table):
    """Each feature's log-odds in complete rows."""
    terms = network.log_terms(network.codebook.encode(table))
    return terms[:, :, 1] - terms[:, :, 0]


def test_an_effect_is_what_was_set_and_nothing_else_moves(fitted):
    clf, table = fitted
    network = clf.network_
    edited = network.edit("job", effect={"clerk": 0.7, "smith": {"yes": -1.0, "no": 0.5}})
    jobs = np.array(table["job"].to_pylist())
    terms = plain_terms(edited, table)[:, 2]
    assert np.allclose(terms[jobs == "clerk"], 0.7, rtol=0, atol=1e-9)
    assert np.allclose(terms[jobs == "smith"], -1.5, rtol=0, atol=1e-9)
    others = jobs == "cook"
    assert np.allclose(log_odds(edited, table)[others], log_odds(network, table)[others])
    assert edited.tables.normalized
    for family in edited.tables.families:
        assert np.allclose(np.exp(family.to_dense().log_prob).sum(axis=-2), 1)


def test_a_neutral_feature_says_nothing(fitted):
    clf, table = fitted
    edited = clf.network_.edit("age", neutralise=True)
    assert np.allclose(plain_terms(edited, table)[:, 0], 0, atol=1e-12)
    assert np.allclose(plain_terms(edited, table)[:, 1:], plain_terms(clf.network_, table)[:, 1:])
    assert np.allclose(edited.log_prior, clf.network_.log_prior)


def test_smoothing_is_a_mean_over_neighbours(fitted):
    clf, table = fitted
    network = clf.network_
    if network.structure.parents["pay"]:
        pytest.skip("the plain formula below is that of a feature without parents")
    edited = network.edit("pay", smooth=1)
    n = len(network.codebook.columns[1].cuts) + 1
    chances = np.exp(network.tables.families[1].to_dense().log_prob)  # (values, classes)
    mixed = chances @ np.exp(network.log_prior)
    effect = np.log(chances) - np.log(mixed)[:, None]
    smoothed = effect.copy()
    for v in range(n):
        near = [w for w in (v - 1, v, v + 1) if 0 <= w < n]
        smoothed[v] = sum(mixed[w] * effect[w] for w in near) / sum(mixed[w] for w in near)
    codes = network.codebook.encode(table)[1]
    wanted = plain_terms(network, table)
    wanted[:, 1] = (smoothed[:, 1] - smoothed[:, 0])[codes]
    prior = network.log_prior[1] - network.log_prior[0]
    assert np.allclose(log_odds(edited, table), prior + wanted.sum(axis=1), rtol=0, atol=1e-9)


def test_smoothing_with_parents_keeps_a_proper_network(fitted):
    clf, table = fitted
    edited = clf.network_.edit("pay", smooth=2)
    assert edited.tables.normalized
    assert not np.allclose(log_odds(edited, table), log_odds(clf.network_, table), atol=1e-3)
    for name, before, after in zip(
        edited.structure.features, clf.network_.tables.families, edited.tables.families, strict=True
    ):
        np.testing.assert_allclose(np.exp(after.to_dense().log_prob).sum(axis=-2), 1.0, atol=1e-9)
        if name != "pay" and isinstance(before, GroupedTable):
            assert isinstance(after, GroupedTable)
            assert after.log_group.shape == before.log_group.shape


def test_a_forbidden_feature_is_gone_and_the_rest_is_the_joint(fitted):
    clf, table = fitted
    network = clf.network_
    edited = network.edit("age", forbid=True, reason="by law")
    assert "age" not in edited.structure.features
    other = table.set_column(0, "age", pa.array(np.full(table.num_rows, 1e6)))
    assert np.array_equal(edited.log_joint(table), edited.log_joint(other))
    # Each family is that of the old joint: checked where a child has no other parent.
    for at, (name, parents) in enumerate(edited.structure.parents.items()):
        if parents:
            continue
        column = network.structure.names.index(name)
        arities = network.codebook.domain.arities
        codes = np.repeat(arities[:, None], arities[column], axis=1).astype(np.uint8)
        codes[column] = np.arange(arities[column])
        joint = np.exp(network.log_joint_of_codes(codes))
        wanted = np.log(joint / joint.sum(axis=0))
        assert np.allclose(edited.tables.families[at].to_dense().log_prob, wanted, atol=1e-9)


def test_edits_are_remembered_in_order_and_in_the_file(fitted, tmp_path):
    clf, table = fitted
    edited = (
        clf.network_.edit("age", smooth=1, reason="noise", author="Ada", when="2026-01-02T03:04:05")
        .edit("job", effect={"cook": 0.0})
        .edit("town", forbid=True)
    )
    assert clf.network_.history == ()
    assert [edit.action for edit in edited.history] == ["smooth", "effect", "forbid"]
    assert str(edited.history[0]) == "2026-01-02 by Ada age: effect smoothed (noise)"
    assert edited.history[1].details == {"effect": {"cook": 0.0}}
    edited.save(tmp_path / "m.tanager")
    loaded = Network.load(tmp_path / "m.tanager")
    assert loaded.history == edited.history
    assert np.array_equal(loaded.log_joint(table), edited.log_joint(table))
    clf.network_, kept = edited, clf.network_
    tanager.save(clf, tmp_path / "c.tanager")
    clf.network_ = kept
    assert tanager.load(tmp_path / "c.tanager").network_.history == edited.history
    assert "effect smoothed (noise)" in loaded._repr_html_()
    assert [edit["action"] for edit in json.loads(loaded.to_json())["history"]][-1] == "forbid"


def rewrite(source, target, change):
    """Write a model file with another header, properly signed."""
    from safetensors.numpy import load, save

    data = source.read_bytes()
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    header = json.loads(metadata["header"])
    change(header)
    tensors = load(data)
    text = json.dumps(header)
    target.write_bytes(
        save(tensors, {**metadata, "header": text, "sha256": checksum(text, tensors)})
    )


def test_files_without_a_history_are_read_and_forged_ones_are_not(fitted, tmp_path):
    clf, _ = fitted
    path, other = tmp_path / "m.tanager", tmp_path / "o.tanager"
    clf.network_.edit("age", neutralise=True).save(path)
    rewrite(path, other, lambda header: header.pop("history"))
    assert Network.load(other).history == ()
    for forged in (7, [3], [{}], [{"feature": "age"}], {"a": 1}):
        rewrite(path, other, lambda header, forged=forged: header.update(history=forged))
        with pytest.raises(ModelFileError):
            Network.load(other)
    for key, value in (("feature", "nobody"), ("action", "erase"), ("when", 3), ("details", [])):
        rewrite(path, other, lambda h, k=key, v=value: h["history"][0].update({k: v}))
        with pytest.raises(ModelFileError):
            Network.load(other)


@pytest.mark.parametrize(
    ("feature", "request_", "words"),
    [
        ("age", {}, "given: none"),
        ("age", {"smooth": 1, "forbid": True}, "smooth, forbid"),
        ("nobody", {"forbid": True}, "'nobody' is not in the network"),
        ("job", {"smooth": 1}, "no order"),
        ("age", {"smooth": -1}, "smooth=-1"),
        ("job", {"effect": {"king": 1.0}}, "no value 'king'"),
        ("job", {"effect": 3}, "effect=3"),
        ("job", {"effect": {"clerk": "high"}}, "'high'"),
        ("job", {"effect": {"clerk": {"maybe": 1.0}}}, "'maybe'"),
        ("job", {"effect": {"clerk": float("nan")}}, "between -100 and 100"),
        ("job", {"effect": {"clerk": {"yes": "high"}}}, "'high'"),
        ("job", {"effect": np.zeros(3)}, "effect=array"),
        ("age", {"smooth": 0}, "smooth=0"),
        ("age", {"forbid": True, "reason": 5}, "reason=5"),
        ("age", {"forbid": True, "author": None}, "author=None"),
    ],
)
def test_wrong_edits_are_named(fitted, feature, request_, words):
    with pytest.raises(ConfigurationError, match=words):
        fitted[0].network_.edit(feature, **request_)


def test_numbers_and_flags_of_numpy_are_taken(fitted):
    network = fitted[0].network_
    edited = network.edit("age", smooth=np.int64(1), when="2026-01-02")
    assert edited == network.edit("age", smooth=1, when="2026-01-02")
    assert json.dumps(edited.history[0].details) == '{"neighbours": 1}'
    edited = network.edit("age", neutralise=np.bool_(False), forbid=np.bool_(True))
    assert edited.history[0].action == "forbid"
    for given in (True, np.bool_(True), 1.0, "1"):
        with pytest.raises(ConfigurationError, match="smooth="):
            network.edit("age", smooth=given)


@pytest.mark.parametrize("by", ["context", "parents", "center"])
def test_a_labelled_table_is_read_by_its_contexts_whatever_their_order(fitted, by):
    network, table = fitted[0].network_, fitted[1]
    for feature in network.structure.features:
        own = network.table(feature)
        again = network.with_table(feature, own.sorted(by))
        assert again.table(feature).contexts == own.contexts
        np.testing.assert_allclose(again.table(feature).probabilities, own.probabilities)
        np.testing.assert_allclose(again.log_joint(table), network.log_joint(table))


def test_an_edited_network_is_still_compared_with_its_training_rows(fitted):
    network, table = fitted[0].network_, fitted[1]
    for feature, parents in network.structure.parents.items():
        for parent in parents:
            edited = network.without_edge(parent, feature)
            assert edited.reference.pairs == network.reference.pairs
            assert [c.tolist() for c in edited.reference.cells] == [
                c.tolist() for c in network.reference.cells
            ]
            assert edited.drift(table).n_rows == network.drift(table).n_rows


def test_a_value_called_missing_has_tables_of_its_own():
    rng = np.random.default_rng(0)
    p = np.array(["missing", "a", None], object)[rng.integers(0, 3, 300)]
    x = np.where(rng.random(300) < np.where(p == "missing", 0.9, 0.2), "u", "w")
    y = rng.integers(0, 2, 300)
    structure = Fixed({"p": [], "x": ["p"]})
    network = BayesNetClassifier(structure, "laplace").fit({"p": p, "x": x}, y).network_
    table = network.table("x")
    assert [parent for _, parent in table.contexts[:3]] == ["a", "missing", "missing "]
    again = network.with_table("x", table).table("x")
    np.testing.assert_allclose(again.probabilities, table.probabilities)
    assert network.query("p").to_pandas().index.is_unique


@pytest.fixture
def with_zeros():
    """P(z | y, x) rules out values, and combinations of the class and its parent."""
    rng = np.random.default_rng(2)
    x, z, y = (np.array(list("abc"))[rng.integers(0, n, 200)] for n in (2, 3, 2))
    clf = BayesNetClassifier(Fixed({"x": [], "z": ["x"]}), "laplace")
    network = clf.fit({"x": x, "z": z}, y).network_
    network = network.with_table("x", {"a": {"a": 1.0}, "b": {"a": 0.4, "b": 0.6}})
    table = [[[0.5, 0.5, 0], [0.1, 0.2, 0.7]], [[0, 1, 0], [0.2, 0.8, 0]]]
    return network.with_table("z", np.array(table))


def test_an_effect_of_minus_infinity_is_neutralised(with_zeros):
    edited = with_zeros.edit("z", neutralise=True)
    rows = pa.table({"x": list("aabb"), "z": list("abab")})
    alone = with_zeros.query("class", pa.table({"x": ["a", "b"]})).probabilities
    expected = np.repeat(alone, 2, axis=0)
    np.testing.assert_allclose(edited.query("class", rows).probabilities, expected, atol=1e-12)
    chances = with_zeros.query("z").probabilities
    np.testing.assert_allclose(edited.query("z").probabilities, chances, atol=1e-12)


def test_an_effect_may_be_set_where_tables_have_zeros(with_zeros):
    edited = with_zeros.edit("z", effect={"a": 0.7})
    for x in "ab":
        terms = edited.log_terms(edited.codebook.encode([{"x": x, "z": "a"}]))[0, 1]
        assert terms[1] - terms[0] == pytest.approx(0.7)
    impossible = with_zeros.edit("z", effect={"c": -0.5})
    assert impossible.query("class", {"x": "a", "z": "b"}).probabilities.sum() == pytest.approx(1)


def test_zeros_among_ordered_values_are_smoothed():
    X = pa.table({"n": np.repeat([1.0, 2.0, 3.0, 4.0], 10)})
    network = BayesNetClassifier("naive", "laplace", bins=4).fit(X, [0, 1] * 20).network_
    network = network.with_table("n", np.array([[0.5, 0.5, 0, 0], [0, 1.0, 0, 0]]))
    smoothed = network.edit("n", smooth=1).table("n").probabilities
    assert np.isfinite(smoothed).all()
    np.testing.assert_allclose(smoothed.sum(axis=1), 1)
