"""Small random tables for the tests of discriminative parameters."""

from __future__ import annotations

import numpy as np

from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.parameters import CountLearner
from tanager.parameters.frequencies import MEstimate, additive_table
from tanager.structure import FitPlan, Structure

PARENTS = {
    "naive": [(), (), (), ()],
    "tree": [(), (0,), (1,), (0,)],
    "clique": [(), (0,), (1, 0), (2, 1)],
    "immoral": [(), (), (0, 1), (1, 2)],
}


class Plain(MEstimate):
    """The m-estimate with m=1 and no back-off, as in the reference traces."""

    def __init__(self):
        super().__init__(m=1.0)

    def family(self, tree):
        return additive_table(tree, 1.0 / tree.arity, backoff=False)


assert issubclass(Plain, CountLearner)


def make_rows(seed=0, n_rows=60, arities=(3, 2, 4, 2), n_classes=3, *, unknown=0.0, weights=None):
    rng = np.random.default_rng(seed)
    arities = np.array(arities)
    labels = rng.integers(0, n_classes, n_rows).astype(np.uint16)
    labels[:n_classes] = np.arange(n_classes)
    codes = np.empty((len(arities), n_rows), np.uint8)
    for i, arity in enumerate(arities):
        # values lean on the class and on the feature before, so that there is something to learn
        lean = labels + (codes[i - 1] if i else 0)
        codes[i] = np.where(rng.random(n_rows) < 0.5, lean % arity, rng.integers(0, arity, n_rows))
        codes[i][rng.random(n_rows) < unknown] = arity
    domain = Domain(tuple(f"x{i}" for i in range(len(arities))), arities, n_classes)
    return Rows.in_memory(domain, codes, labels, weights)


def make_structure(rows, name):
    return Structure.from_parents(rows.domain.names, PARENTS[name])


def in_blocks(rows, block_rows):
    codes, labels, weights = rows.gather()[:3]
    return Rows.in_memory(rows.domain, codes, labels, weights, block_rows=block_rows)


def learn(learner, rows, structure, *, n_jobs=None, intervals=False):
    context = FitContext(engine=LocalEngine(n_jobs))
    plan = FitPlan(context, intervals=intervals)
    tables = learner.learn(structure, Counts(rows, context), plan)
    return tables, context.info.get("parameters", {})


def posterior(tables, structure, rows):
    codes = rows.gather().codes
    joint = tables.log_joint(structure, codes, rows.domain.arities)
    joint -= joint.max(axis=1, keepdims=True)
    p = np.exp(joint)
    return p / p.sum(axis=1, keepdims=True)
