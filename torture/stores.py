"""Object stores on a bad network, and kills meanwhile: results as ever, objects whole or absent."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from torture.campaign import Budget, Tally
from torture.concurrency import data
from torture.store import Faults, Store

__all__ = ["stores"]

TABLE, SCORED = "s3://bucket/table.parquet", "s3://bucket/scored.parquet"
NETWORKS = {
    "a good network": Faults(),
    "503": Faults(refuse=4),
    "cut connections": Faults(cut=4),
    "both": Faults(refuse=5, cut=3),
    "a slow network": Faults(delay=0.05),
}


def stores(budget: Budget, tally: Tally, folder: Path) -> None:
    """Kill fits from S3 and predictions into it, at random moments and on bad networks.

    After each kill the work is done again on the same network, and must end as it would have.
    """
    with Store() as store:
        store.put("bucket/table.parquet", _table())
        works = [Fitting(store, folder), Predicting(store, folder)]
        while budget.more():
            rng = random.Random(f"store-{budget.seed}-{budget.case}")
            work = works[budget.case % len(works)]
            network = rng.choice(list(NETWORKS))
            store.faults = NETWORKS[network]
            died = work.killed_at(rng.randint(1, work.n_requests), rng.choice([0.0, 0.02, 0.1]))
            store.faults = Faults()
            problem = work.look(finished=not died)
            store.faults = NETWORKS[network]
            problem = problem or work.again()
            store.faults = Faults()
            if problem is None:
                tally.add(f"{work.name} over {network}, {'killed' if died else 'finished first'}")
            else:
                tally.fail(f"{work.name}: {problem}", seed=budget.seed, case=budget.case)
        tally.facts["answers that failed"] = store.n_faults


def _table() -> bytes:
    X, y = data(0)
    columns = {f"x{i}": X[:, i] for i in range(X.shape[1])}
    sink = io.BytesIO()
    pq.write_table(pa.table({**columns, "y": y}), sink, row_group_size=500)
    return sink.getvalue()


class _Work:
    """A command of the program, which ends in something that can be compared."""

    name: str
    command: list[str]

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.model = folder / "model.tanager"
        # Only what may be left of a killed command: nothing.
        self.room = folder / f"room of {self.name}"
        self.room.mkdir()
        self.run()
        self.remove()
        before = store.n_requests
        self.run()
        self.n_requests = store.n_requests - before
        self.wanted = self.result()
        self.remove()

    def result(self) -> Any:
        """Return what the work has made; None if that is not there."""
        raise NotImplementedError

    def remove(self) -> None:
        """Remove it."""
        raise NotImplementedError

    def run(self) -> None:
        """Do the work to its end."""
        done = subprocess.run(self._call(), env=self._env(), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[-500:])

    def killed_at(self, request: int, wait: float) -> bool:
        """Begin the work and kill it some time after a request; return whether it was at it."""
        last = self.store.n_requests + request
        process = subprocess.Popen(self._call(), env=self._env(), stdout=subprocess.DEVNULL)
        while process.poll() is None and self.store.n_requests < last:
            time.sleep(0.001)
        time.sleep(wait)
        process.kill()
        return process.wait() != 0

    def look(self, *, finished: bool) -> str | None:
        """Return what is wrong with what is there after a kill."""
        left = [path.name for path in self.room.iterdir()]
        if left:
            return f"temporary files are left: {left}"
        found = self.result()
        if found is None and not finished:
            return None
        return None if found == self.wanted else "what is there is not whole"

    def again(self) -> str | None:
        """Do the work once more; return what is wrong with its result."""
        if self.result() is not None:
            self.remove()
        try:
            self.run()
        except RuntimeError as error:
            return f"the next call fails: {error}"
        found = self.result()
        self.remove()
        return None if found == self.wanted else "the next call gives another result"

    def _call(self) -> list[str]:
        return [sys.executable, "-W", "ignore", "-m", "tanager", *self.command]

    def _env(self) -> dict[str, str]:
        return {**os.environ, **self.store.environment, "TMPDIR": str(self.room)}


class Fitting(_Work):
    """A fit whose rows come from a store."""

    name = "fitting"

    def __init__(self, store: Store, folder: Path) -> None:
        self.output = folder / "fitted" / "model.tanager"
        self.output.parent.mkdir()
        options = ("--structure", "kdb", "--parameters", "hdp", "-o", str(self.output))
        self.command = ["fit", TABLE, "--target", "y", *options]
        super().__init__(store, folder)
        self.model.write_bytes(self.wanted)

    def result(self) -> bytes | None:
        """Return the model file."""
        return self.output.read_bytes() if self.output.exists() else None

    def remove(self) -> None:
        """Remove the model file."""
        self.output.unlink()


class Predicting(_Work):
    """Predictions from a store into it."""

    name = "predicting"

    def __init__(self, store: Store, folder: Path) -> None:
        self.command = ["predict", str(folder / "model.tanager"), TABLE, "-o", SCORED]
        super().__init__(store, folder)

    def result(self) -> pa.Table | None:
        """Return the rows that were written."""
        if "bucket/scored.parquet" not in self.store.names("bucket"):
            return None
        return pq.read_table(io.BytesIO(self.store.get("bucket/scored.parquet")))

    def remove(self) -> None:
        """Remove the object."""
        self.store.delete("bucket/scored.parquet")
