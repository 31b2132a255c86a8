"""Whatever a column or a label is called, outputs hold it as text and nothing else."""

import csv
import io
import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from torture.names import CONTROLS
from torture.names import HOSTILE as ALL

import tanager
from tanager import BayesNetClassifier
from tanager.cli.app import run
from tanager.escaping import inert
from tanager.evaluation import Contender, CrossValidation, Dataset, Experiment
from tanager.network import explain_row

NASTY = ALL[:15]


@pytest.fixture(scope="module")
def table():
    n = 4 * len(NASTY)
    columns = {name: [NASTY[(i * (j + 1)) % len(NASTY)] for i in range(n)]
               for j, name in enumerate(NASTY)}  # fmt: skip
    return pa.table({**columns, "y<b>": [NASTY[i % 7] for i in range(n)]})


@pytest.fixture(scope="module")
def classifier(table):
    return BayesNetClassifier("tan", "laplace").fit(table, "y<b>")


@pytest.fixture(scope="module")
def model(classifier, tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "m.tanager"
    tanager.save(classifier, path)
    return path


class Page(HTMLParser):
    """Collects the tags of a page and the text outside styles and scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.handlers = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on")]


def test_notebook_html_holds_names_as_text(table, classifier):
    plain = {name: f"name{at}" for at, name in enumerate(NASTY)} | {"y<b>": "y"}
    columns = {plain[name]: [plain[v] for v in table[name].to_pylist()] for name in plain}
    other = BayesNetClassifier("tan", "laplace").fit(pa.table(columns), "y")
    shows = [
        lambda one: one._repr_html_(),
        lambda one: one.network_._repr_html_(),
        lambda one: one.structure_._repr_html_(),
        lambda one: one.network_.table(one.structure_.features[1])._repr_html_(),
        lambda one: explain_row(one, table_of(one))._repr_html_(),
    ]
    names = {id(classifier): table, id(other): pa.table(columns)}

    def table_of(one):
        return names[id(one)].drop([names[id(one)].column_names[-1]]).slice(0, 1)

    for show in shows:
        page, own = Page(show(classifier)), Page(show(other))
        assert not {"script", "img"} & set(page.tags)
        assert set(page.tags) <= set(own.tags)  # those of the same table with plain names
        assert page.handlers == []


def test_dot_quotes_every_name(classifier):
    text = classifier.network_.to_dot()
    assert not set(CONTROLS) & set(text)
    # Outside quoted strings there is nothing but the program's own words.
    outside, inside, escaped = [], False, False
    for char in text:
        if inside and escaped:
            escaped = False
        elif inside and char == "\\":
            escaped = True
        elif char == '"':
            inside = not inside
        elif not inside:
            outside.append(char)
    assert not inside
    own = {"digraph", "tanager", "node", "shape", "box", "style", "rounded", "fontname", "sans"}
    own |= {"filled", "fillcolor", "color", "white", "gray80", "gray90", "graph", "label"}
    own |= {"fontsize", "penwidth", "tooltip", "dashed"}
    words = "".join(c if c.isalnum() else " " for c in "".join(outside)).split()
    assert {word for word in words if not word.isdigit()} <= own


def test_bif_is_plain_words(classifier):
    text = classifier.network_.to_bif()
    assert text.isascii()
    assert not set(text) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_ \n{}[](),;.|-")  # fmt: skip
    assert text.count("variable ") == len(NASTY) + 1


def test_xmlbif_gives_the_names_back(classifier):
    root = ET.fromstring(classifier.network_.to_xmlbif())
    assert {element.tag for element in root.iter()} <= {
        *("BIF", "NETWORK", "NAME", "PROPERTY", "VARIABLE", "OUTCOME"),
        *("DEFINITION", "FOR", "GIVEN", "TABLE"),
    }
    names = [element.findtext("NAME") for element in root.iter("VARIABLE")]
    clean = [
        n for n in NASTY if not (set(CONTROLS) - set("\u202e\u200f")) & set(n) and "\r" not in n
    ]
    assert set(clean) <= set(names)


@pytest.mark.parametrize("ending", ["svg"])
def test_pictures_are_well_formed(model, tmp_path, ending):
    for options in ([], ["--table", NASTY[1]], ["--table", NASTY[3]], ["--table", NASTY[7]]):
        path = tmp_path / f"m.{ending}"
        assert run(["draw", str(model), "--force", "-o", str(path), *options]) == 0
        tags = {element.tag.rpartition("}")[2] for element in ET.parse(path).iter()}
        assert not tags & {"script", "img", "foreignObject"}


@pytest.mark.parametrize("command", [["show"], ["show", "--json"]])
def test_the_terminal_is_not_steered(model, capsys, command):
    assert run([command[0], str(model), *command[1:]]) == 0
    out = capsys.readouterr().out
    assert not set(CONTROLS) & set(out)
    if "--json" in command:
        assert NASTY[3] in json.dumps(json.loads(out)).encode().decode("unicode_escape")


def test_explanations_and_errors_do_not_steer_the_terminal(model, table, tmp_path, capsys):
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "t.parquet")
    assert run(["explain", str(model), str(tmp_path / "t.parquet")]) == 0
    pq.write_table(table.drop_columns([NASTY[3]]), tmp_path / "less.parquet")
    assert run(["predict", str(model), str(tmp_path / "less.parquet")]) == 1
    heard = capsys.readouterr()
    assert "\\x1b[31mred" in heard.err
    assert not set(CONTROLS) & set(heard.out + heard.err)


def test_csv_holds_no_formula_and_parquet_holds_the_labels(model, table, tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "t.parquet")
    for ending in ("csv", "parquet"):
        out = tmp_path / f"out.{ending}"
        code = run(["predict", str(model), str(tmp_path / "t.parquet"), "-o", str(out),
                    "--keep", NASTY[0]])  # fmt: skip
        assert code == 0
    rows = list(csv.reader(io.StringIO((tmp_path / "out.csv").read_bytes().decode())))
    assert len(rows) == table.num_rows + 1
    assert {len(row) for row in rows} == {9}
    assert not any(cell.startswith(("=", "@")) for row in rows for cell in row)
    assert rows[0][0] == "'" + NASTY[0]
    labels = pq.read_table(tmp_path / "out.parquet").column("prediction").to_pylist()
    assert set(labels) <= set(NASTY[:7])


def test_a_report_of_nasty_names_is_inert(table, tmp_path, capsys):
    from tanager.cli.laboratory import print_comparison
    from tanager.report.page import render_comparison

    datasets = [Dataset(name, table, "y<b>") for name in NASTY[1:5]]
    contenders = [Contender(NASTY[1], "naive/laplace"), Contender(NASTY[4], "tan/laplace"),
                  Contender(NASTY[5], "tan/laplace(alpha='x')")]  # fmt: skip
    results = Experiment(datasets, contenders, CrossValidation(1, 2), name=NASTY[2]).run()
    page = Page(render_comparison(results))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert page.handlers == []
    print_comparison(results, as_json=False)
    assert not set(CONTROLS) & set(capsys.readouterr().out)
    results.write(tmp_path / "cells.csv")
    assert "\n=cmd" not in (tmp_path / "cells.csv").read_text()


def test_sql_holds_names_as_names(table, classifier):
    import sqlite3

    clean = [name for name in table.column_names[:-1] if "\0" not in name]
    labels = table.column("y<b>")
    smaller = BayesNetClassifier("tan", "laplace").fit(table.select(clean), labels)
    statement = smaller.network_.to_sql(table="rows", dialect="sqlite")
    connection = sqlite3.connect(":memory:")
    quoted = ['"' + name.replace('"', '""') + '"' for name in clean]
    connection.execute(f"create table rows ({', '.join(quoted)})")
    rows = list(zip(*(table.column(name).to_pylist() for name in clean), strict=True))
    connection.executemany(f"insert into rows values ({', '.join('?' * len(clean))})", rows)
    assert len(connection.execute(statement).fetchall()) == table.num_rows
    assert connection.execute("select count(*) from rows").fetchone() == (table.num_rows,)


def test_a_model_page_of_nasty_names_is_inert(table, classifier):
    from tanager.report.model_page import render_report

    own = Page(render_report(BayesNetClassifier("tan", "laplace").fit([["a"], ["b"]], [0, 1])))
    page = Page(render_report(classifier))
    assert page.tags.count("script") == own.tags.count("script")
    assert page.tags.count("img") == own.tags.count("img")
    assert page.handlers == own.handlers


def test_programs_hold_names_as_text(classifier):
    for text in (classifier.network_.to_javascript(), classifier.network_.to_json()):
        assert "</script" not in text.lower()
        assert not {c for c in text if ord(c) < 32} - {"\n", "\t"}
    assert not {c for c in classifier.network_.to_c() if ord(c) < 32} - {"\n", "\t"}


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["=cmd()", "x"]).dictionary_encode(),
        pa.array([b"=cmd()", b"x"]),
        pa.array([b"=cmd()", b"x23456"], pa.binary(6)),
        pa.array(["=cmd()", "x"], pa.string_view()),
        pa.array(["=cmd()", "x"], pa.large_string()),
    ],
    ids=lambda column: str(column.type),
)
def test_no_type_of_text_hides_a_formula(column):
    first = inert(pa.table({"a": column})).column(0)[0].as_py()
    assert first in ("'=cmd()", b"'=cmd()")


def test_wide_letters_and_new_lines_hide_no_formula():
    hostile = ["\uff1dcmd()", "\uff20SUM(1)", "\uff0b1|x", "\uff0dx!A0", "\n=cmd()", "\t+x(1)"]
    harmless = ["\uff0d", "\uff0b1", "\n", "\ufeffx", "\uff0cx(1)", "\xef(1)"]
    for column in (pa.array([*hostile, *harmless]), pa.array([*hostile, *harmless]).cast("binary")):
        found = inert(pa.table({"a": column})).column("a").cast("string").to_pylist()
        assert found == ["'" + text for text in hostile] + harmless


@pytest.mark.parametrize(
    "command",
    [
        ["audit", "{table}", "-t", "y<b>"],
        ["fit", "{table}", "-t", "y<b>", "-o", "{out}", "--structure", "naive", "--parameters",
         "ml"],
        ["score", "{model}", "{table}", "-t", "y<b>"],
        ["evaluate", "{table}", "-t", "y<b>", "--structure", "naive", "--parameters", "ml",
         "--rounds", "1"],
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_no_command_lets_names_steer_the_terminal(model, table, tmp_path, capsys, command):
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "t.parquet")
    places = {"{table}": tmp_path / "t.parquet", "{model}": model, "{out}": tmp_path / "m"}
    assert run([str(places.get(word, word)) for word in command]) == 0
    heard = capsys.readouterr()
    assert heard.out
    assert not set(CONTROLS) & set(heard.out + heard.err)


def test_exported_c_of_nasty_names_compiles(classifier, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "model.h").write_text(classifier.network_.to_c(), encoding="utf-8")
    (tmp_path / "main.c").write_text('#include "model.h"\nint main(void) { return 0; }\n')
    command = [compiler, "-std=c99", "-fsyntax-only", "-Wall", "-Werror=comment", "main.c"]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_exported_javascript_of_nasty_names_parses(classifier, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    (tmp_path / "model.cjs").write_text(classifier.network_.to_javascript(), encoding="utf-8")
    subprocess.run([node, "--check", "model.cjs"], cwd=tmp_path, check=True)


def test_exported_onnx_of_nasty_names_is_valid(table):
    onnx = pytest.importorskip("onnx")
    labels = table.column("y<b>").to_pylist()
    small = table.select(table.column_names[:4])
    model = BayesNetClassifier("naive", "laplace").fit(small, labels).network_.to_onnx()
    onnx.checker.check_model(model)
    assert {node.domain for node in model.graph.node} <= {"", "ai.onnx.ml"}


@pytest.mark.parametrize("name", NASTY)
def test_bars_of_progress_do_not_steer_the_terminal(name, monkeypatch):
    from rich.console import Console

    from tanager import progress

    sink = io.StringIO()
    shown = Console(file=sink, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr(progress, "_console", lambda stderr=True: shown)
    with progress.RichProgress() as bars:
        bars.start(name, 2)
        bars.advance(1, dataset=name, classifier="c", loss=1.0, seconds=1.0, status="ok")
    text = sink.getvalue()
    assert not (set(CONTROLS) - set("\x1b\r\n")) & set(text)
    assert "\x1b[31m" not in text
    assert "\x1b]" not in text
