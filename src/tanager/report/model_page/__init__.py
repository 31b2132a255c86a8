"""The model's own page: see it, ask it, trust it."""

from tanager.report.model_page.page import render_model_report, write_model_report

__all__ = ["render_model_report", "write_model_report"]
