"""Draw the pictures of the documentation: ``make pictures``.

The code that a page shows is the code that makes its pictures. The Python blocks of a page are run
in order, and what the last line of a block gives is saved as the picture, or the view, that follows
the block::

    ```python
    plot_network(clf)
    ```

    ![A network](pictures/network.svg)

A picture (.svg) is of matplotlib; a view (.html) is what a notebook shows of an object.
"""

from __future__ import annotations

import argparse
import ast
import doctest
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

from tanager.atomic import write_text
from tanager.report.style import standalone_svg, to_svg

DOCS = Path(__file__).parent
PAGES = ("tutorial.md", "gallery.md", "decide.md", "drift.md", "how-sure.md")
PARTS = re.compile(
    r"^```python\n(?P<code>.*?)^```$"
    r"|!\[(?P<alt>[^\]]*)\]\((?P<picture>pictures/[\w-]+\.svg)\)"
    r"|^:file: (?P<view>pictures/[\w-]+\.html)$",
    re.S | re.M,
)


def run_page(page: Path) -> dict[str, str]:
    """Run the code of a page, and return what it draws by file name."""
    names: dict[str, Any] = {}
    drawn: dict[str, str] = {}
    value = None
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)  # pages write files
        try:
            for part in PARTS.finditer(page.read_text(encoding="utf-8")):
                if part["code"] is not None:
                    value = run_block(part["code"], names, page.name)
                elif part["picture"] and value is not None:
                    drawn[part["picture"]] = picture(value, part["alt"])
                elif part["view"] and value is not None:
                    drawn[part["view"]] = value._repr_html_() + "\n"
        finally:
            os.chdir(before)
    return drawn


def run_block(code: str, names: dict[str, Any], page: str) -> Any:
    """Run a block, as a program or as a session with prompts; returns its last value, if any."""
    if ">>>" in code:
        code = "".join(example.source for example in doctest.DocTestParser().get_examples(code))
    tree = ast.parse(code, page)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, page, "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), page, "eval"), names)


def picture(value: Any, title: str) -> str:
    """Return axes or a figure as an SVG file of a size of its own."""
    first = value.flat[0] if hasattr(value, "flat") else value
    figure = getattr(first, "figure", first)
    svg = standalone_svg(to_svg(figure, title=title))
    width, height = (inches * 96 for inches in figure.get_size_inches())
    return svg.replace("<svg ", f'<svg width="{width:.0f}" height="{height:.0f}" ', 1)


def main() -> None:
    """Write the pictures of all pages, or tell which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages in docs/; all by default")
    warnings.simplefilter("ignore")
    for name in parser.parse_args().pages:
        for file, text in run_page(DOCS / name).items():
            write_text(DOCS / file, text)
            print(file, f"{len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
