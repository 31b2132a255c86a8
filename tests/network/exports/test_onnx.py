"""ONNX graphs, run by onnxruntime."""

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ColumnWarning, ConfigurationError, MemoryBoundError
from tanager.structure import KDB, Fixed
from tests.network.exports.cases import (
    COMBINATIONS,
    all_cases,
    check,
    typed_case,
)

onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra 'export')")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra 'export')")


def feeds(model, rows, missing=""):
    """Return the columns as the model takes them."""
    found = {}
    for given in model.graph.input:
        column = rows.column(given.name)
        if pa.types.is_string(column.type):
            cells = [missing if value is None else value for value in column.to_pylist()]
            array = np.array(cells, dtype=object)
        else:
            kind = onnx.helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
            cells = [np.nan if value is None else float(value) for value in column.to_pylist()]
            array = np.array(cells, dtype=kind)
        found[given.name] = array.reshape(-1, 1)
    return found


def run(model, rows, missing=""):
    onnx.checker.check_model(model)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feeds(model, rows, missing))


def missing_text(case):
    """Return a text for missing that is no value of the table."""
    return "(missing)" if case.name == "typed" else ""


@pytest.mark.parametrize(("structure", "parameters"), COMBINATIONS)
def test_onnxruntime_gives_the_same_posterior(structure, parameters):
    for case in all_cases(structure, parameters):
        mark = missing_text(case)
        label, chances = run(case.network.to_onnx(missing_text=mark), case.rows, mark)
        check(case, chances)
        best = case.network.codebook.classes[case.expected.argmax(axis=1)]
        assert label.tolist() == best.tolist()


def supported_opset():
    """Return the newest opset that this onnxruntime reads."""
    for opset in range(onnx.defs.onnx_opset_version(), 17, -1):
        model = typed_case().network.to_onnx(opset=opset, missing_text="(missing)")
        try:
            ort.InferenceSession(model.SerializeToString())
        except Exception:  # newer than the program
            continue
        return opset
    raise AssertionError("onnxruntime reads no model at all")


def test_the_last_three_opsets_and_the_oldest_give_the_same():
    newest = supported_opset()
    for case in (typed_case(), all_cases("2-tree", "hdp")[6]):
        for opset in (newest, newest - 1, newest - 2, 18):
            model = case.network.to_onnx(opset=opset, missing_text="(missing)")
            assert model.opset_import[0].version == opset
            check(case, run(model, case.rows, "(missing)")[1])


@pytest.mark.parametrize("structure", ["naive", "tan", "2-tree"])
def test_terms_are_those_of_the_network(structure):
    for case in all_cases(structure, "hdp")[:4]:
        network = case.network
        _, chances, terms = run(network.to_onnx(contributions=True), case.rows)
        check(case, chances)
        wanted = network.log_terms(network.codebook.encode(case.rows))
        wanted = wanted[:, list(network.structure.selected)]
        assert np.allclose(terms, wanted, rtol=0, atol=1e-9), case.name


def test_single_precision_keeps_every_interval():
    for case in all_cases("tan", "hdp")[6:12:3]:
        model = case.network.to_onnx(float32=True)
        narrow = pa.table(
            {
                name: column.cast(pa.float32()).cast(pa.float64())
                if pa.types.is_floating(column.type)
                else column
                for name, column in zip(case.rows.column_names, case.rows.columns, strict=True)
            }
        )
        infinite = [
            any(value in (np.inf, -np.inf) for value in row.values()) for row in narrow.to_pylist()
        ]
        narrow = narrow.filter(~np.array(infinite))
        joint = case.network.log_joint(narrow)
        expected = np.exp(joint - joint.max(axis=1, keepdims=True))
        expected /= expected.sum(axis=1, keepdims=True)
        chances = run(model, narrow)[1]
        assert chances.dtype == np.float32
        assert np.allclose(chances, expected, rtol=0, atol=1e-5)


def test_rows_with_unknown_values_are_nan_on_request():
    case = all_cases("tan", "hdp")[0]
    full = run(case.network.to_onnx(), case.rows)[1]
    short = run(case.network.to_onnx(unknowns=False), case.rows)[1]
    answered = ~np.isnan(short).any(axis=1)
    assert 0 < answered.sum() < len(short)
    assert np.allclose(short[answered], full[answered], rtol=0, atol=1e-12)


def test_integers_past_doubles_are_told_apart():
    ids = np.array([2**60, 2**60 + 1] * 30)
    table = pa.table({"id": ids})
    y = np.arange(60) % 2
    clf = BayesNetClassifier("naive", "laplace", categorical_features="all").fit(table, y)
    model = clf.network_.to_onnx()
    session = ort.InferenceSession(model.SerializeToString())
    chances = session.run(None, {"id": ids[:4].reshape(-1, 1)})[1]
    assert np.allclose(chances, clf.predict_proba(table.slice(0, 4)), rtol=0, atol=1e-12)


def test_a_table_of_very_many_parents_is_refused_in_words():
    constant = [f"k{at}" for at in range(60)]
    X = {"x": list("ab") * 6, **{name: ["only"] * 12 for name in constant}}
    parents = {"x": constant, **{name: [] for name in constant}}
    network = BayesNetClassifier(Fixed(parents), "laplace").fit(X, [0, 1] * 6).network_
    with pytest.raises(ConfigurationError, match=r"61 columns .* letters for 50.*unknowns=False"):
        network.to_onnx()
    with pytest.raises(MemoryBoundError, match="table of 'x' with its 60 parents"):
        network.to_onnx(unknowns=False)
    with pytest.raises(MemoryBoundError, match="table of 'x' with its 60 parents"):
        network.to_sql()


def test_a_network_that_reads_no_column_is_refused():
    clf = BayesNetClassifier("naive", "laplace", missing="marginalize")
    with pytest.warns(ColumnWarning, match="every row is missing"):
        network = clf.fit({"x": [None] * 4}, [0, 1] * 2).network_
    with pytest.raises(ConfigurationError, match="reads no column"):
        network.to_onnx()


def test_what_onnx_cannot_hold_is_refused():
    network = typed_case().network
    with pytest.raises(ConfigurationError, match="missing_text"):
        network.to_onnx()
    with pytest.raises(ConfigurationError, match=r"opset=11 .*from 18 to"):
        network.to_onnx(opset=11)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, (400, 14))
    clf = BayesNetClassifier(KDB(k=3, adjusted=False), "laplace", categorical_features="all")
    with pytest.raises(MemoryBoundError, match="unknowns=False"):
        clf.fit(x, rng.integers(0, 2, 400)).network_.to_onnx()
