"""Builds the compiled loops; everything else about the project stands in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent / "release"))
from compiling import FLAGS, FREE_THREADED, Compile, StableWheel

setup(
    ext_modules=[
        Extension(
            "tanager.native",
            sorted(str(path) for path in Path("src/native").glob("*.c")),
            depends=[str(path) for path in Path("src/native").glob("*.h")],
            extra_compile_args=FLAGS,
            libraries=["m"],
            py_limited_api=not FREE_THREADED,
        )
    ],
    cmdclass={"bdist_wheel": StableWheel, "build_ext": Compile},
)
