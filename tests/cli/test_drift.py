"""``tanager drift``: what is printed, written and returned."""

import json

import pyarrow as pa
import pyarrow.csv
import pytest
from tests.cli.calling import call
from tests.network.test_drift import changed, churn


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    X, y = churn(3000, 1)
    X = X.append_column("Churn", pa.array(y))
    new = X.slice(1500)
    loud = changed(new, "Contract", [v.upper() for v in new["Contract"].to_pylist()])
    for name, table in (("train", X.slice(0, 1500)), ("new", new), ("loud", loud)):
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
    options = ("-t", "Churn", "-s", "tan", "-p", "hdp", "-o", folder / "m.tanager")
    assert call("fit", folder / "train.csv", *options) == 0
    return folder


def test_quiet_where_nothing_moved(files, capsys):
    assert call("drift", files / "m.tanager", files / "new.csv") == 0
    out = capsys.readouterr().out
    assert "no drift found" in out


def test_what_moved_is_named_with_code_3(files, capsys):
    assert call("drift", files / "m.tanager", files / "loud.csv", "-o", files / "page.html") == 3
    out = capsys.readouterr().out
    assert "Contract" in out
    assert "never seen in training" in out
    page = (files / "page.html").read_text()
    assert "Contract: changed" in page
    assert "<script" not in page
    assert page.count("<svg") == 5


def test_json_has_every_test(files, capsys):
    assert call("drift", files / "m.tanager", files / "loud.csv", "--json", "-t", "Churn") == 3
    out = capsys.readouterr().out
    found = json.loads(out)
    assert found["columns"] == ["Contract"]
    assert found["labelled"] is True
    assert {"values", "unseen", "given class", "calibration"} <= {
        s["kind"] for s in found["shifts"]
    }


def test_models_of_earlier_releases_say_what_is_missing(files, tmp_path, capsys):
    from dataclasses import replace

    from tanager.network import Network

    network = Network.load(files / "m.tanager")
    replace(network, reference=None).save(tmp_path / "old.tanager")
    assert call("drift", tmp_path / "old.tanager", files / "new.csv") == 2
    assert "Fit it again" in capsys.readouterr().err
