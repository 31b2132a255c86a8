"""Names that try to break out of every output, and paths that lead elsewhere."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import re
import shutil
import sqlite3
import subprocess
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from torture.campaign import Budget, Tally
from torture.names import CONTROLS, hostile_names
from torture.paths import attack_paths

__all__ = ["security"]

N_ROWS = 48


def security(budget: Budget, tally: Tally, folder: Path) -> None:
    """Hostile names through every output; every writer on links, devices and closed files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = _Case([f"n{i}" for i in range(30)], folder / "plain")
        while budget.more():
            rng = random.Random(f"names-{budget.seed}-{budget.case}")
            place = folder / "names"
            _attack_names(_Case(hostile_names(rng, 30), place), plain, tally, budget)
            shutil.rmtree(place)
        attack_paths(folder / "paths", tally)


class _Case:
    """A table and a model whose columns, values and classes have the given names."""

    def __init__(self, names: list[str], folder: Path) -> None:
        import pyarrow.parquet as pq

        import tanager
        from tanager import BayesNetClassifier

        folder.mkdir(parents=True)
        rng = np.random.default_rng(3)
        self.folder, self.columns = folder, names[:4]
        self.labels, values = names[5:8], names[8:13]
        chosen = rng.integers(0, len(values), (3, N_ROWS))
        cells: dict[str, Any] = {
            name: [values[at] for at in row]
            for name, row in zip(self.columns, chosen, strict=False)
        }
        cells[self.columns[3]] = rng.integers(0, 9, N_ROWS) / 4
        self.X = pa.table(cells)
        self.y = [self.labels[(a + b) % 3] for a, b in chosen[:2].T]
        self.target = names[4]
        self.rows = folder / "t.parquet"
        pq.write_table(self.X.append_column(self.target, pa.array(self.y)), self.rows)
        self.clf = BayesNetClassifier("tan", "laplace", random_state=0).fit(self.X, self.y)
        self.network = self.clf.network_.edit(
            self.columns[0], neutralise=True, reason=names[13], author=names[14]
        )
        self.model = folder / "m.tanager"
        tanager.save(self.clf, self.model)
        self.edited = folder / "e.tanager"
        self.network.save(self.edited)

    def command(self, *words: Any) -> str:
        """Run the command line; return what it printed."""
        from tanager.cli.app import run

        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([str(word) for word in words])
        if code:
            raise RuntimeError(f"{words[0]}: code {code}: {err.getvalue()[-300:]}")
        return out.getvalue() + err.getvalue()


def _attack_names(case: _Case, plain: _Case, tally: Tally, budget: Budget) -> None:
    for check in (*_TEXTS, _pages, _terminal, _watched, _comparison, _spreadsheets, _files):
        try:
            problem = check(case, plain)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"[:300]
        what = f"{check.__name__.strip('_')}: {problem}"
        tally.check(problem is None, what, seed=budget.seed, case=budget.case)


def _dot(case: _Case, plain: _Case) -> str | None:
    """Outside quoted strings there is only what a model of plain names has there."""
    texts = [_outside_quotes(one.network.to_dot()) for one in (case, plain)]
    if any(text is None for text in texts):
        return "a quoted string does not end"
    words = [set(re.findall(r"[a-zA-Z]+", str(text))) for text in texts]
    if not words[0] <= words[1]:
        return f"words outside quotes: {words[0] - words[1]}"
    return _steers(case.network.to_dot())


def _outside_quotes(text: str) -> str | None:
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.DOTALL)
    return None if '"' in outside else outside


def _bif(case: _Case, _: _Case) -> str | None:
    text = case.network.to_bif()
    body = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
    if not text.isascii() or re.search(r"[^\w \n{}\[\](),;.|-]", body):
        return "more than plain words"
    return None if body.count("variable ") == len(case.columns) + 1 else "variables are split"


