"""What a file may do to each reader: one function a reader, from bytes to an outcome.

Used by the fuzzer (`torture.fuzz`) and, with the seeds it found, by the tests.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from torture import input_mutations, model_mutations, toml_mutations
from torture.victim import fit_table, load_model

__all__ = ["TARGETS", "seeds_of"]

RUN_FILE = Path(__file__).with_name("run_file.jsonl")


def _in_file(data: bytes, ending: str, work: Callable[[Path], str]) -> str:
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        path = Path(folder) / f"file{ending}"
        path.write_bytes(data)
        return work(path)


@cache
def _models() -> list[tuple[dict[str, str], dict[str, Any]]]:
    """Return metadata and arrays of whole model files."""
    from safetensors.numpy import load

    found = []
    for data in model_mutations.seeds():
        length = int.from_bytes(data[:8], "little")
        found.append((json.loads(data[8 : 8 + length])["__metadata__"], load(data)))
    return found


def model(data: bytes) -> str:
    """Take the first byte as a model's number and the rest as its header, under a valid checksum.

    So the fuzzer changes what is checked for sense, not what the checksum guards.
    """
    from safetensors.numpy import save

    from tanager.network.files import checksum

    if len(data) < 2:
        return "refused"
    metadata, arrays = _models()[data[0] % len(_models())]
    header = data[1:].decode("utf-8", "replace")
    metadata = {**metadata, "header": header, "sha256": checksum(header, arrays)}
    return _in_file(save(arrays, metadata), ".tanager", load_model)


def experiment(data: bytes) -> str:
    """Read an experiment file, and its cells; nothing is run."""
    from tanager.errors import TanagerError
    from tanager.evaluation import Experiment

    def read(path: Path) -> str:
        try:
            found = Experiment.from_toml(path, data=path.parent)
            found.check()
            _ = sum(1 for _ in zip(found.cells(), range(50), strict=False))
        except TanagerError:
            return "refused"
        return "read"

    return _in_file(data, ".toml", read)


def learner(data: bytes) -> str:
    """Read the text of a structure and of parameters, as in ``tan/hdp(shape=2)``."""
    from tanager.errors import TanagerError
    from tanager.evaluation import Contender
    from tanager.parameters import PARAMETERS
    from tanager.structure import STRUCTURES

    text = data.decode("utf-8", "replace")
    outcome = "refused"
    for read in (STRUCTURES.resolve, PARAMETERS.resolve, lambda t: Contender("a", t).check()):
        with contextlib.suppress(TanagerError):
            read(text)
            outcome = "read"
    return outcome


def run_file(data: bytes) -> str:
    """Read a run file and make all that is made of one: table, page, comparison."""
    from tanager.cli.laboratory import print_comparison
    from tanager.errors import TanagerError
    from tanager.evaluation import Results
    from tanager.report.page import render_comparison

    def read(path: Path) -> str:
        try:
            results = Results.read(path)
            results.table()
            render_comparison(results)
            with contextlib.redirect_stdout(io.StringIO()):
                print_comparison(results, as_json=False)
        except TanagerError:
            return "refused"
        return "read"

    return _in_file(data, ".jsonl", read)


def csv(data: bytes) -> str:
    """Learn from a CSV and predict it."""
    return _in_file(data, ".csv", fit_table)


def checkpoint(data: bytes) -> str:
    """Read arrays of a checkpoint."""
    from tanager.classifiers.checkpoints import read_arrays

    def read(path: Path) -> str:
        try:
            read_arrays(path)
        except ValueError:
            return "refused"
        return "read"

    return _in_file(data, ".npz", read)


NETWORK_FORMATS = ("bif", "xmlbif", "xdsl", "net")


def network(data: bytes) -> str:
    """Take the first byte as the format of a network and the rest as its file."""
    from tanager.errors import TanagerError
    from tanager.network.general import network_of_variables
    from tanager.network.readers import parse_network

    if not data:
        return "refused"
    try:
        variables, notes = parse_network(data[1:], NETWORK_FORMATS[data[0] % 4])
        found = network_of_variables(variables, variables[0].name, notes=notes)
        found.log_joint([dict.fromkeys(found.codebook.domain.names)])
    except TanagerError:
        return "refused"
    return "read"


def html(data: bytes) -> str:
    """Take lines as names, values and classes, and render all that a notebook shows.

    Whatever they are, the tags are those of a model with plain names.
    """
    from tanager import BayesNetClassifier
    from tanager.errors import TanagerError
    from tanager.network import explain_row

    lines = [line or "x" for line in data.decode("utf-8", "replace").split("\n")]
    names = list(dict.fromkeys(lines[:3]))
    values, classes = lines[3:6] or ["a"], list(dict.fromkeys(lines[6:9])) or ["c"]
    rows = [[values[(i + at) % len(values)] for at in range(len(names))] for i in range(12)]
    table = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    y = [classes[i % len(classes)] for i in range(12)]
    try:
        model = BayesNetClassifier("tan", "laplace", audit=False).fit(table, y)
    except TanagerError:
        return "refused"
    network = model.network_
    shown = [model, network, network.structure, network.table(names[0])]
    if len(classes) > 1:
        shown.append(explain_row(model, {name: [cells[0]] for name, cells in table.items()}))
    for one in shown:
        tags = _tags(one._repr_html_())
        if not tags <= _plain_tags():
            return f"foreign tags: {sorted(tags - _plain_tags())}"
    return "read"


@cache
def _plain_tags() -> frozenset[str]:
    """Return the tags of what notebooks show; scikit-learn's own diagrams have some of them."""
    common = "a b button circle code defs details div ellipse figure g h3 i img input label line"
    more = "marker meta p path polygon polyline pre rect small span strong style summary svg"
    rest = "table tbody td text th thead title tr tspan ul li use script"
    return frozenset(f"{common} {more} {rest}".split())


