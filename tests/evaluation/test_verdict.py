"""The one sentence that an experiment comes down to."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.errors import ConfigurationError, DataError
from tanager.evaluation import Dataset, Experiment, Results
from tanager.evaluation.summary import verdict


def results_of(losses, metric="log_loss", failed=()):
    """Results with the given losses[dataset][classifier] = list over cells."""
    datasets = list(losses)
    classifiers = list(losses[datasets[0]])
    records = []
    for dataset in datasets:
        for name in classifiers:
            for fold, value in enumerate(losses[dataset][name]):
                bad = name in failed
                records.append(
                    {
                        "dataset": dataset,
                        "classifier": name,
                        "round": 0,
                        "fold": fold,
                        "status": "failed" if bad else "ok",
                        "error": "no module",
                        "n_train": 90,
                        "n_test": 10,
                        metric: value,
                    }
                )
    description = {
        "datasets": [{"name": d} for d in datasets],
        "classifiers": [{"name": c} for c in classifiers],
        "metrics": [metric],
    }
    return Results(description, records)


def test_one_table_is_judged_by_the_corrected_test():
    rng = np.random.default_rng(0)
    base = rng.normal(0.5, 0.01, 10)
    said = verdict(
        results_of(
            {
                "iris": {
                    "a": base,
                    "b": base + 0.1 + rng.normal(0, 0.01, 10),
                    "c": base + rng.normal(0.002, 0.01, 10),
                }
            }
        )
    )
    assert said.startswith("a has the lowest log-loss on iris, 0.50")
    assert "significantly better than b (p < 0.001), but not than c (p 0." in said


def test_more_is_better_where_the_metric_says_so():
    said = verdict(results_of({"iris": {"a": [0.7, 0.7, 0.6], "b": [0.8, 0.9, 0.9]}}, "auc"))
    assert said.startswith("b has the highest AUC on iris")


def test_several_tables_are_judged_by_ranks():
    tables = {f"t{i}": {"a": [0.1 * i + 0.1], "b": [0.1 * i + 0.2 + 0.001 * i]} for i in range(8)}
    said = verdict(results_of(tables))
    assert said.startswith("a has the best average rank on log-loss over 8 tables, 1.00")
    assert "significantly better than b" in said


def test_a_shared_first_place_has_no_winner():
    tables = {"s": {"a": [0.1], "b": [0.2]}, "t": {"a": [0.4], "b": [0.3]}}
    said = "share the best average rank on log-loss over 2 tables, 1.50."
    assert verdict(results_of(tables)) == f"a and b {said}"
    turned = {name: dict(reversed(losses.items())) for name, losses in tables.items()}
    assert verdict(results_of(turned)) == f"b and a {said}"
    beaten = {name: {**losses, "c": [0.9]} for name, losses in tables.items()}
    start = "a and b share the best average rank on log-loss over 2 tables, 1.50: not significantly"
    assert verdict(results_of(beaten)).startswith(f"{start} better than c (p 0.")


def test_a_shared_mean_of_one_table_has_no_winner():
    losses = {"a": [0.25, 0.5, 0.75], "b": [0.5, 0.75, 0.25], "c": [0.8, 0.9, 0.9]}
    said = verdict(results_of({"iris": losses}))
    assert said.startswith("a and b share the lowest log-loss on iris, 0.5000: ")
    assert said.endswith(").")
    assert "than c (p 0." in said
    many = {name: [0.5, 0.6] for name in "abcde"}
    said = verdict(results_of({"iris": many}))
    assert said == "5 classifiers share the lowest log-loss on iris, 0.5500."


def test_what_failed_takes_nothing_from_the_others():
    results = results_of(
        {"iris": {"a": [0.1, 0.2, 0.1], "b": [0.3, 0.3, 0.5], "x": [0, 0, 0]}}, failed=("x",)
    )
    assert verdict(results).startswith("a has the lowest log-loss on iris")
    assert results.failed_classifiers() == {"x": "no module"}
    nothing = results_of({"iris": {"x": [0.0]}}, failed=("x",))
    assert verdict(nothing) == "No classifier finished: there is nothing to compare."


def test_one_classifier_is_told_plainly():
    said = verdict(results_of({"iris": {"a": [0.1, 0.3]}}))
    assert said == "a on iris: log-loss 0.2000 ± 0.1414."


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("tan/hdpp", "hdpp"),
        ("tann/hdp", "tann"),
        ("kdb(kk=2)/hdp", "kk"),
        ("sklearn.ensemble.RandomForrest@native", "Check the name"),
        ("random-forest(trees=3)", "trees"),
    ],
)
def test_wrong_names_are_found_before_the_first_cell(small, tmp_path, use, message):
    experiment = Experiment([small], ["naive/laplace", use])
    with pytest.raises(ConfigurationError, match=message):
        experiment.run(tmp_path / "run.jsonl")
    assert not (tmp_path / "run.jsonl").exists()


def test_a_wrong_target_is_found_before_the_first_cell(small):
    with pytest.raises(DataError, match="no column 'label'"):
        Experiment([Dataset("t", small.source, target="label")], ["naive/laplace"]).run()
