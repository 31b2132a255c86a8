"""`tanager score` beside scikit-learn's numbers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk

import tanager
from tanager.cli.app import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("score")
    rng = np.random.default_rng(0)
    y = rng.choice(["cat", "dog", "eel"], 300)
    x = np.where(rng.random(300) < 0.7, y, "dog")
    table = pd.DataFrame({"x": x, "n": rng.normal(size=300) + (y == "eel"), "kind": y})
    table[:200].to_csv(place / "train.csv", index=False)
    table[200:].to_csv(place / "test.csv", index=False)
    clf = tanager.BayesNetClassifier("naive", "laplace").fit(str(place / "train.csv"), "kind")
    tanager.save(clf, place / "m.tanager")
    return place


def test_numbers_agree_with_scikit_learn(folder, capfd):
    assert run(["score", str(folder / "m.tanager"), str(folder / "test.csv"), "--json"]) == 0
    sheet = json.loads(capfd.readouterr().out)
    clf = tanager.load(folder / "m.tanager")
    test = pd.read_csv(folder / "test.csv")
    p, y = clf.predict_proba(test[["x", "n"]]), test["kind"]
    said = clf.predict(test[["x", "n"]])
    found = sheet["metrics"]
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(y, said))
    assert found["log_loss"] == pytest.approx(sk.log_loss(y, p))
    assert found["auc"] == pytest.approx(sk.roc_auc_score(y, p, multi_class="ovr"))
    assert found["f1"] == pytest.approx(sk.f1_score(y, said, average="macro"))
    matrix = [[sheet["confusion"][a][b] for b in clf.classes_] for a in clf.classes_]
    assert np.array_equal(matrix, sk.confusion_matrix(y, said))
    recall = sk.recall_score(y, said, average=None)
    assert [sheet["classes"][c]["recall"] for c in clf.classes_] == pytest.approx(recall)
    shares = y.value_counts(normalize=True)
    assert sheet["baseline"]["accuracy"] == pytest.approx(shares.max())
    assert sheet["baseline"]["log_loss"] == pytest.approx(-(shares * np.log(shares)).sum())
    bins = sheet["calibration"]
    assert sum(b["rows"] for b in bins) == len(y)


def test_it_prints_a_sheet(folder, capfd):
    assert run(["score", str(folder / "m.tanager"), str(folder / "test.csv")]) == 0
    out = capfd.readouterr().out
    for word in (
        "accuracy",
        "log-loss",
        "AUC",
        "calibration",
        "recall",
        "Confusion matrix: true classes in rows",
    ):
        assert word in out


def test_one_row_and_no_loss_are_written_well(folder, capfd):
    (folder / "sure.csv").write_text("x,kind\n" + "a,p\nb,q\n" * 20)
    clf = tanager.BayesNetClassifier("naive", "ml").fit(str(folder / "sure.csv"), "kind")
    tanager.save(clf, folder / "sure.tanager")
    (folder / "one.csv").write_text("x,kind\na,p\n")
    given = ["score", str(folder / "sure.tanager"), str(folder / "one.csv")]
    assert run(given) == 0
    out = capfd.readouterr().out
    assert "1 row " in out
    assert "baseline: class frequencies" in out
    assert "log-loss" in out
    assert "-0.0000" not in out
    assert run([*given, "--json"]) == 0
    assert "-0.0" not in capfd.readouterr().out


def test_a_table_without_classes_or_with_strange_ones_is_told(folder, capfd):
    (folder / "bare.csv").write_text("x,n\ncat,1\n")
    assert run(["score", str(folder / "m.tanager"), str(folder / "bare.csv")]) == 1
    assert "--target" in capfd.readouterr().err
    (folder / "strange.csv").write_text("x,n,kind\ncat,1,cow\n")
    assert run(["score", str(folder / "m.tanager"), str(folder / "strange.csv")]) == 1
    assert "'cow' is not one of the classes" in capfd.readouterr().err


def test_rows_of_the_fit_are_recognised_and_told_of(folder, capfd):
    pd.read_csv(folder / "train.csv").sample(frac=1, random_state=1).to_csv(
        folder / "shuffled.csv", index=False
    )
    for name, own in (("train.csv", True), ("shuffled.csv", True), ("test.csv", False)):
        assert run(["score", str(folder / "m.tanager"), str(folder / name), "--json"]) == 0
        said = capfd.readouterr()
        assert json.loads(said.out)["rows_of_the_fit"] is own, name
        assert ("the model's training data" in said.err) is own, name
    other = pd.read_csv(folder / "train.csv")
    other.loc[0, "kind"] = "eel" if other.loc[0, "kind"] == "cat" else "cat"
    other.to_csv(folder / "other.csv", index=False)  # as many rows, but not the same
    assert run(["score", str(folder / "m.tanager"), str(folder / "other.csv"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rows_of_the_fit"] is False


def test_a_network_without_its_estimator_cannot_tell_its_rows(folder, capfd):
    tanager.load(folder / "m.tanager").network_.save(folder / "bare.tanager")
    assert run(["score", str(folder / "bare.tanager"), str(folder / "train.csv"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rows_of_the_fit"] is None
