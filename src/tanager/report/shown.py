"""Figures and axes that a notebook shows when they are the last line of a cell.

Those that pyplot makes are shown by its notebook backend, but live until they are closed.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tanager.report.style import picture_svg


class ShownFigure(Figure):
    """A figure that a notebook shows."""

    def _repr_svg_(self) -> str:
        title = next((ax.get_title(loc="left") for ax in self.axes), "")
        return picture_svg(self, title=title or "A picture")


class ShownAxes(Axes):
    """Axes whose figure a notebook shows."""

    def _repr_svg_(self) -> str | None:
        figure = self.get_figure()
        return figure._repr_svg_() if isinstance(figure, ShownFigure) else None
