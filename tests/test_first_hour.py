"""The first hour of a new user: install from a clone, the README, a messy table, mistakes.

The package is built and installed into a new environment that has what `pip install .` brings and
nothing else. Its requirements are linked from the environment of the tests, so that only
setuptools is downloaded; where that cannot be, the tests of the new environment are skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

from tanager.cli.app import COMMANDS, run
from tests.docs.pages import blocks

ROOT = Path(__file__).parents[1]
PARTS = (
    "src",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "Containerfile",
    "release",
    "MANIFEST.in",
)


def call(*arguments, cwd, **environment):
    """Run a program; return its exit code and all that it said."""
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        # No package of this source tree can stand in for the installed one.
        env={**os.environ, "PYTHONPATH": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def has_compiler():
    """Whether a compiler of this machine builds the extension: see release/compiling.py."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return os.name != "nt" and shutil.which(named.split()[0]) is not None


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The source distribution, and the wheel that was built from it."""
    place = tmp_path_factory.mktemp("build")
    clone, tools, out = place / "clone", place / "tools", place / "out"
    clone.mkdir()
    out.mkdir()
    leftovers = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "*.egg-info")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clone / name, ignore=leftovers)
        else:
            shutil.copy(ROOT / name, clone / name)
    pip = (sys.executable, "-m", "pip", "install", "-q", "--target", tools)
    # Where this machine has no C compiler, the build asks for one from PyPI.
    for needed in ("setuptools>=77", *(() if has_compiler() else ("ziglang>=0.14",))):
        code, said = call(*pip, needed, cwd=place)
        if code:
            pytest.skip(f"{needed} cannot be installed: {said.strip().splitlines()[-1]}")
    build = (
        "import sys; sys.path.insert(0, 'release'); import backend; "
        "getattr(backend, sys.argv[1])(sys.argv[2])"
    )
    code, said = call(
        sys.executable, "-c", build, "build_sdist", out, cwd=clone, PYTHONPATH=str(tools)
    )
    assert code == 0, said
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4 on
        archive.extractall(place, **safely)
    source = place / sdist.name.removesuffix(".tar.gz")
    # What is tested is what the wheel holds, not how fast it is.
    environment = {"PYTHONPATH": str(tools), "CFLAGS": "-O0"}
    code, said = call(sys.executable, "-c", build, "build_wheel", out, cwd=source, **environment)
    assert code == 0, said
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def required(name, seen):
    """Add a distribution, and all that it requires without extras, to `seen`."""
    from packaging.requirements import Requirement

    if name.lower() in seen:
        return
    seen[name.lower()] = found = distribution(name)
    for text in found.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required(requirement.name, seen)


@pytest.fixture(scope="session")
def fresh(built, tmp_path_factory):
    """The folder of the programs of a new environment with the wheel and what it requires."""
    import tomllib

    from packaging.requirements import Requirement

    place = tmp_path_factory.mktemp("fresh")
    venv.create(place, symlinks=os.name != "nt")
    programs = place / ("Scripts" if os.name == "nt" else "bin")
    (site,) = place.glob("lib/python*/site-packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    seen = {}
    for text in project["dependencies"]:
        required(Requirement(text).name, seen)
    for found in seen.values():
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (site / top).symlink_to(Path(found.locate_file(top)).resolve())
    pip = (sys.executable, "-m", "pip", "--python", place, "install", "-q", "--no-deps")
    code, said = call(*pip, "--no-index", built[1], cwd=place)
    assert code == 0, said
    return programs


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """A folder with a table as people have them."""
    rng = np.random.default_rng(3)
    place = tmp_path_factory.mktemp("messy")
    lines = [",customer,joined,income,age,city,label"]
    for i in range(200):
        age, yes = int(rng.integers(18, 80)), rng.random() < 0.5
        age += 15 * yes
        when = f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}"
        money = f'"{int(rng.integers(900, 90_000)):,}"'
        city = rng.choice(["Köln", "Ulm", ""])
        cells = (i, f"u{i}", when, money, "?" if i % 50 == 7 else age, city, "yes" if yes else "no")
        lines.append(",".join(map(str, cells)))
    (place / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    new = [line.rpartition(",")[0] for line in lines[:20]]
    (place / "new.csv").write_text("\n".join(new) + "\n", encoding="utf-8")
    return place


def test_the_distributions_are_whole(built):
    sdist, wheel = built
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"src/native/loglinear.c", "setup.py", "LICENSE", "README.md"} <= inside
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.startswith("tanager-")
    assert "-cp311-abi3-" in wheel.name
    for wanted in (r"tanager/native\.\w*\.?so|native.*pyd", r"py\.typed", r"__init__\.pyi",
                   r"report/templates/.*\.j2", r"entry_points\.txt"):  # fmt: skip
        assert any(re.search(wanted, name) for name in names), wanted
    strange = [n for n in names if not n.startswith(("tanager/", "tanager-"))]
    assert not strange
    assert not [n for n in names if re.search(r"papers|reproduc|keel|generators", n)]


def test_the_readme_from_its_first_snippet_on(fresh, tmp_path):
    snippet = next(code for language, code, _ in blocks(ROOT / "README.md") if language == "python")
    (tmp_path / "snippet.py").write_text(snippet)
    code, said = call(fresh / "python", "-W", "error", "snippet.py", cwd=tmp_path)
    assert code == 0, said
    code, said = call(fresh / "python", "-c", "import pandas", cwd=tmp_path)
    assert code == 1
    code, said = call(fresh / "tanager", "demo", cwd=tmp_path)
    assert code == 0, said
    code, said = call(fresh / "tanager", "reproduce", "all", cwd=tmp_path)
    assert code == 2
    assert "No such command 'reproduce'" in said
    assert "pip install ./papers" in said
    code, said = call(fresh / "tanager", "--help", cwd=tmp_path)
    assert "compare" in said
    assert "reproduce" not in said


# Python starts once for all steps; the programs themselves are started by the other tests.
IN_ONE_PROCESS = """
import json, sys
from tanager.cli.app import run

