"""The compiled loops under AddressSanitizer and UndefinedBehaviorSanitizer.

    python -m torture.sanitizers [test files or folders]

Builds the extension a second time, into build/sanitize beside a copy of the package, and runs
tests with it: by default those of the rooms that call C. That build can let any one allocation
fail, too (`native.fail_allocation`), which `tests/native/test_faults.py` makes use of.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from torture.campaign import ROOT, Budget, Tally

__all__ = ["ROOMS", "main", "sanitizers"]

BUILD = ROOT / "build" / "sanitize"
ROOMS = (
    "tests/native",
    *("tests/codes", "tests/counts", "tests/loglinear", "tests/parameters", "tests/structure"),
    *("tests/training", "tests/network", "tests/classifiers/test_round_trip.py"),
)
SANITIZERS = "-fsanitize=address,undefined"
FLAGS = f"{SANITIZERS} -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -DTANAGER_FAULTS"


def runtime() -> str | None:
    """Return the library to load before Python, or None where the compiler has none."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return None
    done = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    )
    found = done.stdout.strip()
    return found if Path(found).is_absolute() and Path(found).exists() else None


def build() -> None:
    """Copy the package and compile its extension with sanitizers; unchanged files stay."""
    package = BUILD / "tanager"
    if package.exists():
        for path in package.rglob("*.py"):
            path.unlink()
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "src" / "tanager", package, ignore=ignored, dirs_exist_ok=True)
    subprocess.run(
        [
            *(sys.executable, "setup.py", "--quiet", "build_ext"),
            *("--build-lib", str(BUILD), "--build-temp", str(BUILD / "objects")),
        ],
        cwd=ROOT,
        env={**os.environ, "CFLAGS": FLAGS, "LDFLAGS": SANITIZERS},
        check=True,
    )


def run(library: str, tests: tuple[str, ...]) -> int:
    """Run tests with the sanitized extension; returns pytest's code."""
    build()
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself keeps memory until it ends
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join([str(BUILD), str(ROOT / "papers" / "src"), str(ROOT)]),
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    found = "from tanager import native; native.fail_allocation(-1)"  # the build just made
    subprocess.run([sys.executable, "-c", found], cwd=ROOT, env=environment, check=True)
    done = subprocess.run(
        [*(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"), *tests],
        cwd=ROOT,
        env=environment,
        check=False,
    )
    return done.returncode


def sanitizers(_budget: Budget, tally: Tally, _folder: Path) -> None:
    """Run the tests of every room that calls C, and let every allocation fail once."""
    library = runtime()
    if library is None:
        tally.facts["sanitizers"] = "not tried: the compiler has none"
        return
    tally.check(run(library, ROOMS) == 0, "tests failed under the sanitizers")


def main() -> int:
    """Run the tests named, or those of all rooms that call C."""
    library = runtime()
    if library is None:
        print("The compiler has no sanitizers: nothing was run.")
        return 0
    return run(library, tuple(sys.argv[1:]) or ROOMS)


if __name__ == "__main__":
    sys.exit(main())
