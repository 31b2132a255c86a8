"""Roth and Pernkopf (2020): figures 2 and 3, errors over hyperparameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager_papers.findings import Block, Claim, Picture
from tanager_papers.verdicts import (
    claim_of_parts,
    gap_interval,
    judge_gap,
    mean_interval,
    rate_interval,
    told_gap,
    untested,
    variance_interval,
)
from tanager_papers.workbench import Workbench

__all__ = ["SHORT", "Best", "configurations", "learned", "sweep_blocks", "tan", "test_rows"]

Points = dict[str, dict[str, list[float]]]
# Lowest error in per cent by figure and classifier.
Best = dict[tuple[str, str], float]
# Text of a classifier from its loss and its training.
Use = Callable[[str, str], str]

# In place of the paper's 500 epochs; docs/measurements/differentiable.md has what each option does.
SHORT = (
    "training__epochs={epochs}, training__learning_rate=0.1, training__decay=0.1, "
    "training__share=True, training__average=0.5"
)


def learned(options: str) -> Use:
    """Return the text of a structure learned by gradient, with the options given."""
    return lambda loss, training: (
        f"differentiable({options}, init='generative', loss={loss}, {training})/hybrid"
    )


def tan(loss: str, training: str) -> str:
    """Return the text of the Chow–Liu tree with trained tables."""
    return f"tan(root='first', adjusted=False)/hybrid(loss={loss}, {training})"


FIXED: Mapping[str, Use] = {
    "NB, hybrid": lambda loss, training: f"naive/hybrid(loss={loss}, {training})",
    "TAN Random": lambda loss, training: f"random/hybrid(loss={loss}, {training})",
    "Chow–Liu, hybrid": tan,
    "TAN Subset": learned("candidates='subset', k=8"),
}
TABULAR = {**FIXED, "TAN All": learned("candidates='all'")}
# The paper draws their hyperparameters in setting (I), those of all others in setting (II).
WIDE = ("NB, hybrid", "Chow–Liu, hybrid", "TAN All")
IMAGES = {**FIXED, "TAN Heuristic": learned("candidates='neighbours', k=8, order='C'")}
OPTIMISERS: Mapping[str, Use] = {
    "each context its own steps": lambda loss, training: (
        f"differentiable(candidates='subset', k=8, loss={loss}, {_plain(training)})/hybrid"
    ),
    "dense, as in the paper": lambda loss, training: (
        f"differentiable(candidates='subset', k=8, loss={loss}, {_plain(training)}, "
        "training__dense=True)/hybrid"
    ),
}
SIZES = (1, 2, 5, 8)
HEURISTICS: Mapping[str, Use] = {
    f"{order}, K = {k}": learned(f"candidates='neighbours', k={k}, order='{order}'")
    for k in SIZES
    for order in "ABC"
}
N_SUBSETS = 5
N_ORDERINGS = 5
CLEAR = 0.5  # points of error by which one ordering or subset clearly beats another
# Random candidates in place of neighbours, in random orderings.
SUBSETS: Mapping[str, Use] = {f"K = {k}": learned(f"candidates='subset', k={k}") for k in (5, 8)}


def _plain(training: str) -> str:
    """Return the training without shared steps and averages, which dense Adam has no use for."""
    return training.split(",")[0]


class Plan(NamedTuple):
    """One sweep: which classifiers on which table, under how many configurations."""

    slug: str
    title: str
    table: str
    uses: Mapping[str, Use]
    n: int
    epochs: int
    n_seeds: int = 1


PLANS = (
    Plan("figure-2b", "Figure 2b: satimage", "satimage-1", TABULAR, 24, 25),
    Plan("figure-2a", "Figure 2a: letter", "letter-1", TABULAR, 10, 25),
    Plan("figure-2c", "Figure 2c: usps", "usps-1", IMAGES, 6, 20),
    Plan("figure-2d", "Figure 2d: mnist", "mnist-1", IMAGES, 4, 8),
    Plan("figure-3c", "Figure 3c: random orderings, satimage", "satimage-1",
         {"ordering": FIXED["TAN Subset"]}, 10, 25, N_ORDERINGS),
    Plan("figure-3d", "Figure 3d: parent subsets, letter", "letter-1",
         {f"K = {k}": learned(f"candidates='subset', k={k}, order='columns'") for k in (2, 8)},
         4, 25, N_SUBSETS),
    Plan("figure-3", "Figure 3a, b: image orderings and candidates, usps", "usps-1", HEURISTICS,
         3, 20),
    Plan("figure-3-mnist", "Figure 3a, b: image orderings and candidates, mnist", "mnist-1",
         HEURISTICS, 1, 8),
    Plan("adam", "Adam, TAN Subset, satimage", "satimage-1", OPTIMISERS, 6, 25),
    Plan("subset-usps", "TAN Subset, candidates, usps", "usps-1", SUBSETS, 1, 20, N_SUBSETS),
)  # fmt: skip
QUICK = (Plan("figure-2b", "Figure 2b: satimage", "satimage-1", TABULAR, 2, 3),)


def configurations(n: int, *, wide: bool = False) -> list[dict[str, float]]:
    """Spread hyperparameters over setting (II): log λ in [1, 3], log γ in [-1, 2], η = 10.

    Or, `wide`, over setting (I): log λ in [0, 3], log γ in [-1, 2], η in [1, 20]. Halton's points
    in bases 2, 3 and 5: any beginning of the sequence covers the whole space, where the paper's
    hundreds are drawn at random.
    """
    least, span = (0, 3) if wide else (1, 2)
    return [
        {
            "lambda_": float(f"{10 ** (least + span * _halton(i, 2)):.4g}"),
            "gamma": float(f"{10 ** (-1 + 3 * _halton(i, 3)):.4g}"),
            "eta": float(f"{1 + 19 * _halton(i, 5):.4g}") if wide else 10.0,
        }
        for i in range(1, n + 1)
    ]


def _halton(i: int, base: int) -> float:
    value, part = 0.0, 1.0
    while i:
        part /= base
        i, digit = divmod(i, base)
        value += part * digit
    return value


def sweep_blocks(
    bench: Workbench, datasets: Mapping[str, Dataset]
) -> tuple[list[Block], list[Claim], Best]:
    """Return figures 2 and 3, the claims on them, and the lowest errors."""
    shown: list[tuple[str, str, Points]] = []
    runs: Runs = {}
    for plan in QUICK if bench.quick else PLANS:
        if plan.table not in datasets:
            continue
        points = _sweep(bench, plan, datasets[plan.table])
        runs |= {(plan.slug, name): point["y"] for name, point in points.items()}
        shown += _figures(plan, points)
    best = {key: min(errors) for key, errors in runs.items()}
    # In the order of the paper; they are run in the order of their cost.
    shown.sort(key=lambda figure: (not figure[1].startswith("Figure"), figure[1]))
    rows = [row for _, title, groups in shown for row in _rows(title, groups)]
    pictures = [p for slug, title, groups in shown for p in _pictures(slug, title, _few(groups))]
    notes = (
        "Settings (I) and (II) of the paper, by evenly spread configurations, as many as there are "
        "trainings in the table, where the paper draws 500 and 100; "
        + ", ".join(f"{p.epochs} epochs on {p.table[:-2]}" for p in PLANS[:4])
        + " instead of 500, with larger steps, steps shared by a table's contexts, averaged "
        "tables and a start from the frequencies (but for the comparison of Adam's); dropout of "
        "0.2, where the paper has none. Figures 3a and 3b are on mnist in the paper; usps is ours.",
        "All errors are on test rows, and the lowest is the lowest on test rows, as in the paper.",
    )
    columns = ("test error %", "trainings", "lowest", "median")
    title = "Figures 2 and 3: hyperparameters, orderings, candidates"
    n_test = {name[:-2]: test_rows(dataset) for name, dataset in datasets.items()}
    return [Block(title, columns, rows, notes, tuple(pictures))], _claims(runs, n_test), best


def test_rows(dataset: Dataset) -> int:
    """Return how many rows a table with its own division has for testing."""
    return dataset.check() - (dataset.train_rows or 0)


def _sweep(bench: Workbench, plan: Plan, dataset: Dataset) -> Points:
    """Train every classifier under every configuration; log10 of λ, and the errors.

    One run each, so that what is done counts when time is over; and configuration by
    configuration. One that only some classifiers were trained under is left out, unless there is
    none besides: the lowest of many trainings is lower than that of few.
    """
    training = SHORT.format(epochs=plan.epochs)
    settings = [configurations(plan.n), configurations(plan.n, wide=True)]
    drawn = {name: settings[name in WIDE] for name in plan.uses}
    found: list[dict[str, tuple[float, float]]] = []
    for i in range(plan.n):
        found.append({})
        for name, use in plan.uses.items():
            loss = drawn[name][i]
            for seed in range(plan.n_seeds):
                label = name if plan.n_seeds == 1 else f"{name} #{seed + 1}"
                options = {} if plan.n_seeds == 1 else {"random_state": seed}
                contender = Contender(f"{label}, {i + 1}", use(repr(loss), training), options)
                like = Contender(name, use(repr(drawn[name][0]), training))
                run = bench.run(
                    f"roth-2020-{plan.slug}", [dataset], [contender], metrics=["zero_one_loss"],
                    quiet=True, like=like,
                )  # fmt: skip
                scores = run.results.mean("zero_one_loss")
                if scores.datasets:
                    found[-1][label] = (loss["lambda_"], 100 * float(scores.values[0, 0]))
    return _points(found, len(plan.uses) * plan.n_seeds)


def _points(found: list[dict[str, tuple[float, float]]], whole: int) -> Points:
    """Return λ and error of the configurations under which all `whole` classifiers were trained."""
    complete = any(len(by_label) == whole for by_label in found)
    points: Points = {}
    for by_label in found:
        if complete and len(by_label) < whole:
            continue
        for label, (lambda_, error) in by_label.items():
            point = points.setdefault(label, {"x": [], "y": []})
            point["x"].append(float(np.log10(lambda_)))
            point["y"].append(error)
    return points


def _figures(plan: Plan, points: Points) -> Iterable[tuple[str, str, Points]]:
    """Iterate over the figures of a sweep: figures 3a and 3b are one, looked at in two ways.

    Where not all of it was run, orderings are compared by the sizes that all of them have, and
    sizes by the orderings that have all of them.
    """
    if plan.uses is not HEURISTICS:
        yield plan.slug, plan.title, points
        return
    parts = [tuple(label.split(", ")) for label in points]
    table = plan.table[:-2]
    for slug, title, part in (
        (f"figure-3a-{table}", f"Figure 3a: image orderings, {table}", 0),
        (f"figure-3b-{table}", f"Figure 3b: number of candidates, {table}", 1),
    ):
        others = [pair[1 - part] for pair in parts]
        whole = {other for other in others if others.count(other) == (len(SIZES), 3)[1 - part]}
        groups: Points = {}
        for label, (order, size) in zip(points, parts, strict=True):
            if whole and (order, size)[1 - part] not in whole:
                continue
            group = groups.setdefault((f"ordering {order}", size)[part], {"x": [], "y": []})
            group["x"] += points[label]["x"]
            group["y"] += points[label]["y"]
        yield slug, title, dict(sorted(groups.items()))


def _rows(title: str, points: Points) -> list[tuple[str, ...]]:
    return [
        (f"{title}: {name}", str(len(found["y"])), f"{min(found['y']):.2f}",
         f"{np.median(found['y']):.2f}")
        for name, found in points.items()
    ]  # fmt: skip


def _few(points: Points) -> Points:
    """Join the random draws of a classifier where there are more lines than colours."""
    if len(points) <= 7:
        return points
    joined: Points = {}
    for label, found in points.items():
        group = joined.setdefault(label.split(" #")[0], {"x": [], "y": []})
        group["x"] += found["x"]
        group["y"] += found["y"]
    return joined


def _pictures(slug: str, title: str, points: Points) -> list[Picture]:
    if not points:
        return []
    data = {"groups": points, "x_label": "log10 λ", "y_label": "test error %",
            "x_range": [0.0 if slug.startswith("figure-2") else 1.0, 3.0]}  # fmt: skip
    caption = "One point per training; lines are the lower parts of the convex hulls."
    return [Picture(slug, title, "envelopes", data, caption)]


# Test errors in per cent by figure and classifier, configuration by configuration.
Runs = dict[tuple[str, str], list[float]]
IMAGES_SWEPT = {"mnist": "figure-3-mnist", "usps": "figure-3"}


def _claims(runs: Runs, n_test: Mapping[str, int]) -> list[Claim]:
    """Judge figures 2 and 3 by differences between trainings under the same configurations."""
    claims = [
        _paired(text, {t: _sizes(runs, t, *sizes) for t in IMAGES_SWEPT})
        for text, sizes in (
            ("On images two candidates beat one (figure 3b)", (2, 1)),
            ("Larger candidate sets are better: K = 8 against 1 (figure 3b)", (8, 1)),
        )
    ]
    text = "Ordering C is slightly better than B, and B than A (figure 3a)"
    gaps = {
        f"{table}, {better} against {worse}": np.concatenate(
            [_gaps(runs, slug, f"{better}, K = {k}", f"{worse}, K = {k}") for k in SIZES]
        )
        for table, slug in IMAGES_SWEPT.items()
        for better, worse in ("CB", "BA")
    }
    claims += [
        _paired(text, gaps), _enough_claim(runs), _subset_sizes_claim(runs),
        _any_ordering_claim(runs, n_test), _wide_claim(runs),
    ]  # fmt: skip
    # Configurations of a subset are no independent trainings: each subset counts once.
    found = [_gaps(runs, "figure-3d", f"K = 8 #{i + 1}", f"K = 2 #{i + 1}").mean() for i in
             range(N_SUBSETS) if ("figure-3d", f"K = 8 #{i + 1}") in runs]  # fmt: skip
    text = "Among random subsets K = 8 clearly beats K = 2 (figure 3d)"
    claims += [_paired(text, {"letter": np.array(found)}), _spread_claim(runs)]
    return [*claims, _orderings_claim(runs)]


def _gaps(runs: Runs, slug: str, a: str, b: str) -> np.ndarray:
    """Return the differences of two classifiers' errors under the same configurations."""
    if (slug, a) not in runs or (slug, b) not in runs:
        return np.zeros(0)
    return np.array(runs[slug, a]) - np.array(runs[slug, b])


