"""How often intervals hold the true P(class | row), on rows drawn from known networks.

    python -m benchmarks.intervals [--write] [--draws N]

Each draw is a network with a class and ten features of three values: naive, a tree (TAN) or a
2-tree, whose tables come from hierarchical Dirichlets of three strengths of dependence. A model
learns from its rows, with the network's own structure, and its intervals of 1,000 further rows
are compared to the P(class | row) of the network. Errors are standard errors over the draws,
since rows of one draw share their tables.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import tanager
from benchmarks.measuring import markdown, publish
from tanager import BayesNetClassifier
from tanager.structure import Fixed

N_FEATURES, ARITY, TESTED = 10, 3, 1_000
STRENGTHS = {"strong": (10, 10), "medium": (30, 20), "weak": (60, 40)}
SHAPES = {"naive": 0, "TAN": 1, "2-tree": 2}
VALUES, NAMES = np.array(["u", "v", "w"]), [f"x{at}" for at in range(N_FEATURES)]


def draw_network(k: int, strength: str, n_classes: int, rng: np.random.Generator):
    """Return parents, tables P(x | class, parents) and the class prior."""
    apart, around = STRENGTHS[strength]
    parents: list[tuple[int, ...]] = []
    for at in range(N_FEATURES):
        if k == 0 or at == 0:
            parents.append(())
        elif k == 1 or at == 1:
            parents.append((int(rng.integers(at)),))
        else:
            first = int(rng.integers(1, at))
            parents.append((first, parents[first][0]))
    tables = []
    for above in parents:
        root = rng.dirichlet(np.full(ARITY, 5.0))
        table = np.empty((n_classes, *(ARITY,) * len(above), ARITY))
        for c in range(n_classes):
            own = rng.dirichlet(apart * root + 1e-3)
            size = (ARITY,) * len(above)
            table[c] = rng.dirichlet(around * own + 1e-2, size) if above else own
        table = np.maximum(table, 0.005)
        tables.append(table / table.sum(axis=-1, keepdims=True))
    return parents, tables, rng.dirichlet(np.full(n_classes, 10.0))


def draw_rows(network, n_rows: int, rng: np.random.Generator):
    """Return codes, classes and P(class | row)."""
    parents, tables, prior = network
    y = rng.choice(len(prior), n_rows, p=prior)
    X = np.zeros((n_rows, N_FEATURES), np.int64)
    logs = np.tile(np.log(prior), (n_rows, 1))
    for at, above in enumerate(parents):
        context = tuple(X[:, one] for one in above)
        sums = np.cumsum(tables[at][(y, *context)], axis=1)
        X[:, at] = np.minimum((rng.random((n_rows, 1)) > sums).sum(axis=1), ARITY - 1)
        for c in range(len(prior)):
            logs[:, c] += np.log(tables[at][(np.full(n_rows, c), *context, X[:, at])])
    return X, y, np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])


def covered(shape, parameters, strength, n_rows, n_classes, level, draws, hide=0.0):
    """Return the share of intervals that hold the truth, and their mean width, draw by draw."""
    out = []
    for draw in range(draws):
        rng = np.random.default_rng(1_000 + draw)
        network = draw_network(SHAPES[shape], strength, n_classes, rng)
        X, y, _ = draw_rows(network, n_rows, rng)
        T, _, truth = draw_rows(network, TESTED, rng)
        held = {name: [NAMES[p] for p in network[0][at]] for at, name in enumerate(NAMES)}
        clf = BayesNetClassifier(Fixed(held), parameters, missing="marginalize", random_state=0)
        clf.fit(VALUES[X], y)
        rows = VALUES[T].astype(object)
        if hide:
            rows[:, 0] = None
            truth = _without_first(network, T, truth)
        low, high = np.moveaxis(clf.predict_interval(rows, level=level), -1, 0)
        out.append((((low <= truth) & (truth <= high)).mean(), (high - low).mean()))
    return np.array(out)


def _without_first(network, T, truth):
    """Return P(class | all features but the first)."""
    parents, tables, prior = network
    total = np.zeros_like(truth)
    for value in range(ARITY):
        X = T.copy()
        X[:, 0] = value
        logs = np.tile(np.log(prior), (len(X), 1))
        for at, above in enumerate(parents):
            for c in range(len(prior)):
                places = (np.full(len(X), c), *(X[:, one] for one in above), X[:, at])
                logs[:, c] += np.log(tables[at][places])
        total += np.exp(logs)
    return total / total.sum(axis=1, keepdims=True)


def errors(parameters: str, n_rows: int, draws: int = 3) -> str:
    """Return the mean error of P(class | row) after a fit, on TAN networks of medium dependence."""
    found = []
    for draw in range(draws):
        rng = np.random.default_rng(1_000 + draw)
        network = draw_network(SHAPES["TAN"], "medium", 2, rng)
        X, y, _ = draw_rows(network, n_rows, rng)
        T, _, truth = draw_rows(network, TESTED, rng)
        held = {name: [NAMES[p] for p in network[0][at]] for at, name in enumerate(NAMES)}
        clf = BayesNetClassifier(Fixed(held), parameters, random_state=0).fit(VALUES[X], y)
        found.append(np.abs(clf.predict_proba(VALUES[T]) - truth).mean())
    return f"{np.mean(found):.3f}"


def of_numbers(n_rows: int, draws: int) -> np.ndarray:
    """Return coverage and width of the default's intervals for a smooth function of numbers."""
    out = []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        X = rng.normal(size=(n_rows + TESTED, 8))
        odds = X[:, 0] + np.sin(2 * X[:, 1]) + 0.7 * X[:, 2] * X[:, 3]
        truth = 1 / (1 + np.exp(-odds))
        y = (rng.random(len(X)) < truth).astype(int)
        clf = BayesNetClassifier(random_state=0).fit(X[:n_rows], y[:n_rows])
        low, high = clf.predict_interval(X[n_rows:], level=0.9)[:, 1].T
        held = (low <= truth[n_rows:]) & (truth[n_rows:] <= high)
        out.append((held.mean(), (high - low).mean()))
    return np.array(out)


