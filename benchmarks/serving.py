"""Serving one row at a time: start-up, latency, and requests per second.

The server is the FastAPI example of docs/serving.md on loopback, beside LightGBM in onnxruntime
doing the same. Needs fastapi, uvicorn, lightgbm, onnxmltools and psutil.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from tests.docs.pages import blocks

import tanager
from benchmarks.measuring import cpu_seconds, in_new_process, markdown, publish
from tanager import BayesNetClassifier
from tanager.network import explain_row

ROOT = Path(__file__).resolve().parent.parent
REQUESTS = int(os.environ.get("REQUESTS", 4_000))
CONNECTIONS = 8
ROUNDS = 4  # of which the best counts
NUMBERS = ("age", "income", "x1", "x2", "x5")
TEXTS = {"job": 4, "city": 30, "x3": 2, "x4": 5}

LIGHTGBM_APP = """
import json
import numpy as np
import onnxruntime
from fastapi import FastAPI

facts = json.load(open("facts.json"))
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession("lightgbm.onnx", options)
app = FastAPI()

@app.post("/predict")
async def predict(row: dict[str, float | str | bool | None]) -> dict[str, float]:
    cells = [
        facts["codes"][name].get(row[name], -1) if name in facts["codes"] else row[name]
        for name in facts["columns"]
    ]
    found = session.run(["probabilities"], {"input": np.array([cells], np.float32)})[0][0]
    return dict(zip(facts["classes"], found.tolist(), strict=True))
