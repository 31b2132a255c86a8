"""What unseen cells say, for tables held densely and as trees."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.parameters import Laplace, MEstimate, TreeTable
from tanager.parameters import scores as layout_module
from tanager.parameters import tables as tables_module
from tanager.parameters.scores import Layout, fill_tables
from tanager.structure import FitPlan
from tests.parameters.discriminative.problems import make_rows, make_structure

ARITIES = (4, 3, 5, 3)


@pytest.fixture(params=["dense", "sparse"])
def posed(request, monkeypatch):
    if request.param == "sparse":
        for module in (layout_module, tables_module):
            monkeypatch.setattr(module, "SMALL_CELLS", 0)
            monkeypatch.setattr(module, "LARGE_CELLS", 0)
    rows = make_rows(3, 25, ARITIES, n_classes=2)
    structure = make_structure(rows, "clique")
    context = FitContext()
    counts = Counts(rows, context)
    trees = list(counts.trees(structure))
    layout = Layout.of(structure, rows.domain, trees)
    assert (layout.families[-1].contexts is not None) == (request.param == "sparse")
    flat = np.random.default_rng(0).normal(size=(layout.n_cells, 2))
    return rows, structure, counts, context, layout, trees, flat


def spell_out(table):
    """Return a table's answers to every context, shape (*members, n_classes)."""
    return table.to_dense().log_prob


def seen_cells(rows, members):
    codes = rows.gather().codes
    return {tuple(int(codes[m, r]) for m in members) for r in range(rows.n_rows)}


@pytest.mark.parametrize("base", [MEstimate(m=1.0), Laplace()], ids=["backoff", "no backoff"])
@pytest.mark.parametrize("unseen", ["generative", "coarser", "nothing"])
def test_every_cell(posed, unseen, base):
    rows, structure, counts, context, layout, trees, flat = posed
    generative = base.learn(structure, counts, FitPlan(context))
    filled = fill_tables(layout, flat, layout.counts(trees), generative, unseen)
    codes = rows.gather().codes
    for at, family in enumerate(layout.families):
        members = family.members.tolist()
        seen = seen_cells(rows, members)
        answers = spell_out(filled.families[at])
        expected_base = spell_out(generative.families[at])
        place = {tuple(v): i for i, v in enumerate(family.prefix_values(family.depth).T.tolist())}
        cells = flat[family.cells].reshape(-1, family.arity, 2)
        for values in np.ndindex(*family.shape):
            found = answers[values]
            if values in seen:
                np.testing.assert_allclose(found, cells[place[values[:-1]], values[-1]])
            elif unseen == "nothing":
                assert found[0] == pytest.approx(found[1])
            elif unseen == "generative" or len(members) == 1:
                np.testing.assert_allclose(found, expected_base[values])
            else:
                _check_coarser(codes, members, values, cells, place, found)


def _check_coarser(codes, members, values, cells, place, found):
    """The mean over the training rows that share the value and the longest seen prefix."""
    for depth in range(len(members) - 1, -1, -1):
        match = codes[members[-1]] == values[-1]
        for m, v in zip(members[:depth], values[:depth], strict=True):
            match &= codes[m] == v
        if match.any():
            own = [
                cells[place[tuple(int(codes[m, r]) for m in members[:-1])], values[-1]]
                for r in np.flatnonzero(match)
            ]
            np.testing.assert_allclose(found, np.mean(own, axis=0))
            return


@pytest.mark.parametrize("unseen", ["generative", "coarser", "nothing"])
def test_normalized_tables_stay_so(posed, unseen):
    _, structure, counts, context, layout, trees, flat = posed
    for family in layout.families:
        rows_of = flat[family.cells].reshape(-1, family.arity, 2)
        rows_of -= np.logaddexp.reduce(rows_of, axis=1, keepdims=True)
    base = MEstimate(m=1.0).learn(structure, counts, FitPlan(context))
    filled = fill_tables(layout, flat, layout.counts(trees), base, unseen, normalized=True)
    assert filled.normalized
    for table in filled.families:
        np.testing.assert_allclose(np.exp(spell_out(table)).sum(axis=-2), 1.0)


def test_sparse_families_become_trees(posed):
    _, structure, counts, context, layout, trees, flat = posed
    base = MEstimate(m=1.0).learn(structure, counts, FitPlan(context))
    filled = fill_tables(layout, flat, layout.counts(trees), base, "generative")
    for family, table in zip(layout.families, filled.families, strict=True):
        assert isinstance(table, TreeTable) == (family.contexts is not None)
