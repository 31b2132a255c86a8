"""Networks built and changed by hand: checked at once, changes in the history."""

from dataclasses import replace

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.network import Network
from tanager.parameters import DenseTable, Tables
from tanager.structure import KDB


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    a = rng.integers(0, 3, 200)
    b = (a + y) % 3
    c = (b + rng.integers(0, 2, 200)) % 2
    rows = [{"a": f"v{i}", "b": f"w{j}", "c": f"u{k}"} for i, j, k in zip(a, b, c, strict=True)]
    return BayesNetClassifier(KDB(k=1), "laplace").fit(rows, y).network_


def test_a_network_that_is_not_normalised_is_refused_at_once(network):
    tables = network.tables
    family = tables.families[0]
    more = DenseTable(family.log_prob + 0.1)
    with pytest.raises(ConfigurationError, match="the table of 'a' does not sum to one"):
        Network(
            network.codebook,
            network.structure,
            replace(tables, families=(more, *tables.families[1:])),
        )
    with pytest.raises(ConfigurationError, match="the class prior does not sum to one"):
        Network(network.codebook, network.structure, replace(tables, log_prior=np.zeros(2)))
    scores = replace(tables, families=(more, *tables.families[1:]), normalized=False)
    assert Network(network.codebook, network.structure, scores).tables is scores


def test_tables_of_other_shapes_and_infinite_logarithms_are_refused(network):
    tables = network.tables
    with pytest.raises(ConfigurationError, match="Give one table per feature"):
        Network(network.codebook, network.structure, replace(tables, families=tables.families[:1]))
    wrong = DenseTable(np.log(np.full((2, 2), 0.5)))
    with pytest.raises(ConfigurationError, match=r"has the shape \(2, 2\)"):
        Network(
            network.codebook,
            network.structure,
            replace(tables, families=(wrong, *tables.families[1:])),
        )
    endless = DenseTable(np.full(tables.families[0].log_prob.shape, -np.inf))
    with pytest.raises(ConfigurationError, match="logarithm out of range"):
        Network(
            network.codebook,
            network.structure,
            Tables(tables.log_prior, (endless, *tables.families[1:]), normalized=False),
        )


def test_with_table_sets_what_is_given_and_keeps_the_rest(network, tmp_path):
    at = network.structure.position("b")
    parents = network.structure.parents["b"]
    context = ("0", *("v0" if p == "a" else "u0" for p in parents))
    edited = network.with_table("b", {context: {"w0": 0.7, "w1": 0.3}}, reason="known", when="2026")
    before, after = network.table("b"), edited.table("b")
    row = before.contexts.index(context)
    assert np.allclose(after.probabilities[row], [0.7, 0.3, 0.0])
    others = [i for i in range(len(before.contexts)) if i != row]
    assert np.allclose(after.probabilities[others], before.probabilities[others])
    assert str(edited.history[0]) == "2026 b: table set by hand (known)"
    assert np.array_equal(
        edited.with_table("b", before).table("b").probabilities.round(12),
        before.probabilities.round(12),
    )
    edited.save(tmp_path / "n.tanager")
    loaded = Network.load(tmp_path / "n.tanager")
    assert loaded.history == edited.history
    assert loaded == edited
    assert network.tables.families[at] is not edited.tables.families[at]
    with pytest.raises(ConfigurationError, match="do not sum to one"):
        network.with_table("b", {context: {"w0": 0.7}})
    with pytest.raises(ConfigurationError, match="'z' is not in the network"):
        network.with_table("z", [])


def test_with_edge_keeps_the_joint_and_refuses_cycles(network):
    rows = [{"a": "v0", "b": "w1", "c": "u0"}, {"a": "v2", "b": None, "c": "u1"}]
    parent, child = next((ps[0], c) for c, ps in network.structure.parents.items() if ps)
    other = next(f for f in "abc" if f not in (parent, child))
    new = (other, child) if other not in network.structure.parents[child] else (parent, other)
    try:
        edited = network.with_edge(*new, author="Ada")
    except ConfigurationError:
        edited = network.with_edge(new[1], new[0], author="Ada")
        new = new[::-1]
    assert new[0] in edited.structure.parents[new[1]]
    assert np.allclose(edited.log_joint(rows), network.log_joint(rows))
    assert edited.history[0].details == {"parent": new[0]}
    with pytest.raises(ConfigurationError, match="cycle"):
        network.with_edge(child, parent)
    with pytest.raises(ConfigurationError, match="already"):
        network.with_edge(parent, child)
    back = edited.without_edge(*new)
    assert back.structure.parents[new[1]] == network.structure.parents[new[1]]
    assert np.allclose(back.log_joint(rows), network.log_joint(rows))
    assert [edit.action for edit in back.history] == ["add edge", "remove edge"]
    with pytest.raises(ConfigurationError, match="isn't a parent of"):
        network.without_edge(child, parent)
