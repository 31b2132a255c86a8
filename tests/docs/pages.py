"""Runs the code blocks of a page as they stand, with only what the page says to install.

    python tests/docs/pages.py < PAGES

Reads the paths of pages, a line each, and answers each with a line of JSON: what went wrong. Every
page runs in a folder of its own, on a stage that has the files and names which pages speak of, in a
process in which other packages cannot be imported.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.abc
import io
import json
import os
import re
import shlex
import sys
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.S | re.M)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

# Packages that `pip install .` does not bring, by what a page says that brings them.
PACKAGES = {
    "report": ("matplotlib",),
    "export": ("onnx", "onnxruntime"),
    "dask": ("dask", "distributed", "pandas"),
    "excel": ("openpyxl",),
    "lakes": ("deltalake", "pyiceberg"),
    "postgres": ("adbc_driver_postgresql",),
    "all": (
        *("matplotlib", "onnx", "onnxruntime", "dask", "distributed"),
        *("openpyxl", "pandas", "deltalake", "pyiceberg", "adbc_driver_postgresql"),
    ),
}
OPTIONAL = ("duckdb", "networkx", "pandas", "polars", "xgboost", "lightgbm", "jax", "torch")

EVERYTHING = {*OPTIONAL}.union(*PACKAGES.values())

# Loaded once for all pages: what every installation has and many pages use. scikit-learn is not
# among them, as it loads pandas.
LOADED = (
    *("pyarrow.parquet", "scipy.optimize", "scipy.sparse", "scipy.stats"),
    *("tanager.classifiers.bayesnet", "tanager.cli.app"),
)

STAGED: set[str] = set()  # files that pages take for granted, and some write themselves

# Blocks that cannot run here, by a line of theirs, with the reason.
NOT_RUN = {
    "Client(": "needs a cluster",
    "--scheduler": "needs a cluster",
    "s3://": "needs an object store",
    "tanager reproduce": "runs for minutes, on tables that are not shipped",
    "import jax": "needs JAX",
    "import torch": "needs PyTorch",
    "from fastapi import": "run by test_serving.py, where FastAPI is installed",
    "import tanager.mlflow": "run by test_integrations.py, where MLflow is installed",
    "import skops.io": "run by test_integrations.py, where skops is installed",
    "import mlflow": "needs a tracking server",
    "--target class --structure skdb --parameters hdp -o splice": "wants 50,000,000 rows",
}


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Return language, code and line of every block."""
    text = page.read_text(encoding="utf-8")
    return [(m.group(1), m.group(2), text[: m.start()].count("\n")) for m in FENCE.finditer(text)]


def told(page: Path) -> set[str]:
    """Return the packages that a page says to install."""
    text = page.read_text(encoding="utf-8")
    found = set()
    for extra, packages in PACKAGES.items():
        if f"extra `{extra}`" in text or re.search(rf"pip install '\.\[\w*,?{extra}\b", text):
            found.update(packages)
    for package in OPTIONAL:
        if re.search(rf"pip install [^\n`]*\b{package}\b", text):
            found.add(package)
    return found


