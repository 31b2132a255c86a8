"""Draw the pictures of the documentation: ``make pictures``.

The code that a page shows is the code that makes its pictures. The Python blocks of a page are run
in order, and the plot that the last line of a block returns is saved as the picture that follows
the block::

    ```python
    plot_network(clf)
    ```

    ![A network](pictures/network.svg)

The opening pictures are those of an example of the gallery, whose others are drawn by `make docs`.
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
from tanager.report.style import picture_svg

DOCS = Path(__file__).parent
FIRST_LOOK = "examples/models/first_look.py"
PAGES = ("tutorial.md", FIRST_LOOK, "decide.md", "drift.md", "how-sure.md")
PARTS = re.compile(
    r"^```python\n(?P<code>.*?)^```$"
    r"|!\[(?P<alt>[^\]]*)\]\((?P<picture>pictures/[\w-]+\.svg)\)",
    re.S | re.M,
)
OPENING = {  # by block of the example
    "pictures/opening-network.svg": "A network of ten measurements of tumours",
    "pictures/opening-explanation.svg": "A waterfall of log-odds of ten features",
    "pictures/opening-calibration.svg": "Predicted probability against observed share",
}


def draw_page(name: str) -> dict[str, str]:
    """Run the code of a page, or of the first example, and return its pictures by file name."""
    text = (DOCS / name).read_text(encoding="utf-8")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # pages write files
        try:
            return draw_example(text) if name == FIRST_LOOK else draw_blocks(text, name)
        finally:
            os.chdir(before)


def draw_blocks(text: str, page: str) -> dict[str, str]:
    """Run the Python blocks of a page in Markdown."""
    names: dict[str, Any] = {}
    drawn: dict[str, str] = {}
    value = None
    for part in PARTS.finditer(text):
        if part["code"] is not None:
            value = run_block(part["code"], names, page)
        elif (svg := picture(value, part["alt"])) is not None:
            drawn[part["picture"]] = svg
    return drawn


def draw_example(text: str) -> dict[str, str]:
    """Run the example with the opening pictures."""
    names: dict[str, Any] = {}
    values = [run_block(block, names, FIRST_LOOK) for block in text.split("\n# %%\n")[1:]]
    svgs = [picture(value, title) for value, title in zip(values, OPENING.values(), strict=True)]
    return {file: svg for file, svg in zip(OPENING, svgs, strict=True) if svg is not None}


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


def picture(value: Any, title: str) -> str | None:
    """Return axes or a figure as an SVG file with a size of its own; None for anything else."""
    first = value.flat[0] if hasattr(value, "flat") else value
    figure = getattr(first, "figure", first)
    if not hasattr(figure, "get_size_inches"):
        return None
    return picture_svg(figure, title=title)


def draw_in_gallery(_: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Draw what the last line of a block of an example returns, for sphinx-gallery."""
    from sphinx_gallery.scrapers import figure_rst

    svg = picture(block_vars["example_globals"].get("___"), "")
    if svg is None:
        return ""
    path = Path(next(block_vars["image_path_iterator"])).with_suffix(".svg")
    path.write_text(svg, encoding="utf-8")
    return figure_rst([path], gallery_conf["src_dir"])


def _get_sg_image_scraper() -> Any:  # the name that sphinx-gallery looks for
    return draw_in_gallery


def main() -> None:
    """Write the pictures of all pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages in docs/; all by default")
    warnings.simplefilter("ignore")
    for name in parser.parse_args().pages:
        for file, text in draw_page(name).items():
            write_text(DOCS / file, text)
            print(file, f"{len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
