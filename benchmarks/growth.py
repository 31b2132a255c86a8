"""Time and memory of a fit against the size of a table, one dimension at a time.

    python -m benchmarks.growth                    small sizes, about three CPU minutes
    python -m benchmarks.growth --full --write     up to a million categories; publishes the page
    python -m benchmarks.growth --only classes     one dimension
    python -m benchmarks.growth --full --only classes --write --record docs/measurements/growth.json
                                                   the same, beside those measured before

Each point is a process of its own, stopped past --seconds of CPU time or --gigabytes. An
exponent is the slope of the logarithms over the larger half of the sizes; above linear is a
finding.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring import MEASUREMENTS, in_new_process, markdown, publish

MODELS = {"default": "auto/layered", "tan": "tan/hdp", "skdb": "skdb/hdp", "naive": "naive/laplace"}
LINEAR = 1.15  # exponents up to here count as linear: what is measured has noise
FLOOR_SECONDS, FLOOR_MB = 0.05, 8.0  # below, growth is not told from noise


class Size(NamedTuple):
    """A table: its rows, columns, values of each column, classes, and letters of a value."""

    rows: int = 20_000
    columns: int = 4
    values: int = 8
    classes: int = 2
    letters: int = 4


@dataclass(frozen=True)
class Axis:
    """One dimension that grows while the others stay."""

    title: str
    field: str
    base: Size
    quick: tuple[int, ...]
    full: tuple[int, ...]

    def sizes(self, *, full: bool) -> Iterator[tuple[int, Size]]:
        """Yield each size and the table of it."""
        for size in self.full if full else self.quick:
            base = self.base
            if full and self.field == "values":  # one row for each of the most values
                base = base._replace(rows=max(self.full))
            elif full and self.field == "classes":  # two for each of the most classes
                base = base._replace(rows=2 * max(self.full))
            yield size, base._replace(**{self.field: size})


AXES = {
    "rows": Axis("rows", "rows", Size(columns=10), (10_000, 40_000, 160_000), (
        10_000, 50_000, 250_000, 1_000_000)),
    "columns": Axis("columns", "columns", Size(rows=500, values=3), (100, 400, 1_600), (
        500, 2_000, 8_000, 20_000)),
    "categories": Axis("values of each of two columns", "values", Size(rows=40_000, columns=2), (
        100, 1_000, 10_000), (1_000, 10_000, 60_000, 250_000, 1_000_000)),
    "classes": Axis("classes", "classes", Size(rows=4_000, columns=5), (10, 50, 250), (
        50, 250, 1_000, 5_000)),
    "text": Axis("letters of each value", "letters", Size(rows=4_000), (10, 100, 1_000), (
        100, 1_000, 10_000, 100_000)),
}  # fmt: skip

POINT = """
import json
from benchmarks.growth import Size, measure
print(json.dumps(measure(Size(*{size!r}), {model!r}, {seconds}, {gigabytes})))
"""


def make_table(size: Size) -> tuple[Any, np.ndarray]:
    """Return texts and labels; the first column tells a little about the class."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    labels = rng.integers(0, size.classes, size.rows)
    columns = {}
    for at in range(size.columns):
        codes = rng.integers(0, size.values, size.rows)
        if at == 0:
            codes = np.where(rng.random(size.rows) < 0.3, labels % size.values, codes)
        texts = pa.array([f"{v:x}".rjust(size.letters, "v") for v in range(size.values)])
        columns[f"c{at}"] = pa.DictionaryArray.from_arrays(codes, texts).dictionary_decode()
    return pa.table(columns), labels


def measure(size: Size, model: str, seconds: int, gigabytes: float) -> dict[str, Any]:
    """Fit and predict one table in this process; return CPU seconds and MiB, or why it ended."""
    from tanager import BayesNetClassifier
    from tanager.engines.keeping import peak_memory_mb, reset_peak_memory

    X, y = make_table(size)
    limit = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    end = int(time.process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (end, end))
    # Twice: what a first call loads and compiles is no growth.
    for rows in (200, size.rows):
        few = X.slice(0, rows)
        clf = BayesNetClassifier(*model.split("/"), categorical_features="all", random_state=0)
        reset_peak_memory()
        before, start = peak_memory_mb() or 0.0, time.process_time()
        try:
            clf.fit(few, y[:rows])
        except (MemoryError, ValueError) as error:
            return {"stopped": f"{type(error).__name__}: {error}"[:160]}
        fit, peak = time.process_time() - start, (peak_memory_mb() or 0.0) - before
    start = time.process_time()
    clf.predict_proba(X.slice(0, 1_000))
    return {"fit": fit, "predict": time.process_time() - start, "memory": peak}


