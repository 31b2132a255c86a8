"""Model files of every release load for ever, and answer as that release did."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tanager
from tanager.network.files import VERSIONS, read_model

FOLDER = Path(__file__).parent / "released"
FILES = sorted(FOLDER.glob("*/*.tanager"))
TYPES = {"when": pa.timestamp("us"), "clock": pa.time64("us"), "span": pa.duration("us")}


def as_cell(name, value):
    """Undo what JSON did to instants and durations."""
    kinds = {"when": datetime.datetime, "clock": datetime.time}
    if name == "span":
        return datetime.timedelta(seconds=value)
    return kinds[name].fromisoformat(value) if name in kinds else value


def read_rows(facts, model):
    rows = [{k: as_cell(k, v) for k, v in row.items()} for row in facts["rows"]]
    if not model.network_.codebook.named:
        return [list(row.values()) for row in rows]
    arrays = {k: pa.array([row[k] for row in rows], TYPES.get(k)) for k in rows[0]}
    return pa.table(arrays)


@pytest.mark.parametrize("path", FILES, ids=[f"{p.parent.name}-{p.stem}" for p in FILES])
def test_a_released_model_answers_as_it_did(path, tmp_path):
    model = tanager.load(path)
    facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert model.classes_.tolist() == facts["classes"]
    assert str(model.classes_.dtype) == facts["dtype"]
    rows, expected = read_rows(facts, model), np.array(facts["log_joint"])
    np.testing.assert_allclose(model.predict_joint_log_proba(rows), expected, rtol=1e-12)
    tanager.save(model, tmp_path / "again")
    again = tanager.load(tmp_path / "again").predict_joint_log_proba(rows)
    assert np.array_equal(again, model.predict_joint_log_proba(rows))


def test_the_folder_has_every_version_and_kind_of_table():
    headers = [path.read_bytes() for path in FILES]
    for version in VERSIONS[:2]:  # the last is of headers past 100 MB
        assert any(f'"version":"{version}"'.encode() in data for data in headers)
    families = [f for path in FILES for f in read_model(path)[1]["tables"]["families"]]
    assert {family["kind"] for family in families} == {"dense", "grouped", "tree"}
