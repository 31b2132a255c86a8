"""How the documentation is built: ``make docs``, warnings are errors."""

from tanager import __version__

project = "Tanager"
author = "The Tanager developers"
project_copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "Tanager"
html_static_path = ["_static"]
html_css_files = ["pages.css"]

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # numpydoc says it in words
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Pages in measurements/ and reproduction/ are written by runs and may be absent. All
# other links are followed by tests/docs/test_readme.py.
suppress_warnings = ["myst.xref_missing"]

# Listings of a table or a shell session have no language of their own.
highlight_language = "none"
