"""Output of commands to the terminal: tables, JSON and progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tanager.escaping import STEERING, visible
from tanager.progress import Progress, RichProgress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tanager.network import Network


def console() -> Console:
    """Return a console for standard output, wide if that is a file or a pipe.

    Names and labels come from tables and model files of unknown origin, so
    their control characters are never sent to the terminal.
    """
    from rich.console import Console
    from rich.text import Text

    class Terminal(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)

        def on_broken_pipe(self) -> None:
            # Rich would exit with 1, but a closed pipe, as with `head`, isn't a failure.
            raise BrokenPipeError

    return Terminal(highlight=False, width=None if sys.stdout.isatty() else 160)


def plain_table(*columns: str, left: Collection[int] = (0,), title: str = "") -> Table:
    """Return an empty table without lines; all columns but those at `left` are right-aligned."""
    from rich.table import Table

    table = Table(
        title=plain(title) or None,
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
    )
    for at, column in enumerate(columns):
        table.add_column(plain(column), justify="left" if at in left else "right", overflow="fold")
    return table


def plain(text: str) -> str:
    """Return a text on one line, its brackets escaped so that Rich prints them."""
    from rich.markup import escape

    return escape(" ".join(text.splitlines()))


def print_json(content: Any) -> None:
    """Print JSON for scripts."""
    text = json.dumps(content, ensure_ascii=False, indent=1)
    # JSON escapes the first 32 characters itself; the other control characters are escaped here.
    print(STEERING.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


@contextmanager
def watching() -> Iterator[Progress]:
    """Show progress bars in an interactive terminal, and nothing otherwise."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    with RichProgress() as progress:
        yield progress


def report_model(network: Network, output: Path, seconds: float | None, *, as_json: bool) -> None:
    """Print what was written to a model file."""
    structure, n_bytes = network.structure, output.stat().st_size
    took = {} if seconds is None else {"seconds": seconds}
    facts = {
        "model": str(output),
        "bytes": n_bytes,
        **took,
        "classes": [str(label) for label in network.codebook.classes],
        "features": network.codebook.domain.n_features,
        "selected": list(structure.features),
        "parents": {name: list(above) for name, above in structure.parents.items()},
    }
    if as_json:
        print_json(facts)
    else:
        after = "" if seconds is None else f", {seconds:.1f} s"
        print(f"{output}: {network.summary()}; {human_size(n_bytes)}{after}")


def human_size(n_bytes: float) -> str:
    """Return a human-readable size, in powers of ten."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"
