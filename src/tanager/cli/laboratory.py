"""``tanager compare`` and ``tanager evaluate``: cross-validate classifiers, and print results."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanager.classifiers.fitting import tell_findings
from tanager.cli.options import (
    AUDIT_REMEDY,
    ColumnOptions,
    LearningOptions,
    Processes,
    TableOptions,
    given_flags,
)
from tanager.cli.output import (
    PAGES,
    check_output,
    console,
    plain,
    plain_table,
    print_json,
    refuse_input,
    watching,
)
from tanager.errors import ColumnWarning, ConfigurationError, DataError
from tanager.evaluation import Contender, CrossValidation, Dataset, Experiment, Results
from tanager.evaluation.metrics import DEFAULT_METRICS, known_number
from tanager.evaluation.results import ENDINGS
from tanager.evaluation.runs import RunFile
from tanager.evaluation.summary import (
    ALPHA,
    Summary,
    leading_metric,
    p_text,
    say_pooled,
    summarize,
    verdict,
)
from tanager.sources.formats import save_stdin
from tanager.sources.text import TextStyle

if TYPE_CHECKING:
    from rich.console import Console

REMEDY = (  # `compare` has no option to turn the audit off
    "To treat a column as categorical, pass --categorical COLUMN. For all findings, run "
    "tanager audit DATA."
)
DEFAULT_PAIR = "auto/layered"
FAILED = 1  # exit code
PACKED = (".gz", ".zst", ".bz2")
SAID_OF_COLUMNS = ("drop", "categorical", "dates", "ordered", "monotonic")
SAID_BY_FILE = (
    *("target", "classifiers", *SAID_OF_COLUMNS, "classes_ordered"),
    *("na_values", "encoding", "decimal", "header"),
    *("rounds", "folds", "stratified", "seed", "bins"),
)
OF_FILES = ("data", "allow_imports")
# The columns of the first table; --details and --json show every metric.
OVERVIEW = ("accuracy", "auc", "f1", "log_loss", "brier_score", "calibration_error")


@dataclass(frozen=True)
class LaboratoryOptions(ColumnOptions, TableOptions):
    """Options of `compare` and `evaluate`: the tables and the cross-validation protocol.

    Options:
        rounds: Number of cross-validation rounds.
        folds: Folds per round.
        stratified: Stratify the folds by class.
        seed: Seed for folds and random states.
        run: Run file: an interrupted run resumes from it.
        output (-o): Cells as .parquet or .csv.
    """

    rounds: int = 5
    folds: int = 2
    stratified: bool = False
    seed: int = 0
    run: Annotated[Path | None, typer.Option(dir_okay=False)] = None
    jobs: Processes = 1
    output: Path | None = None
    force: bool = False

    def experiment(
        self, paths: list[Path], target: str, contenders: list[Contender], name: str
    ) -> Experiment:
        """Return the experiment the options describe; the path ``-`` is standard input."""
        style = TextStyle(tuple(self.na_values or ()), self.encoding, self.decimal, self.header)
        said: dict[str, Any] = {key: tuple(getattr(self, key) or ()) for key in SAID_OF_COLUMNS}
        said |= {"classes_ordered": tuple(self.classes), "style": style}
        datasets = []
        for path in paths:
            called = Path(path.stem).stem if path.suffix in PACKED else path.stem
            if str(path) == "-":
                path, called = save_stdin(), "standard input"
            datasets.append(Dataset(called, path, target, **said))
        protocol = CrossValidation(self.rounds, self.folds, stratified=self.stratified)
        how: dict[str, Any] = {"seed": self.seed, "bins": self.binning, "name": name}
        return Experiment(datasets, contenders, protocol, **how)

    def measure(self, experiment: Experiment, run: Path | None, *, retry: bool = False) -> Results:
        """Run an experiment, and write its cells to ``--output``."""
        with watching() as progress:
            results = experiment.run(run, n_jobs=self.jobs, progress=progress, retry_failed=retry)
        if self.output is not None:
            results.write(self.output)
        return results


def compare(
    context: typer.Context,
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="One experiment.toml, or tables to compare on."),
    ],
    options: LaboratoryOptions,
    target: str = "class",
    classifiers: list[str] | None = None,
    html: Path | None = None,
    data: Path | None = None,
    retry_failed: bool = False,
    allow_imports: bool = False,
    details: bool = False,
    as_json: bool = False,
) -> None:
    """Compare classifiers on several datasets, with significance tests.

    Exit code 1 if a classifier failed; the results of the others are kept.

    Options:
        classifiers (--with): tan/hdp, kdb(k=2)/m-estimate, random-forest, ...
        html: Write an HTML report.
        data: Folder of the tables an experiment file refers to by name. [default: $TANAGER_DATA]
        retry_failed: Retry failed cells.
        allow_imports: Let the experiment file name classifiers by import path, which runs their
            code.
        details: Show the tests for every metric.
    Columns:
        target (-t): The column to predict.
    """
    from_file, run = any(path.suffix == ".toml" for path in sources), options.run
    if from_file and run is None:
        run = Path(f"{sources[0].stem}.run.jsonl")
    _check_outputs(sources, run, options.output, html, force=options.force)
    if from_file:
        strange = ", ".join(given_flags(context, *SAID_BY_FILE))
        if len(sources) > 1 or strange:
            flags = f" Leave out {strange}." if strange else ""
            raise ConfigurationError(
                "an experiment file already defines what to compare and how, so pass nothing "
                f"else.{flags}"
            )
        experiment = Experiment.from_toml(sources[0], data, allow_imports=allow_imports)
        _check_pairs(experiment, f"{sources[0]}: classifier")
    else:
        _check_no_file(context, run)
        contenders = [Contender.of(use) for use in classifiers or [DEFAULT_PAIR, "random-forest"]]
        experiment = options.experiment(sources, target, contenders, "comparison")
        _check_pairs(experiment, "--with")
        _note_columns(experiment, REMEDY)
    results = options.measure(experiment, run, retry=retry_failed)
    if html is not None:
        from tanager.report import write_comparison

        write_comparison(results, html)
    print_comparison(results, as_json=as_json, details=details)
    if results.failures:
        raise typer.Exit(FAILED)


def _check_no_file(context: typer.Context, run: Path | None) -> None:
    """Reject options that only apply to an experiment file or a run file."""
    if strange := ", ".join(given_flags(context, *OF_FILES)):
        raise ConfigurationError(
            f"{strange}: only for an experiment file, but DATA are tables. Pass the tables by "
            "their paths without these options, or pass an experiment.toml, which can name tables "
            "of a folder."
        )
    if run is None and given_flags(context, "retry_failed"):
        raise ConfigurationError(
            "--retry-failed retries the failed cells of a run file. Name it with --run."
        )


def evaluate(
    source: Annotated[Path, typer.Argument(metavar="DATA", help="A file or folder of a table.")],
    target: str,
    options: LaboratoryOptions,
    learning: LearningOptions,
    as_json: bool = False,
) -> None:
    """Estimate a classifier's performance by cross-validation.

    Columns:
        target (-t): The column to predict.
    """
    _check_outputs([source], options.run, options.output, None, force=options.force)
    use = f"{learning.structure}/{learning.parameters}"
    given: dict[str, Any] = {}  # only non-default settings are part of a cell's identity
    if learning.missing != "value":
        given["missing"] = learning.missing
    if learning.balanced:
        given["class_weight"] = "balanced"
    if not learning.audit:
        given["audit"] = False
    name = f"{source.stem} by {use}"
    experiment = options.experiment([source], target, [Contender(use, use, given)], name)
    if learning.audit:
        _note_columns(experiment, AUDIT_REMEDY)
    results = options.measure(experiment, options.run)
    if results.failures:
        first = results.failures[0]
        raise DataError(
            f"{len(results.failures)} of {len(results.records)} cells failed; the first, "
            f"{first['classifier']} on {first['dataset']}: {first['error']}"
        )
    print_evaluation(results, as_json=as_json)


def _check_pairs(experiment: Experiment, where: str) -> None:
    """Reject unknown pairs of learners, quoting them as written: they aren't options here."""
    for contender in experiment.contenders:
        try:
            if contender.pair is not None:
                contender.check()
        except ConfigurationError as error:
            raise ConfigurationError(f"{where} {contender.use}: {error}") from error


