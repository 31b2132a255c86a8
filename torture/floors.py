"""Install the lowest versions that pyproject.toml allows, and test with them.

    python -m torture.floors [pytest arguments]

Each in an environment of its own under .floors: one for every Python that can be found.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".floors"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("dask", "excel", "export", "report")  # all that users may install
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
    code = 0
    for python in PYTHONS:
        program = _find(python)
        if program is None:
            print(f"Python {python}: not found here", flush=True)
            continue
        lowest = python == PYTHONS[0]
        what = "lowest versions" if lowest else "newest versions"
        good = _install(program, python, floors() if lowest else []) and _test(python)
        print(f"Python {python}, {what}: {'good' if good else 'FAILED'}", flush=True)
        code = code if good else 1
    return code


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


def _test(python: str) -> bool:
    """Run the tests against the installed package, not against the folder of sources."""
    command = [str(PLACE / python / "bin" / "python"), "-m", "pytest", "-q"]
    command += ["-W", "default", "-p", "no:cacheprovider", *(sys.argv[1:] or TESTS)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
