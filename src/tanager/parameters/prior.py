"""What is known of probability tables before any row is seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["TablePrior"]


@dataclass(frozen=True)
class TablePrior:
    """Tables that experts give, and how many rows they are worth.

    Parameters
    ----------
    tables : mapping or Network
        From families to tables. A family is ``"cough"``, ``"cough | smoker"`` or
        ``"cough | sick, smoker"``, where the class may stand among the parents by its name;
        or a pair ``("cough", ("sick", "smoker"))``. A table maps the parents' values (a
        tuple, or the value of a single one) to a mapping from the feature's values to
        probabilities, or is an array, one axis per parent and the feature's last, values as
        `Network.table` orders them. Contexts that a mapping does not name have no prior.
        The class alone, ``"sick"``, is a prior for its own probabilities.
        A network is a prior for all its tables.
    strength : float, default=10.0
        The equivalent sample size: as many rows as each context of a table is worth. Of a
        network: how many of its own rows were seen.

    Notes
    -----
    The rows are added as counts, so the estimate of each context is what the learner makes of
    ``n + strength * p``. Where a structure has parents that the prior does not name, or the
    class is not named, they are spread evenly over their values. The arcs that a prior names
    are required of the structure. With a network, columns are coded as the network codes
    them, and ``structure="auto"`` is its structure.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.parameters import TablePrior
    >>> prior = TablePrior({"x0 | class": {"0": {"a": 0.9, "b": 0.1}}}, strength=8)
    >>> clf = BayesNetClassifier("naive", "ml", prior=prior).fit([["a"], ["b"]] * 2, [0, 1] * 2)
    >>> print(clf.network_.table("x0"))
    P(x0 | class)
    class      a      b
    0      0.920  0.080
    1      0.000  1.000
    """

    tables: Mapping[Any, Any] | Any
    strength: float = 10.0
