"""Commands at the same time on the same files: whole files, clear refusals, no traceback."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from torture.campaign import ROOT, Budget, Tally

__all__ = ["commands"]

AT_ONCE = 4
FIT = ("fit", "t.parquet", "-t", "y", "-p", "laplace", "--force", "-o")
LINES = (
    (*FIT, "m.tanager", "-s", "naive"),
    (*FIT, "m.tanager", "-s", "tan"),
    (*FIT, "other.tanager", "-s", "naive"),
    ("predict", "m.tanager", "t.parquet", "-o", "p.parquet", "--force"),
    ("predict", "m.tanager", "t.parquet", "-o", "p.csv", "--force"),
    ("score", "m.tanager", "t.parquet", "--json"),
    ("export", "m.tanager", "-o", "m.sql", "--force"),
    ("export", "m.tanager", "-o", "m.json", "--force"),
    ("show", "m.tanager"),
    ("report", "m.tanager", "-o", "m.html", "--force"),
    ("audit", "t.parquet"),
)


def commands(budget: Budget, tally: Tally, folder: Path) -> None:
    """Run some commands at once, and look at the files that they leave."""
    rng = np.random.default_rng(budget.seed)
    y = rng.integers(0, 2, 300)
    words = np.array(["a", "b", "c"])[rng.integers(0, 3, 300)]
    table = pa.table({"n": rng.normal(size=300) + y, "w": words, "y": np.where(y, "yes", "no")})
    pq.write_table(table, folder / "t.parquet")
    _start(LINES[0], folder).communicate()
    choose = random.Random(budget.seed)
    while budget.more():
        chosen = choose.choices(LINES, k=AT_ONCE)
        running = [_start(line, folder) for line in chosen]
        for line, process in zip(chosen, running, strict=True):
            said = process.communicate()[1]
            good = process.returncode == 0 and "Traceback" not in said
            tally.check(good, f"{' '.join(line)}: {process.returncode}", said=said[-300:])
        _look(folder, tally)


def _start(line: tuple[str, ...], folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    return subprocess.Popen(
        [sys.executable, "-m", "tanager", *line],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _look(folder: Path, tally: Tally) -> None:
    """Check that every file is whole, and that nothing unfinished is left."""
    import tanager

    left = sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
    tally.check(not left, "commands leave unfinished files", left=left)
    for path in folder.glob("*.tanager"):
        tanager.load(path)
    if (folder / "p.parquet").exists():
        tally.check(pq.read_table(folder / "p.parquet").num_rows == 300, "rows are lost")
    if (folder / "p.csv").exists():
        lines = (folder / "p.csv").read_text(encoding="utf-8").splitlines()
        tally.check(len(lines) == 301, "lines are lost")
    if (folder / "m.html").exists():
        page = (folder / "m.html").read_text(encoding="utf-8").rstrip()
        tally.check(page.endswith("</html>"), "a page is cut short")
