"""What ideas of the default bring: its log-loss without each of them, on development tables.

    python -m benchmarks.ablation [--data FOLDER] [--rows N] [--least N] [--folds N] [--only TEXT]
                                  [--group TEXT] [--write]

Every development table of the arena, and numeric ones of KEEL (`make setup` gets them into .keel,
which TANAGER_KEEL has to name), are learned from twice, each time from two thirds of the rows and
at most N, by the default as it is and with one thing changed. The options restrict it to tables of
at least so many rows to learn from, to one fold, to one group of tables, and to changes whose
names contain a text.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.arena import FLOOR, developed_on, entries, folds
from benchmarks.measuring import ROOT, markdown, publish
from tanager import BayesNetClassifier
from tanager.loglinear import curves
from tanager.loglinear.fits import fit_scores
from tanager.parameters import layered
from tanager.parameters.layered import members, part
from tanager.structure import ktree
from tanager_papers.keel import read_keel

KEEL = (
    "australian", "banana", "bands", "breast", "crx", "german", "magic", "mammographic",
    "movement_libras", "penbased", "phoneme", "ring", "saheart", "texture", "twonorm", "vowel",
    "wdbc",
)  # fmt: skip
MANY_ROWS = 1_500  # from which on a table has many


@contextmanager
def constant(room: Any, name: str, value: Any) -> Iterator[None]:
    """Change a constant of a file."""
    with patch.object(room, name, value):
        yield


def alike(*given: Any, adapt: bool, **options: Any) -> Any:  # noqa: ARG001
    """Fit scores with one strength for all families of a layer."""
    return fit_scores(*given, adapt=False, **options)


def ranks(*given: Any) -> Any:
    """Return the scales of slants without those of the numbers and their logarithms."""
    return [slants_of(*given)[0], None, None]


def tested(*given: Any, **_: Any) -> Any:
    """Find slants as if there were few rows."""
    return find_slants(*given, has_many_rows=False)


slants_of, find_slants = curves.scales, curves.find_slants
Change = Callable[[], Any]
CHANGES: dict[str, Change] = {
    "as it is": partial(constant, curves, "N_SLANTS", curves.N_SLANTS),
    "one strength per layer, not one per family": partial(constant, members, "fit_scores", alike),
    "no straight lines in curves": partial(constant, part, "MOST_LINED", 0),
    "no curves along slants": partial(constant, part, "LEAST_SLANTED", 1 << 30),
    "two slants per pair, if they gain": partial(constant, part, "find_slants", tested),
    "eight slants per pair": partial(constant, curves, "N_SLANTS", 8),
    "slants of ranks alone": partial(constant, curves, "scales", ranks),
    "no boosted trees": partial(constant, layered, "MOST_WORK", 0),
    "three parents, whatever their groups": partial(constant, ktree, "ROOMY_PARENTS", 3),
    "at most three parents": partial(constant, ktree, "MOST_PARENTS", 3),
}


def measure(change: Change, train: Any, y: Any, test: Any, truth: Any) -> tuple[float, float]:
    """Return log-loss and CPU seconds of one fit."""
    with change():
        start = time.process_time()
        clf = BayesNetClassifier(n_jobs=1, random_state=0).fit(train, y)
        seconds = time.process_time() - start
    probability = np.full((len(truth), int(truth.max()) + 1 + int(y.max())), FLOOR)
    probability[:, clf.classes_] = clf.predict_proba(test)
    said = np.maximum(probability[np.arange(len(truth)), truth], FLOOR)
    return -float(np.log(said).mean()), seconds


class Keel(NamedTuple):
    """A table of KEEL's."""

    name: str
    rows: int

    def load(self, _: Path) -> tuple[Any, Any]:
        """Return features and class codes."""
        table = read_keel(self.name)
        codes = np.unique(table["class"].to_pylist(), return_inverse=True)[1]
        return table.drop_columns(["class"]), codes


def groups(options: argparse.Namespace) -> dict[str, list[Any]]:
    """Return the tables to compare on, by where they come from."""
    arena = [one for one in entries(options.data) if not one.arena and developed_on(one.name)]
    keel = [(stem, read_keel(stem)) for stem in KEEL]
    groups = {
        "The arena's": arena,
        "KEEL's": [Keel(stem, table.num_rows) for stem, table in keel if table is not None],
    }
    return {
        title: [one for one in known if one.rows * 2 // 3 >= options.least]
        for title, known in groups.items()
        if options.group in title
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--group", default="", help="tables of KEEL or of the arena alone")
    options = parser.parse_known_args()[0]
    warnings.simplefilter("ignore")
    pieces = [TEXT.format(rows=options.rows, many=MANY_ROWS)]
    for title, known in groups(options).items():
        pieces.append(f"## {title} development tables\n\n{compare(known, options)}")
    publish("ablation", "What ideas bring", "\n\n".join(pieces))


def compare(known: list[Any], options: argparse.Namespace) -> str:
    """Compare the default with each change on some tables."""
    changes = {
        name: change
        for name, change in CHANGES.items()
        if name == "as it is" or options.only in name
    }
    losses = np.zeros((len(changes), len(known)))
    seconds, n_rows = np.zeros_like(losses), np.zeros(len(known), np.int64)
    for at, entry in enumerate(known):
        features, labels = entry.load(options.data)
        for train, test in list(folds(labels))[: options.folds]:
            train = train[: options.rows]
            n_rows[at] = len(train)
            given = features.take(train), labels[train], features.take(test), labels[test]
            for number, change in enumerate(changes.values()):
                loss, took = measure(change, *given)
                losses[number, at] += loss / options.folds
                seconds[number, at] += took / options.folds
        print(entry.name, losses[:, at].round(4), flush=True)
    many = n_rows >= MANY_ROWS
    table = []
    for number, name in enumerate(changes):
        cells = [name]
        for chosen in (~many, many):
            if not chosen.any():
                cells.append("–")
                continue
            ratio = np.maximum(losses[number], 1e-4) / np.maximum(losses[0], 1e-4)
            told = ratio[chosen]
            mean = np.exp(np.log(told).mean())
            cells.append(f"×{mean:.3f} ({(told < 1).sum()}–{(told > 1).sum()})")
        cells.append(f"{seconds[number].sum() / seconds[0].sum():.2f}")
        table.append(cells)
    head = ["default", f"{(~many).sum()} tables", f"{many.sum()} tables", "CPU time"]
    return markdown(head, table[1:])


TEXT = """Log-loss of the default with one thing changed, against the default as it is: ratio of
geometric means over development tables of the [arena](arena.md) and of KEEL, mean of two folds,
at most {rows:,} training rows. × above 1: the change makes it worse. In brackets: tables on which
the change is better, and worse. The first column has tables of fewer than {many:,} training rows;
CPU time is that of all fits together, as a multiple."""

if __name__ == "__main__":
    main()
