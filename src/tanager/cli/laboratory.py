"""``tanager compare`` and ``tanager evaluate``: classifiers measured by cross-validation."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanager.cli.options import (
    AUDIT_REMEDY,
    Audit,
    Balanced,
    Bins,
    Categorical,
    Dates,
    Decimal,
    Drop,
    Encoding,
    Header,
    Json,
    Missing,
    Monotonic,
    NaValues,
    Ordered,
    Parameters,
    Processes,
    Structure,
    Target,
    given_flags,
    read_bins,
)
from tanager.cli.safety import Force, check_output, refuse_input
from tanager.cli.tables import live_progress
from tanager.errors import ColumnWarning, ConfigurationError, DataError

if TYPE_CHECKING:
    from tanager.evaluation import Dataset, Experiment, Results
    from tanager.sources.text import TextStyle

__all__ = ["compare", "evaluate"]

REMEDY = (
    "To take a column as categories, give it as --categorical. All findings: tanager audit DATA."
)
DEFAULT_PAIR = "auto/layered"
FAILED = 1  # exit code
PACKED = (".gz", ".zst", ".bz2")
SAID_BY_FILE = (
    *("target", "classifiers", "drop", "categorical", "dates", "ordered", "monotonic"),
    *(
        "na_values",
        "encoding",
        "decimal",
        "header",
        "rounds",
        "folds",
        "stratified",
        "seed",
        "bins",
    ),
)
OF_FILES = ("data", "allow_imports")

Run = Annotated[
    Path | None,
    typer.Option(
        "--run", help="Run file: an interrupted run goes on where it was.", dir_okay=False
    ),
]
Rounds = Annotated[int, typer.Option(help="Rounds of cross-validation.")]
Folds = Annotated[int, typer.Option(help="Folds of a round.")]
Stratified = Annotated[bool, typer.Option("--stratified", help="Every fold its share of classes.")]
Seed = Annotated[int, typer.Option(help="Decides folds and random states.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Cells as .parquet or .csv, or means as .tex (LaTeX)."),
]
Html = Annotated[Path | None, typer.Option("--html", help="Write a report of one HTML page.")]
Imports = Annotated[
    bool,
    typer.Option(
        "--allow-imports",
        help="Let the experiment file name classifiers by import path, which runs their code.",
    ),
]
TableFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder in which an experiment file's tables are found by name; else TANAGER_DATA.",
    ),
]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Try failed cells again.")]


def compare(
    context: typer.Context,
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="One experiment.toml, or tables to compare on."),
    ],
    target: Target = "class",
    classifiers: Annotated[
        list[str] | None,
        typer.Option("--with", help="tan/hdp, kdb(k=2)/m-estimate, random-forest, ..."),
    ] = None,
    drop: Drop = None,
    categorical: Categorical = None,
    dates: Dates = None,
    ordered: Ordered = None,
    monotonic: Monotonic = None,
    na_values: NaValues = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    header: Header = None,
    rounds: Rounds = 5,
    folds: Folds = 2,
    stratified: Stratified = False,
    seed: Seed = 0,
    bins: Bins = "auto",
    run: Run = None,
    jobs: Processes = 1,
    output: Output = None,
    html: Html = None,
    data: TableFolder = None,
    retry_failed: Retry = False,
    allow_imports: Imports = False,
    force: Force = False,
    details: Annotated[bool, typer.Option("--details", help="The tests of every metric.")] = False,
    as_json: Json = False,
) -> None:
    """Compare classifiers on tables, with tests of significance.

    Exit code 1 if a classifier failed; the others' results stand.
    """
    from_file = any(path.suffix == ".toml" for path in sources)
    if from_file and run is None:
        run = Path(f"{sources[0].stem}.run.jsonl")
    _check_outputs(sources, run, output, html, force=force)
    from tanager.evaluation import Contender, CrossValidation, Experiment
    from tanager.sources.text import TextStyle

    if from_file:
        _check_alone(context, sources)
        experiment = Experiment.from_toml(sources[0], data, allow_imports=allow_imports)
        _check_pairs(experiment, f"{sources[0]}: classifier")
    else:
        _check_no_file(context, run)
        style = TextStyle(tuple(na_values or ()), encoding, decimal, header)
        columns = _columns(drop, categorical, dates, ordered, monotonic)
        experiment = Experiment(
            [_dataset(path, target, style, **columns) for path in sources],
            [Contender.of(use) for use in classifiers or [DEFAULT_PAIR, "random-forest"]],
            CrossValidation(rounds, folds, stratified=stratified),
            seed=seed,
            bins=read_bins(bins),
            name="comparison",
        )
        _check_pairs(experiment, "--with")
        _note_columns(experiment, can_be_off=False)
    results = _run(experiment, run, jobs, retry_failed=retry_failed)
    if output is not None:
        results.write(output)
    if html is not None:
        from tanager.report import write_comparison

        write_comparison(results, html)
    from tanager.cli.tables import print_comparison

    print_comparison(results, as_json=as_json, details=details)
    if results.failures:
        raise typer.Exit(FAILED)


def _check_alone(context: typer.Context, sources: list[Path]) -> None:
    """Refuse what an experiment file says itself, and would be given in vain."""
    strange = given_flags(context, *SAID_BY_FILE)
    if len(sources) > 1 or strange:
        flags = f" Leave out {', '.join(strange)}." if strange else ""
        raise ConfigurationError(
            f"an experiment file says what is compared, and how: give it alone.{flags}"
        )


def _check_no_file(context: typer.Context, run: Path | None) -> None:
    """Refuse what is of an experiment file or of a run file alone, and would be given in vain."""
    strange = given_flags(context, *OF_FILES)
    if strange:
        raise ConfigurationError(
            f"{', '.join(strange)}: of an experiment file alone, and DATA are tables. Give the "
            "tables by their paths and leave the options out, or give an experiment.toml, which "
            "may name tables of a folder."
        )
    if run is None and given_flags(context, "retry_failed"):
        raise ConfigurationError(
            "--retry-failed tries the failed cells of a run file again. Name it with --run."
        )


def evaluate(
    source: Annotated[Path, typer.Argument(metavar="DATA", help="A file or folder of a table.")],
    target: Target,
    structure: Structure = "auto",
    parameters: Parameters = "layered",
    drop: Drop = None,
    categorical: Categorical = None,
    dates: Dates = None,
    ordered: Ordered = None,
    monotonic: Monotonic = None,
    na_values: NaValues = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    header: Header = None,
    missing: Missing = "value",
    balanced: Balanced = False,
    audit: Audit = True,
    rounds: Rounds = 5,
    folds: Folds = 2,
    stratified: Stratified = False,
    seed: Seed = 0,
    bins: Bins = "auto",
    run: Run = None,
    jobs: Processes = 1,
    output: Output = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Estimate by cross-validation how well a classifier will do on a table."""
    _check_outputs([source], run, output, None, force=force)
    from tanager.evaluation import Contender, CrossValidation, Experiment
    from tanager.sources.text import TextStyle

    style = TextStyle(tuple(na_values or ()), encoding, decimal, header)
    columns = _columns(drop, categorical, dates, ordered, monotonic)
    use = f"{structure}/{parameters}"
    given: dict[str, Any] = {}  # only what differs from the usual is part of a cell's identity
    if missing != "value":
        given["missing"] = missing
    if balanced:
        given["class_weight"] = "balanced"
    if not audit:
        given["audit"] = False
    experiment = Experiment(
        [_dataset(source, target, style, **columns)],
        [Contender(use, use, given)],
        CrossValidation(rounds, folds, stratified=stratified),
        seed=seed,
        bins=read_bins(bins),
        name=f"{source.stem} by {structure}/{parameters}",
    )
    if audit:
        _note_columns(experiment, can_be_off=True)
    results = _run(experiment, run, jobs, retry_failed=False)
    if output is not None:
        results.write(output)
    _refuse_failures(results)
    from tanager.cli.tables import print_evaluation

    print_evaluation(results, as_json=as_json)


