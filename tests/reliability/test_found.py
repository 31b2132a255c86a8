"""Files and calls that once broke a promise."""

import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tanager import BayesNetClassifier, open_table
from tanager.errors import ConfigurationError, DataError, TanagerError
from tanager.evaluation import Dataset, Experiment
from tanager.sources import open_source
from tanager.sources.formats import reading

TABLE = pa.table({"a": ["p", "q"] * 50, "y": ["u", "v"] * 50})


def fit(source, y="y", **options):
    return BayesNetClassifier("naive", "laplace").fit(source, y, **options)


def write_ipc(path, make=pa.ipc.new_file):
    with make(path, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_an_offset_that_points_outside_is_an_error(tmp_path, make):
    path = tmp_path / "seg.arrow"
    raw = write_ipc(path, make)
    at = raw.find(struct.pack("<6i", 0, 1, 2, 3, 4, 5))
    raw[at + 8 : at + 12] = struct.pack("<i", 2**31 - 1)
    path.write_bytes(raw)
    with pytest.raises(DataError, match="column 'a' is damaged"):
        fit(str(path))


def test_a_table_in_memory_with_a_wrong_offset_is_an_error():
    offsets = pa.py_buffer(struct.pack("<3i", 0, 2**31 - 1, 2))
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    with pytest.raises(DataError, match="'a' is damaged"):
        fit(pa.table({"a": column, "y": ["u", "v"]}))


def test_a_dictionary_code_that_points_outside_is_an_error():
    codes = pa.array([0, 9], pa.int32())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["p"]), safe=False)
    with pytest.raises(DataError, match="'a' is damaged"):
        fit(pa.table({"a": column, "y": ["u", "v"]}))


@pytest.mark.parametrize(
    "options",
    [
        *({"encoding": e} for e in ("rot13", "zlib", "\0", "", "x" * 9999, "../x", 5, None)),
        *({"na_values": n} for n in (5, None, [5], ["\ud800"])),
        *({"drop": d} for d in (5, None, "z")),
        {"decimal": "x"},
    ],
    ids=lambda one: str(one)[:30],
)
def test_ways_of_reading_that_make_no_sense_are_told_of(tmp_path, options):
    (tmp_path / "t.csv").write_text("a,y\n" + "p,u\nq,v\n" * 9)
    with pytest.raises(ConfigurationError):
        open_table(tmp_path / "t.csv", **options)


@pytest.mark.parametrize("encoding", ["undefined", "punycode", "utf-16"])
def test_an_encoding_that_is_not_the_files_is_told_of(tmp_path, encoding):
    (tmp_path / "t.csv").write_text("a,y\n" + "p,u\nq,v\n" * 9)
    with pytest.raises(DataError, match=r"t\.csv is not written in"):
        open_table(tmp_path / "t.csv", encoding=encoding)


@pytest.mark.parametrize(
    "text",
    ["a" * 200_000 + ",y\np,u\n", '"a,y\n' + "p,u\n" * 50_000, "a,y\n" + "p" * 200_000 + ",u,v\n"],
    ids=["a long name", "an open quote", "a long cell too many"],
)
def test_long_cells_of_a_csv_give_no_error_of_another_library(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=r"t\.csv"):
        open_source(str(tmp_path / "t.csv"))


@pytest.mark.parametrize("make", [list, np.array, lambda y: np.array(y, dtype="<U9")])
def test_texts_that_differ_after_a_nul_are_different(make):
    values = ["a\0b", "a\0c", "a"] * 10
    classes = BayesNetClassifier("naive", "laplace").fit(np.array(values)[:, None], make(values))
    assert sorted(classes.classes_) == ["a", "a\0b", "a\0c"]
    assert classes.network_.codebook.columns[0].values.to_pylist() == ["a", "a\0b", "a\0c"]
    assert classes.predict(np.array(values[:3])[:, None]).tolist() == values[:3]


def test_labels_that_differ_in_a_nul_at_the_end_are_different():
    model = BayesNetClassifier("naive", "laplace").fit([["p"], ["q"]] * 9, ["u", "u\0"] * 9)
    assert model.classes_.tolist() == ["u", "u\0"]


def test_bytes_that_are_no_text_are_told_of():
    with pytest.raises(DataError, match="'x0' has bytes"):
        fit(np.array([[b"\xff"], [b"a"]]), ["u", "v"])
    with pytest.raises(DataError, match="target has bytes"):
        fit([["a"], ["b"]], np.array([b"\xff", b"v"]))


def test_a_parquet_file_of_more_rows_than_its_groups_have_is_an_error(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE, path)
    raw = path.read_bytes()
    # In the footer a count stands as a zigzag number: 100 is C8 01. The first is that of the file.
    place = raw.rfind(b"PAR1") - 4 - int.from_bytes(raw[-8:-4], "little")
    at = raw.index(b"\x16\xc8\x01", place)
    path.write_bytes(raw[:at] + b"\x16\xca\x01" + raw[at + 3 :])
    with pytest.raises(DataError, match=r"do not add up"):
        fit(str(path))


