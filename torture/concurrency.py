"""Many threads and processes at once: the same answers as alone, or a clear refusal."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from torture.campaign import ROOT, Budget, Tally

__all__ = ["concurrency"]


def data(seed: int, n: int = 600) -> tuple[Any, Any]:
    """Return words and labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = np.array(["a", "b", "c"])[rng.integers(0, 3, (n, 5))]
    return X, (X[:, 0] == X[:, 1]).astype(int) ^ (rng.random(n) < 0.1)


def concurrency(budget: Budget, tally: Tally, folder: Path) -> None:
    """Threads, forks, joblib, one run file for two, one checkpoint for three."""
    from tanager import BayesNetClassifier

    X, y = data(budget.seed)
    model = BayesNetClassifier("kdb", "hdp").fit(X, y)
    expected = model.predict_proba(X)
    _threads_predict(model, X, expected, tally)
    _threads_read_anew(folder, tally)
    _threads_fit(X, y, tally)
    _fork_after_fit(model, X, expected, tally)
    _joblib(X, y, tally)
    _two_compare(folder, tally)
    _two_checkpoints(folder, tally)


def _threads_predict(model: Any, X: Any, expected: Any, tally: Tally) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: model.predict_proba(X), range(64)))
    for p in found:
        tally.check(np.array_equal(p, expected), "predictions of 16 threads differ")


def _threads_read_anew(folder: Path, tally: Tally) -> None:
    """Give a model just loaded its first rows from 16 threads at once."""
    import tanager
    from tanager import BayesNetClassifier
    from torture.fine import make_rows

    rows = make_rows(3)
    X = rows.X.slice(0, 300)
    model = BayesNetClassifier(random_state=0, missing="marginalize").fit(rows.X, rows.y)
    expected = model.predict_proba(X)
    tanager.save(model, folder / "fresh.tanager")
    for _ in range(4):
        fresh = tanager.load(folder / "fresh.tanager")
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda _, one=fresh: one.predict_proba(X), range(16)))
        good = all(np.array_equal(p, expected) for p in found)
        tally.check(good, "first predictions of a loaded model from 16 threads differ")


def _threads_fit(X: Any, y: Any, tally: Tally) -> None:
    from tanager import BayesNetClassifier

    pairs = [("tan", "laplace"), ("kdb", "hdp"), ("naive", "discriminative"), ("auto", "layered")]

    def fit(pair: tuple[str, str]) -> Any:
        return BayesNetClassifier(*pair, random_state=0, n_jobs=2).fit(X, y).predict_proba(X)

    alone = {pair: fit(pair) for pair in pairs}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(fit, pairs * 4))
    for pair, p in zip(pairs * 4, found, strict=True):
        tally.check(np.array_equal(p, alone[pair]), f"{pair}: eight fits at once differ")


def _fork_after_fit(model: Any, X: Any, expected: Any, tally: Tally) -> None:
    if not hasattr(os, "fork"):
        return
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if np.array_equal(model.predict_proba(X), expected) else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
        tally.check(status == 0, "a forked process predicts otherwise", status=status)


def _joblib(X: Any, y: Any, tally: Tally) -> None:
    from sklearn.model_selection import cross_val_score

    from tanager import BayesNetClassifier

    clf = BayesNetClassifier("tan", "hdp", random_state=0)
    alone = cross_val_score(clf, X, y, scoring="neg_log_loss", cv=4)
    together = cross_val_score(clf, X, y, scoring="neg_log_loss", cv=4, n_jobs=2)
    tally.check(np.array_equal(alone, together), "joblib's processes score otherwise")


_CHECKPOINT = """
import sys; sys.path.insert(0, {root!r})
from torture.concurrency import data
from tanager import BayesNetClassifier
from tanager.classifiers import checkpoints
from tanager.errors import TanagerError
import hashlib
checkpoints.SECONDS = 0.0
X, y = data(3)
clf = BayesNetClassifier("tan", "discriminative(tol=0.001)", checkpoint={path!r})
try:
    print(hashlib.sha256(clf.fit(X, y).predict_proba(X).tobytes()).hexdigest())
except TanagerError:
    print("refused")
"""


def _two_checkpoints(folder: Path, tally: Tally) -> None:
    """Two fits with one checkpoint: the same model, or a refusal; and nothing is left."""
    from tanager import BayesNetClassifier

    clf = BayesNetClassifier("tan", "discriminative(tol=0.001)").fit(*data(3))
    right = hashlib.sha256(clf.predict_proba(data(3)[0]).tobytes()).hexdigest()
    state = folder / "state"
    command = [sys.executable, "-c", _CHECKPOINT.format(root=str(ROOT), path=str(state))]
    for _ in range(2):
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        said = [process.communicate()[0].strip() for process in running]
        tally.check(set(said) <= {right, "refused"} and right in said, "fits of one checkpoint",
                    said=said)  # fmt: skip
        if said.count(right) == len(said):
            left = [path.name for path in state.iterdir()]
            tally.check(not left, "fits of one checkpoint leave files", left=left)


_COMPARE = """
import sys; sys.path.insert(0, {root!r})
from torture.concurrency import data
import pyarrow as pa
from tanager.errors import DataError
from tanager.evaluation import CrossValidation, Dataset, Experiment
X, y = data(3)
table = pa.table({{**{{f"x{{i}}": X[:, i] for i in range(5)}}, "class": y}})
experiment = Experiment([Dataset("d", table)], ["naive/laplace"], CrossValidation(20, 2))
try:
    experiment.run({path!r})
    print("ran")
except DataError as error:
    print("refused" if "another run" in str(error) else error)
"""


def _two_compare(folder: Path, tally: Tally) -> None:
    """Two comparisons on one run file: one runs, the other is refused or runs after it."""
    from tanager.evaluation import Results

    path = folder / "run.jsonl"
    command = [sys.executable, "-c", _COMPARE.format(root=str(ROOT), path=str(path))]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate()[0].strip() for process in running)
    tally.check(said in (["ran", "refused"], ["ran", "ran"]), "two runs on one file", said=said)
    records = Results.read(path).records
    places = {(r["round"], r["fold"]) for r in records}
    tally.check(len(records) == len(places) == 40, "the run file has cells twice or not at all")
