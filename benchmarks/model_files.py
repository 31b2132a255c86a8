"""Ten thousand damaged and forged model files: none hangs, crashes or eats memory.

Half are damaged at random; they must load to the same predictions or give a
`ModelFileError`. Half are forged: content changed, then signed with a valid
checksum; they must give the error, or answer with probabilities.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.network.fuzzing import damage, forge

import tanager
from benchmarks.measuring import markdown, publish
from tanager.errors import ModelFileError, TanagerError
from tanager.parameters import MEstimate
from tanager.structure import KDB

VARIANTS = int(os.environ.get("VARIANTS", 10_000))


def example() -> tuple[tanager.BayesNetClassifier, pa.Table]:
    """Fit a model with dense families and families as trees."""
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 30, (400, 5))
    columns = {f"x{i}": [f"v{v}" if v else None for v in codes[:, i]] for i in range(3)}
    table = pa.table({**columns, "x3": codes[:, 3].astype(float), "x4": codes[:, 4] % 2 == 0})
    y = np.where(codes[:, 0] + codes[:, 3] > 30, "yes", "no")
    return tanager.BayesNetClassifier(KDB(k=2), MEstimate(m=1.0)).fit(table, y), table.slice(0, 20)


def main() -> None:
    clf, rows = example()
    expected = clf.predict_proba(rows)
    rng = random.Random(0)
    outcome: Counter[str] = Counter()
    slowest = largest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.tanager"
        tanager.save(clf, path)
        data = path.read_bytes()
        for at in range(VARIANTS):
            how = damage if at % 2 else forge
            path.write_bytes(how(data, rng))
            traced = at % 20 < 2  # tracing memory is slow
            if traced:
                tracemalloc.start()
            start = time.process_time()
            outcome[f"{how.__name__}d: {attempt(path, rows, expected, how)}"] += 1
            if traced:
                largest = max(largest, tracemalloc.get_traced_memory()[1] / len(data))
                tracemalloc.stop()
            else:
                slowest = max(slowest, time.process_time() - start)
    table = [[what, f"{n:,}"] for what, n in sorted(outcome.items())]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    text = (
        f"{VARIANTS:,} variants of a model file of {len(data) / 1000:.0f} kB, from seed 0.\n\n"
        + markdown(["outcome", "files"], table)
        + f"\n\nSlowest: {slowest * 1000:.0f} ms CPU to load and predict. Most memory while doing "
        f"so: {largest:.1f} times the file's size. Peak of the whole run: {peak:.0f} MB."
    )
    publish("model_files", "Damaged and forged model files", text)


def attempt(path: Path, rows: pa.Table, expected: np.ndarray, how: object) -> str:
    """Load a variant and say how it went; anything unforeseen is an exception."""
    try:
        loaded = tanager.load(path)
    except ModelFileError:
        return "ModelFileError"
    try:
        answers = loaded.predict_proba(rows)
    except TanagerError:
        return "loads; the table does not fit it"
    if how is damage:
        if not np.array_equal(answers, expected):
            raise AssertionError("a damaged file gave other predictions")
        return "loads, same predictions"
    if not np.allclose(answers.sum(axis=1), 1):
        raise AssertionError("a forged file gave no probabilities")
    return "loads, answers with probabilities"


if __name__ == "__main__":
    main()
