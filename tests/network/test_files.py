"""Model files: the identity on predictions, and nothing but typed errors on damage."""

import json
import os
import random
import subprocess
import sys
import warnings
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torture.model_mutations import damage, forge, rewrite

import tanager
from tanager import BayesNetClassifier
from tanager.codes import CategoricalColumn, Codebook, learning
from tanager.counts import Contexts
from tanager.errors import DataError, ModelFileError
from tanager.losses import HybridMargin
from tanager.network import Network, checks
from tanager.network import files as network_files
from tanager.network.files import checksum
from tanager.parameters import Hybrid, Laplace, MEstimate, Tables, TreeTable
from tanager.structure import KDB, TAN, Fixed, Structure
from tanager.training import Training


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    n = 400
    codes = rng.integers(0, 30, (n, 5))
    columns = [
        [f"v{v}" if v else None for v in codes[:, 0]],
        codes[:, 1].astype(float).tolist(),
        (codes[:, 2] % 2 == 0).tolist(),
        [f"w{v}" for v in codes[:, 3]],
        [f"é{v}" for v in codes[:, 4]],
    ]
    rows = pa.table({f"x{i}": column for i, column in enumerate(columns)})
    y = np.where(codes[:, 0] + codes[:, 1] > 30, "yes", "no")
    return rows, y


@pytest.fixture(scope="module")
def trees(table):
    """A model with families as trees, as well as dense ones."""
    rows, y = table
    clf = BayesNetClassifier(KDB(k=2, adjusted=False), MEstimate(m=1.0)).fit(rows, y)
    kinds = {type(t).__name__ for t in clf.network_.tables.families}
    assert kinds == {"DenseTable", "TreeTable"}
    return clf


