"""The JSON schema and the JavaScript scorer, run by node."""

import json
import shutil
import subprocess
import warnings

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network.exports.javascript import scorer_source
from tanager.network.exports.recipe import make_recipe
from tanager.parameters import GroupedTable
from tanager.structure import KDB, Fixed
from tests.network.exports.cases import (
    COMBINATIONS,
    NASTY,
    all_cases,
    check,
    fine_case,
    grouped_case,
    nasty_case,
)

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

SCORE = """
const fs = require("fs");
const out = process.argv.slice(1).map((path) => {
  const model = require(path + "/model.js");
  const rows = JSON.parse(fs.readFileSync(path + "/rows.json", "utf8"));
  return rows.map((row) => [model.proba(row), model.terms(model.code(row)), model.predict(row)]);
});
console.log(JSON.stringify(out));
"""


def run_node(program, *arguments):
    done = subprocess.run(
        ["node", "-e", program, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    assert not done.stderr, done.stderr[:2000]
    return json.loads(done.stdout)


def plain_rows(table):
    """Return rows for JSON, which has no NaN."""
    return [
        {name: None if value != value else value for name, value in row.items()}
        for row in table.to_pylist()
    ]


def write_case(case, folder):
    folder.mkdir()
    (folder / "model.js").write_text(case.network.to_javascript(), encoding="utf-8")
    (folder / "rows.json").write_text(json.dumps(plain_rows(case.rows)), encoding="utf-8")
    return folder


@needs_node
@pytest.mark.parametrize(("structure", "parameters"), COMBINATIONS)
def test_node_gives_the_same_posterior_and_terms(structure, parameters, tmp_path):
    cases = all_cases(structure, parameters)
    folders = [write_case(case, tmp_path / str(at)) for at, case in enumerate(cases)]
    for case, answers in zip(cases, run_node(SCORE, *folders), strict=True):
        check(case, np.array([probabilities for probabilities, _, _ in answers]))
        network = case.network
        terms = network.log_terms(network.codebook.encode(case.rows))
        wanted = terms[:, list(network.structure.selected)]
        assert np.allclose([t for _, t, _ in answers], wanted, rtol=0, atol=1e-9), case.name
        best = network.codebook.classes[case.expected.argmax(axis=1)]
        assert [label for _, _, label in answers] == best.tolist()


@needs_node
def test_a_module_is_imported_and_a_page_gets_a_global(tmp_path):
    case = nasty_case()
    (tmp_path / "model.mjs").write_text(case.network.to_javascript(kind="module"), "utf-8")
    (tmp_path / "page.js").write_text(case.network.to_javascript(), "utf-8")
    program = """
    const fs = require("fs"), vm = require("vm");
    const page = vm.createContext({});
    vm.runInContext(fs.readFileSync(process.argv[1] + "/page.js", "utf8"), page);
    import(process.argv[1] + "/model.mjs").then((m) => console.log(JSON.stringify(
      [m.default.proba({}), page.tanagerModel.proba({}), Object.keys(page), m.default.classes])));
    """
    module, script, names, classes = run_node(program, tmp_path)
    empty = dict.fromkeys(NASTY, pa.nulls(1, pa.string()))
    joint = case.network.log_joint(pa.table(empty))[0]
    assert np.allclose(module, np.exp(joint) / np.exp(joint).sum(), rtol=0, atol=1e-12)
    assert module == script
    assert names == ["tanagerModel"]
    assert classes == sorted(NASTY)


@needs_node
def test_the_scorer_reads_numbers_dates_and_refuses_words(tmp_path):
    x = np.linspace(0, 10, 60)
    clf = BayesNetClassifier("naive", "laplace").fit(np.c_[x], (x > 5).astype(int))
    (tmp_path / "model.js").write_text(clf.network_.to_javascript(), "utf-8")
    program = """
    const model = require(process.argv[1] + "/model.js");
    const code = (x) => { try { return model.code([x])[0]; } catch (e) { return e.message; } };
    console.log(JSON.stringify([3, "3", " 3 ", 7, "7.0", null, "", NaN, undefined, new Date(3000),
      7n, "abc", Infinity].map(code)));
    """
    got = run_node(program, tmp_path)
    unknown = 2
    assert got[:11] == [0, 0, 0, 1, 1, unknown, unknown, unknown, unknown, 0, 1]
    assert got[11:] == ["x0: not a number: abc", 1]


def test_json_stands_in_a_page_and_says_what_it_is():
    network = nasty_case().network
    text = network.to_json()
    assert "<" not in text
    assert text.isascii()
    model = json.loads(text)
    assert (model["format"], model["version"]) == ("tanager-scorer", 2)
    assert model["classes"] == sorted(NASTY)
    assert [f["name"] for f in model["features"]] == list(NASTY)
    for feature in model["features"]:
        shape = [model["features"][p]["arity"] for p in feature["parents"]]
        shape += [feature["arity"], len(model["classes"])]
        assert len(feature["log_prob"]) == np.prod(shape)
        sums = np.exp(np.reshape(feature["log_prob"], shape)).sum(axis=-2)
        assert np.allclose(sums, 1, atol=1e-9)


def test_what_cannot_be_summed_out_is_refused_before_anything_is_written():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, (400, 14))
    clf = BayesNetClassifier(KDB(k=3, adjusted=False), "laplace", categorical_features="all")
    network = clf.fit(x, rng.integers(0, 2, 400)).network_
    with pytest.raises(MemoryBoundError, match="unknowns=False"):
        network.to_json()
    assert json.loads(network.to_json(unknowns=False))["format"] == "tanager-scorer"


def test_a_sparse_table_too_large_to_spell_out_is_named():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 200, (300, 4))
    clf = BayesNetClassifier(KDB(k=3, adjusted=False), "m-estimate", categorical_features="all")
    network = clf.fit(x, rng.integers(0, 2, 300)).network_
    with pytest.raises(MemoryBoundError, match=r"that of 'x.' is the largest"):
        network.to_javascript()


