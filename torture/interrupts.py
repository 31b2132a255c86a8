"""Ctrl-C at random moments: the work stops, files are whole, and the process is as before."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from torture.campaign import Budget, Tally
from torture.scenes import (
    Checkpointing,
    Comparing,
    Distributing,
    Fitting,
    Predicting,
    Resuming,
    Saving,
    Scene,
    Training,
)

__all__ = ["interrupts"]

PATIENCE = 60.0  # for work to stop and its threads to end; the machine may be busy
LOST = "Ctrl-C is lost, and the work goes on"


def interrupts(budget: Budget, tally: Tally, folder: Path) -> None:
    """Ctrl-C while saving, predicting, comparing, fitting and training, also on a cluster."""
    # A shell lets what it starts in the background ignore Ctrl-C, and Python keeps to that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kinds = [Saving, Predicting, Comparing, Training, Checkpointing, Resuming, Fitting]
    kinds += [Distributing] if find_spec("distributed") is not None and budget.cases > 7 else []
    scenes: list[Scene] = [kind(folder / kind.__name__) for kind in kinds]
    n_threads, longest = threading.active_count(), 0.0
    try:
        while budget.more():
            rng = random.Random(f"interrupt-{budget.seed}-{budget.case}")
            scene = scenes[budget.case % len(scenes)]
            stopped, seconds = _interrupt_during(scene.work, rng.uniform(0.0, scene.seconds))
            longest = max(longest, seconds)
            problem = LOST if seconds >= PATIENCE else _look(scene, n_threads)
            if problem is None:
                tally.add(f"{scene.name}, {'stopped' if stopped else 'finished first'}")
            else:
                tally.fail(f"{scene.name}: {problem}", seed=budget.seed, case=budget.case)
    finally:
        for scene in scenes:
            # A busy machine may not stop a cluster in time: what was found still counts.
            with contextlib.suppress(Exception):
                scene.close()
    tally.facts["longest until the work stopped, seconds"] = round(longest, 2)


def _look(scene: Scene, n_threads: int) -> str | None:
    left = scene.temporary()
    if left:
        return f"temporary files are left: {left}"
    end = time.monotonic() + PATIENCE
    while threading.active_count() > n_threads:
        if time.monotonic() > end:
            return f"threads go on: {[thread.name for thread in threading.enumerate()]}"
        time.sleep(0.05)
    try:
        return scene.look()
    except Exception as error:
        return f"the next call fails: {type(error).__name__}: {error}"


def _interrupt_during(work: Callable[[], None], after: float) -> tuple[bool, float]:
    """Send Ctrl-C to this process; return whether work stopped, and how long that took.

    Where it is lost, another one is sent after some time: some work never ends by itself.
    """
    sent: list[float] = []
    done = threading.Event()

    def send() -> None:
        wait = after
        while not done.wait(wait):
            sent.append(time.monotonic())
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            wait = PATIENCE

    sender = threading.Thread(target=send, name="sender of Ctrl-C")
    stopped = False
    try:
        sender.start()
        work()
        done.set()
        sender.join()
        time.sleep(0.01)  # a signal that is on its way arrives here
    except KeyboardInterrupt:
        stopped = True
    ended = time.monotonic()
    done.set()
    sender.join()
    return stopped, ended - sent[0] if stopped and sent else 0.0