@pytest.mark.parametrize("line", [b'{"a": "p\xea", "y": "u"}', b'{"a\xea": "p", "y": "u"}'])
def test_json_lines_that_are_not_utf_8_are_an_error(tmp_path, line):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join([line] * 30))
    with pytest.raises(DataError, match=r"t\.jsonl"):
        fit(str(path))


def write_excel(path, rows=(("a", "y"), ("p", "u"), ("q", "v")), replace=(b"<row", b"<row")):
    """Write a sheet, with something in its XML replaced."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    assert replace[0] in parts[sheet]
    parts[sheet] = parts[sheet].replace(*replace)
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    return str(path)


@pytest.mark.parametrize(
    "replace",
    [(b"</sheetData>", b""), (b'<c r="B2"', b'<c r="x"')],
    ids=["cut short", "no such cell"],
)
def test_a_damaged_sheet_is_an_error(tmp_path, replace):
    with pytest.raises(DataError, match=r"t\.xlsx"):
        fit(write_excel(tmp_path / "t.xlsx", replace=replace))


def test_a_cell_at_the_far_corner_does_not_fill_the_memory(tmp_path):
    far = b"".join(b'<row r="%d"><c r="XFD%d"><v>1</v></c></row>' % (r, r) for r in range(4, 900))
    path = write_excel(tmp_path / "t.xlsx", replace=(b"</sheetData>", far + b"</sheetData>"))
    with pytest.raises(DataError, match="far more cells"):
        fit(path)


def test_a_row_at_the_far_end_of_a_sheet_is_no_way_around_it(tmp_path):
    far = b'<row r="1048576"><c r="A1048576"><v>1</v></c></row></sheetData>'
    with pytest.raises(DataError, match="far more cells"):
        fit(write_excel(tmp_path / "t.xlsx", replace=(b"</sheetData>", far)))


def test_rows_beyond_what_a_sheet_says_of_its_size_are_read(tmp_path):
    path = write_excel(
        tmp_path / "t.xlsx",
        (("a", "y"), ("p", "u"), (None, None), ("q", "v"), (None, None)),
        (b'ref="A1:B5"', b'ref="A1"'),
    )
    table = open_source(path)
    assert table.names == ("a", "y")
    assert table.column("y").to_pylist() == ["u", "v"]


def test_short_rows_of_a_sheet_lose_no_column(tmp_path):
    path = write_excel(
        tmp_path / "t.xlsx",
        (("a", "y", "z"), ("p", "u", 1), ("q", "v")),
    )
    assert open_source(path).names == ("a", "y", "z")
    assert open_source(path).column("z").to_pylist() == [1, None]


def test_cells_beyond_the_header_of_a_sheet_are_told_of(tmp_path):
    path = write_excel(
        tmp_path / "t.xlsx",
        (("a", "y"), ("p", "u"), ("q", "v", 5)),
    )
    with pytest.raises(DataError, match="more cells than the header"):
        open_source(path)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_a_file_cut_short_is_an_error(tmp_path, ending, share):
    path = tmp_path / f"t.{ending}"
    if ending == "arrow":
        write_ipc(path)
    else:
        pq.write_table(TABLE, path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DataError):
        fit(str(path))


def test_a_damaged_gzip_is_an_error(tmp_path):
    whole = gzip.compress(b"a,y\np,u\nq,v\n" * 50, mtime=0)
    for at in range(10, len(whole)):
        path = tmp_path / "t.csv.gz"
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with pytest.raises(TanagerError):
            fit(str(path))
        path.write_bytes(whole[:at])
        with pytest.raises(TanagerError):
            fit(str(path))


@pytest.mark.parametrize("weight", [1e300, 1e-300, 1.7e308, 5e-324])
def test_weights_beyond_reason_name_their_row(weight):
    with pytest.raises(DataError, match=r"sample_weight of row 3 .* Allowed: zero, and from"):
        fit([["a"], ["b"]] * 3, [0, 1] * 3, sample_weight=[1.0, 1.0, 1.0, weight, 1.0, 1.0])


@pytest.mark.parametrize("weight", [1.0000001e-50, 1e50])
def test_weights_at_the_bounds_give_probabilities(weight):
    clf = fit([["a"], ["b"]] * 3, [0, 1] * 3, sample_weight=np.full(6, weight))
    assert clf.predict_proba([["a"]]).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", ["x" * 5000, "\0", "a/b", "", "."])
def test_names_that_are_no_files_are_refused(tmp_path, name):
    path = tmp_path / "e.toml"
    path.write_text('classifiers=["naive/laplace"]\n[datasets]\na = ' + ascii([name])[1:-1])
    with pytest.raises(TanagerError):
        Experiment.from_toml(path).run()


def test_the_whole_disk_is_no_table():
    # On Linux, what can't be read is in here; the rest of the disk only takes long to list.
    root = "/proc" if Path("/proc/self").is_dir() else "/"
    with pytest.raises(DataError, match="cannot be read"):
        Dataset("disk", root).fingerprint()
    with pytest.raises(DataError, match="cannot be read"):
        Dataset("disk", root).check()


def test_a_folder_that_changes_while_it_is_listed_is_told_of(tmp_path, monkeypatch):
    def gone(*_):
        raise FileNotFoundError(2, "No such file or directory", "x")

    monkeypatch.setattr("pathlib.Path.rglob", gone)
    with pytest.raises(DataError, match="cannot be read"):
        open_source(str(tmp_path))


@pytest.mark.parametrize(
    "kind", [pa.struct([]), pa.struct([("a", pa.int8())]), pa.list_(pa.int8())]
)
def test_a_nested_target_is_refused(kind):
    value = {} if pa.types.is_struct(kind) else [1]
    with pytest.raises(DataError):
        fit(pa.table({"a": ["p", "q"], "y": pa.array([value, value], kind)}))


def test_a_message_about_a_long_text_among_numbers_stays_short():
    numbers = pa.table({"x": [1.0, 2.0], "y": ["u", "v"]})
    model = BayesNetClassifier("naive", "laplace").fit(numbers, "y")
    with pytest.raises(DataError, match="and text here") as caught:
        model.predict(pa.table({"x": ["a" * 5_000]}))
    assert len(str(caught.value)) < 500


def test_messages_about_many_or_long_names_stay_short():
    table = pa.table({("x" * 5_000) + str(i): ["a"] for i in range(50)})
    with pytest.raises(DataError) as caught:
        fit(table)
    assert "and 30 more" in str(caught.value)
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("value", ["07:32:00", "1979-05-27", "[07:32:00]", "{a = 1979-05-27}"])
def test_a_time_is_no_option_of_a_classifier(tmp_path, value):
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (tmp_path / "e.toml").write_text(
        f'[datasets]\nt = {{path = "t.parquet", target = "y"}}\n'
        f'[classifiers]\nnb = {{use = "naive/laplace", class_weight = {value}}}\n'
    )
    with pytest.raises(ConfigurationError, match="class_weight"):
        Experiment.from_toml(tmp_path / "e.toml")


@pytest.fixture
def _small_blocks(monkeypatch):
    """Let a little be much."""
    from tanager.sources import formats, text

    monkeypatch.setattr(text, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(formats, "MOST_BYTES", 1 << 16)


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("start", [b"a", b'a,"b\n'], ids=["a line", "a quoted name"])
def test_a_packed_header_without_an_end_is_not_read_to_its_end(tmp_path, start, monkeypatch):
    from tanager.sources import text

    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(start + b"a" * (1 << 24), mtime=0))
    read = []

    def counted(*given, real=text._open_text):
        handle = real(*given)
        readline = handle.readline
        monkeypatch.setattr(handle, "readline", lambda n=-1: read.append(readline(n)) or read[-1])
        return handle

    monkeypatch.setattr(text, "_open_text", counted)
    with pytest.raises(DataError, match="header"):
        fit(str(path))
    assert sum(map(len, read)) < 1 << 20


@pytest.mark.usefixtures("_small_blocks")
def test_packed_lines_of_json_that_fill_the_memory_are_refused(tmp_path):
    line = b'{"a": "p", "y": "u"}\n'
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(line * 100_000, mtime=0))
    with pytest.raises(DataError, match="unpacks to far more"):
        fit(str(path))
    (tmp_path / "t.jsonl").write_bytes(line * 5_000)  # what is not packed may be of any size
    assert open_source(str(tmp_path / "t.jsonl")).n_rows == 5_000


@pytest.mark.usefixtures("_small_blocks")
def test_a_sheet_whose_parts_fill_the_memory_is_refused(tmp_path):
    blank = b" " * (1 << 23)
    path = write_excel(tmp_path / "t.xlsx", replace=(b"<sheetData>", b"<sheetData>" + blank))
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    with pytest.raises(DataError, match="unpacks to far more"):
        fit(path)


def test_a_size_that_no_file_so_small_can_unpack_to_is_damage(tmp_path):
    path = tmp_path / "t.arrow"
    path.write_bytes(bytes(5_000))
    with pytest.raises(DataError, match="damaged"), reading(path):
        raise pa.ArrowMemoryError("malloc of size 39204245760 failed")
    with pytest.raises(MemoryError), reading(path):
        raise pa.ArrowMemoryError("malloc of size 39204245 failed")
