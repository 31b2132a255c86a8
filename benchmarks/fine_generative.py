"""Whether generative tables of fine intervals, shrunk towards groups of them, help the default.

The default's generative member reads every feature by groups of its values. A
Pólya tree goes on below them, P(x | ...) = P(group | y, parent) P(x | group, y),
both by the same hierarchical Dirichlet processes: within a group the intervals'
shares in a class shrink towards those in all classes, and these towards equal
ones. This compares the member, and the pool, with and without it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measuring import KeptRuns, loss_on_new_rows, markdown, publish
from tanager import BayesNetClassifier
from tanager.codes import Domain, Rows
from tanager.codes.groups import group_codes
from tanager.counts import Counts
from tanager.parameters import layered
from tanager.parameters.layered.members import Generative
from tanager.parameters.tables import log_posterior
from tanager.structure import FitPlan, Structure

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
TABLES = (
    *("bupa", "glass", "haberman", "heart_cleveland", "ionosphere", "iris", "new_thyroid"),
    *("pima", "segment", "sonar", "vehicle", "wine"),
)
ROWS = 1000


class Groups(Generative):
    """Tables of groups, as the default has them; tells its loss also where it is left out."""

    latest = float("nan")

    def choose(self, trial) -> None:
        """Answer for the left-out rows by tables of the others."""
        super().choose(trial)
        type(self).latest = self.loss


class PolyaTree(Generative):
    """Tables of groups, and below each group a table of its values."""

    latest = float("nan")

    def choose(self, trial) -> None:
        """Answer for the left-out rows by tables of the others."""
        said = []
        for part, rows in zip(trial.parts, trial.held, strict=True):
            structure, tables = self._tables(part, intervals=False)
            codes = rows.gather().codes
            grouped = group_codes(codes, part.groups)
            joint = tables.log_joint(structure, grouped, part.grouped_counts.domain.arities)
            for feature, logs in self._within(part).items():
                known = codes[feature] < len(logs)
                joint[known] += logs[codes[feature][known]]
            said.append(log_posterior(joint))
        self.tell(trial, said)
        type(self).latest = self.loss

    def scores(self, part):
        """Return the tables' logarithms."""
        scores, within = super().scores(part), self._within(part)
        known = zip(part.structure.selected, scores.values, strict=True)
        return scores._replace(values=[within.get(feature, values) for feature, values in known])

    def _within(self, part) -> dict[int, np.ndarray]:
        """Return log P(x | group, y) of each feature's values, (arity, n_classes)."""
        rows = part.rows if part.fold is None else part.rows.subset(part.fold)
        codes, labels, weights = rows.gather()[:3]
        columns, places = [], []
        for feature, groups in enumerate(part.groups):
            for group in range(int(groups.max()) + 1):
                members = np.flatnonzero(groups == group)
                if len(members) > 1:
                    table = np.full(len(groups) + 1, len(members))
                    table[members] = np.arange(len(members))
                    columns.append(table[codes[feature]])
                    places.append((feature, members))
        if not columns:
            return {}
        names = tuple(f"c{at}" for at in range(len(places)))
        arities = np.array([len(members) for _, members in places])
        domain = Domain(names, arities, rows.domain.n_classes)
        kept = Rows.in_memory(domain, np.stack(columns).astype(np.uint8), labels, weights)
        naive = Structure.from_parents(names, [()] * len(names))
        context = part.context.inner()
        tables = self.learner.learn(naive, Counts(kept, context), FitPlan(context))
        out: dict[int, np.ndarray] = {}
        for (feature, members), table in zip(places, tables.families, strict=True):
            if feature not in out:
                shape = (int(part.rows.domain.arities[feature]), rows.domain.n_classes)
                out[feature] = np.zeros(shape)
            out[feature][members] = table.to_dense().log_prob
        return out


def run(name: str, seed: int) -> dict[str, float]:
    """Return the losses on new rows of the member and of the pool, either way."""
    table = pd.read_parquet(DATA / f"{name}.parquet")
    order = np.random.default_rng(seed).permutation(len(table))[: 2 * ROWS]
    X, y = table.drop(columns="class").iloc[order], table["class"].to_numpy()[order]
    half, out = len(order) // 2, {}
    for way, member in (("groups", Groups), ("tree", PolyaTree)):
        layered.Generative = member
        clf = BayesNetClassifier(audit=False).fit(X.iloc[:half], y[:half])
        out[f"pool, {way}"] = loss_on_new_rows(clf, X.iloc[half:], y[half:])
        record = clf.info_["parameters"]
        left_out = "smooth" in record["members"][-1]["member"]
        out[f"member, {way}"] = member.latest
        out[f"share, {way}"] = 0.0 if left_out else record["shares"][-1]
    layered.Generative = Generative
    return out


def main() -> None:
    """Measure, and publish."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--kept", type=Path, help="a file of finished runs, to go on from")
    arguments, _ = parser.parse_known_args()
    kept, rows, wins = KeptRuns(arguments.kept), [], np.zeros((2, 2), int)
    for name in TABLES:
        found = [
            kept.of(f"{name} {seed}", partial(run, name, seed)) for seed in range(arguments.splits)
        ]
        mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
        for at, what in enumerate(("member", "pool")):
            better = mean[f"{what}, tree"] < mean[f"{what}, groups"]
            wins[at, int(better)] += 1
        cells = [f"{mean[f'{w}, {v}']:.4f}" for w in ("member", "pool") for v in ("groups", "tree")]
        shares = [f"{mean[f'share, {v}']:.2f}" for v in ("groups", "tree")]
        rows.append([name, *cells, *shares])
        print(rows[-1], flush=True)
    head = ["table"]
    head += [f"{w}, {v}" for w in ("member", "pool", "share") for v in ("groups", "tree")]
    text = TEXT + markdown(head, rows)
    text += f"\n\nThe tree is better on {wins[0, 1]} of {len(rows)} tables alone, and on "
    text += f"{wins[1, 1]} in the pool."
    publish("fine_generative", "Generative tables below the groups", text)


TEXT = """The default's generative member reads features by groups of their values. A Pólya tree
would go on below them: P(x) = P(group | y, parent) · P(x | group, y), both by hierarchical
Dirichlet processes. Log-loss of the member on held-out folds of the training rows, log-loss of the
whole pool on the other half of the table (at most 1,000 rows each), and the member's share in the
pool; means over three splits.

"""


if __name__ == "__main__":
    main()
