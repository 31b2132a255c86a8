"""TAN and its kin, fitted and applied by other programs from PyPI, on the same rows.

Needs the extra ``peers`` (``make peers``); a program that is not installed is
listed as such. Run ``python benchmarks/peers.py`` (several minutes, nearly all
of them spent in the peers).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.naive_bayes import CategoricalNB

from benchmarks.foundation import random_tan
from benchmarks.measuring import markdown, publish
from tanager import BayesNetClassifier

TRAIN, TEST = 20_000, 2_000


def tanager(structure: str, parameters: str) -> Callable[..., Any]:
    def run(X: np.ndarray, y: np.ndarray) -> Any:
        return BayesNetClassifier(structure, parameters, categorical_features="all").fit(X, y)

    return run


def scikit_learn(X: np.ndarray, y: np.ndarray) -> Any:
    return CategoricalNB(min_categories=8).fit(X, y)


def scikit_bayes(X: np.ndarray, y: np.ndarray) -> Any:
    from skbn.ande import AnDE

    return AnDE(n_dependence=1).fit(X, y)


def pyagrum_tan(X: np.ndarray, y: np.ndarray) -> Any:
    from pyagrum.lib.discreteTypeProcessor import DiscreteTypeProcessor
    from pyagrum.skbn import BNClassifier

    kinds = DiscreteTypeProcessor("NoDiscretization", defaultNumberOfBins=None)
    peer = BNClassifier(
        type_processor=kinds, learningMethod="TAN", prior="Smoothing", priorWeight=1.0
    )
    return peer.fit(X, y)


class PgmpyTan:
    """pgmpy's TAN; its inference is by general variable elimination, row by row."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        import pandas as pd
        from pgmpy.estimators import TreeSearch
        from pgmpy.models import DiscreteBayesianNetwork
        from pgmpy.parameter_estimator import DiscreteBayesianEstimator

        names = [f"x{i}" for i in range(X.shape[1])]
        frame = pd.DataFrame(X, columns=names).assign(y=y)
        search = TreeSearch(frame, root_node="x0", n_jobs=1)
        graph = search.estimate(estimator_type="tan", class_node="y", show_progress=False)
        self.model = DiscreteBayesianNetwork(graph.edges())
        self.model.fit(frame, estimator=DiscreteBayesianEstimator(prior_type="K2"))
        self.names = names

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return P(y | row)."""
        import pandas as pd

        frame = pd.DataFrame(X, columns=self.names)
        return self.model.predict_probability(frame).to_numpy()


PEERS: dict[str, tuple[Callable[..., Any], int]] = {
    "Tanager, TAN, Laplace": (tanager("tan", "laplace"), TEST),
    "Tanager, TAN, HDP": (tanager("tan", "hdp"), TEST),
    "Tanager, selective kDB, HDP": (tanager("skdb", "hdp"), TEST),
    "scikit-learn, CategoricalNB": (scikit_learn, TEST),
    "scikit-bayes, AODE": (scikit_bayes, TEST),
    "pyAgrum, TAN": (pyagrum_tan, 200),
    "pgmpy, TAN": (PgmpyTan, 50),
}


def measure(make: Callable[..., Any], n_test: int, data: tuple[np.ndarray, ...]) -> list[str]:
    """Return fit time, microseconds a row and log-loss on the first `n_test` test rows."""
    X, y, X_test, y_test = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        fitted = make(X, y)
        fit = time.process_time() - start
        start = time.process_time()
        proba = np.asarray(fitted.predict_proba(X_test[:n_test]))
        predict = (time.process_time() - start) / n_test
    loss = log_loss(y_test[:TEST], proba) if n_test == TEST else None
    return [f"{fit:.3f}", f"{predict * 1e6:,.1f}", "" if loss is None else f"{loss:.4f}"]


def main() -> None:
    X, y = random_tan(TRAIN + TEST)
    data = (X[:TRAIN], y[:TRAIN], X[TRAIN:], y[TRAIN:])
    rows = []
    for name, (make, n_test) in PEERS.items():
        try:
            if name.startswith("Tanager"):
                measure(make, n_test, data)  # compiles, or loads what was compiled
            result = measure(make, n_test, data)
        except ImportError as missing:
            result = [f"not installed ({missing.name})", "", ""]
        rows.append([name, *result])
    text = (
        f"{TRAIN:,} training rows × {X.shape[1]} integer codes (2–8 values, 2 classes) from a "
        f"random TAN; {TEST:,} test rows (pyAgrum 200 and pgmpy 50, whose inference is general, "
        "so without a log-loss); CPU seconds on one thread.\n\n"
        + markdown(["Program", "Fit, s", "Predict, µs a row", "Log-loss"], rows)
    )
    publish("peers", "Other programs on the same rows", text)


if __name__ == "__main__":
    main()
