"""Fitted models, and rows that try everything an export must answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.codes.columns import NumericColumn
from tanager.errors import ColumnWarning
from tanager.network import Network
from tanager.parameters import Discriminative, GroupedTable, Tables
from tanager.structure import KDB
from tests.keel import read_keel

TABLES = (
    *("breast", "contraceptive", "crx", "german", "hayes-roth", "housevotes"),
    *("iris", "led7digit", "pima", "saheart", "tae", "wine"),
)
STRUCTURES = {"naive": "naive", "tan": "tan", "2-tree": KDB(k=2, moral=True, adjusted=False)}
PARAMETERS = {"hdp": "hdp", "scores": Discriminative("direct", l2=5.0, tol=1e-3)}
COMBINATIONS = [(s, p) for s in STRUCTURES for p in PARAMETERS]
FIT_ROWS = 150

# Names and labels that try to break out of any quotes, comments and tags.
NASTY = (
    "plain",
    "it's",
    'say "so"',
    "back\\slash",
    "new\nline\r\ttab",
    "emoji 🦜 ünï",
    "'; DROP TABLE rows; --",
    "</script><script>alert(1)</script>",
    "*/ #error \\",
    "${x} `tick` %s {0} $1 :name ?",
    "??/ trigraph",
    "-- comment /* open",
)


@dataclass(frozen=True)
class Case:
    """A network, rows to score, and what it says of them."""

    name: str
    network: Network
    rows: pa.Table
    expected: np.ndarray  # (n_rows, n_classes)


@cache
def keel_cases(structure: str, parameters: str) -> list[Case]:
    """Return one case a table; cached for all tests of a session."""
    return [_keel_case(name, structure, parameters) for name in TABLES]


def _keel_case(name: str, structure: str, parameters: str) -> Case:
    table, y = read_keel(name)
    rng = np.random.default_rng(len(name) + TABLES.index(name))
    chosen = rng.permutation(table.num_rows)[:FIT_ROWS]
    train, labels = table.take(chosen), y[chosen]
    at = TABLES.index(name)
    if at % 2:  # some networks know a code for missing, or sum it out by policy
        train = punch(train, 0.1, rng)
    missing = "marginalize" if at % 4 == 3 else "value"
    given = STRUCTURES[structure], PARAMETERS[parameters]
    model = BayesNetClassifier(*given, missing=missing, random_state=1, n_jobs=1)
    network = model.fit(train, labels).network_
    return make_case(f"{name} {structure} {parameters}", network, table.slice(0, 400), rng)


def make_case(
    name: str,
    network: Network,
    table: pa.Table,
    rng: np.random.Generator,
    oracle: Network | None = None,
) -> Case:
    """Return the network with complete rows, gaps, unseen, extreme and borderline values.

    What is expected is said by the network, or by an oracle.
    """
    table = table.take(rng.permutation(table.num_rows)[:24])
    parts = [
        table,
        punch(table, 0.2, rng),
        punch(table.slice(0, 4), 0.7, rng),
        punch(table.slice(0, 1), 1.0, rng),
        _unseen(table.slice(0, 6), rng),
        _on_cuts(network, table.slice(0, 12), rng),
    ]
    rows = pa.concat_tables(parts).combine_chunks()
    log_joint = (oracle or network).log_joint(rows)
    weights = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    return Case(name, network, rows, weights / weights.sum(axis=1, keepdims=True))


def punch(table: pa.Table, share: float, rng: np.random.Generator) -> pa.Table:
    """Return the table with that share of its cells missing: null, and NaN in every other row."""
    columns = []
    for column in table.columns:
        holes = rng.random(len(column)) < share
        cells = column.to_pylist()
        nan = pa.types.is_floating(column.type)
        for row in np.flatnonzero(holes):
            cells[row] = float("nan") if nan and row % 2 else None
        columns.append(pa.array(cells, column.type))
    return pa.table(columns, schema=table.schema)


def _unseen(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    extremes = [1.7e308, -1.7e308, 5e-324, 0.0, -1e15, 1e15]
    columns = []
    for column in table.columns:
        cells = column.to_pylist()
        for row in range(len(cells)):
            if rng.random() < 0.5 and pa.types.is_floating(column.type):
                cells[row] = extremes[row % 6]
            elif rng.random() < 0.5 and pa.types.is_string(column.type):
                cells[row] = f"never seen {row}'\""
        columns.append(pa.array(cells, column.type))
    return pa.table(columns, schema=table.schema)


def _on_cuts(network: Network, table: pa.Table, rng: np.random.Generator) -> pa.Table:
    columns = []
    for known, column in zip(network.codebook.columns, table.columns, strict=True):
        cells = column.to_pylist()
        if isinstance(known, NumericColumn) and len(known.cuts):
            for row in range(len(cells)):
                cut = float(rng.choice(known.cuts))
                cells[row] = [cut, float(np.nextafter(cut, np.inf)), cells[row]][row % 3]
        columns.append(pa.array(cells, column.type))
    return pa.table(columns, schema=table.schema)


@cache
def nasty_case() -> Case:
    """Return a case whose names, values and classes try to break out."""
    rng = np.random.default_rng(5)
    n = 240
    y = rng.integers(0, len(NASTY), n)
    columns = {}
    for at, name in enumerate(NASTY):
        values = (at + y % 3 + rng.integers(0, 2, n)) % len(NASTY)
        columns[name] = pa.array([NASTY[v] if rng.random() > 0.1 else None for v in values])
    table = pa.table(columns)
    labels = np.array(NASTY, dtype=object)[y]
    network = BayesNetClassifier("tan", "hdp", random_state=1).fit(table, labels).network_
    return make_case("nasty", network, table, rng)


@cache
def typed_case() -> Case:
    """Return a case with integers and booleans as categories, some in an order of their own."""
    rng = np.random.default_rng(6)
    n = 200
    y = rng.integers(0, 2, n)
    table = pa.table(
        {
            "count": pa.array(rng.poisson(2 + y), pa.int64()),
            "flag": pa.array(rng.random(n) < 0.3 + 0.4 * y),
            "real": pa.array(rng.choice([0.1, 0.25, 1 / 3], n)),
            "empty": pa.array([""] * n),
            "size": pa.array(rng.normal(size=n) + y),
            "grade": pa.array(rng.choice(["low", "mid", "high"], n)),
        }
    )
    model = BayesNetClassifier(
        "tan",
        "hdp",
        categorical_features=["count", "flag", "real", "empty"],
        ordered={
            "count": list(range(40, -1, -1)),
            "real": [1 / 3, 0.1, 0.25],
            "grade": ["low", "mid", "high"],
        },
        random_state=1,
    )
    network = model.fit(table, y).network_
    rows = pa.table(
        {
            "count": pa.array([0, 3, 77, None, 2**40, -1], pa.int64()),
            "flag": pa.array([True, False, None, True, None, False]),
            "real": pa.array([0.1, 0.2, 1 / 3, None, 0.25, float("nan")]),
            "empty": pa.array(["", None, "x", "", None, ""]),
            "size": pa.array([0.0, 1.5, None, -3.0, float("nan"), 1e300]),
            "grade": pa.array(["low", "mid", "high", "higher", None, "mid"]),
        }
    )
    return make_case("typed", network, rows, rng)


@cache
def grouped_case(structure: str) -> Case:
    """Return a case whose tables know values by groups, each table in its own way.

    What is expected is said by the same network with every table spelled out.
    """
    case = keel_cases(structure, "hdp")[TABLES.index("german")]
    network, rng = case.network, np.random.default_rng(8)
    families = []
    for at, (parents, table) in enumerate(
        zip(network.structure.parent_indices, network.tables.families, strict=True)
    ):
        log_prob, groups = table.to_dense().log_prob, []
        for axis in range(len(parents)):
            groups.append(_random_groups(log_prob.shape[axis], axis, rng))
            log_prob = np.take(log_prob, range(int(groups[-1].max()) + 1), axis=axis)
        arity = log_prob.shape[-2]
        own = _random_groups(arity, 0, rng) if at % 3 else np.arange(arity, dtype=np.uint16)
        members = own == np.arange(int(own.max()) + 1)[:, None]
        log_group = np.log(members.astype(float) @ np.exp(log_prob))
        first = log_prob[(0,) * len(parents)]
        log_within = first - log_group[(0,) * len(parents)][own]
        families.append(
            GroupedTable.of_groups(np.ascontiguousarray(log_group), log_within, [*groups, own])
        )
    grouped, spelled = (
        Network(network.codebook, network.structure, Tables(network.log_prior, tuple(tables)))
        for tables in (families, [family.to_dense() for family in families])
    )
    return make_case(f"grouped {structure}", grouped, case.rows, rng, oracle=spelled)


def _random_groups(arity: int, axis: int, rng: np.random.Generator) -> np.ndarray:
    """Return fewer groups than values, of neighbours on the first axis."""
    n_groups = max(1, arity - 1 - axis)
    some = np.sort(np.r_[np.arange(n_groups), rng.integers(0, n_groups, arity - n_groups)])
    return (rng.permutation(some) if axis else some).astype(np.uint16)


@cache
def fine_case() -> Case:
    """Return the default's model of so many rows that numbers have hundreds of codes."""
    rng = np.random.default_rng(9)
    n = 5000
    y = rng.integers(0, 3, n)
    size = rng.normal(size=n) + 0.6 * y
    weight = size + rng.normal(size=n) * (1 + (y == 1))
    age = np.where(rng.random(n) < 0.1, np.nan, rng.gamma(3, size=n) - 0.4 * y * size)
    words = np.array(["red", "green", "blue", "grey"])
    table = pa.table(
        {
            "size": size,
            "weight": weight,
            "age": pa.array(age, from_pandas=True),
            "colour": words[np.clip(weight + 2, 0, 3).astype(int)],
            "speed": rng.normal(size=n) + size * weight / 2,
        }
    )
    network = BayesNetClassifier(random_state=1, n_jobs=1).fit(table, y).network_
    assert network.codebook.domain.arities.max() > 200
    assert any(isinstance(family, GroupedTable) for family in network.tables.families)
    return make_case("fine", network, table, rng)