def exponent(sizes: Sequence[int], costs: Sequence[float], floor: float) -> float | None:
    """Return the slope of log cost on log size over the larger half; None below the floor.

    >>> round(exponent([1, 10, 100, 1000], [0.5, 5.0, 50.0, 500.0], 0.1), 2)
    1.0
    """
    own = np.asarray(costs)
    use = (own > floor) & (np.arange(len(own)) >= (len(own) - 1) // 2)
    if use.sum() < 2:
        return None
    return float(np.polyfit(np.log(np.asarray(sizes)[use]), np.log(own[use]), 1)[0])


def run_axis(axis: Axis, options: argparse.Namespace) -> dict[str, list[tuple[int, Any]]]:
    """Return the points of every model, in order of size; none after one that was stopped."""
    found: dict[str, list[tuple[int, Any]]] = {}
    for model, pair in MODELS.items():
        for number, size in axis.sizes(full=options.full):
            code = POINT.format(
                size=tuple(size), model=pair, seconds=options.seconds, gigabytes=options.gigabytes
            )
            try:
                point = in_new_process(code)
            except RuntimeError as error:
                last = str(error).strip().splitlines()
                point = {"stopped": last[-1][:160] if last else f"past {options.seconds} CPU s"}
            found.setdefault(model, []).append((number, point))
            print(f"{axis.title} {number:,} {model}: {point}", file=sys.stderr)
            if "stopped" in point:
                break
    return found


def describe(name: str, axis: Axis, found: dict[str, list[tuple[int, Any]]]) -> tuple[str, list]:
    """Return the table of one dimension, and its findings."""
    lines, findings = [], []
    for model, points in found.items():
        done = [(n, point) for n, point in points if "stopped" not in point]
        sizes = [n for n, _ in done]
        for what, floor in (
            ("fit", FLOOR_SECONDS),
            ("predict", FLOOR_SECONDS),
            ("memory", FLOOR_MB),
        ):
            costs = [point[what] for _, point in done]
            slope = exponent(sizes, costs, floor) if len(done) > 1 else None
            told = "" if slope is None else f"{slope:.2f}"
            if slope is not None and slope > LINEAR:
                told = f"**{told}**"
                findings.append(f"{name}, {model}: {what} grows with the power {slope:.2f}.")
            cells = [f"{cost:,.2f}" if what != "memory" else f"{cost:,.0f}" for cost in costs]
            cells += ["stopped"] * (len(points) - len(done))
            cells += [""] * (max(map(len, found.values())) - len(cells))
            unit = "MiB" if what == "memory" else "CPU s"
            lines.append([model, f"{what}, {unit}", *cells, told])
        findings += [f"{name}, {model}: {p['stopped']} (at {n:,})" for n, p in points[len(done) :]]
    longest = max(found.values(), key=len)
    head = [axis.title, "", *(f"{n:,}" for n, _ in longest), "exponent"]
    return f"## {axis.title.capitalize()}\n\n{markdown(head, lines)}\n", findings


def draw(found: dict[str, dict[str, list[tuple[int, Any]]]]) -> None:
    """Write the curves of CPU time and memory, a panel for each dimension."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(found), figsize=(3.2 * len(found), 5.6), squeeze=False)
    for column, (name, models) in enumerate(found.items()):
        for row, what in enumerate(("fit", "memory")):
            panel = axes[row, column]
            for model, points in models.items():
                done = [(n, p[what]) for n, p in points if "stopped" not in p]
                panel.loglog(*zip(*done, strict=True), marker="o", markersize=3, label=model)
            panel.set_xlabel(name)
            panel.set_ylabel("CPU s" if what == "fit" else "MiB")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(MEASUREMENTS / "growth.svg", metadata={"Date": None})


def main() -> None:
    """Measure, and print or publish the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="sizes up to the largest promised")
    parser.add_argument("--only", choices=[*AXES, "none"], action="append", help="one dimension")
    parser.add_argument("--seconds", type=int, default=300, help="CPU time of one point")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="memory of one point")
    parser.add_argument("--record", type=Path, help="JSON file of the points, kept and added to")
    options, _ = parser.parse_known_args()
    known = options.record is not None and options.record.exists()
    found = json.loads(options.record.read_text()) if known else {}
    for name in AXES if options.only is None else set(options.only) & AXES.keys():
        found[name] = run_axis(AXES[name], options)
        if options.record is not None:
            options.record.write_text(json.dumps(found, indent=1))
    found = {name: found[name] for name in AXES if name in found}
    parts = [describe(name, AXES[name], points) for name, points in found.items()]
    findings = [line for _, lines in parts for line in lines]
    lines = [table for table, _ in parts]
    if "--write" in sys.argv:
        draw(found)
        lines.insert(0, "![CPU time and memory against each dimension](growth.svg)\n")
    lines += ["## Above linear\n", *(f"- {line}" for line in findings)]
    lines += [] if findings else ["Nothing grows faster than the table."]
    publish("growth", "Time and memory against the size of a table", "\n".join(lines))


if __name__ == "__main__":
    main()
