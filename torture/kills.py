"""Kills: the old file or the new one, whole; a resumed run equal to an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from torture.campaign import Budget, Tally
from torture.scenes import Checkpointing, Comparing, Predicting, Resuming, Saving, Scene, Training

__all__ = ["kills"]


def kills(budget: Budget, tally: Tally, folder: Path) -> None:
    """Kill -9 at random moments of saving, predicting, comparing, fitting and training."""
    kinds = (Saving, Predicting, Comparing, Training, Checkpointing, Resuming)
    scenes: list[Scene] = [kind(folder / kind.__name__) for kind in kinds]
    while budget.more():
        rng = random.Random(f"kill-{budget.seed}-{budget.case}")
        scene = scenes[budget.case % len(scenes)]
        died = _kill_during(scene.work, rng.uniform(0.0, scene.seconds))
        try:
            problem = scene.look()
        except Exception as error:
            problem = f"the next call fails: {type(error).__name__}: {error}"
        if problem is None:
            tally.add(f"{scene.name}, {'killed' if died else 'finished first'}")
        else:
            tally.fail(f"{scene.name}: {problem}", seed=budget.seed, case=budget.case)


def _kill_during(work: Callable[[], None], after: float) -> bool:
    """Fork, work in the child, kill it after some seconds; whether it was still at work."""
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            work()
        finally:
            os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)
