"""Why aCLL loses to LL on UCI tables: its trees are surer than they have reason to be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tanager.evaluation.results import Results
from tanager_papers.carvalho_sites import too_sure
from tanager_papers.findings import Block

__all__ = ["sure_block"]

TITLE = "Why on UCI tables: overconfidence (not in the paper)"
LL, ACLL = "LL", "aCLL, Dirichlet"


def sure_block(parts: Sequence[Results]) -> Block:
    """Set the gain of aCLL beside how much surer its trees are than those of LL."""
    from scipy.stats import spearmanr

    rows: list[tuple[str, ...]] = []
    gains, surer = [], []
    for results in parts:
        losses, errors = results.mean("log_loss"), results.mean("zero_one_loss")
        sure = too_sure(results)
        for name in losses.datasets:
            at = losses.datasets.index(name)
            gains.append(float(losses.of(LL)[at] - losses.of(ACLL)[at]))
            surer.append(sure[ACLL, name] - sure[LL, name])
            rows.append(
                (
                    name,
                    f"{1000 * gains[-1]:+.1f}",
                    *(f"{100 * errors.of(c)[at]:.1f}" for c in (LL, ACLL)),
                    *(f"{100 * sure[c, name]:+.1f}" for c in (LL, ACLL)),
                )
            )
    if len(rows) < 3:
        return Block(TITLE, notes=("Not run.",))
    order = np.argsort(gains)
    test = spearmanr(gains, surer)
    notes = (
        "Overconfidence: the mean probability of the predicted class minus the share of rows where "
        "it is the true one, on held-out rows.",
        "Spearman's correlation of the gain with the difference in overconfidence is "
        f"{test.statistic:.2f} (p {test.pvalue:.2g}). The errors differ little. aCLL leaves out "
        "edges between features that depend on each other in all classes alike, so its trees count "
        "the same evidence twice.",
    )
    columns = ("table", "gain of aCLL, 0.001 nats per row", "error %, LL", "aCLL",
               "overconfidence in points, LL", "aCLL")  # fmt: skip
    return Block(TITLE, columns, [rows[i] for i in order], notes)
