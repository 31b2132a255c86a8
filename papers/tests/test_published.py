"""A page is judged again from its own fits, and one of its parts replaced."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tanager.errors import ConfigurationError
from tanager.evaluation import Contender, Dataset
from tanager.evaluation.protocol import CrossValidation
from tanager_papers import Findings, Workbench, reproduce_paper, write_findings
from tanager_papers.cells import join_cells
from tanager_papers.findings import Block, Claim, Part, Picture
from tanager_papers.published import Published, join_page


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60)
    flip = rng.random((3, 60)) < 0.3
    columns = {f"x{i}": np.where(flip[i], 1 - y, y).astype(str) for i in range(3)}
    return Dataset("coins", pa.table({**columns, "class": y.astype(str)}))


CONTENDERS = [Contender("NB", "naive/laplace"), Contender("TAN", "tan/laplace")]


def run(bench, table, contenders=CONTENDERS, **options):
    how = {"protocol": CrossValidation(1, 2), "metrics": ["log_loss"], **options}
    return bench.run("coins", [table], contenders, **how).results


def publish(bench, folder, name="tables"):
    """Write a page of all that a bench has run."""
    part = Part(name, "Run.", [Claim("It is so", "holds", "1–0–0")], [Block(f"Of {name}")])
    made_with = {"tanager": "0", "classifiers": list(bench.made_with.values())}
    cells = join_cells([(name, bench.gathered)])
    findings = Findings("some-2020", "Some.", "", [part], made_with, cells, bench.used)
    write_findings(findings, folder)
    return findings


def test_fits_of_unchanged_classifiers_come_from_the_page(tmp_path, table):
    first = Workbench(None, tmp_path / "first")
    expected = run(first, table).mean("log_loss").values
    first.kept("numbers", "pi", lambda: 3.14)
    publish(first, tmp_path)
    page = Published.read(tmp_path, "some-2020")
    again = Workbench(None, tmp_path / "again", published=page, until=0.0)  # no time to fit
    assert run(again, table).mean("log_loss").values.tolist() == expected.tolist()
    assert again.kept("numbers", "pi", lambda: 0.0) == 3.14
    assert again.kept("numbers", "e", lambda: 0.0) is None
    assert again.n_cells == 4
    # A classifier that the page lacks is fitted, and stands with the others in their order.
    more = [CONTENDERS[0], Contender("kDB", "kdb(k=1)/laplace"), CONTENDERS[1]]
    again.until = None
    found = run(again, table, more).mean("log_loss")
    assert found.classifiers == ("NB", "kDB", "TAN")
    assert found.values[:, [0, 2]].tolist() == expected.tolist()


def test_a_classifier_that_has_changed_is_fitted_again(tmp_path, table):
    first = Workbench(None, tmp_path / "first")
    run(first, table)
    key = "naive/laplace"
    first.made_with[key] = {**first.made_with[key], "probe": [0.5] * 12}
    publish(first, tmp_path)
    page = Published.read(tmp_path, "some-2020")
    again = Workbench(None, tmp_path / "again", published=page, until=0.0)
    run(again, table)
    assert {r["classifier"] for part in again.gathered for r in part.records} == {"TAN"}


def test_what_cells_would_keep_is_fitted_again_unless_published(tmp_path, table):
    first = Workbench(None, tmp_path / "first")
    run(first, table)
    publish(first, tmp_path)
    page = Published.read(tmp_path, "some-2020")
    again = Workbench(None, tmp_path / "again", published=page)
    kept = run(again, table, keep=["info"])
    assert all("info" in record for record in kept.records)
    binned = run(again, table, publish=["reliability"])
    assert all("reliability" in record for record in binned.records)


def test_what_an_experiment_publishes_comes_from_the_page(tmp_path, table):
    more = {"keep": ["info"], "publish": ["info", "reliability"]}
    first = Workbench(None, tmp_path / "first")
    expected = run(first, table, **more)
    publish(first, tmp_path)
    page = Published.read(tmp_path, "some-2020")
    again = Workbench(None, tmp_path / "again", published=page, until=0.0)  # no time to fit
    found = run(again, table, **more)
    assert len(found.records) == 4
    for one, other in zip(expected.records, found.records, strict=True):
        assert other["info"] == one["info"]
        assert other["reliability"] == one["reliability"]
    assert join_cells([("tables", again.gathered)]).equals(page.cells)


def test_fits_of_a_program_that_is_not_installed_come_from_the_page(tmp_path, table, monkeypatch):
    uses = {"NB": "naive/laplace", "other": "random-forest(n_estimators=5)@binned"}
    first = Workbench(None, tmp_path / "first")
    expected = run(first, table, first.available(uses)).mean("log_loss")
    assert expected.classifiers == ("NB", "other")
    publish(first, tmp_path)

    build = Contender.build

    def refuse(self, *given):
        if self.pair is None:
            raise ConfigurationError("cannot import it")
        return build(self, *given)

    monkeypatch.setattr(Contender, "build", refuse)
    page = Published.read(tmp_path, "some-2020")
    again = Workbench(None, tmp_path / "again", published=page, until=0.0)
    found = run(again, table, again.available(uses)).mean("log_loss")
    assert found.values.tolist() == expected.values.tolist()
    assert not again.absent
    without = Workbench(None, tmp_path / "without")
    assert [c.name for c in without.available(uses)] == ["NB"]
    assert without.absent == ["other: cannot import it"]


def test_one_part_of_a_page_is_replaced(tmp_path, table):
    bench = Workbench(None, tmp_path / "first")
    run(bench, table)
    publish(bench, tmp_path)
    new = publish(bench, tmp_path / "elsewhere", "extras")
    picture = Picture("p", "p", "curves", {"x": [1, 2], "lines": {"a": [1.0, 2.0]}, "x_label": "x",
                                           "y_label": "y"})  # fmt: skip
    new.parts[0].blocks = [Block("With a picture", pictures=(picture,))]
    joined = join_page(new, tmp_path, ["extras", "tables"])
    assert [part.name for part in joined.parts] == ["extras", "tables"]
    assert joined.cells["part"].to_pylist() == ["tables"] * 4  # the new part read the same fits
    write_findings(joined, tmp_path)
    again = join_page(new, tmp_path, ["extras", "tables"])
    assert again.to_dict() == joined.to_dict()
    assert again.cells.num_rows == 4
    text = (tmp_path / "some-2020.md").read_text()
    assert "- Part extras. Run." in text
    assert text.index("With a picture") < text.index("Of tables")


def test_a_part_that_a_paper_lacks_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="Allowed: tables, section-5"):
        reproduce_paper("zaidi-2017", tmp_path, tmp_path, only="section-9")


def test_a_figure_whose_data_have_not_changed_is_not_drawn_again(tmp_path, table):
    bench = Workbench(None, tmp_path / "first")
    run(bench, table)
    findings = publish(bench, tmp_path)
    lines = {"x": [1, 2], "lines": {"a": [1.0, 2.0]}, "x_label": "x", "y_label": "y"}
    findings.parts[0].blocks = [Block("B", pictures=(Picture("p", "p", "curves", lines),))]
    write_findings(findings, tmp_path)
    file = tmp_path / "some-2020" / "p.svg"
    file.write_text("<svg/>")
    write_findings(findings, tmp_path)
    assert file.read_text() == "<svg/>"
    other = {**lines, "lines": {"a": [2.0, 1.0]}}
    findings.parts[0].blocks = [Block("B", pictures=(Picture("p", "p", "curves", other),))]
    write_findings(findings, tmp_path)
    assert file.read_text() != "<svg/>"