def test_unknown_kind_of_javascript():
    with pytest.raises(ConfigurationError, match="script, module"):
        nasty_case().network.to_javascript(kind="typescript")


def test_tables_know_values_by_groups():
    case = grouped_case("2-tree")
    recipe = make_recipe(case.network)
    features = json.loads(case.network.to_json())["features"]
    assert any("groups" in feature for feature in features)
    for feature, given in zip(features, recipe.inputs, strict=True):
        assert ("groups" in feature) == ("log_within" in feature) == (given.n_groups < given.arity)
        assert given.log_prob.shape[-2] == given.n_groups


def test_a_fine_model_is_not_spelled_out():
    network = fine_case().network
    stored = sum(
        table.log_group.size + table.log_within.size
        for table in network.tables.families
        if isinstance(table, GroupedTable)
    )
    recipe = make_recipe(network)
    written = sum(
        given.log_prob.size + (0 if given.log_within is None else given.log_within.size)
        for given in recipe.inputs
    )
    roots = sum(given.arity * recipe.n_classes for given in recipe.inputs)
    assert written <= stored + roots
    for given in recipe.inputs:
        if given.log_within is not None:  # each group's codes share its probability
            members = np.array(given.groups) == np.arange(given.n_groups)[:, None]
            assert np.allclose(members @ np.exp(given.log_within), 1, rtol=0, atol=1e-9)


