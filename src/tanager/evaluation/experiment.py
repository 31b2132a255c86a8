"""Declaration of an experiment: datasets × classifiers × protocol × metrics, also in TOML."""

from __future__ import annotations

import hashlib
import json
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tanager import __version__
from tanager.codes.groups import check_bins
from tanager.errors import ConfigurationError, invalid
from tanager.evaluation import runs
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset, data_folder, find_dataset
from tanager.evaluation.metrics import DEFAULT_METRICS, resolve_metrics
from tanager.evaluation.protocol import CrossValidation, LearningCurve, Protocol
from tanager.evaluation.results import Results
from tanager.evaluation.runner import compute_cells, environment
from tanager.progress import Progress
from tanager.sources.text import TextStyle

_KEEP = ("predictions", "info")
_MAX_CELLS = 1_000_000


class Cell(NamedTuple):
    """One fit and one prediction: a cell in the grid of an experiment."""

    dataset: str  # by name
    classifier: str
    round: int  # position in the protocol
    fold: int
    key: str  # digest of everything that determines the cell's numbers

    def facts(self) -> dict[str, Any]:
        """Return the cell's description in a run file, without its numbers."""
        return {"cell": self.key, **{k: v for k, v in self._asdict().items() if k != "key"}}

    def failed(self, error: str) -> dict[str, Any]:
        """Return the record of the cell if it failed."""
        return {**self.facts(), "status": "failed", "error": error}


