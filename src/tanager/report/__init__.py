"""Plots (with the extra `report`) and HTML pages of models and experiments."""

from tanager.report.model_page import write_report
from tanager.report.models import plot_effect, plot_network, plot_table
from tanager.report.page import write_comparison, write_drift
from tanager.report.predictions import (
    plot_beeswarm,
    plot_calibration,
    plot_comparison,
    plot_explanation,
)

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
