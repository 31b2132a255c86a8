"""An S3 server on this machine whose answers can be made to fail: moto's, behind a bad network.

with Store() as store:
    store.put("bucket/table.parquet", data)
    store.faults = Faults(refuse=3, cut=4)
    tanager.open_table("s3://bucket/table.parquet")
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

__all__ = ["Faults", "Store"]


@dataclass(frozen=True)
class Faults:
    """What goes wrong. Numbers are periods: 3 is every third answer to a request for bytes.

    Attributes
    ----------
    refuse : int
        Answered with 503 Slow Down.
    cut : int
        The connection breaks halfway through the bytes.
    delay : float
        Seconds before every answer.
    """

    refuse: int = 0
    cut: int = 0
    delay: float = 0.0


class Store:
    """Runs the server in a thread; points Arrow's S3 client at it through the environment.

    Attributes
    ----------
    n_requests, n_bytes, n_faults : int
        Requests for bytes, bytes that were sent, answers that failed.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log(self, *_: Any, **__: Any) -> None:
                pass

        self.faults = Faults()
        self.n_requests = self.n_bytes = self.n_faults = 0
        self._lock = threading.Lock()
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=Quiet
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self._patch = mock.patch.dict(os.environ, self.environment)

    def __enter__(self) -> Store:
        from tanager.sources.remote import forget_stores

        self._thread.start()
        self._patch.start()
        forget_stores()  # those of another server
        return self

    def __exit__(self, *_: object) -> None:
        from tanager.sources.remote import forget_stores

        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._patch.stop()
        forget_stores()

    def put(self, path: str, data: bytes) -> None:
        """Write an object, in a bucket that is made if it is not there."""
        files = self._files()
        files.create_dir(path.partition("/")[0])
        with files.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    def get(self, path: str) -> bytes:
        """Return an object."""
        with self._files().open_input_stream(path, compression=None) as stream:
            found: bytes = stream.read()
        return found

    def delete(self, path: str) -> None:
        """Remove an object."""
        self._files().delete_file(path)

    def names(self, bucket: str) -> list[str]:
        """Return the objects of a bucket."""
        from pyarrow import fs

        found = self._files().get_file_info(fs.FileSelector(bucket, recursive=True))
        return sorted(entry.path for entry in found if entry.is_file)

    def _files(self) -> Any:
        from pyarrow import fs

        address = self.endpoint.removeprefix("http://")
        keys = {"access_key": "any", "secret_key": "any", "region": "us-east-1"}
        return fs.S3FileSystem(
            endpoint_override=address, scheme="http", allow_bucket_creation=True, **keys
        )

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        faults = self.faults
        if faults.delay:
            time.sleep(faults.delay)
        if environ["REQUEST_METHOD"] != "GET" or environ["PATH_INFO"].count("/") < 2:
            return self._application(environ, start)
        with self._lock:
            self.n_requests += 1
            number = self.n_requests
            refused = bool(faults.refuse) and number % faults.refuse == 0
            cut = bool(faults.cut) and number % faults.cut == 0
            self.n_faults += refused or cut
        if refused:
            start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", "0")])
            return [b""]
        body = b"".join(self._application(environ, start))
        with self._lock:
            self.n_bytes += len(body)
        return _broken(body) if cut else [body]


def _broken(body: bytes) -> Iterator[bytes]:
    yield body[: len(body) // 2]
    raise ConnectionAbortedError("cut on purpose")
