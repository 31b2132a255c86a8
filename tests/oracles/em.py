"""Expectation-maximisation by enumerating every completion of every row."""

from itertools import product

import numpy as np

from tanager.codes import Rows
from tanager.codes.rows import exact_weights
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.structure import FitPlan


def log_terms(tables, structure, arities, codes, labels):
    """Return log P(row, class) of complete rows, (n_rows,), family by family."""
    log_joint = tables.log_joint(structure, codes, arities)
    return log_joint[np.arange(len(labels)), labels]


def completions(codes, arities):
    """Return every completion of every row: the row it is of, and codes (n_features, n)."""
    rows, filled = [], []
    for r, row in enumerate(codes.T):
        ranges = [
            range(a) if code >= a else [code] for code, a in zip(row.tolist(), arities, strict=True)
        ]
        for values in product(*ranges):
            rows.append(r)
            filled.append(values)
    return np.array(rows), np.array(filled, codes.dtype).T.copy()


def expectation(tables, structure, arities, codes, labels, weights):
    """Return the rows, codes and weights of all completions, and the log-likelihood."""
    rows, filled = completions(codes, arities)
    logs = log_terms(tables, structure, arities, filled, labels[rows])
    sums = np.full(len(labels), -np.inf)
    np.logaddexp.at(sums, rows, logs)
    # A context that hardly anything reaches counts as never seen, in both.
    shares = exact_weights(np.exp(logs - sums[rows]) * weights[rows], weights.sum())
    return rows, filled, shares, float((weights * sums).sum())


def maximise(learner, structure, domain, codes, labels, weights, n_rounds):
    """Return the tables and the log-likelihoods of some rounds of EM, the first from full families.

    A round hands the learner all completions as rows with weights.
    """
    plan = FitPlan(FitContext())
    tables = learner.learn(
        structure, Counts(Rows.in_memory(domain, codes, labels, weights), FitContext()), plan
    )
    trace = []
    for _ in range(n_rounds):
        rows, filled, shares, log_likelihood = expectation(
            tables, structure, domain.arities, codes, labels, weights
        )
        trace.append(log_likelihood)
        completed = Rows.in_memory(domain, filled, labels[rows], shares)
        tables = learner.learn(structure, Counts(completed, FitContext()), plan)
    return tables, trace
