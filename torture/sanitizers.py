"""The compiled loops under AddressSanitizer and UndefinedBehaviorSanitizer.

    python -m torture.sanitizers [test files or folders]

Builds the extension a second time, into build/sanitize beside a copy of the package, and runs
tests with it: by default those of the rooms that call C. That build can let any one allocation
fail, too (`native.fail_allocation`), which `tests/native/test_faults.py` makes use of.

What a sanitizer finds ends the process: the tests run in workers, so that the others go on and
the test is named, and reports go to files that are printed in the end.
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
    """Return the libraries to load before Python, or None where the compiler has none.

    The sanitizer looks for C++'s exceptions as it's loaded: without that library, the first one
    that Matplotlib or pyarrow throws would end the process.
    """
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return None
    found = []
    for name in ("libasan.so", "libstdc++.so.6"):
        command = [compiler, f"-print-file-name={name}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found.append(done.stdout.strip())
    there = [path for path in found if Path(path).is_absolute() and Path(path).exists()]
    return " ".join(there) if found[0] in there else None


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
    report = BUILD / "report"
    for old in BUILD.glob("report.*"):
        old.unlink()
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        # Python itself keeps memory until it ends.
        "ASAN_OPTIONS": f"detect_leaks=0:log_path={report}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={report}",
        "PYTHONPATH": os.pathsep.join([str(BUILD), str(ROOT / "papers" / "src"), str(ROOT)]),
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    found = "from tanager import native; native.fail_allocation(-1)"  # the build just made
    subprocess.run([sys.executable, "-c", found], cwd=ROOT, env=environment, check=True)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal"),
            *("-p", "no:cacheprovider", *tests),
        ],
        cwd=ROOT,
        env=environment,
        check=False,
    )
    reports = sorted(BUILD.glob("report.*"))
    for path in reports:
        print(path.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
    return done.returncode or bool(reports)


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
