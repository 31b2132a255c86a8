from __future__ import annotations

import gzip
import pickle
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tanager import BayesNetClassifier
from tanager.errors import DataError
from tanager.sources import open_source

TABLE = pa.table(
    {"text": ["a", "b", None, "a"], "number": [1.5, None, 3.0, 4.0], "n": [1, 2, 3, 4]}
)


def rows_of(source, **options):
    return [row for batch in source.batches(**options) for row in batch.to_pylist()]


def write_parquet(table, path):
    pq.write_table(table, path)


def write_ipc_file(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def write_ipc_stream(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def write_csv(table, path):
    lines = [",".join(table.column_names)]
    lines += [
        ",".join("" if v is None else str(v) for v in row.values()) for row in table.to_pylist()
    ]
    path.write_text("\n".join(lines) + "\n")


WRITERS = {
    "t.parquet": write_parquet,
    "t.arrow": write_ipc_file,
    "t.feather": write_ipc_file,
    "t.arrows": write_ipc_stream,
    "t.csv": write_csv,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_streams_the_same_rows_again_and_again(tmp_path, monkeypatch, name):
    path = tmp_path / name
    WRITERS[name](TABLE, path)
    source = open_source(path)
    assert not source.in_memory
    assert source.names == ("text", "number", "n")
    assert source.n_rows == 4
    assert rows_of(source) == TABLE.to_pylist()
    monkeypatch.setattr("tanager.sources.source.BATCH_ROWS", 3)
    assert rows_of(source) == TABLE.to_pylist()
    assert max(batch.num_rows for batch in source.batches()) == 3
    assert rows_of(source, columns=["n", "text"])[1] == {"n": 2, "text": "b"}
    assert rows_of(open_source(str(path)).select(["n"])) == [{"n": n} for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", WRITERS)
def test_folders_globs_and_lists_are_one_table(tmp_path, name):
    suffix = name.partition(".")[2]
    for i in range(3):
        WRITERS[name](TABLE.slice(i, 1), tmp_path / f"part{i}.{suffix}")
    expected = TABLE.slice(0, 3).to_pylist()
    paths = [tmp_path / f"part{i}.{suffix}" for i in range(3)]
    for X in (tmp_path, str(tmp_path / "part*"), paths):
        assert rows_of(open_source(X)) == expected


def test_parquet_strings_come_as_dictionaries(tmp_path):
    write_parquet(TABLE, tmp_path / "t.parquet")
    source = open_source(tmp_path / "t.parquet")
    assert pa.types.is_dictionary(source.schema.field("text").type)


def test_files_may_order_and_size_their_columns_otherwise(tmp_path):
    write_parquet(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}), tmp_path / "1.parquet")
    write_parquet(pa.table({"b": ["y"], "a": pa.array([2**40])}), tmp_path / "2.parquet")
    assert rows_of(open_source(tmp_path)) == [{"a": 1, "b": "x"}, {"a": 2**40, "b": "y"}]
    write_parquet(pa.table({"c": ["y"], "a": [2]}), tmp_path / "3.parquet")
    with pytest.raises(DataError, match=r"differ in the column.* 'b', 'c'"):
        open_source(tmp_path)


def test_csv_with_byte_order_mark_quotes_and_embedded_newlines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffname,"a ""b"""\r\n"x,\n1",1\r\n"say ""hi""",2\r\n'.encode())
    source = open_source(path)
    assert source.names == ("name", 'a "b"')
    assert rows_of(source) == [
        {"name": "x,\n1", 'a "b"': 1},
        {"name": 'say "hi"', 'a "b"': 2},
    ]


def test_csv_types_are_settled_from_all_rows(tmp_path):
    path = tmp_path / "t.csv"
    n = 400_000  # several blocks of the file
    body = "".join(f"{i},{i},true,,{i}\n" for i in range(n))
    path.write_text("a,b,c,d,e\n" + body + "1.5,late,false,7,\n")
    source = open_source(path)
    assert [str(kind) for kind in source.schema.types] == [
        "double",
        "string",
        "bool",
        "int64",
        "int64",
    ]
    assert source.n_rows == n + 1
    *_, last = source.batches()
    assert last.slice(last.num_rows - 1).to_pylist() == [
        {"a": 1.5, "b": "late", "c": False, "d": 7, "e": None}
    ]


def test_csv_spellings(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("flag,odd,spaced,mixed\nTrue,tRUE, 1,1\nfalse,false,2 ,true\n")
    source = open_source(path)
    assert [str(kind) for kind in source.schema.types] == ["bool", "string", "int64", "string"]
    assert rows_of(source)[0] == {"flag": True, "odd": "tRUE", "spaced": 1, "mixed": "1"}


MARKS = pytest.mark.parametrize(
    ("name", "mark"), [("t.csv", ";"), ("t.csv", ","), ("t.csv", "|"), ("t.tsv", "\t")]
)


def test_the_delimiter_is_what_the_header_has_most_of_outside_quotes(tmp_path):
    text = '"a, b, c, d";price, net;size\n1;2;3\n'
    (tmp_path / "t.csv").write_text(text)
    source = open_source(tmp_path / "t.csv")
    assert source.names == ("a, b, c, d", "price, net", "size")


@MARKS
def test_csv_delimiters(tmp_path, name, mark):
    path = tmp_path / name
    path.write_text(f"a{mark}b\n1{mark}x\n")
    assert rows_of(open_source(path)) == [{"a": 1, "b": "x"}]


def test_packed_csv(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,x\nNA,\n"))
    assert rows_of(open_source(path)) == [{"a": 1, "b": "x"}, {"a": None, "b": None}]


def test_ragged_csv_names_file_and_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"x\ny",1\nz,2,3\n')
    with pytest.raises(DataError, match=r"t\.csv: Row #3: Expected 2 columns, got 3: z,2,3"):
        open_source(path)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("t.csv", b"a,b\n", "t.csv has a header but no rows"),
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b"a,a\n1,2\n", "Duplicated column name.*'a'"),
        ("t.csv", b"a,b\n\xff\xfe,1\n", "t.csv is not written in utf-8"),
        ("t.parquet", b"PAR1 but no more", "t.parquet cannot be read.*truncated"),
        ("t.arrow", b"ARROW1 but no more", "t.arrow cannot be read"),
        ("t.ods", b"", "unknown extension '.ods'. Known: .parquet"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, text):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=text):
        rows_of(open_source(path))


def test_truncated_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    write_parquet(TABLE, path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"t.parquet cannot be read.*write it again"):
        open_source(path)


def test_parquet_damaged_inside(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(20_000))}), path, compression="zstd")
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"t.parquet cannot be read"):
        rows_of(open_source(path))


