"""Real tables, from raw file to saved model and back."""

import numpy as np
import pytest
from tests.keel import read_keel

import tanager


@pytest.mark.parametrize(("name", "shape"), [("german", (1000, 20)), ("housevotes", (232, 16))])
def test_a_real_table_through_a_file(name, shape, tmp_path):
    table, labels = read_keel(name)
    assert table.shape == shape
    clf = tanager.BayesNetClassifier("tan", "hdp").fit(table, labels)
    tanager.save(clf, tmp_path / "m")
    assert np.array_equal(tanager.load(tmp_path / "m").predict(table), clf.predict(table))
    assert clf.score(table, labels) > max(np.unique(labels, return_counts=True)[1]) / len(labels)
