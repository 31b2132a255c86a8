"""Pictures and pages of models and experiments.

The page of a model needs nothing more; pictures and the page of an experiment
need the extra `report`.
"""

from tanager.report.comparison import plot_intervals
from tanager.report.effects import plot_effect
from tanager.report.explanation import plot_calibration, plot_explanation
from tanager.report.figures import plot_critical_difference, plot_loss_scatter, plot_reliability
from tanager.report.model_page import render_model_report, write_model_report
from tanager.report.page import render_report, write_report
from tanager.report.structure import plot_network
from tanager.report.tables import plot_table

__all__ = [
    "plot_calibration",
    "plot_critical_difference",
    "plot_effect",
    "plot_explanation",
    "plot_intervals",
    "plot_loss_scatter",
    "plot_network",
    "plot_reliability",
    "plot_table",
    "render_model_report",
    "render_report",
    "write_model_report",
    "write_report",
]