def test_what_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"No such file or folder"):
        open_source(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"No such file or folder: x{299}…"):
        open_source("x" * 5000)
    with pytest.raises(DataError, match=r"No file matches"):
        open_source(str(tmp_path / "*.parquet"))
    with pytest.raises(DataError, match=r"No Parquet, Arrow or CSV file in the folder"):
        open_source(tmp_path)
    write_parquet(TABLE, tmp_path / "t.parquet")
    write_csv(TABLE, tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"several formats"):
        open_source(tmp_path)


def test_partition_folders_are_columns(tmp_path):
    for year, place in ((2020, "a b"), (2021, "c")):
        folder = tmp_path / f"year={year}" / f"place={quote(place)}"
        folder.mkdir(parents=True)
        write_parquet(TABLE.slice(0, year - 2018), folder / "t.parquet")
    source = open_source(tmp_path)
    assert source.names == ("text", "number", "n", "year", "place")
    expected = [
        {**row, "year": year, "place": place}
        for year, place in ((2020, "a b"), (2021, "c"))
        for row in TABLE.slice(0, year - 2018).to_pylist()
    ]
    assert rows_of(source) == expected
    assert rows_of(source, columns=["place"]) == [{"place": row["place"]} for row in expected]
    folder = tmp_path / "month=1"
    folder.mkdir()
    write_parquet(TABLE, folder / "t.parquet")
    with pytest.raises(DataError, match=r"lie in folders that name other columns"):
        open_source(tmp_path)


def test_partition_folders_may_not_repeat_a_column(tmp_path):
    (tmp_path / "n=1").mkdir()
    write_parquet(TABLE, tmp_path / "n=1" / "t.parquet")
    with pytest.raises(DataError, match=r"Duplicated column name\(s\): 'n'"):
        open_source(tmp_path)


