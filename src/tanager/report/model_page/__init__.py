"""The HTML report of a model: performance, structure, effects and what-if queries."""

from tanager.report.model_page.page import render_report, write_report

__all__ = ["render_report", "write_report"]
