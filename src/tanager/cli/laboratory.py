"""``tanager compare`` and ``tanager evaluate``: cross-validate classifiers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tanager.classifiers.info import tell_findings
from tanager.cli.console import watching
from tanager.cli.options import (
    AUDIT_REMEDY,
    ColumnOptions,
    Force,
    Json,
    LearningOptions,
    Processes,
    TableOptions,
    Texts,
    given_flags,
    read_bins,
)
from tanager.cli.output import check_output, refuse_input
from tanager.errors import ColumnWarning, ConfigurationError, DataError
from tanager.evaluation import Contender, CrossValidation, Dataset, Experiment, Results
from tanager.evaluation.runs import RunFile
from tanager.sources.formats import save_stdin
from tanager.sources.text import TextStyle

REMEDY = (
    "To treat a column as categorical, pass --categorical COLUMN. For all findings, run "
    "tanager audit DATA."
)
DEFAULT_PAIR = "auto/layered"
FAILED = 1  # exit code
PACKED = (".gz", ".zst", ".bz2")
SAID_OF_COLUMNS = ("drop", "categorical", "dates", "ordered", "monotonic")
SAID_BY_FILE = (
    *("target", "classifiers", *SAID_OF_COLUMNS, "na_values", "encoding", "decimal", "header"),
    *("rounds", "folds", "stratified", "seed", "bins"),
)
OF_FILES = ("data", "allow_imports")


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
    Learning:
        bins: How to discretize numbers: auto, mdl, fine, or a number of equal-frequency bins.
    """

    rounds: int = 5
    folds: int = 2
    stratified: bool = False
    seed: int = 0
    bins: str = "auto"
    run: Annotated[Path | None, typer.Option(dir_okay=False)] = None
    jobs: Processes = 1
    output: Path | None = None
    force: Force = False

    def experiment(
        self, paths: list[Path], target: str, contenders: list[Contender], name: str
    ) -> Experiment:
        """Return the experiment the options describe; the path ``-`` is standard input."""
        datasets = []
        for path in paths:
            if str(path) == "-":
                path, called = save_stdin(), "standard input"
            else:
                called = Path(path.stem).stem if path.suffix in PACKED else path.stem
            style = TextStyle(tuple(self.na_values or ()), self.encoding, self.decimal, self.header)
            said: dict[str, Any] = {key: tuple(getattr(self, key) or ()) for key in SAID_OF_COLUMNS}
            datasets.append(Dataset(called, path, target, style=style, **said))
        return Experiment(
            datasets,
            contenders,
            CrossValidation(self.rounds, self.folds, stratified=self.stratified),
            seed=self.seed,
            bins=read_bins(self.bins),
            name=name,
        )

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
    classifiers: Texts = None,
    html: Path | None = None,
    data: Path | None = None,
    retry_failed: bool = False,
    allow_imports: bool = False,
    details: bool = False,
    as_json: Json = False,
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
        strange = given_flags(context, *SAID_BY_FILE)
        if len(sources) > 1 or strange:
            flags = f" Leave out {', '.join(strange)}." if strange else ""
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
    from tanager.cli.tables import print_comparison

    print_comparison(results, as_json=as_json, details=details)
    if results.failures:
        raise typer.Exit(FAILED)


def _check_no_file(context: typer.Context, run: Path | None) -> None:
    """Reject options that only apply to an experiment file or a run file."""
    strange = given_flags(context, *OF_FILES)
    if strange:
        raise ConfigurationError(
            f"{', '.join(strange)}: only for an experiment file, but DATA are tables. Pass the "
            "tables by their paths without these options, or pass an experiment.toml, which can "
            "name tables of a folder."
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
    as_json: Json = False,
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
    from tanager.cli.tables import print_evaluation

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
    check_output(output, inputs, force=force)
    check_output(html, inputs, force=force, option="--html")
    if html is not None:
        from tanager.report.rendering import page_environment

        page_environment()  # fail on a missing dependency before the work, not after it
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
