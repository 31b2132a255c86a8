"""Directions across pairs: their bins, and those that gain most."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.codes import Domain
from tanager.codes.columns import NumericColumn
from tanager.loglinear.curves import (
    MOST_SLANTS,
    N_SLANTS,
    SHRINK,
    WEIGHTS,
    Slant,
    find_slants,
    scales,
)
from tanager.loglinear.fits import Residuals

LEVELS = np.exp(np.linspace(0.0, 2.0, 12)), np.exp(np.linspace(0.0, 3.0, 10))


def make_slants(along, n_classes=2, seed=0, n_rows=4_000, factor=1.0, strength=0.4, noise=0.5):
    """Two numbers and a category, and residuals along a function of the numbers."""
    generator = np.random.default_rng(seed)
    codes = np.stack([generator.integers(0, n, n_rows) for n in (12, 11, 3)]).astype(np.uint8)
    codes[0, :50] = 12  # unknown; the last value of the second is "missing"
    x, z = np.append(LEVELS[0], 1.0)[codes[0]], np.append(LEVELS[1], 1.0)[codes[1]]
    sums = along(x, z)
    told = np.sign(sums - np.median(sums))
    residuals = generator.normal(size=(n_rows, n_classes)) * noise
    residuals[:, 0] -= strength * told
    residuals[:, 1] += strength * told
    if n_classes == 2:
        residuals[:, 0] = -residuals[:, 1]
    spreads = np.full((n_rows, n_classes), 0.25)
    domain = Domain(tuple("abc"), np.array([12, 11, 3]), n_classes, (12, 10, 0))
    groups = [np.arange(n, dtype=np.uint16) for n in (12, 11, 3)]
    given = Residuals(codes, residuals, spreads, np.ones(n_rows))
    numbers = factor * LEVELS[0], LEVELS[1], None
    weights = [np.bincount(one, minlength=n)[:n] for one, n in zip(codes, (12, 11, 3), strict=True)]

    def find(pairs, *, has_many_rows):
        rest = given, domain, groups, weights, numbers
        return find_slants(pairs, *rest, has_many_rows=has_many_rows)

    return find, given, weights


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("along", "scale", "weights"),
    [
        (lambda x, z: x / z, 2, (1, -1)),
        (lambda x, z: x * z**2, 2, (1, 2)),
        (lambda x, z: x / LEVELS[0].std() - z / LEVELS[1].std(), 1, (1, -1)),
        (lambda x, z: np.log(x) / 2 + np.log(z) / 3, 0, (1, 1)),
    ],
    ids=["ratio", "product", "difference", "sum of ranks"],
)
def test_the_direction_of_an_effect_is_found(along, scale, weights, n_classes):
    slants, _, known = make_slants(along, n_classes)
    found = slants([(0, 1)], has_many_rows=False)[0, 1][0]
    first = scales(np.arange(12), known[0], LEVELS[0])[scale]
    second = scales(np.arange(10), known[1][:10], LEVELS[1])[scale]
    wanted = Slant(tuple(weights[0] * first), tuple(weights[1] * second))
    # Another direction may have nearly the same bins.
    assert np.corrcoef(
        np.add.outer(found.first, found.second).ravel().argsort().argsort(),
        np.add.outer(wanted.first, wanted.second).ravel().argsort().argsort(),
    )[0, 1] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("many", [False, True], ids=["few rows", "many rows"])
def test_slants_are_those_of_greatest_gain_by_definition(many):
    slants, given, known = make_slants(lambda x, z: x - z, 3, n_rows=600, strength=0.2)
    pair = [
        Slant(tuple(u * a), tuple(v * b))
        for a, b in zip(
            scales(np.arange(12), known[0], LEVELS[0]),
            scales(np.arange(10), known[1][:10], LEVELS[1]),
            strict=True,
        )
        for u, v in WEIGHTS
    ]
    inside = (given.codes[0] < 12) & (given.codes[1] < 10)
    x, z = given.codes[0][inside], given.codes[1][inside]
    left, spreads = given.residuals[inside].copy(), given.spreads[inside]
    mass = np.zeros((12, 10))
    np.add.at(mass, (x, z), 1.0)
    chosen = []
    for _ in range(N_SLANTS if many else MOST_SLANTS):
        gains, steps = [], []
        for slant in pair:
            at, gain = slant.bins(mass)[x, z], 0.0
            step = np.zeros((slant.n_bins, 3))
            for one in np.unique(at):
                g, h = left[at == one].sum(axis=0), spreads[at == one].sum(axis=0)
                gain += ((g**2 - h) / (h + SHRINK)).sum()  # each row has the weight one
                step[one] = g / (h + SHRINK)
            gains.append(-np.inf if slant in chosen else gain)
            steps.append(step[at])
        best = int(np.argmax(gains))
        chosen.append(pair[best])
        left -= spreads * steps[best]
    assert slants([(0, 1)], has_many_rows=many)[0, 1] == tuple(chosen)


def test_where_residuals_are_less_than_chance_gives_few_rows_have_no_slant():
    for seed in range(20):
        slants, *_ = make_slants(lambda x, z: x, seed=seed, strength=0.0, noise=0.25)
        assert slants([(0, 1)], has_many_rows=False)[0, 1] == ()


def test_with_many_rows_every_pair_has_as_many_slants_and_none_twice(monkeypatch):
    slants, *_ = make_slants(lambda x, z: x, strength=0.0, noise=0.25)
    for most, expected in ((N_SLANTS, N_SLANTS), (100, 3 * len(WEIGHTS)), (0, 0)):
        monkeypatch.setattr("tanager.loglinear.curves.N_SLANTS", most)
        found = slants([(0, 1)], has_many_rows=True)[0, 1]
        assert len(set(found)) == len(found) == expected


def test_units_dont_matter():
    for along in (lambda x, z: x / z, lambda x, z: x - z):
        one, other = (
            make_slants(along, factor=factor)[0]([(0, 1)], has_many_rows=True)[0, 1]
            for factor in (1.0, 1e-3)
        )
        mass = np.ones((12, 10))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.bins(mass), b.bins(mass))


def test_bins_have_equal_mass_and_equal_sums_one_bin():
    generator = np.random.default_rng(0)
    slant = Slant((0.0, 0.1, 0.2, 0.3), (0.0, 0.1, 0.2))
    mass = generator.random((4, 3))
    bins = slant.bins(mass)
    sums = np.add.outer(np.arange(4), np.arange(3))
    assert all(len(set(bins[sums == one])) == 1 for one in range(6))
    assert np.all(np.diff([bins[sums == one][0] for one in range(6)]) >= 0)
    before = np.array([mass[sums < one].sum() + mass[sums == one].sum() / 2 for one in range(6)])
    expected = (6 * before / mass.sum()).astype(int)
    assert [bins[sums == one][0] for one in range(6)] == expected.tolist()


def test_intervals_have_middles():
    column = NumericColumn("a", np.array([1.5, 2.5, 4.0]), None)
    assert (4.0 * column.middles).tolist() == [1.0, 2.0, 3.25, 4.75]
    huge = NumericColumn("a", np.array([-1.7e308, 1.7e308]), None)
    np.testing.assert_allclose(huge.middles, [-2.0, 0.0, 2.0])
    assert NumericColumn("a", np.array([1.0]), None).middles is None


def test_numbers_that_arent_positive_have_no_logarithms():
    ranks, numbers, logs = scales(np.arange(3), np.ones(3), np.array([0.0, 1.0, 2.0]))
    assert ranks is not None
    assert numbers is not None
    assert logs is None
    assert scales(np.arange(3), np.ones(3), None)[1:] == [None, None]
    assert scales(np.zeros(0, int), np.zeros(0), None) == [None] * 3
