import networkx as nx
import numpy as np
import pytest

from tanager.errors import ConfigurationError
from tanager.structure.tan import maximum_arborescence
from tests.oracles.arborescence import best_arborescence_weight, is_tree, tree_weight


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("root", [None, 0, -1])
def test_matches_enumeration_of_all_trees(n, root):
    root = None if root is None else root % n
    rng = np.random.default_rng(n)
    for trial in range(40 if n < 6 else 3):
        weights = rng.normal(size=(n, n))
        if trial % 2:
            weights = np.round(weights)  # ties
        parents = maximum_arborescence(weights, root)
        assert is_tree(parents)
        assert root is None or parents[root] == -1
        expected = best_arborescence_weight(weights, root)
        np.testing.assert_allclose(tree_weight(weights, parents), expected, atol=1e-12)


@pytest.mark.parametrize("n", [7, 15, 40])
def test_matches_networkx(n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        weights = rng.normal(size=(n, n)) ** 3
        graph = nx.DiGraph()
        graph.add_weighted_edges_from(
            (i, j, weights[i, j]) for i in range(n) for j in range(n) if i != j
        )
        tree = nx.maximum_spanning_arborescence(graph)
        parents = maximum_arborescence(weights)
        assert is_tree(parents)
        np.testing.assert_allclose(
            tree_weight(weights, parents), tree.size(weight="weight"), atol=1e-9
        )


def test_avoids_missing_edges_where_a_tree_without_them_exists():
    rng = np.random.default_rng(5)
    for _ in range(60):
        weights = rng.normal(size=(5, 5))
        weights[rng.random((5, 5)) < 0.4] = -np.inf
        expected = best_arborescence_weight(weights)
        if np.isneginf(expected):
            with pytest.raises(ConfigurationError, match="connect"):
                maximum_arborescence(weights)
        else:
            found = tree_weight(weights, maximum_arborescence(weights))
            np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_symmetric_matrix_gives_a_maximum_spanning_tree():
    rng = np.random.default_rng(9)
    weights = rng.normal(size=(30, 30))
    weights += weights.T
    graph = nx.from_numpy_array(weights)
    expected = nx.maximum_spanning_tree(graph).size(weight="weight")
    for root in (None, 0, 17):
        found = tree_weight(weights, maximum_arborescence(weights, root))
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_input_is_left_alone_and_equal_calls_agree():
    weights = np.round(np.random.default_rng(1).normal(size=(50, 50)))
    before = weights.copy()
    first = maximum_arborescence(weights)
    np.testing.assert_array_equal(weights, before)
    np.testing.assert_array_equal(first, maximum_arborescence(weights))


@pytest.mark.parametrize(
    ("weights", "root"),
    [(np.zeros((2, 3)), None), (np.zeros((3, 3)), 3), (np.full((2, 2), np.nan), None)],
)
def test_errors_say_what_is_allowed(weights, root):
    with pytest.raises(ConfigurationError):
        maximum_arborescence(weights, root)
