"""How long a network takes to answer: queries, densities, samples, decisions.

    python -m benchmarks.questions [--write]

A default model of 30 columns, half numbers and half categories, that depend on one another
through the class and through hidden groups. CPU time on one thread, least of a few runs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.measuring import cpu_seconds, markdown, publish
from tanager import BayesNetClassifier

N_COLUMNS, N_TRAIN, N_ROWS, N_DRAWN = 30, 5_000, 100_000, 1_000_000


def rows(n: int, seed: int) -> tuple[pa.Table, np.ndarray]:
    rng = np.random.default_rng(seed)
    y, hidden = rng.integers(0, 2, n), rng.normal(size=(n, 5))
    columns = {}
    for at in range(N_COLUMNS):
        number = 0.4 * y * (at % 3) + hidden[:, at % 5] + rng.normal(size=n)
        columns[f"x{at}"] = (
            number if at % 2 else np.char.add("v", np.digitize(number, [-1, 0, 1]).astype(str))
        )
    return pa.table(columns), y


def main() -> None:
    X, y = rows(N_TRAIN, 0)
    clf = BayesNetClassifier(n_jobs=1, random_state=0).fit(X, y)
    network = clf.network_
    new, _ = rows(N_ROWS, 1)
    row = {name: new[name][0].as_py() for name in new.column_names[1:]}
    half = {name: row[name] for name in list(row)[::2]}
    whole = cpu_seconds(lambda: clf.predict_proba(new))

    def line(name: str, seconds: float, goal: str) -> list[str]:
        shown = f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
        return [name, shown, goal]

    def ask(evidence: dict) -> float:
        return cpu_seconds(lambda: [network.query("x0", evidence) for _ in range(20)]) / 20

    scored = cpu_seconds(lambda: clf.score_samples(new))
    costs = {"treat": {0: 2, 1: 0}, "wait": {0: 0, 1: 9}, "ask a person": 1}
    decided = cpu_seconds(lambda: clf.decide(new, costs))
    table = [
        line("one feature, given the other 29", ask(row), "1 ms"),
        line("one feature, given 15 others", ask(half), ""),
        line(
            "the best completion of 15 features",
            cpu_seconds(lambda: network.most_probable(half, 1)),
            "",
        ),
        line(f"`predict_proba` of {N_ROWS:,} rows", whole, ""),
        line(f"`score_samples` of {N_ROWS:,} rows ({scored / whole:.2f}×)", scored, "1.5×"),
        line(f"`sample({N_DRAWN:,})`", cpu_seconds(lambda: network.sample(N_DRAWN), 1), "3 s"),
        line(
            f"`sample({N_DRAWN:,})` given 15 features",
            cpu_seconds(lambda: network.sample(N_DRAWN, half), 1),
            "",
        ),
        line(f"`decide` on {N_ROWS:,} rows ({decided / whole:.2f}×)", decided, ""),
        line(
            "`next_question`, 30 features unknown",
            cpu_seconds(lambda: clf.next_question({}, costs)),
            "100 ms",
        ),
        line(
            "`next_question` in bits, 15 features unknown",
            cpu_seconds(lambda: clf.next_question(half)),
            "100 ms",
        ),
        line(
            "a greedy plan of three questions, 30 features unknown",
            cpu_seconds(lambda: clf.next_question({}, n=3), 1),
            "",
        ),
        line(
            "an exact plan of two questions, 30 features unknown",
            cpu_seconds(lambda: clf.next_question({}, n=2, method="exact"), 1),
            "",
        ),
        line("`nearest`, 29 features known", cpu_seconds(lambda: clf.nearest(row), 1), ""),
    ]
    text = f"{network!r}, {N_COLUMNS} columns.\n\n" + markdown(["", "CPU time", "goal"], table)
    publish("questions", "Questions to a network", text)


if __name__ == "__main__":
    main()
