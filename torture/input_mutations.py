"""Tables in files, damaged: bytes, numbers in headers, cells of text."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import struct
import zipfile
import zlib
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from torture.model_mutations import damage

__all__ = ["bombs", "mutate", "seeds", "write_excel"]

N_ROWS = 100
_INTEGERS = (2**31 - 1, -1, 2**31, 2**16, 1, 0, 255, 2**24)
_CELLS = (
    *("", "NA", "nan", "inf", "-inf", "1e999", "-1e-320", "9223372036854775808", "0x1F", "1_000"),
    *("true", "2024-01-01", "\x00", "\ufeff", "=cmd()", '"', '""', '"a', "'", ",", ";", "\t"),
    *("a" * 5_000, "é", "\u202e", "\x1b[31m", " 1 ", "1,5", "-0", "+1", "1.", ".", "NULL", "p"),
)


def table() -> pa.Table:
    """Return a small table with columns of every kind that files have."""
    rows = range(N_ROWS)
    return pa.table(
        {
            "a": ["p", "q"] * (N_ROWS // 2),
            "b": [None if i % 7 == 0 else i / 3 for i in rows],
            "c": pa.array([f"w{i % 5}" for i in rows]).dictionary_encode(),
            "d": [i % 3 == 0 for i in rows],
            "e": pa.array([i * 86_400 for i in rows], pa.timestamp("s")),
            "f": pa.array([f"t{i % 4}" for i in rows], pa.large_string()),
            "g": pa.array([i % 11 for i in rows], pa.int8()),
            "y": ["u", "v"] * (N_ROWS // 2),
        }
    )


def seeds() -> list[tuple[str, bytes]]:
    """Return whole files of every format, by ending."""
    whole = table()
    text = _bytes(lambda sink: pacsv.write_csv(whole, sink))
    found = [
        (".csv", text),
        (".csv", b"\xef\xbb\xbf" + text.replace(b",", b";")),
        (".csv.gz", gzip.compress(text, mtime=0)),
        (".parquet", _bytes(lambda sink: pq.write_table(whole, sink))),
        (".parquet", _bytes(lambda s: pq.write_table(
            whole, s, compression="none", row_group_size=9))),
        (".parquet", _bytes(lambda s: pq.write_table(
            whole, s, compression="zstd", data_page_version="2.0", write_page_checksum=True))),
    ]  # fmt: skip
    for compression in (None, "lz4", "zstd"):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        for make, ending in ((pa.ipc.new_file, ".arrow"), (pa.ipc.new_stream, ".arrows")):
            found.append((ending, _bytes(lambda s, m=make, o=options: _write_ipc(whole, s, m, o))))
    rows = whole.set_column(4, "e", whole["e"].cast(pa.string())).to_pylist()
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    found += [(".jsonl", lines), (".jsonl.gz", gzip.compress(lines, mtime=0))]
    if find_spec("openpyxl") is not None:
        found.append((".xlsx", _bytes(lambda sink: write_excel(whole, sink))))
    return found


def write_excel(whole: pa.Table, sink: Any) -> None:
    """Write a table as the first sheet of an Excel file."""
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(whole.column_names)
    for row in whole.to_pylist():
        book.active.append(list(row.values()))
    book.save(sink)


def bombs() -> list[tuple[str, bytes]]:
    """Return small files, by ending, that unpack to 700 MB and to more in memory."""
    block = b"a" * (1 << 20)
    many = gzip.compress(block, mtime=0) * 700  # parts of a packed file one after the other
    head, row = (gzip.compress(text, mtime=0) for text in (b'a,"b\n', b"a,y\np,u\nq,v\n"))
    lines = gzip.compress(b'{"a": "p", "y": "u"}\n' * 50_000, mtime=0)
    found = [
        (".csv.gz", many),
        (".csv.gz", head + many),
        (".csv.gz", row + many),
        (".jsonl.gz", many),
        (".jsonl.gz", lines * 700),
    ]
    if find_spec("openpyxl") is not None:
        whole = io.BytesIO(_bytes(lambda sink: write_excel(table(), sink)))
        with zipfile.ZipFile(whole) as packed:
            parts = {name: packed.read(name) for name in packed.namelist()}
        for name in ("xl/styles.xml", "xl/worksheets/sheet1.xml"):
            start, end = parts[name][:-20], parts[name][-20:]
            changed = {**parts, name: start + b" " * 700 * (1 << 20) + end}
            found.append((".xlsx", _packed(changed)))
    return found


def _packed(parts: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    return sink.getvalue()


def _bytes(write: Any) -> bytes:
    sink = io.BytesIO()
    write(sink)
    return sink.getvalue()


def _write_ipc(whole: pa.Table, sink: Any, make: Any, options: Any) -> None:
    with make(sink, whole.schema, options=options) as writer:
        writer.write_table(whole, max_chunksize=40)


def mutate(seed: Any, rng: random.Random) -> bytes:
    """Change cells, whole numbers inside binary headers and buffers, or any bytes."""
    kind = rng.random()
    if seed.ending == ".csv" and kind < 0.6:
        return _change_cells(seed.data, rng)
    if seed.ending == ".csv.gz" and kind < 0.5:
        return _inside(seed.data, rng, _change_cells)
    if seed.ending == ".jsonl" and kind < 0.7:
        return _change_lines(seed.data, rng)
    if seed.ending == ".jsonl.gz" and kind < 0.5:
        return _inside(seed.data, rng, _change_lines)
    if seed.ending == ".xlsx" and kind < 0.9:
        return _change_sheet(seed.data, rng)
    if kind < 0.6:
        return _change_integers(seed.data, rng)
    return damage(seed.data, rng)


def _inside(data: bytes, rng: random.Random, change: Any) -> bytes:
    """Change what a gzipped file holds, where it can still be opened."""
    try:
        return gzip.compress(change(gzip.decompress(data), rng), mtime=0)
    except (OSError, EOFError, zlib.error):
        return damage(data, rng)


_JSON = (
    *(b"null", b"{}", b"[]", b"[1]", b'{"a": 1}', b"1e999", b"-0", b"9" * 400, b"true", b'"x"'),
    *(b"NaN", b"Infinity", b'"\\ud800"', b'"\\u0000"', b"[" * 3000, b'{"a":' * 3000, b"", b"1 2"),
)


def _change_lines(data: bytes, rng: random.Random) -> bytes:
    """Change values, keys and lines of JSON."""
    lines = data.split(b"\n")
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(lines))
        pairs = list(re.finditer(rb'("[^"]*"): ("[^"]*"|[^,}]+)', lines[at]))
        kind = rng.randrange(4)
        if kind == 0 or not pairs:
            lines[at] = rng.choice([b"", b"{}", b"[]", b"{", b"1", *lines[:2]])
            continue
        found = rng.choice(pairs)
        new = rng.choice(_JSON) if kind < 3 else found[2] + b', "y": 1'
        lines[at] = lines[at][: found.start(2)] + new + lines[at][found.end(2) :]
    return b"\n".join(lines)


_SHEET = (
    (rb'r="[A-Z]+\d+"', (b'r="XFD1048576"', b'r="A1048576"', b'r="ZZZZ9"', b'r="A0"', b"")),
    (rb'<row r="\d+"', (b'<row r="1048576"', b'<row r="-1"', b'<row r="x"', b"<row")),
    (rb'ref="[^"]*"', (b'ref="A1:XFD1048576"', b'ref="x"', b'ref=""')),
    (rb' t="[a-z]+"', (b' t="s"', b' t="b"', b' t="d"', b' t="e"', b' t="inlineStr"', b"")),
    (rb"<v>[^<]*</v>", (b"<v>1e999</v>", b"<v>-1</v>", b"<v>99999999</v>", b"<v>x</v>", b"<v/>")),
    (rb's="\d+"', (b's="9999"', b's="-1"', b"")),
    (rb"<sheet [^>]*>", (b"", b'<sheet name="x" sheetId="1"/>')),
    (rb"\?>", (b'?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + b"".join(
        b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)) + b"]>",)),
)  # fmt: skip


def _change_sheet(data: bytes, rng: random.Random) -> bytes:
    """Change the parts of an Excel file, and pack them again."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            parts = {name: packed.read(name) for name in packed.namelist()}
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, ValueError, NotImplementedError):
        return damage(data, rng)
    for _ in range(rng.choice([1, 1, 2, 4])):
        name = rng.choice([n for n in parts if "sheet" in n] * 3 + list(parts) or [""])
        kind = rng.random()
        if kind < 0.1:
            parts.pop(name, None)
        elif kind < 0.25 and name in parts:
            parts[name] = damage(parts[name], rng)
        elif name in parts:
            pattern, others = rng.choice(_SHEET)
            places = list(re.finditer(pattern, parts[name]))
            if places:
                found = rng.choice(places)
                text = parts[name]
                parts[name] = text[: found.start()] + rng.choice(others) + text[found.end() :]
        if not parts:
            break
    return _packed(parts)


def _change_integers(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if len(changed) < 16:
            break
        at = rng.randrange(len(changed) // 4 - 1) * 4
        value = rng.choice(_INTEGERS) & 0xFFFFFFFF
        changed[at : at + 4] = struct.pack("<I", value)
    return bytes(changed)


def _change_cells(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(lines))
        kind = rng.randrange(7)
        cells = lines[at].split(b",")
        place = rng.randrange(len(cells))
        if kind <= 2:
            cells[place] = rng.choice(_CELLS).encode()
            lines[at] = b",".join(cells)
        elif kind == 3:
            del cells[place]
            lines[at] = b",".join(cells)
        elif kind == 4:
            lines.insert(at, rng.choice(lines))
        elif kind == 5:
            lines[at] += rng.choice([b"\r", b"\x00", b"\xff\xfe", b'"', b"\\", b"\r\r"])
        else:
            del lines[at : at + rng.choice([1, 1, 60])]
        if not lines:
            break
    return b"\n".join(lines)