def _check_outputs(
    inputs: list[Path], run: Path | None, output: Path | None, html: Path | None, *, force: bool
) -> None:
    """Reject outputs that would overwrite the tables or an unrelated file."""
    check_output(output, inputs, ENDINGS, force=force)
    check_output(html, inputs, PAGES, force=force, option="--html")
    if run is not None and run.exists():  # a run file is appended to, any other rejected
        refuse_input(run, inputs, "--run")
        RunFile(run).check()


def _note_columns(experiment: Experiment, remedy: str) -> None:
    """Warn once about the columns that every fit of the experiment converts or leaves out."""
    experiment.check()
    for dataset in experiment.datasets:
        text = tell_findings(dataset.findings(), remedy)
        if text:
            warnings.warn(f"{dataset.name}: {text}", ColumnWarning, stacklevel=2)


def print_evaluation(results: Results, *, as_json: bool) -> None:
    """Print mean and standard deviation of one classifier on one table."""
    cells, numbers = results.records, {}
    for name in results.measured:
        both = results.mean(name), results.deviation(name)
        numbers[name] = [known_number(s.values[0, 0]) if s.datasets else None for s in both]
    if as_json:
        facts = {"experiment": results.description, "verdict": verdict(results)}
        means = {name: {"mean": m, "deviation": s} for name, (m, s) in numbers.items()}
        print_json({**facts, "cells": len(cells), **means})
        return
    out = console()
    out.print(f"[bold]{plain(verdict(results))}[/]\n")
    table = plain_table("", "mean", "deviation")
    for name, pair in numbers.items():
        shown = ["" if v is None else f"{v:.4f}" if abs(v) < 100 else f"{v:.1f}" for v in pair]
        table.add_row(results.title(name), *shown)
    out.print(table)
    protocol, seed = results.description["protocol"], results.description["seed"]
    rounds = "1 round" if protocol["rounds"] == 1 else f"{protocol['rounds']} rounds"
    out.print(f"{len(cells)} cells: {rounds} of {protocol['folds']} folds, seed {seed}")
    if say_pooled(results):
        out.print(say_pooled(results))


