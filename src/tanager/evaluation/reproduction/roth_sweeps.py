"""Roth and Pernkopf (2020): figures 2 and 3, and section 4.5, a classifier with cycles."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager.evaluation.reproduction.findings import Block, Claim, Picture
from tanager.evaluation.reproduction.verdicts import untested
from tanager.evaluation.reproduction.workbench import Workbench

__all__ = ["pseudo_block", "sweep_blocks"]

Points = dict[str, dict[str, list[float]]]
# Text of a classifier from its loss and its training.
Use = Callable[[str, str], str]


def _learned(options: str) -> Use:
    return lambda loss, training: f"differentiable({options}, loss={loss}, {training})/hybrid"


FIGURE_2: Mapping[str, Use] = {
    "NB": lambda loss, training: f"naive/hybrid(loss={loss}, {training})",
    "TAN Random": lambda loss, training: f"random/hybrid(loss={loss}, {training})",
    "Chow–Liu": lambda loss, training: (
        f"tan(root='first', adjusted=False)/hybrid(loss={loss}, {training})"
    ),
    "TAN Subset, K = 8": _learned("candidates='subset', k=8"),
    "TAN All": _learned("candidates='all'"),
}
OPTIMISERS: Mapping[str, Use] = {
    "each context its own steps": _learned("candidates='subset', k=8"),
    "dense, as in the paper": _learned("candidates='subset', k=8, training__dense=True"),
}
ORDERINGS: Mapping[str, Use] = {
    f"ordering {o}": _learned(f"candidates='neighbours', k=8, order='{o}'") for o in "ABC"
}
SIZES: Mapping[str, Use] = {
    f"K = {k}": _learned(f"candidates='neighbours', k={k}, order='C'") for k in (1, 2, 5, 8)
}
SUBSETS: Mapping[str, Use] = {f"K = {k}": _learned(f"candidates='subset', k={k}") for k in (2, 8)}


def configurations(n: int, seed: int = 0) -> list[dict[str, float]]:
    """Draw hyperparameters by setting (II): log λ in [1, 3], log γ in [-1, 2], η = 10."""
    rng = np.random.default_rng([seed, 2020])
    return [
        {
            "lambda_": float(f"{10 ** rng.uniform(1, 3):.4g}"),
            "gamma": float(f"{10 ** rng.uniform(-1, 2):.4g}"),
            "eta": 10.0,
        }
        for _ in range(n)
    ]


def sweep_blocks(
    bench: Workbench, datasets: Mapping[str, Dataset]
) -> tuple[list[Block], list[Claim]]:
    """Return figures 2 and 3 on the tables that are cheap enough."""
    n, epochs = (2, 3) if bench.quick else (10, 25)
    training = f"training__epochs={epochs}"
    plans: list[tuple[str, str, str, Mapping[str, Use], int]] = [
        ("figure-2", "Figure 2: errors over log λ, satimage", "satimage-1", FIGURE_2, n),
        ("figure-3a", "Figure 3a: image orderings, usps", "usps-1", ORDERINGS, max(2, n // 2)),
        ("figure-3b", "Figure 3b: number of candidates, usps", "usps-1", SIZES, max(2, n // 2)),
        ("adam", "Adam, TAN Subset, satimage", "satimage-1", OPTIMISERS, max(2, n // 4)),
        ("figure-3d", "Figure 3d: number of candidates, satimage", "satimage-1", SUBSETS, n),
    ]
    rows: list[tuple[str, ...]] = []
    pictures: list[Picture] = []
    best: dict[tuple[str, str], float] = {}
    for slug, title, table, uses, count in plans:
        if bench.quick and slug != "figure-2":
            continue
        if table not in datasets:
            continue
        points = _sweep(bench, slug, datasets[table], uses, configurations(count), training)
        best |= {(slug, name): min(found["y"]) for name, found in points.items()}
        rows += _rows(title, points)
        pictures += _pictures(slug, title, points)
    if "satimage-1" in datasets and not bench.quick:
        title = "Figure 3c: random orderings, satimage"
        points = _orders(bench, datasets["satimage-1"], training, max(2, n // 3))
        rows += _rows(title, points)
        pictures += _pictures("figure-3c", title, points)
    notes = (
        f"Setting (II) of the paper with {n} configurations instead of 100, {epochs} epochs "
        "instead of 500; the default dropout of 0.2. Figure 3a and b are on usps here, on mnist "
        "there.",
    )
    columns = ("error % over configurations", "lowest", "median")
    title = "Figures 2 and 3: hyperparameters, orderings, candidates"
    return [Block(title, columns, rows, notes, tuple(pictures))], _claims(best)


def _sweep(
    bench: Workbench,
    slug: str,
    dataset: Dataset,
    uses: Mapping[str, Use],
    drawn: list[dict[str, float]],
    training: str,
) -> Points:
    """Train every classifier under every configuration; log10 of λ, and the errors."""
    contenders, x = [], {}
    for name, use in uses.items():
        for i, loss in enumerate(drawn):
            contender = Contender(f"{name} #{i}", use(repr(loss), training))
            contenders.append(contender)
            x[contender.name] = (name, float(np.log10(loss["lambda_"])))
    points: Points = {}
    for contender in contenders:  # one run each, so that what is done counts when time is over
        run = bench.run(
            f"roth-2020-{slug}", [dataset], [contender], metrics=["zero_one_loss"], quiet=True
        )
        loss_scores = run.results.mean("zero_one_loss")
        if loss_scores.datasets:
            name, place = x[contender.name]
            found = points.setdefault(name, {"x": [], "y": []})
            found["x"].append(place)
            found["y"].append(100 * float(loss_scores.values[0, 0]))
    return points


def _orders(bench: Workbench, dataset: Dataset, training: str, count: int) -> Points:
    """Figure 3c: several random orderings on satimage, each under several configurations."""
    points: Points = {}
    use = _learned("candidates='subset', k=8")
    for seed in range(4):
        for i, loss in enumerate(configurations(count, seed=1)):
            contender = Contender(
                f"order {seed} #{i}", use(repr(loss), training), {"random_state": seed}
            )
            run = bench.run(
                "roth-2020-figure-3c", [dataset], [contender], metrics=["zero_one_loss"], quiet=True
            )
            scores = run.results.mean("zero_one_loss")
            if scores.datasets:
                found = points.setdefault(f"order {seed + 1}", {"x": [], "y": []})
                found["x"].append(float(np.log10(loss["lambda_"])))
                found["y"].append(100 * float(scores.values[0, 0]))
    return points


def _rows(title: str, points: Points) -> list[tuple[str, ...]]:
    return [
        (f"{title}: {name}", f"{min(found['y']):.2f}", f"{np.median(found['y']):.2f}")
        for name, found in points.items()
    ]


def _pictures(slug: str, title: str, points: Points) -> list[Picture]:
    if not points:
        return []
    data = {"groups": points, "x_label": "log10 λ", "y_label": "test error %"}
    caption = "One point a training; lines are the lower parts of the convex hulls."
    return [Picture(slug, title, "envelopes", data, caption)]


def _claims(best: Mapping[tuple[str, str], float]) -> list[Claim]:
    claims = []
    for text, slug, better, worse in (
        ("Larger candidate sets are better: K = 8 against 2 (figure 3d)", "figure-3d", "K = 8",
         "K = 2"),
        ("On images two candidates beat one (figure 3b)", "figure-3b", "K = 2", "K = 1"),
        ("Ordering C is slightly better than A (figure 3a)", "figure-3a", "ordering C",
         "ordering A"),
    ):  # fmt: skip
        if (slug, better) not in best or (slug, worse) not in best:
            claims.append(untested(text, "not run"))
            continue
        a, b = best[slug, better], best[slug, worse]
        claims.append(
            Claim(text, "holds" if a < b else "does not hold", f"{a:.2f} against {b:.2f} %")
        )
    return claims


def pseudo_block(bench: Workbench) -> tuple[Block, Claim]:
    """Section 4.5: parents that may form cycles, which is no Bayesian network.

    Results are kept in a file of the folder of runs, as a run file would.
    """
    text = "Parents without an order, cycles allowed, help on letter: 7.98 % (section 4.5)"
    title = "Section 4.5: pseudo TAN, which is no network"
    columns = ("table", "error %, paper", "cycles allowed, ours", "free ordering without cycles")
    epochs = 3 if bench.quick else 40
    rows: list[tuple[str, ...]] = []
    found: dict[str, list[float | None]] = {}
    for name, printed in (("satimage", "similar to 9.31"), ("letter", "7.98")):
        path = None if bench.folder is None else bench.folder / f"{name}.npz"
        if path is None or not path.exists() or (bench.quick and name == "letter"):
            continue
        errors = []
        for cyclic in (True, False):
            key = f"{name}, epochs {epochs}, {'cycles' if cyclic else 'arborescence'}"
            train = partial(_pseudo_error, path, epochs, cyclic=cyclic)
            errors.append(_kept(bench, key, train))
        rows.append((name, printed, *("not run" if e is None else f"{e:.2f}" for e in errors)))
        found[name] = errors
    notes = (
        f"One training of {epochs} epochs with the default loss, every other feature a candidate. "
        "With cycles the product of the tables does not sum to one over the features: a score, "
        "not a probability, from which no feature can be summed out. So it is an experiment "
        "here and no learner; `Differentiable(ordering='free')` draws arborescences instead.",
    )
    block = Block(title, columns, rows, notes)
    with_cycles, without = found.get("letter", [None, None])
    if with_cycles is None or without is None:
        return block, untested(text, "letter was not run")
    verdict = "holds" if with_cycles < without else "does not hold"
    return block, Claim(text, verdict, f"{with_cycles:.2f} % with, {without:.2f} % without cycles")


def _kept(bench: Workbench, key: str, compute: Callable[[], float]) -> float | None:
    """Return a number from the runs' folder, or compute and keep it while there is time."""
    path = bench.runs / "roth-2020-pseudo.json"
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if key not in kept:
        if bench.late:
            bench.leave_out(f"pseudo TAN, {key}: the time was over")
            return None
        kept[key] = compute()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept))
    return float(kept[key])


