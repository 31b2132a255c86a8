"""Parameter learners: the probability tables of a given structure."""

from tanager.parameters.learner import CountLearner, ParameterLearner
from tanager.parameters.tables import DenseTable, FamilyTable, Tables, TreeTable, log_posterior

__all__ = [
    "CountLearner",
    "DenseTable",
    "FamilyTable",
    "ParameterLearner",
    "Tables",
    "TreeTable",
    "log_posterior",
]
