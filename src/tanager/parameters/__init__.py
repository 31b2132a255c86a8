"""Parameter learners: the probability tables of a given structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanager.parameters.registry import PARAMETERS
from tanager.parameters.tables import (
    DenseTable,
    FamilyTable,
    GroupedTable,
    Tables,
    TreeTable,
    log_posterior,
    posterior,
)
from tanager.registry import lazy_exports

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
