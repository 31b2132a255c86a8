"""Any discrete network as a classifier: against enumeration, other programs, and ourselves."""

import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network.exports.bif import Variable
from tanager.network.general import network_of_variables
from tanager.structure import KDB
from tests.cli.calling import call
from tests.network.readers.cases import as_bif, random_network
from tests.oracles.elimination import posterior


def write(tmp_path, variables):
    path = tmp_path / "n.bif"
    path.write_text(as_bif(variables))
    return path


@pytest.mark.parametrize("seed", range(25))
def test_posteriors_are_those_of_enumeration(seed, tmp_path):
    rng = np.random.default_rng(seed)
    variables = random_network(rng, n=6)
    path = write(tmp_path, variables)
    for target in ("n0", "n1"):
        others = [v for v in variables if v.name != target]
        hidden = [v.name for v in others if rng.random() < 0.3][:4]
        clf = tanager.read_network(path, target=target, hidden=hidden)
        assert set(clf.feature_names_in_) == {v.name for v in others} - set(hidden)
        joint = np.exp(clf.network_.log_joint([_nothing(clf)]))
        assert abs(joint.sum() - 1) < 1e-9
        for _ in range(10):
            evidence = {
                v.name: str(rng.choice(v.states))
                for v in others
                if v.name not in hidden and rng.random() < 0.6
            }
            with np.errstate(invalid="ignore"):
                wanted = posterior(variables, target, evidence)
            if not np.isfinite(wanted).all():
                continue  # the evidence is impossible
            order = np.argsort(next(v.states for v in variables if v.name == target))
            row = {**_nothing(clf), **evidence}
            assert np.allclose(clf.predict_proba([row])[0], wanted[order], atol=1e-9)


def _nothing(clf):
    return dict.fromkeys(clf.feature_names_in_)


def test_what_is_impossible_in_every_class_still_has_a_posterior(tmp_path):
    a = Variable("a", ("x", "y"), (), np.array([0.5, 0.5]))
    b = Variable("b", ("u", "v"), (0,), np.array([[1.0, 0.0], [1.0, 0.0]]))
    clf = tanager.read_network(write(tmp_path, [a, b]), target="a")
    assert np.allclose(clf.predict_proba([{"b": "v"}]), 0.5)


def test_names_that_are_not_there_are_refused(tmp_path):
    path = write(tmp_path, random_network(np.random.default_rng(0)))
    with pytest.raises(ConfigurationError, match="no node 'n9'"):
        tanager.read_network(path, target="n9")
    for options in ({"hidden": 5}, {"hidden": [5]}, {"format": ["bif"]}):
        with pytest.raises(ConfigurationError, match=f"{next(iter(options))}="):
            tanager.read_network(path, target="n0", **options)
    one, same = (tanager.read_network(path, target="n0", hidden=h) for h in ("n1", ["n1"]))
    assert one.network_ == same.network_
    with pytest.raises(ConfigurationError, match="'n0' can't be hidden"):
        tanager.read_network(path, target="n0", hidden=["n0"])
    with pytest.raises(ConfigurationError, match="no node besides 'n0'"):
        tanager.read_network(path, target="n0", hidden=["n1", "n2", "n3", "n4"])


def test_a_network_too_wide_is_refused_with_its_width():
    # A grid of 26 by 26 nodes, each with the one above and the one to its left for parents.
    half = np.full((2, 2, 2), 0.5)
    size, nodes = 26, []
    for i, j in product(range(size), range(size)):
        above = tuple(
            p for p in ((i - 1) * size + j if i else -1, i * size + j - 1 if j else -1) if p >= 0
        )
        shape = (2,) * (len(above) + 1)
        nodes.append(
            Variable(
                f"n{i}_{j}", ("a", "b"), above, half.reshape(-1)[: 2 ** len(shape)].reshape(shape)
            )
        )
    with pytest.raises(MemoryBoundError, match=r"Making 'n25_25' the class takes .* width \d+, "):
        network_of_variables(nodes, "n25_25")


