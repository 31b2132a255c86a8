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


def test_what_was_tried_before_is_left_out_where_the_last_revision_tried_as_much(tmp_path):
    record = tmp_path / "r.json"
    keep(record, {name: result("old", 10**6) for name in ("same", "kills")})
    keep(record, {"kills": result("newer", 50)})
    for name in _TITLES:
        keep(record, {name: result("last", 10**6 if name == "same" else FULL.get(name, 10))})
    text = page(tmp_path, record)
    assert "All parts ran to their ends, on revision last." in text
    apart = text.split("## Tried on other revisions")[1].split("## ")[0]
    assert "| Kills | 1,000,000 |" in apart
    assert "Same everywhere" not in apart


def test_pythons_stand_in_their_order_with_what_failed(tmp_path):
    record = tmp_path / "r.json"
    told = {"told": "9 passed", "outcomes": {"passed": 9}, "failures": [], "revision": "abc"}
    names = [f"Python 3.{n}, {'lowest' if n == 11 else 'newest'} versions" for n in range(11, 15)]
    pythons = dict.fromkeys(reversed(names), told)
    pythons[names[0]] = {**told, "failures": ["tests.a::test_b"]}
    keep(record, {"floors": {"pythons": pythons}, "disks": result("abc")})
    text = page(tmp_path, record)
    rows = [line for line in text.splitlines() if line.startswith("| Python")]
    assert rows == [f"| {name} | 9 passed | abc |" for name in names]
    assert f"- {names[0]}: tests.a::test_b" in text
