"""Google Cloud Storage and Azure, each on a server of its own on this machine.

Google's stand-in is gcp-storage-emulator from PyPI, Azure's is azurite from npm (its program
`azurite-blob` on the path). Where one isn't installed, its tests are skipped.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from urllib.parse import quote, urlencode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tanager import BayesNetClassifier, open_table
from tanager.errors import DataError
from tanager.sources.remote import forget_stores

N = 3_000
ACCOUNT = "devstoreaccount1"  # azurite's, with the key that its documentation prints
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Cloud:
    """A store with one bucket: `files` is Arrow's view of it, `url` an address in it."""

    def __init__(self, files: fs.FileSystem, start: str, options: str) -> None:
        self.files, self._start, self._options = files, start, options

    def url(self, path: str) -> str:
        return f"{self._start}/{path}?{self._options}"

    def put(self, path: str, data: bytes) -> None:
        with self.files.open_output_stream(f"bucket/{path}", compression=None) as stream:
            stream.write(data)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"nothing answers on port {port}")


def _google(port: int) -> Cloud:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/storage/v1/b?project=any",
        json.dumps({"name": "bucket"}).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request).close()
    options = f"scheme=http&endpoint_override=127.0.0.1:{port}&retry_limit_seconds=5"
    files = fs.FileSystem.from_uri(f"gs://anonymous@bucket?{options}")[0]
    return Cloud(files, "gs://anonymous@bucket", options)


def _azure(port: int) -> Cloud:
    here, plain = f"127.0.0.1:{port}", "http"
    files = fs.AzureFileSystem(
        ACCOUNT,
        account_key=KEY,
        blob_storage_authority=here,
        dfs_storage_authority=here,
        blob_storage_scheme=plain,
        dfs_storage_scheme=plain,
    )
    files.create_dir("bucket")
    return Cloud(files, f"abfs://{ACCOUNT}@{here}/bucket", f"enable_tls=false&{_signature()}")


def _signature() -> str:
    """Return a shared access signature: all rights to all blobs of the account."""
    rights, until, version = "rwdlacup", "2099-01-01T00:00:00Z", "2018-11-09"
    signed = "\n".join([ACCOUNT, rights, "b", "sco", "", until, "", "", version, ""])
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    facts = {"sv": version, "ss": "b", "srt": "sco", "sp": rights, "se": until}
    return urlencode({**facts, "sig": base64.b64encode(digest).decode()}, quote_via=quote)


@pytest.fixture(scope="module", params=["gs", "abfs"])
def cloud(request, tmp_path_factory):
    port = _free_port()
    if request.param == "gs":
        pytest.importorskip("gcp_storage_emulator")
        program = "from gcp_storage_emulator.__main__ import main; main()"
        options = ["start", "--host=127.0.0.1", f"--port={port}", "--in-memory"]
        command, connect = [sys.executable, "-W", "ignore", "-c", program, *options], _google
    else:
        found = shutil.which("azurite-blob")
        if found is None:
            pytest.skip("azurite isn't installed: npm install --global azurite")
        command = [found, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
        command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
        connect = _azure
    place = tmp_path_factory.mktemp("server")
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=place, stdout=quiet, stderr=quiet) as server:
        try:
            _wait_for(port)
            forget_stores()
            running = connect(port)
            running.put("table.parquet", _parquet(_table()))
            yield running
        finally:
            server.terminate()
            forget_stores()


def _table(seed: int = 0, n: int = N) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    word = rng.choice(["a", "b", "c"], n)
    return pa.table({"x": x, "word": word, "y": (x + (word == "a") > rng.normal(size=n)) * 1})


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1_000)
    return sink.getvalue()


def _fit(table, **options):
    return BayesNetClassifier("tan", "laplace", **options).fit(table, "y")


def test_a_fit_from_a_cloud_is_the_fit_from_a_file(cloud, tmp_path):
    (tmp_path / "table.parquet").write_bytes(_parquet(_table()))
    local = _fit(str(tmp_path / "table.parquet"))
    rows = _table(9, 200).drop_columns(["y"])
    table = open_table(cloud.url("table.parquet"))
    for options in ({}, {"n_jobs": 2}, {"memory_limit": 0}):
        fitted = _fit(table, **options)
        assert (fitted.predict_proba(rows) == local.predict_proba(rows)).all()
    assert table.bytes_read > 0


def test_an_object_that_changes_is_noticed(cloud):
    cloud.put("changing.csv", b"x,y\n" + b"1,0\n" * 500)
    table = open_table(cloud.url("changing.csv"))
    assert table.n_rows == 500
    cloud.put("changing.csv", b"x,y\n" + b"2,1\n" * 500)
    with pytest.raises(DataError, match=r"changing\.csv has changed since it was opened"):
        list(table.batches())


def test_folders_patterns_and_what_is_not_there(cloud):
    for year in (2023, 2024):
        cloud.put(f"parts/year={year}/a.parquet", _parquet(_table(year, 100)))
    whole = open_table(cloud.url("parts"))
    assert whole.names == ("x", "word", "y", "year")
    assert whole.n_rows == 200
    assert open_table(cloud.url("parts/*/a.parquet")).n_rows == 200
    with pytest.raises(DataError, match="No file matches"):
        open_table(cloud.url("parts/*.parquet"))
    with pytest.raises(DataError, match="No such file or folder") as refused:
        open_table(cloud.url("absent.parquet"))
    assert "sig=" not in str(refused.value), "a signature is a credential"


def test_the_program_reads_and_writes_urls(cloud, tmp_path):
    def run(*arguments: str) -> str:
        command = [sys.executable, "-W", "ignore", "-m", "tanager", *arguments]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said = done.stdout + done.stderr
        assert "sig=" not in said, "a signature is a credential"
        return said

    model, rows = str(tmp_path / "m.tanager"), cloud.url("table.parquet")
    run("fit", rows, "-t", "y", "-o", model, "-s", "tan", "-p", "laplace")
    assert b"sig=" not in (tmp_path / "m.tanager").read_bytes()
    run("audit", rows)
    run("score", model, rows)
    scored = cloud.url("out/scored.parquet")
    run("predict", model, rows, "-o", scored)
    run("report", model, rows, "-t", "y", "-o", str(tmp_path / "m.html"))
    assert "sig=" not in (tmp_path / "m.html").read_text(encoding="utf-8")
    run("predict", model, rows, "-o", scored, "--force")
    found = open_table(scored)
    assert found.names == ("prediction", "p_0", "p_1")
    assert found.n_rows == N
