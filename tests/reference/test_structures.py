"""Another implementation's structures and log-joints, table by table.

The numbers were made by an independent program on half of each table; the
conventions they follow stand in the file's own description.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.model_selection import KFold

from tanager import BayesNetClassifier
from tanager.codes import Domain, Rows
from tanager.codes.groups import mdl_cuts
from tanager.codes.rows import code_dtype
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.parameters import MEstimate
from tanager.structure import KDB, TAN, FitPlan, Naive

SLUGS = [
    "contact_lenses", "iris", "labor", "postoperative", "tae", "echocardiogram", "haberman",
    "wine", "glass", "audiology", "colic", "chess551", "balance_scale", "breast_w", "vehicle",
    "annealing", "car", "cmc", "segment", "splice", "abalone", "nettalk", "mushroom", "letter",
]  # fmt: skip


@pytest.fixture(scope="module")
def reference(shared):
    return json.loads((shared / "reference" / "oracle" / "structures.json").read_text())


def load(shared, slug, expected):
    """Return codes with the reference's domains: the whole file's values, nulls one more."""
    table = pq.read_table(shared / "data" / f"{slug}.parquet")
    target = next(name for name in table.column_names if name not in expected["columns"])
    if slug == "splice":
        target = "class" if "class" in table.column_names else target
    labels = table[target].cast(pa.string()).to_pylist()
    classes = expected["classes"]
    y = np.array([classes.index(str(v)) for v in labels], np.uint16)
    train = next(KFold(2, shuffle=True, random_state=0).split(y))[0]
    codes, arities, cuts = [], [], []
    for name in expected["columns"]:
        column = table[name].combine_chunks()
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            inside = train[~nulls[train]]
            found = mdl_cuts(values[inside], y[inside], len(classes), None)
            cuts.append(found.tolist())
            code = np.searchsorted(found, np.where(nulls, 0, values), side="left")
            arity = len(found) + 1
        else:
            words = column.cast(pa.string()).to_pylist()
            domain = sorted({w for w in words if w is not None})
            place = {w: at for at, w in enumerate(domain)}
            code = np.array([place.get(w, 0) for w in words])
            arity = len(domain)
            cuts.append(None)
        codes.append(np.where(nulls, arity, code))
        arities.append(arity + bool(nulls.any()))
    sizes = np.array(arities, np.int64)
    domain = Domain(tuple(expected["columns"]), sizes, len(classes))
    return domain, np.stack(codes).astype(code_dtype(sizes)), y, train, cuts


def fit(learner, domain, codes, y, train):
    context = FitContext(info={"structure": {}, "parameters": {}})
    rows = Rows.in_memory(domain, np.ascontiguousarray(codes[:, train]), y[train])
    counts = Counts(rows, context)
    structure = learner.learn(counts, FitPlan(context))
    return counts, structure, MEstimate(m=1.0).learn(structure, counts, FitPlan(context))


@pytest.mark.shared
@pytest.mark.parametrize("slug", SLUGS)
def test_another_program_learns_the_same(shared, reference, slug):
    expected = reference[slug]
    domain, codes, y, train, cuts = load(shared, slug, expected)
    assert domain.arities.tolist() == expected["arity"]
    for ours, theirs in zip(cuts, expected["cuts"], strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or ours == pytest.approx(theirs, rel=1e-9)
    learners = {"NB": Naive(), "TAN": TAN()}
    learners.update({f"kDB-{k}": KDB(k=k) for k in (1, 2, 3, 5)})
    rows = np.array(expected["test_rows"])
    for name, learner in learners.items():
        counts, structure, tables = fit(learner, domain, codes, y, train)
        if name == "TAN":
            assert [list(p) for p in structure.parent_indices] == expected["tan_parents"]
        if name == "kDB-5":
            assert counts.mi() == pytest.approx(expected["mi"], abs=2e-10)
            assert [list(p) for p in structure.parent_indices] == expected["kdb5_parents"]
        got = tables.log_joint(structure, np.ascontiguousarray(codes[:, rows]), domain.arities)
        assert got == pytest.approx(np.array(expected["log_joint"][name]), rel=1e-9), name


PUBLISHED = [
    # Test error in percent with add-one smoothing: naive Bayes and Chow-Liu, from the
    # closed-form columns of table 1 of Roth and Pernkopf (2020); means over the folds.
    ("letter", "naive", 25.894), ("letter", "tan", 15.230),
    ("satimage", "naive", 17.954), ("satimage", "tan", 11.903),
    ("usps", "naive", 13.115), ("usps", "tan", 8.743),
]  # fmt: skip


@pytest.mark.shared
@pytest.mark.parametrize(("name", "structure", "published"), PUBLISHED)
def test_published_errors_come_out_to_the_digit(shared, name, structure, published):
    data = np.load(shared / "data" / f"{name}.npz")
    folds = sorted(key[len("x_tr_fold") :] for key in data if key.startswith("x_tr_fold"))
    errors = []
    for fold in folds:
        train_x, train_y = data[f"x_tr_fold{fold}"], data[f"t_tr_fold{fold}"].ravel()
        test_x, test_y = data[f"x_te_fold{fold}"], data[f"t_te_fold{fold}"].ravel()
        errors.append(error(structure, train_x, train_y, test_x, test_y))
    assert 100 * np.mean(errors) == pytest.approx(published, abs=5e-4)


def error(structure, train_x, train_y, test_x, test_y):
    clf = BayesNetClassifier(structure, "laplace", categorical_features="all")
    return np.mean(clf.fit(train_x, train_y).predict(test_x) != test_y)