def _tags(page: str) -> set[str]:
    from html.parser import HTMLParser

    found: set[str] = set()

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.add(tag)
            if any(name.startswith("on") for name, _ in attrs if tag not in ("input", "button")):
                found.add("an attribute that runs code")

    Parser(convert_charrefs=True).feed(page)
    return found


COLUMN_TYPES = (
    *("<f8", ">f8", "<f4", "<f2", ">i8", "<i2", "<u8", "?"),
    *("<M8[s]", ">M8[h]", "<m8[ms]", "S3", "<U2"),
)


def column(data: bytes) -> str:
    """Take the first byte as a type and the rest as memory: a column, and labels made of it.

    What is learned must survive a file, and rows alone be answered as in a table.
    """
    import numpy as np

    import tanager
    from tanager import BayesNetClassifier
    from tanager.errors import TanagerError

    if len(data) < 40:
        return "refused"
    kind = np.dtype(COLUMN_TYPES[data[0] % len(COLUMN_TYPES)])
    n_rows = min(200, (len(data) - 2) // kind.itemsize)
    if n_rows < 2:
        return "refused"
    start = 2 if data[1] % 2 == 0 else 1  # an odd one is not aligned
    values = np.frombuffer(data, kind, n_rows, start)
    columns = {"x": values, "y": np.arange(n_rows) % 2}
    options = {"categorical_features": ["x"] if data[1] & 2 else "from_dtype", "bins": 4}
    try:
        target = values if data[1] & 4 else columns["y"]
        model = BayesNetClassifier("naive", "laplace", **options).fit(columns, target)
        expected = model.predict_proba(columns)
    except (TanagerError, TypeError) as error:
        ours = isinstance(error, TanagerError) or "must be a string or a number" in str(error)
        return "refused" if ours else f"{type(error).__name__}: {error}"
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        tanager.save(model, Path(folder) / "m")
        again = tanager.load(Path(folder) / "m")
    if again.network_ != model.network_ or again.classes_.dtype != model.classes_.dtype:
        return "a loaded model is another"
    for at in range(0, n_rows, 37):
        one = again.predict_proba({name: cells[at : at + 1] for name, cells in columns.items()})
        if not np.array_equal(one[0], expected[at]):
            return f"row {at} alone is answered otherwise"
    return "read"


@cache
def _text_model() -> Any:
    """Return a model that reads numbers and dates from text."""
    from tanager import BayesNetClassifier

    rows = {
        "plain": [f"{i / 7:.3f}" for i in range(120)],
        "comma": [f"{1000 + 37 * i:,.2f}" for i in range(120)],
        "iso": [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(120)],
        "german": [f"{1 + i % 28:02d}.{1 + i % 12:02d}.2024" for i in range(120)],
        "word": ["a", "b", "ü"] * 40,
    }
    return BayesNetClassifier("naive", "laplace", bins=5).fit(rows, [0, 1] * 60)


def cells(data: bytes) -> str:
    """Take lines as cells: coded one by one and as a table they are the same."""
    import numpy as np

    from tanager.errors import TanagerError

    codebook = _text_model().network_.codebook
    names = codebook.domain.names
    for text in data.decode("utf-8", "surrogateescape").split("\n")[:20]:
        row = dict.fromkeys(names, text)
        found = []
        for rows in ([row], [row] * 5):
            try:
                found.append(codebook.encode(rows)[:, 0])
            except TanagerError as error:
                found.append(str(error))
        if not np.array_equal(*found):
            return f"{text!r} alone is coded otherwise"
    return "read"


TARGETS: dict[str, Callable[[bytes], str]] = {
    "model": model,
    "experiment": experiment,
    "learner": learner,
    "run_file": run_file,
    "csv": csv,
    "checkpoint": checkpoint,
    "network": network,
    "html": html,
    "column": column,
    "cells": cells,
}


def seeds_of(target: str) -> list[bytes]:
    """Return whole files to start from."""
    import numpy as np

    if target == "model":
        return [bytes([at]) + facts["header"].encode() for at, (facts, _) in enumerate(_models())]
    if target == "experiment":
        return [text.encode() for text in toml_mutations.SEEDS]
    if target == "learner":
        return [
            b"tan/hdp(shape=2)",
            b"kdb(k=2, moral=True)",
            b"fixed(parents={'a': ['b']})",
            b"discriminative(form='direct', base=m-estimate(m=1), l2=0.1)",
            b"layered(generative=laplace(alpha=2))",
            b"random-forest(n_estimators=3)",
        ]
    if target == "run_file":
        return [RUN_FILE.read_bytes()]
    if target == "csv":
        return [data for ending, data in input_mutations.seeds() if ending == ".csv"]
    if target == "html":
        return [b"name\n<b>\n'\\\na\n</td><script>\n&amp;\nyes\nno", b"x\ny\n\n1\n2\n3\n<i>"]
    if target == "column":
        kinds = map(np.dtype, COLUMN_TYPES)
        return [
            bytes([at, 0]) + np.ones(40).astype(kind).tobytes() for at, kind in enumerate(kinds)
        ]
    if target == "cells":
        return [
            b"1.5\n1,234.50\n2024-02-29\n29.02.2024\n \n$5\nx",
            b"2024-01-01T10:00+02:00\n1e5\n5%",
        ]
    if target == "network":
        return [bytes([at]) + text for at, text in enumerate(_network_texts())]
    return [_checkpoint_bytes()]


def _network_texts() -> list[bytes]:
    """Return one network in every format."""
    bif = b"""network n { }
variable a { type discrete [ 2 ] { x, y }; }
variable b { type discrete [ 2 ] { u, "v w" }; }
probability ( a | b ) { (u) 0.5, 0.5; default 0.25, 0.75; }
probability ( b ) { table 0.1, 0.9; }
"""
    xmlbif = b"""<BIF VERSION="0.3"><NETWORK><NAME>n</NAME>
<VARIABLE TYPE="nature"><NAME>a</NAME><OUTCOME>x</OUTCOME><OUTCOME>y</OUTCOME></VARIABLE>
<VARIABLE><NAME>b</NAME><OUTCOME>u</OUTCOME><OUTCOME>v</OUTCOME></VARIABLE>
<DEFINITION><FOR>a</FOR><GIVEN>b</GIVEN><TABLE>0.5 0.5 0.25 0.75</TABLE></DEFINITION>
<DEFINITION><FOR>b</FOR><TABLE>0.1 0.9</TABLE></DEFINITION></NETWORK></BIF>"""
    xdsl = b"""<smile version="1.0" id="n"><nodes>
<cpt id="a"><state id="x"/><state id="y"/><parents>b</parents>
<probabilities>0.5 0.5 0.25 0.75</probabilities></cpt>
<deterministic id="b"><state id="u"/><state id="v"/><resultingstates>v</resultingstates>
</deterministic></nodes></smile>"""
    net = b"""net { node_size = (80 40); }
node a { states = ("x" "y"); } node b { states = ("u" "v"); }
potential (a | b) { data = ((0.5 0.5)(0.25 0.75)); } % rows
potential (b) { data = (0.1 0.9); }
"""
    return [bif, xmlbif, xdsl, net]


def _checkpoint_bytes() -> bytes:
    import numpy as np

    sink = io.BytesIO()
    np.savez(sink, a=np.arange(3.0), fingerprint=np.array("x"))
    return sink.getvalue()


def quiet() -> None:
    """Turn warnings off, which a damaged file may cause."""
    warnings.simplefilter("ignore")
