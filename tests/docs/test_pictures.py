"""The pictures of the documentation are those that its code draws."""

import importlib.util
import re
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load_script():
    spec = importlib.util.spec_from_file_location("draw_pictures", DOCS / "draw_pictures.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def texts(file, content):
    """Return what can be read on a picture or a view, in order; times aside."""
    if file.endswith(".svg"):
        root = ET.fromstring(content)
        return ["".join(one.itertext()).strip() for one in root.iter() if one.tag.endswith("}text")]
    return re.sub(r"<style>.*?</style>|<[^>]+>", " ", content, flags=re.S).split()


@pytest.mark.parametrize(
    "page", ["tutorial.md", "gallery.md", "decide.md", "drift.md", "how-sure.md"]
)
def test_pictures_are_those_of_the_code_beside_them(page):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = load_script().run_page(DOCS / page)
    text = (DOCS / page).read_text(encoding="utf-8")
    shown = re.findall(r"pictures/[\w-]+\.(?:svg|html)", text)
    assert sorted(drawn) == sorted(shown)
    for file, content in drawn.items():
        committed = (DOCS / file).read_text(encoding="utf-8")
        assert texts(file, content) == texts(file, committed), f"{file}: run make pictures"


def test_the_gallery_shows_every_plot():
    from tanager import report

    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for name in report.__all__:
        if name.startswith("plot_"):
            assert f"{name}(" in text, name


def test_every_picture_is_shown_somewhere():
    pages = "".join(p.read_text(encoding="utf-8") for p in [*DOCS.glob("*.md"), ROOT / "README.md"])
    for file in (DOCS / "pictures").iterdir():
        assert f"pictures/{file.name}" in pages, file.name


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (DOCS / "index.md", ("network", "explanation", "calibration")),
        (ROOT / "README.md", ("network",)),
    ],
    ids=["index", "readme"],
)
def test_the_documentation_opens_with_pictures_of_a_model(page, names):
    opening = "\n".join(page.read_text(encoding="utf-8").splitlines()[:30])
    for name in names:
        assert f"pictures/opening-{name}.svg" in opening
