"""Exports, read back by other programs."""

import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network import Network
from tanager.network.exports.bif import _words
from tanager.parameters import Discriminative, Tables
from tanager.structure import KDB
from tests.network.exports.cases import fine_case

MODELS = [
    ("naive", "m-estimate"),
    ("tan", "m-estimate"),
    (KDB(k=2), "m-estimate"),
    ("tan", Discriminative(l2=1.0)),  # scores, renormalised
    (KDB(k=2, moral=True), "layered"),
]


@pytest.fixture(scope="module", params=MODELS, ids=str)
def fitted(request):
    """A model with awkward names, values, intervals and gaps."""
    rng = np.random.default_rng(2)
    n = 400
    size = rng.normal(0, 50, n)
    table = pa.table(
        {
            "size (cm)": pa.array(np.where(rng.random(n) < 0.1, np.nan, size), from_pandas=True),
            "a": rng.choice(["<x>", 'q"uote', "c,omma", "c omma", "zoë & co", ""], n),
            "A": rng.choice([True, False], n),
            "probability": rng.choice(["table", "default", "}"], n),
            "1st": rng.integers(-3, 3, n),
        }
    )
    y = np.where(size + 40 * (np.arange(n) % 3 == 0) > 10, "yes|no", "no way")
    categorical = ["1st", "a", "A", "probability"]
    clf = BayesNetClassifier(*request.param, categorical_features=categorical)
    return clf.fit(table, y), table


def test_words_are_plain_and_different():
    words = _words(["<= 2.5", "(2.5, -3e-05]", "> -3", "missing", "a b", "a_b", "A-b", "", "1"])
    assert words[:4] == ["le_2_5", "v2_5_to_minus_3e_05", "gt_minus_3", "missing"]
    assert len({w.lower() for w in words}) == len(words)
    assert _words(["<=50K", ">50K", ">= 3", "<x>"]) == ["le_50K", "gt_50K", "ge_3", "lt_x"]
    assert all(w.isidentifier() and w.isascii() for w in words)


def test_xmlbif_keeps_names_and_sums_to_one(fitted):
    clf, _ = fitted
    root = ET.fromstring(clf.network_.to_xmlbif().encode())
    names = [v.findtext("NAME") for v in root.iter("VARIABLE")]
    assert names[1:] == ["size (cm)", "a", "A_2", "probability", "1st"]
    states = {
        v.findtext("NAME"): [o.text for o in v.findall("OUTCOME")] for v in root.iter("VARIABLE")
    }
    assert states["a"] == ["(empty)", "<x>", "c omma", "c,omma", 'q"uote', "zoë & co"]
    assert states["size (cm)"][0].startswith("<= ")
    for definition in root.iter("DEFINITION"):
        n = len(states[definition.findtext("FOR")])
        numbers = np.array(definition.findtext("TABLE").split(), float).reshape(-1, n)
        assert np.allclose(numbers.sum(axis=1), 1, atol=1e-15)


def test_line_ends_within_names_and_values_survive_xmlbif(tmp_path):
    X = [{"a\rb": value} for value in ["r\rz", "n\nz", "c\r\nz", "plain"] * 5]
    network = BayesNetClassifier("naive", "laplace").fit(X, ["x\ry", "x"] * 10).network_
    path = tmp_path / "network.xmlbif"
    path.write_bytes(network.to_xmlbif().encode())
    assert tanager.read_network(path, target="class").network_.codebook == network.codebook


def test_networkx_has_the_edges(fitted):
    nx = pytest.importorskip("networkx")
    clf, _ = fitted
    graph = clf.network_.to_networkx()
    assert nx.is_directed_acyclic_graph(graph)
    roots = [node for node, role in graph.nodes(data="role") if role == "class"]
    assert len(roots) == 1
    for feature, parents in clf.structure_.parents.items():
        given = {p for p in graph.predecessors(feature) if p not in roots}
        assert given == set(parents)
        assert roots[0] in graph.predecessors(feature)


def test_dot_quotes_names(fitted):
    clf, _ = fitted
    text = clf.network_.to_dot()
    assert '"size (cm)"' in text
    assert text.count(" -> ") == 5 + sum(map(len, clf.structure_.parent_indices))


def test_scores_are_not_exported(fitted):
    network = fitted[0].network_
    scores = Network(
        network.codebook,
        network.structure,
        Tables(network.log_prior, network.tables.families, normalized=False),
    )
    with pytest.raises(ConfigurationError, match="scores"):
        scores.to_bif()


def test_a_table_too_large_is_named():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 200, (300, 4))
    y = rng.integers(0, 2, 300)
    clf = BayesNetClassifier(
        KDB(k=3, adjusted=False), "m-estimate", categorical_features="all"
    ).fit(x, y)
    with pytest.raises(MemoryBoundError, match="'x"):
        clf.network_.to_xmlbif()


