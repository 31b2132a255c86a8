"""Networks: what a fitted classifier knows."""

from tanager.network.explanation import Explanation, explain_row
from tanager.network.history import Edit
from tanager.network.information import NetworkInformation
from tanager.network.labelled import LabelledTable
from tanager.network.network import Network

__all__ = ["Edit", "Explanation", "LabelledTable", "Network", "NetworkInformation", "explain_row"]
