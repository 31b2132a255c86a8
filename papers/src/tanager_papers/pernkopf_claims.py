"""What Pernkopf and Bilmes (2008) claim of trees, orders and parameters, judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tanager.evaluation.results import Scores
from tanager.evaluation.statistics import Alternative, Outcome
from tanager_papers.findings import Claim
from tanager_papers.verdicts import (
    claim_of_parts,
    judge_gap,
    judge_same,
    mean_interval,
    rate_interval,
    told_gap,
    untested,
)

__all__ = [
    "SMOOTHED",
    "TABLE_1",
    "mnist_claim",
    "order_claim",
    "parameters_claim",
    "tree_claims",
    "two_tree_claims",
]

# Table 1: classification rates in per cent, mean over 25 UCI tables, and MNIST. For random
# orders of 2-trees the paper has rates of speech data alone.
TABLE_1 = {
    "NB-ML": (83.82, 83.73),
    "NB-CL": (84.10, 83.77),
    "TAN-CMI-ML": (85.00, 91.28),
    "TAN-CMI-CL": (85.09, 91.28),
    "TAN-RO-CR-ML, Mean": (85.59, None),
    "TAN-RO-CR-ML, Min": (85.51, None),
    "TAN-RO-CR-ML, Max": (85.42, None),
    "TAN-OMI-CR-ML": (85.72, 92.01),
    "TAN-OMI-CR-CL": (85.74, 92.01),
    "TAN-OMISP-CR-ML": (85.56, 92.10),
    "TAN-OMISP-CR-CL": (85.61, 92.10),
    "TAN-CR-ML": (85.79, 92.58),
    "TAN-CR-CL": (85.78, 92.58),
    "2-tree-RO-CR-ML, Mean": (None, None),
    "2-tree-RO-CR-ML, Min": (None, None),
    "2-tree-RO-CR-ML, Max": (None, None),
    "2-tree-OMI-CR-ML": (85.74, 92.69),
    "2-tree-OMI-CR-CL": (85.83, 92.69),
}

SMOOTHED = "2-tree-OMI-CR, smoothed"
MNIST_ROWS = 10_000  # for testing
SMALL = 0.5  # points of rate: a gain that is none


def paired_t(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> Outcome:
    """Student's t over paired losses, as in Pernkopf and Bilmes (2008), table 2."""
    from scipy import stats

    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if np.ptp(x - y) == 0:
        if x[0] == y[0]:
            return Outcome(0.0, 1.0)
        more = bool(x[0] > y[0])
        against = alternative == ("less" if more else "greater")  # the other side was asked for
        return Outcome(np.inf if more else -np.inf, 1.0 if against else 0.0)
    result = stats.ttest_rel(x, y, alternative=alternative)
    return Outcome(float(result.statistic), float(result.pvalue))


def tree_claims(scores: Scores, random: Mapping[str, Any]) -> list[Claim]:
    """Judge what section 5.2 says of trees, parameters and random orders."""
    losses = {name: scores.of(name) for name in scores.classifiers}
    claims = _structure_claims(losses, len(scores.datasets)) if len(scores.datasets) > 2 else []
    text = "Of random orders the best on training rows is no better on test rows (table 1)"
    if "TAN-RO-CR-ML, Max" not in random or len(random["tables"]) < 3:
        return [*claims, untested(text, "not run")]
    picks = {n: random[f"TAN-RO-CR-ML, {n}"] for n in ("Mean", "Min", "Max")}
    gaps = {f"Max over {n}": 100 * (np.asarray(picks["Max"]) - picks[n]) for n in ("Mean", "Min")}
    worst = picks["Min"].mean() < min(picks["Mean"].mean(), picks["Max"].mean())
    why = (
        "Here the worst structure on training rows is the worst on test rows too." if worst else ""
    )
    return [*claims, _means_claim(text, gaps, why, bound=SMALL)]