def print_comparison(results: Results, *, as_json: bool, details: bool = False) -> None:
    """Print the verdict, one row per classifier, and the tests for the main or every metric."""
    if as_json:
        shown = ("dataset", "classifier", "round", "fold", "error")
        content = {
            "experiment": results.description,
            "verdict": verdict(results),
            "metrics": [summarize(results, metric).to_dict() for metric in results.metrics],
            "failures": [{key: cell[key] for key in shown} for cell in results.failures],
        }
        print_json(content)
        return
    out = console()
    out.print(f"[bold]{plain(verdict(results))}[/]\n")
    failed = results.failed_classifiers()
    if len(failed) < len(results.classifiers):
        _print_overview(out, results)
    for name, reason in failed.items():
        # Not wrapped, so that a command in it can be copied.
        out.print(f"[bold]{plain(name)}[/] failed: {plain(reason)}", soft_wrap=True)
    if len(failed) == len(results.classifiers):
        return
    for metric in results.metrics if details else [leading_metric(results)]:
        out.print()
        _print_summary(out, results, summarize(results, metric))
    if not details:
        out.print("\nFor every metric: --details")
    partly = [f for f in results.failures if f["classifier"] not in failed]
    if partly:
        cells = plain_table("dataset", "classifier", "error", title=f"{len(partly)} failed cells")
        errors = {(f["dataset"], f["classifier"]): f["error"].splitlines()[-1] for f in partly}
        for place, error in errors.items():
            cells.add_row(*map(plain, (*place, error[:120])))
        out.print(cells)


