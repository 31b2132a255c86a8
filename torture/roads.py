"""One answer by every road: how rows are dressed, in batches, copied, exported, resumed."""

from __future__ import annotations

import contextlib
import copy
import pickle
import sqlite3
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from torture.campaign import Budget, Tally
from torture.dresses import dresses

__all__ = ["Table", "make_table", "roads"]

N_ROWS = 160
FEW = 20  # rows that are also predicted one by one, and three by three
SIZES = ["S", "M", "L"]
LEVELS = [2.5, 0.5, 1.5]
READ = {
    "categorical_features": ["word", "flag", "zip", "large"],
    "ordered": {"size": SIZES, "level": LEVELS},
    "random_state": 0,
}
MODELS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("auto", "layered", {}),
    ("auto", "layered", {"monotonic": {"real": 1, "size": 1}}),
    ("tan", "hdp", {"missing": "marginalize", "class_weight": "balanced"}),
    ("kdb(k=2)", "m-estimate", {}),
    ("naive", "discriminative(tol=0.01)", {"bins": 4}),
)


class Table(NamedTuple):
    """Rows of every kind of column, with labels and weights."""

    X: pa.Table
    y: Any
    weights: Any

    def whole(self) -> pa.Table:
        """Return one table with the target and the weights."""
        return self.X.append_column("y", pa.array(self.y)).append_column(
            "w", pa.array(self.weights)
        )


def make_table(seed: int, *, gaps: bool) -> Table:
    """Return words, numbers, dates and orders, and labels that need them."""
    rng, n = np.random.default_rng(seed), N_ROWS
    code = rng.integers(0, 4, n)
    columns = {
        "word": np.array(["x", "y", "zz", "w"])[code],
        "whole": rng.integers(-3, 9, n),
        "real": np.round(rng.normal(size=n) * 4) / 4 + code,
        "flag": rng.random(n) < 0.5,
        "zip": rng.choice([1001, 2002, 70003, 4], n),
        "large": rng.choice([2**53, 2**53 + 1, -(2**60), 7], n),
        "size": rng.choice(SIZES, n),
        "level": rng.choice(LEVELS, n),
        "day": np.datetime64("2020-01-01") + rng.integers(0, 900, n) * np.timedelta64(1, "D"),
    }
    score = code + 2 * (columns["zip"] == 4) + 2 * (columns["large"] == 2**53)
    score = score + (columns["size"] == "L") + 2 * (columns["level"] == 0.5) + columns["flag"]
    y = np.where(score + rng.normal(size=n) > 3.2, "yes", "no")
    arrays = {}
    for name, values in columns.items():
        # pandas would turn large integers with gaps into floats, and change them.
        holes = rng.random(n) < (0.1 if gaps and name != "large" else 0.0)
        arrays[name] = pa.array(values, mask=holes)
    return Table(pa.table(arrays), y, rng.choice([0.25, 1.0, 2.0, 3.5], n))


def roads(budget: Budget, tally: Tally, folder: Path) -> None:
    """Dresses, copies, exports, batches, checkpoints of other rows, a cluster."""
    whole = budget.cases > 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for gaps in (False, True) if whole else (True,):
            table = make_table(budget.seed, gaps=gaps)
            for structure, parameters, options in MODELS if whole else MODELS[:2]:
                what = f"{structure}/{parameters} {options or ''}".strip()
                model = _fit((structure, parameters), table, **options)
                _predictions(model, table, what, tally, folder)
                _copies(model, table, what, tally, folder)
                _exports(model, table, what, tally, whole=whole)
        table = make_table(budget.seed, gaps=True)
        _batches(table, tally, folder)
        _checkpoints(table, tally, folder / "state")
        if whole and find_spec("distributed") is not None:
            _cluster(table, tally, folder)


def _fit(pair: tuple[str, str], table: Table, X: Any = None, **options: Any) -> Any:
    from tanager import BayesNetClassifier

    model = BayesNetClassifier(*pair, **READ, **options)
    if X is not None:  # a table that holds its own labels and weights
        return model.fit(X, "y", sample_weight="w")
    return model.fit(table.X, table.y, sample_weight=table.weights)


def _equal(found: Any, expected: Any, what: str, tally: Tally, within: float = 0.0) -> None:
    same = found.shape == expected.shape
    moved = float(np.abs(found - expected).max()) if same else np.inf
    tally.check(moved <= within, f"{what}: differs by {moved:.2g}")


