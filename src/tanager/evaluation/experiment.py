"""Declaration of an experiment: datasets × classifiers × protocol × metrics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tanager.codes.cuts import check_bins
from tanager.errors import ConfigurationError
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager.evaluation.metrics import DEFAULT_METRICS, resolve_metrics
from tanager.evaluation.protocol import CrossValidation, Protocol
from tanager.evaluation.results import Results
from tanager.progress import Progress

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
        Texts such as ``"tan/hdp"`` or ``"random-forest"``, estimators, or `Contender`,
        which gives either a name.
    protocol : CrossValidation or LearningCurve
        5 rounds of 2-fold cross-validation by default.
    metrics : sequence of str
        Names from `tanager.evaluation.METRICS`; by default all that need only probabilities
        and classes.
    seed : int
        Determines folds and the classifiers' random states.
    bins : "auto", "mdl", "fine" or int
        How to discretize numbers, for all classifiers given as texts that use bins; the
        papers use "mdl". With "auto", each of Tanager's classifiers uses its default.
    name : str
        Title in reports.
    keep : sequence of str
        What else to store for every cell: ``"predictions"`` (for bias and
        variance) and ``"info"`` (the classifier's `info_`, with its traces).
    stamps : mapping of str to str
        Versions of classifiers, by name: a cell with another stamp in the run
        file is recomputed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"a": ["x", "y"] * 8, "class": ["n", "p"] * 8})
    >>> experiment = Experiment([Dataset("tiny", table)], ["categorical-nb"], CrossValidation(2))
    >>> results = experiment.run()
    >>> results.mean("zero_one_loss").tolist()
    [[0.0]]
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
        contenders = tuple(
            c if isinstance(c, Contender) else Contender.of(c) for c in self.classifiers
        )
        object.__setattr__(self, "classifiers", contenders)
        for name in ("datasets", "metrics", "keep"):
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
            raise ConfigurationError(
                f"seed={self.seed!r}. Allowed: whole numbers from 0.", parameter="seed"
            )
        for kind, names in (
            ("dataset", [d.name for d in self.datasets]),
            ("classifier", [c.name for c in contenders]),
        ):
            if not names:
                raise ConfigurationError(f"the experiment has no {kind}.")
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
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
        unknown = [k for k in self.keep if k not in _KEEP]
        if unknown:
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
                        "metrics": list(self.metrics),
                        "keep": list(self.keep),
                        "seed": self.seed,
                        "bins": self.bins,
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
    ) -> Results:
        """Run it, or resume it from the run file `path`; see `run_experiment`."""
        from tanager.evaluation.runner import run_experiment

        return run_experiment(
            self, path, n_jobs=n_jobs, progress=progress, retry_failed=retry_failed
        )

    @classmethod
    def from_toml(
        cls, path: str | Path, data: str | Path | None = None, *, allow_imports: bool = False
    ) -> Experiment:
        """Read an experiment from a TOML file.

        `data` is the folder of the datasets that are given only by name; by default, that of
        the environment variable TANAGER_DATA. With `allow_imports`, classifiers may be given by
        import path: importing a module runs its code, so only allow it for files you trust.
        Aliases such as ``random-forest`` don't need it.
        """
        from tanager.evaluation.experiment_file import read_experiment_file

        return cls(**read_experiment_file(path, data, allow_imports=allow_imports))
