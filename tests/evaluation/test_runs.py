from __future__ import annotations

import json

import pytest

from tanager.errors import DataError
from tanager.evaluation.runs import RunFile


def write(path, n_cells):
    with RunFile(path) as run:
        run.begin({"name": "x"})
        for i in range(n_cells):
            run.append({"cell": f"c{i}", "status": "ok", "text": "é–x"})


def test_a_line_cut_at_any_byte_is_lost_alone(tmp_path):
    path = tmp_path / "run.jsonl"
    write(path, 2)
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        assert [r["cell"] for r in RunFile(path).cells()] == ["c0"]
        with RunFile(path) as run:
            run.append({"cell": "c1", "status": "ok", "text": "é–x"})
        assert path.read_bytes() == whole


def test_a_description_is_written_once(tmp_path):
    path = tmp_path / "run.jsonl"
    write(path, 1)
    write(path, 0)
    assert len(path.read_text().splitlines()) == 2
    with RunFile(path) as run:
        run.begin({"name": "y"})
    assert RunFile(path).description() == {"name": "y"}


def test_a_damaged_line_is_ignored(tmp_path):
    path = tmp_path / "run.jsonl"
    write(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"\x00" * 20 + b"\n"
    path.write_bytes(b"".join(lines))
    assert [r["cell"] for r in RunFile(path).cells()] == ["c0", "c2"]


def test_a_second_writer_is_refused(tmp_path):
    pytest.importorskip("fcntl")
    path = tmp_path / "run.jsonl"
    with RunFile(path), pytest.raises(DataError, match="another run"), RunFile(path):
        pass


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"a": 1}) + "\n")
    with pytest.raises(DataError, match="isn't a run file"):
        RunFile(path).description()


def test_appending_wants_an_open_file(tmp_path):
    with pytest.raises(DataError, match="with block"):
        RunFile(tmp_path / "run.jsonl").append({})