class Blocker(importlib.abc.MetaPathFinder):
    """Lets nobody import some packages."""

    def __init__(self, packages: set[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main() -> None:
    # Nothing that starts a thread runs before the forks.
    for name in LOADED:
        importlib.import_module(name)
    assert not EVERYTHING & {*sys.modules}, "a package that pages may not have is loaded"
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what pages print is no answer
    for line in sys.stdin:
        page = Path(line.strip()).resolve()
        # A fork: the packages of one page are not those of the next, and nothing is loaded twice.
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                found = [traceback.format_exc()]
                try:
                    found = run_page(page, Path(folder))
                except BaseException:
                    found = [traceback.format_exc()]
                finally:
                    Path(folder, "result.json").write_text(json.dumps(found))
                    os._exit(0)
            os.waitpid(child, 0)
            place = Path(folder, "result.json")
            found = json.loads(place.read_text()) if place.exists() else ["it died"]
            print(json.dumps(found), file=answers, flush=True)


def run_page(page: Path, folder: Path) -> list[str]:
    """Return what went wrong, a text for each block."""
    os.chdir(folder)
    names = set_stage(folder)
    sys.meta_path.insert(0, Blocker(EVERYTHING - told(page)))
    wrong = []
    for language, code, line in blocks(page):
        if any(mark in code for mark in NOT_RUN) and language == "python":
            continue
        heard = io.StringIO()
        try:
            with redirect_stdout(heard), redirect_stderr(heard):
                if language == "python" and ">>>" in code:
                    run_examples(code, names, page, line, heard)
                elif language == "python":
                    exec(compile(code, f"{page.name}:{line + 2}", "exec"), names)
                elif language == "toml":
                    named = re.match(r"# (\S+\.toml)\n", code)
                    Path(named[1] if named else "experiment.toml").write_text(code)
                elif language == "":
                    run_lines(code)
        except BaseException:
            where = f"{page.name}, the block at line {line + 1}:\n"
            wrong.append(where + heard.getvalue() + traceback.format_exc(limit=-3))
    return wrong


def run_examples(code: str, names: dict, page: Path, line: int, heard: io.StringIO) -> None:
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    example = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
    runner.run(example, out=heard.write, clear_globs=False)
    names.update(example.globs)
    assert runner.summarize(verbose=False).failed == 0, "an example prints something else"


def run_lines(code: str) -> None:
    """Run the lines of a shell block that call the program; installing is tested elsewhere."""
    from tanager.cli.app import run

    for line in code.splitlines():
        if not line.startswith("tanager ") or any(mark in line for mark in NOT_RUN):
            continue
        arguments = shlex.split(line, comments=True)[1:]
        for option, name in pairwise(arguments):
            if option in ("-o", "--output", "--html") and name in STAGED:
                Path(name).unlink()  # its place is free where a reader follows the page
                STAGED.remove(name)
        code = run(arguments)
        assert code == 0, f"exit code {code} of: {line}"


def set_stage(folder: Path) -> dict:
    """Write the files that pages speak of; return the names that they take for granted."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)

    def table(n_rows: int, target: str, *more: str) -> pa.Table:
        y = rng.choice(["no", "yes"], n_rows)
        columns = {
            "age": rng.integers(18, 80, n_rows) + 9 * (y == "yes"),
            "job": rng.choice(["clerk", "cook", "nurse"], n_rows),
            "size": rng.choice(["S", "M", "L"], n_rows),
            "day": [f"{d:02d}/{m:02d}/2024" for d, m in rng.integers(1, 13, (n_rows, 2))],
        }
        if "id" in more:
            columns["id"] = [f"c{i}" for i in range(n_rows)]
        return pa.table({**columns, target: y} if target else columns)

    for name, target, more in (
        ("train", "label", ()), ("test", "label", ()), ("mine", "label", ("id",)),
        ("own", "label", ()), ("data", "label", ()), ("bank", "subscribed", ("id",)),
        ("new", "", ("id",)), ("a", "class", ()), ("b", "class", ()), ("iris", "class", ()),
    ):  # fmt: skip
        made = table(60, target, *more)
        pacsv.write_csv(made, folder / f"{name}.csv")
        pq.write_table(made, folder / f"{name}.parquet")
    for name, target, more in (("train", "label", ()), ("rows", "subscribed", ("id",))):
        (folder / name).mkdir()
        for part in ("1", "2"):
            pq.write_table(table(40, target, *more), folder / name / f"{part}.parquet")
    os.environ["TANAGER_DATA"] = str(folder)
    from tanager import BayesNetClassifier, save

    save(BayesNetClassifier("tan", "hdp").fit(folder / "train.csv", "label"), "model.tanager")
    bank = pq.read_table(folder / "bank.parquet").drop_columns(["id"])
    save(BayesNetClassifier("naive", "m-estimate").fit(bank, "subscribed"), "bank.tanager")
    STAGED.update(path.name for path in folder.iterdir())
    X, y = rng.normal(size=(80, 3)), rng.integers(0, 2, 80)
    X[:, 0] += y
    clf = BayesNetClassifier("tan", "hdp").fit(X, y)
    return {"X": X, "y": y, "X_new": X[:5], "clf": clf, "BayesNetClassifier": BayesNetClassifier}


if __name__ == "__main__":
    main()
