"""The model's own page: see it, ask it, trust it."""

from tanager.report.model_page.page import render_report, write_report

__all__ = ["render_report", "write_report"]
