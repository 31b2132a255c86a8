"""The model card: facts in groups, and as Markdown with the metadata Hugging Face reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tanager.classifiers.bayesnet import short_fact
from tanager.classifiers.fitting import RUN_PARAMETERS
from tanager.codes import Codebook
from tanager.escaping import cut, one_line
from tanager.report.rendering import page_environment

# Internal facts of the stages, and those shown elsewhere on the page.
_NO_CHOICE = {
    *("seconds", "cpu_seconds", "passes", "peak_memory_mb"),
    *("mutual_information", "fingerprint", "rows"),
}
MOST_TEXT = 300  # characters of a fact


def column_facts(info: Mapping[str, Any], codebook: Codebook) -> list[tuple[str, str]]:
    """Return the findings of the column audit, columns it acted on first.

    A model file only records how columns are read.
    """
    audit = info.get("codes", {}).get("audit")
    found = [f for f in audit if isinstance(f, Mapping)] if isinstance(audit, list) else []
    if not found:
        texts = {
            name: "left out"
            if one.kind == "nothing"
            else f"text read as {one.kind}s" + ("" if one.style == "plain" else f" ({one.style})")
            for name, one in codebook.readings.items()
        }
        return list(texts.items())[:20]
    found.sort(key=lambda f: f.get("action") == "none")
    return [
        (str(f.get("column")), f"{f.get('verdict')}, {f.get('action')}: {f.get('reason')}")
        for f in found[:20]
    ]


def option_facts(model: Any) -> list[tuple[str, str]]:
    """Return the options of an estimator that its model depends on."""
    if not hasattr(model, "get_params"):
        return []
    options = model.get_params(deep=False).items()
    return [(name, cut(value, MOST_TEXT)) for name, value in options if name not in RUN_PARAMETERS]


def training_facts(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the training time and the choices of the stages of the fit."""
    stages = [stage for stage in info.values() if isinstance(stage, Mapping)]
    seconds = sum(float(stage.get("seconds", 0.0)) for stage in stages)
    facts = [("Training time", f"{seconds:.2f} s")] if seconds else []
    for stage, content in info.items():
        if isinstance(content, Mapping):
            for name, value in content.items():
                text = "" if value is None or name in _NO_CHOICE else short_fact(value)
                if text not in ("", "none"):
                    facts.append((f"{stage}: {name.replace('_', ' ')}", cut(text, MOST_TEXT)))
    return facts


def card_markdown(**facts: Any) -> str:
    """Return the card: metadata, notes, usage, scores, features and facts."""
    environment = page_environment()
    environment.autoescape = False
    environment.filters.update(plain=_text, json=json.dumps)
    text: str = environment.get_template("card.md.j2").render(**facts)
    return f"{text.strip()}\n"


def _text(text: str) -> str:
    """Escape a text for Markdown and HTML: names come from tables."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", one_line(text))