@cache
def pooled_case() -> Case:
    """Return a case with columns of more values than codes, whose rarest share one."""
    rng = np.random.default_rng(8)
    n = 400
    towns = np.minimum(rng.geometric(0.15, n), 30)
    y = (towns + rng.integers(0, 6, n) > 8).astype(int)
    columns = {
        "town": pa.array([NASTY[t] if t < len(NASTY) else f"town {t}" for t in towns]),
        "shop": pa.array([f"{t} or so" if rng.random() > 0.1 else None for t in towns]),
        "x": pa.array(rng.normal(size=n) + y),
    }
    table = pa.table(columns)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("seeing", "learning"):
            patch.setattr(f"tanager.codes.{module}.MAX_ARITY", 9)
        with pytest.warns(ColumnWarning, match="share one code"):
            network = BayesNetClassifier("tan", "hdp", audit=False).fit(table, y).network_
    assert all(column.other_code is not None for column in network.codebook.columns[:2])
    return make_case("pooled", network, table, rng)


def all_cases(structure: str, parameters: str) -> list[Case]:
    """Return the cases of a pair of learners, and with HDP tables odd ones too."""
    odd = []
    if (structure, parameters) == ("tan", "hdp"):
        odd = [nasty_case(), typed_case(), pooled_case()]
    if structure != "naive" and parameters == "hdp":
        odd.append(grouped_case(structure))
    if (structure, parameters) == ("2-tree", "scores"):
        odd.append(fine_case())
    return [*keel_cases(structure, parameters), *odd]


def check(case: Case, got: np.ndarray, tolerance: float = 1e-9) -> None:
    """Compare with the network's own probabilities."""
    assert got.shape == case.expected.shape, case.name
    worst = np.abs(got - case.expected).max()
    assert worst <= tolerance, f"{case.name}: {worst} from the library"
