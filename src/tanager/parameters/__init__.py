"""Parameter learners: the probability tables of a given structure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from tanager.parameters.learner import CountLearner as CountLearner
    from tanager.parameters.learner import GroupedLearner as GroupedLearner
    from tanager.parameters.learner import ParameterLearner as ParameterLearner
    from tanager.parameters.learner import TablePrior as TablePrior
    from tanager.structure import StructureLearner

# The learners by name; ``PARAMETERS.resolve("laplace(alpha=0.5)")`` builds one.
PARAMETERS: Registry[ParameterLearner] = Registry(
    "tanager.parameters",
    "learner:ParameterLearner",
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
    from tanager.parameters.learner import GroupedLearner
    from tanager.structure import STRUCTURES

    learner = PARAMETERS.resolve(parameters)
    if isinstance(structure, str) and structure.strip() == "auto":
        tree = "tan(root='information', adjusted=True)"
        structure = "ktree" if isinstance(learner, GroupedLearner) else tree
    return STRUCTURES.resolve(structure), learner


# Learners are loaded on first use: reading a model needs none of them, and so neither
# scikit-learn nor SciPy, whose imports take longer than everything else.
_HOMES = {
    **PARAMETERS.exports,
    "CountLearner": "tanager.parameters.learner",
    "GroupedLearner": "tanager.parameters.learner",
    "TablePrior": "tanager.parameters.learner",
}

__all__ = [
    "DenseTable",
    "FamilyTable",
    "GroupedTable",
    "Tables",
    "TreeTable",
    "log_posterior",
    "posterior",
    *_HOMES,
]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
