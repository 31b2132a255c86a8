"""Build wheels for every platform on this one, and check them: `make wheels`.

    python release/wheels.py [--only linux-x86_64,...] [--tests PATH ...] [--output dist]

zig from PyPI compiles for all of them, out of an unpacked source distribution. Every wheel is
audited by abi3audit and by its file headers, those for Linux by auditwheel too. The wheel for this
machine is installed into an empty environment and tested; the one for aarch64 runs under qemu-user
where that is installed. What was built but not run is told at the end.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

from targets import TARGETS

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".wheels"  # environments, kept between runs
TOOLS = (
    "setuptools>=77",
    "ziglang>=0.14",
    "abi3info",
    "abi3audit",
    "auditwheel",
    "build",
    "pefile",
)
TESTED_WITH = ("hypothesis", "networkx", "pandas", "polars", "psutil", "pytest", "openpyxl")
TESTS = ("tests/counts", "tests/sources/test_files.py", "tests/classifiers/test_bayesnet.py")
# The first bytes of a module: where they tell the processor, and what they say.
MACHINES = {
    "linux-x86_64": (b"\x7fELF", 18, "<H", 62),
    "linux-aarch64": (b"\x7fELF", 18, "<H", 183),
    "macos-x86_64": (b"\xcf\xfa\xed\xfe", 4, "<I", 0x01000007),
    "macos-arm64": (b"\xcf\xfa\xed\xfe", 4, "<I", 0x0100000C),
    "windows-x86_64": (b"MZ", None, "<H", 0x8664),
}


def main() -> int:
    """Build, check and run."""
    parser = argparse.ArgumentParser(prog="make wheels", description=__doc__)
    parser.add_argument("--only", default=",".join(TARGETS), help="platforms, with commas")
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="what pytest runs")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    names = given.only.split(",")
    tools = environment("tools", TOOLS)
    given.output.mkdir(exist_ok=True)
    wheels = build(tools, names, given.output)
    ran = {}
    for name, wheel in wheels.items():
        check(tools, name, wheel)
        if name == f"{sys.platform}-{platform.machine()}":
            test(wheel, given.tests)
            ran[name] = f"installed into an empty environment; {' '.join(given.tests)} passed"
        elif name == "linux-aarch64" and shutil.which("qemu-aarch64"):
            from aarch64 import run

            ran[name] = run(wheel, PLACE)
    for name, wheel in wheels.items():
        print(f"{wheel.name}\n    {ran.get(name, 'symbols and tags are right; not run')}")
    return 0


def environment(name: str, packages: Sequence[str]) -> Path:
    """Make an environment with some packages; return its Python."""
    folder = PLACE / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    call(python, "-m", "pip", "install", "--quiet", *packages)
    return python


def build(tools: Path, names: Sequence[str], output: Path) -> dict[str, Path]:
    """Build the source distribution, and from it one wheel per platform."""
    wheels = {}
    with tempfile.TemporaryDirectory() as place:
        call(tools, "-m", "build", "--no-isolation", "--sdist", "--outdir", place, ROOT)
        packed = next(Path(place).glob("*.tar.gz"))
        shutil.copy(packed, output)
        with tarfile.open(packed) as archive:
            archive.extractall(place, filter="data")
        tree = Path(place) / packed.name.removesuffix(".tar.gz")
        for name in names:
            shutil.rmtree(tree / "build", ignore_errors=True)
            made = Path(place) / name
            options = ("--wheel", "--no-isolation", "--outdir", made, tree)
            call(tools, "-m", "build", *options, TANAGER_TARGET=name)
            wheels[name] = Path(shutil.copy(next(made.glob("*.whl")), output))
    return wheels


def check(tools: Path, name: str, wheel: Path) -> None:
    """Check tags, symbols and the processor of a wheel."""
    assert f"-cp311-abi3-{TARGETS[name].tag}.whl" in wheel.name, wheel.name
    with ZipFile(wheel) as parts:
        found = [part for part in parts.namelist() if part.endswith((".so", ".pyd"))]
        assert found == [f"tanager/native{TARGETS[name].ending}"], found
        module = parts.read(found[0])
    magic, at, form, machine = MACHINES[name]
    if at is None:
        at = struct.unpack_from("<I", module, 0x3C)[0] + 4
    assert module.startswith(magic), f"{wheel.name}: a module of another format"
    assert struct.unpack_from(form, module, at)[0] == machine, f"{wheel.name}: another processor"
    call(tools, "-m", "abi3audit", "--strict", wheel)
    if name.startswith("linux"):
        shown = call(tools, "-m", "auditwheel", "show", wheel)
        wanted = f'"{TARGETS[name].tag.partition(".")[0]}"'
        assert wanted in " ".join(shown.split()), shown
    elif name.startswith("windows"):
        # abi3audit looks at names; which library they come from decides whether they are found.
        script = (
            "import pefile, sys; pe = pefile.PE(data=sys.stdin.buffer.read());"
            "print(*(e.dll.decode() for e in pe.DIRECTORY_ENTRY_IMPORT));"
            "print(*(s.name.decode() for s in pe.DIRECTORY_ENTRY_EXPORT.symbols))"
        )
        done = subprocess.run([tools, "-c", script], input=module, capture_output=True, check=True)
        libraries, exports = done.stdout.decode().splitlines()
        assert "python3.dll" in libraries.split(), libraries
        assert not any(dll.startswith(("python31", "lib")) for dll in libraries.split()), libraries
        assert "PyInit_native" in exports.split(), exports


def test(wheel: Path, tests: Sequence[str]) -> None:
    """Install a wheel into an empty environment and run tests, away from the sources."""
    shutil.rmtree(PLACE / "empty", ignore_errors=True)
    python = environment("empty", (f"{wheel}[excel,report]", *TESTED_WITH))
    with tempfile.TemporaryDirectory() as place:
        for name in ("tests", "torture", "benchmarks"):
            shutil.copytree(ROOT / name, Path(place) / name)
        shutil.copy(ROOT / "pyproject.toml", place)
        call(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, cwd=place)


def call(*command: object, cwd: str | None = None, **variables: str) -> str:
    """Run a program; return what it printed, or stop and show it."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TANAGER_TARGET")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**clean, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{' '.join(map(str, command))} failed.")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
