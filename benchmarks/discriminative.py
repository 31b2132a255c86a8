"""One evaluation of the discriminative objective: against scikit-learn's and a plain pass.

python benchmarks/discriminative.py [--write]
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks.measuring import cpu_seconds, markdown, publish
from tanager import native
from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.parameters import Discriminative
from tanager.parameters.discriminative.problem import Problem, Strengths
from tanager.structure import FitPlan, Structure

# rows, arities, classes: the shape of Adult after discretisation, then larger ones
ADULT = (9, 9, 2, 16, 7, 7, 15, 6, 5, 2, 3, 3, 5, 42)
SHAPES = {
    "Adult's shape, 48,842 × 14": (48_842, ADULT, 2),
    "1,000,000 × 30, 2 classes": (1_000_000, (5,) * 30, 2),
    "1,000,000 × 30, 5 classes": (1_000_000, (5,) * 30, 5),
}


def plain_pass(codes, arities, flat, out):  # type: ignore[no-untyped-def]
    """Read every code and add one number for each."""
    each = np.arange(len(arities) + 1)
    starts = np.cumsum(arities) - arities
    native.add_dense_terms(codes, arities, each[:-1], each, flat, starts, out)


def make_rows(n_rows: int, arities: tuple[int, ...], n_classes: int) -> Rows:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, n_classes, n_rows).astype(np.uint16)
    codes = np.empty((len(arities), n_rows), np.uint8)
    for i, arity in enumerate(arities):
        lean = rng.random(n_rows) < 0.2
        codes[i] = np.where(lean, labels % arity, rng.integers(0, arity, n_rows))
    names = tuple(f"x{i}" for i in range(len(arities)))
    return Rows.in_memory(Domain(names, np.array(arities), n_classes), codes, labels)


def one_hot(rows: Rows) -> sp.csr_matrix:
    codes = rows.gather().codes
    n_features, n_rows = codes.shape
    starts = np.cumsum([0, *rows.domain.arities[:-1]])
    columns = (codes.T + starts).astype(np.int32).ravel()
    ends = np.arange(0, n_rows * n_features + 1, n_features, dtype=np.int32)
    shape = (n_rows, int(rows.domain.arities.sum()))
    return sp.csr_matrix((np.ones(n_rows * n_features), columns, ends), shape=shape)


def peer_seconds(rows: Rows, few: int = 2, many: int = 12) -> float:
    """Return CPU seconds of one more iteration of scikit-learn's L-BFGS, data checks excluded."""
    table, labels = one_hot(rows), rows.gather().labels

    def fit(iterations: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            LogisticRegression(max_iter=iterations, tol=1e-12).fit(table, labels)

    # a difference of short times is noisy: the least of more runs where they are cheap
    repeats = 2 if rows.n_rows > 100_000 else 20
    times = [cpu_seconds(lambda n=n: fit(n), repeats) for n in (few, many)]
    return (times[1] - times[0]) / (many - few)


def main() -> None:
    lines = []
    for name, shape in SHAPES.items():
        rows = make_rows(*shape)
        context = FitContext()
        counts = Counts(rows, context)
        structure = Structure.from_parents(rows.domain.names, [()] * rows.domain.n_features)
        problem = Problem.of(Discriminative("direct"), structure, counts, FitPlan(context))
        form, tables = problem.final()
        objective = problem.objective(form, tables, Strengths(1.0, 0.0))
        free = form.generative.copy()
        codes, out = rows.gather().codes, np.zeros((rows.n_rows, 1))
        arities = rows.domain.arities
        flat = np.random.default_rng(1).normal(size=int(arities.sum()) + 1)
        repeats = 20 if rows.n_rows > 100_000 else 300
        ours = plain = peer = np.inf
        for _ in range(3):  # in turns, since the machine's own speed comes and goes
            ours = min(ours, cpu_seconds(lambda f=free, o=objective: o(f), repeats))
            plain = min(
                plain,
                cpu_seconds(
                    lambda c=codes, a=arities, f=flat, o=out: plain_pass(c, a, f, o), repeats
                ),
            )
            peer = min(peer, peer_seconds(rows))
        lines.append(
            (
                name,
                f"{ours * 1e3:.2f} ms",
                f"{peer * 1e3:.2f} ms",
                f"{peer / ours:.1f}×",
                f"{plain * 1e3:.2f} ms",
                f"{ours / plain:.1f}×",
            )
        )
    head = (
        "rows × features",
        "one evaluation",
        "scikit-learn, one iteration",
        "faster by",
        "plain pass",
        "of a plain pass",
    )
    text = (
        "Loss and gradient of the conditional log-likelihood, naive structure, one thread, CPU "
        "time. scikit-learn: `LogisticRegression` (lbfgs, sparse one-hot), the difference of fits "
        "of 12 and 2 iterations over ten. Plain pass: a compiled loop that reads every code once "
        "and adds one number for it. Three turns of each, the least time of all.\n\n"
        + markdown(head, lines)
    )
    publish("discriminative", "The discriminative objective", text)


if __name__ == "__main__":
    main()