for at, step in enumerate(json.loads(sys.argv[1])):
    print(end=chr(0) if at else "", flush=True)
    code = run(step)
    sys.stdout.flush()
    if code:
        sys.exit(f"exit code {code} of {step}")
"""


def test_a_messy_table_from_audit_to_report(fresh, messy):
    steps = (
        ("audit", "table.csv", "-t", "label"),
        ("fit", "table.csv", "-t", "label", "-o", "m.tanager"),
        ("predict", "m.tanager", "new.csv", "-o", "scored.csv"),
        ("score", "m.tanager", "table.csv"),
        ("show", "m.tanager"),
        ("explain", "m.tanager", "new.csv", "--row", "3"),
        ("report", "m.tanager", "table.csv", "-t", "label", "-o", "report.html", "--folds", "2"),
        ("export", "m.tanager", "-o", "scorer.json"),
        ("evaluate", "table.csv", "-t", "label", "--rounds", "1"),
        ("compare", "table.csv", "-t", "label", "--rounds", "1", "--with", "tan/hdp",
         "--with", "logistic-regression"),
    )  # fmt: skip
    code, said = call(fresh / "python", "-c", IN_ONE_PROCESS, json.dumps(steps), cwd=messy)
    assert code == 0, said
    told = dict(zip([step[0] for step in steps], said.split("\0"), strict=True))
    assert "left out: row numbers" in told["audit"]
    assert "'customer' left out" in told["fit"]
    assert "'joined' read as dates" in told["fit"]
    assert "4 of 6 features" in told["fit"]
    code, said = call(fresh / "tanager", "draw", "m.tanager", "-o", "n.svg", cwd=messy)
    assert code == 2
    assert "pictures need matplotlib, which is not installed. Install it: pip install" in said


def test_without_a_place_to_keep_anything(fresh, tmp_path):
    """Neither the installation nor HOME can be written: everything works."""
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    (tmp_path / "s.py").write_text(
        "from tanager import BayesNetClassifier\n"
        "X = [['a', 1.0], ['b', 2.0]] * 20\n"
        "print(BayesNetClassifier('order', 'hdp').fit(X, [0, 1] * 20).predict(X[:1]))\n"
    )
    code, said = call(fresh / "python", "s.py", cwd=tmp_path, HOME=str(home))
    assert code == 0, said
    assert "[0]" in said


MODEL, TABLE, NEW = "m.tanager", "table.csv", "new.csv"
FIT = ("fit", TABLE, "-t", "label", "-o", "x.tanager")
MISTAKES = [
    ((), 2, "Usage"),
    (("audit",), 2, "Missing argument 'DATA'"),
    (("audit", "nowhere.csv"), 1, "No such file or folder: nowhere.csv"),
    (("audit", TABLE, "-t", "lable"), 2, "--target names 'lable'"),
    (("fit", TABLE, "-o", "x.tanager"), 2, "Missing option '--target'"),
    (("fit", TABLE, "-t", "lable", "-o", "x.tanager"), 1, "No target column 'lable'"),
    (("fit", TABLE, "-t", "label", "-o", TABLE), 2, "is the input table.csv"),
    (("fit", TABLE, "-t", "label", "-o", "-"), 2, "only predict and decide can write to standard"),
    (("fit", MODEL, "-t", "label", "-o", "x.tanager"), 1, "unknown extension"),
    ((*FIT, "-s", "tna"), 2, "--structure 'tna' isn't valid"),
    ((*FIT, "-p", "hpd"), 2, "--parameters 'hpd' isn't valid"),
    ((*FIT, "--drop", "agee"), 2, "--drop names 'agee'"),
    ((*FIT, "--bins", "many"), 2, "--bins 'many' isn't valid"),
    ((*FIT, "--jobs", "0"), 2, "--jobs 0 isn't valid"),
    ((*FIT, "--weight", "city"), 1, "The weights in column 'city' are text"),
    (("predict", NEW, MODEL), 1, "this isn't a model file"),
    (("predict", MODEL, TABLE, "-o", MODEL), 2, "the extension '.tanager' isn't supported"),
    (("predict", MODEL, NEW, "--keep", "idd"), 2, "--keep names 'idd'"),
    (("predict", MODEL, NEW, "--dates", "joined"), 2, "The model file records"),
    (("score", MODEL, NEW), 1, "no column 'label' of true classes"),
    (("score", MODEL, TABLE, "-t", "customer"), 1, "is not one of the classes"),
    (("show", TABLE), 1, "this isn't a model file"),
    (("show", MODEL, "--table", "agee"), 2, "'agee' is not in the network"),
    (("explain", MODEL, NEW, "--row", "99"), 1, "There is no row 99"),
    (("explain", MODEL, NEW, "--row", "two"), 2, "valid integer"),
    (("draw", MODEL, "-o", "n.jpg"), 2, "'.jpg' isn't supported"),
    (("export", MODEL, "-o", "scorer.exe"), 2, "'.exe'"),
    (("ask", MODEL, "--given", "age"), 2, "write NAME=VALUE"),
    (("ask", MODEL, "agee"), 2, "Did you mean 'age'?"),
    (("decide", MODEL, NEW), 2, "Missing option '--costs'"),
    (("decide", MODEL, NEW, "--costs", "nowhere.toml"), 1, "nowhere.toml"),
    (("drift", MODEL, "nowhere.csv"), 1, "No such file or folder: nowhere.csv"),
    (("sample", MODEL, "--given", "city=nowhere"), 2, "has no value 'nowhere'"),
    (("import", TABLE, "--target", "x", "-o", "x.tanager"), 2, "extension"),
    (("report", TABLE, "-o", "y.html"), 1, "this isn't a model file"),
    (("report", MODEL, NEW, "-o", "y.html"), 1, "no column 'label' of true classes"),
    (("evaluate", TABLE, "-t", "label", "--folds", "1"), 2, "--folds 1 isn't valid. Allowed"),
    (("evaluate", TABLE, "-t", "label", "--folds", "999"), 2, "the table has 200"),
    (("compare", TABLE, "--with", "tan/hdp"), 1, "--target: dataset 'table' has no column"),
    (("compare", TABLE, "-t", "label", "--with", "forest"), 2, "'forest' isn't valid"),
    (("demo", "now"), 2, "unexpected extra argument"),
    (("dmeo",), 2, "No such command 'dmeo'"),
]


@pytest.fixture(scope="module")
def model(messy):
    table, place = messy / TABLE, messy / MODEL
    if not place.exists():
        line = ["fit", str(table), "-t", "label", "-s", "naive", "-p", "laplace", "-o", str(place)]
        assert run(line) == 0
    return place


@pytest.mark.parametrize(("arguments", "code", "words"), MISTAKES, ids=lambda v: str(v)[:60])
def test_a_mistake_is_told_in_one_line_with_a_hint(
    arguments, code, words, model, monkeypatch, capfd
):
    monkeypatch.chdir(model.parent)
    capfd.readouterr()
    before = {path: path.stat().st_mtime_ns for path in model.parent.iterdir()}
    assert run(list(arguments)) == code
    said = capfd.readouterr()
    told = said.err or said.out
    assert words in told
    if arguments:
        assert told.startswith("tanager: ")
        assert told.count("\n") == 1
        assert told.rstrip().endswith((".", "'."))
    assert {path: path.stat().st_mtime_ns for path in model.parent.iterdir()} == before


def test_every_command_is_used_wrongly():
    commands = {*COMMANDS}
    assert commands == {arguments[0] for arguments, _, _ in MISTAKES if arguments} - {"dmeo"}


def test_the_container_file_does_what_the_tests_did():
    """Its two steps are the wheel from the source, and its installation with extras that are."""
    import tomllib

    text = (ROOT / "Containerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = re.findall(r"\[([\w,]+)\]'", text)
    assert len(named) == 2
    assert all(extra in extras for names in named for extra in names.split(","))
    assert 'ENTRYPOINT ["tanager"]' in text