def _xml(case: _Case, plain: _Case) -> str | None:
    found = [
        {element.tag for element in ElementTree.fromstring(one.network.to_xmlbif()).iter()}
        for one in (case, plain)
    ]
    return None if found[0] <= found[1] else f"elements: {found[0] - found[1]}"


def _json(case: _Case, _: _Case) -> str | None:
    text = case.network.to_json()
    if "</" in text:
        return "an end tag"
    told = json.dumps(json.loads(text))
    missing = [n for n in case.columns if json.dumps(n)[1:-1] not in told]
    return f"names are changed: {missing}" if missing else None


def _javascript(case: _Case, _: _Case) -> str | None:
    text = case.network.to_javascript()
    if "</script" in text.lower() or "<!--" in text:
        return "an end tag or a comment of HTML"
    node = shutil.which("node")
    if node is None:
        return _steers(text)
    (case.folder / "m.cjs").write_text(text, encoding="utf-8")
    (case.folder / "rows.json").write_text(json.dumps(case.X.to_pylist()))
    done = subprocess.run([node, "-e", _SCORE], cwd=case.folder, capture_output=True)
    if done.returncode:
        return f"Node does not run it: {done.stderr[-200:]!r}"
    joint = case.network.log_joint(case.X)
    expected = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    moved = np.abs(np.array(json.loads(done.stdout)) - expected).max()
    return _steers(text) if moved < 1e-9 else f"Node's probabilities differ by {moved:.2g}"


_SCORE = """
const model = require("./m.cjs"), rows = JSON.parse(require("fs").readFileSync("rows.json"));
console.log(JSON.stringify(rows.map((row) => model.proba(row))));
"""


def _c(case: _Case, _: _Case) -> str | None:
    compiler = shutil.which("cc")
    text = case.network.to_c()
    if compiler is not None:
        (case.folder / "m.h").write_text(text, encoding="utf-8")
        (case.folder / "m.c").write_text('#include "m.h"\nint main(void) { return 0; }\n')
        command = [compiler, "-std=c99", "-fsyntax-only", "-Wall", "-Werror=comment",
                   "-Werror=trigraphs", "m.c"]  # fmt: skip
        done = subprocess.run(command, cwd=case.folder, capture_output=True)
        if done.returncode:
            return f"a compiler does not read it: {done.stderr[-200:]!r}"
    return _steers(text)


def _sql(case: _Case, _: _Case) -> str | None:
    """Run the statement in SQLite: the same probabilities, and the table is as it was."""
    from tanager import BayesNetClassifier
    from tanager.errors import ConfigurationError

    names = [name for name in case.columns if "\0" not in name]
    folded = {name.lower() for name in names}
    if len(folded) < len(names) or not names or "" in folded:
        return None  # SQLite knows no such two columns, nor one without a name
    network = BayesNetClassifier("tan", "laplace").fit(case.X.select(names), case.y).network_
    try:
        statement = network.to_sql(table="rows", dialect="sqlite")
    except ConfigurationError:
        return None
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        connection.execute(f"create table rows ({', '.join(quoted)})")
        rows = list(zip(*(case.X[name].to_pylist() for name in names), strict=True))
        marks = ", ".join("?" * len(names))
        connection.executemany(f"insert into rows values ({marks})", rows)
        found = connection.execute(statement).fetchall()
        left = connection.execute("select count(*) from rows").fetchone()
    if len(found) != N_ROWS or left != (N_ROWS,):
        return f"{len(found)} rows came out, {left} are left"
    return _in_duckdb(network, case.X.select(names))


def _in_duckdb(network: Any, table: pa.Table) -> str | None:
    """Run the statement in DuckDB, where it is installed: the same probabilities."""
    try:
        import duckdb
    except ImportError:
        return None
    joint = network.log_joint(table)
    expected = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    statement = network.to_sql(table="rows", dialect="duckdb", keep=[])
    with contextlib.closing(duckdb.connect()) as connection:
        connection.register("rows", table)
        found = np.array(connection.execute(statement).fetchall(), float)
    moved = np.abs(found - expected).max() if found.shape == expected.shape else np.inf
    return None if moved < 1e-9 else f"DuckDB's probabilities differ by {moved:.2g}"


