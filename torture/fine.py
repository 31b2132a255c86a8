"""The default on more than 5,000 rows: 255 bins, a table for each parent, tables in two parts.

    python -m torture.fine SEED

prints the digest of its predictions, for a parent process that compares it.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from torture.campaign import ROOT, Budget, Tally
from torture.same import Rows, carriers, digest

__all__ = ["by_hand", "fine", "make_rows", "summed_by_hand"]

N_ROWS = 5_200  # the bins and tables of many rows begin at 5,000
PIECES = (1, 3, 64, 65, 511, 512, 513, 1_000)  # rows at a time: around the blocks of the loops
ROUNDING = 1e-9


def make_rows(seed: int, n: int = N_ROWS, classes: int = 3) -> Rows:
    """Return numbers of many values, exact in 32 bits, with gaps, words, and classes of pairs."""
    rng = np.random.default_rng(seed)
    a, b, c, holes = rng.integers(-(2**18), 2**18, (4, n)) / 2**16
    word = rng.integers(0, 5, n)
    score = 2 * (a * b > 0) + c + (word == 2) * (a > 0) + 0.6 * rng.normal(size=n)
    table = pa.table(
        {
            "word": [f"w{v}" for v in word],
            "a": a,
            "holes": pa.array(holes + (score > 1), mask=rng.random(n) < 0.2),
            "b": b,
            "c": c,
            "day": pa.array(rng.integers(0, 900, n).astype("int32"), pa.date32()),
        }
    )
    edges = np.quantile(score, np.arange(1, classes) / classes)
    return Rows(table, np.array([f"k{k:03}" for k in np.digitize(score, edges)]))


def fine(budget: Budget, tally: Tally, folder: Path) -> None:
    """Carriers, threads, pieces, copies, processes, a cluster; sums and signs by hand."""
    data = make_rows(budget.seed)
    probe, whole = data.X.slice(0, 1_500), budget.cases > 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _fit(data.X, data.y)
        expected = model.predict_proba(probe)
        _two_parts(model, tally)
        _pieces(model, probe, expected, tally)
        _by_hand(model.network_, data.X.slice(0, 40), "as learned", tally)
        _copies(model, data, probe, expected, tally, folder)
        _signs(budget.seed, tally, folder)
        _edits(model.network_, data.X.slice(0, 40), tally, folder)
        if not whole:
            return
        for name, found in _other_fits(data, probe, folder):
            _equal(found, expected, name, tally)
        _elsewhere(budget.seed, expected, tally)
        _unknown(data, tally)
        _many_classes(budget.seed, tally, folder)
        if find_spec("distributed") is not None:
            _cluster(data, probe, expected, tally, folder)


def _fit(X: Any, y: Any, **options: Any) -> Any:
    from tanager import BayesNetClassifier

    return BayesNetClassifier(random_state=0, **options).fit(X, y)


def _equal(found: Any, expected: Any, what: str, tally: Tally, within: float = 0.0) -> None:
    same = found.shape == expected.shape
    moved = float(np.abs(found - expected).max()) if same else np.inf
    tally.check(moved <= within, f"{what}: differs by {moved:.2g}")


def _two_parts(model: Any, tally: Tally) -> None:
    """Make sure that the attack meets what it is about."""
    from tanager.parameters import GroupedTable

    families = [t for t in model.network_.tables.families if isinstance(t, GroupedTable)]
    widest = max((table.member_arities[-1] for table in families), default=0)
    tally.check(widest >= 255, "no table in two parts of 255 values", widest=widest)
    tally.facts["values of the widest feature"] = widest
    tally.facts["most parents"] = model.structure_.max_parents


def _pieces(model: Any, probe: pa.Table, expected: Any, tally: Tally) -> None:
    """Predict few or many rows at a time."""
    for size in PIECES:
        n = min(len(probe), 40 * size)
        parts = [
            model.predict_proba(probe.slice(at, min(size, n - at))) for at in range(0, n, size)
        ]
        _equal(np.concatenate(parts), expected[:n], f"{size} rows at a time", tally)


def _other_fits(data: Rows, probe: pa.Table, folder: Path) -> Iterator[tuple[str, Any]]:
    """Iterate over what must not matter, with the predictions."""
    for n_jobs in (2, 4):
        yield f"{n_jobs} threads", _fit(data.X, data.y, n_jobs=n_jobs).predict_proba(probe)
    for name, table, target in carriers(data, folder):
        yield name, _fit(table, target).predict_proba(probe)
        if name == "several Parquet files":
            kept = _fit(table, target, memory_limit=1, n_jobs=2)
            yield f"{name}, rows kept in a file, 2 threads", kept.predict_proba(probe)


def by_hand(network: Any, codes: Any) -> Any:
    """Return the log-joint of complete rows, one family and one row after the other."""
    from tanager.parameters import GroupedTable

    structure, out = network.structure, np.empty((codes.shape[1], len(network.log_prior)))
    for row in range(codes.shape[1]):
        total = network.log_prior.copy()
        for at, table in enumerate(network.tables.families):
            members = (*structure.parent_indices[at], structure.selected[at])
            values = [int(codes[member, row]) for member in members]
            if isinstance(table, GroupedTable):
                groups = [int(g[v]) for g, v in zip(table.member_groups, values, strict=True)]
                total = total + (table.log_group[tuple(groups)] + table.log_within[values[-1]])
            else:
                total = total + table.to_dense().log_prob[tuple(values)]
        out[row] = total
    return out


def summed_by_hand(network: Any, codes: Any, hidden: tuple[int, ...]) -> Any:
    """Return the log-joint with some features summed out, value by value."""
    sizes = network.codebook.domain.arities[list(hidden)]
    grid = np.indices(sizes).reshape(len(hidden), -1)
    out = []
    for row in range(codes.shape[1]):
        spelled = np.repeat(codes[:, [row]], grid.shape[1], axis=1)
        spelled[list(hidden)] = grid
        out.append(np.logaddexp.reduce(network.log_joint_of_codes(spelled), axis=0))
    return np.array(out)


def _by_hand(network: Any, X: Any, what: str, tally: Tally) -> None:
    """Compare complete rows, rows with one and two unknown features, and nothing known."""
    codes, arities = network.codebook.encode(X), network.codebook.domain.arities
    complete = codes[:, (codes < arities[:, None]).all(axis=0)]
    found = network.log_joint_of_codes(complete)
    _equal(found, by_hand(network, complete), f"{what}: by hand", tally, ROUNDING)
    _equal(
        network.log_terms(complete).sum(axis=1) + network.log_prior,
        found, f"{what}: the parts of a row", tally, ROUNDING,
    )  # fmt: skip
    selected = network.structure.selected
    sets = [(one,) for one in selected]
    sets += [(one, other) for one in selected for other in selected if one < other]
    few = complete[:, :4]
    for hidden in sets:
        gaps = few.copy()
        gaps[list(hidden)] = arities[list(hidden), None]
        names = [network.structure.names[one] for one in hidden]
        _equal(
            network.log_joint_of_codes(gaps), summed_by_hand(network, few, hidden),
            f"{what}: {', '.join(names)} unknown", tally, ROUNDING,
        )  # fmt: skip
    nothing = np.repeat(arities[:, None], 2, axis=1).astype(codes.dtype)
    expected = np.repeat(network.log_prior[None], 2, axis=0)
    found = network.log_joint_of_codes(nothing)
    _equal(found, expected, f"{what}: nothing known", tally, ROUNDING)


def _copies(
    model: Any, data: Rows, probe: pa.Table, expected: Any, tally: Tally, folder: Path
) -> None:
    import tanager

    tanager.save(model, folder / "m.tanager")
    first = (folder / "m.tanager").read_bytes()
    loaded = tanager.load(folder / "m.tanager")
    tanager.save(loaded, folder / "m.tanager")
    tally.check((folder / "m.tanager").read_bytes() == first, "a model saved again differs")
    copies = {
        "a model file": loaded,
        "a pickle": pickle.loads(pickle.dumps(model)),
        "a copy": copy.deepcopy(model),
        "fitted again": _fit(data.X, data.y),
    }
    for name, other in copies.items():
        _equal(other.predict_proba(probe), expected, name, tally)
    gaps = pa.table({**{n: probe[n] for n in probe.column_names}, "word": ["?"] * len(probe)})
    known = model.predict_proba(gaps.slice(0, 200))
    _equal(loaded.predict_proba(gaps.slice(0, 200)), known, "a model file, unknown words", tally)


def _signs(seed: int, tally: Tally, folder: Path) -> None:
    """Along a feature with a sign the odds never turn, whatever the other features are."""
    import tanager

    cases: tuple[tuple[int, dict[str, Any]], ...] = (
        (2, {"a": 1, "b": -1, "day": 1}),
        (3, {"a": {"k001": 1}, "holes": {"k002": 1, "k000": -1}}),
    )
    for n_classes, asked in cases:
        data = make_rows(seed + 1, classes=n_classes)
        model = _fit(data.X, data.y, monotonic=asked)
        tanager.save(model, folder / "signed.tanager")
        for name, one in {
            "": model,
            ", from a file": tanager.load(folder / "signed.tanager"),
        }.items():
            for feature in asked:
                turned = _turns(one, data.X.slice(0, 40), feature, asked[feature])
                what = f"{n_classes} classes, sign of {feature}{name}: turns by {turned:.2g}"
                tally.check(turned <= ROUNDING, what)


def _turns(model: Any, X: pa.Table, feature: str, asked: Any) -> float:
    """Return by how much the log-odds go the wrong way along a feature, at worst."""
    codebook, names = model.network_.codebook, list(X.column_names)
    at = names.index(feature)
    codes, n = codebook.encode(X), codebook.domain.n_ordered[at]
    spelled = np.repeat(codes, n, axis=1)
    spelled[at] = np.tile(np.arange(n), codes.shape[1])
    joint = model.network_.log_joint_of_codes(spelled).reshape(codes.shape[1], n, -1)
    classes = model.classes_.tolist()
    signs = asked if isinstance(asked, dict) else {classes[-1]: asked}
    worst = 0.0
    for label, sign in signs.items():
        odds = joint[:, :, [classes.index(label)]] - joint
        worst = max(worst, float((-sign * np.diff(odds, axis=1)).max()))
    return worst


def _edits(network: Any, X: pa.Table, tally: Tally, folder: Path) -> None:
    """Edit by hand: still a network, and its file is the same network."""
    from tanager.network import Network

    classes = network.codebook.classes.tolist()
    asked: dict[str, dict[str, Any]] = {
        "a": {"smooth": 3},
        "b": {"neutralise": True},
        "c": {"forbid": True},
        "word": {"effect": {"w1": {classes[0]: 1.5}}},
    }
    for feature, change in asked.items():
        edited = network.edit(feature, **change, reason="-")
        _by_hand(edited, X, f"{feature}, {next(iter(change))}", tally)
        edited.save(folder / "edited.tanager")
        loaded = Network.load(folder / "edited.tanager")
        what = f"{feature}, {next(iter(change))}: from a file"
        _equal(loaded.log_joint(X), edited.log_joint(X), what, tally)


def _unknown(data: Rows, tally: Tally) -> None:
    """Missing values summed out: the same by one and by many rows, and by hand."""
    model = _fit(data.X, data.y, missing="marginalize")
    gaps = data.X.slice(0, 300)
    together = model.predict_proba(gaps)
    alone = np.concatenate([model.predict_proba(gaps.slice(at, 1)) for at in range(300)])
    _equal(alone, together, "missing values summed out, row by row", tally, ROUNDING)
    _by_hand(model.network_, data.X.slice(0, 40), "missing values summed out", tally)


def _many_classes(seed: int, tally: Tally, folder: Path) -> None:
    """300 classes: probabilities, an explanation, marginals, a file."""
    import tanager
    from tanager.network.information import NetworkInformation

    data = make_rows(seed, 5_400, classes=300)
    model = _fit(data.X, data.y)
    p = model.predict_proba(data.X.slice(0, 600))
    good = bool(np.isfinite(p).all() and np.abs(p.sum(axis=1) - 1.0).max() < 1e-12)
    tally.check(good and p.shape == (600, 300), "300 classes: no probabilities")
    tanager.save(model, folder / "classes.tanager")
    loaded = tanager.load(folder / "classes.tanager")
    _equal(loaded.predict_proba(data.X.slice(0, 600)), p, "300 classes: from a file", tally)
    split = model.network_.log_terms(model.network_.codebook.encode(data.X.slice(0, 20))).sum(
        axis=1
    )
    split = split - model.predict_joint_log_proba(data.X.slice(0, 20))
    _equal(split, np.broadcast_to(split[0], split.shape), "300 classes: explained", tally, 1e-9)
    told = NetworkInformation(model.network_).of_features()
    tally.check(bool(np.isfinite(told).all()), "300 classes: information is not finite")


def _elsewhere(seed: int, expected: Any, tally: Tally) -> None:
    """Other processes, with other hash seeds and other threads of BLAS."""
    for number in ("1", "4"):
        environment = {"PYTHONHASHSEED": number, "OMP_NUM_THREADS": number,
                       "OPENBLAS_NUM_THREADS": number}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "torture.fine", str(seed)],
            capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, **environment},
        )  # fmt: skip
        found = json.loads(done.stdout.splitlines()[-1])
        tally.check(found == digest(expected), f"another process with {environment} differs")


def _cluster(data: Rows, probe: pa.Table, expected: Any, tally: Tally, folder: Path) -> None:
    """Fit on a Dask cluster of two workers, from several files."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        LocalCluster(**options, silence_logs=50, local_directory=str(folder)) as cluster,
        Client(cluster) as client,
    ):
        model = _fit(str(folder / "many"), "y", engine=client)
        _equal(model.predict_proba(probe), expected, "on a cluster", tally)
        signs = {"a": {"k001": 1}}
        here = _fit(data.X, data.y, monotonic=signs).predict_proba(probe)
        there = _fit(str(folder / "many"), "y", monotonic=signs, engine=client)
        _equal(there.predict_proba(probe), here, "signs on a cluster", tally)


def main() -> None:
    """Print the digest of the default's predictions."""
    data = make_rows(int(sys.argv[1]))
    warnings.simplefilter("ignore")
    print(json.dumps(digest(_fit(data.X, data.y).predict_proba(data.X.slice(0, 1_500)))))


if __name__ == "__main__":
    main()
