"""Pictures and pages of models and experiments.

The page of a model needs nothing more; pictures and the page of an experiment
need the extra `report`.
"""

from tanager.report.contributions import plot_beeswarm, plot_dependence
from tanager.report.drift_page import write_drift
from tanager.report.effects import plot_effect
from tanager.report.explanation import plot_calibration, plot_explanation
from tanager.report.figures import plot_comparison
from tanager.report.model_page import write_report
from tanager.report.page import write_comparison
from tanager.report.structure import plot_network
from tanager.report.tables import plot_table

__all__ = [
    "plot_beeswarm",
    "plot_calibration",
    "plot_comparison",
    "plot_dependence",
    "plot_effect",
    "plot_explanation",
    "plot_network",
    "plot_table",
    "write_comparison",
    "write_drift",
    "write_report",
]