def _check_pairs(experiment: Experiment, where: str) -> None:
    """Refuse pairs of learners that are not known by what was written: they are no options here."""
    for contender in experiment.contenders:
        try:
            if contender.is_pair:
                contender.check()
        except ConfigurationError as error:
            raise ConfigurationError(f"{where} {contender.use}: {error}") from error


def _columns(*said: list[str] | None) -> dict[str, Any]:
    """Return what is said of the columns, as `Dataset` has it."""
    names = ("drop", "categorical", "dates", "ordered", "monotonic")
    return {name: tuple(texts or ()) for name, texts in zip(names, said, strict=True)}


def _dataset(path: Path, target: str, style: TextStyle, **columns: Any) -> Dataset:
    """Return a table as the options describe it; ``-`` is standard input."""
    from tanager.evaluation import Dataset

    if str(path) == "-":
        from tanager.sources.formats import save_stdin

        path, name = save_stdin(), "standard input"
    else:
        name = Path(path.stem).stem if path.suffix in PACKED else path.stem
    return Dataset(name, path, target, style=style, **columns)


def _check_outputs(
    inputs: list[Path], run: Path | None, output: Path | None, html: Path | None, *, force: bool
) -> None:
    """Refuse what would write over the tables, or over a foreign file."""
    check_output(output, inputs, force=force)
    check_output(html, inputs, force=force, option="--html")
    if html is not None:
        from tanager.report.page import page_environment

        page_environment()  # what the page needs is missed before the work, not after it
    if run is not None and run.exists():  # it is added to, and a foreign file refused
        from tanager.evaluation.runs import RunFile

        refuse_input(run, inputs, "--run")
        RunFile(run).check()


def _run(experiment: Experiment, run: Path | None, jobs: int, *, retry_failed: bool) -> Results:
    with live_progress(experiment) as progress:
        return experiment.run(run, n_jobs=jobs, progress=progress, retry_failed=retry_failed)


def _note_columns(experiment: Experiment, *, can_be_off: bool) -> None:
    """Say once what every fit of the experiment does about the columns."""
    from tanager.classifiers.info import tell_findings

    experiment.check()
    for dataset in experiment.datasets:
        text = tell_findings(dataset.findings(), AUDIT_REMEDY if can_be_off else REMEDY)
        if text:
            warnings.warn(f"{dataset.name}: {text}", ColumnWarning, stacklevel=2)


def _refuse_failures(results: Results) -> None:
    if results.failures:
        first = results.failures[0]
        raise DataError(
            f"{len(results.failures)} of {len(results.records)} cells failed; the first, "
            f"{first['classifier']} on {first['dataset']}: {first['error']}"
        )