def test_our_reader_of_safetensors_takes_what_the_library_takes(trees, tmp_path):
    safetensors = pytest.importorskip("safetensors")
    tanager.save(trees, tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    length = 8 + int.from_bytes(whole[:8], "little")
    rng = random.Random(5)
    taken = 0
    for case in range(600):
        data = whole if case == 0 else damage(whole[:length], rng) + whole[length:]
        if case % 2 and len(data) > 8:  # the length of the head is right again
            data = (len(data) - 8 - len(whole) + length).to_bytes(8, "little") + data[8:]
        try:
            theirs = dict(safetensors.deserialize(data))
        except safetensors.SafetensorError:
            theirs = None
        try:
            ours = network_files._unpack(data)[1]
        except ModelFileError:
            continue
        taken += 1
        assert theirs is not None
        assert ours.keys() == theirs.keys()
        assert all(ours[name].tobytes() == theirs[name]["data"] for name in ours)
    assert taken > 20


def test_a_lack_of_memory_is_not_called_damage(trees, tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError("Unable to allocate 9 GiB")

    tanager.save(trees, tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    monkeypatch.setattr(checks, "check_tables", fail)
    with pytest.raises(ModelFileError, match="isn't enough memory to load the model"):
        tanager.load(tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"wasn't saved, because .*enough memory"):
        tanager.save(trees, tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before


@pytest.mark.parametrize("parameters", ["ml", "laplace", "m-estimate", "hdp"])
@pytest.mark.parametrize("structure", ["naive", "tan", KDB(k=3), "skdb"])
def test_a_loaded_model_predicts_bit_for_bit(structure, parameters, table, tmp_path):
    rows, y = table
    clf = BayesNetClassifier(structure, parameters, missing="marginalize").fit(rows, y)
    tanager.save(clf, tmp_path / "m.tanager")
    loaded = tanager.load(tmp_path / "m.tanager")
    assert np.array_equal(loaded.predict_proba(rows), clf.predict_proba(rows))
    assert np.array_equal(loaded.explain(rows.slice(0, 9)), clf.explain(rows.slice(0, 9)))
    assert repr(loaded) == repr(clf)
    assert loaded.structure_ == clf.structure_
    assert loaded.network_ == clf.network_
    assert hash(loaded.network_) == hash(clf.network_)
    feature = clf.structure_.features[0]
    assert loaded.network_.table(feature) == clf.network_.table(feature)
    other = BayesNetClassifier(structure, Laplace(0.3), missing="marginalize").fit(rows, y)
    assert other.network_ != clf.network_


@pytest.mark.parametrize("y", [[0, 1, 1], [True, False, True], ["a", "b", "b"], [-3, 2**40, 7]])
def test_classes_keep_their_values_and_dtype(y, tmp_path):
    y = np.array(y)
    clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"], ["c"]], y)
    tanager.save(clf, tmp_path / "m")
    loaded = tanager.load(tmp_path / "m")
    assert loaded.classes_.dtype == clf.classes_.dtype
    assert loaded.classes_.tolist() == clf.classes_.tolist()


@settings(max_examples=25)
@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), min_size=2, max_size=12))
def test_any_text_survives(tmp_path_factory, pairs):
    pairs = [(a.replace("\ud800", ""), b) for a, b in pairs]
    y = [i % 2 for i in range(len(pairs))]
    clf = BayesNetClassifier("tan", "laplace").fit([list(p) for p in pairs], y)
    path = tmp_path_factory.mktemp("text") / "m"
    tanager.save(clf, path)
    loaded = tanager.load(path)
    rows = [list(p) for p in pairs]
    assert np.array_equal(loaded.predict_proba(rows), clf.predict_proba(rows))


def test_parameters_come_back(table, tmp_path):
    rows, y = table
    clf = BayesNetClassifier(
        Fixed({"x0": ("x1",), "x2": ["x0", "x3"]}),
        Laplace(alpha=0.5),
        categorical_features=np.array([True] * 5),
        class_weight={"yes": 2.0, "no": 1},
        random_state=np.random.RandomState(3),
        n_jobs=np.int64(1),
    ).fit(rows, y)
    tanager.save(clf, tmp_path / "m")
    loaded = tanager.load(tmp_path / "m")
    assert loaded.structure.parents == {"x0": ("x1",), "x2": ["x0", "x3"]}
    assert loaded.parameters.alpha == 0.5
    assert loaded.class_weight == {"yes": 2.0, "no": 1}
    assert loaded.categorical_features.tolist() == [True] * 5
    assert loaded.random_state is None
    assert loaded.info_["codes"]["fingerprint"] == clf.info_["codes"]["fingerprint"]
    assert "seconds" not in loaded.info_["structure"]  # of the run, not of the model


def test_losses_are_plain_data():
    from tanager.options import dump_option, load_option

    hybrid = Hybrid(HybridMargin(), training=Training(decay=float("inf")))
    text = json.dumps(dump_option(hybrid, "parameters", None))
    again = load_option(json.loads(text))
    assert again.loss == hybrid.loss
    assert again.training.decay == float("inf")
    old = json.loads(text)
    old["parameters"]["training"]["parameters"] |= {"checkpoint": "c", "checkpoint_every": 10}
    assert load_option(old).training.decay == float("inf")  # files from before still load


def test_a_foreign_learner_is_refused_and_the_network_can_be_saved(table, tmp_path):
    class Mine(TAN):
        pass

    rows, y = table
    clf = BayesNetClassifier(Mine(), "laplace").fit(rows, y)
    with pytest.raises(ModelFileError, match=r"network_\.save"):
        tanager.save(clf, tmp_path / "m")
    assert not list(tmp_path.iterdir())
    clf.network_.save(tmp_path / "n")
    assert np.array_equal(
        Network.load(tmp_path / "n").log_joint(rows), clf.network_.log_joint(rows)
    )
    loaded = tanager.load(tmp_path / "n")
    assert isinstance(loaded.structure, Fixed)
    assert np.array_equal(loaded.predict(rows), clf.predict(rows))


def test_unfitted_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="fit first"):
        tanager.save(BayesNetClassifier(), tmp_path / "m")


def test_a_loaded_model_says_why_it_does_not_go_on_learning(trees, table, tmp_path):
    tanager.save(trees, tmp_path / "m")
    with pytest.raises(tanager.errors.ConfigurationError, match="model file"):
        tanager.load(tmp_path / "m").partial_fit(*table)