def _means_claim(
    text: str, gains: Mapping[str, ArrayLike], why: str = "", bound: float | None = None
) -> Claim:
    """Judge gains in points of rate by their mean over tables.

    That they're above zero or, with a bound, that they stay below it.
    """
    found = {name: np.asarray(gain, np.float64) for name, gain in gains.items()}
    ends = {name: mean_interval(gain, len(found)) for name, gain in found.items()}
    parts = {
        name: judge_gap((-high, -low)) if bound is None else judge_gap((low, high), bound)
        for name, (low, high) in ends.items()
    }
    told = [told_gap(name, float(found[name].mean()), ends[name]) for name in found]
    criterion = "" if bound is None else f"a gain below {bound} points"
    return claim_of_parts(
        text, parts, f"points of rate: {'; '.join(told)}", why, criterion=criterion
    )


def _structure_claims(losses: Mapping[str, np.ndarray], n_tables: int) -> list[Claim]:
    text = "Discriminative trees classify better than TAN by mutual information (table 2)"
    trees = ("TAN-OMI-CR-ML", "TAN-OMISP-CR-ML", "TAN-CR-ML")
    plain = losses["TAN-CMI-ML"]
    gains = {n.split("-")[1]: 100 * (plain - losses[n]) for n in trees}
    why = f"All lead on average, on {n_tables} tables instead of 25."
    ahead = all(losses[n].mean() < plain.mean() for n in trees)
    claims = [_means_claim(text, gains, why if ahead else "")]
    greedy, order = losses["TAN-CR-ML"], losses["TAN-OMI-CR-ML"]
    p = paired_t(greedy, order, "less").p_value
    text = "The greedy search is not significantly better than the order-based one (table 2)"
    why = f"It isn't significantly better here either (p {p:.3f})." if p > 0.05 else ""
    gains = {"TAN-CR over TAN-OMI-CR": 100 * (order - greedy)}
    return [*claims, _means_claim(text, gains, why, bound=SMALL)]


def parameters_claim(losses: Mapping[str, np.ndarray]) -> Claim:
    """Judge what section 5.2 says of discriminative parameters, structure by structure."""
    text = (
        "Discriminative parameters are slightly, not significantly, better than ML on these "
        "structures (table 1)"
    )
    structures = ("NB", "TAN-CMI", "TAN-OMI-CR", "TAN-OMISP-CR", "TAN-CR", "2-tree-OMI-CR")
    parts, told = {}, []
    significant = []
    for n in structures:
        trained, plain = losses[f"{n}-CL"], losses[f"{n}-ML"]
        gains = 100 * (plain - trained)
        interval = mean_interval(gains, len(structures))
        small = judge_same(interval, SMALL)
        # Clearly better, but not clearly by little, is the direction alone.
        better = "holds in part" if small == "undecided" and interval[0] > 0 else small
        parts[n] = better if gains.mean() > 0 or better != "holds" else "undecided"
        p = paired_t(trained, plain, "less").p_value
        told.append(f"{told_gap(n, float(gains.mean()), interval)}, p {p:.3f}")
        significant += [n] if p <= 0.05 else []
    listed = ", ".join(significant) or "no structure"
    why = f"By the paper's test, one-sided at 0.05, the gain is significant for {listed}."
    criterion = f"a difference below {SMALL} points"
    return claim_of_parts(
        text, parts, f"points of rate: {'; '.join(told)}", why, criterion=criterion
    )


def order_claim(first_round: Scores, random: Mapping[str, Any]) -> Claim:
    """Judge whether the orders by information are better than random ones, on the same rows."""
    text = "Orders by mutual information do better than random orders (table 1, section 5.2)"
    names = random.get("tables", ())
    places = [first_round.datasets.index(name) for name in names if name in first_round.datasets]
    if len(places) < 3 or len(places) != len(names):
        return untested(text, "not run")
    gains = {
        f"{tree.split('-')[1]} over {pick}": 100
        * (1 - random[f"TAN-RO-CR-ML, {pick}"] - first_round.of(tree)[places])
        for tree in ("TAN-OMI-CR-ML", "TAN-OMISP-CR-ML")
        for pick in ("Mean", "Max")
    }
    why = "In the paper OMISP is behind the mean of random orders itself, 85.56 against 85.59."
    return _means_claim(text, gains, why)


