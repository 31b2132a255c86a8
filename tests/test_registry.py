"""Learners by text."""

from __future__ import annotations

import pandas as pd
import pytest

import tanager.parameters
import tanager.structure
from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.parameters import PARAMETERS, Discriminative, Hybrid
from tanager.registry import parse_call
from tanager.structure import KDB, STRUCTURES, Fixed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tan", ("tan", {})),
        ("kdb(k=2)", ("kdb", {"k": 2})),
        ("m-estimate(m='cv')", ("m-estimate", {"m": "cv"})),
        ("d(form=direct, l2=cv)", ("d", {"form": "direct", "l2": "cv"})),
        ("d(base=m-estimate(m=1))", ("d", {"base": "m-estimate(m=1)"})),
        ("p(members=[hdp, (laplace, 0)])", ("p", {"members": ["hdp", ("laplace", 0)]})),
        ("f(a=(1, 2), b=None, c={'x': -1.5})", ("f", {"a": (1, 2), "b": None, "c": {"x": -1.5}})),
    ],
)
def test_calls_are_read(text, expected):
    assert parse_call(text) == expected


@pytest.mark.parametrize(
    "text", ["", "(k=1)", "kdb(2)", "kdb(k=__import__('os'))", "kdb(**x)", "kdb(k=1"]
)
def test_anything_but_literals_and_words_is_refused(text):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        parse_call(text)


@pytest.mark.parametrize("text", ["f(" * 13 + ")" * 13, "f(a='" + "x" * 3_000 + "')"])
def test_long_and_deep_texts_are_refused(text):
    with pytest.raises(ConfigurationError, match="Allowed"):
        parse_call(text)


def test_texts_become_learners():
    assert STRUCTURES.resolve("kdb(k=2)").k == 2
    assert isinstance(STRUCTURES.resolve("fixed(parents={'a': ['b']})"), Fixed)
    assert PARAMETERS.resolve("discriminative(form=direct, l2=cv)").form == "direct"
    assert PARAMETERS.resolve("hybrid(training__epochs=30)").training.epochs == 30
    nested = PARAMETERS.resolve("layered(generative=laplace(alpha=2))")
    assert nested.generative == "laplace(alpha=2)"


@pytest.mark.parametrize("text", ["kdb(q=1)", "fixed", "kdb(q__x=1)"])
def test_wrong_options_are_told(text):
    with pytest.raises(ConfigurationError, match="Its options"):
        STRUCTURES.resolve(text)


@pytest.mark.parametrize("given", ["forest", 3, None, Hybrid()])
def test_unknown_learners_are_told(given):
    with pytest.raises(ConfigurationError, match=r"structure=.* isn't valid"):
        STRUCTURES.resolve(given)


def test_a_class_or_a_table_for_a_learner_is_told_in_one_line():
    with pytest.raises(
        ConfigurationError, match=r"=KDB is a class, not a learner. Write .*KDB\(\)"
    ):
        STRUCTURES.resolve(KDB)
    with pytest.raises(ConfigurationError, match="structure=<DataFrame> isn't valid"):
        STRUCTURES.resolve(pd.DataFrame({"a": range(50)}))


def test_every_learner_is_exported_under_its_class():
    for registry, package in ((STRUCTURES, tanager.structure), (PARAMETERS, tanager.parameters)):
        for name, module in registry.exports.items():
            assert name in package.__all__
            assert getattr(package, name).__module__.startswith(module)
        assert set(package.__all__) <= set(dir(package))


def test_the_estimator_reads_the_same_texts():
    X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    clf = BayesNetClassifier("kdb(k=1)", "laplace(alpha=2)").fit(X, [0, 0, 1, 1] * 5)
    twin = BayesNetClassifier(KDB(k=1), tanager.parameters.Laplace(2.0)).fit(X, [0, 0, 1, 1] * 5)
    assert (clf.predict_proba(X) == twin.predict_proba(X)).all()


def test_options_of_a_training_are_set_through_the_classifier():
    clf = BayesNetClassifier("tan", "hybrid").set_params(parameters__training__epochs=7)
    assert clf.parameters.training.epochs == 7
    assert Hybrid().training is None
    assert {Discriminative, Hybrid} <= {type(PARAMETERS.resolve(n)) for n in PARAMETERS}


def test_every_class_of_the_package_has_a_name_of_its_own():
    """Private ones stand in one module each, and may be named alike."""
    import ast
    from collections import Counter
    from pathlib import Path

    import tanager

    files = Path(tanager.__file__).parent.rglob("*.py")
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in files)
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    names = Counter(node.name for node in nodes if not node.name.startswith("_"))
    assert [name for name, n in names.items() if n > 1] == []