def _steers(text: str) -> str | None:
    """Return which characters would steer a terminal."""
    found = {char for char in text if char in CONTROLS}
    return f"steering characters {sorted(map(ascii, found))}" if found else None


_TEXTS: tuple[Callable[[_Case, _Case], str | None], ...] = (
    *(_dot, _bif, _xml, _json, _javascript, _c, _sql),
)


class _Page(HTMLParser):
    """Collects tags, handlers and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.active: set[str] = set()
        self.n_scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.n_scripts += tag == "script"
        for name, value in attrs:
            live = (value or "").strip().lower().startswith(("javascript:", "data:text", "http"))
            if name.startswith("on") or (name in ("href", "src", "action") and live):
                self.active.add(f"{name}={value}"[:80])


def _pages(case: _Case, plain: _Case) -> str | None:
    """Pages and pictures have the tags of the same pages with plain names."""
    from tanager.network import explain_row
    from tanager.report.model_page import render_report

    shows: dict[str, Callable[[_Case], str]] = {
        "classifier": lambda one: one.clf._repr_html_(),
        "network": lambda one: one.network._repr_html_(),
        "structure": lambda one: one.clf.structure_._repr_html_(),
        "table": lambda one: one.network.table(one.columns[1])._repr_html_(),
        "explanation": lambda one: explain_row(one.clf, one.X.slice(0, 1))._repr_html_(),
        "report": lambda one: render_report(one.clf),
        "report of an edited network": lambda one: render_report(one.network),
        "report with rows": lambda one: render_report(one.clf, one.X, one.y, folds=0),
    }
    for name, show in shows.items():
        page, own = _Page(show(case)), _Page(show(plain))
        if not page.tags <= own.tags or page.n_scripts != own.n_scripts:
            return f"{name}: tags {page.tags - own.tags}, {page.n_scripts} scripts"
        if not page.active <= own.active:
            return f"{name}: active {page.active - own.active}"
    for one in (case, plain):
        one.command("draw", one.model, "-o", one.folder / "m.svg", "--force")
        one.command("draw", one.model, "--table", one.columns[1], "-o", one.folder / "t.svg",
                    "--force")  # fmt: skip
    for file in ("m.svg", "t.svg"):
        tags = [
            {e.tag for e in ElementTree.parse(one.folder / file).iter()} for one in (case, plain)
        ]
        if not tags[0] <= tags[1]:
            return f"{file}: elements {tags[0] - tags[1]}"
    return None


def _terminal(case: _Case, _: _Case) -> str | None:
    """No command prints what steers a terminal."""
    commands: tuple[tuple[Any, ...], ...] = (
        ("show", case.model),
        ("show", case.edited),
        ("show", case.model, "--json"),
        ("explain", case.model, case.rows),
        ("score", case.model, case.rows, "-t", case.target),
        ("audit", case.rows, "-t", case.target),
    )
    for command in commands:
        problem = _steers(case.command(*command))
        if problem:
            return f"{command[0]}: {problem}"
    return None


class _Screen(io.TextIOWrapper):
    """Standard output as a person's terminal."""

    def __init__(self) -> None:
        self.raw_bytes = io.BytesIO()
        self.raw_bytes.isatty = lambda: True  # type: ignore[attr-defined]
        super().__init__(self.raw_bytes, encoding="utf-8", errors="replace", write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.flush()
        return self.raw_bytes.getvalue().decode("utf-8", "replace")


# What Rich itself sends to a terminal: colours and moves of the cursor.
_RICH = re.compile(r"\x1b\[[0-9;?]*[A-HJKlhmsu]|\r")


def _steers_screen(text: str) -> str | None:
    for mark in ("\x1b[31mred", "\x1b]"):
        if mark in text:
            return f"{mark!a} reaches the terminal"
    return _steers(_RICH.sub("", text))


def _watched(case: _Case, _: _Case) -> str | None:
    """Where a person watches, rows, bars and errors are shown otherwise: nothing steers either."""
    from tanager.cli.app import run

    commands: tuple[tuple[Any, ...], ...] = (
        ("predict", case.model, case.rows, "--keep", case.columns[1], "--keep", case.target),
        ("show", case.model),
        ("predict", case.model, case.rows, "--keep", "\x1b[31mred\x1b]0;x\x07"),
        ("score", case.model, case.rows, "-t", "\x1b[31mred\x1b]0;x\x07"),
    )
    for command in commands:
        out, err = _Screen(), _Screen()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            run([str(word) for word in command])
        problem = _steers_screen(out.text() + err.text())
        if problem:
            return f"{command[0]}: {problem}"
    return None


def _comparison(case: _Case, plain: _Case) -> str | None:
    """Datasets and classifiers of hostile names: bars, tables, the page, the cells."""
    from tanager.cli.laboratory import print_comparison
    from tanager.cli.output import watching
    from tanager.evaluation import Contender, CrossValidation, Dataset, Experiment
    from tanager.report.page import render_comparison

    pages = []
    for one in (case, plain):
        whole = one.X.append_column(one.target, pa.array(one.y))
        uses = ("naive/laplace", "tan/laplace", "naive/laplace(alpha='x')")
        contenders = [Contender(n, u) for n, u in zip(one.columns[:3], uses, strict=True)]
        datasets = [Dataset(name, whole, one.target) for name in one.labels[:2]]
        experiment = Experiment(datasets, contenders, CrossValidation(1, 2), name=one.target)
        screen = _Screen()
        with contextlib.redirect_stderr(screen), contextlib.redirect_stdout(screen):
            with watching() as progress:
                results = experiment.run(one.folder / "run.jsonl", progress=progress)
            print_comparison(results, as_json=False)
        problem = _steers_screen(screen.text())
        if problem:
            return problem
        pages.append(_Page(render_comparison(results)))
        results.write(one.folder / "cells.csv")
    page, own = pages
    if not page.tags <= own.tags or page.n_scripts != own.n_scripts or page.active - own.active:
        return f"the page: tags {page.tags - own.tags}, active {page.active - own.active}"
    text = (case.folder / "cells.csv").read_bytes().decode()
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    bad = [cell for cell in cells if _FORMULA.match(cell)]
    return f"formulas: {bad[:2]!r}" if bad else None


_FORMULA = re.compile("[=@\uff1d\uff20]|[-+\uff0b\uff0d\t\r\n].*[(|!]", re.DOTALL)


def _spreadsheets(case: _Case, _: _Case) -> str | None:
    """No cell of a CSV is a formula; the rows and columns are all there."""
    out = case.folder / "p.csv"
    case.command("predict", case.model, case.rows, "-o", out, "--force", "--keep", case.columns[1],
                 "--keep", case.target)  # fmt: skip
    rows = list(csv.reader(io.StringIO(out.read_bytes().decode(), newline="")))
    if len(rows) != N_ROWS + 1 or {len(row) for row in rows} != {len(rows[0])}:
        return "rows or columns are split"
    bad = [cell for row in rows for cell in row if _FORMULA.match(cell)]
    return f"formulas: {bad[:2]!r}" if bad else None


def _files(case: _Case, _: _Case) -> str | None:
    """Expect every name back from a model file, and the same answers."""
    import tanager

    loaded = tanager.load(case.model)
    if list(loaded.feature_names_in_) != case.columns or set(loaded.classes_) != set(case.y):
        return "names are changed"
    same = np.array_equal(loaded.predict_proba(case.X), case.clf.predict_proba(case.X))
    return None if same else "probabilities are changed"
