"""Pictures and pages of models and experiments.

The page of a model needs nothing more; pictures and the page of an experiment
need the extra `report`.
"""

from tanager.report.comparison import (
    plot_bars,
    plot_envelopes,
    plot_intervals,
    plot_margins,
    plot_scatters,
)
from tanager.report.effects import plot_effect
from tanager.report.explanation import plot_calibration, plot_explanation
from tanager.report.figures import (
    plot_convergence,
    plot_convergence_histogram,
    plot_critical_difference,
    plot_curves,
    plot_loss_scatter,
    plot_reliability,
    plot_surface,
)
from tanager.report.model_page import render_model_report, write_model_report
from tanager.report.page import render_report, write_report
from tanager.report.papers import write_findings, write_index
from tanager.report.structure import plot_network
from tanager.report.tables import plot_table
from tanager.report.training import plot_training

__all__ = [
    "plot_bars",
    "plot_calibration",
    "plot_convergence",
    "plot_convergence_histogram",
    "plot_critical_difference",
    "plot_curves",
    "plot_effect",
    "plot_envelopes",
    "plot_explanation",
    "plot_intervals",
    "plot_loss_scatter",
    "plot_margins",
    "plot_network",
    "plot_reliability",
    "plot_scatters",
    "plot_surface",
    "plot_table",
    "plot_training",
    "render_model_report",
    "render_report",
    "write_findings",
    "write_index",
    "write_model_report",
    "write_report",
]
