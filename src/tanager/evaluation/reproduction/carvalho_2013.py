"""Carvalho, Adão and Mateus (2013): the approximate conditional log-likelihood."""

from __future__ import annotations

from tanager.evaluation.datasets import Dataset
from tanager.evaluation.reproduction.duels import record_text
from tanager.evaluation.reproduction.findings import Block, Findings
from tanager.evaluation.reproduction.listed import ZAIDI
from tanager.evaluation.reproduction.workbench import Workbench
from tanager.evaluation.results import Results
from tanager.evaluation.statistics import wilcoxon, win_draw_loss

__all__ = ["reproduce"]

TITLE = (
    "Carvalho, A. M., Adão, P. and Mateus, P. (2013). Efficient approximation of the conditional "
    "relative entropy with applications to discriminative learning of Bayesian network "
    "classifiers. Entropy 15, 2716–2735. DOI 10.3390/e15072716."
)

# Equation 13 and examples 3.4 and 3.7: β, as printed.
CONSTANTS = (
    ("uniform, 2 classes", "uniform", 2, "(π² − 18)/24 = -0.33877"),
    ("uniform, 3 classes", "uniform", 3, "-0.198873"),
    ("Dir(1, 1, 1000)", "dirichlet", 2, "-0.39291"),
    ("Dir(1, 1, 1, 1000)", "dirichlet", 3, "-0.239266"),
)

USES = {
    "LL": "tan(root='first')/m-estimate(m=5)",
    "aCLL, Dirichlet": "acll(assumption='dirichlet')/m-estimate(m=5)",
    "aCLL, uniform": "acll(assumption='uniform')/m-estimate(m=5)",
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

# Rows of the largest table of a quick run.
QUICK_ROWS = 10_000

NOTES = (
    "The paper's 89 tables of transcription-factor binding sites are not at hand; ours are UCI "
    "tables with as many classes.",
    "Ours is the loss on test folds, and the three structures share the m-estimate with m = 5. "
    "The paper does not say whether its likelihoods are of training or test rows.",
)


def reproduce(bench: Workbench) -> Findings:
    """Run what the tables at hand allow."""
    findings = Findings("carvalho-2013", TITLE, bench.describe(bench.folds))
    findings.blocks.append(_constants())
    datasets = bench.tables(ZAIDI, max_features=70 if bench.quick else None)
    contenders = bench.available(USES)
    for n_classes, title in ((2, "Table 1: two classes"), (3, "Table 2: three classes")):
        chosen = [d for d in datasets if bench.n_classes[d.name] == n_classes]
        if chosen and contenders:
            name = f"carvalho-2013-{n_classes}"
            _, results = bench.run(name, chosen, contenders)
            findings.blocks.append(_block(title, n_classes, chosen, results))
    return findings


def _constants() -> Block:
    from tanager.structure.acll_constants import dirichlet_constants, uniform_constants

    rows = []
    for name, assumption, n_classes, printed in CONSTANTS:
        if assumption == "uniform":
            beta = uniform_constants(n_classes).beta
        else:
            beta = dirichlet_constants(n_classes, 1.0, 1000.0).beta
        rows.append((name, printed, f"{beta:.6f}"))
    notes = (
        "The paper's Dirichlet values are Monte Carlo estimates with a standard error near 8e-4; "
        "ours are exact, in closed form.",
        "The printed closed form for three classes under the uniform assumption misses a sign.",
    )
    return Block("Constants β", ("assumption", "paper", "ours"), rows, notes)


def _block(title: str, n_classes: int, datasets: list[Dataset], results: Results) -> Block:
    scores = results.mean("log_loss")
    rows = []
    extra = (("aCLL with its tables", "LL", "", ""),)
    for a, b, z, p in (*TABLES[n_classes], *extra):
        ours: tuple[str, ...] = ("not run", "", "")
        if {a, b} <= set(scores.classifiers) and scores.datasets:
            x, y = scores.of(a), scores.of(b)
            test = wilcoxon(x, y, "greater" if z.startswith("-") else "less")
            record = record_text(win_draw_loss(x, y, 9))
            ours = (f"{test.statistic:.2f}", f"{test.p_value:.2g}", record)
        rows.append((f"{a} : {b}", z, p, *ours))
    columns = (
        "first against second",
        "z, paper",
        "p, paper",
        "z, ours",
        "p, ours",
        "win–draw–loss",
    )
    tables = f"{len(scores.datasets)} tables: {', '.join(d.name for d in datasets)}."
    return Block(f"{title} (paper: 89 tables)", columns, rows, (*NOTES, tables))