def _sizes(runs: Runs, table: str, k: int, less: int) -> np.ndarray:
    """Return the differences of two numbers of neighbours, under every ordering of the pixels."""
    slug = IMAGES_SWEPT[table]
    return np.concatenate([_gaps(runs, slug, f"{o}, K = {k}", f"{o}, K = {less}") for o in "ABC"])


def _paired(text: str, gaps: Mapping[str, np.ndarray], unit: str = "points of error") -> Claim:
    """Judge that errors are lower, by the mean of paired differences."""
    run = {name: found for name, found in gaps.items() if len(found)}
    ends = {name: mean_interval(found, len(run)) for name, found in run.items()}
    parts = {name: judge_gap(interval) for name, interval in ends.items()}
    told = [told_gap(name, float(run[name].mean()), ends[name]) for name in run]
    return claim_of_parts(text, parts, f"{unit}: {'; '.join(told)}")


def _enough_claim(runs: Runs) -> Claim:
    """Judge whether eight candidates gain less over five than half of what two gain over one."""
    text = "On images going from K = 5 to 8 gains little (figure 3b)"
    excess = {t: _sizes(runs, t, 2, 1) / 2 - _sizes(runs, t, 8, 5) for t in IMAGES_SWEPT}
    run = {table: found for table, found in excess.items() if len(found)}
    ends = {table: mean_interval(found, len(run)) for table, found in run.items()}
    parts = {table: judge_gap(interval) for table, interval in ends.items()}
    told = [
        f"{t} {-_sizes(runs, t, 8, 5).mean():+.2f} points (from 1 to 2 "
        f"{-_sizes(runs, t, 2, 1).mean():+.2f}), "
        + told_gap("less half of that", float(run[t].mean()), ends[t])
        for t in run
    ]
    criterion = "less than half of what the step from 1 to 2 gains"
    return claim_of_parts(text, parts, "; ".join(told), criterion=criterion)


