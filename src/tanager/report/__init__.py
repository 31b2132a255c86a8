"""Plots and HTML pages of models and experiments.

Pages have no further dependencies; plots need the extra `report`.
"""

from tanager.report.effects import plot_effect, plot_table
from tanager.report.model_page import write_report
from tanager.report.page import write_comparison, write_drift
from tanager.report.predictions import (
    plot_beeswarm,
    plot_calibration,
    plot_comparison,
    plot_explanation,
)
from tanager.report.structure import plot_network

__all__ = [
    "plot_beeswarm",
    "plot_calibration",
    "plot_comparison",
    "plot_effect",
    "plot_explanation",
    "plot_network",
    "plot_table",
    "write_comparison",
    "write_drift",
    "write_report",
]
