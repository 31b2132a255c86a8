"""The program as people run it: its exit codes, its messages, what it leaves behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest
import typer
from tests.cli.calling import call

import tanager
from tanager.cli import app
from tanager.cli.app import COMMANDS
from tanager.cli.options import as_command
from tanager.progress import LongWork


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit"], "Missing"),
        (["nonsense"], "No such command"),
        (["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "-s", "tanne"], "--structure 'tanne'"),
        (
            ["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "-s", "kdb(q=2)"],
            "has no option 'q'. Its options: adjusted, k",
        ),
        (
            ["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "-s", "fixed"],
            "fixed requires parents. Write fixed(parents=...)",
        ),
        (
            ["compare", "{t}", "-t", "risk", "--with", "tan/bar"],
            "tanager: --with tan/bar: parameters='bar' isn't valid. Give one of",
        ),
        (
            ["compare", "{t}", "-t", "risk", "--with", "foo/bar"],
            "tanager: --with foo/bar: parameters='bar' isn't valid",
        ),
        (
            ["compare", "{t}", "-t", "risk", "--with", "foo/hdp"],
            "tanager: --with foo/hdp: structure='foo' isn't valid",
        ),
        (
            ["compare", "{t}", "-t", "risk", "--with", "kdb(q=1)/hdp"],
            "tanager: --with kdb(q=1)/hdp: 'kdb(q=1)': kdb has no option 'q'",
        ),
        (["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "--missing", "drop"], "--missing 'drop'"),
        (["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "--drop", "nix"], "'nix'"),
        (["predict", "{m}", "{t}", "-o", "{tmp}/p.doc"], "'.doc'"),
        (["predict", "{m}", "{t}", "--keep", "nix"], "'nix'"),
        (["draw", "{m}", "-o", "{tmp}/g.jpg"], "'.jpg'"),
        (["report", "{m}", "-o", "{tmp}/g.pdf"], "Allowed: .html, .htm, .md"),
        (
            ["report", "{m}", "{t}", "-o", "{tmp}/g.html", "--folds", "-1"],
            "--folds -1 isn't valid. Allowed: 2",
        ),
        (["export", "{m}", "-o", "{tmp}/g.csv"], "'.csv'"),
        (["export", "{m}", "-o", "{tmp}/g.sql", "--format", "pmml"], "--format 'pmml'"),
        (["export", "{m}", "-o", "{tmp}/g.sql", "--dialect", "basic"], "'basic'"),
        (["export", "{m}", "-o", "{tmp}/g.json", "--dialect", "duckdb"], "--dialect can't be used"),
        (
            ["export", "{m}", "-o", "{tmp}/g.bif", "--complete-rows"],
            "--complete-rows can't be used",
        ),
        (["export", "{m}", "-o", "{tmp}/g.h", "--name", "1x"], "--name '1x'"),
        (["explain", "{m}", "{t}", "--class", "none"], "'none'"),
        (["explain", "{m}", "{t}", "--row", "-1"], "counted from 0"),
        (["show", "{m}", "--table", "nix"], "'nix'"),
        (["show", "{m}", "--sort", "nonsense"], "--sort needs --table FEATURE"),
        (["show", "{m}", "--table", "age", "--sort", "nonsense"], "nonsense"),
        (
            ["draw", "{m}", "-o", "{tmp}/g.svg", "--sort", "context"],
            "--sort needs --table FEATURE",
        ),
        (
            ["draw", "{m}", "-o", "{tmp}/g.svg", "--table", "age", "--leaves"],
            "Leave out --leaves or --table",
        ),
        (
            ["report", "{m}", "-o", "{tmp}/r.html", "--folds", "3", "--na-values", "X"],
            "--folds, --na-values needs DATA",
        ),
        (
            ["report", "{m}", "-o", "{tmp}/r.html", "-t", "risk"],
            "--target needs DATA",
        ),
        (
            ["compare", "{t}", "-t", "risk", "--allow-imports", "--data", "/nowhere"],
            "--data, --allow-imports: only for an experiment file",
        ),
        (["compare", "{t}", "-t", "risk", "--retry-failed"], "Name it with --run"),
        (
            ["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "--scheduler", "a:1", "--jobs", "4"],
            "Leave out --jobs",
        ),
        (
            ["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "--seed", "-1"],
            "--seed -1 isn't valid. Allowed: a whole number",
        ),
        (["fit", "{t}", "-t", "risk", "-o", "{tmp}/m", "-j", "0"], "--jobs 0 isn't valid"),
        (["predict", "{tmp}/nowhere", "{t}"], "does not exist"),
    ],
)
def test_wrong_usage_is_2_with_one_line(folder, tmp_path, said, arguments, words):
    places = {"t": folder / "t.parquet", "m": folder / "m.tanager", "tmp": tmp_path}
    assert call(*(a.format(**places) for a in arguments)) == 2
    told = said()
    assert words in told.err
    assert told.err.startswith("tanager: ")
    assert told.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_pair_of_an_experiment_file_is_told_as_it_stands_there(folder, tmp_path, said):
    place = tmp_path / "e.toml"
    place.write_text(
        f'classifiers = ["tan/bar"]\n[datasets.t]\npath = "{folder}/t.csv"\ntarget = "risk"\n'
    )
    assert call("compare", place, "--run", tmp_path / "run.jsonl") == 2
    assert f"{place}: classifier tan/bar: parameters='bar' isn't valid" in said().err


def test_a_reader_that_has_enough_is_no_failure(folder):
    program = [sys.executable, "-c", "from tanager.cli import main; main()"]
    for command in (
        ["show", "m.tanager", "--table", "all"],
        ["predict", "m.tanager", "t.csv", "--keep", "id"],
    ):
        out, into = os.pipe()
        os.close(out)  # as after `head`
        done = subprocess.run(
            [*program, *command], cwd=folder, stdout=into, stderr=subprocess.PIPE, check=False
        )
        os.close(into)
        assert (done.returncode, done.stderr) == (0, b"")


def test_truncated_files(folder, tmp_path, said):
    data = (folder / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(data[: len(data) // 2])
    assert call("fit", tmp_path / "t.parquet", "-t", "risk", "-o", tmp_path / "m") == 1
    assert "truncated" in said().err
    model = (folder / "m.tanager").read_bytes()
    (tmp_path / "m").write_bytes(model[:-5])
    assert call("show", tmp_path / "m") == 1
    assert "not a usable model file" in said().err


def test_places_that_cannot_be_written(folder, tmp_path, said):
    model, data = folder / "m.tanager", folder / "t.parquet"
    assert call("fit", data, "-t", "risk", "-o", tmp_path / "no" / "m") == 1
    assert "folder" in said().err
    assert call("export", model, "-o", tmp_path / "no" / "m.bif") == 1
    assert "folder" in said().err
    assert call("fit", data, "-t", "risk", "-o", tmp_path) == 1
    assert "folder" in said().err


def test_long_work_is_told_of_without_options_of_the_library(folder, tmp_path, said, monkeypatch):
    class Long(LongWork):
        def __enter__(self):
            self._tell()
            return super().__enter__()

    monkeypatch.setattr("tanager.classifiers.fitting.LongWork", Long)
    line = ["fit", folder / "t.parquet", "-t", "risk", "-s", "naive", "-p", "laplace"]
    assert call(*line, "-o", tmp_path / "m.tanager") == 0
    assert re.search(
        r"^tanager: note: This is taking a while: 0 s so far\.$", said().err, re.MULTILINE
    )


def test_debug_shows_the_traceback(tmp_path):
    (tmp_path / "m").write_bytes(b"no model at all")
    command = [sys.executable, "-m", "tanager", "show", str(tmp_path / "m")]
    quiet = subprocess.run(command, capture_output=True, text=True, check=False)
    assert quiet.returncode == 1
    assert "Traceback" not in quiet.stderr
    loud = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False)
    assert loud.returncode == 1
    assert "Traceback" in loud.stderr


def test_help_loads_little():
    code = (
        "import sys\nfrom tanager.cli.app import run\nrun(['--help'])\n"
        "heavy = ('numpy', 'pyarrow', 'scipy', 'pandas', 'sklearn', 'rich', 'tanager.sources')\n"
        "print(*[m for m in heavy if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == []
    for command in COMMANDS:
        assert command in done.stdout


def test_the_help_says_of_each_command_what_its_own_says():
    program = typer.main.get_command(app)
    for name, (_, line) in COMMANDS.items():
        command = program.get_command(None, name)
        assert command.help.partition("\n\n")[0].replace("\n", " ") == line
        assert command.name == name
    assert set(COMMANDS) <= set(program.list_commands(None))


def test_version_and_completion(said):
    assert call("--version") == 0
    assert said().out == f"tanager {tanager.__version__}\n"
    environment = {**os.environ, "_TANAGER_COMPLETE": "complete_bash", "COMP_WORDS": "tanager pre"}
    environment["COMP_CWORD"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "tanager"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert "predict" in done.stdout


def test_demo(said):
    assert call("demo") == 0
    text = said().out
    assert "breast cancer" in text
    assert "baseline: class frequencies" in text
    assert "explained" in text


def test_help_shows_defaults_given_in_words(said):
    """Square brackets in a help text are text, not markup."""
    assert call("explain", "--help") == 0
    text = " ".join(said().out.replace("│", " ").split())
    assert "The class to explain. [default: the most probable]" in text
    assert call("ask", "--help") == 0
    assert "with the [prices] of questions" in " ".join(said().out.replace("│", " ").split())


def test_a_docstring_declares_options():
    @dataclass
    class Group:
        """A group.

        Learning:
            depth (-d): How deep.
        """

        depth: int = 2

    def command(group: Group, loud: bool = True, target: str | None = None, quick: bool = False):
        """Do it.

        Slowly.

        Options:
            loud: Whether it's loud, in a text that goes on
                on a second line.
            target (--class): The class. [default: all]
            quick: Leave out the rest.
        """
        return group, loud, target, quick

    command.__annotations__["group"] = Group
    found = as_command(command)
    assert found.__doc__ == "Do it.\n\nSlowly."
    options = {name: kind.__metadata__[0] for name, kind in found.__annotations__.items()}
    assert {name: option.param_decls for name, option in options.items()} == {
        "depth": ["--depth", "-d"],
        "loud": ["--loud/--no-loud"],
        "target": ["--class"],
        "quick": ["--quick"],
    }
    assert options["depth"].rich_help_panel == "Learning"
    assert options["loud"].help == "Whether it's loud, in a text that goes on on a second line."
    assert options["target"].help == r"The class. \[default: all]"
    assert found(depth=3, loud=True, target=None, quick=False) == (Group(3), True, None, False)


def test_a_plug_in_names_its_own_options():
    def command(force: str, jobs: int = 1, as_json: bool = False):
        """Lift a weight."""
        return force, jobs, as_json

    found = as_command(command)
    assert found.__annotations__ == {"force": str, "jobs": int, "as_json": bool}
