"""
As in the papers
================

Wins minus losses against size. These plots take any numbers, and come with ``pip install
./papers``.
"""

import numpy as np

from tanager_papers import plot_convergence_histogram, plot_envelopes, plot_margins

plot_margins(
    [100, 1000, 10000],
    {"tan": [2, 9, 14], "kdb-2": [-8, 3, 17]},
    x_label="rows, at least",
    log=True,
)

# %%
# Experiments with their lower hulls:

rng = np.random.default_rng(0)
places = rng.uniform(-2, 2, 40)
plot_envelopes(
    {
        name: {"x": places, "y": best + 0.02 * places**2 + rng.exponential(0.02, 40)}
        for name, best in (("tan", 0.12), ("naive", 0.16))
    },
    x_label="log10 of the weight",
    y_label="error",
)

# %%
# How many iterations one parametrisation lags behind another:

plot_convergence_histogram({"extended": rng.poisson(6, 40), "direct": rng.poisson(3, 40)})
