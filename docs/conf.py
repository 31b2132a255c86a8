"""How the documentation is built: ``make docs``, warnings are errors."""

import logging
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

from tanager import __version__

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))  # for the module that draws the gallery's pictures
logging.getLogger("tanager").setLevel(logging.WARNING)

project = "Tanager"
author = "The Tanager developers"
project_copyright = author
release = version = __version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
# The pages that autosummary writes have the first suffix.
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
# gallery.md includes the index of the gallery; the notebooks of its examples are downloads.
exclude_patterns = ["_build", "examples", "gallery/index.rst", "gallery/**/*.ipynb"]
templates_path = ["_templates"]

html_theme = "furo"
html_title = "Tanager"
html_static_path = ["_static"]
html_css_files = ["pages.css"]

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # numpydoc says it in words
default_role = "py:obj"  # `Network` in a docstring leads to its page
autosummary_generate = True  # one page per object, into api/_generated
with (DOCS / "api.toml").open("rb") as file:
    autosummary_context = {"members_shown": defaultdict(list, tomllib.load(file))}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Pages in measurements/ and reproduction/ are written by runs and may be absent. All
# other links are followed by tests/docs/test_readme.py.
suppress_warnings = ["myst.xref_missing"]

# Listings of a table or a shell session have no language of their own.
highlight_language = "none"

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "nested_sections": False,
    "filename_pattern": r"\.py$",  # all examples run
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("draw_pictures",),
    "default_thumb_file": str(DOCS / "pictures" / "table.svg"),
    "capture_repr": ("_repr_html_",),
    "show_signature": False,
    "min_reported_time": 3600,
}
