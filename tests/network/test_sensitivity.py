"""Derivatives of answers, against finite differences of enumerated ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, DataError
from tanager.network import Interval, OneOf, Soft
from tanager.parameters import DenseTable


def learned(structure, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (200, 4))
    X[:, 1] = np.where(rng.random(200) < 0.6, X[:, 0], X[:, 1])
    y = (X[:, 1] + X[:, 2] + rng.integers(0, 2, 200)) % n_classes
    values = np.array(["a", "b", "c"])
    return BayesNetClassifier(structure, "m-estimate").fit(values[X], y).network_


def enumerated(network, target, evidence):
    """Return P(target | evidence) by summing over every row and class."""
    codes = np.array(list(product(range(3), repeat=4)), np.uint16).T
    joint = np.exp(network.log_joint_of_codes(codes))
    labels = [column.labels() for column in network.codebook.columns]

    def keeps(event):
        out = np.ones_like(joint, bool)
        for name, value in event.items():
            allowed = value.values if isinstance(value, OneOf) else (value,)
            if name == "class":
                out &= np.isin(network.codebook.classes, allowed)
            else:
                feature = int(name[1:])
                out &= np.isin(np.array(labels[feature])[codes[feature]], allowed)[:, None]
        return out

    known = keeps(evidence)
    return joint[known & keeps(target)].sum() / joint[known].sum()


def moved(network, at, cell, step):
    """Return the network with an entry moved, and the rest of its context in proportion."""
    table = np.exp(np.moveaxis(network.tables.families[at].to_dense().log_prob, -1, 0))
    row = table[cell[:-1]]
    before = row[cell[-1]]
    row *= (1.0 - before - step) / (1.0 - before)
    row[cell[-1]] = before + step
    families = list(network.tables.families)
    families[at] = DenseTable(np.ascontiguousarray(np.moveaxis(np.log(table), 0, -1)))
    return replace(network, tables=replace(network.tables, families=tuple(families), spread=None))


CASES = [
    ({"class": 1}, {}),
    ({"class": 1}, {"x0": "a"}),
    ({"x2": "b"}, {"class": 0, "x1": "c"}),
    ({"class": 0, "x3": "a"}, {"x1": OneOf("a", "b")}),
]


@pytest.mark.parametrize("structure", ["naive", "tan", "kdb(k=2)"])
@pytest.mark.parametrize(("target", "evidence"), CASES)
def test_derivatives_are_those_of_finite_differences(structure, target, evidence):
    network = learned(structure)
    found = network.sensitivity(target, evidence, n=10_000)
    assert found.probability == pytest.approx(enumerated(network, target, evidence), abs=1e-12)
    by_name = {one.entry: one for one in found.entries}
    structure, step = network.structure, 1e-6
    for at, parents in enumerate(structure.parent_indices):
        names = ["class", *(structure.names[p] for p in parents), structure.features[at]]
        for cell in product(range(2), *(range(3) for _ in names[1:])):
            values = [str(cell[0]), *("abc"[i] for i in cell[1:])]
            said = [f"{name}={value}" for name, value in zip(names, values, strict=True)]
            one = by_name[f"P({said[-1]} | {', '.join(said[:-1])})"]
            ends = [
                enumerated(moved(network, at, cell, s), target, evidence) for s in (-step, step)
            ]
            assert one.derivative == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-6)
            assert one.effect == pytest.approx(
                one.derivative * one.probability * (1.0 - one.probability)
            )


def test_the_class_prior_moves_the_answer():
    network = learned("tan", n_classes=3)
    found = {one.entry: one for one in network.sensitivity({"class": 2}, n=10_000).entries}
    assert found["P(class=2)"].derivative == pytest.approx(1.0)
    prior = np.exp(network.log_prior)
    assert found["P(class=0)"].derivative == pytest.approx(-prior[2] / (1.0 - prior[0]))


def test_evidence_taken_away_and_added():
    network, evidence = learned("tan"), {"x0": "a", "x2": "c"}
    found = {one.feature: one for one in network.sensitivity({"class": 1}, evidence).evidence}
    assert list(found)[:2] == ["x0", "x2"]
    assert found["x0"].low == pytest.approx(enumerated(network, {"class": 1}, {"x2": "c"}))
    for name in ("x1", "x3"):
        each = {v: enumerated(network, {"class": 1}, {**evidence, name: v}) for v in "abc"}
        low, high = min(each, key=each.get), max(each, key=each.get)
        assert (found[name].low_value, found[name].high_value) == (low, high)
        assert (found[name].low, found[name].high) == pytest.approx((each[low], each[high]))


def test_reads_as_a_table_and_refuses_what_is_no_event():
    network = learned("tan")
    found = network.sensitivity({"class": 1}, {"x0": "a"}, n=3)
    assert len(found.to_pandas()) == len(found.entries) == 3
    assert found.to_pandas("evidence").feature.tolist()[0] == "x0"
    assert str(found).startswith("P(class=1 | x0=a) = ")
    assert found.to_dict()["entries"][0]["entry"] == found.entries[0].entry
    for wrong in ({}, "class", {"x0": "b"}):
        with pytest.raises(ConfigurationError, match="target="):
            network.sensitivity(wrong, {"x0": "a"})
    with pytest.raises(ConfigurationError, match="of="):
        found.to_pandas("tables")


def test_of_the_default_with_numbers():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 3))
    network = BayesNetClassifier().fit(X, (X[:, 0] + X[:, 1] > 0).astype(int)).network_
    found = network.sensitivity({"class": 1}, {"x0": Interval(0.5, 1.0)}, n=5)
    assert len(found.entries) == 5
    assert not found.left_out


@pytest.mark.parametrize("evidence", [[1], np.zeros((1, 4)), "x0=a"])
def test_evidence_that_is_no_mapping_is_refused(evidence):
    with pytest.raises(ConfigurationError, match="evidence must be a mapping"):
        learned("naive").sensitivity({"class": 1}, evidence)


def test_an_impossible_target_is_not_called_impossible_evidence():
    network = learned("naive")
    table = {"0": {"a": 0.5, "b": 0.5, "c": 0.0}, "1": {"a": 0.2, "b": 0.3, "c": 0.5}}
    network = network.with_table("x0", table)
    with pytest.raises(DataError, match=r"target=.* is impossible given the evidence"):
        network.sensitivity({"class": 0}, {"x0": "c"})
    with pytest.raises(DataError, match="The evidence is impossible"):
        network.sensitivity({"x1": "a"}, {"x0": "c", "class": 0})


def test_a_target_that_is_no_event_is_refused():
    X = [["a", "u", "c"], ["b", "v", "c"], [None, "u", "c"]] * 10
    network = BayesNetClassifier("naive", "laplace", missing="marginalize").fit(X, [0, 1, 0] * 10)
    network = network.network_.edit("x1", forbid=True)
    for value in (None, np.nan, Soft({"a": 1, "b": 2})):
        with pytest.raises(ConfigurationError, match=r"target=.* is no event"):
            network.sensitivity({"x0": value})
    with pytest.raises(ConfigurationError, match="left it out of the network"):
        network.sensitivity({"x1": "u"})


def test_values_that_the_evidence_rules_out_are_no_range():
    network = learned("tan").with_table(
        "x0", {"0": {"a": 0.5, "b": 0.5}, "1": {"a": 0.2, "b": 0.8}}
    )
    found = network.sensitivity({"class": 1}, {"x1": OneOf("a", "b")})
    one = next(one for one in found.evidence if one.feature == "x0")
    chances = [enumerated(network, {"class": 1}, {"x0": v, "x1": OneOf("a", "b")}) for v in "ab"]
    assert (one.low, one.high) == pytest.approx((min(chances), max(chances)))