def _subset_sizes_claim(runs: Runs) -> Claim:
    """Judge whether random candidates gain more from K = 5 to 8 than neighbours do."""
    text = "For TAN Subset the gain from K = 5 to 8 is larger than for neighbours (section 4.4)"
    parts, told = {}, []
    pairs = {}
    for table in IMAGES_SWEPT:
        slug = f"subset-{table}"
        seeds = [n for s, n in runs if s == slug and n.startswith("K = 8")]
        # Configurations of a seed share its candidates: each seed counts once.
        means = [float(_gaps(runs, slug, n, n.replace("8", "5", 1)).mean()) for n in seeds]
        neighbours = _sizes(runs, table, 8, 5)
        if means and len(neighbours):
            pairs[table] = np.array(means), neighbours
    for table, (random, neighbours) in pairs.items():
        interval = gap_interval(random, neighbours, len(pairs))
        parts[table] = judge_gap(interval)
        told.append(
            f"{table} {-random.mean():+.2f} points against {-neighbours.mean():+.2f}, "
            + told_gap("errors'", float(random.mean() - neighbours.mean()), interval)
        )
    return claim_of_parts(text, parts, "; ".join(told))


def _any_ordering_claim(runs: Runs, n_test: Mapping[str, int]) -> Claim:
    """Judge section 4.4 on mnist, by the lowest errors of each ordering of the pixels."""
    text = "On mnist any ordering of the pixels beats random ones (section 4.4)"
    lowest = {
        order: min(found)
        for order in "ABC"
        if (found := [e for (slug, label), errors in runs.items() for e in errors
                      if slug == "figure-3-mnist" and label.startswith(f"{order}, ")])
    }  # fmt: skip
    if ("figure-2d", "TAN Subset") not in runs or len(lowest) < 3:
        return untested(text, "not run")
    subset = min(runs["figure-2d", "TAN Subset"])
    parts, told = {}, []
    for order, error in lowest.items():
        interval = rate_interval(error, subset, n_test["mnist"], len(lowest))
        parts[order] = judge_gap(interval)
        told.append(told_gap(f"{order} {error:.2f} %,", error - subset, interval))
    return claim_of_parts(text, parts, f"against {subset:.2f} %: {'; '.join(told)}")


