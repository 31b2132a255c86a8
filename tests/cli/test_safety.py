"""No command destroys what it reads, or a file that it did not write."""

from __future__ import annotations

import os

import pytest

from tanager.cli.app import run
from tanager.cli.safety import is_cells, is_model, is_page, is_prediction, is_run

CSV = "a,b,label\n" + "x,1,yes\ny,2,no\n" * 10

# Files of a user who works with Tanager, and writes about it.
FOREIGN = {
    "essay.html": "<!doctype html>\n<title>Why I like Tanager</title>\n<p>Tanager, a report</p>\n",
    "scores.sql": "-- of the table tanager_scores\nSELECT 1;\n",
    "notes.json": '{"about": "tanager-scorer", "format": "tanager-scorer"}',
    "page.js": "// needs tanager.load\nconst model = tanager.load(json);\n",
    "row.h": "/* rows for tanager_score */\nint row;\n",
    "birds.bif": "network tanager_birds {\n}\n",
    "birds.xml": "<?xml version='1.0'?>\n<BIRD><NAME>tanager</NAME></BIRD>\n",
    "birds.dot": "digraph tanager {\n  scarlet -> western;\n}\n",
    "birds.onnx": "tanager",
    "birds.svg": "<?xml version='1.0'?>\n<svg><title>Tanager</title></svg>\n",
    "birds.png": "\x89PNG Tanager",
    "birds.pdf": "%PDF-1.4 /Title (Tanager)",
    "forecasts.csv": "year,prediction\n2025,3.5\n2026,4\n",
    "tests.csv": "test,prediction,p_value\na,yes,0.03\nb,no,0.4\n",
    "means.csv": "prediction,p_high,spread\nhigh,1.0,0\n",
    "mine_cells.csv": "dataset,classifier,round,fold,score\niris,forest,0,0,0.9\n",
    "mine.jsonl": '{"note": "to be kept beside tanager-run-1"}\n{"unfinished": ',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("safety")
    (place / "iris.csv").write_text(CSV)
    (place / "notes.txt").write_text("mine")
    (place / "other.csv").write_text("p,q\n1,2\n")
    (place / "mine.json").write_text('{"name": "mine"}')
    (place / "mine.svg").write_text("<svg/>")
    for name, text in FOREIGN.items():
        (place / name).write_text(text)
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
        (("draw", "{d}/m.tanager", "-o", "{d}/twin.svg"), "twin.svg", "is no picture"),
        (("export", "{d}/m.tanager", "-o", "{d}/twin.json"), "twin.json", "is no export"),
        (("report", "{d}/m.tanager", "-o", "{d}/essay.html"), "essay.html", "is no report"),
        ((*COMPARE, "--html", "{d}/essay.html"), "essay.html", "is no report"),
        ((*COMPARE, "-o", "{d}/mine_cells.csv"), "mine_cells.csv", "is no table of cells"),
        ((*COMPARE, "--run", "{d}/mine.jsonl"), "mine.jsonl", "is no run file"),
        *(
            (("export", "{d}/m.tanager", "-o", f"{{d}}/{name}"), name, "is no export")
            for name in FOREIGN
            if name.endswith((".sql", ".json", ".js", ".h", ".bif", ".xml", ".dot", ".onnx"))
        ),
        *(
            (("draw", "{d}/m.tanager", "-o", f"{{d}}/{name}"), name, "is no picture")
            for name in ("birds.svg", "birds.png", "birds.pdf")
        ),
        *(
            ((*PREDICT, "-o", f"{{d}}/{name}"), name, "is no table of predictions")
            for name in ("forecasts.csv", "tests.csv", "means.csv")
        ),
        (
            ("explain", "{d}/m.tanager", "{d}/iris.csv", "-o", "{d}/mine.svg"),
            "mine.svg",
            "is no picture",
        ),
    ],
)
def test_it_is_refused_and_the_file_stays(folder, capfd, command, wrong, said):
    for name in ("copy.svg", "copy.dot", "twin.svg", "twin.json"):  # models, misleading names
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


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_predictions_are_written_again(folder, ending):
    predict = [part.format(d=folder) for part in PREDICT]
    again = folder / f"again.{ending}"
    for options in ((), ("--keep", "all"), ("--keep", "label")):
        assert call(*predict, *options, "-o", again) == 0
        assert is_prediction(again)


def test_labels_alone_may_be_of_anybody_and_are_replaced_by_force(folder, capfd):
    command = [*(part.format(d=folder) for part in PREDICT), "--no-probabilities"]
    labels = folder / "labels.csv"
    assert call(*command, "-o", labels) == 0
    assert call(*command, "-o", labels) == 2
    assert "--force" in capfd.readouterr().err
    assert call(*command, "-o", labels, "--force") == 0


def test_pages_cells_and_runs_are_written_again(folder):
    page = ("report", folder / "m.tanager", "-o", folder / "again.html", "--title", "T")
    outputs = {
        "--html": folder / "compared.html",
        "-o": folder / "cells.csv",
        "--run": folder / "r.jsonl",
    }
    compare = [part.format(d=folder) for part in COMPARE]
    compare += [text for pair in outputs.items() for text in pair]
    for command in (page, compare):
        assert call(*command) == 0
        assert call(*command) == 0
    assert call("report", folder / "r.jsonl", "-o", folder / "again.html") == 0


def test_the_page_of_a_paper_is_one_of_ours(tmp_path):
    from tanager.report.page import page_environment

    template = page_environment().loader.get_source(page_environment(), "paper.html.j2")[0]
    (tmp_path / "paper.html").write_text(template)
    assert is_page(tmp_path / "paper.html")


@pytest.mark.parametrize("ending", ["sql", "json", "js", "mjs", "h", "bif", "xml", "dot", "onnx"])
def test_an_export_is_written_again(folder, ending):
    if ending == "onnx":
        pytest.importorskip("onnx")
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
