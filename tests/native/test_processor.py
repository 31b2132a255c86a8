"""Loops for wide registers give the bits of plain ones, whichever compiler made them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from tanager import native
from tests.native.cases import CASES
from tests.native.test_twins import copied

SOURCES = Path(__file__).parents[2] / "src/native"
FLAGS = ("-O1", "-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The module compiled without loops for wide registers."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not SOURCES.is_dir() or platform.machine() != "x86_64":
        pytest.skip("needs the sources, a C compiler and an x86-64 processor")
    path = tmp_path_factory.mktemp("plain") / "native.so"
    command = [compiler, *FLAGS, "-w", "-fPIC", "-shared", "-DTANAGER_PLAIN", "-o", path]
    links = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-lm"]
    include = f"-I{sysconfig.get_path('include')}"
    # Where these tests run under a sanitizer, the compiler need not.
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    command += [include, *SOURCES.glob("*.c"), *links]
    subprocess.run(command, env=environment, check=True)
    loader = importlib.machinery.ExtensionFileLoader("plain.native", str(path))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("plain.native", loader)
    )
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", CASES)
def test_wide_loops_give_the_bits_of_plain_ones(name, plain):
    for given in CASES[name](np.random.default_rng(0)):
        wide, narrow = copied(given), copied(given)
        assert getattr(native, name)(*wide) == getattr(plain, name)(*narrow)
        for one, other in zip(wide, narrow, strict=True):
            if isinstance(one, np.ndarray):
                assert one.tobytes() == other.tobytes()
