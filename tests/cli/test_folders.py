"""``tanager predict`` from a folder of files to a folder of files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.test_processes import make_table

from tanager.cli.app import run


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A partitioned table, and a model of it."""
    folder = tmp_path_factory.mktemp("folders")
    for part in range(4):
        file = folder / "rows" / f"year={2020 + part % 2}" / f"{part}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(make_table().slice(60 * part, 60), file, row_group_size=25)
    learners = ("-s", "tan", "-p", "laplace", "--drop", "w")
    assert call("fit", folder / "rows", "-t", "y", *learners, "-o", folder / "m.tanager") == 0
    return folder


def call(*arguments):
    return run([str(argument) for argument in arguments])


def test_every_file_has_its_predictions_under_its_name(place, tmp_path):
    options = ("--keep", "b", "--ignore-extra")
    model, rows = place / "m.tanager", place / "rows"
    assert call("predict", model, rows, *options, "-o", tmp_path / "one.parquet") == 0
    assert call("predict", model, rows, *options, "-o", tmp_path / "out") == 0
    files = sorted((tmp_path / "out").rglob("*.parquet"))
    names = [str(file.relative_to(tmp_path / "out")) for file in files]
    assert names == [f"year={2020 + p % 2}/{p}.parquet" for p in (0, 2, 1, 3)]
    parts = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    assert parts.equals(pq.read_table(tmp_path / "one.parquet"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.parquet", "out"]


def test_a_folder_with_something_in_it_is_refused(place, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("kept")
    model, rows = place / "m.tanager", place / "rows"
    assert call("predict", model, rows, "--ignore-extra", "-o", tmp_path / "out") != 0
    assert "isn't an empty folder" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_damaged_file_leaves_no_half_of_a_folder(tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    for part in range(2):
        pq.write_table(make_table(), rows / f"{part}.parquet", compression="none")
    damaged = bytearray((rows / "1.parquet").read_bytes())
    damaged[4:2000] = b"\xff" * 1996
    (rows / "1.parquet").write_bytes(damaged)
    flat = tmp_path / "flat.tanager"
    learners = ("-s", "naive", "-p", "laplace", "--drop", "w")
    assert call("fit", rows / "0.parquet", "-t", "y", *learners, "-o", flat) == 0
    assert call("predict", flat, rows, "--ignore-extra", "-o", tmp_path / "out") != 0
    assert not (tmp_path / "out").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_files_keep_their_names_where_columns_are_read_in_their_own_way(tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    for part in ("first", "second"):
        dates = [f"{day:02}/03/2024" for day in range(1, 29)]
        table = pa.table({"when": dates, "a": ["?", "x"] * 14, "y": ["no", "yes"] * 14})
        pq.write_table(table, rows / f"{part}.parquet")
    learners = ("-s", "naive", "-p", "laplace", "--dates", "when=%d/%m/%Y")
    model = tmp_path / "m.tanager"
    assert call("fit", rows, "-t", "y", *learners, "-o", model) == 0
    assert call("predict", model, rows, "--na-values", "?", "-o", tmp_path / "out") == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"first.parquet", "second.parquet"}


def test_two_files_of_one_name_are_refused_before_the_work(place, tmp_path, capsys):
    import pyarrow.csv as pacsv

    rows = tmp_path / "rows" / "year=2020"
    rows.mkdir(parents=True)
    for ending in ("csv", "tsv"):
        pacsv.write_csv(make_table(), rows / f"a.{ending}")
    model = place / "m.tanager"
    assert call("predict", model, rows.parent, "--ignore-extra", "-o", tmp_path / "out") == 2
    assert "'a'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
