"""Carvalho, Adão and Mateus (2013): the approximate conditional log-likelihood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tanager.evaluation.datasets import Dataset
from tanager.evaluation.protocol import CrossValidation
from tanager.evaluation.results import Results, Scores
from tanager.evaluation.statistics import WinDrawLoss, wilcoxon, win_draw_loss
from tanager_papers.carvalho_calibration import sure_block
from tanager_papers.carvalho_constants import (
    Constants,
    conditional_sampler,
    dirichlet_constants,
    monte_carlo_constants,
    uniform_constants,
)
from tanager_papers.carvalho_edges import edges_block
from tanager_papers.carvalho_sites import (
    collection,
    on_training_rows,
    study_block,
    ternary,
)
from tanager_papers.duels import DECIMALS, record_text
from tanager_papers.findings import Block, Claim, Part, Picture
from tanager_papers.table_lists import ZAIDI
from tanager_papers.verdicts import (
    Comparison,
    claim_of_parts,
    claim_of_records,
    duel_record,
    on_generated_rows,
)
from tanager_papers.workbench import Workbench

__all__ = ["PARTS", "tables"]

TITLE = (
    "Carvalho, A. M., Adão, P. and Mateus, P. (2013). Efficient approximation of the conditional "
    "relative entropy with applications to discriminative learning of Bayesian network "
    "classifiers. Entropy 15, 2716–2735. DOI 10.3390/e15072716."
)

# Equation 13 and examples 3.6 and 3.7: β, as printed.
CONSTANTS: tuple[tuple[str, Constants, str], ...] = (
    ("uniform, 2 classes", uniform_constants(2), "(π² − 18)/24 = -0.33877"),
    ("uniform, 3 classes", uniform_constants(3), "-0.198873"),
    ("Dir(1, 1, 1000)", dirichlet_constants(2, 1.0, 1000.0), "-0.39291"),
    ("Dir(1, 1, 1, 1000)", dirichlet_constants(3, 1.0, 1000.0), "-0.239266"),
)

# Example 3.7: γ, as printed; under the uniform assumption it depends on an unknown p.
GAMMAS = {"Dir(1, 1, 1000)": "0.61698", "Dir(1, 1, 1, 1000)": "0.6085"}
# Example 3.6: draws that are said to give β to four decimals, by the number of classes.
DRAWS = {2: 20_000, 3: 80_000}

USES = {
    "LL": "tan(root='first', adjusted=False)/friedman(n0=5)",
    "aCLL, Dirichlet": "acll(assumption='dirichlet')/friedman(n0=5)",
    "aCLL, uniform": "acll(assumption='uniform')/friedman(n0=5)",
    "aCLL with its tables": "acll(assumption='dirichlet')/acll(assumption='dirichlet')",
}

# Tables 1 and 2: z and p of Wilcoxon's signed-rank test on the conditional
# log-likelihood; positive z: the first is better.
TABLES = {
    2: (
        ("aCLL, Dirichlet", "LL", "7.08", "7.21e-13"),
        ("aCLL, uniform", "LL", "3.52", "2.15e-04"),
        ("aCLL, Dirichlet", "aCLL, uniform", "6.84", "3.96e-12"),
    ),
    3: (
        ("aCLL, Dirichlet", "LL", "6.91", "2.42e-12"),
        ("aCLL, uniform", "LL", "7.44", "5.03e-14"),
        ("aCLL, Dirichlet", "aCLL, uniform", "-4.07", "2.35e-05"),
    ),
}

METRICS = ("log_loss", "conditional_relative_entropy", "zero_one_loss")
# Rows of the largest table of a quick run.
QUICK_ROWS = 10_000

NOTES = (
    "The three structures share the smoothing that the paper takes from Friedman, Geiger and "
    "Goldszmidt, 5 virtual rows of the marginal; the last row has the paper's own optimal tables "
    "(theorem 3.8).",
)
SITE_REASON = (
    "The paper's tables are real binding sites, ours are generated. aCLL wins where the classes "
    "share a dependence that LL spends its edges on, and loses where they do not: the table of "
    "what the two scores find says when."
)
ASSUMPTION_REASON = (
    "The two differ in β alone, and find the same tree on many tables; the paper's own winner is "
    "another one with three classes than with two."
)
FOLDS_NOTE = "One round of two folds."
SITE_NOTE = (
    "The paper's 89 tables of transcription-factor binding sites from TRANSFAC aren't available; "
    "ours are generated: aligned positions with dependent pairs, against a background. The "
    "paper does not say whether its likelihoods are of training or of other rows."
)


def tables(bench: Workbench) -> Part:
    """Run what the tables at hand allow."""
    part = Part()
    part.blocks += [_constants(), _errors()]
    part.claims += [_draws_claim(), _error_claim()]
    sites = collection(12 if bench.quick else 89)
    for n_classes, title in ((2, "Table 1: two classes"), (3, "Table 2: three classes")):
        tables = sites if n_classes == 2 else ternary(sites)
        blocks, claims = _site_blocks(bench, title, n_classes, tables)
        part.blocks += blocks
        part.claims += claims
    part.blocks.append(study_block(bench, USES))
    block, claim = edges_block(bench, USES)
    part.blocks.append(block)
    part.claims.append(on_generated_rows(claim))
    datasets = bench.tables(ZAIDI, 70 if bench.quick else None, "the tables of Zaidi et al. (2017)")
    real = []
    for n_classes in (2, 3):
        chosen = [d for d in datasets if bench.n_classes[d.name] == n_classes]
        if chosen:
            block, results = _uci_block(bench, n_classes, chosen)
            part.blocks.append(block)
            real.append(results)
    part.blocks.append(sure_block(real))
    part.how = bench.describe(bench.folds)
    return part


PARTS = {"tables": tables}


def _constants() -> Block:
    rows = [
        (name, printed, f"{found.beta:.6f}", GAMMAS.get(name, ""), f"{found.gamma:.5f}")
        for name, found, printed in CONSTANTS
    ]
    notes = (
        "The paper's values are Monte Carlo estimates but for that of two classes under the "
        "uniform assumption: 100,000 draws for Dirichlet, with a standard error of 1.2e-3 for two "
        "classes and 7e-4 for three, and 80,000 for the uniform assumption, with one of 9e-4. Ours "
        "are exact, in closed form.",
        "The printed closed form for three classes under the uniform assumption misses a sign.",
        "Theorem 3.9's example (the score depends on an edge's direction): under the uniform "
        "assumption X1 → X2 has -2.1003 and X2 → X1 -2.2240 with N′ = 1; with N′ = 5, our default, "
        "every count is clipped and the two tie.",
        "γ, natural logarithms, does not matter to a maximum. Under the uniform assumption it "
        "depends on the side p of the cube; ours is for p = 1, the paper's 1.85116 for three "
        "classes for a p that it doesn't state.",
    )
    columns = ("assumption", "β, paper", "ours", "γ, paper", "ours")
    return Block("Constants β", columns, rows, notes)


def _draws_claim() -> Claim:
    """Judge example 3.6 by the spread of β over repeated draws."""
    text = "Tens of thousands of draws give the uniform β to four decimals (example 3.6)"
    errors = {
        n_classes: _error_of_draws(n_classes, n_draws) for n_classes, n_draws in DRAWS.items()
    }
    parts = {
        f"{n_classes} classes": "holds" if error < 1e-4 else "does not hold"
        for n_classes, error in errors.items()
    }
    number = "standard error of β: " + ", ".join(
        f"{error:.1e} with {DRAWS[n_classes]:,} draws, {n_classes} classes"
        for n_classes, error in errors.items()
    )
    why = (
        "Four decimals take hundreds of times as many draws. The paper's own estimate for three "
        "classes, -0.198873, is off in the third."
    )
    return claim_of_parts(text, parts, number, why)


def _error_of_draws(n_classes: int, n_draws: int) -> float:
    """Return the standard error of β by Monte Carlo, from repeated draws."""
    sampler = conditional_sampler(lambda u, _: u)
    found = [
        monte_carlo_constants(sampler, n_classes, n_draws, np.random.default_rng(seed)).beta
        for seed in range(100)
    ]
    return float(np.std(found))


def _errors() -> Block:
    rows = [
        (
            name,
            f"{found.squared_error:.4f}",
            f"{found.standard_error:.4f}",
            f"{100 * _relative_error(name, found):.1f}",
            f"{100 * found.unexplained:.1f}",
        )
        for name, found, _ in CONSTANTS
    ]
    columns = (
        "assumption",
        "mean squared error (equation 21)",
        "standard error",
        "% of |E log P(c | x)|",
        "% of the variance left",
    )
    notes = (
        "The paper prints a relative error of 13.92 % for Dir(1, 1, 1000), half that of the "
        "uniform assumption. What is approximated, f = log P(c | x), has mean -1 and variance 1 "
        "under Dir(1, 1, N), so that the mean squared error of equation 21, 0.1392, is also that "
        "over either; under the uniform assumption its mean is -0.886. The standard error over "
        "|E f| is 37.3 % for Dirichlet and 27.5 % for uniform: 13.92 against 27.5 would be the "
        "paper's half, so a square root seems to be missing. Of the variance of the sum's "
        "logarithm both leave about a fifth.",
    )
    return Block("Error of the approximation (equation 21)", columns, rows, notes)


def _relative_error(name: str, found: Constants) -> float:
    """Return the standard error over the mean of log P(c | x): neither p nor N shifts it."""
    n_classes = 2 if name in ("uniform, 2 classes", "Dir(1, 1, 1000)") else 3
    # E log U_c is -1 on the unit cube; under Dir(1, ..., 1, N) the classes' shares are uniform.
    mean = found.mean - 1.0 if "uniform" in name else -sum(1.0 / k for k in range(1, n_classes))
    return found.standard_error / abs(mean)


def _error_claim() -> Claim:
    uniform, dirichlet = CONSTANTS[0][1], CONSTANTS[2][1]
    text = (
        "Under Dir(1, 1, 1000) the approximation's error is 13.92 %, half the uniform's (section 5)"
    )
    ours = [_relative_error(CONSTANTS[at][0], CONSTANTS[at][1]) for at in (2, 0)]
    number = (
        f"standard error over |E log P(c | x)| {100 * ours[0]:.1f} % against "
        f"{100 * ours[1]:.1f} %; equation 21, mean squared: {dirichlet.squared_error:.4f} against "
        f"{uniform.squared_error:.4f}"
    )
    why = (
        "The printed 13.92 % is the mean squared error over the mean; the uniform assumption's "
        "standard error over the mean is twice as large, so a square root seems to be missing "
        "from one of the two. In the same units the Dirichlet error is the larger."
    )
    parts = {"half": "holds" if ours[0] < 0.6 * ours[1] else "does not hold"}
    return claim_of_parts(text, parts, number, why)


def _site_blocks(
    bench: Workbench, title: str, n_classes: int, tables: Sequence[Dataset]
) -> tuple[list[Block], list[Claim]]:
    contenders = bench.available(USES)
    name = f"carvalho-2013-sites-{n_classes}"
    training = bench.run(
        f"{name}-training", on_training_rows(tables), contenders, metrics=METRICS
    ).results
    held_out = bench.run(
        f"{name}-test", tables, contenders, protocol=CrossValidation(1, 2), metrics=METRICS
    ).results
    notes = (*NOTES, SITE_NOTE)
    blocks = [
        _block(f"{title}, training rows (paper: 89 tables)", n_classes, training, notes),
        _block(f"{title}, rows held out", n_classes, held_out, (FOLDS_NOTE,)),
    ]
    if n_classes == 2:
        pictures = _figure_1(training)
        first = blocks[0]
        blocks[0] = Block(first.title, first.columns, first.rows, first.notes, pictures)
    losses = {"training": training.mean("log_loss"), "held out": held_out.mean("log_loss")}
    records = [
        Comparison(f"{what}, {a.split(', ')[-1]}", duel_record(scores, a, "LL"))
        for what, scores in losses.items()
        for a in ("aCLL, Dirichlet", "aCLL, uniform")
    ]
    text = f"aCLL finds trees of higher conditional likelihood than LL, {n_classes} classes"
    where = f"(table {n_classes - 1})"
    better = claim_of_records(f"{text} {where}", records, SITE_REASON)
    claims = [better, _assumption_claim(losses, n_classes, where)]
    return blocks, [on_generated_rows(claim) for claim in claims]


def _assumption_claim(losses: Mapping[str, Scores], n_classes: int, where: str) -> Claim:
    """Judge which assumption finds the better trees: the paper's winner changes with classes."""
    names = ("aCLL, Dirichlet", "aCLL, uniform")
    first, second = names if n_classes == 2 else names[::-1]
    records = [Comparison(what, duel_record(s, first, second)) for what, s in losses.items()]
    winner, loser = (name.split(", ")[1] for name in (first, second))
    text = f"The {winner} assumption is better than the {loser} one, {n_classes} classes {where}"
    return claim_of_records(text, records, ASSUMPTION_REASON)