@dataclass(frozen=True, eq=False)
class Experiment:
    """Which classifiers to compare, on which tables, and how.

    Parameters
    ----------
    datasets : sequence of Dataset
    classifiers : sequence of Contender, str or estimator
        Texts such as ``"tan/hdp"`` or ``"random-forest"``, estimators, or either with a name.
    protocol : CrossValidation or LearningCurve
        5 rounds of 2-fold cross-validation by default.
    metrics : sequence of str
        From `tanager.evaluation.METRICS`; by default all that need only probabilities and classes.
    seed : int
        Determines folds and the classifiers' random states.
    bins : "auto", "mdl", "fine" or int
        How to discretize numbers, for all classifiers given as texts that use bins; the papers use
        "mdl". With "auto", each of Tanager's classifiers uses its default.
    name : str
        Title in reports.
    keep : sequence of str
        What else to store for every cell: ``"predictions"`` (for bias and variance) and ``"info"``
        (the classifier's `info_`, with its traces).
    stamps : mapping of str to str
        Versions of classifiers, by name: a cell with another stamp in the run file is recomputed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"a": ["x", "y"] * 8, "class": ["n", "p"] * 8})
    >>> experiment = Experiment([Dataset("tiny", table)], ["categorical-nb"], CrossValidation(2))
    >>> results = experiment.run()
    >>> results.mean("zero_one_loss").values
    array([[0.]])
    """

    datasets: Sequence[Dataset]
    classifiers: Sequence[Any]
    protocol: Protocol = CrossValidation()  # noqa: RUF009 (frozen)
    metrics: Sequence[str] = DEFAULT_METRICS
    seed: int = 0
    bins: str | int = "auto"
    name: str = "experiment"
    keep: Sequence[str] = ()
    stamps: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        contenders = [c if isinstance(c, Contender) else Contender.of(c) for c in self.classifiers]
        object.__setattr__(self, "classifiers", contenders)
        for name in ("datasets", "classifiers", "metrics", "keep"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for dataset in self.datasets:
            if not isinstance(dataset, Dataset):
                raise ConfigurationError(
                    f"the experiment's datasets contain a {type(dataset).__name__}. "
                    "Pass Dataset(name, table, target)."
                )
        resolve_metrics(tuple(self.metrics))
        if self.bins != "auto":
            check_bins(self.bins)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise invalid("seed", self.seed, "whole numbers from 0")
        for kind, named in (("dataset", self.datasets), ("classifier", contenders)):
            names = [one.name for one in named]
            if not names:
                raise ConfigurationError(f"the experiment has no {kind}.")
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ConfigurationError(
                    f"two {kind}s are called {twice[0]!r}. Give each a different name."
                )
        n_cells = self.protocol.rounds * self.protocol.n_parts
        n_cells *= len(self.datasets) * len(contenders)
        if n_cells > _MAX_CELLS:
            raise ConfigurationError(
                f"the experiment has {n_cells:,} cells (rounds × folds × datasets × classifiers). "
                f"Allowed: {_MAX_CELLS:,}. Use fewer folds or rounds."
            )
        if unknown := [k for k in self.keep if k not in _KEEP]:
            raise ConfigurationError(f"keep has {unknown[0]!r}. Allowed: {', '.join(_KEEP)}.")

    @property
    def contenders(self) -> tuple[Contender, ...]:
        """The classifiers, each as a Contender."""
        return tuple(c for c in self.classifiers if isinstance(c, Contender))

    def dataset(self, name: str) -> Dataset:
        """Return a dataset by name."""
        return next(d for d in self.datasets if d.name == name)

    def contender(self, name: str) -> Contender:
        """Return a classifier by name."""
        return next(c for c in self.contenders if c.name == name)

    def cells(self) -> Iterator[Cell]:
        """Iterate over the grid, dataset by dataset, so that a worker keeps its table."""
        # With more rounds, the cells of the earlier ones stay the same.
        division = {k: v for k, v in self.protocol.to_dict().items() if k != "rounds"}
        whole = self.to_dict()
        common = {key: whole[key] for key in ("metrics", "keep", "seed", "bins")}
        for dataset in self.datasets:
            data = dataset.fingerprint()
            places = [(0, 0)] if dataset.train_rows is not None else list(self.protocol.places())
            for round_, fold in places:
                for contender in self.contenders:
                    facts = {
                        "names": [dataset.name, contender.name],
                        "data": data,
                        "use": contender.text,
                        "options": dict(contender.options),
                        "division": division if dataset.train_rows is None else None,
                        "place": [round_, fold],
                        **common,
                    }
                    if contender.name in self.stamps:
                        facts["stamp"] = self.stamps[contender.name]
                    text = json.dumps(facts, sort_keys=True, default=repr)
                    key = hashlib.sha256(text.encode()).hexdigest()[:20]
                    yield Cell(dataset.name, contender.name, round_, fold, key)

    def check(self) -> None:
        """Reject wrong names of learners, options, tables and columns before the first cell."""
        for contender in self.contenders:
            contender.check()
        takes_signs = any(contender.takes_signs for contender in self.contenders)
        for dataset in self.datasets:
            if dataset.monotonic and not takes_signs:
                raise ConfigurationError(
                    f"monotonic={dataset.monotonic[0]!r} has no meaning for any of the "
                    "classifiers. Use parameters='layered'.",
                    parameter="monotonic",
                )
            n_rows = dataset.check()
            if dataset.train_rows is None:
                self.protocol.check(n_rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the description for reports and run files, as plain data."""
        return {
            "name": self.name,
            "datasets": [d.to_dict() for d in self.datasets],
            "classifiers": [c.to_dict() for c in self.contenders],
            "protocol": self.protocol.to_dict(),
            "metrics": list(self.metrics),
            "keep": list(self.keep),
            "seed": self.seed,
            "bins": self.bins,
        }

    def run(
        self,
        path: str | Path | None = None,
        *,
        n_jobs: int = 1,
        progress: Progress | None = None,
        retry_failed: bool = False,
        until: float | None = None,
    ) -> Results:
        """Run or resume it; return its cells in the order of its grid.

        Cells already in the run file `path` aren't recomputed, unless they failed and
        `retry_failed` is set; without a file nothing is stored. Numbers don't depend on `n_jobs`,
        the number of processes (-1: one per core). No cell is started after the time `until` of
        `time.monotonic`; the results then lack the others.
        """
        self.check()
        cells, reporter = list(self.cells()), progress or Progress()
        deadline = inf if until is None else until
        with ExitStack() as stack:
            if path is None:
                path = Path(stack.enter_context(TemporaryDirectory())) / "run.jsonl"
            run = stack.enter_context(runs.RunFile(path))
            run.begin({**self.to_dict(), "environment": environment()})
            done = {
                record["cell"]: record
                for record in (runs.check_cell(cell, run.path.name) for cell in run.cells())
                if not (retry_failed and record["status"] == "failed")
            }
            reporter.start(self.name, len(cells), unit="cells")
            for cell in cells:
                if cell.key in done:
                    reporter.advance(1, **self._headline(done[cell.key]))
            todo = [cell for cell in cells if cell.key not in done]
            late = time.monotonic() >= deadline
            for record in compute_cells(self, [] if late else todo, n_jobs):
                record["version"] = __version__
                run.append(record)
                done[record["cell"]] = record
                reporter.advance(1, **self._headline(record))
                if time.monotonic() >= deadline:
                    break
            reporter.finish()
            description = run.description()
        return Results(description, [done[cell.key] for cell in cells if cell.key in done])

    def _headline(self, record: dict[str, Any]) -> dict[str, Any]:
        facts = {key: record[key] for key in ("dataset", "classifier", "status")}
        loss = record.get(self.metrics[0])
        return {**facts, "seconds": record.get("fit_seconds", 0.0), "loss": loss}

    @classmethod
    def from_toml(
        cls, path: str | Path, data: str | Path | None = None, *, allow_imports: bool = False
    ) -> Experiment:
        """Read an experiment from a TOML file.

        `data` is the folder of the datasets that are given only by name; by default, TANAGER_DATA
        names it. With `allow_imports`, classifiers may be given by import path: importing a module
        runs its code, so only allow it for files you trust. Aliases such as ``random-forest`` don't
        need it.
        """
        file = Path(path)
        try:
            found = _checked(_parse(file), _EXPERIMENT, file.name)
            kind = LearningCurve if "sizes" in found.get("protocol", {}) else CrossValidation
            schema = _CURVE if kind is LearningCurve else _FOLDS
            plan = _checked(found.get("protocol", {}), schema, f"{file.name}, [protocol]")
            datasets = _datasets(found.get("datasets", ()), file, data)
            contenders = _contenders(found.get("classifiers", ()), file)
        except RecursionError as error:
            raise ConfigurationError(
                f"{file.name}: arrays or tables are nested too deeply. No key of an experiment "
                "file needs that."
            ) from error
        for contender in contenders:
            if contender.imports is not None and not allow_imports:
                raise ConfigurationError(
                    f"{file.name}: classifier {contender.use[:80]!r} would import and run "
                    f"{contender.imports[:80]!r}. If you trust the file, allow it with "
                    "--allow-imports, or Experiment.from_toml(path, allow_imports=True)."
                )
        parts = {"protocol": kind(**plan), "datasets": datasets, "classifiers": contenders}
        return cls(**{"name": file.stem, **found, **parts})


# Experiments in TOML files: they may come from someone else, so every key is checked before any
# table is opened or run, and code is only imported if the caller allows it.

MAX_BYTES = 1 << 15  # a file with all 72 tables of the papers has 3 kB


def _is_plain(value: Any) -> bool:
    """Return whether a value can be written to a run file, unlike TOML's dates and times."""
    if isinstance(value, dict | list):
        return all(map(_is_plain, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str | int | float)


_PLAIN = runs.Kind("texts, numbers, true or false, and lists and tables of them", _is_plain)
_ENTRY = runs.TEXT.otherwise(runs.TABLE)
_EXPERIMENT: runs.Schema = {
    "name": runs.TEXT,
    "seed": runs.WHOLE,
    "bins": runs.TEXT.otherwise(runs.WHOLE),
    "protocol": runs.TABLE,
    **dict.fromkeys(("metrics", "keep"), runs.TEXTS),
    **dict.fromkeys(("datasets", "classifiers"), runs.TEXTS.otherwise(runs.TABLE)),
}
_STYLE: runs.Schema = {
    "na_values": runs.TEXTS,
    "encoding": runs.TEXT,
    "decimal": runs.TEXT,
    "header": runs.FLAG,
}
_OF_COLUMNS = ("categorical", "classes_ordered", "dates", "drop", "monotonic", "ordered")
_DATASET: runs.Schema = {
    **dict.fromkeys(_OF_COLUMNS, runs.TEXTS),
    **dict.fromkeys(("path", "target"), runs.TEXT),
    "train_rows": runs.WHOLE,
    **_STYLE,
}
_CURVE: runs.Schema = {"sizes": runs.WHOLES, "rounds": runs.WHOLE, "test_share": runs.NUMBER}
_FOLDS: runs.Schema = {"rounds": runs.WHOLE, "folds": runs.WHOLE, "stratified": runs.FLAG}


def _parse(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise ConfigurationError(f"{file.name}: {reason}. Pass an experiment file.") from error
    if len(raw) > MAX_BYTES:
        raise ConfigurationError(
            f"{file.name} has more than {MAX_BYTES:,} bytes. An experiment file names tables and "
            "classifiers; it doesn't contain data."
        )
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except ValueError as error:  # also raised by a number with too many digits
        raise ConfigurationError(f"{file.name} is not TOML: {error}.") from error


def _checked(values: Mapping[str, Any], schema: runs.Schema, where: str) -> dict[str, Any]:
    """Return a table after checking its keys and values; lists as tuples."""
    for key in values:
        if key not in schema:
            raise ConfigurationError(
                f"{where}: {key[:80]!r} isn't valid. Allowed: {', '.join(sorted(schema))}."
            )
    runs.check_keys(values, schema, where, ConfigurationError)
    return {k: tuple(value) if isinstance(value, list) else value for k, value in values.items()}


def _datasets(given: Any, file: Path, data: str | Path | None) -> list[Dataset]:
    if isinstance(given, tuple):
        return [find_dataset(name, data_folder(data)) for name in given]
    where, found = f"{file.name}, [datasets]", []
    for name, entry in _checked(given, dict.fromkeys(given, _ENTRY), where).items():
        table = {"path": entry} if isinstance(entry, str) else entry
        facts = _checked(table, _DATASET, f"{where}, [{name}]")
        path = facts.pop("path", None)
        if any(key in facts for key in _STYLE):
            facts["style"] = TextStyle(**{k: facts.pop(k) for k in _STYLE if k in facts})
        named = find_dataset(name, data_folder(data)) if path is None else None
        found.append(replace(named or Dataset(name, file.parent / path), **facts))
    return found


def _contenders(given: Any, file: Path) -> list[Contender]:
    if isinstance(given, tuple):
        return [Contender.of(use) for use in given]
    where, found = f"{file.name}, [classifiers]", []
    for name, entry in _checked(given, dict.fromkeys(given, _ENTRY), where).items():
        options = {"use": entry} if isinstance(entry, str) else dict(entry)
        if "use" not in options:
            raise ConfigurationError(f"{where}: classifier {name!r} doesn't say what to `use`.")
        schema = {**dict.fromkeys(options, _PLAIN), "use": runs.TEXT}
        runs.check_keys(options, schema, f"{where}, [{name}]", ConfigurationError)
        found.append(Contender(name, options.pop("use"), options))
    return found
