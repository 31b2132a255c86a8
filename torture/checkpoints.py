"""Damaged checkpoints: refused, or the fit goes on to the model of an undisturbed one."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import warnings
import zipfile
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from torture.campaign import Budget, Tally
from torture.concurrency import data
from torture.model_mutations import damage

__all__ = ["checkpoints"]

PAIRS = (("tan", "discriminative(tol=0.01)"), ("kdb(k=2)", "discriminative(tol=0.01)"))


def checkpoints(budget: Budget, tally: Tally, folder: Path) -> None:
    """Change the files that a killed fit left, and begin it again."""
    from tanager.classifiers import checkpoints as written
    from tanager.errors import TanagerError

    warnings.simplefilter("ignore")
    written.SECONDS = 0.0  # after every pass
    states = [_killed(pair, folder / "killed") for pair in PAIRS]
    expected = [_fit(pair) for pair in PAIRS]
    while budget.more():
        rng = random.Random(f"checkpoint-{budget.seed}-{budget.case}")
        which = rng.choice([0, 0, 1])
        place, files = folder / "state", dict(states[which])
        name = rng.choice(sorted(files))
        files[name] = _bomb() if rng.random() < 0.02 else damage(files[name], rng)
        place.mkdir()
        for file, content in files.items():
            (place / file).write_bytes(content)
        what = {"file": name, "seed": budget.seed, "case": budget.case}
        try:
            found = _fit(PAIRS[which], place)
        except TanagerError:
            tally.add("refused")
        except Exception as error:
            tally.fail(f"{type(error).__name__}: {error}"[:300], **what)
        else:
            same = np.array_equal(found, expected[which])
            if same:
                tally.add("the same model")
            else:
                tally.fail("another model", **what)
        shutil.rmtree(place)


def _fit(pair: tuple[str, str], checkpoint: Path | None = None) -> Any:
    from tanager import BayesNetClassifier

    X, y = data(4, 200)
    clf = BayesNetClassifier(*pair, checkpoint=checkpoint, random_state=0).fit(X, y)
    return clf.predict_proba(X[:50])


class _Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def _killed(pair: tuple[str, str], place: Path) -> dict[str, bytes]:
    """Return the files that a fit leaves which is killed late."""
    from tanager.classifiers import checkpoints

    write, written = checkpoints.JournalEngine.write, []

    def write_and_die(self: Any) -> None:
        write(self)
        written.append(self)
        if len(written) == 6:
            raise _Killed

    with (
        mock.patch.object(checkpoints.JournalEngine, "write", write_and_die),
        contextlib.suppress(_Killed),
    ):
        _fit(pair, place)
    files = {path.name: path.read_bytes() for path in place.iterdir()}
    assert len(files) > 2, "the fit was not killed"
    shutil.rmtree(place)
    return files


@cache
def _bomb() -> bytes:
    """Return a small file of arrays that unpacks to 700 MB."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        packed.writestr("0|x|0.npy", b"\0" * (700 << 20))
    return sink.getvalue()
