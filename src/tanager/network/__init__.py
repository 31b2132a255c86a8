"""Networks: what a fitted classifier knows."""

from tanager.network.explanation import Explanation, explain_row
from tanager.network.labelled import LabelledTable
from tanager.network.network import Network

__all__ = ["Explanation", "LabelledTable", "Network", "explain_row"]