@pytest.fixture
def fitted():
    rng = np.random.default_rng(5)
    n = 300
    y = rng.integers(0, 3, n)
    table = pa.table(
        {
            "size (cm)": pa.array(rng.normal(y, 1.0), mask=rng.random(n) < 0.1),
            "a": [f"v{i}" for i in (y + rng.integers(0, 2, n)) % 3],
            "A": rng.integers(0, 2, n) == 1,
            "1st ": pa.array(rng.integers(0, 4, n)),
        }
    )
    return BayesNetClassifier(KDB(k=2), "m-estimate").fit(table, pa.array(y)), table


def test_what_we_write_as_xmlbif_reads_back_equal(fitted, tmp_path):
    clf, table = fitted
    path = tmp_path / "n.xml"
    path.write_text(clf.network_.to_xmlbif(), encoding="utf-8")
    read = tanager.read_network(path, target="class")
    assert read.network_.codebook == clf.network_.codebook
    assert read.network_.structure == clf.network_.structure
    for ours, theirs in zip(
        read.network_.tables.families, clf.network_.tables.families, strict=True
    ):
        assert np.allclose(ours.log_prob, theirs.to_dense().log_prob, rtol=0, atol=1e-12)
    assert np.allclose(read.predict_proba(table), clf.predict_proba(table), rtol=0, atol=1e-12)
    assert read.classes_.dtype == clf.classes_.dtype
    again = tmp_path / "again.xml"
    again.write_text(read.network_.to_xmlbif(), encoding="utf-8")
    assert tanager.read_network(again, target="class").network_.structure == read.structure_


def test_what_we_write_as_bif_reads_back_in_words(fitted, tmp_path):
    clf, table = fitted
    path = tmp_path / "n.bif"
    path.write_text(clf.network_.to_bif())
    read = tanager.read_network(path, target="class")
    from tanager.network.exports.bif import _words

    codes = clf.network_.codebook.encode(table)
    columns = {}
    for name, at in zip(read.feature_names_in_, range(len(codes)), strict=True):
        words = _words(clf.network_.codebook.columns[at].labels())
        columns[name] = [words[c] if c < len(words) else None for c in codes[at]]
    expected = clf.predict_proba(table)
    assert np.allclose(read.predict_proba(pa.table(columns)), expected, rtol=0, atol=1e-12)
    again = tanager.read_network(path, target="class").network_
    assert again.to_bif() == read.network_.to_bif()


def test_another_target_of_our_own_file_has_its_labels_as_classes(fitted, tmp_path):
    clf, _ = fitted
    path = tmp_path / "n.xml"
    path.write_text(clf.network_.to_xmlbif(), encoding="utf-8")
    other = tanager.read_network(path, target="a")
    assert other.classes_.tolist() == ["v0", "v1", "v2"]
    row = {"class": 1, "size (cm)": 0.3, "A": True, "1st ": 2}
    assert np.isclose(other.predict_proba([row]).sum(), 1.0)


def test_a_network_read_saves_exports_explains_and_reports(tmp_path, capsys):
    variables = random_network(np.random.default_rng(3), n=6)
    source, model = write(tmp_path, variables), tmp_path / "m.tanager"
    assert call("import", source, "--target", "n0", "-o", model, "--hidden", "n3") == 0
    clf, direct = tanager.load(model), tanager.read_network(source, target="n0", hidden=["n3"])
    assert clf.network_ == direct.network_
    row = {v.name: v.states[0] for v in variables if v.name not in ("n0", "n3")}
    terms = clf.network_.log_terms(clf.network_.codebook.encode([row]))
    joint = terms.sum(axis=1) + clf.network_.log_prior
    assert np.allclose(joint, clf.predict_joint_log_proba([row]))
    clf.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000
    for ending in ("sql", "json", "h", "bif", "xml", "dot"):
        assert call("export", model, "-o", tmp_path / f"out.{ending}") == 0
    assert call("show", model) == 0
    assert call("import", source, "--target", "nothing", "-o", tmp_path / "x") == 2
    assert "no node 'nothing'" in capsys.readouterr().err


