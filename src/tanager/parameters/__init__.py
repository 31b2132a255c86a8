"""Parameter learners, the probability tables of a given structure: their interfaces and names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tanager.counts import ContextTree, Counts, Trees
from tanager.engines import FitContext
from tanager.estimator import Estimator
from tanager.numerics import Floats
from tanager.parameters.spread import spread_of_families
from tanager.parameters.tables import (
    DenseTable,
    FamilyTable,
    GroupedTable,
    Tables,
    TreeTable,
    log_posterior,
    posterior,
)
from tanager.registry import Registry, lazy_exports

if TYPE_CHECKING:  # for editors and type checkers
    from tanager.parameters.acll import ACLLParameters as ACLLParameters
    from tanager.parameters.dfe import DFE as DFE
    from tanager.parameters.discriminative import Discriminative as Discriminative
    from tanager.parameters.frequencies import Friedman as Friedman
    from tanager.parameters.frequencies import Laplace as Laplace
    from tanager.parameters.frequencies import MaximumLikelihood as MaximumLikelihood
    from tanager.parameters.frequencies import MEstimate as MEstimate
    from tanager.parameters.hdp import HDP as HDP
    from tanager.parameters.hybrid import Hybrid as Hybrid
    from tanager.parameters.layered import Layered as Layered
    from tanager.structure import FitPlan, Structure, StructureLearner

N_FOLDS = 5  # for choices by held-out rows, and for cross-fitted tables
STREAM = 7  # key of the random streams of learners that sample


class ParameterLearner(Estimator, ABC):
    """Estimates the tables of a given structure.

    As in scikit-learn, `__init__` only stores its parameters; `learn` doesn't modify the object. A
    learner that selects something on held-out rows (such as its smoothing) does so in `choose`.
    """

    @property
    def reads_prior_counts(self) -> bool:
        """Whether it uses a prior as counts, its own or those at its ridge's centre."""
        return False

    @abstractmethod
    def learn(self, structure: Structure, counts: Counts, plan: FitPlan) -> Tables:
        """Learn the tables.

        Parameters
        ----------
        structure : Structure
        counts : Counts
            ``counts.trees(structure)`` has every family's context tree; ``counts.rows`` are the
            training rows themselves.
        plan : FitPlan
            The fit's settings and what it has learned so far. Diagnostics go to
            ``plan.context.record("parameters")``.
        """

    def choose(self, structure: Structure, counts: Counts, plan: FitPlan) -> Self:  # noqa: ARG002
        """Return the learner with all choices made that need held-out rows."""
        return self


class GroupedLearner(ParameterLearner):
    """A parameter learner that uses a feature's own values, and parents by groups of their values.

    Numbers are binned finely for it, structures are learned on the groups (``plan.groups``), and it
    enforces the monotonic effects in ``plan.signs``. A parent that isn't used by any table
    has a single group in its tables, and is dropped from the network.
    """


