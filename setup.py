"""Builds the compiled loops; everything else about the project stands in pyproject.toml."""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

SOURCES = sorted(str(path) for path in Path("src/native").glob("*.c"))
# No operation is fused or reordered: the same numbers on every machine. Loops need not mind
# errno and floating-point traps, which nobody reads.
FLAGS = ["-O3", "-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


class StableWheel(bdist_wheel):
    """Names the wheel for every Python from 3.11 on: only the stable interface is used."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of interpreter, interface and platform."""
        _, _, platform = super().get_tag()
        return "cp311", "abi3", platform


setup(
    ext_modules=[
        Extension(
            "tanager.native",
            SOURCES,
            depends=[str(path) for path in Path("src/native").glob("*.h")],
            extra_compile_args=["/O2", "/fp:precise"] if os.name == "nt" else FLAGS,
            libraries=[] if sys.platform == "win32" else ["m"],
            py_limited_api=True,
        )
    ],
    cmdclass={"bdist_wheel": StableWheel},
)
