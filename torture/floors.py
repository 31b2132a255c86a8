"""Install the lowest versions that pyproject.toml allows, and test with them.

    python -m torture.floors [--only 3.11,3.12] [--record FILE | --write] [pytest arguments]

Each in an environment of its own under .floors: one for every Python that can be found.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

from torture.campaign import ROOT, revision
from torture.page import RECORD, keep, read_record, write_page

PLACE = ROOT / ".floors"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# All that users may install.
EXTRAS = ("cloud", "dask", "excel", "export", "lakes", "postgres", "report")
READ = ("duckdb", "networkx", "pandas", "polars")  # libraries whose tables are read
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "psutil")  # of the tests, as they are today
# The whole suite without the documentation, which is about the sources, and what needs other
# programs.
TESTS = (
    *("tests", "--ignore=tests/docs", "-m", "not browser and not peers and not shared"),
    *("-n", "2"),
)


def floors() -> list[str]:
    """Return the lowest allowed version of every dependency, as pip writes it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(text for name in EXTRAS for text in extras[name])]
    wanted += [text for text in extras["dev"] if text.partition(">")[0] in READ]
    found = []
    for text in wanted:
        match = re.fullmatch(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)(?:,.*)?", text.replace(" ", ""))
        if match is None:
            raise SystemExit(f"{text!r} has no lowest version: write it as name>=version")
        found.append(f"{match[1]}=={match[2]}")
    return found


def main() -> int:
    """Test with the lowest versions on the lowest Python, and with the newest on the others."""
    parser = argparse.ArgumentParser(prog="python -m torture.floors", description=__doc__)
    parser.add_argument("--only", default=",".join(PYTHONS), help="versions, with commas")
    parser.add_argument("--record", type=Path, help="JSON file that keeps the results")
    parser.add_argument("--write", action="store_true", help="keep them in the documentation")
    given, arguments = parser.parse_known_args()
    record = RECORD if given.write else given.record
    code = 0
    for python in given.only.split(","):
        what = f"Python {python}, {'lowest' if python == PYTHONS[0] else 'newest'} versions"
        found = _try(python, arguments)
        print(f"{what}: {found['told']}", flush=True)
        code = 1 if found["failures"] else code
        if record is not None:
            _keep(record, what, found)
    if given.write:
        write_page(read_record(RECORD), RECORD.with_suffix(".md"))
    return code


def _try(python: str, arguments: list[str]) -> dict[str, Any]:
    """Install and test on one Python; return what came of it."""
    program, start = _find(python), time.monotonic()
    if program is None:
        return {"told": "not found here", "outcomes": {}, "failures": []}
    if not _install(program, python, floors() if python == PYTHONS[0] else []):
        return {"told": "cannot be installed", "outcomes": {}, "failures": ["pip install"]}
    outcomes, failures = _test(python, arguments)
    return {
        "told": ", ".join(f"{n:,} {what}" for what, n in outcomes.items())
        + (f" of {' '.join(arguments)}" if arguments else ""),
        "outcomes": outcomes,
        "failures": failures,
        # What is tested was installed from here, wherever this program's own Tanager is.
        "revision": revision().partition(", and Tanager of")[0],
        "seconds": round(time.monotonic() - start, 1),
    }


def _find(python: str) -> str | None:
    """Return a Python of that version that starts, also one that pyenv keeps."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{python}.*/bin/python"))
    for program in (shutil.which(f"python{python}"), *map(str, kept)):
        if program and subprocess.run([program, "-V"], capture_output=True).returncode == 0:
            return program
    return None


def _install(program: str, python: str, pinned: list[str]) -> bool:
    place = PLACE / python
    if not place.exists():
        subprocess.run([program, "-m", "venv", str(place)], check=True)
    command = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    command += [
        "--disable-pip-version-check",
        f"{ROOT}[{','.join(EXTRAS)}]",
        *(pinned or READ),
        *TOOLS,
    ]
    return subprocess.run(command, check=False).returncode == 0


def _test(python: str, arguments: list[str]) -> tuple[dict[str, int], list[str]]:
    """Run the tests against the installed package, not against the folder of sources.

    Returns how many tests passed, were skipped and failed, and which failed.
    """
    results = PLACE / f"{python}.xml"
    results.unlink(missing_ok=True)
    command = [str(PLACE / python / "bin" / "python"), "-m", "pytest", "-q"]
    command += ["-W", "default", "-p", "no:cacheprovider", f"--junitxml={results}"]
    done = subprocess.run([*command, *(arguments or TESTS)], cwd=ROOT, check=False)
    if not results.exists():
        return {"failed": 1}, [f"pytest ended with code {done.returncode}"]
    outcomes: Counter[str] = Counter()
    failures = []
    for case in ElementTree.parse(results).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            outcomes["failed"] += 1
            failures.append(f"{case.get('classname')}::{case.get('name')}")
        else:
            outcomes["skipped" if "skipped" in kinds else "passed"] += 1
    return dict(sorted(outcomes.items())), failures


def _keep(record: Path, what: str, found: dict[str, Any]) -> None:
    """Put the result of one Python into the record, beside those of the others."""
    tried = read_record(record).get("floors", {}).get("pythons", {})
    keep(record, {"floors": {"pythons": {**tried, what: found}}})


if __name__ == "__main__":
    sys.exit(main())
