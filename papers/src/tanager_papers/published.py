"""A page that was published: its fits and numbers, for those who judge it again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tanager.evaluation.contenders import Contender
from tanager.evaluation.experiment import Experiment
from tanager_papers.findings import CELLS, KEPT, Findings, Part
from tanager_papers.probe import differs

__all__ = ["Published", "join_page"]

Place = tuple[str, str, str, str, int, int]  # run, dataset, classifier, text, round, fold


@dataclass
class Published:
    """What stands beside a page: parts, probes of its classifiers, every fit, kept numbers."""

    parts: list[Part]
    classifiers: list[dict[str, Any]]
    cells: Any  # pyarrow.Table, or None
    kept: dict[str, dict[str, Any]]
    _found: dict[Place, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, paper: str) -> Published | None:
        """Read a paper's page, or return None where there is none."""
        from pyarrow import parquet

        page = folder / f"{paper}.json"
        if not page.exists():
            return None
        data = json.loads(page.read_text(encoding="utf-8"))
        cells, kept = folder / paper / CELLS, folder / paper / KEPT
        return cls(
            [Part.from_dict(part) for part in data["parts"]],
            data["made_with"]["classifiers"],
            parquet.read_table(cells) if cells.exists() else None,
            json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {},
        )

    def agrees(self, facts: Mapping[str, Any]) -> bool:
        """Tell whether a classifier answers the probe as it did for the page."""
        then = [
            c["probe"]
            for c in self.classifiers
            if (c["use"], c["options"]) == (facts["use"], facts["options"])
        ]
        return bool(then) and not differs(then[0], facts["probe"])

    def has(self, contender: Contender) -> bool:
        """Tell whether the page has fits of another program's classifier."""
        outside = contender.pair is None and self.cells is not None
        return outside and contender.text in self.cells["use"].unique().to_pylist()

    def records(self, experiment: Experiment, publish: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return an experiment's cells; none where the page lacks one, or what cells would keep."""
        if self.cells is None or not set(experiment.keep) <= set(publish):
            return []
        if not self._found:
            names = ("run", "dataset", "classifier", "use", "round", "fold")
            self._found = {tuple(r[n] for n in names): r for r in self.cells.to_pylist()}
        found = []
        for cell in experiment.cells():
            text = experiment.contender(cell.classifier).text
            place = (experiment.name, cell.dataset, cell.classifier, text, cell.round, cell.fold)
            record = self._found.get(place)
            wanted = (*experiment.metrics, *publish)
            if record is None or any(record.get(name) is None for name in wanted):
                return []
            more = {name: json.loads(record[name]) for name in publish}
            found.append({"cell": cell.key, **record, **more})
        return found


def join_page(findings: Findings, folder: str | Path, order: Sequence[str]) -> Findings:
    """Return the page of a folder with some of its parts replaced, all in an order."""
    import pyarrow as pa

    earlier = Published.read(Path(folder), findings.paper)
    if earlier is None:
        return findings
    new = [part.name for part in findings.parts]
    parts = [*(part for part in earlier.parts if part.name not in new), *findings.parts]
    parts.sort(key=lambda part: order.index(part.name))
    cells = [] if findings.cells is None else [findings.cells]
    if earlier.cells is not None:
        stay = earlier.cells.filter(_not_in(earlier.cells["part"], new))
        runs = stay["run"].unique().to_pylist()
        cells = [stay, *(part.filter(_not_in(part["run"], runs)) for part in cells)]
    asked = [(c["use"], c["options"]) for c in findings.made_with["classifiers"]]
    others = [c for c in earlier.classifiers if (c["use"], c["options"]) not in asked]
    classifiers = [*others, *findings.made_with["classifiers"]]
    numbers = {
        name: {**earlier.kept.get(name, {}), **findings.kept.get(name, {})}
        for name in {**earlier.kept, **findings.kept}
    }
    return replace(
        findings,
        parts=parts,
        made_with={**findings.made_with, "classifiers": classifiers},
        cells=pa.concat_tables(cells, promote_options="default") if cells else None,
        kept=numbers,
    )


def _not_in(column: Any, values: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.invert(pc.is_in(column, value_set=pa.array(values, pa.string())))
