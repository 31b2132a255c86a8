"""Results of an experiment: a tidy table of cells, and its means over folds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from tanager.atomic import replacing
from tanager.errors import ConfigurationError, DataError
from tanager.escaping import inert
from tanager.evaluation.metrics import COSTS, METRICS, Reliability
from tanager.evaluation.runs import RunFile, check_cell, check_description

ENDINGS = (".parquet", ".csv")  # of result files


class Scores(NamedTuple):
    """One number per dataset and classifier."""

    metric: str
    datasets: tuple[str, ...]
    classifiers: tuple[str, ...]  # without those that have no finished dataset
    values: NDArray[np.float64]  # (n_datasets, n_classifiers)
    excluded: tuple[str, ...] = ()  # datasets without a value of each classifier

    @property
    def greater(self) -> bool:
        """Whether higher is better."""
        return self.metric in METRICS and METRICS[self.metric].greater

    @property
    def losses(self) -> NDArray[np.float64]:
        """The values, negated if necessary so that lower is better, for significance tests."""
        return -self.values if self.greater else self.values

    def of(self, classifier: str) -> NDArray[np.float64]:
        """Return the column of one classifier."""
        if classifier not in self.classifiers:
            hint = f"Available: {', '.join(self.classifiers)}."
            raise ConfigurationError(f"classifier {classifier!r} isn't in the results. {hint}")
        return self.values[:, self.classifiers.index(classifier)]

    def to_dataframe(self) -> Any:
        """Return the values as a pandas DataFrame, datasets by classifiers."""
        import pandas as pd

        return pd.DataFrame(self.values, list(self.datasets), list(self.classifiers))


class Results:
    """The results of an experiment, cell by cell.

    Parameters
    ----------
    description : dict
        The experiment, as plain data.
    records : sequence of dict
        One per cell.

    Attributes
    ----------
    datasets, classifiers : tuple of str
        In the experiment's order.
    """

    def __init__(self, description: dict[str, Any], records: Sequence[dict[str, Any]]) -> None:
        self.description = description
        self.datasets = tuple(d["name"] for d in description["datasets"])
        self.classifiers = tuple(c["name"] for c in description["classifiers"])
        places = {name: i for i, name in enumerate(self.datasets)}
        columns = {name: i for i, name in enumerate(self.classifiers)}
        # A run file may contain cells of an earlier version of the experiment.
        self.records = sorted(
            (r for r in records if r["dataset"] in places and r["classifier"] in columns),
            key=lambda r: (places[r["dataset"]], columns[r["classifier"]], r["round"], r["fold"]),
        )
        by_place = groupby(self.records, lambda r: (r["dataset"], r["classifier"]))
        self.grid = {place: list(cells) for place, cells in by_place}

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """Read the results of a run file."""
        run = RunFile(path)
        if not run.path.exists():
            raise DataError(f"{run.path.name}: no such run file.")
        name = run.path.name
        cells = (check_cell(record, name) for record in run.cells())
        latest = {(r["dataset"], r["classifier"], r["round"], r["fold"]): r for r in cells}
        results = cls(check_description(run.description(), name), list(latest.values()))
        for record in results.records:
            check_cell(record, name, results.measured)
        return results

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return tuple(self.description["metrics"])

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the metrics, and of the times and memory of every cell."""
        return (*self.metrics, *(name for name in COSTS if name not in self.metrics))

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The cells that failed."""
        return [record for record in self.records if not _is_done(record)]

    def table(self) -> Any:
        """Return the tidy table (pyarrow): one row per cell."""
        kinds = {
            **dict.fromkeys(("dataset", "classifier"), pa.string()),
            **dict.fromkeys(("round", "fold", "n_train", "n_test"), pa.int64()),
            **dict.fromkeys(self.measured, pa.float64()),
            **dict.fromkeys(("status", "error", "version"), pa.string()),
        }
        return pa.Table.from_pylist(self.records, pa.schema(kinds))

    def to_dataframe(self) -> Any:
        """Return `table` as a pandas DataFrame."""
        return self.table().to_pandas()

    def write(self, path: str | Path) -> None:
        """Write the tidy table as Parquet or CSV, by the file's extension."""
        name, ending = Path(path).name, Path(path).suffix
        if ending not in ENDINGS:
            raise ConfigurationError(f"{name}: allowed extensions are {' and '.join(ENDINGS)}.")
        with replacing(path) as part:
            if ending == ".csv":
                csv.write_csv(inert(self.table()), part)
            else:
                parquet.write_table(self.table(), part)

    def mean(self, metric: str) -> Scores:
        """Average a metric, or a time, over the cells of each dataset and classifier.

        A metric that `is_pooled` is averaged over the rounds.
        """
        return self.scores(metric, self._over_parts(metric, np.mean))

    def deviation(self, metric: str) -> Scores:
        """Return the standard deviation of what `mean` averages; NaN for a single number."""
        mean = self.mean(metric)
        values = self._over_parts(metric, lambda v: np.std(v, ddof=1) if len(v) > 1 else np.nan)
        rows = np.isin(self.datasets, mean.datasets)
        columns = np.isin(self.classifiers, mean.classifiers)
        return mean._replace(values=values[np.ix_(rows, columns)])

    def is_pooled(self, metric: str) -> bool:
        """Return whether a metric is computed over all held-out rows of a round.

        The calibration error is: on the few rows of a fold, it's mostly noise. Each cell still
        stores its own. In a learning curve, a cell is a round's only measurement of its size.
        """
        pooled = metric in METRICS and METRICS[metric].pooled
        return pooled and "sizes" not in self.description.get("protocol", {})

    def cells(self, metric: str, dataset: str, classifier: str) -> list[dict[str, Any]]:
        """Return the finished cells of a dataset and classifier that have the metric."""
        cells = self.grid.get((dataset, classifier), ())
        return [r for r in cells if _is_done(r) and r.get(metric) is not None]

    def failed_classifiers(self) -> dict[str, str]:
        """Return the classifiers without a finished dataset, each with the first error."""
        whole = {name for (_, name), cells in self.grid.items() if all(map(_is_done, cells))}
        reasons: dict[str, str] = {}
        for cell in self.failures:
            reasons.setdefault(cell["classifier"], str(cell["error"]).splitlines()[-1])
        return {n: reasons[n] for n in self.classifiers if n in reasons and n not in whole}

    def scores(self, metric: str, values: NDArray[np.float64]) -> Scores:
        """Label numbers, without classifiers that always failed, then datasets with a failure."""
        failed = self.failed_classifiers()
        kept = [j for j, name in enumerate(self.classifiers) if name not in failed]
        values = values[:, kept]
        whole = np.asarray(np.isfinite(values).all(axis=1)) & bool(kept)
        finished = tuple(compress(self.datasets, whole))
        names, excluded = tuple(self.classifiers[j] for j in kept), compress(self.datasets, ~whole)
        return Scores(metric, finished, names, values[whole], tuple(excluded))

    def _over_parts(self, metric: str, function: Any) -> NDArray[np.float64]:
        """Apply a function to the numbers of each dataset and classifier; NaN: a failure."""
        values = np.full((len(self.datasets), len(self.classifiers)), np.nan)
        for (dataset, classifier), cells in self.grid.items():
            if all(map(_is_done, cells)):
                if metric not in cells[0]:
                    hint = f"Available: {', '.join(self.measured)}."
                    raise ConfigurationError(f"metric {metric!r} wasn't measured. {hint}")
                place = self.datasets.index(dataset), self.classifiers.index(classifier)
                parts = self._parts(metric, cells)
                values[place] = function(parts) if parts else np.nan
        return values

    def _parts(self, metric: str, cells: list[dict[str, Any]]) -> list[float]:
        """Return a metric of each cell, or of each round if it's pooled."""
        if self.is_pooled(metric):
            by_round = groupby(cells, lambda cell: cell["round"])
            return [_add_bins(list(folds)).error() for _, folds in by_round]
        # A fold with a single class has no AUC: the mean is over the others.
        return [cell[metric] for cell in cells if cell.get(metric) is not None]

    def reliability(self, classifier: str) -> Reliability:
        """Sum confidence and accuracy by bin over a classifier's cells."""
        cells = [r for r in self.records if _is_done(r) and r["classifier"] == classifier]
        if not cells:
            raise DataError(f"classifier {classifier!r} has no finished cell.")
        return _add_bins(cells)

    def title(self, metric: str) -> str:
        """Return the display name of a metric."""
        return METRICS[metric].title if metric in METRICS else metric.replace("_", " ")


def _is_done(cell: dict[str, Any]) -> bool:
    return bool(cell["status"] == "ok")


def _add_bins(cells: list[dict[str, Any]]) -> Reliability:
    """Sum confidence and accuracy by bin over finished cells."""
    parts = [cell["reliability"] for cell in cells]
    rows, confidence, correct = (np.sum([p[i] for p in parts], axis=0) for i in range(3))
    return Reliability(rows.astype(np.int64), confidence, correct.astype(np.int64))
