"""The pictures of the documentation are those that its code draws."""

import importlib.util
import json
import re
import runpy
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = sorted((DOCS / "examples").rglob("*.py"))


def load_script():
    spec = importlib.util.spec_from_file_location("draw_pictures", DOCS / "draw_pictures.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def texts(content):
    """Return what can be read on a picture, in order."""
    root = ET.fromstring(content)
    return ["".join(one.itertext()).strip() for one in root.iter() if one.tag.endswith("}text")]


@pytest.mark.parametrize("page", load_script().PAGES)
def test_pictures_are_those_of_the_code_beside_them(page):
    script = load_script()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = script.draw_page(page)
    text = (DOCS / page).read_text(encoding="utf-8")
    opening = script.OPENING if page == script.FIRST_LOOK else []
    assert sorted(drawn) == sorted([*re.findall(r"pictures/[\w-]+\.svg", text), *opening])
    for file, content in drawn.items():
        committed = (DOCS / file).read_text(encoding="utf-8")
        assert texts(content) == texts(committed), f"{file}: run make pictures"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_the_gallery_run(example):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(example))


def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((DOCS / "five-minutes.ipynb").read_text(encoding="utf-8"))
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == []
                exec(compile("".join(cell["source"]), "five-minutes.ipynb", "exec"), names)
    assert {path.name for path in tmp_path.iterdir()} == {"churn.html", "churn.tanager"}


def test_the_gallery_shows_every_plot():
    import tanager_papers
    from tanager import report

    text = "".join(path.read_text(encoding="utf-8") for path in EXAMPLES)
    for name in [*report.__all__, *tanager_papers.__all__]:
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
