"""Information by chance: against exact values and against shuffled columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

from tanager import BayesNetClassifier
from tanager.codes import learn_codebook
from tanager.counts import Counts
from tanager.counts.information import chance_cmi, chance_mi
from tanager.engines import FitContext
from tanager.structure import KDB, TAN, SelectiveKDB


def count(columns, labels):
    context = FitContext()
    table = pa.table({name: pa.array(values.astype(str)) for name, values in columns.items()})
    return Counts(learn_codebook(table, labels, context=context)[1], context)


def columns_of(n, rng):
    return {
        "two": rng.integers(0, 2, n),
        "skewed": (rng.random(n) ** 4 * 12).astype(int),
        "many": rng.integers(0, n // 4, n),
        "names": np.arange(n),
    }


@pytest.mark.parametrize("n", [60, 400, 3000])
def test_chance_is_the_mean_over_shuffles_known_exactly(n):
    rng = np.random.default_rng(n)
    columns, labels = columns_of(n, rng), rng.integers(0, 3, n)
    counts = count(columns, labels)
    found = np.concatenate([rows for _, rows in chance_cmi(counts.classes, counts.values)])
    given = list(columns.values())
    for i in range(4):
        for j in range(i):
            exact = 0.0
            for label in range(3):
                rows = labels == label
                table = contingency_matrix(given[i][rows], given[j][rows])
                exact += expected_mutual_information(table, int(rows.sum())) * rows.mean()
            assert found[i, j] == pytest.approx(exact, rel=0.04, abs=2e-4)
    assert np.allclose(found, found.T, rtol=0, atol=1e-9)
    for i, values in enumerate(given):
        exact = expected_mutual_information(contingency_matrix(values, labels), n)
        assert chance_mi(counts.classes, counts.values)[i] == pytest.approx(
            exact, rel=0.04, abs=2e-4
        )


def test_what_depends_stays_and_names_explain_nothing():
    rng = np.random.default_rng(0)
    columns, labels = columns_of(1000, rng), rng.integers(0, 2, 1000)
    columns["copy"] = np.where(rng.random(1000) < 0.9, columns["two"], 1 - columns["two"])
    counts = count(columns, labels)
    plain, adjusted = counts.cmi(), counts.cmi(adjusted=True)
    names, two, copy = 3, 0, 4
    assert plain[names, two] > plain[copy, two] > 0.3  # names "explain" all of it
    assert adjusted[names].max() < 0.01
    assert adjusted[copy, two] > 0.3
    assert (adjusted <= plain).all()
    assert counts.mi()[names] == pytest.approx(np.log(2), abs=0.01)
    assert counts.mi(adjusted=True)[names] < 1e-6


@pytest.mark.parametrize(
    "structure", [TAN(adjusted=True), KDB(k=2, adjusted=True), SelectiveKDB(max_k=2, adjusted=True)]
)
def test_a_column_of_names_is_nobody_s_parent(structure):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 500)
    a = np.where(rng.random(500) < 0.8, y, 1 - y)
    b = np.where(rng.random(500) < 0.8, a, 1 - a)
    names = pa.array([f"n{i}" for i in range(500)])
    table = pa.table({"a": a.astype(str), "b": b.astype(str), "id": names})
    learned = BayesNetClassifier(structure, "laplace", audit=False).fit(table, y).structure_
    assert all("id" not in parents for parents in learned.parents.values())
    plain = type(structure)(**{**structure.get_params(), "adjusted": False})
    if not isinstance(structure, SelectiveKDB):  # which finds by leave-one-out that it does not pay
        learned = BayesNetClassifier(plain, "laplace", audit=False).fit(table, y).structure_
        assert any("id" in parents for parents in learned.parents.values())