def row(cells: list[str], found: np.ndarray) -> list[str]:
    error = found[:, 0].std(ddof=1) / np.sqrt(len(found))
    return [*cells, f"{found[:, 0].mean():.3f} ± {error:.3f}", f"{found[:, 1].mean():.3f}"]


def speed() -> list[str]:
    """Return the CPU time of 100,000 rows, and the bytes of a model file, with and without."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=20_000) > 0).astype(int)
    clf = BayesNetClassifier(n_jobs=1).fit(X, y)
    T, times = rng.normal(size=(100_000, 20)), []
    for ask in (clf.predict_proba, clf.predict_interval):
        ask(T)
        start = time.process_time()
        for _ in range(5):
            ask(T)
        times.append((time.process_time() - start) / 5)
    with tempfile.TemporaryDirectory() as folder:
        whole, less = Path(folder, "a"), Path(folder, "b")
        tanager.save(clf, whole)
        tables = replace(clf.network_.tables, spread=None)
        clf.network_ = replace(clf.network_, tables=tables, calibration=None)
        tanager.save(clf, less)
        sizes = whole.stat().st_size, less.stat().st_size
    proba, interval = (1e3 * one for one in times)
    return [
        "The default with 20 numeric features, 100,000 rows of doubles:",
        f"`predict_proba` takes {proba:.0f} ms of CPU, `predict_interval` {interval:.0f} ms",
        f"({interval / proba:.1f} times as much). The model's file has {sizes[0]:,} bytes,",
        f"{sizes[1]:,} without what intervals and sets need.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=40)
    options = parser.parse_known_args()[0]
    warnings.simplefilter("ignore")
    rows, others = [], []
    for parameters in ("hdp", "layered", "discriminative"):
        for shape in SHAPES:
            for strength in STRENGTHS:
                found = covered(shape, parameters, strength, 3_000, 2, 0.9, options.draws)
                rows.append(row([parameters, shape, strength], found))
                print(" | ".join(rows[-1]), flush=True)
    more = [
        ("hdp", "TAN", 500, 2, 0.9, 0.0),
        ("layered", "TAN", 500, 2, 0.9, 0.0),
        ("discriminative", "TAN", 500, 2, 0.9, 0.0),
        ("discriminative(l2='cv')", "TAN", 3_000, 2, 0.9, 0.0),
        ("discriminative(level=1)", "TAN", 3_000, 2, 0.9, 0.0),
        ("m-estimate", "TAN", 3_000, 2, 0.9, 0.0),
        ("hdp", "TAN", 3_000, 4, 0.9, 0.0),
        ("layered", "TAN", 3_000, 4, 0.9, 0.0),
        ("discriminative", "TAN", 3_000, 4, 0.9, 0.0),
        ("hdp", "TAN", 3_000, 2, 0.5, 0.0),
        ("layered", "TAN", 3_000, 2, 0.5, 0.0),
        ("discriminative", "TAN", 3_000, 2, 0.5, 0.0),
        ("hdp", "TAN", 3_000, 2, 0.99, 0.0),
        ("layered", "TAN", 3_000, 2, 0.99, 0.0),
        ("hdp", "TAN", 3_000, 2, 0.9, 1.0),
        ("layered", "TAN", 3_000, 2, 0.9, 1.0),
    ]
    for parameters, shape, n_rows, n_classes, level, hide in more:
        found = covered(shape, parameters, "medium", n_rows, n_classes, level, options.draws, hide)
        known = "all but x0" if hide else "all"
        cells = [parameters, shape, f"{n_rows:,}", str(n_classes), f"{level:g}", known]
        others.append(row(cells, found))
        print(" | ".join(others[-1]), flush=True)
    numbers = [row([f"{n_rows:,}"], of_numbers(n_rows, options.draws)) for n_rows in (300, 2_000)]
    limits = [
        [parameters, errors(parameters, 3_000), errors(parameters, 100_000)]
        for parameters in ("m-estimate", "discriminative", "dfe", "acll", "hybrid")
    ]
    timed = speed()
    first = markdown(["parameters", "network", "dependence", "held by 90 %", "mean width"], rows)
    head = [
        "parameters",
        "network",
        "rows",
        "classes",
        "level",
        "inputs known",
        "held",
        "mean width",
    ]
    parts = [
        TEXT.format(draws=options.draws),
        first,
        MORE,
        markdown(head, others),
        NUMBERS,
        markdown(["rows", "held by 90 %", "mean width"], numbers),
        LIMITS,
        markdown(["parameters", "after 3,000 rows", "after 100,000 rows"], limits),
        "\n".join(timed),
    ]
    publish("intervals", "Intervals of probabilities", "\n\n".join(parts))


TEXT = """How often `predict_interval(level=0.9)` holds the true P(class | row): 1,000 rows from
each of {draws} networks of a kind, two classes and ten features of three values, after a fit to
3,000 rows with the network's own structure. Errors are standard errors over the networks: rows of
one share its tables. `dependence` is how far tables differ between classes and contexts.

What isn't covered is a structure that lacks a dependency: an interval says how far the tables may
be off, not the graph."""
MORE = "Fewer rows, more classes, other levels and unknown inputs, at medium dependence:"
NUMBERS = """The default on eight normal numbers, with log-odds x₀ + sin 2x₁ + 0.7 x₂x₃: its
structure is learned, and its intervals are wider than they need be."""
LIMITS = """Why `dfe`, `acll` and `hybrid` have no intervals: their mean error of P(class | row), on
TAN networks of medium dependence, doesn't fall with the number of rows. They're made to classify,
and an interval that shrinks around their probabilities would miss the truth ever more surely."""

if __name__ == "__main__":
    main()