def _wide_claim(runs: Runs) -> Claim:
    """Judge section 4.3's "on a wide range of settings" by all trainings of figure 2."""
    text = "TAN Subset is ahead over a wide range of settings, not only with the best (figure 2)"
    pairs = [(p, o) for p in PLANS[:4] for o in ("TAN Random", "Chow–Liu, hybrid")
             if (p.slug, o) in runs and (p.slug, "TAN Subset") in runs]  # fmt: skip
    parts, told = {}, []
    for plan, other in pairs:
        ours, theirs = runs[plan.slug, "TAN Subset"], runs[plan.slug, other]
        # The two settings draw other configurations.
        paired = (other in WIDE) == ("TAN Subset" in WIDE)
        interval = (
            mean_interval(np.array(ours) - np.array(theirs), len(pairs))
            if paired
            else gap_interval(ours, theirs, len(pairs))
        )
        name = f"{plan.table[:-2]}, {other.split(',')[0]}"
        parts[name] = judge_gap(interval)
        told.append(told_gap(name, float(np.mean(ours) - np.mean(theirs)), interval))
    return claim_of_parts(text, parts, f"mean difference in points: {'; '.join(told)}")


def _spread_claim(runs: Runs) -> Claim:
    """Judge whether more candidates bring random subsets nearer to each other."""
    text = "Some parent subsets clearly beat others; with K = 8 by less than with 2 (figure 3d)"
    found = {
        k: [np.array(runs[key]) for i in range(N_SUBSETS)
            if (key := ("figure-3d", f"K = {k} #{i + 1}")) in runs]
        for k in (2, 8)
    }  # fmt: skip
    if min(map(len, found.values())) < 2:
        return untested(text, "not run")
    verdict, told = _clearly(found[2])
    ratio = float(np.var([e.mean() for e in found[2]], ddof=1)
                  / np.var([e.mean() for e in found[8]], ddof=1))  # fmt: skip
    low, high = variance_interval(ratio, len(found[2]), len(found[8]), 2)
    smaller = "holds" if low > 1 else "does not hold" if high < 1 else "undecided"
    parts = {"clear with K = 2": verdict, "smaller with K = 8": smaller}
    number = (
        f"K = 2: {told}; standard deviation of the subsets' means with K = 2 over that with "
        f"K = 8 {np.sqrt(ratio):.2f} ({np.sqrt(low):.2f} to {np.sqrt(high):.2f})"
    )
    return claim_of_parts(text, parts, number, criterion=f"clear is {CLEAR} points")


def _clearly(errors: Sequence[np.ndarray]) -> tuple[str, str]:
    """Judge whether the best of some settings beats the worst under the same configurations.

    The two are chosen from all pairs, which the level of the interval allows for.
    """
    ranked = sorted(errors, key=lambda e: float(e.mean()))
    gaps = ranked[0] - ranked[-1]
    interval = mean_interval(gaps, len(errors) * (len(errors) - 1) // 2)
    verdict = judge_gap(interval)
    if verdict == "holds" and gaps.mean() > -CLEAR:
        verdict = "holds in part"
    return verdict, told_gap("best less worst", float(gaps.mean()), interval)


def _orderings_claim(runs: Runs) -> Claim:
    text = "Some orderings clearly beat others over a wide range of parameters (figure 3c)"
    orders = [np.array(errors) for key, errors in runs.items() if key[0] == "figure-3c"]
    if len(orders) < 2:
        return untested(text, "not run")
    verdict, told = _clearly(orders)
    number = f"points of error, of {len(orders)} orderings: {told}"
    return claim_of_parts(text, {"satimage": verdict}, number, criterion=f"clear is {CLEAR} points")