def _print_overview(out: Console, results: Results) -> None:
    """Print one row per classifier: means, with standard deviations if there is one table."""
    from tanager.report.page import score_table

    # Metrics that the user chose are all shown.
    shown = OVERVIEW if results.metrics == DEFAULT_METRICS else results.metrics
    table, one = score_table(results, shown), len(results.datasets) == 1
    rows = []
    for row in table["rows"]:
        texts = [f"[bold]{cell.text}[/]" if cell.best else cell.text for cell in row["cells"]]
        spreads = [f" {cell.spread}" if one and cell.spread else "" for cell in row["cells"]]
        rows.append([plain(row["name"]), *map("".join, zip(texts, spreads, strict=True))])
    _print_rows(out, ["classifier", *table["columns"]], [row for row in rows if len(row) > 1])
    means = f"Means over {len(results.datasets)} tables; ↓ lower is better, ↑ higher is better."
    out.print(table["caption"] if one else means, markup=False)
    if not one and say_pooled(results):
        out.print(say_pooled(results))


def _print_rows(out: Console, titles: list[str], rows: list[list[str]]) -> None:
    """Print a table, or one block of lines per row if it's wider than the terminal."""
    table = plain_table(*titles)
    for cells in rows:
        table.add_row(*cells)
    if out.measure(table, options=out.options.update_width(10_000)).maximum <= out.width:
        out.print(table)
        return
    for name, *cells in rows:
        block = plain_table(name, "")
        for title, cell in zip(titles[1:], cells, strict=True):
            block.add_row(f"  {title}", cell)
        out.print(block)


def _print_summary(out: Console, results: Results, summary: Summary) -> None:
    scores = summary.scores
    if len(scores.datasets) == 1:
        _print_pairs_of_one_table(out, results, summary)
        return
    table = plain_table("dataset", *scores.classifiers, title=results.title(scores.metric))
    for name, row in zip(scores.datasets, scores.values, strict=True):
        best = row.max() if scores.greater else row.min()
        table.add_row(plain(name), *(f"[bold]{v:.4f}[/]" if v == best else f"{v:.4f}" for v in row))
    if summary.pairs:
        table.add_section()
        table.add_row("mean", *(f"{v:.4f}" for v in scores.values.mean(axis=0)))
        table.add_row("rank", *(f"{summary.ranks[c]:.2f}" for c in scores.classifiers))
    out.print(table)
    if summary.pairs:
        pairs = plain_table("", "", "wins–draws–losses", "sign test", "Wilcoxon", "ratio")
        for pair in summary.pairs:
            ratio = "" if pair.ratio is None else f"{pair.ratio:.3f}"
            p, q = _p_value(pair.record.p_value), _p_value(pair.wilcoxon_p)
            pairs.add_row(plain(pair.a), plain(pair.b), str(pair.record), p, q, ratio)
        out.print(pairs)
    if summary.friedman is not None and summary.nemenyi is not None:
        chi_square, p_value = summary.friedman
        out.print(
            f"Friedman: chi-square {chi_square:.2f}, p {_p_value(p_value)}; "
            f"Nemenyi: critical difference {summary.nemenyi.critical_difference:.2f}"
        )
    if scores.excluded:
        names = ", ".join(scores.excluded)
        out.print(f"left out, for lack of a value of each classifier: {names}", markup=False)


def _print_pairs_of_one_table(out: Console, results: Results, summary: Summary) -> None:
    """Print the differences of all pairs on one table, with the corrected t-test."""
    scores = summary.scores
    title = f"{results.title(scores.metric)}: differences on {scores.datasets[0]}"
    pairs = plain_table("", "", "difference", "corrected t-test, p", title=title)
    for pair in summary.pairs:
        gap = float(scores.of(pair.a)[0] - scores.of(pair.b)[0])
        p = "" if pair.corrected_p is None else _p_value(pair.corrected_p)
        pairs.add_row(plain(pair.a), plain(pair.b), f"{gap:+.4f}", p)
    if summary.pairs:
        out.print(pairs)


def _p_value(p: float) -> str:
    return f"[bold]{p_text(p)}[/]" if p <= ALPHA else p_text(p)
