"""The model card as Markdown, with the metadata that Hugging Face's hub reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tanager.escaping import visible
from tanager.report.model_page.card import Group
from tanager.report.model_page.glance import Ranking

__all__ = ["card_markdown"]

MOST = 10  # features that are listed
METRICS = {"accuracy": "Accuracy", "log_loss": "Log-loss", "ece": "Calibration error"}
USE = """```python
import tanager

clf = tanager.load("model.tanager")
clf.predict_proba({{{row}}})
```"""


def card_markdown(
    title: str,
    groups: Sequence[Group],
    ranking: Ranking,
    scores: Mapping[str, Any] | None,
    measured: str,
    notes: str | None,
) -> str:
    """Return the card: metadata, notes, how to use it, scores, features and facts."""
    parts = [_metadata(title, scores), f"# {_text(title)}"]
    if notes:
        parts.append(notes.strip())
    row = ", ".join(f"{json.dumps(name)}: ..." for name in ranking.names[:3])
    more = ", ..." if len(ranking.names) > 3 else ""
    parts += ["## How to use it", USE.format(row=row + more)]
    if scores is not None:
        parts += ["## Evaluation", measured, _score_table(scores)]
    features = [(ranking.names[at], f"{ranking.bits[at]:.3f}") for at in ranking.order[:MOST]]
    parts += [
        "## Most informative features",
        "What each feature, known alone, says about the class, in bits.",
        _table(("feature", "bits"), features),
    ]
    for name, facts in groups:
        parts += [f"## {_text(name)}", "\n".join(f"- **{_text(k)}**: {_text(v)}" for k, v in facts)]
    return "\n\n".join(parts) + "\n"


def _metadata(title: str, scores: Mapping[str, Any] | None) -> str:
    """Return the front matter; JSON's texts and lists are YAML's too."""
    facts: dict[str, Any] = {
        "library_name": "tanager",
        "pipeline_tag": "tabular-classification",
        "tags": ["tabular-classification", "bayesian-network"],
    }
    if scores is not None:
        metrics = [
            {"type": kind, "name": METRICS[kind], "value": round(value, 6)}
            for kind, value in _numbers(scores["model"]).items()
        ]
        result = {
            "task": {"type": "tabular-classification"},
            "dataset": {"type": "tabular", "name": f"{scores['rows']} rows"},
            "metrics": metrics,
        }
        facts["model-index"] = [{"name": title, "results": [result]}]
    return "\n".join(["---", *(f"{key}: {json.dumps(v)}" for key, v in facts.items()), "---"])


def _numbers(scores: Mapping[str, float]) -> dict[str, float]:
    errors, loss, calibration = (scores[key] for key in ("errors", "loss", "calibration"))
    return {"accuracy": 1.0 - errors, "log_loss": loss, "ece": calibration}


def _score_table(scores: Mapping[str, Any]) -> str:
    columns = [_numbers(scores[who]) for who in ("model", "naive", "shares")]
    rows = [
        (name, *(f"{column[kind]:.4f}" for column in columns)) for kind, name in METRICS.items()
    ]
    return _table(("", "this model", "naive Bayes", "class frequencies"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_text, line)) + " |" for line in lines)


def _text(text: str) -> str:
    """Return a text that Markdown and HTML take as it is: names come from tables."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(visible(text).split()))
