import json

import numpy as np
import pytest

from tanager_papers.carvalho_constants import (
    conditional_sampler,
    dirichlet_constants,
    dirichlet_sampler,
    monte_carlo_constants,
    uniform_constants,
)


@pytest.mark.shared
def test_constants_of_the_reference(shared):
    values = json.loads((shared / "reference/acll/values.json").read_text())
    for key, expected in values["dirichlet_beta_gamma"].items():
        s, a, b = (int(part.split("=")[1]) for part in key.split(","))
        np.testing.assert_allclose(dirichlet_constants(s, a, b)[:2], expected, rtol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 7])
def test_uniform_constants_within_monte_carlo_error(n_classes):
    rng = np.random.default_rng(n_classes)
    uniform = conditional_sampler(lambda u, earlier: u)
    estimates = [monte_carlo_constants(uniform, n_classes, 20_000, rng) for _ in range(20)]
    _assert_within_error(estimates, uniform_constants(n_classes))


def test_dirichlet_constants_within_monte_carlo_error():
    rng = np.random.default_rng(1)
    estimates = [
        monte_carlo_constants(dirichlet_sampler(1.5, 40), 3, 20_000, rng) for _ in range(20)
    ]
    _assert_within_error(estimates, dirichlet_constants(3, 1.5, 40))


def _assert_within_error(estimates, exact):
    error = np.std(estimates, axis=0, ddof=1) / np.sqrt(len(estimates))
    assert (np.abs(np.mean(estimates, axis=0) - exact) < 4 * error).all()


def test_sequential_sampler_draws_from_conditionals():
    # Uniform on the simplex {u1 + u2 <= 1}: the second is uniform on what the first left.
    def quantile(u, earlier):
        if earlier.shape[1] == 0:
            return 1 - np.sqrt(1 - u * (1 - 1e-12))
        return u * (1 - earlier[:, 0])

    rng = np.random.default_rng(2)
    sampler = conditional_sampler(quantile)
    estimates = [monte_carlo_constants(sampler, 2, 20_000, rng) for _ in range(20)]
    _assert_within_error(estimates, dirichlet_constants(2, 1, 1))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_errors_of_the_approximation_are_those_of_draws(n_classes):
    generator = np.random.default_rng(0)

    def cube(rng, n_samples, width):
        return 1.0 - rng.random((n_samples, width))

    for exact, sampler in (
        (dirichlet_constants(n_classes, 1, 1000), dirichlet_sampler(1, 1000)),
        (uniform_constants(n_classes), cube),
    ):
        drawn = monte_carlo_constants(sampler, n_classes, 400_000, generator)
        for name in ("beta", "mean", "variance", "squared_error"):
            assert getattr(drawn, name) == pytest.approx(getattr(exact, name), rel=0.02), name
    # What the paper prints as a relative error of 13.92 % is the mean squared error.
    assert dirichlet_constants(2, 1, 1000).squared_error == pytest.approx(0.1392, abs=5e-5)
