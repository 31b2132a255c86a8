"""Rare classes: as many rows of a class are predicted as there are, at any imbalance."""

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.parameters import layered


def draw(counts, seed, n_features=5):
    """Rows of some classes, of which two of the numbers tell a little."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    X = rng.normal(size=(len(y), n_features)).round(2)
    X[:, :2] += 0.7 * y[:, None]
    return X, y


def loss(y, p):
    return -np.log(p[np.arange(len(y)), y]).sum()


@pytest.mark.parametrize(
    "counts",
    [(20_000, 1), (19_998, 2), (19_996, 4), (5_970, 30), (3_000, 40, 3), (1_500, 6, 1_500, 2)],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_default_predicts_as_many_rows_of_each_class_as_there_are(counts, seed):
    X, y = draw(counts, seed)
    p = BayesNetClassifier(random_state=seed).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=0), counts, rtol=0.01)
    alone = -(np.array(counts) * np.log(np.array(counts) / sum(counts))).sum()
    assert loss(y, p) <= alone + 0.1


@pytest.mark.parametrize("seed", range(4))
def test_new_rows_of_a_rare_class_cost_no_more_than_under_the_class_shares(seed):
    rng = np.random.default_rng(seed)
    y = (np.arange(6_000) % 1_500 == 7).astype(int)
    X, new = rng.normal(size=(2, 6_000, 4))  # of which nothing depends on the class
    p = BayesNetClassifier(random_state=seed).fit(X, y).predict_proba(new)
    alone = -(4 * np.log(4 / 6_000) + 5_996 * np.log(5_996 / 6_000))
    assert loss(y, p) <= alone + 2.0
    assert p[:, 1].sum() == pytest.approx(4, rel=0.5)


def test_rare_classes_are_the_same_on_many_threads_and_from_files(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(layered, "GATHERED_ROWS", 0)  # the engine's own passes
    X, y = draw((2_990, 10), 3)
    table = pa.table({**{f"x{i}": X[:, i] for i in range(5)}, "y": y})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
    one = BayesNetClassifier(random_state=0, n_jobs=1).fit(table, "y")
    two = BayesNetClassifier(random_state=0, n_jobs=2).fit(tmp_path / "rows.parquet", "y")
    assert np.array_equal(one.predict_proba(table), two.predict_proba(table))
    np.testing.assert_allclose(one.predict_proba(table).sum(axis=0), [2_990, 10], rtol=0.01)
