"""Differentiable structure learning beside table 1 of Roth and Pernkopf (2020), and its speed.

    python -m benchmarks.differentiable speed              # CPU time of an epoch, memory
    python -m benchmarks.differentiable options starts lengths  # on held-out rows
    python -m benchmarks.differentiable images             # closed-form tables on mnist
    python -m benchmarks.differentiable letter satimage usps mnist14 mnist14-smooth
    python -m benchmarks.differentiable --write             # docs/measurements/differentiable.md

Every configuration is chosen on held-out training rows, never on test rows;
the paper's numbers are the least test error over hundreds of configurations.
Results are kept in `docs/measurements/differentiable.json`, so that a table can
be made of several runs. Data: letter.npz, satimage.npz, usps.npz (the paper's
discretisation and splits) and mnist14.parquet in ../shared/data.
"""

from __future__ import annotations

import argparse
import resource
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.ndimage import convolve1d

from benchmarks.differentiable_page import keep, write
from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.losses import HybridMargin
from tanager.parameters import Hybrid, Laplace
from tanager.structure import TAN, Differentiable, FitPlan, Naive
from tanager.training import Training

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"

BATCH = {"letter": 100, "satimage": 50, "usps": 100, "mnist14": 250, "mnist14-smooth": 250}


class Budget(NamedTuple):
    """Epochs of the search and of the final training, and the splits that the search has."""

    search: int
    final: int
    splits: int


BUDGET = {
    "letter/free": Budget(40, 100, 2),
    "letter": Budget(30, 60, 2),
    "satimage": Budget(20, 40, 3),
    "usps": Budget(20, 60, 2),
    "mnist14": Budget(20, 20, 1),
    "mnist14-smooth": Budget(20, 20, 1),
}
SEEDS = 5  # of the final training; satimage: its folds

# Shared steps and averaging, with a rate that falls less: chosen on held-out training rows.
TRAINING = {"decay": 0.1, "share": True, "average": 0.5}


class Config(NamedTuple):
    """What held-out rows choose: loss, rate, dropout, whose tables, and the order of pixels."""

    lambda_: float
    gamma: float
    eta: float
    rate: float
    dropout: float
    retrain: bool = False
    order: str = "auto"


DROPOUTS = (0.2, 0.0, 0.4, 0.6)
LOSSES = [(100.0, 20.0, 10.0, 0.1), (30.0, 20.0, 10.0, 0.1), (10.0, 30.0, 2.0, 0.1)]
# Naive Bayes underfits where the others overfit, and wants smaller margins.
NAIVE_LOSSES = [(100.0, 5.0, 10.0, 0.1), (100.0, 1.0, 10.0, 0.1), (100.0, 10.0, 10.0, 0.1)]
SEARCHED = ("subset", "free", "neighbours")  # their tables may be kept or trained afresh


def read(name: str, fold: int = 1) -> tuple[Domain, Rows, np.ndarray, np.ndarray]:
    """Return domain, training rows, test codes and test labels."""
    if name.startswith("mnist14"):
        return read_mnist(smooth=name == "mnist14-smooth")
    arrays = np.load(DATA / f"{name}.npz")
    x, y, xt, yt = (arrays[f"{k}_fold{fold}"] for k in ("x_tr", "t_tr", "x_te", "t_te"))
    arities = np.maximum(x.max(axis=0), xt.max(axis=0)).astype(np.int64)
    names = tuple(f"x{i}" for i in range(x.shape[1]))
    domain = Domain(names, arities, int(max(y.max(), yt.max())) + 1)
    return domain, rows_of(domain, x.T - 1, y), np.ascontiguousarray(xt.T - 1), yt


