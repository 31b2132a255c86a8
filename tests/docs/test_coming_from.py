"""The snippets of other libraries in docs/coming-from.md, run by those libraries."""

from pathlib import Path

import pytest
from tests.docs.pages import blocks, set_stage

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
SNIPPETS = [code for language, code, _ in blocks(PAGE) if language == "py"]


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("code", SNIPPETS, ids=["pgmpy", "pyagrum", "ebm", "lightgbm"])
def test_the_snippet_runs_in_its_own_library(code, tmp_path, monkeypatch):
    for line in code.splitlines():
        if line.startswith(("import ", "from ")):
            pytest.importorskip(line.split()[1].split(".")[0])
    monkeypatch.chdir(tmp_path)
    names = set_stage(tmp_path)
    if "interpret" in code:  # its pictures go to a notebook; here to nowhere
        monkeypatch.setattr("interpret.show", lambda _explanation: None)
    exec(compile(code, PAGE.name, "exec"), names)
