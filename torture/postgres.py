"""Exported SQL on a PostgreSQL server of its own: the probabilities of `predict_proba`."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from torture.campaign import Budget, Tally
from torture.names import hostile_names

__all__ = ["PostgresMissingError", "postgres_exports", "running_postgres"]

PAIRS = (
    ("naive", "laplace"),
    ("tan", "hdp"),
    ("kdb", "m-estimate"),
    ("auto", "layered"),
    ("skdb", "hdp"),
    ("naive", "discriminative"),
)
N_ROWS = 120
TOLERANCE = 1e-9
KEY = "key of the row"


class PostgresMissingError(Exception):
    """No server can be started here, and why."""


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start a server on loopback, also as root; give its URL, and stop it."""
    if find_spec("adbc_driver_postgresql") is None:
        raise PostgresMissingError("adbc_driver_postgresql isn't installed")
    found = [shutil.which("pg_ctl"), *map(str, Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))]
    control = next((Path(path).resolve() for path in found if path), None)
    if control is None:
        raise PostgresMissingError("no PostgreSQL server is installed")
    prefix: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        if shutil.which("runuser") is None or "postgres" not in Path("/etc/passwd").read_text():
            raise PostgresMissingError(
                "PostgreSQL doesn't run as root, and there's no user postgres"
            )
        prefix = ["runuser", "-u", "postgres", "--"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # In a folder that another user may enter.
    with tempfile.TemporaryDirectory(prefix="tanager-postgres-", dir="/tmp") as folder:
        if prefix:
            shutil.chown(folder, "postgres")

        def run(program: str, *arguments: str) -> None:
            whole = [*prefix, str(control.with_name(program)), "-D", f"{folder}/data", *arguments]
            subprocess.run(whole, check=True, cwd=folder, stdout=subprocess.DEVNULL)

        run("initdb", "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8")
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        run("pg_ctl", "-o", options, "-l", f"{folder}/log", "-w", "start")
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")


def postgres_exports(budget: Budget, tally: Tally, folder: Path) -> None:  # noqa: ARG001
    """Fit tables of any types and names, and let the server compute their probabilities."""
    warnings.simplefilter("ignore")
    try:
        with running_postgres() as url:
            while budget.more():
                _try(url, budget, tally)
    except PostgresMissingError as missing:
        tally.facts["not tried"] = str(missing)


def _try(url: str, budget: Budget, tally: Tally) -> None:
    from tanager import BayesNetClassifier
    from tanager.errors import TanagerError

    rng = random.Random(f"postgres-{budget.seed}-{budget.case}")
    table = _table(rng)
    names = table.column_names
    y = [rng.choice(["yes", "no", "may\nbe'"]) for _ in range(N_ROWS)]
    pair = rng.choice(PAIRS)
    options: dict[str, Any] = {"bins": rng.choice([3, 5]), "random_state": 0}
    if rng.random() < 0.4:
        options["categorical_features"] = rng.sample(names, rng.randint(1, len(names)))
    if rng.random() < 0.3 and pair[1] in ("laplace", "hdp"):
        options["missing"] = "marginalize"
    try:
        model = BayesNetClassifier(*pair, **options).fit(table, y)
        statement = model.network_.to_sql(table="rows", dialect="postgres", keep=KEY)
    except TanagerError:
        tally.add("refused")
        return
    zone = rng.choice(["UTC", "America/New_York", "Asia/Kolkata"])
    what = {"seed": budget.seed, "case": budget.case, "pair": "/".join(pair), "options": options}
    try:
        found = _computed(url, table, statement, zone, len(model.classes_))
    except Exception as error:
        tally.fail(f"{type(error).__name__}: {error}"[:400], **what)
        return
    gap = float(np.abs(found - model.predict_proba(table)).max())
    tally.check(gap <= TOLERANCE, f"probabilities differ by {gap:.2g}", **what)


def _computed(url: str, table: pa.Table, statement: str, zone: str, n_classes: int) -> Any:
    """Return what the server computes of the rows, in a session of some time zone."""
    from adbc_driver_postgresql import dbapi

    rows = table.append_column(KEY, pa.array(range(table.num_rows), pa.int64()))
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET TIME ZONE '{zone}'")
        cursor.adbc_ingest("rows", rows, mode="create", temporary=True)
        cursor.execute(statement)
        out = cursor.fetch_arrow_table().sort_by(KEY)
    chances = [name for name in out.column_names if name.startswith("p_")][-n_classes:]
    return np.column_stack([out[name].to_numpy() for name in chances])


def _table(rng: random.Random) -> pa.Table:
    """Return a few columns, each of another type, under hostile names."""
    makers = rng.sample(_MAKERS, rng.randint(2, 5))
    names = [name.replace("\0", "") or "x" for name in hostile_names(rng, len(makers))]
    names = [f"{name[:20]}{at}" for at, name in enumerate(names)]
    return pa.table(dict(zip(names, (make(rng) for make in makers), strict=True)))


def _gaps(rng: random.Random, values: list[Any]) -> list[Any]:
    share = rng.choice([0.0, 0.0, 0.2])
    return [None if rng.random() < share else value for value in values]


def _numbers(rng: random.Random) -> pa.Array:
    scale = rng.choice([1e-200, 1e-3, 1.0, 1e9, 1e200])
    return pa.array(_gaps(rng, [rng.gauss(0, 1) * scale for _ in range(N_ROWS)]), pa.float64())


def _single(rng: random.Random) -> pa.Array:
    return pa.array(_gaps(rng, [rng.gauss(0, 1) for _ in range(N_ROWS)]), pa.float32())


def _whole(rng: random.Random) -> pa.Array:
    start = rng.choice([0, -5, 2**53, -(2**62)])
    return pa.array(_gaps(rng, [start + rng.randint(0, 6) for _ in range(N_ROWS)]), pa.int64())


def _flags(rng: random.Random) -> pa.Array:
    return pa.array(_gaps(rng, [rng.random() < 0.5 for _ in range(N_ROWS)]))


def _words(rng: random.Random) -> pa.Array:
    words = [name.replace("\0", "") for name in hostile_names(rng, 5)]
    return pa.array(_gaps(rng, [rng.choice(words) for _ in range(N_ROWS)]))


def _number_texts(rng: random.Random) -> pa.Array:
    style = rng.choice(["{:.2f}", "{:,.2f}", "{:.3e}", " {:.1f} "])
    return pa.array(_gaps(rng, [style.format(rng.gauss(5, 2_000)) for _ in range(N_ROWS)]))


def _date_texts(rng: random.Random) -> pa.Array:
    style = rng.choice(["2024-{m:02}-{d:02}", "{d:02}.{m:02}.2024", "{m:02}/{d:02}/2024"])
    days = [style.format(m=rng.randint(1, 12), d=rng.randint(1, 28)) for _ in range(N_ROWS)]
    return pa.array(_gaps(rng, days))


def _instants(rng: random.Random) -> pa.Array:
    zone = rng.choice([None, "UTC", "Europe/Berlin"])
    start, step = rng.choice([(1_700_000_000_000_000, 1), (0, 3_600_000_000), (-(10**15), 10**11)])
    cells = [start + step * rng.randint(0, 9) for _ in range(N_ROWS)]
    return pa.array(_gaps(rng, cells), pa.timestamp("us", zone))


def _days(rng: random.Random) -> pa.Array:
    return pa.array(_gaps(rng, [rng.randint(-900, 20_000) for _ in range(N_ROWS)]), pa.date32())


_MAKERS = (
    *(_numbers, _single, _whole, _flags, _words),
    *(_number_texts, _date_texts, _instants, _days),
)