def _edit(data, **changes):
    """Change metadata entries without signing anew."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"].update(changes)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def test_wrong_versions_and_formats_say_so(trees, tmp_path):
    path = tmp_path / "m"
    tanager.save(trees, path)
    data = path.read_bytes()
    for changes, words in [
        ({"version": "99"}, "format version '99'"),
        ({"format": "other"}, "not a Tanager model"),
        ({"sha256": "0" * 64}, "checksum"),
        ({"header": "{}"}, "checksum"),
    ]:
        path.write_bytes(_edit(data, **changes))
        with pytest.raises(ModelFileError, match=words):
            tanager.load(path)
    for text in (b"", b"short", b"PK\x03\x04 a zip file of some length", bytes(100)):
        path.write_bytes(text)
        with pytest.raises(ModelFileError, match=r"too few|not a safetensors|not a Tanager"):
            tanager.load(path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"codebook": NaN}', "[]", '{"codebook": {}}', "9" * 10_000]
)
def test_hostile_headers(text, trees, tmp_path):
    path = tmp_path / "m"
    tanager.save(trees, path)
    path.write_bytes(_edit(path.read_bytes(), header=text, sha256=checksum(text, _tensors(path))))
    with pytest.raises(ModelFileError):
        tanager.load(path)


def _tensors(path):
    from safetensors.numpy import load_file

    return load_file(path)


def test_a_stored_name_is_never_imported(trees, tmp_path):
    path = tmp_path / "m"
    tanager.save(trees, path)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["header"])
    for name in ("os:system", "structure:import_module", "structure:StructureLearner", "x"):
        header["estimator"]["structure"] = {"$object": name, "parameters": {}}
        text = json.dumps(header)
        path.write_bytes(_edit(data, header=text, sha256=checksum(text, _tensors(path))))
        with pytest.raises(ModelFileError):
            tanager.load(path)
        path.write_bytes(data)


def forge_one(path, header=lambda header: None, tensors=lambda tensors: None):
    """Change the content of a model file, and sign it anew."""
    from safetensors.numpy import load, save

    data = path.read_bytes()
    metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    facts, arrays = json.loads(metadata["header"]), load(data)
    arrays = {name: array.copy() for name, array in arrays.items()}
    header(facts), tensors(arrays)
    text = json.dumps(facts).replace('"1e999"', "1e999")
    path.write_bytes(save(arrays, {**metadata, "header": text, "sha256": checksum(text, arrays)}))


def test_a_probability_of_zero_is_refused(tmp_path):
    clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 5, [0, 1] * 5)
    for logs in ([[-np.inf] * 2, [0.0] * 2], [[-1e10] * 2, [0.0] * 2], [[np.nan] * 2, [0.0] * 2]):
        tanager.save(clf, tmp_path / "m")
        forge_one(
            tmp_path / "m", tensors=lambda t, x=logs: t.update({"family.0.log_prob": np.array(x)})
        )
        with pytest.raises(ModelFileError, match="out of range"):
            tanager.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"codes": {"rows": "many"}}, "number of rows"),
        ({"codes": {"rows": -1}}, "number of rows"),
        ({"codes": []}, "facts about the fit"),
        ([], "facts about the fit"),
        ({"codes": {"x": "1e999"}}, "1e999"),
    ],
    ids=lambda one: str(one)[:30],
)
def test_facts_about_the_fit_have_their_types(facts, what, tmp_path):
    clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 5, [0, 1] * 5)
    tanager.save(clf, tmp_path / "m")
    forge_one(tmp_path / "m", lambda header: header.update(info=facts))
    with pytest.raises(ModelFileError, match=what):
        tanager.load(tmp_path / "m")


def test_facts_of_a_run_do_not_come_from_a_file(tmp_path):
    clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 5, [0, 1] * 5)
    tanager.save(clf, tmp_path / "m")
    forge_one(
        tmp_path / "m", lambda header: header["info"].update(codes={"seconds": "x", "n": [[1]]})
    )
    loaded = tanager.load(tmp_path / "m")
    assert loaded.info_["codes"] == {}
    deep = reduce(lambda inner, _: {"a": inner}, range(900), {})
    forge_one(tmp_path / "m", lambda header: header["info"].update(deep=deep))
    assert len(str(tanager.load(tmp_path / "m").info_["deep"])) < 200
    assert "<" in loaded._repr_html_()


@pytest.mark.parametrize("how", [damage, forge, rewrite])
def test_fuzzed_files_load_the_same_or_give_a_typed_error(how, trees, table, tmp_path):
    rows = table[0].slice(0, 50)
    expected = trees.predict_proba(rows)
    path = tmp_path / "m"
    tanager.save(trees, path)
    data = path.read_bytes()
    rng = random.Random(20)
    survived = 0
    for _ in range(500):
        path.write_bytes(how(data, rng))
        try:
            loaded = tanager.load(path)
        except ModelFileError:
            continue
        survived += 1
        if how is damage:
            assert np.array_equal(loaded.predict_proba(rows), expected)
        else:
            # A forger may write another valid model; it must answer sanely.
            check_answers(loaded, rows)
    # What is written anew passes every check; most other changes are found.
    assert survived > 400 if how is rewrite else survived < 250


def test_forged_groups_load_sanely_or_give_a_typed_error(tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(150, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    path, rng = tmp_path / "m", random.Random(21)
    tanager.save(BayesNetClassifier().fit(X, y), path)
    data = path.read_bytes()
    assert b'"grouped"' in data.replace(b"\\", b"")
    for _ in range(200):
        path.write_bytes(forge(data, rng))
        try:
            loaded = tanager.load(path)
        except ModelFileError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert loaded.network_.log_joint(X).shape == (150, len(loaded.classes_))


def check_answers(loaded, rows):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = loaded.predict_proba(rows)
    except tanager.errors.DataError:
        return  # for example, columns of other names
    assert answers.shape == (rows.num_rows, len(loaded.classes_))
    assert np.allclose(answers.sum(axis=1), 1)


def test_a_failed_write_leaves_the_old_file(trees, tmp_path, monkeypatch):
    path = tmp_path / "m"
    tanager.save(trees, path)
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        tanager.save(trees, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_full_disk_leaves_the_old_file(trees, tmp_path):
    """The file-size limit stops the write in the middle, as a full disk does."""
    path = tmp_path / "m"
    tanager.save(trees, path)
    before = path.read_bytes()
    code = (
        "import resource, signal, sys, tanager;"
        "model = tanager.load(sys.argv[1]);"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "tanager.save(model, sys.argv[1])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "OSError" in run.stderr
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_permissions_and_links_are_kept(trees, tmp_path):
    path = tmp_path / "m"
    tanager.save(trees, path)
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path)
    tanager.save(trees, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(IsADirectoryError):
        tanager.save(trees, tmp_path)


def test_a_small_model_is_a_small_file(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 8, (2000, 30))
    clf = BayesNetClassifier("tan", "laplace", categorical_features="all")
    tanager.save(clf.fit(x, rng.integers(0, 2, 2000)), tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 100_000


def test_a_small_file_cannot_ask_for_any_memory(tmp_path, monkeypatch):
    """A tree without a cell, of as many values and classes as there may be: 32 GiB spelled out."""
    most = 65_535
    values, zero = pa.array(np.arange(most)), np.zeros(1, np.int64)
    x, y = CategoricalColumn("x", values, None), CategoricalColumn("y", values, None)
    contexts = Contexts.from_nodes(
        most, (most,), zero, zero, np.array([1, 1]), np.array([0, 0]), zero[:0]
    )
    table = TreeTable(contexts, np.zeros(0), np.full(1, -np.log(most)), False)
    tables = Tables(np.full(most, -np.log(most)), (table,), True)
    structure = Structure.from_parents(("x",), [()])
    network = Network(Codebook((x,), y, np.arange(most)), structure, tables)
    with monkeypatch.context() as patched:
        patched.setattr(network_files, "read_model", lambda _: (network, {}))
        network.save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 2_000_000
    with pytest.raises(ModelFileError, match=r"'x' has 4,294,836,225 cells without its parents"):
        tanager.load(tmp_path / "m")


def test_many_trees_cannot_ask_for_any_memory(trees, tmp_path, monkeypatch):
    tanager.save(trees, tmp_path / "m")
    monkeypatch.setattr(checks, "MAX_CELLS", 50)
    monkeypatch.setattr(checks, "MOST_SPREAD", 0)
    with pytest.raises(ModelFileError, match=r"cells without (its|their) parents"):
        tanager.load(tmp_path / "m")
    monkeypatch.setattr(checks, "MAX_CELLS", 60)
    assert tanager.load(tmp_path / "m").network_ == trees.network_


def test_a_column_that_no_file_could_hold_is_refused_before_the_fit(monkeypatch):
    monkeypatch.setattr(learning, "MAX_CELLS", 50)
    X = [[f"v{i % 20}"] for i in range(60)]
    BayesNetClassifier("naive", "laplace").fit(X, np.arange(60) % 2)
    with pytest.raises(DataError, match="'x0' has 20 values and the target 3 classes"):
        BayesNetClassifier("naive", "laplace").fit(X, np.arange(60) % 3)
