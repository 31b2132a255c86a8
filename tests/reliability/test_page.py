"""The page of the campaign tells what ran, on what, and what did not run."""

from torture.page import _TITLES, FULL, keep, read_record, write_page


def result(revision, tried=10, **facts):
    return {
        "tried": tried,
        "outcomes": {"kept": tried},
        "failures": [],
        "facts": facts,
        "asked": 10,
        "revision": revision,
        "seed": 1,
        "cpu_seconds": 2.0,
    }


def page(tmp_path, record):
    write_page(read_record(record), tmp_path / "page.md")
    return (tmp_path / "page.md").read_text()


def test_a_whole_campaign_on_one_revision_is_called_whole(tmp_path):
    for name in _TITLES:
        keep(tmp_path / "r.json", {name: result("abc", FULL.get(name, 10))})
    text = page(tmp_path, tmp_path / "r.json")
    assert "All parts ran to their ends, on revision abc." in text
    assert "## Tried on other revisions" not in text


def test_what_did_not_run_or_was_stopped_is_told(tmp_path):
    parts = {name: result("abc", FULL.get(name, 10)) for name in _TITLES if name != "same"}
    parts["disks"] = result("abc", stopped="before its end")
    parts["models"] = result("abc", tried=9)
    keep(tmp_path / "r.json", {**parts})
    first = page(tmp_path, tmp_path / "r.json").split("\n\n")[1]
    assert "Same everywhere (not run)" in first
    assert "Disks and files (stopped before its end)" in first
    assert "Mutated model files (9 of at least 10,000)" in first


def test_parts_of_other_revisions_stand_apart(tmp_path):
    record = tmp_path / "r.json"
    keep(record, {"same": result("old", 500), "kills": result("old", 300)})
    keep(record, {"kills": result("new", 20), "models": result("new", 30)})
    keep(record, {"models": result("newer", 40)})
    table, apart = page(tmp_path, record).split("## Tried on other revisions")
    assert "| Mutated model files | 40 |" in table
    assert "| Kills |" not in table
    assert "| Same everywhere | 500 | 0 | 500 kept | 1 | old |" in apart
    assert "| Kills | 300 |" in apart
    assert "| Mutated model files |" not in apart