@lru_cache(maxsize=1)
def read_mnist(*, smooth: bool) -> tuple[Domain, Rows, np.ndarray, np.ndarray]:
    """Split two thirds to one third at random, and discretise from the training rows.

    Smooth images have every pixel averaged with its neighbours, by weights 1, 2, 1 both ways.
    """
    import pyarrow.parquet as pq

    from tanager import MDLDiscretizer

    table = pq.read_table(DATA / "mnist14.parquet").to_pandas()
    target = table.columns[-1]
    y = np.unique(table[target], return_inverse=True)[1]
    x = table.drop(columns=target).to_numpy()
    if smooth:
        images = x.reshape(-1, 14, 14)
        for axis in (1, 2):
            images = convolve1d(images, [0.25, 0.5, 0.25], axis=axis, mode="constant")
        x = images.reshape(x.shape)
    shuffled = np.random.default_rng(0).permutation(len(y))
    train, test = shuffled[: 2 * len(y) // 3], shuffled[2 * len(y) // 3 :]
    discretizer = MDLDiscretizer().fit(x[train], y[train])
    codes, test_codes = (np.asarray(discretizer.transform(x[at])).T for at in (train, test))
    arities = np.maximum(codes.max(axis=1), test_codes.max(axis=1)).astype(np.int64) + 1
    domain = Domain(tuple(f"x{i}" for i in range(x.shape[1])), arities, int(y.max()) + 1)
    test_codes = np.ascontiguousarray(test_codes.astype(np.uint8))
    return domain, rows_of(domain, codes, y[train]), test_codes, y[test]


def rows_of(domain: Domain, codes: np.ndarray, labels: np.ndarray) -> Rows:
    return Rows.in_memory(
        domain, np.ascontiguousarray(codes.astype(np.uint8)), labels.astype(np.uint16)
    )


def learners(method: str, config: Config, epochs: int, batch: int, **options) -> tuple:
    """Return the structure learner, and the parameter learner that trains from the start."""
    init = options.pop("init", "generative")
    training = Training(
        epochs,
        batch_size=batch,
        learning_rate=config.rate,
        dropout=config.dropout,
        **TRAINING | options,
    )
    loss = HybridMargin(config.lambda_, config.gamma, config.eta)
    tables = Hybrid(loss, joint="restart", training=training)
    common = {"loss": loss, "init": init, "training": training}
    structures = {
        "naive": lambda: Naive(),
        "tan": lambda: TAN(),
        "subset": lambda: Differentiable("subset", 8, **common),
        "free": lambda: Differentiable("all", ordering="free", **common),
        "neighbours": lambda: Differentiable("neighbours", 8, order=config.order, **common),
    }
    return structures[method](), tables


class Problem(NamedTuple):
    """Training rows, and rows to count errors on."""

    domain: Domain
    rows: Rows
    codes: np.ndarray
    labels: np.ndarray

    def error(self, structure, tables) -> float:
        """Return the error in per cent."""
        joint = tables.log_joint(structure, self.codes, self.domain.arities)
        return 100 * float(np.mean(joint.argmax(axis=1) != self.labels))


class Result(NamedTuple):
    """Errors in per cent of the joint tables and of retrained ones (NaN: not made), CPU seconds."""

    joint: float
    retrained: float
    seconds: float


def run(
    method: str, config: Config, epochs: int, batch: int, problem: Problem, seed: int, **training
) -> Result:
    """Fit and count errors; retrains the tables of a searched structure if it is told to."""
    structure_learner, parameter_learner = learners(method, config, epochs, batch, **training)
    context = FitContext(seed=np.random.SeedSequence(seed))
    context.info |= {"structure": {}, "parameters": {}}
    counts = Counts(problem.rows, context)
    joint = retrained = float("nan")
    start = time.process_time()
    structure = structure_learner.learn(counts, FitPlan(context))
    if method in SEARCHED:
        joint = problem.error(structure, Hybrid().learn(structure, counts, FitPlan(context)))
    if method not in SEARCHED or config.retrain:
        tables = parameter_learner.learn(structure, counts, FitPlan(context))
        retrained = problem.error(structure, tables)
    return Result(joint, retrained, time.process_time() - start)


def splits(name: str, method: str) -> list[Problem]:
    """Return problems that hold out a fifth of the training rows (satimage: of some folds')."""
    problems = []
    for number in range(budget(name, method).splits):
        domain, rows, _, _ = read(name, 2 * number + 1 if name == "satimage" else 1)
        shuffled = np.random.default_rng(number + 1).permutation(rows.n_rows)
        cut = shuffled.shape[0] // 5
        chunk = rows.gather()
        codes = np.ascontiguousarray(chunk.codes[:, shuffled[:cut]])
        problems.append(
            Problem(
                domain,
                rows.subset(np.isin(np.arange(rows.n_rows), shuffled[cut:]).__getitem__),
                codes,
                chunk.labels[shuffled[:cut]],
            )
        )
    return problems


def budget(name: str, method: str) -> Budget:
    return BUDGET.get(f"{name}/{method}", BUDGET[name])


class Attempt(NamedTuple):
    """A configuration, its error on held-out rows in per cent and the CPU seconds of a run."""

    config: Config
    error: float
    seconds: float


def attempt(name: str, method: str, config: Config, problems: list[Problem]) -> list[Attempt]:
    """Try a configuration with the tables learned jointly, where there are any, and retrained."""
    settings = (method, config._replace(retrain=True), budget(name, method).search, BATCH[name])
    results = [run(*settings, part, seed) for seed, part in enumerate(problems)]
    joint, retrained, seconds = np.mean(results, axis=0).tolist()
    print(f"{name} {method} {config} {joint:.2f} {retrained:.2f} % {seconds:.1f} s", flush=True)
    both = [Attempt(config._replace(retrain=True), retrained, seconds)]
    if method in SEARCHED:
        both.append(Attempt(config._replace(retrain=False), joint, seconds))
    return both


def best_of(tried: list[Attempt]) -> Attempt:
    return min(tried, key=lambda one: one.error)


def choose(name: str, method: str) -> tuple[Config, list[Attempt]]:
    """Choose, on held-out rows, the dropout, then the loss, then (pixels) the order."""
    problems = splits(name, method)
    losses = NAIVE_LOSSES if method == "naive" else LOSSES
    order = "C" if method == "neighbours" else "auto"
    tried: list[Attempt] = []
    for dropout in DROPOUTS:
        tried += attempt(name, method, Config(*losses[0], dropout, order=order), problems)
    dropout = best_of(tried).config.dropout
    for loss in losses[1:]:
        tried += attempt(name, method, Config(*loss, dropout, order=order), problems)
    if method == "neighbours":
        best = best_of(tried).config
        for order in ("A", "B"):
            tried += attempt(name, method, best._replace(order=order), problems)
    return best_of(tried).config, tried


def measure(name: str, methods: list[str]) -> None:
    for method in methods:
        epochs = budget(name, method)
        config, tried = choose(name, method)
        results = []
        for seed in range(SEEDS):
            problem = Problem(*read(name, seed + 1 if name == "satimage" else 1))
            results.append(run(method, config, epochs.final, BATCH[name], problem, seed))
            print(f"{name:9} {method:10} seed {seed} {results[-1]}", flush=True)
        column = 1 if config.retrain else 0
        record = {
            "config": config._asdict(),
            "search": [[one.config._asdict(), one.error, one.seconds] for one in tried],
            "errors": [result[column] for result in results],
            "cpu_seconds": [result.seconds for result in results],
            "epochs": epochs._asdict(),
            "training": TRAINING,
        }
        keep(f"{name}/{method}", record)


def starts() -> None:
    """Compare where tables start and whether they are retrained, on held-out rows."""
    result = []
    for name, method in (("letter", "subset"), ("letter", "free"), ("usps", "subset")):
        settings = (method, Config(*LOSSES[0], 0.2, retrain=True), 40, BATCH[name])
        for init in ("random", "generative"):
            runs = [run(*settings, p, i, init=init) for i, p in enumerate(splits(name, method))]
            joint, retrained, seconds = np.mean(runs, axis=0)
            result.append([name, method, init, joint, retrained, seconds])
            print(result[-1], flush=True)
    keep("starts", result)


def lengths() -> None:
    """Compare trainings of several lengths with and without dropout, on held-out rows."""
    result = []
    for name, dropout in (("letter", 0.2), ("usps", 0.6)):
        problems = splits(name, "tan")
        for p in (0.0, dropout):
            errors = []
            for epochs in (20, 60, 120):
                settings = ("tan", Config(*LOSSES[0], p), epochs, BATCH[name])
                runs = [run(*settings, part, seed) for seed, part in enumerate(problems)]
                errors.append(float(np.mean([one.retrained for one in runs])))
            result.append([name, p, *errors])
            print(result[-1], flush=True)
    keep("lengths", result)


def images() -> None:
    """Measure values a pixel and the errors of tables in closed form on both kinds of images."""
    result = []
    for name in ("mnist14", "mnist14-smooth"):
        problem = Problem(*read(name))
        errors = []
        for learner in (Naive(), TAN()):
            context = FitContext()
            context.info |= {"structure": {}, "parameters": {}}
            counts = Counts(problem.rows, context)
            structure = learner.learn(counts, FitPlan(context))
            tables = Laplace(1.0).learn(structure, counts, FitPlan(context))
            errors.append(problem.error(structure, tables))
        result.append([name, float(problem.domain.arities.mean()), *errors])
        print(result[-1], flush=True)
    keep("images", result)


def options() -> None:
    """Measure what the options of a training do, on held-out rows."""
    problem = splits("letter", "tan")[0]
    losses = [*LOSSES, (10.0, 10.0, 2.0, 0.1), (100.0, 50.0, 10.0, 0.1), (30.0, 10.0, 2.0, 0.03)]
    result = []
    for decay, share, average, dropout in (
        (0.001, False, 0.0, 0.0),
        (0.1, False, 0.0, 0.0),
        (0.1, False, 0.5, 0.0),
        (0.1, True, 0.0, 0.0),
        (0.1, True, 0.5, 0.0),
        (0.001, False, 0.0, 0.2),
        (0.1, True, 0.5, 0.2),
    ):
        training = {"decay": decay, "share": share, "average": average}
        runs = [
            run("tan", Config(*loss, dropout), 40, BATCH["letter"], problem, 0, **training)
            for loss in losses
        ]
        row = {**training, "dropout": dropout, "losses": losses}
        row["errors"] = [result.retrained for result in runs]
        row["cpu_seconds"] = [result.seconds for result in runs]
        result.append(row)
        print(row, flush=True)
    keep("options", result)


def speed() -> None:
    """Measure the CPU time of an epoch on letter, and the size of the tables over k."""
    domain, rows, codes, labels = read("letter")
    chunk = rows.gather()
    # 15,000 rows, as in the goal: the training rows and the first test rows.
    more = 15_000 - rows.n_rows
    codes = np.concatenate([chunk.codes, codes[:, :more]], axis=1)
    rows = rows_of(domain, codes, np.concatenate([chunk.labels, labels[:more]]))
    result = []
    for k in (2, 4, 8):
        for epochs in (1, 11):  # the first run compiles
            context = FitContext()
            learner = Differentiable(k=k, training=Training(epochs=epochs))
            start = time.process_time()
            learner.learn(Counts(rows, context), FitPlan(context))
            seconds = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        result.append({"k": k, "seconds": seconds / 11, "peak_mb": peak})
        print(f"letter k={k}: {seconds / 11:.3f} s CPU an epoch, peak {peak:.0f} MB", flush=True)
    keep("speed", result)


METHODS = {
    "letter": ["free", "subset", "tan", "naive"],
    "satimage": ["subset", "tan", "naive"],
    "usps": ["subset", "tan", "naive", "neighbours"],
    "mnist14": ["neighbours", "subset", "tan", "naive"],
    "mnist14-smooth": ["neighbours", "subset", "tan", "naive"],
}


STUDIES = {
    "speed": speed,
    "options": options,
    "starts": starts,
    "lengths": lengths,
    "images": images,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=[*STUDIES, *METHODS, []])
    parser.add_argument("--method", action="append", help="only this structure (repeatable)")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for what in given.what:
        if what in STUDIES:
            STUDIES[what]()
        else:
            measure(what, given.method or METHODS[what])
    if given.write:
        write()


if __name__ == "__main__":
    main()
