"""Tables of the UCI repository that are synthetic themselves, made again by their definitions.

Each function draws rows from a seed alone. The rows are not those of the
repository, which were drawn once from the same definitions.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["corral", "led", "logistic", "mofn", "three_bits", "waveform"]

# Segments of a display (top, upper left, upper right, middle, lower left, lower
# right, bottom) that each digit lights.
_SEGMENTS = (
    "1110111", "0010010", "1011101", "1011011", "0111010",
    "1101011", "1101111", "1010010", "1111111", "1111011",
)  # fmt: skip

# Shared peaks of the three waves, at features 11, 15 and 7 (counted from 1).
_PEAKS = (11, 15, 7)
_PAIRS = ((0, 1), (0, 2), (1, 2))


def corral(n_rows: int = 128, seed: int = 0) -> Any:
    """Return the table corral: (A0 and A1) or (B0 and B1), as Arrow.

    Six binary features: the four of the concept, one that is irrelevant, and one
    that equals the class in 75 per cent of the rows.

    References
    ----------
    John, G., Kohavi, R. and Pfleger, K. (1994). Irrelevant features and the
    subset selection problem. ICML.

    Examples
    --------
    >>> corral(4).column_names
    ['A0', 'A1', 'B0', 'B1', 'irrelevant', 'correlated', 'class']
    """
    rng = np.random.default_rng(seed)
    bits = rng.integers(2, size=(5, n_rows))
    label = (bits[0] & bits[1]) | (bits[2] & bits[3])
    correlated = np.where(rng.random(n_rows) < 0.75, label, 1 - label)
    names = ("A0", "A1", "B0", "B1", "irrelevant", "correlated")
    return _table(names, [*bits, correlated], label)


def mofn(m: int = 3, n: int = 7, n_features: int = 10, n_rows: int = 300, seed: int = 0) -> Any:
    """Return the table mofn-3-7-10: at least m of the first n binary features are on.

    The first `n_rows` rows are drawn, for training; then all ``2 ** n_features``
    combinations follow, for testing.

    References
    ----------
    Murphy, P. M. and Pazzani, M. J. (1991). ID2-of-3: constructive induction of
    M-of-N concepts for discriminators in decision trees. ML. The sizes are those
    of Friedman, Geiger and Goldszmidt (1997), table 1.

    Examples
    --------
    >>> mofn().num_rows
    1324
    """
    rng = np.random.default_rng(seed)
    drawn = rng.integers(2, size=(n_rows, n_features))
    bits = np.concatenate([drawn, np.array(list(product((0, 1), repeat=n_features)))])
    label = (bits[:, :n].sum(axis=1) >= m).astype(np.int64)
    return _table([f"x{i + 1}" for i in range(n_features)], list(bits.T), label)


def led(n_rows: int = 1000, noise: float = 0.1, seed: int = 0) -> Any:
    """Return the LED display domain: seven segments of a digit, each inverted with chance `noise`.

    References
    ----------
    Breiman, L., Friedman, J., Olshen, R. and Stone, C. (1984). Classification
    and regression trees, section 2.6.1.

    Examples
    --------
    >>> led(2000).num_rows
    2000
    """
    rng = np.random.default_rng(seed)
    label = rng.integers(10, size=n_rows)
    lit = np.array([[int(bit) for bit in digit] for digit in _SEGMENTS])[label]
    shown = lit ^ (rng.random(lit.shape) < noise)
    return _table([f"segment{i + 1}" for i in range(7)], list(shown.T), label)


def waveform(n_rows: int = 5000, n_noise: int = 19, seed: int = 0) -> Any:
    """Return the waveform domain: random blends of two of three waves, with unit noise.

    Numeric features: 21 points of the wave, then `n_noise` of noise alone.
    waveform-21 has ``n_noise=0``; Waveform-5000 has 19.

    References
    ----------
    Breiman, L., Friedman, J., Olshen, R. and Stone, C. (1984). Classification
    and regression trees, section 2.6.2.

    Examples
    --------
    >>> waveform(10).num_columns
    41
    """
    rng = np.random.default_rng(seed)
    points = np.arange(1, 22)
    waves = np.array([np.maximum(6 - np.abs(points - peak), 0) for peak in _PEAKS])
    label = rng.integers(3, size=n_rows)
    share = rng.random((n_rows, 1))
    first, second = np.array(_PAIRS).T
    signal = share * waves[first[label]] + (1 - share) * waves[second[label]]
    values = np.concatenate([signal, np.zeros((n_rows, n_noise))], axis=1)
    values += rng.normal(size=values.shape)
    import pyarrow as pa

    columns = {f"x{i + 1}": column for i, column in enumerate(values.T.round(2))}
    return pa.table({**columns, "class": label.astype(str)})


def logistic(alpha: float, n_rows: int = 10_000, seed: int = 0, *, signed: bool = False) -> Any:
    r"""Return rows of a logistic model of three binary features with weights 10^a, 1 and 10^-a.

    The larger `alpha`, the longer and narrower the valley in which the conditional
    likelihood has its optimum: for studies of optimisers. Features count as 0 and 1, or as -1
    and 1 where they're `signed`.

    References
    ----------
    Zaidi et al. (2017), section 5.5.1.

    Examples
    --------
    >>> logistic(0.5, 100).num_rows
    100
    """
    rng = np.random.default_rng(seed)
    bits = rng.integers(2, size=(3, n_rows))
    weights = 10.0 ** np.array([alpha, 0.0, -alpha])
    label = rng.random(n_rows) < 1 / (1 + np.exp(-(weights @ (2 * bits - 1 if signed else bits))))
    return _table(("x1", "x2", "x3"), list(bits), label.astype(np.int64))


def three_bits(n_rows: int = 1000, seed: int = 0) -> Any:
    """Return three binary features of which only one weak pair tells the classes apart.

    X2 copies X1, and X3 copies X2, more often than X3 copies X1 (in class 1) or its
    negation (in class 2): a tree by mutual information misses the pair X1, X3.

    References
    ----------
    Pernkopf and Bilmes (2008), equations 1 to 4.

    Examples
    --------
    >>> three_bits(10).column_names
    ['X1', 'X2', 'X3', 'class']
    """
    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=n_rows)
    x1 = rng.integers(2, size=n_rows)
    x2 = np.where(rng.random(n_rows) < 0.5, x1, rng.integers(2, size=n_rows))
    copied = np.where(label == 0, x1, 1 - x1)
    which = rng.random(n_rows)
    x3 = np.where(which < 0.3, copied, np.where(which < 0.8, x2, rng.integers(2, size=n_rows)))
    return _table(("X1", "X2", "X3"), [x1, x2, x3], label)


def _table(names: Any, columns: list[NDArray[Any]], label: NDArray[np.int64]) -> Any:
    """Return an Arrow table of texts: the values are names, not numbers."""
    import pyarrow as pa

    texts = {n: c.astype(np.int64).astype(str) for n, c in zip(names, columns, strict=True)}
    return pa.table({**texts, "class": label.astype(str)})
