"""Plots that only the papers' pages need, in the style of `tanager.report`."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.escaping import visible
from tanager.evaluation.metrics import Reliability
from tanager.evaluation.statistics import Nemenyi, win_draw_loss
from tanager.report.style import (
    CYCLE,
    GRID,
    INK,
    MUTED,
    STYLE,
    axes,
    fitting,
    load_matplotlib,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tanager_papers.curves import Curves

__all__ = [
    "lower_hull",
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
]

MOST_BINS = 40  # of a histogram
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# Colours that in a page become the page's own, light or dark.
_PAGE_COLOURS = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    CYCLE[0].lower(): "var(--blue)",
    CYCLE[1].lower(): "var(--red)",
}


@styled
def plot_convergence(
    traces: Mapping[str, ArrayLike], *, objective: str = "objective", ax: Axes | None = None
) -> Any:
    """Draw an objective by iteration, the first point before any; log scale of iterations."""
    ax = axes(ax)
    for i, (name, trace) in enumerate(traces.items()):
        values = np.asarray(trace, float)
        ax.plot(
            np.arange(1, len(values) + 1), values, label=fitting(name),
            color=CYCLE[i % len(CYCLE)], marker=MARKERS[i % len(MARKERS)],
            markevery=_log_places(len(values)),
        )  # fmt: skip
    ax.set_xscale("log")
    log_axis(ax.xaxis)
    ax.set_xlabel("iteration (1: before the first)")
    ax.set_ylabel(objective)
    ax.legend()
    return ax


def _log_places(n: int) -> list[int]:
    return sorted({int(i) for i in np.geomspace(1, max(n, 1), 9)} - {0} | {1})[:-1] or [0]


@styled
def plot_convergence_histogram(
    behind: Mapping[str, Sequence[int]], *, after: int = 5, ax: Axes | None = None
) -> Any:
    """Draw how many iterations others trail behind, as in Zaidi et al. (2017), figures 15 to 17."""
    from matplotlib.ticker import MaxNLocator

    ax = axes(ax)
    every = np.concatenate([np.asarray(v, float) for v in behind.values()])
    low, high = int(every.min()), int(max(every.max(), 1))
    width = -(-(high - low + 1) // MOST_BINS)  # whole numbers in a bin
    edges = np.arange(low, high + width + 1, width) - 0.5
    ax.hist(
        [np.asarray(v, float) for v in behind.values()],
        bins=edges.tolist(),
        label=[fitting(name) for name in behind],
        color=[CYCLE[(at + 1) % len(CYCLE)] for at in range(len(behind))],  # the leader's is first
        rwidth=0.9,
    )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.axvline(0, color=INK, lw=0.8)
    ax.set_xlabel(f"iterations behind at iteration {after}")
    ax.set_ylabel("datasets")
    ax.legend()
    return ax


@styled
def plot_curves(
    curves: Curves,
    *,
    x: str = "training rows",
    y: str = "loss",
    log: bool = True,
    ax: Axes | None = None,
) -> Any:
    """Draw one line for each classifier with a band of one standard deviation."""
    ax = axes(ax)
    for i, name in enumerate(curves.classifiers):
        colour, mean, band = CYCLE[i % len(CYCLE)], curves.mean[i], curves.deviation[i]
        ax.plot(curves.x, mean, label=fitting(name), color=colour, marker=MARKERS[i % len(MARKERS)])
        ax.fill_between(curves.x, mean - band, mean + band, color=colour, alpha=0.15, lw=0)
    if log:
        ax.set_xscale("log")
        log_axis(ax.xaxis)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    place_legend(ax)
    return ax


@styled
def plot_surface(
    losses: ArrayLike,
    chosen: tuple[int, int],
    *,
    loss: str = "leave-one-out RMSE",
    ax: Axes | None = None,
) -> Any:
    """Draw selective kDB's leave-one-out loss for every k and number of features.

    Parameters
    ----------
    losses : array-like of shape (max_k + 1, n_features)
        Row k; column j is the loss with the first j + 1 features.
    chosen : pair of int
        The k and the number of features kept.
    """
    values = np.asarray(losses, float)
    ax = axes(ax, 5.2, 3.2)
    n_features = values.shape[1]
    xs = np.arange(1, n_features + 1)
    colours = _shades(len(values))
    for k, line in enumerate(values):
        ax.plot(xs, line, color=colours[k], lw=1.3, label=f"k = {k}")
    k, kept = chosen
    ax.plot(kept, values[k, kept - 1], marker="o", ms=8, mfc="none", mec=CYCLE[1], mew=1.8)
    ax.annotate(
        f"k = {k}, {kept} features",
        (kept, values[k, kept - 1]),
        xytext=(0, -14),
        textcoords="offset points",
        ha="right" if kept > 0.6 * n_features else "left",
        fontsize=8,
        color=CYCLE[1],
    )
    low = values.min()
    ax.set_ylim(low - 0.14 * (values.max() - low or 1.0), None)
    ax.set_xlabel("features, by mutual information with the class")
    ax.set_ylabel(loss)
    ax.legend(ncols=2)
    return ax


def _shades(n: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["viridis"](value) for value in np.linspace(0.0, 0.85, n)]


@styled
def plot_scatters(
    x: ArrayLike,
    others: Mapping[str, ArrayLike],
    name: str,
    *,
    loss: str = "loss",
    log: bool = False,
    ax: Axes | None = None,
) -> Any:
    """Draw several classifiers' losses against one's; above the diagonal the one wins.

    Parameters
    ----------
    x : array-like of shape (n_datasets,)
        Losses of the classifier `name`.
    others : mapping of str to array-like
        Losses of the others.
    """
    first = np.asarray(x, float)
    ax = axes(ax, 3.9, 3.9)
    every = np.concatenate([first, *(np.asarray(v, float) for v in others.values())])
    square_axes(ax, float(every.min()), float(every.max()), log=log)
    for i, (other, values) in enumerate(others.items()):
        colour, marker = CYCLE[(i + 1) % len(CYCLE)], MARKERS[(i + 1) % len(MARKERS)]
        ax.scatter(
            first, values, s=16, color=colour, marker=marker, lw=0, label=fitting(other), zorder=2
        )
    ax.set_xlabel(f"{fitting(name)}, {loss}")
    ax.set_ylabel(f"others, {loss}")
    ax.legend()
    return ax


@styled
def plot_bars(
    groups: Sequence[str],
    series: Mapping[str, ArrayLike],
    *,
    y: str = "value",
    log: bool = False,
    line: float | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw bars side by side: one group per name in `groups`, one bar per name in `series`.

    Parameters
    ----------
    line : float, optional
        A level to compare with.
    """
    ax = axes(ax, 6.2, 3.0)
    places = np.arange(len(groups))
    width = 0.8 / len(series)
    for i, (name, values) in enumerate(series.items()):
        offset = (i - (len(series) - 1) / 2) * width
        ax.bar(
            places + offset, np.asarray(values, float), 0.92 * width, label=fitting(name),
            color=CYCLE[i % len(CYCLE)],
        )  # fmt: skip
    if line is not None:
        ax.axhline(line, color=INK, lw=0.8)
    if log:
        ax.set_yscale("log")
        log_axis(ax.yaxis)
    ax.set_xticks(places, [fitting(group, 22) for group in groups])
    ax.grid(visible=False, axis="x")
    ax.set_ylabel(y)
    ax.legend(ncols=min(4, len(series)), loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return ax


@styled
def plot_margins(
    x: ArrayLike,
    margins: Mapping[str, ArrayLike],
    *,
    x_label: str,
    y_label: str = "wins less losses",
    log: bool = False,
    ax: Axes | None = None,
) -> Any:
    """Draw wins minus losses over datasets, one line each; above zero the first side is ahead."""
    ax = axes(ax)
    places = np.asarray(x, float)
    ax.axhline(0, color=INK, lw=0.8)
    for i, (name, values) in enumerate(margins.items()):
        ax.plot(
            places, np.asarray(values, float), label=fitting(name), color=CYCLE[i % len(CYCLE)],
            marker=MARKERS[i % len(MARKERS)],
        )  # fmt: skip
    if log:
        ax.set_xscale("log")
        log_axis(ax.xaxis)
    elif len(places) <= 10:
        ax.set_xticks(places)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    place_legend(ax)
    return ax


@styled
def plot_envelopes(
    groups: Mapping[str, Mapping[str, ArrayLike]],
    *,
    x_label: str,
    y_label: str,
    x_range: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw experiments as points with the lower part of each group's convex hull.

    Parameters
    ----------
    groups : mapping of str to mapping
        For each group its ``"x"`` (such as log10 of a hyperparameter) and ``"y"``
        (such as an error).
    x_range : (float, float), optional
        What the experiments were chosen from; else as far as they go.
    """
    ax = axes(ax, 4.6, 3.6)
    for i, (name, points) in enumerate(groups.items()):
        x, y = np.asarray(points["x"], float), np.asarray(points["y"], float)
        colour = CYCLE[i % len(CYCLE)]
        ax.scatter(x, y, s=12, color=colour, marker=MARKERS[i % len(MARKERS)], lw=0, alpha=0.7)
        hull = lower_hull(x, y)
        marker = MARKERS[i % len(MARKERS)]
        ax.plot(x[hull], y[hull], color=colour, lw=1.2, marker=marker, ms=4, label=fitting(name))
    if x_range is not None:
        ax.set_xlim(*x_range)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    place_legend(ax)
    return ax


def lower_hull(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[int]:
    """Return the points of the lower convex hull, from left to right (Andrew's chain)."""
    hull: list[int] = []
    for i in np.lexsort((y, x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            turn = (x[b] - x[a]) * (y[i] - y[a]) - (y[b] - y[a]) * (x[i] - x[a])
            if turn > 0:
                break
            hull.pop()
        if hull and x[hull[-1]] == x[i]:
            continue
        hull.append(int(i))
    return hull


@styled
def plot_loss_scatter(
    a: ArrayLike,
    b: ArrayLike,
    names: tuple[str, str],
    *,
    loss: str = "loss",
    log: bool = False,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw two classifiers' losses, one point per dataset; above the diagonal the first wins.

    `log` axes are for times; of the datasets' `labels` the three farthest from the diagonal are
    written.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    ax = axes(ax, 3.9, 3.9)
    square_axes(ax, float(min(x.min(), y.min())), float(max(x.max(), y.max())), log=log)
    for chosen, colour, marker in (
        (x < y, CYCLE[0], "o"),
        (x > y, CYCLE[1], "s"),
        (x == y, MUTED, "D"),
    ):
        ax.scatter(x[chosen], y[chosen], s=16, color=colour, marker=marker, lw=0, zorder=2)
    names = (fitting(names[0], 26), fitting(names[1], 26))
    ax.set_xlabel(f"{names[0]}, {loss}")
    ax.set_ylabel(f"{names[1]}, {loss}")
    record = win_draw_loss(x, y)
    style: dict[str, Any] = {"fontsize": 8, "transform": ax.transAxes, "va": "bottom"}
    said = (f"{names[0]} wins {record.wins}", f"{names[1]} wins {record.losses}")
    # Two long names stand one above the other.
    apart = 0.06 if sum(map(len, said)) > 42 else 0.0
    ax.text(0.0, 1.015 + apart, said[0], color=CYCLE[0], **style)
    ax.text(1.0, 1.015, said[1], ha="right", color=CYCLE[1], **style)
    if labels is not None:
        _name_extremes(ax, x, y, labels, log=log)
    return ax


def _name_extremes(
    ax: Any, x: NDArray[np.float64], y: NDArray[np.float64], labels: Sequence[str], *, log: bool
) -> None:
    distance = np.abs(np.log(x / y)) if log else np.abs(x - y)
    low, high = ax.get_xlim()
    middle = 0.5 * (low + high)
    heights = np.log(y / low) / np.log(high / low) if log else (y - low) / (high - low)
    named: list[float] = []
    for i in np.argsort(-distance, kind="stable"):
        free = all(abs(heights[i] - other) > 0.045 for other in named)
        if distance[i] > 0 and free and len(named) < 3:
            named.append(float(heights[i]))
            left = x[i] > middle
            ax.annotate(
                fitting(labels[i], 24),
                (x[i], y[i]),
                xytext=(-5 if left else 5, 0),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                fontsize=7,
                color=MUTED,
            )


@styled
def plot_critical_difference(
    names: Sequence[str], result: Nemenyi, *, ax: Axes | None = None
) -> Any:
    """Draw average ranks on a line, with bars over classifiers that do not differ.

    As Demšar (2006, JMLR 7), figure 1.
    """
    ranks = result.ranks
    k = len(names)
    order = np.argsort(ranks, kind="stable")
    half = (k + 1) // 2
    bars = [
        sorted((float(ranks[g].min()), float(ranks[g].max()))) for g in map(list, result.groups)
    ]
    step = 0.30
    depth = 0.32 + 0.16 * len(bars)
    ax = axes(ax, 6.2, 0.9 + 0.22 * (half + len(bars) * 0.6 + 2))
    ax.axis("off")
    shown = [fitting(name, 26) for name in names]
    # Names take their share of the width on either side of the scale.
    share = min(0.36, 0.0108 * (max(map(len, shown)) + 6))
    room = (k - 1) * share / (1 - 2 * share)
    ax.set(xlim=(1 - room, k + room), ylim=(-depth - step * half, 0.85))
    ax.plot([1, k], [0, 0], color=INK, lw=1)
    for tick in range(1, k + 1):
        ax.plot([tick, tick], [0, 0.08], color=INK, lw=1)
        if k <= 10 or tick % 2:
            ax.text(tick, 0.12, str(tick), ha="center", va="bottom", fontsize=8)
    ax.plot([1, 1 + result.critical_difference], [0.58, 0.58], color=INK, lw=1)
    for end in (1, 1 + result.critical_difference):
        ax.plot([end, end], [0.53, 0.63], color=INK, lw=1)
    text = f"critical difference {result.critical_difference:.2f}"
    ax.text(1 + result.critical_difference + 0.03 * k, 0.58, text, va="center", fontsize=8)
    for i, (first, last) in enumerate(bars):
        y, end = -0.16 * (i + 1), 0.012 * k
        ax.plot([first - end, last + end], [y, y], color=CYCLE[1], lw=3.2, solid_capstyle="butt")
    for place, i in enumerate(order):
        left = place < half
        row = place if left else k - 1 - place
        y, edge = -depth - step * row, 0.96 if left else k + 0.04
        ax.plot([ranks[i], ranks[i], edge], [0, y, y], color=MUTED, lw=0.8)
        ax.text(
            edge - 0.02 * k if left else edge + 0.02 * k,
            y,
            f"{shown[i]}  {ranks[i]:.2f}" if left else f"{ranks[i]:.2f}  {shown[i]}",
            ha="right" if left else "left",
            va="center",
            fontsize=8.5,
        )
    return ax


@styled
def plot_reliability(curves: Mapping[str, Reliability], *, ax: Axes | None = None) -> Any:
    """Draw accuracy by confidence; on the diagonal, probabilities mean what they say."""
    ax = axes(ax, 3.9, 3.9)
    ax.plot([0, 1], [0, 1], color=MUTED, lw=0.8)
    for i, (name, bins) in enumerate(curves.items()):
        kept = bins.rows > 0
        rows = bins.rows[kept]
        confidence, accuracy = bins.confidence[kept] / rows, bins.correct[kept] / rows
        colour = CYCLE[i % len(CYCLE)]
        ax.plot(
            confidence,
            accuracy,
            color=colour,
            lw=1.2,
            label=f"{fitting(name)} ({bins.error():.3f})",
        )
        size = 6 + 70 * rows / max(1, rows.sum())
        ax.scatter(confidence, accuracy, s=size, color=colour, lw=0, zorder=3)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_xlabel("probability of the predicted class")
    ax.set_ylabel("share classified right")
    ax.legend(title="calibration error", title_fontsize=8, loc="upper left")
    return ax


def place_legend(ax: Axes) -> None:
    """Name the lines: inside where they are few, above the picture where they would cover it."""
    n_names = len(ax.get_legend_handles_labels()[1])
    if n_names <= 3:
        ax.legend()
    else:
        ax.legend(ncols=2 if n_names == 4 else 3, loc="lower left", bbox_to_anchor=(0.0, 1.0))


def square_axes(ax: Any, low: float, high: float, *, log: bool) -> None:
    """Give both axes the same scale, from below `low` to above `high`, and draw the diagonal."""
    if log:
        ax.set_xscale("log")
        ax.set_yscale("log")
        log_axis(ax.xaxis)
        log_axis(ax.yaxis)
        low, high = low / 1.5, high * 1.5
    else:
        room = 0.05 * (high - low or 1.0)
        low, high = max(0.0, low - room), high + room
    ax.plot([low, high], [low, high], color=MUTED, lw=0.8, zorder=1)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")


def log_axis(axis: Any) -> None:
    """Write 1, 2, 5, 10, … on a logarithmic axis as numbers with thousands separated."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    plain = FuncFormatter(lambda value, _: f"{value:,.6g}")
    axis.set_major_formatter(plain)
    low, high = axis.get_view_interval()
    if 0 < high < 300 * low:  # over more powers of ten they are enough
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axis.set_minor_formatter(plain)


def to_svg(fig: Figure, *, title: str) -> str:
    """Return a figure as SVG for a page: the page's colours and fonts, with a title for readers.

    The text stays text, the background is transparent, and two calls on the
    same figure give the same bytes.
    """
    mpl = load_matplotlib()
    buffer = io.StringIO()
    with mpl.rc_context(fname=STYLE):
        fig.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    for colour, page in _PAGE_COLOURS.items():
        svg = svg.replace(colour, page)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    width = fig.get_figwidth() * 72
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    label = visible(title).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    head = f'<svg role="img" aria-label="{label}" style="max-width:{width * 1.45:.0f}px" '
    return svg.replace("<svg ", head, 1)


def standalone_svg(svg: str) -> str:
    """Return what `to_svg` made as a file of its own: light paper, and the namespace it needs.

    The page's colours are written out: programs that draw and convert SVG know no variables.
    """
    for colour, variable in _PAGE_COLOURS.items():
        if colour != INK:
            svg = svg.replace(variable, colour)
    font = "font-family:system-ui,sans-serif"
    style = f"<style>svg{{color:{INK};background:#fff;{font}}}</style>"
    body = svg if "xmlns=" in svg[:400] else svg.replace("<svg ", f"<svg {_XMLNS} ", 1)
    end = body.index(">") + 1
    return f"{body[:end]}{style}{body[end:]}\n"


_XMLNS = 'xmlns="http://www.w3.org/2000/svg"'
