"""What every pair of learners says is true: probabilities, losses, sums over unknown values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.classifiers import fitting
from tanager.classifiers.gaps import complete_rows
from tanager.parameters import PARAMETERS
from tanager.structure import STRUCTURES

LEARNED = sorted(name for name in STRUCTURES if name != "fixed")
FITTED_TO_SHARES = ("layered", "discriminative")  # their class parameters are not shrunk
LOSSES = ("loss", "surface", "miss")

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning"),
]


def make_table(gaps):
    """Five columns of two to four values and three classes, one of them rare."""
    rng = np.random.default_rng(11)
    n = 150
    y = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    y[:3] = [0, 1, 2]
    first = np.where(rng.random(n) < 0.6, y, rng.integers(0, 3, n))
    second = np.where(rng.random(n) < 0.7, first, rng.integers(0, 4, n))
    third = (first ^ (y == 1)) & 1
    noise = rng.integers(0, 2, (2, n))
    columns = [first, second, third, noise[0], noise[1]]
    hidden = rng.random((5, n)) < (0.15 if gaps else 0.0)
    hidden[0, :13] = gaps  # an odd number in the feature that says most
    cells = [
        pa.array([None if h else f"v{v}" for v, h in zip(column, mask, strict=True)])
        for column, mask in zip(columns, hidden, strict=True)
    ]
    return pa.table(dict(zip("abcde", cells, strict=True))), y


def numbers_named(info, names, path=()):
    """Iterate over the numbers whose key has one of the words in it."""
    for key, value in info.items():
        if isinstance(value, dict):
            yield from numbers_named(value, names, (*path, key))
        elif any(name in str(key) for name in names) and value is not None:
            array = np.asarray(value)
            if array.dtype.kind in "fiu":
                yield ".".join(map(str, (*path, key))), array


@pytest.fixture(scope="module")
def _completed_once():
    """Complete the rows with gaps once for all pairs: it has nothing to do with either learner."""
    known = {}

    def complete(counts, plan, n_draws):
        if n_draws not in known:
            known[n_draws] = complete_rows(counts, plan, n_draws)
        return known[n_draws]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "complete_rows", complete)
        yield


@pytest.fixture(scope="module", params=list(product(LEARNED, sorted(PARAMETERS))), ids="/".join)
def fitted(request, _completed_once):
    """Return the pair, and its models of rows without and with gaps."""
    models = []
    for gaps in (False, True):
        missing = "marginalize" if gaps else "value"
        clf = BayesNetClassifier(*request.param, missing=missing, random_state=0)
        models.append(clf.fit(*make_table(gaps)))
    return request.param, models


def test_probabilities_and_losses_are_what_they_are_called(fitted):
    _, models = fitted
    for clf, gaps in zip(models, (False, True), strict=True):
        X, y = make_table(gaps)
        said = clf.predict_proba(X)
        assert np.isfinite(said).all()
        assert (said >= 0).all()
        np.testing.assert_allclose(said.sum(axis=1), 1.0, rtol=1e-12)
        assert 0 <= -np.log(said[np.arange(len(y)), y]).mean() < np.inf
        for name, values in numbers_named(clf.info_, LOSSES):
            assert np.isfinite(values).all(), name
            assert (values >= 0).all(), name


def test_unknown_values_are_summed_out(fitted):
    """P(known, class) is the sum over all completions of a row, each of them asked for."""
    _, (_, clf) = fitted
    network = clf.network_
    if not network.tables.normalized:
        pytest.skip("scores of which no sum is promised")
    arities = network.codebook.domain.arities
    codes = network.codebook.encode(make_table(True)[0])[:, :40]
    found = network.log_joint_of_codes(codes)
    for at, row in enumerate(codes.T):
        ranges = [(int(code),) for code in row]
        for feature in network.structure.selected:  # what is left out has no values to sum over
            if row[feature] == arities[feature]:
                ranges[feature] = range(int(arities[feature]))
        complete = np.array(list(product(*ranges)), codes.dtype).T
        expected = np.logaddexp.reduce(network.log_joint_of_codes(complete), axis=0)
        np.testing.assert_allclose(found[at], expected, rtol=1e-9, atol=1e-9)


def test_predictions_sum_to_the_class_counts_where_that_is_promised(fitted):
    (_, parameters), (clf, _) = fitted
    if parameters not in FITTED_TO_SHARES:
        pytest.skip("not promised by these parameters")
    X, y = make_table(False)
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=0), np.bincount(y), rtol=0.01)
