"""The examples of docs/serving.md that need a server, a browser's engine or a compiler."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.docs.pages import blocks, set_stage

import tanager

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
ROW = {"age": 41, "job": "clerk", "size": "M", "day": None}
MOST_LINES = 30


def block(language, mark):
    [code] = [code for known, code, _ in blocks(PAGE) if known == language and mark in code]
    return code


@pytest.fixture
def stage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TANAGER_DATA", "")  # what the stage sets is undone
    set_stage(tmp_path)


def expected():
    return tanager.load("bank.tanager").predict_proba(ROW)[0]


def test_examples_are_short():
    assert all(len(code.splitlines()) < MOST_LINES for _, code, _ in blocks(PAGE))


@pytest.mark.filterwarnings("ignore")
def test_the_api_answers_as_the_classifier_does(stage):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    names = {}
    exec(compile(block("python", "FastAPI()"), str(PAGE), "exec"), names)
    client = TestClient(names["app"])
    answer = client.post("/predict", json=ROW)
    assert answer.status_code == 200
    assert list(answer.json()) == ["no", "yes"]
    assert list(answer.json().values()) == expected().tolist()
    why = client.post("/explain", json=ROW).json()
    assert list(why["probabilities"].values()) == pytest.approx(expected().tolist(), abs=1e-12)
    for wrong in ({"age": 41}, {**ROW, "age": "old"}, {**ROW, "other": 1}):
        refused = client.post("/predict", json=wrong)
        assert refused.status_code == 422
        assert "olumn" in refused.json()["detail"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_node_answers_as_the_classifier_does(stage):
    Path("bank.js").write_text(tanager.load("bank.tanager").network_.to_javascript())
    Path("ask.js").write_text(block("js", "require"))
    said = subprocess.run(["node", "ask.js"], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == pytest.approx(expected().tolist(), abs=1e-12)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_page_shows_what_the_classifier_predicts(stage):
    """Its scripts run in node, with the two elements that they speak of."""
    model = tanager.load("bank.tanager").network_.to_javascript()
    script = block("html", "tanagerModel").split("<script>")[1].split("</script>")[0]
    page = (
        "const parts = {age: {value: '41', addEventListener() {}}, answer: {}};\n"
        "globalThis.document = {getElementById: (id) => parts[id]};\n"
        "const run = (code) => (0, eval)(code);\n"
        f"run({json.dumps(model)});\nrun({json.dumps('{' + script + '}')});\n"
        "console.log(parts.answer.textContent);\n"
    )
    Path("page.mjs").write_text(page)
    said = subprocess.run(["node", "page.mjs"], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == f"{100 * expected()[1]:.1f} %"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_c_answers_as_the_classifier_does(stage):
    Path("bank.h").write_text(tanager.load("bank.tanager").network_.to_c(name="bank"))
    Path("main.c").write_text(block("c", "bank_score"))
    command = ["cc", "-std=c99", "-Wall", "-Werror", "main.c", "-o", "bank", "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    said = subprocess.run(["./bank"], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in said.splitlines()]
    assert [label for label, _ in lines] == ["no", "yes"]
    assert np.allclose([float(p) for _, p in lines], expected(), rtol=0, atol=1e-12)