def _read_xmlbif(text):
    """Return the nodes: for each its states, its parents and its table (*parents, states)."""
    root = ET.fromstring(text.encode())
    states = {v.findtext("NAME"): len(v.findall("OUTCOME")) for v in root.iter("VARIABLE")}
    nodes = {}
    for definition in root.iter("DEFINITION"):
        name = definition.findtext("FOR")
        parents = [given.text for given in definition.findall("GIVEN")]
        shape = [states[one] for one in (*parents, name)]
        numbers = np.array(definition.findtext("TABLE").split(), float)
        nodes[name] = parents, numbers.reshape(shape)
    return nodes


def test_two_nodes_a_feature_say_the_same():
    case = fine_case()
    network = case.network
    text = network.to_xmlbif()
    assert len(text) < 3_000_000
    nodes = _read_xmlbif(text)
    assert len(network.structure.features) + 1 < len(nodes)
    letters = dict(zip(nodes, "abcdefghijklmnop", strict=False))
    scopes = {
        name: "".join(letters[one] for one in (*parents, name))
        for name, (parents, _) in nodes.items()
    }
    codes = network.codebook.encode(case.rows)
    for row in range(0, case.rows.num_rows, 5):
        operands = []
        for name, (_, table) in nodes.items():
            operands += [scopes[name], table]
        for feature, code in zip(network.structure.names, codes[:, row], strict=True):
            arity = nodes[feature][1].shape[-1]
            if code < arity:
                operands += [letters[feature], np.eye(arity)[code]]
        given = ",".join(operands[::2])
        joint = np.einsum(f"{given}->a", *operands[1::2], optimize="greedy")
        assert np.allclose(joint / joint.sum(), case.expected[row], rtol=0, atol=1e-9)


def test_tables_of_values_alone_where_they_are_small(fitted):
    clf, _ = fitted
    assert len(_read_xmlbif(clf.network_.to_xmlbif())) == 1 + len(clf.structure_.features)


def _evidence(network, table, row, words):
    """Return the row's state of every feature, as the export names it."""
    codes = network.codebook.encode(table.slice(row, 1))[:, 0]
    columns = network.codebook.columns
    states = [_words(c.labels()) if words else _xml_states(c.labels()) for c in columns]
    return [states[i][code] for i, code in enumerate(codes)]


def _xml_states(labels):
    return [label.strip() or "(empty)" for label in labels]


CASES = [("bif", True), ("xmlbif", False)]


def _export(network, kind, path):
    path.write_text(getattr(network, f"to_{kind}")(), encoding="utf-8")
    names = ["y", *network.structure.names]
    return _words(names) if kind == "bif" else ["y", "size (cm)", "a", "A_2", "probability", "1st"]


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "words"), CASES)
def test_pgmpy_gives_the_same_posterior(fitted, tmp_path, kind, words):
    readwrite = pytest.importorskip("pgmpy.readwrite")
    from pgmpy.inference import VariableElimination

    clf, table = fitted
    path = tmp_path / f"n.{kind}"
    names = _export(clf.network_, kind, path)
    reader = {"bif": readwrite.BIFReader, "xmlbif": readwrite.XMLBIFReader}[kind]
    model = reader(str(path)).get_model()
    target = next(node for node in model.nodes if not model.get_parents(node))
    inference = VariableElimination(model)
    expected = clf.predict_proba(table)
    for row in range(5):
        states = _evidence(clf.network_, table, row, words)
        evidence = dict(zip(names[1:], states, strict=True))
        answer = inference.query([target], evidence, show_progress=False)
        assert np.allclose(answer.values, expected[row], atol=1e-9)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "words"), CASES)
def test_pyagrum_gives_the_same_posterior(fitted, tmp_path, kind, words):
    gum = pytest.importorskip("pyagrum")
    clf, table = fitted
    path = tmp_path / f"n.{kind}"
    path = path.with_suffix({"bif": ".bif", "xmlbif": ".bifxml"}[kind])
    names = _export(clf.network_, kind, path)
    model = gum.loadBN(str(path))
    target = next(n for n in model.names() if not model.parents(n))
    inference = gum.LazyPropagation(model)
    expected = clf.predict_proba(table)
    for row in range(5):
        states = _evidence(clf.network_, table, row, words)
        inference.setEvidence(dict(zip(names[1:], states, strict=True)))
        inference.makeInference()
        answer = inference.posterior(target).toarray()
        assert np.allclose(answer, expected[row], atol=1e-6)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_pyagrum_reads_two_nodes_a_feature(tmp_path):
    gum = pytest.importorskip("pyagrum")
    case = fine_case()
    network = case.network
    path = tmp_path / "n.bif"
    path.write_text(network.to_bif(), encoding="utf-8")
    model = gum.loadBN(str(path))
    target = next(n for n in model.names() if not model.parents(n))
    inference = gum.LazyPropagation(model)
    codes, arities = network.codebook.encode(case.rows), network.codebook.domain.arities
    for row in range(0, case.rows.num_rows, 9):
        known = [i for i in range(len(arities)) if codes[i, row] < arities[i]]
        names = _words(network.structure.names)
        inference.setEvidence({names[i]: int(codes[i, row]) for i in known})
        inference.makeInference()
        answer = inference.posterior(target).toarray()
        assert np.allclose(answer, case.expected[row], atol=1e-6)
