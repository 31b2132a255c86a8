"""Tables in files, damaged: bytes, numbers in headers, cells of text."""

from __future__ import annotations

import gzip
import io
import random
import struct
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from torture.model_mutations import damage

__all__ = ["mutate", "seeds"]

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
    return found


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
        try:
            return gzip.compress(_change_cells(gzip.decompress(seed.data), rng), mtime=0)
        except (OSError, EOFError, zlib.error):
            return damage(seed.data, rng)
    if kind < 0.6:
        return _change_integers(seed.data, rng)
    return damage(seed.data, rng)


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