def _pseudo_error(path: Any, epochs: int, *, cyclic: bool) -> float:
    """Train on the first fold with every other feature a candidate; error in per cent."""
    from tanager.engines import FitContext
    from tanager.structure.differentiable.initial import STARTS
    from tanager.structure.differentiable.sampling import Arborescence, BestParent
    from tanager.training import Training
    from tanager.training.fitting import Task, fit
    from tanager.training.model import NO_PARENT, Slots, coded_rows
    from tanager.training.optimiser import ParentSearch, most_probable, scores

    with np.load(path) as arrays:
        parts = {k: arrays[f"{k}_fold1"].astype(np.int64) for k in ("x_tr", "x_te", "t_tr", "t_te")}
    _, labels = np.unique(np.concatenate([parts["t_tr"], parts["t_te"]]), return_inverse=True)
    x = np.concatenate([parts["x_tr"], parts["x_te"]]).T - 1
    n_train, n_classes = parts["x_tr"].shape[0], int(labels.max()) + 1
    arities = x.max(axis=1) + 1
    n = len(arities)
    others = [[j for j in range(n) if j != i] for i in range(n)]
    slots = Slots.build(
        [[NO_PARENT, *parents] for parents in others],
        [[1, *(int(arities[p]) for p in parents)] for parents in others],
        arities,
        n_classes,
        tuple(f"a{i + 1}" for i in range(n)),
    )
    sampler = BestParent() if cyclic else Arborescence(slots)
    codes = x.astype(np.uint8)
    rows = coded_rows(codes[:, :n_train], labels[:n_train], None)
    task = Task(
        rows,
        slots,
        lambda given, rng: STARTS["random"](slots, given, n_classes, rng),
        "hybrid",
        Training(epochs),
        ParentSearch(sampler),
        (804,),
        "pseudo TAN",
    )
    run, _ = fit(task, FitContext())
    chosen = most_probable(run.result, slots, task.parents)
    held_out = coded_rows(codes[:, n_train:], labels[n_train:], None)
    return 100 * scores(run.result, slots, held_out, chosen)[0]
