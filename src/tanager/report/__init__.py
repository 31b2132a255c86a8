"""Pictures and pages of experiments. Needs the extra `report`."""

from tanager.report.figures import (
    plot_convergence,
    plot_convergence_histogram,
    plot_critical_difference,
    plot_curves,
    plot_loss_scatter,
    plot_reliability,
    plot_surface,
)
from tanager.report.page import render_report, write_report

__all__ = [
    "plot_convergence",
    "plot_convergence_histogram",
    "plot_critical_difference",
    "plot_curves",
    "plot_loss_scatter",
    "plot_reliability",
    "plot_surface",
    "render_report",
    "write_report",
]
