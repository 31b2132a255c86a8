"""Bayesian networks, as learned by a classifier."""

from tanager.network.answers import Answer, Completion, LabelledTable
from tanager.network.decisions import Costs, Decisions, PredictionSets
from tanager.network.drift import Drift
from tanager.network.editing import Edit
from tanager.network.evidence import Evidence, Interval, OneOf, Soft
from tanager.network.explanation import Explanation, explain_row
from tanager.network.information import NetworkInformation
from tanager.network.nearest import Change
from tanager.network.network import Network
from tanager.network.next_question import PlanStep, Question, Questions
from tanager.network.sensitivity import Sensitivity
from tanager.network.shifts import Shift

__all__ = [
    "Answer",
    "Change",
    "Completion",
    "Costs",
    "Decisions",
    "Drift",
    "Edit",
    "Evidence",
    "Explanation",
    "Interval",
    "LabelledTable",
    "Network",
    "NetworkInformation",
    "OneOf",
    "PlanStep",
    "PredictionSets",
    "Question",
    "Questions",
    "Sensitivity",
    "Shift",
    "Soft",
    "explain_row",
]
