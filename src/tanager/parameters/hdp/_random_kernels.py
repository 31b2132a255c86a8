"""Random numbers with an explicit state: xoshiro256++ and what the sampler draws from it.

Blackman and Vigna (2021), "Scrambled linear pseudorandom number generators",
https://doi.org/10.1145/3460772.
"""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel
def uniform(state):
    """Return a number in (0, 1); advances state (4,) of uint64."""
    total = state[0] + state[3]
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + state[0]
    shifted = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << np.uint64(45)) | (state[3] >> np.uint64(19))
    return (np.float64(result >> np.uint64(11)) + 0.5) * 2.0**-53


@kernel
def normal(state):
    """Return a standard normal number, by Marsaglia's polar method."""
    while True:
        x = 2.0 * uniform(state) - 1.0
        y = 2.0 * uniform(state) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * np.sqrt(-2.0 * np.log(square) / square)


@kernel
def log_gamma_variate(state, shape):
    """Return the logarithm of a Gamma(shape, 1) number.

    Marsaglia and Tsang (2000), https://doi.org/10.1145/358407.358414; a shape
    below one goes through shape + 1, in logarithms, so that it cannot underflow.
    """
    boost = 0.0
    if shape < 1.0:
        boost = np.log(uniform(state)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if np.log(uniform(state)) < 0.5 * x * x + d - d * v + d * np.log(v):
            return np.log(d * v) + boost


@kernel
def neg_log_beta_variate(state, a, b):
    """Return -log of a Beta(a, b) number."""
    odds = log_gamma_variate(state, b) - log_gamma_variate(state, a)
    return odds if odds > 40.0 else np.log1p(np.exp(odds))
