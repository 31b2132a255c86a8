"""The first thing a newcomer runs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_runs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"^```python\n(.*?)^```$", text, re.S | re.M).group(1)
    assert len(code.strip().splitlines()) <= 10
    exec(compile(code, "README.md", "exec"), {})


def test_links_lead_somewhere():
    # Measurements and reproductions are written by runs, and may be absent.
    written = (ROOT / "docs" / "measurements", ROOT / "docs" / "reproduction")
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
            place = (page.parent / link).resolve()
            if "://" not in link and not any(place.is_relative_to(w) for w in written):
                assert place.exists(), f"{page.name}: {link}"


def test_tables_of_learners_are_complete():
    from tanager.parameters import PARAMETERS
    from tanager.structure import STRUCTURES

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    choosing = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    for name in [*STRUCTURES, *PARAMETERS]:
        assert f"`{name}`" in readme, name
        assert f"`{name}`" in choosing, name


def test_the_path_of_a_row_names_what_is_there():
    """Files, functions and classes that CONTRIBUTING names in its drawing and notes exist."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    path = text[text.index("## The path of a row") : text.index("## A new kernel")]
    package = ROOT / "src" / "tanager"
    for file, name in re.findall(r"(\w+/\w+\.py) +│? *(\w+)", path):
        code = (package / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:class|def) {name}\b", code, re.M), f"{file}: {name}"
    source = "".join(file.read_text(encoding="utf-8") for file in package.rglob("*.py"))
    for name in re.findall(r"`(?:\w+\.)*(\w+)(?:\([^`]*\))?`", path):
        assert re.search(rf"\b(?:class|def) {name}\b", source), name
