"""The papers' experiments, declared, with their printed numbers beside ours.

Installed beside Tanager (``pip install ./papers`` in a checkout), it adds the command
``tanager reproduce``, generators of synthetic tables, and the plots of the papers' pages.
"""

from tanager_papers.curves import (
    Curves,
    bias_variance,
    iterations_behind,
    kohavi_wolpert,
    learning_curves,
    missing_feature_curves,
)
from tanager_papers.findings import Block, Findings
from tanager_papers.pages import write_findings, write_index
from tanager_papers.papers import PAPERS, reproduce_paper
from tanager_papers.plots import (
    plot_bars,
    plot_convergence,
    plot_convergence_histogram,
    plot_critical_difference,
    plot_curves,
    plot_envelopes,
    plot_loss_scatter,
    plot_margins,
    plot_reliability,
    plot_scatters,
    plot_surface,
)
from tanager_papers.training import plot_training
from tanager_papers.workbench import Workbench

__all__ = [
    "PAPERS",
    "Block",
    "Curves",
    "Findings",
    "Workbench",
    "bias_variance",
    "iterations_behind",
    "kohavi_wolpert",
    "learning_curves",
    "missing_feature_curves",
    "plot_bars",
    "plot_convergence",
    "plot_convergence_histogram",
    "plot_critical_difference",
    "plot_curves",
    "plot_envelopes",
    "plot_loss_scatter",
    "plot_margins",
    "plot_reliability",
    "plot_scatters",
    "plot_surface",
    "plot_training",
    "reproduce_paper",
    "write_findings",
    "write_index",
]
