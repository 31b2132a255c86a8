"""The model card as Markdown."""

import json

import numpy as np
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.cli.app import run
from tanager.errors import ConfigurationError
from tanager.evaluation import METRICS


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = {"job|title": rng.choice(["a", "b"], 300).tolist(), "<b>age": rng.integers(18, 80, 300)}
    y = np.where((np.array(X["<b>age"]) > 50) ^ (rng.random(300) < 0.1), "yes", "no")
    return BayesNetClassifier("tan", "m-estimate").fit(X, y), X, y


def front_matter(text):
    lines = text.split("---\n")[1].splitlines()
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in lines)}


def test_a_card_has_the_scores_in_text_and_metadata(fitted, tmp_path):
    clf, X, y = fitted
    rng = np.random.default_rng(1)
    new = {name: rng.permutation(values).tolist() for name, values in X.items()}
    clf.report(tmp_path / "README.md", new, y, title="Churn", notes="For *screening* only.")
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    facts = front_matter(text)
    assert facts["library_name"] == "tanager"
    [result] = facts["model-index"][0]["results"]
    found = {metric["type"]: metric["value"] for metric in result["metrics"]}
    labels = clf.network_.codebook.encode_labels(y).astype(int)
    shares = clf.predict_proba(new)
    assert found["accuracy"] == pytest.approx(clf.score(new, y), abs=1e-6)
    wanted = METRICS["log_loss"].function(shares, labels)
    assert found["log_loss"] == pytest.approx(wanted, abs=1e-6)
    assert f"| Accuracy | {found['accuracy']:.4f} |" in text
    assert "# Churn\n\nFor *screening* only.\n" in text
    prose = "".join(text.split("```")[::2])
    assert "<b>" not in prose  # names are no markup
    assert "\\<b\\>age" in prose
    assert "job\\|title" in text


def test_the_command_writes_a_card(fitted, tmp_path):
    tanager.save(fitted[0], tmp_path / "m.tanager")
    assert run(["report", str(tmp_path / "m.tanager"), "-o", str(tmp_path / "card.md")]) == 0
    text = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert text.startswith("---\n")
    assert "SHA-256 of the file" in text
    assert "## Evaluation" not in text


def test_other_endings_are_refused(fitted, tmp_path):
    clf, _, _ = fitted
    with pytest.raises(ConfigurationError, match=r"\.md"):
        clf.report(tmp_path / "card.pdf")
