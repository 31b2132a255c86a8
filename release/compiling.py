"""How the compiled loops are built: by this machine's C compiler, or by zig's from PyPI.

`ziglang` stands in where there is no compiler, and on Windows. It also compiles for the platforms
in `targets.py`: the environment variable TANAGER_TARGET names one of them (`release/wheels.py` goes
through all).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Extension
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from targets import TARGETS, Target

HERE = Path(__file__).parent
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# Sanitizers check what is written, whatever becomes of it: further optimisation of their checks
# takes three times as long to compile.
_GIVEN = os.environ.get("CFLAGS", "")
LEVEL = "-O1" if "-fsanitize" in _GIVEN else "-O0" if "-O0" in _GIVEN.split() else "-O3"
# No operation is fused or reordered: the same numbers on every machine. Loops need not mind
# errno and floating-point traps, which nobody reads.
FLAGS = [LEVEL, "-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


def has_compiler() -> bool:
    """Return whether this machine has a C compiler of its own that is used.

    On Windows zig's is always used: one compiler, whose wide loops and results are those of the
    other systems.
    """
    if sys.platform == "win32":
        return False
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(shlex.split(named)[0]) is not None


def requirements() -> list[str]:
    """Return what a build on this machine needs besides setuptools."""
    if not wants_zig():
        return []
    return ["ziglang>=0.14", "abi3info"] if chosen_target() is _windows() else ["ziglang>=0.14"]


def wants_zig() -> bool:
    """Return whether zig compiles: for another platform, or for lack of a compiler."""
    return "TANAGER_TARGET" in os.environ or not has_compiler()


def chosen_target() -> Target | None:
    """Return the platform that zig compiles for; None is this machine."""
    name = os.environ.get("TANAGER_TARGET")
    if name is None:
        return _windows() if sys.platform == "win32" else None
    if name not in TARGETS:
        raise SystemExit(f"TANAGER_TARGET={name} is not known. Allowed: {', '.join(TARGETS)}.")
    return TARGETS[name]


def _windows() -> Target:
    return TARGETS["windows-x86_64"]


class Compile(build_ext):
    """Compiles by zig where `wants_zig`, else as setuptools does."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the module's file name, with the ending of the target."""
        target = chosen_target() if wants_zig() else None
        if target is None:
            return super().get_ext_filename(fullname)
        return fullname.replace(".", os.sep) + target.ending

    def build_extension(self, ext: Extension) -> None:
        """Compile and link all sources."""
        if not wants_zig():
            super().build_extension(ext)
            return
        target = chosen_target()
        output = Path(self.get_ext_fullpath(ext.name))
        output.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory() as folder:
            command = ["cc", "-shared", "-fPIC", "-s", *FLAGS, *_for_target(target, Path(folder))]
            made = Path(folder) / output.name
            run_zig(*command, *ext.sources, "-o", str(made))
            shutil.copyfile(made, output)


def _for_target(target: Target | None, folder: Path) -> list[str]:
    """Return the options that say for what to compile, and with which headers."""
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise SystemExit(
            f"Python's headers are not in {headers}. Install them (Debian's package is "
            "python3-dev), or install a wheel of Tanager, which needs neither headers nor compiler."
        )
    if target is None:
        return ["-mcpu=baseline", f"-I{headers}", "-lm"]
    # pyconfig.h beside Python.h tells of this machine. Ours asks the compiler instead.
    shutil.copytree(headers, folder / "include")
    shutil.copyfile(HERE / "pyconfig.h", folder / "include" / "pyconfig.h")
    options = ["-target", target.triple, f"-I{folder / 'include'}", *target.link]
    return [*options, str(_import_library(folder))] if target is _windows() else options


def _import_library(folder: Path) -> Path:
    """Make the library that names what python3.dll exports: the stable interface of 3.11."""
    from abi3info import DATAS, FUNCTIONS
    from abi3info.models import PyVersion

    lines = ["LIBRARY python3.dll", "EXPORTS"]
    for kind, mark in ((FUNCTIONS, ""), (DATAS, " DATA")):
        known = (item for item in kind.values() if item.added <= PyVersion(3, 11))
        lines += [f"  {item.symbol.name}{mark}" for item in known]
    (folder / "python3.def").write_text("\n".join(lines) + "\n")
    library = folder / "python3.lib"
    run_zig("dlltool", "-d", f"{folder / 'python3.def'}", "-l", f"{library}", "-m", "i386:x86-64")
    return library


def run_zig(*arguments: str) -> None:
    """Run zig, and stop with what it says where it fails."""
    done = subprocess.run([sys.executable, "-m", "ziglang", *arguments], check=False)
    if done.returncode:
        raise SystemExit(f"zig could not compile src/native (exit status {done.returncode}).")


class StableWheel(bdist_wheel):
    """Names the wheel for every Python from 3.11 on: only the stable interface is used.

    Free-threaded Pythons before 3.15 have no stable interface: their wheel is for one version.
    """

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of interpreter, interface and platform."""
        python, interface, platform = super().get_tag()
        if "TANAGER_TARGET" in os.environ:
            target = chosen_target()
            assert target is not None
            platform = target.tag
        return (python, interface, platform) if FREE_THREADED else ("cp311", "abi3", platform)
