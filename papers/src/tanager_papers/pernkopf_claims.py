"""What Pernkopf and Bilmes (2008) claim of trees, orders and parameters, judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tanager.evaluation.results import Scores
from tanager.evaluation.statistics import Alternative, Outcome
from tanager_papers.findings import Claim
from tanager_papers.verdicts import claim_of_parts, untested

__all__ = [
    "SMOOTHED",
    "TABLE_1",
    "mnist_claim",
    "order_claim",
    "parameters_claim",
    "tree_claims",
    "two_tree_claim",
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
    better = {n: paired_t(-picks["Max"], -picks[n], "less").p_value for n in ("Mean", "Min")}
    parts = {
        "no better than the mean order": "holds" if better["Mean"] > 0.05 else "does not hold",
        "no better than the worst on training rows": "holds"
        if picks["Max"].mean() <= picks["Min"].mean()
        else "does not hold",
    }
    rates = ", ".join(f"{name} {100 * float(v.mean()):.2f}" for name, v in picks.items())
    told = ", ".join(f"{name} p {p:.3f}" for name, p in better.items())
    worst = picks["Min"].mean() < min(picks["Mean"].mean(), picks["Max"].mean())
    why = (
        "Here the worst structure on training rows is the worst on test rows too." if worst else ""
    )
    return [*claims, claim_of_parts(text, parts, f"{rates}; Max better than {told}", why)]


def _structure_claims(losses: Mapping[str, np.ndarray], n_tables: int) -> list[Claim]:
    text = "Discriminative trees classify better than TAN by mutual information (table 2)"
    trees = ("TAN-OMI-CR-ML", "TAN-OMISP-CR-ML", "TAN-CR-ML")
    plain = losses["TAN-CMI-ML"]
    tests = {n: paired_t(losses[n], plain, "less").p_value for n in trees}
    parts = {
        n.split("-")[1]: "holds" if p <= 0.05
        else "holds in part" if losses[n].mean() < plain.mean()
        else "does not hold"
        for n, p in tests.items()
    }  # fmt: skip
    number = ", ".join(f"{name.split('-')[1]} p {p:.3f}" for name, p in tests.items())
    why = f"All lead on average, on {n_tables} tables instead of 25."
    ahead = all(losses[n].mean() < plain.mean() for n in trees)
    claims = [claim_of_parts(text, parts, number, why if ahead else "")]
    p = paired_t(losses["TAN-CR-ML"], losses["TAN-OMI-CR-ML"], "less").p_value
    text = "The greedy search is not significantly better than the order-based one (table 2)"
    parts = {"TAN-CR against TAN-OMI-CR": "holds" if p > 0.05 else "does not hold"}
    claims.append(claim_of_parts(text, parts, f"p {p:.3f}"))
    return claims


def parameters_claim(losses: Mapping[str, np.ndarray]) -> Claim:
    """Judge what section 5.2 says of discriminative parameters, structure by structure."""
    text = (
        "Discriminative parameters are slightly, not significantly, better than ML on these "
        "structures (table 1)"
    )
    parts, told = {}, []
    for n in ("NB", "TAN-CMI", "TAN-OMI-CR", "TAN-OMISP-CR", "TAN-CR", "2-tree-OMI-CR"):
        trained, plain = losses[f"{n}-CL"], losses[f"{n}-ML"]
        gain = 100 * float((plain - trained).mean())
        p = paired_t(trained, plain, "less").p_value
        better = "holds" if p > 0.05 else "holds in part"
        parts[n] = better if gain > 0 else "does not hold"
        told.append(f"{n} {gain:+.2f} (p {p:.3f})")
    why = "They are better by more than in the paper where they are significantly so."
    clear = "holds in part" in parts.values()
    return claim_of_parts(text, parts, f"points of rate: {', '.join(told)}", why if clear else "")


def order_claim(first_round: Scores, random: Mapping[str, Any]) -> Claim:
    """Judge whether the orders by information are better than random ones, on the same rows."""
    text = "Orders by mutual information do better than random orders (table 1, section 5.2)"
    names = random.get("tables", ())
    places = [first_round.datasets.index(name) for name in names if name in first_round.datasets]
    if len(places) < 3 or len(places) != len(names):
        return untested(text, "not run")
    parts, told = {}, []
    for tree in ("TAN-OMI-CR-ML", "TAN-OMISP-CR-ML"):
        ours = first_round.of(tree)[places]
        for pick in ("Mean", "Max"):
            other = 1 - random[f"TAN-RO-CR-ML, {pick}"]
            name = f"{tree.split('-')[1]} against {pick}"
            gain = 100 * float((other - ours).mean())
            parts[name] = "holds" if gain > 0 else "does not hold"
            p = paired_t(ours, other, "less").p_value
            told.append(f"{name} {gain:+.2f} (p {p:.3f})")
    why = "In the paper, too, OMISP is behind the mean of random orders, 85.56 against 85.59."
    why = why if parts["OMISP against Mean"] != "holds" else ""
    return claim_of_parts(text, parts, f"points of rate: {', '.join(told)}", why)


CL_REASON = (
    "The paper does not say how long its 20 steps are, and they change little there. Ours, halved "
    "until the objective falls and doubled after, gain several points on MNIST, but for the "
    "2-tree: there they come to no loss on training rows, and to no better rate on test rows."
)


def two_tree_claim(rates: Mapping[str, np.ndarray], mnist: Mapping[str, float]) -> Claim:
    """Judge whether the best rate is one of a discriminative 2-tree, by kind of parameters."""
    text = "Of all classifiers the discriminative 2-tree performs best (table 1)"
    found = {"UCI": {n: float(v.mean()) for n, v in rates.items() if len(v)}, "MNIST": dict(mnist)}
    parts, told = {}, []
    for where, by_name in found.items():
        for kind in ("ML", "CL"):
            known = {n: r for n, r in by_name.items() if n in TABLE_1 and n.endswith(kind)}
            trees = {n: r for n, r in known.items() if n.startswith("2-tree")}
            others = {n: r for n, r in known.items() if n not in trees}
            if trees and others:
                best, other = (max(some, key=lambda n: some[n]) for some in (trees, others))
                ahead = trees[best] > others[other]
                parts[f"{where}, {kind}"] = "holds" if ahead else "does not hold"
                told.append(
                    f"{where} {best} {100 * trees[best]:.2f} %, {other} {100 * others[other]:.2f} %"
                )
    return claim_of_parts(text, parts, "; ".join(told), CL_REASON)


def mnist_claim(mnist: Mapping[str, float]) -> Claim:
    """Judge what section 5.2 says of handwritten digits."""
    text = "On MNIST discriminative trees beat TAN-CMI; a smoothed 2-tree has 93.74 % (section 5.2)"
    if not {"TAN-CMI-ML", "TAN-OMI-CR-ML"} <= set(mnist):
        return untested(text, "MNIST was not run")
    plain = {n: rate for n, rate in mnist.items() if n.endswith("ML")}
    trees = {n: rate for n, rate in plain.items() if "-CR" in n}
    won = {n: rate > plain["TAN-CMI-ML"] for n, rate in trees.items()}
    if SMOOTHED in mnist:  # the highest rate of all in the paper
        won[SMOOTHED] = mnist[SMOOTHED] > max(plain.values())
    parts = {name: "holds" if better else "does not hold" for name, better in won.items()}
    told = {**plain, **{n: mnist[n] for n in (SMOOTHED,) if n in mnist}}
    number = ", ".join(f"{name} {100 * rate:.2f} %" for name, rate in told.items())
    return claim_of_parts(text, parts, number)
