"""No command destroys what it reads, or a file that it did not write."""

from __future__ import annotations

import os

import pytest

from tanager.cli.app import run

CSV = "a,b,label\n" + "x,1,yes\ny,2,no\n" * 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("safety")
    (place / "iris.csv").write_text(CSV)
    (place / "notes.txt").write_text("mine")
    (place / "other.csv").write_text("p,q\n1,2\n")
    (place / "mine.json").write_text('{"name": "mine"}')
    (place / "mine.svg").write_text("<svg/>")
    (place / "mine.html").write_text("<p>mine")
    os.link(place / "iris.csv", place / "linked.csv")
    (place / "symbolic.csv").symlink_to(place / "iris.csv")
    fit = ("fit", place / "iris.csv", "-t", "label", "-s", "naive", "-p", "laplace")
    assert call(*fit, "-o", place / "m.tanager") == 0
    predict = ("predict", place / "m.tanager", place / "iris.csv", "--ignore-extra")
    assert call(*predict, "-o", place / "p.csv") == 0
    return place


def call(*arguments):
    return run([str(a) for a in arguments])


FIT = ("fit", "{d}/iris.csv", "-t", "label", "-s", "naive", "-p", "laplace")
PREDICT = ("predict", "{d}/m.tanager", "{d}/iris.csv", "--ignore-extra")
COMPARE = ("compare", "{d}/iris.csv", "-t", "label", "--with", "naive/laplace", "--rounds", "1")


@pytest.mark.parametrize(
    ("command", "wrong", "said"),
    [
        ((*FIT, "-o", "{d}/iris.csv"), "iris.csv", "is the input"),
        ((*FIT, "-o", "{d}/linked.csv"), "iris.csv", "is the input"),
        ((*FIT, "-o", "{d}/symbolic.csv"), "iris.csv", "is the input"),
        ((*FIT, "--force", "-o", "{d}/iris.csv"), "iris.csv", "is the input"),
        ((*FIT, "-o", "{d}/notes.txt"), "notes.txt", "already exists. Pass --force"),
        ((*FIT, "-o", "{d}/m.tanager"), "m.tanager", "already exists. Pass --force"),
        ((*PREDICT, "-o", "{d}/iris.csv"), "iris.csv", "is the input"),
        ((*PREDICT, "-o", "{d}/p.csv"), "p.csv", "already exists. Pass --force"),
        ((*COMPARE, "-o", "{d}/iris.csv"), "iris.csv", "is the input"),
        ((*COMPARE, "-o", "{d}/other.csv"), "other.csv", "already exists. Pass --force"),
        ((*COMPARE, "--html", "{d}/notes.txt"), "notes.txt", "--html"),
        ((*COMPARE, "--run", "{d}/iris.csv"), "iris.csv", "is the input"),
        ((*COMPARE, "--force", "--run", "{d}/notes.txt"), "notes.txt", "isn't a run file"),
        (
            ("draw", "{d}/m.tanager", "-o", "{d}/mine.svg"),
            "mine.svg",
            "already exists. Pass --force",
        ),
        (("draw", "--force", "{d}/copy.svg", "-o", "{d}/copy.svg"), "copy.svg", "is the input"),
        (
            ("export", "{d}/m.tanager", "-o", "{d}/mine.json"),
            "mine.json",
            "already exists. Pass --force",
        ),
        (
            ("report", "{d}/m.tanager", "-o", "{d}/mine.html"),
            "mine.html",
            "already exists. Pass --force",
        ),
        (
            ("explain", "{d}/m.tanager", "{d}/iris.csv", "-o", "{d}/mine.svg"),
            "mine.svg",
            "already exists. Pass --force",
        ),
    ],
)
def test_it_is_refused_and_the_file_stays(folder, capfd, command, wrong, said):
    (folder / "copy.svg").write_bytes((folder / "m.tanager").read_bytes())  # a misleading name
    before = (folder / wrong).read_bytes()
    assert call(*(part.format(d=folder) for part in command)) in (1, 2)
    assert said in capfd.readouterr().err
    assert (folder / wrong).read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        (*FIT, "-o", "{d}/again.tanager"),
        (*PREDICT, "-o", "{d}/again.csv"),
        (*COMPARE, "-o", "{d}/cells.csv", "--html", "{d}/compared.html"),
        ("report", "{d}/m.tanager", "-o", "{d}/page.html"),
        ("draw", "{d}/m.tanager", "-o", "{d}/drawn.svg"),
        ("export", "{d}/m.tanager", "-o", "{d}/again.json"),
    ],
    ids=lambda command: command[0],
)
def test_force_writes_over_what_is_there(folder, command):
    pytest.importorskip("matplotlib")
    arguments = [part.format(d=folder) for part in command]
    assert call(*arguments) == 0
    assert call(*arguments) == 2
    assert call(*arguments, "--force") == 0


def test_a_run_file_is_added_to(folder):
    compare = [*(part.format(d=folder) for part in COMPARE), "--run", folder / "r.jsonl"]
    assert call(*compare) == 0
    before = (folder / "r.jsonl").read_bytes()
    assert call(*compare) == 0
    assert (folder / "r.jsonl").read_bytes() == before
    assert call("report", folder / "notes.txt", "-o", folder / "nothing.html") == 1


def test_what_a_kill_left_of_a_first_line_is_a_run_file(folder):
    torn = folder / "torn.jsonl"
    torn.write_text('{"format": "tana')
    compare = [part.format(d=folder) for part in COMPARE]
    assert call(*compare, "--run", torn) == 0
