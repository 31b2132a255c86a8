"""Where ``tanager fit`` runs: memory, checkpoints, clusters."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.engines.test_processes import make_table

from tanager.cli.app import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, and the model of a plain fit."""
    place = tmp_path_factory.mktemp("engines")
    pq.write_table(make_table(), place / "t.parquet")
    assert fit(place, place / "plain.tanager") == 0
    return place


def fit(folder, model, *options):
    learners = ("-s", "tan", "-p", "hdp")
    arguments = ("fit", folder / "t.parquet", "-t", "y", *learners, *options, "-o", model)
    return run([str(argument) for argument in arguments])


def test_memory_limit_and_checkpoint_change_no_byte(folder, tmp_path):
    state = tmp_path / "state"
    options = ("--memory-limit", "0", "--checkpoint", state)
    assert fit(folder, tmp_path / "m.tanager", *options) == 0
    assert (tmp_path / "m.tanager").read_bytes() == (folder / "plain.tanager").read_bytes()
    assert list(state.iterdir()) == []


def test_a_cluster_gives_the_same_file(dask_client, folder, tmp_path):
    address = dask_client.scheduler.address
    assert fit(folder, tmp_path / "m.tanager", "--scheduler", address) == 0
    assert (tmp_path / "m.tanager").read_bytes() == (folder / "plain.tanager").read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--memory-limit", "lots"), "--memory-limit 'lots'"),
    ],
)
def test_wrong_options_are_named(folder, tmp_path, capsys, options, said):
    assert fit(folder, tmp_path / "m.tanager", *options) != 0
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
