"""Marginals and information against the whole joint distribution, spelled out."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.network import NetworkInformation
from tanager.parameters import GroupedTable, Laplace
from tanager.structure import Fixed

GRAPHS = {
    "naive": dict.fromkeys("abcd", ()),
    "tree": {"a": (), "b": ("a",), "c": ("b",), "d": ("b",)},
    "2-tree": {"a": (), "b": ("a",), "c": ("a", "b"), "d": ("c", "b")},
    "immoral": {"a": (), "b": (), "c": ("a", "b"), "d": ("c", "a")},
}


@pytest.fixture(scope="module")
def table():
    import pyarrow as pa

    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 120)
    a = (y + rng.integers(0, 2, 120)) % 3
    b = (a * y + rng.integers(0, 2, 120)) % 2
    c = (a + b + rng.integers(0, 2, 120)) % 3
    d = (b + c + rng.integers(0, 3, 120)) % 2
    columns = {n: pa.array([f"v{v}" for v in x]) for n, x in zip("abcd", (a, b, c, d), strict=True)}
    return pa.table(columns), y


@pytest.fixture(
    scope="module",
    params=[
        *GRAPHS,
        *("tree, grouped", "2-tree, grouped", "immoral, grouped"),
        *("tree, in two parts", "2-tree, in two parts", "immoral, in two parts"),
    ],
)
def network(request, table):
    graph, _, grouped = request.param.partition(", ")
    structure = Fixed({name: list(parents) for name, parents in GRAPHS[graph].items()})
    learned = BayesNetClassifier(structure, Laplace()).fit(*table).network_
    if not grouped:
        return learned
    return coarsened(learned) if grouped == "grouped" else in_two_parts(coarsened(learned))


def coarsened(network):
    """Let no child tell the last two values of a parent with three apart."""
    families = []
    for parents, family in zip(
        network.structure.parent_indices, network.tables.families, strict=True
    ):
        arities = network.codebook.domain.arities[list(parents)]
        groups = [np.minimum(np.arange(n), 1).astype(np.uint16) for n in arities]
        kept = family.to_dense().log_prob[tuple(slice(0, 2) for _ in parents)]
        families.append(GroupedTable.of(np.ascontiguousarray(kept), groups))
    assert any(isinstance(family, GroupedTable) for family in families)
    return replace(network, tables=replace(network.tables, families=tuple(families)))


def in_two_parts(network):
    """Let values share a group that is not the one their children read, and differ in it."""
    rng, families = np.random.default_rng(1), []
    for family in network.tables.families:
        parents = family.groups if isinstance(family, GroupedTable) else []
        if not parents:
            families.append(family)
            continue
        own = np.maximum(np.arange(family.member_arities[-1]) - 1, 0).astype(np.uint16)
        within = rng.uniform(0.2, 1.0, (len(own), family.n_classes))
        sums = np.zeros((int(own.max()) + 1, family.n_classes))
        np.add.at(sums, own, within)
        both = np.zeros((*family.log_prob.shape[:-2], *sums.shape))
        np.add.at(both, (..., own, slice(None)), np.exp(family.log_prob))
        log_within = np.log(within / sums[own])
        families.append(GroupedTable.of_groups(np.log(both), log_within, [*parents, own]))
    assert any(len(f.log_within) > f.log_group.shape[-2] for f in families if hasattr(f, "lookup"))
    return replace(network, tables=replace(network.tables, families=tuple(families)))


def whole_joint(network):
    """P(a, b, c, d, class), every cell asked for."""
    arities = network.codebook.domain.arities
    cells = np.array(list(itertools.product(*(range(n) for n in arities)))).T
    codes = np.ascontiguousarray(cells, np.uint8)
    joint = np.exp(network.log_joint_of_codes(codes))
    return joint.reshape(*arities, -1)


def entropy(joint, axes):
    others = tuple(i for i in range(joint.ndim) if i not in axes)
    p = joint.sum(axis=others).ravel()
    return -(p[p > 0] * np.log(p[p > 0])).sum()


def test_marginals_and_information_are_those_of_the_joint(network):
    joint, information = whole_joint(network), NetworkInformation(network)
    assert joint.sum() == pytest.approx(1)
    for i, name in enumerate("abcd"):
        others = tuple(j for j in range(4) if j != i)
        assert information.joint(name) == pytest.approx(joint.sum(axis=others))
        expected = entropy(joint, {i}) + entropy(joint, {4}) - entropy(joint, {i, 4})
        assert information.of_features()[i] == pytest.approx(expected, abs=1e-12)


def test_an_edge_carries_the_information_given_class_and_other_parents(network):
    joint, found = whole_joint(network), NetworkInformation(network).of_edges()
    parents = network.structure.parents
    assert set(found) == {(p, f) for f, ps in parents.items() for p in ps}
    for (parent, feature), value in found.items():
        x, u = "abcd".index(feature), "abcd".index(parent)
        rest = {"abcd".index(p) for p in parents[feature] if p != parent} | {4}
        expected = (
            entropy(joint, rest | {x})
            + entropy(joint, rest | {u})
            - entropy(joint, rest)
            - entropy(joint, rest | {x, u})
        )
        assert value == pytest.approx(expected, abs=1e-12)


def test_without_an_edge_the_family_is_the_joints_and_the_divergence_its_information(network):
    joint, information = whole_joint(network), NetworkInformation(network)
    for (parent, feature), value in information.of_edges().items():
        fewer = network.without_edge(parent, feature)
        assert parent not in fewer.structure.parents[feature]
        other = whole_joint(fewer)
        assert other.sum() == pytest.approx(1)
        divergence = (joint * np.log(joint / other)).sum()
        assert divergence == pytest.approx(value, abs=1e-12)


def test_an_effect_is_the_change_of_the_log_odds(network):
    """By Bayes' rule: posterior log-odds of a value known alone, less the prior's."""
    information = NetworkInformation(network)
    prior = np.exp(network.log_prior)
    for name in "abcd":
        joint = information.joint(name)
        for c in range(3):
            p = joint[:, c] / joint.sum(axis=1)
            expected = np.log(p / (1 - p)) - np.log(prior[c] / (1 - prior[c]))
            assert information.effect(name, c) == pytest.approx(expected)


def test_an_edge_that_is_not_there_is_named(table):
    network = BayesNetClassifier("naive", "laplace").fit(*table).network_
    with pytest.raises(ConfigurationError, match=r"'a' isn't a parent of 'b'"):
        network.without_edge("a", "b")
    with pytest.raises(ConfigurationError, match="'z' is not in the network"):
        NetworkInformation(network).joint("z")


def test_parents_too_entangled_to_be_summed_out_count_as_independent(table, monkeypatch):
    monkeypatch.setattr("tanager.network.information.MAX_WORK", 0)
    graph = {name: list(parents) for name, parents in GRAPHS["immoral"].items()}
    network = BayesNetClassifier(Fixed(graph), Laplace()).fit(*table).network_
    joint, information = whole_joint(network), NetworkInformation(network)
    for i, name in enumerate("abc"):  # the parents of c are independent given the class
        others = tuple(j for j in range(4) if j != i)
        assert information.joint(name) == pytest.approx(joint.sum(axis=others))
    assert information.context("c") is None
    c, a = joint.sum(axis=(0, 1, 3)), joint.sum(axis=(1, 2, 3))
    parents = c[:, None] * a / joint.sum(axis=(0, 1, 2, 3))
    expected = np.einsum("cay,cady->dy", parents, np.exp(network.tables.families[3].log_prob))
    assert information.joint("d") == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(6))
def test_contexts_of_entangled_parents_are_those_of_the_joint(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, rng.integers(2, 4, 6), (200, 6)).astype(str)
    names = [f"x{i}" for i in range(6)]
    graph = {
        name: [str(p) for p in rng.permutation(names[:at])[:3]] for at, name in enumerate(names)
    }
    network = BayesNetClassifier(Fixed(graph), Laplace()).fit(X, rng.integers(0, 2, 200)).network_
    joint, information = whole_joint(network), NetworkInformation(network)
    for at, name in enumerate(names):
        parents = network.structure.parent_indices[at]
        spelled = joint.sum(axis=tuple(i for i in range(6) if i not in parents))
        rank = np.argsort(np.argsort(parents))
        assert information.context(name) == pytest.approx(np.transpose(spelled, [*rank, -1]))
