"""Commands at the same time on the same files: whole files, clear refusals, no traceback."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from torture.campaign import ROOT, Budget, Tally

__all__ = ["commands"]

AT_ONCE = 5
ROWS = 300
FIT = ("fit", "t.parquet", "-t", "y", "-p", "laplace", "-o")
MODELS = {"naive": (*FIT, "m.tanager", "-s", "naive"), "tan": (*FIT, "m.tanager", "-s", "tan")}

CHECKPOINTED = "fit t.csv -t y -s tan -p discriminative -o c.tanager --force --checkpoint state"
COMPARED = (
    "compare t.parquet -t y --with naive/laplace --with tan/laplace --rounds 2 --run run.jsonl"
)


class Line(NamedTuple):
    """A command, and a word of the refusals that it may end with."""

    words: tuple[str, ...]
    refusal: str = ""


FORCED = (
    *MODELS.values(),
    (*FIT, "other.tanager", "-s", "naive"),
    ("predict", "m.tanager", "t.parquet", "-o", "p.parquet"),
    ("predict", "m.tanager", "t.csv", "-o", "p.csv"),
    ("export", "m.tanager", "-o", "m.sql"),
    ("export", "m.tanager", "-o", "m.json"),
    ("report", "m.tanager", "-o", "m.html"),
    ("sample", "m.tanager", "-n", str(ROWS), "-o", "s.parquet"),
)
LINES = (
    *(Line((*words, "--force")) for words in FORCED),
    # Without --force the file may be there: of another command, or of this one a moment ago.
    *(Line(words, "exists") for words in FORCED),
    Line(("score", "m.tanager", "t.parquet", "--json")),
    Line(("show", "m.tanager")),
    Line(("audit", "t.parquet")),
    Line(("audit", "t.csv")),
    Line(("explain", "m.tanager", "t.parquet")),
    Line(tuple(CHECKPOINTED.split()), "another fit"),
    Line(tuple(COMPARED.split()), "another run"),
    Line(("drift", "m.tanager", "t.parquet", "-o", "d.html", "--force")),
)


def commands(budget: Budget, tally: Tally, folder: Path) -> None:
    """Run some commands at once, and look at the files that they leave."""
    rng = np.random.default_rng(budget.seed)
    y = rng.integers(0, 2, ROWS)
    words = np.array(["a", "b", "c"])[rng.integers(0, 3, ROWS)]
    table = pa.table({"n": rng.normal(size=ROWS) + y, "w": words, "y": np.where(y, "yes", "no")})
    pq.write_table(table, folder / "t.parquet")
    pc.write_csv(table, folder / "t.csv")
    answers = [_answers(line, table, folder) for line in MODELS.values()]
    choose = random.Random(budget.seed)
    while budget.more():
        # Of two lines as often as not: those that meet are those that write the same file.
        lines = choose.sample(LINES, 2) if choose.random() < 0.5 else LINES
        chosen = choose.choices(lines, k=AT_ONCE)
        running = [_start(line.words, folder) for line in chosen]
        for line, process in zip(chosen, running, strict=True):
            said = process.communicate()[1]
            refused = process.returncode > 0 and line.refusal and line.refusal in said
            good = (process.returncode == 0 or refused) and "Traceback" not in said
            told = f"{' '.join(line.words)}: {process.returncode}"
            tally.check(bool(good), told, said=said[-300:])
        _look(folder, answers, tally)


def _start(words: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    return subprocess.Popen(
        [sys.executable, "-m", "tanager", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _answers(line: tuple[str, ...], table: Any, folder: Path) -> Any:
    """Run a fit alone, and return what its model says of the rows."""
    import tanager

    _start((*line, "--force"), folder).communicate()
    return tanager.load(folder / "m.tanager").predict_proba(table.drop_columns("y"))


def _look(folder: Path, answers: list[Any], tally: Tally) -> None:
    """Check that every file is whole and of one writer, and that nothing unfinished is left."""
    import tanager

    left = sorted(path.name for path in folder.rglob(".*"))
    tally.check(not left, "commands leave unfinished files", left=left)
    rows = pq.read_table(folder / "t.parquet").drop_columns("y")
    said = tanager.load(folder / "m.tanager").predict_proba(rows)
    tally.check(any(np.array_equal(said, one) for one in answers), "a model is of nobody's fit")
    for name in ("other.tanager", "c.tanager"):
        if (folder / name).exists():
            tanager.load(folder / name).predict(rows)
    for name in ("p.parquet", "p.csv", "s.parquet"):
        path = folder / name
        if not path.exists():
            continue
        found = pc.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
        tally.check(found.num_rows == ROWS, f"rows of {name} are lost")
        if name != "s.parquet":
            p = found["p_yes"].to_numpy()
            good = any(np.allclose(p, one[:, 1], atol=1e-9) for one in answers)
            tally.check(good, f"{name} has predictions of two models")
    if (folder / "m.json").exists():
        json.loads((folder / "m.json").read_text(encoding="utf-8"))
    for path in folder.glob("*.html"):
        page = path.read_text(encoding="utf-8").rstrip()
        tally.check(page.endswith("</html>"), f"{path.name} is cut short")
    if (folder / "run.jsonl").exists():
        from tanager.evaluation import Results

        records = Results.read(folder / "run.jsonl").records
        cells = {(r["classifier"], r["round"], r["fold"]) for r in records}
        tally.check(len(records) == len(cells) == 8, "the run file has cells twice or not at all")