def _predictions(model: Any, table: Table, what: str, tally: Tally, folder: Path) -> None:
    """Predict the same rows in other types, orders and files, many or few at a time."""
    from tanager.errors import TanagerError

    expected = model.predict_proba(table.X)
    for name, dressed in dresses(table.X, folder):
        try:
            found = model.predict_proba(dressed)
            few = {n: [model.predict_proba(part) for part in _parts(dressed, n)] for n in (1, 3)}
        except TanagerError as error:
            tally.fail(f"{what}: rows as {name} are refused: {error}")
            continue
        _equal(found, expected, f"{what}: rows as {name}", tally)
        for n, parts in few.items():
            if parts:
                known = expected[: sum(map(len, parts))]
                _equal(np.concatenate(parts), known, f"{what}: {n} rows as {name}", tally)


def _parts(dressed: Any, step: int) -> Iterator[Any]:
    for low in range(0, FEW, step):
        if isinstance(dressed, pa.Table):
            yield dressed.slice(low, step)
        elif isinstance(dressed, list):
            yield dressed[low : low + step]
        elif hasattr(dressed, "iloc"):
            yield dressed.iloc[low : low + step]


def _copies(model: Any, table: Table, what: str, tally: Tally, folder: Path) -> None:
    """Files, pickles, clones; and fits from a file, with rows kept in a file."""
    from sklearn.base import clone

    import tanager

    expected = model.predict_proba(table.X)
    tanager.save(model, folder / "m.tanager")
    loaded = tanager.load(folder / "m.tanager")
    options = {k: v for k, v in model.get_params(deep=False).items() if k not in READ}
    pair = options.pop("structure"), options.pop("parameters")
    small = _fit(pair, table, table.whole(), **{**options, "memory_limit": 1})
    copies = {
        "a model file": loaded,
        "a pickle": pickle.loads(pickle.dumps(model)),
        "a copy": copy.deepcopy(model),
        "a clone, fitted": clone(model).fit(table.X, table.y, sample_weight=table.weights),
        "a clone of what was loaded": clone(loaded).fit(
            table.X, table.y, sample_weight=table.weights
        ),
        "labels and weights by name, rows in a file": small,
    }
    for name, other in copies.items():
        _equal(other.predict_proba(table.X), expected, f"{what}: {name}", tally)
    split = model.network_.log_terms(model.network_.codebook.encode(table.X)).sum(
        axis=1
    ) - model.predict_joint_log_proba(table.X)
    _equal(split, np.broadcast_to(split[0], split.shape), f"{what}: explained", tally, 1e-12)


def _exports(model: Any, table: Table, what: str, tally: Tally, *, whole: bool) -> None:
    """Score by SQL in SQLite, with the model and with one edited by hand.

    A short run scores with one of the two: SQLite takes seconds to read such a statement.
    """
    from tanager.errors import ConfigurationError, MemoryBoundError

    networks = {"exported": model.network_}
    try:
        networks["edited, then exported"] = model.network_.edit("word", neutralise=True, reason="-")
    except ConfigurationError as error:
        tally.facts.setdefault("models that cannot be edited", {})[what] = str(error)
    if not whole and "monotonic" in what:
        networks.pop("edited, then exported", None)
    elif not whole and len(networks) > 1:
        networks.pop("exported")
    day = table.X["day"].cast(pa.timestamp("s"))
    plain = table.X.set_column(table.X.column_names.index("day"), "day", day)
    for name, network in networks.items():
        try:
            statement = network.to_sql(table="rows", dialect="sqlite", keep=["key"])
        except (ConfigurationError, MemoryBoundError) as error:
            tally.facts.setdefault("models without SQL", {})[what] = str(error)
            continue
        joint = network.log_joint(plain)
        expected = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
        _equal(_in_sqlite(statement, plain), expected, f"{what}: {name}", tally, 1e-9)


def _in_sqlite(statement: str, table: pa.Table) -> Any:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        names = [*table.column_names, "key"]
        connection.execute(f"CREATE TABLE rows ({', '.join(names)})")
        marks = ", ".join("?" * len(names))
        for at, row in enumerate(table.to_pylist()):
            connection.execute(f"INSERT INTO rows VALUES ({marks})", [*_cells(row.values()), at])
        return np.array(sorted(connection.execute(statement).fetchall()), float)[:, 1:]


