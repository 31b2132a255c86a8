"""Families joined into few look-ups."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.loglinear.joining import join_sets


@pytest.mark.parametrize("seed", range(20))
def test_every_family_is_in_one_table_that_holds_its_columns(seed):
    rng = np.random.default_rng(seed)
    n_columns, cap, most = int(rng.integers(3, 60)), 256, 4_096
    radices = rng.integers(2, 9, n_columns).tolist()
    families = [
        tuple(sorted(rng.choice(n_columns, size=int(rng.integers(1, 4)), replace=False).tolist()))
        for _ in range(80)
    ]
    joined = join_sets(families, radices, cap, most)
    assert sorted(at for _, inside in joined for at in inside) == list(range(80))
    for columns, inside in joined:
        assert set(columns) == {column for at in inside for column in families[at]}
        size, largest = (
            prod(radices[c] for c in columns),
            max(prod(radices[c] for c in families[at]) for at in inside),
        )
        assert size <= max(cap, largest)  # above the cap nothing grew beyond one family
    assert len(joined) < 80


def test_equal_families_are_one_look_up():
    assert join_sets([(0, 1), (1,), (0, 1), (0,)], [3, 4], 12, 12) == [((0, 1), (0, 2, 1, 3))]


def test_more_constant_columns_than_an_array_has_axes():
    """Each adds no joint value, so nothing but the number of features would end a group."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = np.column_stack([np.where(rng.random(200) < 0.2, 1 - y, y), np.zeros((200, 90))])
    many = BayesNetClassifier("naive", "discriminative").fit(X.astype(str), y)
    alone = BayesNetClassifier("naive", "discriminative").fit(X[:, :1].astype(str), y)
    assert many.predict_proba(X.astype(str)) == pytest.approx(
        alone.predict_proba(X[:, :1].astype(str)), abs=1e-6
    )
