"""Numbers at the edge: every table gives probabilities to 1e-12, or an error that names why."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from torture.campaign import Budget, Tally

__all__ = ["PAIRS", "cases", "numbers", "verdict"]

PAIRS = (
    ("naive", "laplace"),
    ("tan", "ml"),
    ("kdb", "m-estimate"),
    ("tan", "hdp"),
    ("skdb", "hdp"),
    ("naive", "discriminative"),
    ("auto", "layered"),  # the default
)
QUICK = (PAIRS[0], PAIRS[1], PAIRS[-1])


class Case(NamedTuple):
    """A table at the edge; large ones only go to the default and what is quick on them."""

    name: str
    X: Any
    y: Any
    weights: Any = None
    quick: bool = False


def cases(seed: int, *, large: bool = True) -> Iterator[Case]:
    """Iterate over tables that are hard on arithmetic."""
    rng = np.random.default_rng(seed)
    words = np.array(["a", "b", "c"])[rng.integers(0, 3, (60, 3))]
    y = rng.integers(0, 2, 60)
    floats = rng.normal(size=(60, 3))
    yield Case("one row", words[:1], ["u"])
    yield Case("two rows of two classes", words[:2], ["u", "v"])
    yield Case("two rows of one class", words[:2], ["u", "u"])
    yield Case("identical rows", np.repeat(words[:1], 60, axis=0), y)
    yield Case("identical rows and labels", np.repeat(words[:1], 60, axis=0), np.zeros(60, int))
    yield Case("all labels distinct", words, np.arange(60))
    yield Case("a column of distinct words", np.c_[[f"w{i}" for i in range(60)], words], y)
    yield from _extreme_numbers(rng, floats, y)
    yield from _extreme_weights(rng, words, y)
    if large:
        yield from _large(rng)


def _extreme_numbers(rng: Any, floats: Any, y: Any) -> Iterator[Case]:
    values: dict[str, tuple[float, ...]] = {
        "plus and minus infinity": (np.inf, -np.inf),
        "infinities and NaN": (np.inf, -np.inf, np.nan),
        "denormals": (5e-324, 1e-310, -1e-310),
        "the largest floats": (1.7e308, -1.7e308, 1.7976931348623157e308),
        "both zeros": (0.0, -0.0),
        "neighbours that differ in the last bit": (1.0, np.nextafter(1.0, 2.0)),
    }
    for name, some in values.items():
        X = floats.copy()
        X[:, 0] = rng.choice(np.array(some), len(X))
        yield Case(name, X, y)
    yield Case("NaN everywhere", np.full((60, 3), np.nan), y)
    whole = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0, -1])
    yield Case("int64 extremes", rng.choice(whole, (60, 2)), y)
    unsigned = np.array([0, np.iinfo(np.uint64).max, 2**63], np.uint64)
    yield Case("uint64 extremes", rng.choice(unsigned, (60, 2)), y)
    yield Case(
        "float32 extremes",
        (floats / np.abs(floats).max()).astype(np.float32) * np.float32(3.4e38),
        y,
    )


def _extreme_weights(rng: Any, words: Any, y: Any) -> Iterator[Case]:
    n = len(y)
    spans = {
        "weights from 1e-300 to 1e300": 10.0 ** rng.uniform(-300, 300, n),
        "weights from 1e-50 to 1e50": 10.0 ** rng.uniform(-49.9, 49.9, n),
        "weights of 1e-50": np.full(n, 1.0000001e-50),
        "weights of 1e50": np.full(n, 1e50),
        "tiny weights": np.full(n, 1e-300),
        "huge weights": np.full(n, 1e300),
        "weights of zero and one": rng.integers(0, 2, n).astype(float),
        "one weight above zero": np.r_[np.zeros(n - 1), 1.0],
        "no weight above zero": np.zeros(n),
        "weights that sum to infinity": np.full(n, 1.7e308),
        "denormal weights": np.full(n, 5e-324),
        "a negative weight": np.r_[np.ones(n - 1), -1.0],
        "a weight that is not a number": np.r_[np.ones(n - 1), np.nan],
        "an infinite weight": np.r_[np.ones(n - 1), np.inf],
    }
    for name, weights in spans.items():
        yield Case(name, words, y, weights)


def _large(rng: Any) -> Iterator[Case]:
    n = 4_000
    X = np.array(["a", "b", "c"])[rng.integers(0, 3, (n, 4))]
    yield Case("500 classes", X, rng.integers(0, 500, n), quick=True)
    yield Case("300 classes of 5,500 rows", rng.normal(size=(5_500, 4)),
               rng.integers(0, 300, 5_500), quick=True)  # fmt: skip
    yield Case("skew of 1 to a million", np.repeat(X[:1], 1_000_001, axis=0)[:, :1],
               np.r_[np.zeros(1_000_000, int), 1], quick=True)  # fmt: skip
    many = np.array([f"v{i}" for i in range(65_535)], dtype=object)[:, None]
    yield Case("65,535 values", many, rng.integers(0, 2, 65_535), quick=True)
    more = np.array([f"v{i}" for i in range(70_000)], dtype=object)[:, None]
    yield Case("70,000 values", more, rng.integers(0, 2, 70_000), quick=True)
    wide = rng.integers(0, 2, (40, 5_000)).astype(str)
    yield Case("5,000 columns", wide, rng.integers(0, 2, 40), quick=True)


def numbers(budget: Budget, tally: Tally, folder: Path) -> None:  # noqa: ARG001
    """Every case with every pair of learners."""
    refused: dict[str, str] = {}
    for case in cases(budget.seed):
        for structure, parameters in PAIRS:
            if case.quick and (structure, parameters) not in QUICK:
                continue
            what = f"{case.name}: {structure}/{parameters}"
            outcome, message = verdict(case, structure, parameters)
            if outcome == "refused":
                refused.setdefault(case.name, message[:160])
                if _NAMED.search(message) is None:
                    outcome, message = "failed", f"an error that names nothing: {message}"
            if outcome in ("probabilities", "refused"):
                tally.add(outcome)
            else:
                tally.fail(f"{what}: {message}", seed=budget.seed)
    _strange_rows(budget.seed, tally)
    tally.facts = {"refused": refused}


_NAMED = re.compile(r"'(x\d+|number|whole|day|size)'|sample_weight|target")
_STRANGE: dict[str, tuple[Any, ...]] = {
    "number": (np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1.7e308, -1.7e308, -0.0, None),
    "whole": (2**63 - 1, -(2**63), 2**53 + 1, 0, None),
    "day": (2**63 - 1, -(2**63) + 1, 0, -1, None),  # nanoseconds
    "size": ("", "XXL", "a" * 10_000, "\0", None),
}


def _strange_rows(seed: int, tally: Tally) -> None:
    """Ask models of ordinary rows about numbers, dates and words at the edge."""
    from tanager import BayesNetClassifier
    from tanager.errors import TanagerError

    rng, n = np.random.default_rng(seed), 300
    days = pa.array(rng.integers(0, 900, n) * 86_400 * 10**9, pa.timestamp("ns"))
    plain = {"number": rng.normal(size=n), "whole": rng.integers(0, 40, n), "day": days,
             "size": rng.choice(["S", "M", "L"], n)}  # fmt: skip
    y = np.where(plain["number"] + (plain["size"] == "L") + rng.normal(size=n) > 0, "u", "v")
    table = pa.table(plain)
    asked: dict[str, Any] = {"ordered": {"size": ["S", "M", "L"]}, "random_state": 0}
    signs = {"monotonic": {"number": 1, "day": -1, "size": 1}}
    marginal = {"missing": "marginalize"}
    for structure, parameters, more in (
        *((*pair, {}) for pair in PAIRS),
        ("auto", "layered", signs),
        ("auto", "layered", marginal),
        ("tan", "hdp", marginal),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = BayesNetClassifier(structure, parameters, **asked, **more).fit(table, y)
        for name, values in _STRANGE.items():
            for value in values:
                for n_rows in (1, 9):  # few rows go another way than many
                    cell = pa.array([value] * n_rows, table.schema.field(name).type)
                    rows = table.slice(0, n_rows)
                    rows = rows.set_column(rows.column_names.index(name), name, cell)
                    what = f"{structure}/{parameters} {more}: {n_rows} rows, {name} = {value!r}"
                    try:
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            warnings.simplefilter("error", RuntimeWarning)
                            p = model.predict_proba(rows)
                    except TanagerError as error:
                        named = _NAMED.search(str(error)) is not None
                        tally.check(named, f"{what[:200]}: an error that names nothing: {error}")
                    except Exception as error:
                        tally.fail(f"{what[:200]}: {type(error).__name__}: {error}"[:400])
                    else:
                        good = (
                            bool(np.isfinite(p).all()) and np.abs(p.sum(axis=1) - 1).max() < 1e-12
                        )
                        tally.check(good, f"{what[:200]}: no probabilities")


def verdict(case: Case, structure: str, parameters: str) -> tuple[str, str]:
    """Return "probabilities", "refused" or "failed", with the message."""
    from tanager import BayesNetClassifier
    from tanager.errors import TanagerError

    probe: Callable[[Any], Any] = lambda X: X[:200]  # noqa: E731
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            model = BayesNetClassifier(structure, parameters, random_state=0)
            model.fit(case.X, case.y, sample_weight=case.weights)
            p = model.predict_proba(probe(case.X))
    except TanagerError as error:
        return "refused", str(error)
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    if p.shape[1] != len(set(np.asarray(case.y).tolist())) and case.weights is None:
        return "failed", f"{p.shape[1]} classes came out"
    if not np.isfinite(p).all():
        return "failed", "a probability is not finite"
    if np.abs(p.sum(axis=1) - 1.0).max() > 1e-12:
        return "failed", f"probabilities sum to 1 up to {np.abs(p.sum(axis=1) - 1.0).max():.2g}"
    return "probabilities", ""
