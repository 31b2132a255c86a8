from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tanager.errors import DataError
from tanager.evaluation import statistics as stats


# Zaidi et al. (2017), table 4. Its TAN variance line, 21/2/49, prints p=0.011
# where the binomial gives 0.0011: a misprint, left out.
@pytest.mark.parametrize(
    ("wins", "losses", "printed"),
    [(45, 23, 0.010), (45, 24, 0.015), (34, 35, 1.0), (25, 46, 0.017), (39, 29, 0.275)],
)
def test_sign_test_gives_the_published_values(wins, losses, printed):
    assert_allclose(stats.sign_test(wins, losses), printed, atol=6e-4)


def test_sign_test_of_draws_only():
    assert stats.sign_test(0, 0) == 1.0


def test_critical_difference_gives_the_published_value():
    assert round(stats.critical_difference(3, 72), 2) == 0.39


# Demšar (2006), table 5: critical values of the two-tailed Nemenyi test.
@pytest.mark.parametrize(
    ("alpha", "values"),
    [
        (0.05, [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]),
        (0.10, [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]),
    ],
)
def test_nemenyi_quantiles_give_the_published_table(alpha, values):
    for k, q in enumerate(values, start=2):
        ours = stats.critical_difference(k, 1, alpha) / np.sqrt(k * (k + 1) / 6)
        assert_allclose(ours, q, atol=1.1e-3)


def test_friedman_gives_demsars_example():
    # Demšar (2006), table 6: AUC of C4.5 with four settings on 14 datasets.
    auc = np.array(
        [
            [0.763, 0.768, 0.771, 0.798],
            [0.599, 0.591, 0.590, 0.569],
            [0.954, 0.971, 0.968, 0.967],
            [0.628, 0.661, 0.654, 0.657],
            [0.882, 0.888, 0.886, 0.898],
            [0.936, 0.931, 0.916, 0.931],
            [0.661, 0.668, 0.609, 0.685],
            [0.583, 0.583, 0.563, 0.625],
            [0.775, 0.838, 0.866, 0.875],
            [1.000, 1.000, 1.000, 1.000],
            [0.940, 0.962, 0.965, 0.962],
            [0.619, 0.666, 0.614, 0.669],
            [0.972, 0.981, 0.9751, 0.975],
            [0.957, 0.978, 0.946, 0.970],
        ]
    )
    assert_allclose(stats.average_ranks(-auc), [3.143, 2.000, 2.893, 1.964], atol=1e-3)
    # The article prints 9.28, without the correction for ties.
    result = stats.friedman(-auc)
    reference = scipy.stats.friedmanchisquare(*(-auc).T)
    assert_allclose(result.chi_square, reference.statistic)
    assert_allclose(result.p_value, reference.pvalue)
    assert_allclose(stats.nemenyi(-auc, alpha=0.10).critical_difference, 1.12, atol=0.01)


@given(st.integers(0, 2**32), st.integers(3, 6), st.integers(2, 30), st.booleans())
def test_friedman_agrees_with_scipy(seed, k, n, ties):
    scores = np.random.default_rng(seed).random((n, k))
    if ties:
        scores = scores.round(1)
    if (scores == scores[:, :1]).all():
        return
    reference = scipy.stats.friedmanchisquare(*scores.T)
    result = stats.friedman(scores)
    assert_allclose(result.chi_square, reference.statistic, atol=1e-9)
    assert_allclose(result.p_value, reference.pvalue, atol=1e-9)


def test_friedman_of_equal_classifiers_is_not_significant():
    assert stats.friedman(np.ones((5, 3))).p_value == 1.0


def test_nemenyi_groups_are_the_bars_of_the_diagram():
    scores = np.array([[1.0, 2, 3, 4]] * 10 + [[1.0, 2, 4, 3]] * 10)
    result = stats.nemenyi(scores)
    assert_allclose(result.ranks, [1.0, 2.0, 3.5, 3.5])
    assert result.groups == [(0, 1), (2, 3)]
    for group in result.groups:
        spread = np.ptp(result.ranks[list(group)])
        assert spread < result.critical_difference
        assert result.p_values[group[0], group[-1]] > 0.05


@given(st.integers(0, 2**32), st.integers(8, 60))
def test_wilcoxon_z_and_p_belong_together(seed, n):
    rng = np.random.default_rng(seed)
    a, b = rng.random(n), rng.random(n)
    for alternative, tail in (("less", scipy.stats.norm.sf), ("greater", scipy.stats.norm.cdf)):
        result = stats.wilcoxon(a, b, alternative)
        reference = scipy.stats.wilcoxon(a, b, alternative=alternative, method="approx")
        assert_allclose(result.p_value, reference.pvalue)
        assert_allclose(result.p_value, tail(result.statistic))


def test_wilcoxon_sign_points_to_the_smaller_losses():
    less, more = np.arange(10.0), np.arange(10.0) + 1
    for alternative in ("two-sided", "less", "greater"):
        assert stats.wilcoxon(less, more, alternative).statistic > 0
        assert stats.wilcoxon(more, less, alternative).statistic < 0


def test_published_z_and_p_are_one_sided():
    # Carvalho et al. (2013), table 1: z=7.08, p=7.21e-13; z=3.52, p=2.15e-4.
    assert_allclose(scipy.stats.norm.sf([7.08, 3.52]), [7.21e-13, 2.15e-4], rtol=0.01)


def test_win_draw_loss_with_rounding():
    a, b = [0.10, 0.2001, 0.4], [0.20, 0.2002, 0.3]
    assert stats.win_draw_loss(a, b) == (2, 0, 1)
    assert stats.win_draw_loss(a, b, decimals=3) == (1, 1, 1)
    assert str(stats.win_draw_loss(a, b)) == "2–0–1"


def test_geometric_mean_ratio_leaves_zeros_out():
    assert_allclose(stats.geometric_mean_ratio([2.0, 8.0, 0.0], [1.0, 1.0, 1.0]), 4.0)
    with pytest.raises(DataError):
        stats.geometric_mean_ratio([0.0], [1.0])


@pytest.mark.parametrize("values", [[[1.0, np.nan]], [1.0, 2.0], [[1.0]]])
def test_scores_that_cannot_be_ranked_are_refused(values):
    with pytest.raises(DataError):
        stats.average_ranks(values)


def test_lengths_must_agree():
    with pytest.raises(DataError, match="equal length"):
        stats.win_draw_loss([1.0], [1.0, 2.0])


def test_corrected_t_is_nadeau_and_bengio_s_formula():
    rng = np.random.default_rng(0)
    a, b = rng.random(10), rng.random(10)
    d = a - b
    t = d.mean() / np.sqrt((1 / 10 + 1 / 9) * d.var(ddof=1))
    expected = 2 * scipy.stats.t.sf(abs(t), 9)
    result = stats.corrected_t(a, b, test_ratio=1 / 9)
    assert_allclose(result, (t, expected))
    # Without the share of test rows it is the plain paired test.
    assert_allclose(
        stats.corrected_t(a, b, test_ratio=0.0), scipy.stats.ttest_rel(a, b), rtol=1e-12
    )


def test_corrected_t_of_equal_and_of_shifted_losses():
    assert stats.corrected_t([0.1, 0.2], [0.1, 0.2], 1.0).p_value == 1.0
    assert stats.corrected_t([0.1, 0.2], [0.2, 0.3], 1.0).p_value == 0.0
    with pytest.raises(DataError, match="2 cells"):
        stats.corrected_t([0.1], [0.2], 1.0)