@pytest.mark.parametrize("name", WRITERS)
def test_fragments_are_addresses_that_read_themselves_elsewhere(tmp_path, name):
    for i in range(3):
        WRITERS[name](TABLE.slice(0, i + 1), tmp_path / f"{i}{name}")
    fragments = open_source(tmp_path).fragments()
    assert [(f.start, f.n_rows) for f in fragments] == [(0, 1), (1, 2), (3, 3)]
    for i, fragment in enumerate(fragments):
        sent = pickle.dumps(fragment)
        assert len(sent) < 3000
        again = pickle.loads(sent)
        rows = [row for batch in again.batches(["n", "text"]) for row in batch.to_pylist()]
        assert rows == TABLE.slice(0, i + 1).select(["n", "text"]).to_pylist()


def test_row_groups_are_fragments_and_small_ones_go_together(tmp_path):
    n = 200_000
    pq.write_table(pa.table({"n": range(n)}), tmp_path / "t.parquet", row_group_size=30_000)
    fragments = open_source(tmp_path / "t.parquet").fragments()
    assert [(f.start, f.n_rows) for f in fragments] == [
        (0, 90_000),
        (90_000, 90_000),
        (180_000, 20_000),
    ]
    values = [batch.column(0).to_pylist() for f in fragments for batch in f.batches(["n"])]
    assert [v for part in values for v in part] == list(range(n))
    assert max(map(len, values)) <= 65_536


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_changes_or_vanishes_is_refused(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](TABLE, path)
    source = open_source(path)
    WRITERS[name](pa.concat_tables([TABLE] * 3), path)
    with pytest.raises(DataError, match=rf"{name} has changed since it was opened"):
        rows_of(source)
    path.unlink()
    with pytest.raises(DataError, match=rf"{name} has disappeared since it was opened"):
        rows_of(source)


def test_a_damaged_arrow_file_is_an_error_and_no_crash(tmp_path):
    table = pa.table({"a": ["p", "q"] * 50, "y": ["u", "v"] * 50})
    path = tmp_path / "t.arrow"
    write_ipc_file(table, path)
    data = path.read_bytes()
    offsets = np.arange(101, dtype=np.int32)
    place = data.index(offsets.tobytes())
    broken = offsets.copy()
    broken[50] = 2**31 - 1
    path.write_bytes(data[:place] + broken.tobytes() + data[place + 404 :])
    with pytest.raises(DataError, match=r"t\.arrow cannot be read"):
        rows_of(open_source(path))
    with pytest.raises(DataError, match=r"t\.arrow cannot be read"):
        BayesNetClassifier("naive", "laplace").fit(path, "y")


def test_empty_parquet(tmp_path):
    write_parquet(TABLE.slice(0, 0), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"no rows"):
        open_source(tmp_path / "t.parquet")


def test_csv_files_of_one_table_agree_on_text(tmp_path):
    (tmp_path / "1.csv").write_text("code,flag,n\n01,true,1\n02,false,2\n")
    (tmp_path / "2.csv").write_text("code,flag,n\nAB,1,2.5\n02,0,\n")
    source = open_source(tmp_path)
    assert [str(kind) for kind in source.schema.types] == ["string", "string", "double"]
    assert [row["code"] for row in rows_of(source)] == ["01", "02", "AB", "02"]
    assert [row["flag"] for row in rows_of(source)] == ["true", "false", "1", "0"]


def test_csv_columns_may_be_read_as_they_are_written(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("code,n\n01,1\n1.50,2\n,3\n")
    source = open_source(path).as_text(["code"])
    expected = [{"code": "01", "n": 1}, {"code": "1.50", "n": 2}, {"code": None, "n": 3}]
    assert rows_of(source) == expected
    assert rows_of(source.select(["n", "code"]).as_text(["n"])) == [
        {"n": str(row["n"]), "code": row["code"]} for row in expected
    ]


@pytest.mark.parametrize("name", WRITERS)
def test_a_whole_column_of_a_streamed_table(tmp_path, name):
    WRITERS[name](TABLE, tmp_path / name)
    source = open_source(tmp_path / name)
    assert source.column("text").to_pylist() == ["a", "b", None, "a"]
    assert source.as_text(["text"]).column("text").to_pylist() == ["a", "b", None, "a"]


def test_another_encoding_is_named(tmp_path):
    path = tmp_path / "t.csv"
    for text in ("näme,n\nx,1\n", "name,n\n" + "x,1\n" * 100_000 + "ä,2\n"):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(DataError, match=r"t\.csv is not written in utf-8.* Name its encoding"):
            open_source(path)
