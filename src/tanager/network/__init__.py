"""Networks: what a fitted classifier knows."""

from tanager.network.labelled import LabelledTable
from tanager.network.network import Network

__all__ = ["LabelledTable", "Network"]
