"""One style for every plot, on paper and on dark screens."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from tanager.errors import ConfigurationError
from tanager.escaping import abridged, one_line, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Arguments = ParamSpec("Arguments")

# Okabe and Ito's palette, safe for colour-blind readers, in an order in which
# neighbours also differ in lightness.
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")

# Colours of text and lines.
INK, MUTED, GRID = "#1c2126", "#6b737c", "#d9dde2"
STYLE = Path(__file__).with_name("house.mplstyle")


def load_matplotlib() -> Any:
    """Import matplotlib, or raise an error that says how to install it."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ConfigurationError(
            "pictures need matplotlib, which is not installed. Install it: pip install matplotlib."
        ) from error
    return mpl


def styled(function: Callable[Arguments, Any]) -> Callable[Arguments, Any]:
    """Make a function draw in the house style without changing the caller's style."""

    @wraps(function)
    def draw(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Any:
        with load_matplotlib().rc_context(fname=STYLE):
            return function(*args, **kwargs)

    return draw


def axes(ax: Axes | None, width: float = 4.6, height: float = 3.4) -> Any:
    """Return the caller's axes, or those of a new figure of the given size in inches."""
    if ax is not None:
        return ax
    from tanager.report.shown import ShownAxes

    return new_figure(width, height).add_subplot(axes_class=ShownAxes)


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of the given size in inches, which a notebook shows."""
    from tanager.report.shown import ShownFigure

    return ShownFigure(figsize=(width, height), layout="constrained")


def name_rows(ax: Any, names: Sequence[str]) -> None:
    """Label the rows of a plot, the first on top, without the grid lines that would cross them."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)


def literal(text: object) -> str:
    """Escape a name's dollar signs so that matplotlib doesn't read it as a formula."""
    return one_line(text).replace("$", r"\$")


def fitting(name: object, most: int = 30) -> str:
    """Shorten a long name in the middle, so that its start and end still distinguish it.

    >>> fitting("kdb(k=2)/discriminative(form='weighted', level=3)", 20)
    'kdb(k=2)/di…level=3)'
    """
    return literal(abridged(one_line(name), most))


def picture_svg(fig: Figure, *, title: str) -> str:
    """Return a figure as a standalone SVG with text and title, reproducible byte for byte."""
    buffer = io.StringIO()
    with load_matplotlib().rc_context(fname=STYLE):
        fig.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    svg = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.S)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg[svg.index("<svg") :])
    head = f'<svg role="img" aria-label="{escape(visible(title))}" '
    return svg.replace("<svg ", f'{head}style="font-family:system-ui,sans-serif" ', 1)
