"""Run the wheel for aarch64 under qemu-user, with Debian's Python for that processor."""

from __future__ import annotations

import lzma
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

MIRROR = "https://deb.debian.org/debian/"
SUITE = "dists/bookworm/main/binary-arm64/Packages.xz"
# Python 3.11 and what its standard library and the wheels below load.
PACKAGES = (
    *("libc6", "libgcc-s1", "libstdc++6", "libgomp1", "zlib1g", "libexpat1", "libffi8"),
    *("libssl3", "libbz2-1.0", "liblzma5", "libuuid1", "libcrypt1", "libsqlite3-0"),
    *("libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal"),
)
# Fit, save, load and predict; the same program runs here, and both must agree.
PROGRAM = """
import platform, sys, tempfile, warnings
warnings.simplefilter("ignore")
import numpy as np
from sklearn.datasets import load_iris
import tanager
X, y = load_iris(return_X_y=True)
shown = []
for pair in (("tan", "hdp"), ("skdb", "m-estimate"), ("naive", "laplace")):
    model = tanager.BayesNetClassifier(*pair, n_jobs=2).fit(X, y)
    with tempfile.TemporaryDirectory() as place:
        tanager.save(model, f"{place}/iris.tanager")
        shown.append(tanager.load(f"{place}/iris.tanager").predict_proba(X).round(9))
print(platform.machine(), np.concatenate(shown).tobytes().hex())
"""


def run(wheel: Path, place: Path) -> str:
    """Return what was run, or stop where it fails or differs from this machine's answers."""
    root, packages = place / "aarch64", place / "aarch64-packages"
    if not (root / "usr/bin/python3.11").exists():
        _fetch_python(root)
    there = ("--platform=manylinux_2_28_aarch64", "--platform=manylinux_2_17_aarch64")
    options = ("--quiet", "--only-binary=:all:", "--python-version=3.11", "--upgrade", *there)
    pip = [sys.executable, "-m", "pip", "install", f"--target={packages}", *options]
    # What pip says concerns the packages of this machine, which are not touched.
    command = [*pip, "--platform=manylinux2014_aarch64", wheel]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    python = root / "usr/bin/python3.11"
    emulated = ["qemu-aarch64", "-L", root, "-E", f"PYTHONPATH={packages}", python, "-c", PROGRAM]
    machine, answers = subprocess.run(
        emulated, capture_output=True, text=True, check=True
    ).stdout.split()
    here = place / "empty/bin/python"
    if machine != "aarch64":
        raise SystemExit(f"qemu-aarch64 ran a Python for {machine}.")
    if here.exists():
        ours = subprocess.run([here, "-c", PROGRAM], capture_output=True, text=True, check=True)
        if ours.stdout.split()[1] != answers:
            raise SystemExit("The wheel for aarch64 gives other probabilities than this machine's.")
        return "run under qemu-user: fit, save, load, predict, as on this machine to nine digits"
    return "run under qemu-user: fit, save, load, predict"


def _fetch_python(root: Path) -> None:
    """Unpack Debian's Python for aarch64, and what it needs, into a folder."""
    root.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(MIRROR + SUITE) as answer:
        index = lzma.decompress(answer.read()).decode()
    for package in PACKAGES:
        found = re.search(
            rf"^Package: {re.escape(package)}\n(?:.+\n)*?Filename: (.+)$", index, re.MULTILINE
        )
        if found is None:
            raise SystemExit(f"Debian's index has no package {package} for arm64.")
        file = root / "package.deb"
        with urllib.request.urlopen(MIRROR + found[1]) as answer:
            file.write_bytes(answer.read())
        subprocess.run(["dpkg", "-x", file, root], check=True)
        file.unlink()
