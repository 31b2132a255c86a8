"""Parameter learners: the probability tables of a given structure."""

from tanager.parameters.frequencies import Laplace, MaximumLikelihood, MEstimate
from tanager.parameters.hdp import HDP
from tanager.parameters.hybrid import Hybrid
from tanager.parameters.learner import CountLearner, ParameterLearner
from tanager.parameters.registry import PARAMETERS, resolve_parameters
from tanager.parameters.tables import DenseTable, FamilyTable, Tables, TreeTable, log_posterior

__all__ = [
    "HDP",
    "PARAMETERS",
    "CountLearner",
    "DenseTable",
    "FamilyTable",
    "Hybrid",
    "Laplace",
    "MEstimate",
    "MaximumLikelihood",
    "ParameterLearner",
    "Tables",
    "TreeTable",
    "log_posterior",
    "resolve_parameters",
]
