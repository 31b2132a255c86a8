"""What tables of pairs of features would add to a fitted model."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def pair_gains(codes, arities, residuals, spreads, weights, shrink, singles, gains):
    """Write the gain of a table of each feature, and of each pair of features.

    The gain is half of the sum over cells and classes of (g^2 - h) / (h + shrink):
    g the sum of the residuals in the cell, h that of their variances. It is about
    what the log-likelihood would gain on new rows; without effect its mean is zero.

    Parameters
    ----------
    codes : (n_features, n_rows)
    arities : (n_features,)
        Rows with a code beyond are left out of the feature's cells.
    residuals : (n_rows, n_classes)
        Indicator of the class less its probability, times the row's weight.
    spreads : (n_rows, n_classes)
        The variance of the indicator, times the row's weight.
    weights : (n_rows,)
        Each row's weight, by which the variance of its residual is multiplied.
    shrink : float
    singles : (n_features,)
        Written.
    gains : (n_features, n_features)
        Written, symmetric.
    """
    n_features, n_rows = codes.shape
    n_classes = residuals.shape[1]
    widest = 1
    for i in range(n_features):
        widest = max(widest, arities[i])
    sums = np.empty((widest * widest, n_classes, 3))
    for i in range(n_features):
        for j in range(i + 1):
            size = arities[i] if i == j else arities[i] * arities[j]
            sums[:size] = 0.0
            for r in range(n_rows):
                x = codes[i, r]
                z = codes[j, r]
                if x >= arities[i] or z >= arities[j]:
                    continue
                cell = x if i == j else x * arities[j] + z
                w = weights[r]
                for c in range(n_classes):
                    sums[cell, c, 0] += residuals[r, c]
                    sums[cell, c, 1] += spreads[r, c]
                    sums[cell, c, 2] += spreads[r, c] * w
            gain = 0.0
            for cell in range(size):
                for c in range(n_classes):
                    g = sums[cell, c, 0]
                    gain += (g * g - sums[cell, c, 2]) / (sums[cell, c, 1] + shrink)
            if i == j:
                singles[i] = 0.5 * gain
            else:
                gains[i, j] = 0.5 * gain
                gains[j, i] = 0.5 * gain
