"""A disk that is full or broken, for everything that writes; and a clock that goes backwards.

    python -m torture.write_faults FOLDER SEED

A process under `shim.c` (LD_PRELOAD) in which chosen calls of the C library fail.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

from torture.campaign import ROOT, Budget, Tally
from torture.writers import Writer, writers

__all__ = ["build_shim", "write_faults"]

CALLS = {"write": 0, "sync": 1, "rename": 2, "create": 3}
ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "half a write": 0}
_SHORT = {"write": "ENOSPC", "sync": "EIO", "rename": "EIO", "create": "ENOSPC"}
PLACES = (1, 2, 3, 5, 9)  # which of the calls fails; a writer may have fewer


def write_faults(budget: Budget, tally: Tally, folder: Path) -> None:
    """ENOSPC and EIO on write, sync, rename and creation, for every writer."""
    shim = build_shim(folder)
    if shim is None:
        tally.facts["failing calls"] = "not tried: no C compiler, or no LD_PRELOAD here"
        return
    done = subprocess.run(
        [sys.executable, "-m", "torture.write_faults", str(folder), str(budget.cases)],
        env={**os.environ, "LD_PRELOAD": str(shim), "MPLBACKEND": "agg"},
        stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    if done.returncode:
        tally.fail(f"the process under the shim ended with code {done.returncode}")
        return
    found = json.loads(done.stdout.splitlines()[-1])
    for outcome, n in found["outcomes"].items():
        if outcome != "failed":
            tally.outcomes[outcome] += n
    for failure in found["failures"]:
        tally.fail(**failure)
    tally.facts.update(found["facts"])


def build_shim(folder: Path) -> Path | None:
    """Compile the library of failing calls; None where that cannot be done."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    target = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(target), str(source), "-ldl"]
    return target if subprocess.run(command, check=False).returncode == 0 else None


def _attack(writer: Writer, out: Path, tally: Tally, *, whole: bool) -> None:
    """Let every kind of call fail, with and without a file that is there before."""
    from tanager.errors import TanagerError

    library = ctypes.CDLL(None)
    new = _written(writer, out)
    stable = writer.again is None and _written(writer, out) == new
    for call, number in CALLS.items():
        for error, code in ERRORS.items():
            if code == 0 and call != "write":
                continue
            if not whole and error != _SHORT[call]:
                continue
            for at in PLACES if whole else PLACES[:1]:
                _clear(out)
                old = at % 2 == 1 and writer.again is None
                if old:
                    for name in new:
                        (out / name).write_bytes(b"the old file")
                library.fault_arm(number, code, at, int(code == errno.ENOSPC), str(out).encode())
                raised = None
                try:
                    writer.work(out / "new")
                except (TanagerError, OSError) as caught:
                    raised = caught
                except Exception as caught:
                    raised = AssertionError(f"{type(caught).__name__}: {caught}")
                what = f"{writer.name}: {error} at {call} {at}"
                if library.fault_disarm() == 0:
                    if raised is not None:
                        tally.fail(f"{what}: an error before any fault: {raised}")
                    break  # so many calls there are not
                problem = _look(writer, out, new if stable else None, raised, old=old)
                if problem is None:
                    tally.add("refused" if raised is not None else "done in spite of it")
                else:
                    tally.fail(f"{what}: {problem}")


def _look(
    writer: Writer,
    out: Path,
    new: dict[str, bytes] | None,
    raised: BaseException | None,
    *,
    old: bool,
) -> str | None:
    if isinstance(raised, AssertionError):
        return f"not an error of the project: {raised}"
    found = {path.name: path for path in out.rglob("*") if path.is_file()}
    names = [path.name for path in out.rglob("*")]  # also of folders
    left = [name for name in names if name.endswith(".part") or name.startswith("tanager-")]
    if left:
        return f"temporary files are left: {left}"
    if writer.again is not None:
        return None if writer.again(out / "new") else "a repetition gives something else"
    contents = {name: path.read_bytes() for name, path in found.items()}
    if raised is None:
        return None if new is None or contents == new else "no error, and not the right file"
    if old and all(content == b"the old file" for content in contents.values()) and contents:
        return None
    if not old and not contents:
        return None
    # The rename was done and only the sync of the folder failed: the new file is whole.
    return None if new is not None and contents == new else "neither the old file nor the new one"


def _written(writer: Writer, out: Path) -> dict[str, bytes]:
    _clear(out)
    writer.work(out / "new")
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def _clear(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()


def _clock(place: Path, tally: Tally) -> None:
    """Let the clock of the day go back by an hour at every look."""
    library = ctypes.CDLL(None)
    for writer in writers(place):
        out = place / "out"
        expected = _written(writer, out)
        stable = _written(writer, out) == expected
        library.clock_back(ctypes.c_long(3600))
        first = time.time()
        found = _written(writer, out)
        backwards = time.time() < first
        library.clock_back(ctypes.c_long(0))
        good = backwards and (not stable or found == expected)
        good = good and (writer.again is None or writer.again(out / "new"))
        tally.check(good, f"{writer.name}: the clock goes backwards, and the file differs")


def main() -> None:
    """Attack every writer; print the tally as JSON."""
    warnings.simplefilter("ignore")
    place, cases = Path(sys.argv[1]) / "writers", int(sys.argv[2])
    place.mkdir()
    tally = Tally(say=lambda text: print(f"   {text}", file=sys.stderr, flush=True))
    names = []
    for writer in writers(place):
        names.append(writer.name)
        _attack(writer, place / "out", tally, whole=cases > 1)
    if cases > 1:
        _clock(place, tally)
    tally.facts["writers"] = len(names)
    print(json.dumps(tally.to_json()))


if __name__ == "__main__":
    main()
