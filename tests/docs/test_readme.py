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
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in link and not link.startswith("measurements"):
                place = (page.parent / link).relative_to(ROOT) if link else ""
                if str(place) != "docs/measurements":
                    assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_tables_of_learners_are_complete():
    from tanager.parameters import PARAMETERS
    from tanager.structure import STRUCTURES

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    choosing = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    for name in [*STRUCTURES, *PARAMETERS]:
        assert f"`{name}`" in readme, name
        assert f"`{name}`" in choosing, name