MODELS = (
    *("alarm", "andes", "asia", "barley", "cancer", "earthquake", "hailfinder", "hepar2"),
    *("insurance", "mildew", "munin1", "pathfinder", "pigs", "sachs", "survey", "water"),
    *("win95pts", "diabetes", "link", "munin", "munin2"),
)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_published_networks_have_pyagrums_posteriors(name, tmp_path):
    gum = pytest.importorskip("pyagrum")
    pgmpy = pytest.importorskip("pgmpy")
    packed = Path(pgmpy.__file__).parent / "utils" / "example_models" / f"{name}.bif.gz"
    path = tmp_path / "n.bif"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    model = gum.loadBN(str(path))
    by_ancestors = sorted(model.nodes(), key=lambda node: (len(model.ancestors(node)), node))
    names = [model.variable(node).name() for node in by_ancestors]
    for target in (names[0], names[len(names) // 2]):
        clf = tanager.read_network(path, target=target)
        inference = gum.LazyPropagation(model)
        generator = gum.BNDatabaseGenerator(model)
        generator.drawSamples(3)
        table = generator.to_pandas(with_labels=True)
        for row in range(3):
            evidence = {c: str(table[c][row]) for c in table.columns if c != target}
            inference.setEvidence(evidence)
            inference.makeInference()
            found = inference.posterior(target)
            wanted = [found[{target: str(label)}] for label in clf.classes_]
            assert np.allclose(clf.predict_proba([evidence])[0], wanted, atol=1e-9)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["asia", "cancer", "child", "sachs", "survey"])
def test_published_networks_have_pgmpys_posteriors_with_gaps(name):
    readwrite = pytest.importorskip("pgmpy.readwrite")
    from pgmpy.inference import VariableElimination

    folder = Path(readwrite.__file__).parents[1] / "utils" / "example_models"
    packed = folder / f"{name}.bif.gz"
    model = readwrite.BIFReader(string=gzip.decompress(packed.read_bytes()).decode()).get_model()
    inference, rng = VariableElimination(model), np.random.default_rng(0)
    table = model.simulate(4, seed=0, show_progress=False)
    for target in sorted(model.nodes)[:4]:
        clf = tanager.read_network(packed, target=target)
        for row in range(4):
            known = [c for c in table.columns if c != target and rng.random() < 0.5]
            evidence = {c: str(table[c][row]) for c in known}
            found = inference.query([target], evidence, show_progress=False)
            wanted = [found.get_value(**{target: str(label)}) for label in clf.classes_]
            given = {**dict.fromkeys(clf.feature_names_in_), **evidence}
            assert np.allclose(clf.predict_proba([given])[0], wanted, atol=1e-9)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(5))
def test_what_pgmpy_and_pyagrum_write_is_read(seed, tmp_path):
    gum = pytest.importorskip("pyagrum")
    readwrite = pytest.importorskip("pgmpy.readwrite")
    variables = random_network(np.random.default_rng(seed), n=6, zeros=0.0, least=2)
    source = write(tmp_path, variables)
    model, written = gum.loadBN(str(source)), []
    for ending in ("bif", "bifxml", "xdsl", "net"):
        written.append(tmp_path / f"gum.{ending}")
        gum.saveBN(model, str(written[-1]))
    other = readwrite.BIFReader(str(written[0])).get_model()
    for ending, writer in (("bif", "BIF"), ("xml", "XMLBIF"), ("net", "NET"), ("xdsl", "XDSL")):
        written.append(tmp_path / f"pgmpy.{ending}")
        make = getattr(readwrite, f"{writer}Writer")(other)
        getattr(make, f"write_{writer.lower()}")(str(written[-1]))
    clf = tanager.read_network(source, target="n1")
    rows = [
        {
            v.name: str(np.random.default_rng(i).choice(v.states))
            for v in variables
            if v.name != "n1"
        }
        for i in range(5)
    ]
    expected = clf.predict_proba(rows)
    for path in written:
        found = tanager.read_network(path, target="n1").predict_proba(rows)
        exact = path.suffix == ".bif" or path.name in ("gum.net", "pgmpy.xml", "pgmpy.xdsl")
        # The others keep six to eight digits.
        assert np.allclose(found, expected, atol=1e-9 if exact else 2e-5), path