def _figure_1(results: Results) -> tuple[Picture, ...]:
    scores = results.mean("log_loss")
    if not scores.datasets:
        return ()
    data = {
        "x": scores.of("LL"),
        "others": {name: scores.of(name) for name in ("aCLL, Dirichlet", "aCLL, uniform")},
        "name": "LL",
        "loss": "minus conditional log-likelihood per row",
    }
    title = "Figure 1: conditional log-likelihood by score"
    caption = "One point per generated table, training rows; above the diagonal LL is better."
    return (Picture("figure-1", title, "scatters", data, caption),)


def _uci_block(bench: Workbench, n_classes: int, datasets: list[Dataset]) -> tuple[Block, Results]:
    contenders = bench.available(USES)
    run = bench.run(
        f"carvalho-2013-uci-{n_classes}",
        datasets,
        contenders,
        metrics=METRICS,
        publish=["reliability"],
    )
    names = run.results.mean("log_loss").datasets
    tables = f"{len(names)} tables: {', '.join(names)}."
    title = f"UCI tables of {n_classes} classes, rows held out"
    return _block(title, n_classes, run.results, (tables,)), run.results


def _block(title: str, n_classes: int, results: Results, notes: tuple[str, ...]) -> Block:
    scores = results.mean("log_loss")
    entropy = results.mean("conditional_relative_entropy")
    rows = []
    for a, b, z, p in (*TABLES[n_classes], ("aCLL with its tables", "LL", "", "")):
        ours: tuple[str, ...] = ("not run", "", "", "")
        if {a, b} <= set(scores.classifiers) and scores.datasets:
            x, y = scores.of(a), scores.of(b)
            test = wilcoxon(x, y, "greater" if z.startswith("-") else "less")
            record: WinDrawLoss = win_draw_loss(x, y, DECIMALS)
            gain = f"{(entropy.of(b) - entropy.of(a)).mean():+.4f}"
            ours = (f"{test.statistic:.2f}", f"{test.p_value:.2g}", record_text(record), gain)
        rows.append((f"{a} : {b}", z, p, *ours))
    columns = (
        "first against second",
        "z, paper",
        "p, paper",
        "z, ours",
        "p, ours",
        f"win–draw–loss ({len(scores.datasets)} tables)",
        "less conditional relative entropy, nats",
    )
    return Block(title, columns, rows, notes)
