"""No command destroys what it reads, or a file that it did not write."""

from __future__ import annotations

import os

import pytest

from tanager.cli.app import run
from tanager.cli.safety import is_cells, is_model, is_page, is_prediction, is_run

CSV = "a,b,label\n" + "x,1,yes\ny,2,no\n" * 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("safety")
    (place / "iris.csv").write_text(CSV)
    (place / "notes.txt").write_text("mine")
    (place / "other.csv").write_text("p,q\n1,2\n")
    (place / "mine.json").write_text('{"name": "mine"}')
    (place / "mine.svg").write_text("<svg/>")
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
        ((*FIT, "-o", "{d}/notes.txt"), "notes.txt", "is no model file"),
        ((*FIT, "-o", "{d}/other.csv"), "other.csv", "is no model file"),
        ((*PREDICT, "-o", "{d}/iris.csv"), "iris.csv", "is the input"),
        ((*PREDICT, "-o", "{d}/other.csv"), "other.csv", "is no table of predictions"),
        ((*COMPARE, "-o", "{d}/iris.csv"), "iris.csv", "is the input"),
        ((*COMPARE, "-o", "{d}/other.csv"), "other.csv", "is no table of cells"),
        ((*COMPARE, "--html", "{d}/notes.txt"), "notes.txt", "is no report"),
        ((*COMPARE, "--force", "--run", "{d}/notes.txt"), "notes.txt", "is no run file"),
        (("draw", "{d}/copy.svg", "-o", "{d}/copy.svg"), "copy.svg", "is the input"),
        (("export", "{d}/copy.dot", "-o", "{d}/copy.dot"), "copy.dot", "is the input"),
        (("export", "{d}/m.tanager", "-o", "{d}/mine.json"), "mine.json", "is no export"),
        (("draw", "{d}/m.tanager", "-o", "{d}/mine.svg"), "mine.svg", "is no picture"),
        (
            ("explain", "{d}/m.tanager", "{d}/iris.csv", "-o", "{d}/mine.svg"),
            "mine.svg",
            "is no picture",
        ),
    ],
)
def test_it_is_refused_and_the_file_stays(folder, capfd, command, wrong, said):
    for name in ("copy.svg", "copy.dot"):  # model files under misleading names
        (folder / name).write_bytes((folder / "m.tanager").read_bytes())
    before = (folder / wrong).read_bytes()
    assert call(*(part.format(d=folder) for part in command)) == 2
    assert said in capfd.readouterr().err
    assert (folder / wrong).read_bytes() == before


def test_force_and_files_of_our_own_go_through(folder):
    arguments = [part.format(d=folder) for part in FIT]
    foreign = folder / "foreign.bin"
    foreign.write_text("something else")
    assert call(*arguments, "--force", "-o", foreign) == 0
    assert call(*arguments, "-o", foreign) == 0  # now it is a model
    empty = folder / "empty.tanager"
    empty.touch()
    assert call(*arguments, "-o", empty) == 0
    predict = [part.format(d=folder) for part in PREDICT]
    assert call(*predict, "-o", folder / "p.csv") == 0  # predictions of before


@pytest.mark.parametrize("ending", ["sql", "json", "js", "mjs", "h", "bif", "xml", "dot"])
def test_an_export_is_written_again(folder, ending):
    command = ("export", folder / "m.tanager", "-o", folder / f"again.{ending}")
    assert call(*command) == 0
    assert call(*command) == 0


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_picture_is_drawn_again_and_over_others_by_force(folder, ending):
    pytest.importorskip("matplotlib")
    picture = folder / f"again.{ending}"
    picture.write_text("mine")
    assert call("draw", folder / "m.tanager", "-o", picture, "--force") == 0
    assert call("draw", folder / "m.tanager", "-o", picture) == 0


def test_kinds_of_files_are_told_apart(folder):
    recognize = (is_model, is_prediction, is_cells, is_page, is_run)
    assert [f(folder / "m.tanager") for f in recognize[:2]] == [True, False]
    assert [f(folder / "p.csv") for f in recognize] == [False, True, False, False, False]
    assert not any(f(folder / "iris.csv") for f in recognize)
