"""Networks: what a fitted classifier knows."""

from tanager.network.answers import Answer, Completion, LabelledTable
from tanager.network.evidence import Evidence, Interval, OneOf, Soft
from tanager.network.explanation import Explanation, explain_row
from tanager.network.history import Edit
from tanager.network.information import NetworkInformation
from tanager.network.network import Network

__all__ = [
    "Answer",
    "Completion",
    "Edit",
    "Evidence",
    "Explanation",
    "Interval",
    "LabelledTable",
    "Network",
    "NetworkInformation",
    "OneOf",
    "Soft",
    "explain_row",
]
