"""The page of a comparison between new rows and those a model was trained on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape

from tanager import __version__
from tanager.atomic import write_text
from tanager.network.drift import Drift, Profile, Shift
from tanager.report.model_page.page import page_asset
from tanager.report.page import check_ending

MOST_ROWS = 30  # of a table of tests
MOST_COLUMNS = 60  # columns that are drawn
WIDTH, HEIGHT = 320, 110  # of a column's picture

_KINDS = {
    "values": "distribution",
    "missing": "missing rate",
    "outside": "outside the range of training",
    "unseen": "values never seen",
    "pair": "dependence of two features",
    "given class": "dependence on the class",
    "classes": "class shares",
    "calibration": "calibration",
}


def write_drift(drift: Drift, path: str | os.PathLike[str], *, title: str = "Drift") -> None:
    """Write what `Network.drift` found as one HTML file that needs neither server nor network.

    Parameters
    ----------
    drift : Drift
    path : path
        The page; it holds shares of rows, never a row.
    title : str, default="Drift"

    Examples
    --------
    >>> import os, tempfile
    >>> from tanager import BayesNetClassifier
    >>> from tanager.report import write_drift
    >>> clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 20, [0, 1] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_drift(clf.drift([["a"]] * 30), os.path.join(folder, "drift.html"))
    """
    check_ending(path)
    write_text(path, render_drift(drift, title=title))


def render_drift(drift: Drift, *, title: str = "Drift") -> str:
    """Return the page of `write_drift` as text."""
    moved = drift.moved
    columns = set(drift.columns)
    profiles = sorted(drift.profiles, key=lambda one: one.column not in columns)
    rest = [shift for shift in drift.shifts if not shift.moved]
    sections = [
        ("What changed", _table(moved) if moved else "<p>Nothing.</p>"),
        ("Classes", _classes(drift)),
        ("Columns", _columns(profiles[:MOST_COLUMNS], columns, len(profiles))),
        ("What hasn't moved", _table(rest[:MOST_ROWS], len(rest))),
        ("Method", _method(drift)),
    ]
    body = "".join(
        f'<section aria-labelledby="h{at}"><h2 id="h{at}">{name}</h2>{content}</section>'
        for at, (name, content) in enumerate(sections)
    )
    lead = f"{drift.n_rows:,} rows compared with the {drift.n_training:,} the model was fitted to: "
    lead += (
        f"{len(moved)} of {len(drift.shifts)} tests found drift." if moved else "no drift found."
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta name="generator" content="Tanager {__version__}">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        f'<title>{escape(title)}</title><link rel="icon" href="data:,">'
        f"<style>{page_asset('page.css')}</style></head><body>"
        f'<header class="top"><p class="kicker">Tanager · drift</p><h1>{escape(title)}</h1>'
        f'<p class="lead">{lead}</p></header><main>{body}</main></body></html>\n'
    )


def _table(shifts: Sequence[Shift], total: int = 0) -> str:
    rows = [
        (" × ".join(one.columns), _KINDS[one.kind], f"{one.effect:.3f}", _p(one.p_value), one.words)
        for one in shifts
    ]
    more = f'<p class="quiet">{total - len(shifts)} more.</p>' if total > len(shifts) else ""
    return f"{_grid(('what', 'how', 'effect', 'p', ''), rows, (2, 3))}{more}"


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> str:
    """Return a table of texts; columns of numbers are aligned right."""

    def line(texts: Sequence[str], tag: str) -> str:
        kinds = [' class="num"' if at in numbers else "" for at in range(len(texts))]
        pairs = zip(kinds, texts, strict=True)
        return "".join(f"<{tag}{kind}>{escape(text)}</{tag}>" for kind, text in pairs)

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    top = f"<thead><tr>{line(head, 'th')}</tr></thead>"
    return f'<div class="panel"><table>{top}<tbody>{body}</tbody></table></div>'


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _classes(drift: Drift) -> str:
    now = "now" if drift.labelled else "now, estimated without labels"
    shares = zip(drift.classes, drift.expected_shares, drift.shares, strict=True)
    rows = [(str(label), f"{before:.1%}", f"{share:.1%}") for label, before, share in shares]
    text = _grid(("class", "expected", now), rows, (1, 2))
    if drift.familiarity:
        parts = zip((1, 5, 25, 50), drift.familiarity, strict=True)
        shown = ", ".join(f"{share:.1%} of rows for {level} %" for level, share in parts)
        text += (
            '<p class="about">Rows no more probable than the least probable 1, 5, 25 and 50 % of '
            f"training rows: {shown}.</p>"
        )
    return text


def _columns(profiles: list[Profile], moved: set[str], total: int) -> str:
    tiles = "".join(
        f'<div class="tile"><h3>{escape(one.column)}{": moved" * (one.column in moved)}</h3>'
        f"{_bars(one)}</div>"
        for one in profiles
    )
    more = f" Of {total} columns, {len(profiles)} are drawn." if total > len(profiles) else ""
    about = f"Grey: training; blue: the new rows. Shares of rows by value or interval.{more}"
    return f'<p class="about">{about}</p><div class="tiles">{tiles}</div>'


def _bars(profile: Profile) -> str:
    """Draw a column's shares then and now, side by side."""
    n = len(profile.labels)
    top = max(*profile.before, *profile.now, 1e-9)
    step = WIDTH / n
    parts = []
    for at, (label, before, now) in enumerate(
        zip(profile.labels, profile.before, profile.now, strict=True)
    ):
        bars = "".join(
            f'<rect x="{at * step + shift * step:.1f}" y="{HEIGHT * (1 - share / top):.1f}" '
            f'width="{max(0.45 * step - 0.5, 0.5):.1f}" height="{HEIGHT * share / top:.1f}" '
            f'fill="var(--{colour})"/>'
            for shift, share, colour in ((0.05, before, "line"), (0.5, now, "blue"))
        )
        parts.append(f"<g><title>{escape(label)}: {before:.1%} → {now:.1%}</title>{bars}</g>")
    ends = f'<p class="quiet">{escape(profile.labels[0])} … {escape(profile.labels[-1])}</p>'
    said = escape(f"Shares of {profile.column}: training and now")
    frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" aria-label="{said}"'
    return f"<svg {frame}>{''.join(parts)}</svg>{ends}"


def _method(drift: Drift) -> str:
    return (
        f'<p class="about">The effect is the share of rows that would have to change for the two '
        "tables to agree (total variation distance); of calibration, how far probabilities are off "
        f"on average. What moved has p ≤ {drift.alpha:g} after Holm's correction for "
        f"{len(drift.shifts)} tests, and an effect of at least {drift.least:g}. Dependences are "
        "compared with each feature's own shares set aside.</p>"
    )