@needs_node
def test_tables_of_earlier_releases_may_merge_groups_of_a_parent():
    """A chain a -> b -> c in which b doesn't tell the last two values of a apart."""
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 3, (90, 3)), rng.integers(0, 2, 90)
    table = pa.table({name: x[:, at].astype(str) for at, name in enumerate("abc")})
    clf = BayesNetClassifier(Fixed({"b": ["a"], "c": ["b"]}), "laplace").fit(table, y)
    spelled = json.loads(clf.network_.to_json())
    merged = json.loads(clf.network_.to_json())
    of_b = [feature["name"] for feature in spelled["features"]].index("b")
    logs = np.array(spelled["features"][of_b]["log_prob"]).reshape(3, 3, 2)
    spelled["features"][of_b]["log_prob"] = logs[[0, 1, 1]].ravel().tolist()
    merged["features"][of_b] |= {"log_prob": logs[:2].ravel().tolist(), "views": [[0, 1, 1]]}
    program = f"""
    {scorer_source()}
    const [one, other] = process.argv.slice(1).map((text) => tanager.load(text));
    let worst = 0;
    for (let at = 0; at < 64; at++) {{  // the code 3 means unknown
      const codes = [at % 4, (at >> 2) % 4, at >> 4];
      const found = other.posterior(codes);
      const wanted = one.posterior(codes);
      wanted.forEach((p, c) => {{ worst = Math.max(worst, Math.abs(p - found[c])); }});
    }}
    console.log(JSON.stringify(worst));
    """
    assert run_node(program, json.dumps(spelled), json.dumps(merged)) < 1e-14


@needs_node
def test_every_answer_to_a_question_at_once(tmp_path):
    for case in (fine_case(), grouped_case("2-tree")):
        folder = write_case(case, tmp_path / case.name)
        program = """
        const model = require(process.argv[1] + "/model.js");
        const rows = JSON.parse(require("fs").readFileSync(process.argv[1] + "/rows.json", "utf8"));
        let worst = 0;
        for (const row of rows.slice(20, 40)) {
          const codes = model.code(row);
          for (let i = 0; i < codes.length; i++)
            model.logJoints(codes, i).forEach((found, v) => {
              const wanted = model.logJoint(codes.map((code, at) => (at === i ? v : code)));
              found.forEach((l, c) => { worst = Math.max(worst, Math.abs(l - wanted[c])); });
            });
        }
        console.log(JSON.stringify(worst));
        """
        assert run_node(program, folder) < 1e-12


def test_a_column_of_one_value_for_every_row_is_not_read():
    rng = np.random.default_rng(2)
    names = [f"client {i}" for i in range(80)]
    y = rng.integers(0, 2, 80)
    table = pa.table({"name": names, "a": rng.normal(size=80) + y, "b": rng.normal(size=80) - y})
    clf = BayesNetClassifier(Fixed({"a": ["name"], "b": ["a"]}), "laplace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = clf.fit(table, y).network_
    assert network.codebook.readings["name"].kind == "nothing"
    recipe = make_recipe(network)
    assert [given.name for given in recipe.inputs] == ["a", "b"]
    assert [given.parents for given in recipe.inputs] == [(), (0,)]
    codes = network.codebook.encode(table)
    first, second = (given.log_prob for given in recipe.inputs)
    joint = recipe.log_prior + first[codes[1]] + second[codes[1], codes[2]]
    assert np.allclose(joint, network.log_joint(table), rtol=0, atol=1e-12)


@needs_node
def test_integers_past_doubles_are_told_apart(tmp_path):
    ids, labels = 2**60 + np.arange(60) % 3, 2**60 + np.arange(60) % 2
    table = pa.table({"id": ids})
    clf = BayesNetClassifier("naive", "laplace", categorical_features="all").fit(table, labels)
    path = tmp_path / "model.cjs"
    path.write_text(clf.network_.to_javascript(), encoding="utf-8")
    program = """
        const model = require(process.argv[1]), wrong = [];
        const ids = [2n ** 60n, 2n ** 60n + 1n, 2n ** 60n + 2n, 7];
        try { model.code({id: 2 ** 60}); } catch (error) { wrong.push(error.message); }
        const rows = ids.map((id) => [model.proba({id}), model.proba({id: String(id)})]);
        console.log(JSON.stringify([rows, model.predict({id: ids[0]}), wrong]));
    """
    rows, label, wrong = run_node(program, path)
    wanted = clf.predict_proba(pa.table({"id": [*ids[:3].tolist(), 7]}))
    for at, answers in enumerate(rows):
        assert np.allclose(answers, wanted[at], rtol=0, atol=1e-9)
    assert label == str(clf.predict(table.slice(0, 1))[0])
    assert wrong == ["id: past 2^53, give a BigInt or a text: 1152921504606847000"]
