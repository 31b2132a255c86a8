"""Everything in Tanager that writes a file."""

from __future__ import annotations

import contextlib
import errno
import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from torture.concurrency import data

__all__ = ["CommandError", "Writer", "writers"]

EXPORTS = ("bif", "xml", "dot", "sql", "json", "js", "mjs", "h", "onnx")


class Writer(NamedTuple):
    """Something that writes.

    `work` writes to the path; `again`, where there is one, says whether a repetition
    without faults gives what an undisturbed run gives.
    """

    name: str
    work: Callable[[Path], Any]
    again: Callable[[Path], bool] | None = None


class CommandError(OSError):
    """The command line ended with an error, told in one line."""


def writers(place: Path) -> Iterator[Writer]:
    """Iterate over all writers; what they write of is made in the folder first."""
    work = _Work(place)
    yield from work.models()
    yield from work.predictions()
    yield from work.exports()
    yield from work.pages()
    yield work.run_file()
    yield work.fit_checkpoint("hybrid(training__epochs=4)")
    yield work.fit_checkpoint("discriminative(tol=0.01)")
    yield work.kept_rows()


class _Work:
    """A table, a model of it and a comparison, and what writes them."""

    def __init__(self, place: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        import tanager
        from tanager import BayesNetClassifier
        from tanager.evaluation import CrossValidation, Dataset, Experiment

        self.X, self.y = data(5, 200)
        table = pa.table({**{f"x{i}": self.X[:, i] for i in range(5)}, "y": self.y})
        self.rows, self.model = place / "t.parquet", place / "m.tanager"
        pq.write_table(table, self.rows)
        self.clf = BayesNetClassifier("tan", "laplace").fit(table, "y")
        tanager.save(self.clf, self.model)
        contenders, protocol = ["naive/laplace", "tan/laplace"], CrossValidation(1, 2)
        self.experiment = Experiment([Dataset("d", table, "y")], contenders, protocol, seed=1)
        self.results = self.experiment.run()

    def models(self) -> Iterator[Writer]:
        import tanager

        yield Writer("a model", lambda path: tanager.save(self.clf, path))
        yield Writer("a network", lambda path: self.clf.network_.save(path))

    def predictions(self) -> Iterator[Writer]:
        for ending in ("csv", "parquet", "arrow"):
            yield _by_command(f"predictions, {ending}", ending, "predict", self.model, self.rows)
        for ending in ("csv", "parquet"):
            yield Writer(
                f"cells, {ending}",
                lambda path, e=ending: self.results.write(path.with_suffix(f".{e}")),
            )

    def exports(self) -> Iterator[Writer]:
        for ending in EXPORTS:
            yield _by_command(f"export, {ending}", ending, "export", self.model)
        for ending in ("svg", "png"):
            yield _by_command(f"a picture, {ending}", ending, "draw", self.model)

    def pages(self) -> Iterator[Writer]:
        from tanager.report import write_comparison, write_report

        works: dict[str, Callable[[Path], None]] = {
            "the page of a comparison": lambda path: write_comparison(self.results, path),
            "the page of a model": lambda path: write_report(self.clf, path),
        }
        for name, work in works.items():
            yield Writer(name, lambda path, work=work: work(path.with_suffix(".html")))

    def run_file(self) -> Writer:
        def numbers(found: Any) -> list[Any]:
            names = ("classifier", "round", "fold", "status", *found.metrics)
            return [[record.get(name) for name in names] for record in found.records]

        return Writer(
            "a run file",
            self.experiment.run,
            lambda path: numbers(self.experiment.run(path)) == numbers(self.results),
        )

    def fit_checkpoint(self, parameters: str) -> Writer:
        from tanager import BayesNetClassifier
        from tanager.classifiers import checkpoints

        checkpoints.SECONDS = 0.0  # writes after every pass

        def check(path: Path | None) -> Any:
            fitted = BayesNetClassifier("tan", parameters, checkpoint=path, random_state=0)
            return fitted.fit(self.X, self.y).predict_proba(self.X[:30])

        checked = check(None)
        return Writer(
            f"the checkpoint of a fit of {parameters}",
            check,
            lambda path: np.array_equal(check(path), checked) and not list(path.iterdir()),
        )

    def kept_rows(self) -> Writer:
        from tanager import BayesNetClassifier

        def keep(path: Path) -> Any:
            tempfile.tempdir = str(path.parent)
            try:
                fitted = BayesNetClassifier("tan", "laplace", memory_limit=1)
                fitted.fit(str(self.rows), "y")
            finally:
                tempfile.tempdir = None
            return fitted.predict_proba(self.X[:30])

        known = self.clf.predict_proba(self.X[:30])
        return Writer("kept rows", keep, lambda path: np.array_equal(keep(path), known))


def _by_command(name: str, ending: str, *arguments: Any) -> Writer:
    """Return a command of the command line, with the path and an ending as its output."""

    def work(path: Path) -> None:
        from tanager.cli.app import run

        given = [*map(str, arguments), "--force", "-o", str(path.with_suffix(f".{ending}"))]
        heard = io.StringIO()
        with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(io.StringIO()):
            code = run(given)
        told = [line for line in heard.getvalue().splitlines() if not line.startswith(_NOTE)]
        if code:
            if len(told) != 1 or "Traceback" in told[0]:
                raise AssertionError(f"code {code}, and not one line of error: {told[:5]}")
            raise CommandError(errno.EIO, told[0])

    return Writer(name, work)


_NOTE = "tanager: note"