class CountLearner(ParameterLearner):
    """A parameter learner that only needs counts, and therefore supports `partial_fit`."""

    generative = True  # whether its tables model the distribution of unknown values
    reads_prior_counts = True

    def learn(self, structure: Structure, counts: Counts, plan: FitPlan) -> Tables:
        """Learn the tables from the structure's context trees."""
        learner = self.choose(structure, counts, plan)
        classes, families = learner.prior_counts(structure, counts, plan)
        return learner.from_counts(classes, families, plan.context, intervals=plan.intervals)

    @staticmethod
    def prior_counts(structure: Structure, counts: Counts, plan: FitPlan) -> tuple[Floats, Trees]:
        """Return the class counts and the families' trees, including the plan's prior counts."""
        trees = counts.trees(structure)
        if plan.prior is None:
            return counts.classes, trees
        added = plan.prior.add(structure.families, trees.merged(), structure.names)
        return counts.classes + plan.prior.classes, Trees(added)

    def from_counts(
        self,
        class_counts: Floats,
        trees: Sequence[ContextTree],
        context: FitContext,
        *,
        intervals: bool = True,
    ) -> Tables:
        """Learn the tables from class counts (n_classes,) and each family's tree."""
        self._check()
        learner = self._settled(class_counts, context)
        streams = [context.generator(STREAM, at) for at in range(len(trees))]
        learn_at = partial(_learn_at, learner, trees, intervals)
        found = context.engine.map(learn_at, enumerate(streams), context.progress, "parameters")
        families, spreads, notes = zip(*found, strict=True) if found else ((), (), ())
        learner.report(notes, context)
        spread = spread_of_families(1.0 / np.maximum(class_counts, 1.0), spreads)
        return Tables(learner.log_prior(class_counts), families, spread=spread)

    def learn_family(
        self,
        tree: ContextTree,
        generator: np.random.Generator,  # noqa: ARG002 - for learners that sample
        *,
        intervals: bool,
    ) -> tuple[FamilyTable, FamilyTable | None, Any]:
        """Return one family's table, its variances if `intervals`, and a note for `report`."""
        return self.family(tree), self.spread(tree) if intervals else None, None

    def _settled(self, class_counts: Floats, context: FitContext) -> CountLearner:  # noqa: ARG002
        """Return the learner with what depends on the classes of all rows fixed."""
        return self

    def report(self, notes: Sequence[Any], context: FitContext) -> None:
        """Record the families' notes."""

    def _check(self) -> None:
        """Refuse invalid parameters."""

    @abstractmethod
    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family from its tree."""

    def spread(self, tree: ContextTree) -> FamilyTable | None:  # noqa: ARG002
        """Return the variance of a family's log-probabilities; None if it isn't known."""
        return None

    @abstractmethod
    def log_prior(self, class_counts: Floats) -> Floats:
        """Estimate the class prior."""


def _learn_at(
    learner: CountLearner,
    trees: Sequence[ContextTree],
    intervals: bool,
    item: tuple[int, np.random.Generator],
) -> tuple[FamilyTable, FamilyTable | None, Any]:
    # Trees are built one at a time, then dropped.
    return learner.learn_family(trees[item[0]], item[1], intervals=intervals)


@dataclass(frozen=True)
class TablePrior:
    """Expert knowledge as tables, and how many rows it's worth.

    Parameters
    ----------
    tables : mapping or Network
        From families to tables. A family is ``"cough"``, ``"cough | smoker"`` or
        ``"cough | sick, smoker"``, where the class may be one of the parents, by name;
        or a pair ``("cough", ("sick", "smoker"))``. A table maps the parents' values (a
        tuple, or the value of a single parent) to a mapping from the feature's values to
        probabilities, or is an array with one axis per parent and the feature last, values in
        the order of `Network.table`. Contexts missing from a mapping have no prior.
        The class alone, ``"sick"``, sets a prior for the class probabilities.
        A network is a prior for all its tables.
    strength : float, default=10.0
        The equivalent sample size: how many rows each context of a table is worth. For a
        network, the number of rows drawn from it.

    Notes
    -----
    Learners from counts add the prior as counts: each context is estimated from ``n + strength *
    p``. Learners trained on rows, such as the default, get that many copies of your rows, with the
    feature's values distributed as in the prior. Parents of the structure, or a class, that the
    prior doesn't mention share the rows evenly. The structure must have the arcs in the prior.
    With a network, its codes are used, and ``structure="auto"`` is its structure.

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


# The learners by name; ``PARAMETERS.resolve("laplace(alpha=0.5)")`` builds one.
PARAMETERS: Registry[ParameterLearner] = Registry(
    "tanager.parameters",
    "ParameterLearner",
    {
        "acll": "acll:ACLLParameters",
        "dfe": "dfe:DFE",
        "discriminative": "discriminative:Discriminative",
        "friedman": "frequencies:Friedman",
        "hdp": "hdp:HDP",
        "hybrid": "hybrid:Hybrid",
        "laplace": "frequencies:Laplace",
        "layered": "layered:Layered",
        "m-estimate": "frequencies:MEstimate",
        "ml": "frequencies:MaximumLikelihood",
    },
    example="m-estimate(m=1)",
    group="tanager.parameters",
)


def resolve_pair(structure: Any, parameters: Any) -> tuple[StructureLearner, ParameterLearner]:
    """Return both learners; "auto" picks the structure that suits the parameters.

    >>> resolve_pair("auto", "hdp")
    (TAN(adjusted=True, root='information'), HDP())
    >>> resolve_pair("auto", "layered")
    (KTree(), Layered())
    """
    from tanager.structure import STRUCTURES

    learner = PARAMETERS.resolve(parameters)
    if isinstance(structure, str) and structure.strip() == "auto":
        tree = "tan(root='information', adjusted=True)"
        structure = "ktree" if isinstance(learner, GroupedLearner) else tree
    return STRUCTURES.resolve(structure), learner


# Learners are loaded on first use: reading a model needs none of them, and so neither
# scikit-learn nor SciPy, whose imports take longer than everything else.
__all__ = [
    "CountLearner",
    "DenseTable",
    "FamilyTable",
    "GroupedLearner",
    "GroupedTable",
    "ParameterLearner",
    "TablePrior",
    "Tables",
    "TreeTable",
    "log_posterior",
    "posterior",
    *PARAMETERS.exports,
]

__getattr__, __dir__ = lazy_exports(__name__, PARAMETERS.exports)