def _cells(values: Any) -> list[Any]:
    """Return cells as SQLite holds them: an instant as text."""
    return [str(value) if hasattr(value, "isoformat") else value for value in values]


def _batches(table: Table, tally: Tally, folder: Path) -> None:
    """Rows added by partial_fit: in any batches, from a file, with columns in any order."""
    import pyarrow.parquet as pq

    pq.write_table(table.whole(), folder / "more.parquet", row_group_size=30)
    for parameters in ("laplace", "m-estimate(m=1)", "hdp", "ml"):
        pair = ("kdb(k=2)", parameters)
        once, parts, file, twice = (_fit(pair, table) for _ in range(4))
        once.partial_fit(table.X, table.y, sample_weight=table.weights)
        for low in range(0, N_ROWS, 50):
            part = slice(low, low + 50)
            parts.partial_fit(
                table.X.slice(low, 50), table.y[part], sample_weight=table.weights[part]
            )
        file.partial_fit(str(folder / "more.parquet"), "y", sample_weight="w")
        turned = table.X.select(table.X.column_names[::-1])
        twice.partial_fit(turned, table.y, sample_weight=table.weights)
        expected = once.predict_proba(table.X)
        for name, other in {"batches": parts, "a file": file, "turned columns": twice}.items():
            _equal(other.predict_proba(table.X), expected, f"{parameters}: added by {name}", tally)


def _checkpoints(table: Table, tally: Tally, folder: Path) -> None:
    """Kill a fit and begin it again with other rows: refused, or the model of those."""
    from tanager.classifiers import checkpoints
    from tanager.errors import ConfigurationError

    rng = np.random.default_rng(0)
    order = rng.permutation(N_ROWS)
    word = np.array(table.X["word"].to_pylist(), dtype=object)
    for label in ("no", "yes"):  # every count of a feature and the class stays
        places = np.flatnonzero((table.y == label) & (table.weights == 1.0))
        word[places] = word[rng.permutation(places)]
    others = {
        "the same rows": table,
        "rows that differ in pairs": table._replace(
            X=table.X.set_column(0, "word", pa.array(word.tolist()))
        ),
        "another order": Table(table.X.take(order), table.y[order], table.weights[order]),
        "other weights": table._replace(weights=table.weights[order]),
    }
    pairs = (("tan", "discriminative(tol=0.01)"), ("auto", "layered(max_iter=3)"))
    seconds, checkpoints.SECONDS = checkpoints.SECONDS, 0.0  # writes after every pass
    for pair in pairs:
        for name, other in others.items():
            expected = _fit(pair, other).predict_proba(other.X)
            for last in (5, 8):
                with contextlib.suppress(_Killed):
                    _fit(pair, table, checkpoint=folder, engine=_mortal(last))
                what = f"{pair[1]}: resumed with {name} after {last} passes"
                try:
                    found = _fit(pair, other, checkpoint=folder).predict_proba(other.X)
                    _equal(found, expected, what, tally)
                except ConfigurationError:
                    tally.check(name != "the same rows", f"{what}: refused")
                for path in folder.iterdir():
                    path.unlink()
    checkpoints.SECONDS = seconds


class _Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def _mortal(last: int) -> Any:
    from tanager.engines import LocalEngine

    class Mortal(LocalEngine):
        def run(self, *arguments: Any) -> Any:
            if self.n_passes >= last:
                raise _Killed
            return super().run(*arguments)

    return Mortal(1)


def _cluster(table: Table, tally: Tally, folder: Path) -> None:
    """Weights, orders and signs on a Dask cluster, from several files."""
    import pyarrow.parquet as pq
    from distributed import Client, LocalCluster

    place = folder / "parts"
    place.mkdir()
    for low in range(0, N_ROWS, 50):
        pq.write_table(table.whole().slice(low, 50), place / f"{low:03}.parquet")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        LocalCluster(**options, silence_logs=50, local_directory=str(folder)) as cluster,
        Client(cluster) as client,
    ):
        for structure, parameters, chosen in MODELS:
            pair = (structure, parameters)
            expected = _fit(pair, table, **chosen).predict_proba(table.X)
            found = _fit(pair, table, str(place), engine=client, **chosen)
            what = f"{structure}/{parameters} {chosen or ''}: on a cluster"
            _equal(found.predict_proba(table.X), expected, what, tally)