"""


def make_table(n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    table = {name: rng.normal(50, 20, n_rows).round(2) for name in NUMBERS}
    for name, n in TEXTS.items():
        table[name] = rng.choice([f"{name}{i}" for i in range(n)], n_rows)
    table["own"] = rng.choice([True, False], n_rows)
    frame = pd.DataFrame(table)
    odds = frame["age"] + frame["income"] + 10 * (frame["job"] == "job0") - 100
    return frame, np.where(odds + rng.normal(0, 10, n_rows) > 0, "yes", "no")


def write_lightgbm(folder: Path, frame: pd.DataFrame, y: np.ndarray) -> None:
    import lightgbm
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    codes = {name: {v: i for i, v in enumerate(sorted(set(frame[name])))} for name in TEXTS}
    numbers = frame.assign(**{name: frame[name].map(codes[name]) for name in TEXTS}).astype(float)
    model = lightgbm.LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1).fit(
        numbers.to_numpy(), (y == "yes").astype(int)
    )
    shape = [("input", FloatTensorType([None, frame.shape[1]]))]
    graph = onnxmltools.convert_lightgbm(model, initial_types=shape, zipmap=False)
    (folder / "lightgbm.onnx").write_bytes(graph.SerializeToString())
    facts = {"codes": codes, "columns": list(frame.columns), "classes": ["no", "yes"]}
    (folder / "facts.json").write_text(json.dumps(facts))
    (folder / "lightgbm_app.py").write_text(LIGHTGBM_APP)


def write_tanager(folder: Path, clf: BayesNetClassifier) -> None:
    tanager.save(clf, folder / "bank.tanager")
    page = ROOT / "docs" / "serving.md"
    [code] = [code for language, code, _ in blocks(page) if "FastAPI()" in code]
    (folder / "tanager_app.py").write_text(code)


async def ask(port: int, bodies: list[bytes]) -> None:
    """Send requests over one connection, each when the one before is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for body in bodies:
        head = (
            "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
    writer.close()


async def ask_all(port: int, bodies: list[bytes]) -> None:
    await asyncio.gather(*(ask(port, bodies[at::CONNECTIONS]) for at in range(CONNECTIONS)))


def measure_server(folder: Path, app: str, port: int, bodies: list[bytes]) -> dict[str, float]:
    """Return requests per second, and the server's CPU time per request."""
    command = [sys.executable, "-m", "uvicorn", f"{app}:app", "--port", str(port)]
    command += ["--log-level", "warning", "--no-access-log"]
    with subprocess.Popen(command, cwd=folder) as server:
        try:
            for _ in range(200):
                try:
                    asyncio.run(ask_all(port, bodies[:CONNECTIONS]))
                    break
                except ConnectionRefusedError:
                    time.sleep(0.1)
            process = psutil.Process(server.pid)
            rounds = []
            for _ in range(ROUNDS):
                before, start = sum(process.cpu_times()[:2]), time.perf_counter()
                asyncio.run(ask_all(port, bodies))
                seconds = time.perf_counter() - start
                rounds.append((seconds, sum(process.cpu_times()[:2]) - before))
        finally:
            server.terminate()
    seconds, used = (min(numbers) for numbers in zip(*rounds, strict=True))
    return {"per_second": len(bodies) / seconds, "cpu": used / len(bodies)}


def measure_start(path: Path, row: dict[str, Any]) -> dict[str, float]:
    imported = in_new_process(
        "import json, time\nfrom tanager import BayesNetClassifier\n"
        "print(json.dumps({'cpu': time.process_time()}))"
    )
    answered = in_new_process(
        "import json, time, tanager\n"
        f"clf = tanager.load({str(path)!r})\nbefore = time.process_time()\n"
        f"clf.predict_proba({row!r})\nfirst = time.process_time() - before\n"
        "print(json.dumps({'cpu': time.process_time(), 'first': first}))"
    )
    helped = in_new_process(
        "import json, time, io, contextlib\nfrom tanager.cli.app import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    run(['--help'])\n"
        "print(json.dumps({'cpu': time.process_time()}))"
    )
    return {
        "import": imported["cpu"],
        "answer": answered["cpu"],
        "first": answered["first"],
        "help": helped["cpu"],
    }


def measure_rows(clf: BayesNetClassifier, frame: pd.DataFrame) -> list[tuple[str, float]]:
    row = frame.iloc[5].to_dict()
    one, values = frame.iloc[[5]], [list(row.values())]
    calls = {
        "`predict_proba` of a dict": lambda: clf.predict_proba(row),
        "`predict_proba` of a list": lambda: clf.predict_proba(values),
        "`predict_proba` of a pandas DataFrame": lambda: clf.predict_proba(one),
        "`explain_row` of a dict": lambda: explain_row(clf, row),
    }
    n = 500
    return [
        (name, cpu_seconds(lambda call=call: [call() for _ in range(n)], 5) / n)
        for name, call in calls.items()
    ]


def main() -> None:
    frame, y = make_table(5_000)
    clf = BayesNetClassifier().fit(frame, y)
    as_text = frame.assign(
        charges=[f"{x:.2f}" for x in np.random.default_rng(1).normal(100, 30, len(frame))],
        since=pd.date_range("2010-01-01", periods=len(frame)).strftime("%Y-%m-%d").tolist(),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tanager(folder, clf)
        write_lightgbm(folder, frame, y)
        rows = frame.sample(REQUESTS, replace=True, random_state=0).to_dict("records")
        bodies = [json.dumps(row).encode() for row in rows]
        start = measure_start(folder / "bank.tanager", rows[0])
        servers = {
            title: measure_server(folder, app, port, bodies)
            for title, app, port in (
                ("Tanager, the default model", "tanager_app", 8_431),
                ("LightGBM, 100 trees, in onnxruntime", "lightgbm_app", 8_432),
            )
        }
    read = BayesNetClassifier("auto", "layered").fit(as_text, y)
    parts = [
        "Start-up, CPU time of a new process:\n",
        markdown(
            ["", "seconds"],
            [
                ["`from tanager import BayesNetClassifier`", f"{start['import']:.2f}"],
                ["load a model file and answer one row", f"{start['answer']:.2f}"],
                ["of which the first `predict_proba`", f"{start['first']:.4f}"],
                ["`tanager --help`", f"{start['help']:.2f}"],
            ],
        ),
        "\nOne row, CPU time; the second column with a number and a date kept as text besides:\n",
        markdown(
            ["", "µs", "µs, with text"],
            [
                [title, f"{1e6 * plain:.0f}", f"{1e6 * text:.0f}"]
                for (title, plain), (_, text) in zip(
                    measure_rows(clf, frame), measure_rows(read, as_text), strict=True
                )
            ],
        ),
        f"\nFastAPI on loopback, one worker, {CONNECTIONS} connections, {REQUESTS:,} requests of "
        f"one row, the best of {ROUNDS} rounds. The load average was {os.getloadavg()[0]:.1f}: "
        "where it is above one, compare CPU time.\n",
        markdown(
            ["", "requests per second", "server's CPU time per request, µs"],
            [
                [title, f"{found['per_second']:,.0f}", f"{1e6 * found['cpu']:.0f}"]
                for title, found in servers.items()
            ],
        ),
    ]
    publish("serving", "Serving one row at a time", "\n".join(parts))


if __name__ == "__main__":
    main()