CL_REASON = (
    "The paper does not say how long its 20 steps are, and they change little there. Ours, halved "
    "until the objective falls and doubled after, gain several points on MNIST, but for the "
    "2-tree: there they reach zero loss on the training rows, and no better rate on the test rows."
)


def two_tree_claims(rates: Mapping[str, np.ndarray], mnist: Mapping[str, float]) -> list[Claim]:
    """Judge whether a discriminative 2-tree has the best rate, by kind of parameters."""
    found = {"UCI": {n: float(v.mean()) for n, v in rates.items() if len(v)}, "MNIST": dict(mnist)}
    claims = []
    for kind, called in (("ML", "maximum-likelihood"), ("CL", "discriminative")):
        pairs = {}
        for where, by_name in found.items():
            known = {n: r for n, r in by_name.items() if n in TABLE_1 and n.endswith(kind)}
            trees = {n: r for n, r in known.items() if n.startswith("2-tree")}
            others = {n: r for n, r in known.items() if n not in trees}
            if trees and others:
                pairs[where] = [max(some, key=some.__getitem__) for some in (trees, others)]
        parts, told = {}, []
        for where, (tree, other) in pairs.items():
            errors = [100 * (1 - found[where][n]) for n in (tree, other)]
            if where == "UCI":
                gaps = 100 * (np.asarray(rates[other]) - rates[tree])
                interval = mean_interval(gaps, len(pairs))
            else:
                interval = rate_interval(errors[0], errors[1], MNIST_ROWS, len(pairs))
            parts[where] = judge_gap(interval)
            name = f"{where} {tree} {100 - errors[0]:.2f} %, {other} {100 - errors[1]:.2f} %, gain"
            ends = (-interval[1], -interval[0])
            told.append(told_gap(name, errors[1] - errors[0], ends))
        text = f"Of all classifiers with {called} parameters the 2-tree performs best (table 1)"
        why = (
            CL_REASON if kind == "CL" else "It ranks first on both, but not by more than the error."
        )
        ahead = all(found[w][a] > found[w][b] for w, (a, b) in pairs.items())
        why = why if kind == "CL" or ahead else ""
        claims.append(claim_of_parts(text, parts, "; ".join(told), why))
    return claims


def mnist_claim(mnist: Mapping[str, float]) -> Claim:
    """Judge what section 5.2 says of handwritten digits."""
    text = "On MNIST discriminative trees beat TAN-CMI; a smoothed 2-tree has 93.74 % (section 5.2)"
    if not {"TAN-CMI-ML", "TAN-OMI-CR-ML"} <= set(mnist):
        return untested(text, "MNIST was not run")
    plain = {n: rate for n, rate in mnist.items() if n.endswith("ML")}
    pairs = {n: (rate, plain["TAN-CMI-ML"]) for n, rate in plain.items() if "-CR" in n}
    if SMOOTHED in mnist:  # the highest rate of all in the paper
        pairs[SMOOTHED] = (mnist[SMOOTHED], max(plain.values()))
    parts = {}
    for name, rates in pairs.items():
        ours, other = (100 * (1 - rate) for rate in rates)
        parts[name] = judge_gap(rate_interval(ours, other, MNIST_ROWS, len(pairs)))
    told = {**plain, **{n: mnist[n] for n in (SMOOTHED,) if n in mnist}}
    number = ", ".join(f"{name} {100 * rate:.2f} %" for name, rate in told.items())
    half = rate_interval(7.0, 6.0, MNIST_ROWS, len(pairs))[1] - 1.0
    return claim_of_parts(text, parts, f"{number}; differences ± {half:.1f} points at most")
