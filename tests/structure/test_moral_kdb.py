"""kDB whose parents are joined: no immoralities, and the best of every clique."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.structure import KDB, Structure
from tanager.structure.kdb import choose_parents


def random_information(seed, n):
    rng = np.random.default_rng(seed)
    information = rng.integers(0, 30, (n, n)) / 7.0  # with ties
    return np.triu(information, 1) + np.triu(information, 1).T, rng.permutation(n)


def best_sum(feature, earlier, parents, information, k):
    """Try every set of up to k earlier features that are joined among themselves."""

    def joined(a, b):
        return a in parents[b] or b in parents[a]

    return max(
        sum(information[feature, p] for p in chosen)
        for chosen in combinations(earlier, min(k, len(earlier)))
        if all(joined(a, b) for a, b in combinations(chosen, 2))
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_parents_are_the_best_set_of_joined_features(seed, k):
    information, order = random_information(seed, 8)
    parents = choose_parents(order, information, k, moral=True)
    for place, feature in enumerate(order.tolist()):
        found = information[feature, list(parents[feature])]
        expected = best_sum(feature, order[:place].tolist(), parents, information, k)
        assert found.sum() == pytest.approx(expected)
        assert len(found) == min(k, place)
        assert sorted(found, reverse=True) == found.tolist()
    assert Structure.from_parents([f"x{i}" for i in range(8)], parents).is_moral()


def test_one_parent_is_plain_kdb():
    information, order = random_information(3, 9)
    plain = choose_parents(order, information, 1)
    assert choose_parents(order, information, 1, moral=True) == plain


def test_discriminative_tables_on_it_are_a_network():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = (rng.random((300, 5)) < 0.3 + 0.3 * y[:, None]).astype(int)
    X[:, 3], X[:, 4] = X[:, 0] ^ X[:, 1], X[:, 1] ^ X[:, 2]
    clf = BayesNetClassifier(
        KDB(k=2, moral=True), "discriminative", categorical_features="all"
    ).fit(X, y)
    assert clf.network_.tables.normalized
    assert clf.structure_.max_parents == 2


@pytest.mark.parametrize("adjusted", [True, False])
def test_parents_stay_joined_where_chance_edges_are_dropped(adjusted):
    rng = np.random.default_rng(4)
    n_features = 12
    order = rng.permutation(n_features)
    information = rng.normal(size=(n_features, n_features)).round(1)
    information += information.T
    least = 0.0 if adjusted else -np.inf
    parents = choose_parents(order, information, 3, least, moral=True)
    structure = Structure.from_parents([f"x{i}" for i in range(n_features)], parents)
    assert structure.is_moral()
    assert any(len(given) > 1 for given in parents)
    if adjusted:
        assert all(information[i, p] > 0 for i, given in enumerate(parents) for p in given)
        assert any(len(given) < 3 for given in parents[3:])
