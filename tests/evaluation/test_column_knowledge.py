"""What is known of a table's columns reaches the classifiers of an experiment."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, DataError
from tanager.evaluation import Contender, CrossValidation, Dataset, Experiment
from tanager.evaluation.metrics import log_loss
from tanager.evaluation.runner import Bench

SIZES = ["S", "M", "L", "XL"]


def make_table(labels):
    """Sizes along which the greater of the labels is more probable, with much noise."""
    rng = np.random.default_rng(3)
    size = rng.integers(4, size=160)
    high = rng.random(160) < 0.3 + 0.12 * size
    columns = {"size": np.array(SIZES)[size].tolist(), "n": rng.normal(size=160)}
    return pa.table({**columns, "y": [labels[int(one)] for one in high]})


# As texts the second of 9 and 10 would be 9.
@pytest.mark.parametrize("labels", [("no", "yes"), (9, 10)])
def test_orders_and_signs_are_those_of_a_fit_by_hand(labels):
    table = make_table(labels)
    said = {"ordered": ("size=S,M,L,XL",), "monotonic": ("size=+1",)}
    experiment = Experiment(
        [Dataset("sizes", table, "y", **said)],
        ["naive/layered", "categorical-nb"],
        CrossValidation(1, 2),
        metrics=["log_loss"],
    )
    results = experiment.run()
    assert results.failures == []
    bench = Bench(experiment)
    for cell in [c for c in experiment.cells() if c.classifier == "naive/layered"]:
        split = bench.split(cell)
        train, test = table.take(split.train), table.take(split.test)
        seed = int(np.random.SeedSequence([0, cell.round, cell.fold]).generate_state(1)[0] >> 1)
        by_hand = BayesNetClassifier(
            "naive",
            "layered",
            ordered={"size": SIZES},
            monotonic={"size": +1},
            random_state=seed,
        ).fit(train, "y")
        truth = by_hand.network_.codebook.encode_labels(test.column("y"))
        expected = log_loss(by_hand.predict_proba(test.drop_columns("y")), np.asarray(truth))
        found = next(
            record["log_loss"]
            for record in results.records
            if (record["classifier"], record["fold"]) == (cell.classifier, cell.fold)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        rising = by_hand.predict_proba(pa.table({"size": SIZES, "n": [0.0] * 4}))[:, 1]
        assert (np.diff(rising) >= 0).all()


def test_others_get_ordered_categories_as_their_places():
    from sklearn.tree import DecisionTreeClassifier

    from tanager.evaluation.encoding import Encoded

    table = make_table(("no", "yes")).drop_columns("y")
    encoded = Encoded(DecisionTreeClassifier(), columns={"ordered": {"size": SIZES}})
    codes = encoded.fit(table, np.arange(160) % 2).encoder_.transform(table)[:, 0]
    assert [SIZES[int(code)] for code in codes] == table.column("size").to_pylist()


@pytest.mark.parametrize(
    ("said", "classifier", "message"),
    [
        ({"monotonic": ("size=+1",)}, "tan/hdp", "no meaning for any of the classifiers"),
        ({"monotonic": ("other=+1",)}, "naive/layered", "no column 'other'"),
        ({"ordered": ("size",)}, "naive/layered", "a column, '=', and its values"),
    ],
)
def test_mistakes_are_told_before_the_first_cell(said, classifier, message):
    experiment = Experiment([Dataset("sizes", make_table("ab"), "y", **said)], [classifier])
    with pytest.raises(ValueError, match=message):
        experiment.check()


def test_a_class_that_is_not_there_is_named():
    dataset = Dataset("sizes", make_table("ab"), "y", monotonic=("size=c:+1",))
    with pytest.raises(ConfigurationError, match="names the class 'c' along 'size'"):
        dataset.signs(("a", "b"), ("a", "b"))


def test_what_is_said_is_part_of_the_identity():
    plain, said = (
        Dataset("d", make_table("ab"), "y"),
        Dataset("d", make_table("ab"), "y", ordered=("size=S,M,L,XL",)),
    )
    assert plain.fingerprint() != said.fingerprint()
    assert said.to_dict()["ordered"] == ["size=S,M,L,XL"]


@pytest.mark.parametrize(
    ("labels", "said", "expected"),
    [
        ((2, 10, 9), (), ("2", "9", "10")),
        (("low", "mid", "high"), (), ("high", "low", "mid")),
        (("low", "mid", "high"), ("low", "mid", "high"), ("low", "mid", "high")),
        ((True, False), (), ("false", "true")),
    ],
)
def test_classes_are_in_their_order(labels, said, expected):
    table = pa.table({"x": range(len(labels)), "y": list(labels)})
    loaded = Dataset("d", table, "y", classes_ordered=said).load()
    assert loaded.classes == expected
    assert [loaded.classes[code].lower() for code in loaded.labels] == [
        str(one).lower() for one in labels
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"classes_ordered": ("low", "high")}, "but the classes of dataset 'd' are"),
        ({"monotonic": ("x=height:+1",)}, "names the class 'height' along 'x'"),
    ],
)
@pytest.mark.parametrize("as_file", [False, True])
def test_classes_that_are_not_those_of_the_table_are_refused_before_any_cell(
    tmp_path, as_file, said, words
):
    table = pa.table({"x": [1, 2, 3] * 9, "y": ["low", "mid", "high"] * 9})
    if as_file:
        pq.write_table(table, tmp_path / "d.parquet")
    dataset = Dataset("d", tmp_path / "d.parquet" if as_file else table, "y", **said)
    experiment = Experiment([dataset], ["naive/layered"], CrossValidation(1, 2))
    with pytest.raises(ConfigurationError, match=words) as told:
        experiment.run(tmp_path / "run.jsonl")
    assert told.value.parameter in said
    assert not (tmp_path / "run.jsonl").exists()


def test_classes_are_what_a_fit_takes_them_for():
    """Minus zero is zero, and NaN is no class."""
    numbers = pa.table({"x": [1.0, 2.0, 3.0] * 4, "y": [0.0, -0.0, 1.0] * 4})
    assert Dataset("d", numbers, "y").load().classes == ("0", "1")
    with pytest.raises(DataError, match="is missing in 1 rows"):
        Dataset("d", pa.table({"x": [1, 2], "y": [0.0, float("nan")]}), "y").load()


@pytest.mark.parametrize("labels", [("mid", "low", "high"), (9, 8, 10)])
def test_options_of_our_classifiers_name_classes_as_the_table_does(labels):
    """Wherever the order of the classes is said, the cells have the same numbers."""
    rng = np.random.default_rng(1)
    place = rng.integers(3, size=240)
    lowest_first = sorted(labels) if labels[0] == 9 else ["low", "mid", "high"]
    table = pa.table({"x": place + rng.normal(size=240), "y": [lowest_first[c] for c in place]})
    named = BayesNetClassifier("naive", "laplace", classes_ordered=lowest_first)
    prior = BayesNetClassifier("naive", "laplace", class_prior={lowest_first[0]: 0.9})
    experiment = Experiment(
        [Dataset("d", table, "y", classes_ordered=tuple(map(str, lowest_first)))],
        [Contender("named", named), Contender("prior", prior), "naive/laplace"],
        CrossValidation(1, 2),
        metrics=["log_loss", "rank_error"],
    )
    results = experiment.run()
    assert results.failures == []
    rank_error = dict(zip(results.classifiers, results.mean("rank_error").values[0], strict=True))
    assert rank_error["named"] == rank_error["naive/laplace"] < 0.6 < rank_error["prior"]
