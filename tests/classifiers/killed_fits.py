"""A program that fits with a checkpoint and is killed on the way, again and again.

    python -m tests.classifiers.killed_fits FOLDER SEED KILLS

It imports once and forks a process for every fit. Each is killed by SIGKILL when the
checkpoint has grown by a random number of files, or while it codes the rows. The last
one runs to its end. It prints as JSON how many kills hit a running fit, and whether the
last model equals that of an undisturbed fit, byte for byte.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import tanager
from tanager.classifiers import checkpoints
from tests.engines.test_processes import make_table

MODELS = [
    ("tan", "discriminative(tol=0.001)"),
    ("skdb(max_k=2)", "hdp"),
    ("tan", "hybrid(training__epochs=6)"),
]


def fit(model: tuple[str, str], out: Path, checkpoint: Path | None) -> None:
    """Fit and save, in a process that ends with it."""
    classifier = tanager.BayesNetClassifier(*model, checkpoint=checkpoint)
    tanager.save(classifier.fit(make_table(), "y", sample_weight="w"), out)


def start(*arguments: object) -> int:
    """Fork a process that fits; return its number."""
    number = os.fork()
    if number:
        return number
    try:
        fit(*arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def kill(number: int, folder: Path, draw: random.Random) -> bool:
    """Kill a process once it has written some files; return whether it was still running."""
    wanted = len(written(folder)) + draw.randrange(4)
    while len(written(folder)) < wanted:
        if os.waitpid(number, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    time.sleep(draw.uniform(0, 0.02))
    os.kill(number, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(number, 0)[1])


def written(folder: Path) -> set[str]:
    """Return the names of the checkpoint's files."""
    return {path.name for path in folder.glob("*")}


def main() -> None:
    """Fit undisturbed, then with kills, for every model."""
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    checkpoints.SECONDS = 0.0  # write after every pass
    draw = random.Random(seed)
    found = []
    for at, model in enumerate(MODELS):
        whole, resumed, state = (folder / f"{at}-{name}" for name in ("whole", "resumed", "state"))
        assert os.waitpid(start(model, whole, None), 0)[1] == 0
        hits = sum(kill(start(model, resumed, state), state, draw) for _ in range(kills))
        assert os.waitpid(start(model, resumed, state), 0)[1] == 0
        equal = whole.read_bytes() == resumed.read_bytes()
        left = sorted(written(state))
        found.append({"model": model, "hits": hits, "equal": equal, "left": left})
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
