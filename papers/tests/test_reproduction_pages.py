"""Pages of results are out of date once their classifiers say something else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tanager.evaluation import Contender
from tanager.evaluation.statistics import WinDrawLoss
from tanager_papers import PAPERS
from tanager_papers.probe import differs, probe
from tanager_papers.verdicts import Comparison, claim_of_records

PAGES = Path(__file__).parents[2] / "docs" / "reproduction"


def gathered(page, what):
    """Return claims or blocks of all parts of a page."""
    return [one for part in page["parts"] for one in part[what]]


@pytest.fixture(scope="module")
def probes():
    """What each classifier says today, asked once."""
    return {}


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_s_classifiers_still_mean_the_same(paper, probes):
    page = json.loads((PAGES / f"{paper}.json").read_text(encoding="utf-8"))
    assert page["made_with"]["classifiers"]
    changed = []
    for facts in page["made_with"]["classifiers"]:
        key = json.dumps([facts["use"], facts["options"]])
        if key not in probes:
            probes[key] = probe(Contender("asked", facts["use"], facts["options"]))
        if differs(facts["probe"], probes[key]):
            changed.append(facts["use"])
    assert not changed, (
        f"docs/reproduction/{paper}.md is out of date: {len(changed)} of its classifiers have "
        f"changed, such as {changed[0]}. Run again: {page['command']} --write docs/reproduction"
    )


@pytest.mark.parametrize("paper", PAPERS)
def test_a_claim_that_does_not_hold_in_full_says_why(paper):
    page = json.loads((PAGES / f"{paper}.json").read_text(encoding="utf-8"))
    for claim in gathered(page, "claims"):
        assert bool(claim["why"]) == (claim["verdict"] not in ("holds", "cannot be tested here"))


def test_the_index_has_every_claim():
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    for paper in PAPERS:
        page = json.loads((PAGES / f"{paper}.json").read_text(encoding="utf-8"))
        assert gathered(page, "claims")
        for claim in gathered(page, "claims"):
            assert claim["text"].replace("|", "&#124;") in index
            assert claim["number"].replace("|", "&#124;") in index


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_of_a_page_is_there(paper):
    page = json.loads((PAGES / f"{paper}.json").read_text(encoding="utf-8"))
    text = (PAGES / f"{paper}.md").read_text(encoding="utf-8")
    names = {picture["name"] for block in gathered(page, "blocks") for picture in block["pictures"]}
    assert names == {path.stem for path in (PAGES / paper).glob("*.svg")}
    for name in names:
        assert f"({paper}/{name}.svg)" in text


RECORD = re.compile(r"(\d+)–(\d+)–(\d+) \(\d+ to \d+ %(?:, paper (\d+) %)?\)")


@pytest.mark.parametrize("paper", PAPERS)
def test_verdicts_follow_from_the_counts_beside_them(paper):
    """A page that was judged by an older rule would say something else."""
    page = json.loads((PAGES / f"{paper}.json").read_text(encoding="utf-8"))
    for claim in gathered(page, "claims"):
        found = RECORD.findall(claim["number"])
        if not found or claim["verdict"] == "cannot be tested here":
            continue
        verdicts = set()
        for rounded in (-5, 0, 5):  # the paper's share is given in whole per cent
            comparisons = []
            for at, (*counts, share) in enumerate(found):
                wins = 10 * int(share or 0) + rounded
                printed = (wins, 0, 1000 - wins) if share else None
                comparisons.append(Comparison(str(at), WinDrawLoss(*map(int, counts)), printed))
            verdicts.add(claim_of_records("", comparisons).verdict)
        assert claim["verdict"] in verdicts, claim["text"]
