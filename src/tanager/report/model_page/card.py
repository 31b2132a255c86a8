"""The model card: facts in groups, as HTML and as Markdown with the metadata Hugging Face reads."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager import __version__
from tanager.classifiers.fitting import RUN_PARAMETERS
from tanager.codes import Codebook
from tanager.escaping import visible
from tanager.network import Network
from tanager.network.information import n_probabilities
from tanager.report.rendering import page_environment

if TYPE_CHECKING:
    from tanager.report.model_page.rows import PageRows

# What stages report about themselves, and what stands elsewhere on the page.
_NO_CHOICE = {
    *("seconds", "cpu_seconds", "passes", "peak_memory_mb"),
    *("mutual_information", "fingerprint", "rows"),
}

Group = tuple[str, list[tuple[str, str]]]


def describe_model(
    model: Any, network: Network, rows: PageRows | None, file: list[tuple[str, str]]
) -> list[Group]:
    """Return groups of facts: (title, [(name, text), ...]); `file` are those of the model file."""
    info = getattr(model, "info_", {}) or {}
    groups = [
        ("Data", _data(network, rows, info)),
        ("Model", [*_model(network), *file]),
        ("Columns read differently from how they are stored", _audit(info, network.codebook)),
        ("Options", _options(model)),
        ("Training", _choices(info)),
        (
            "Environment",
            [
                ("Tanager", __version__),
                ("Python", platform.python_version()),
                ("NumPy", np.__version__),
            ],
        ),
    ]
    edits = [(str(at), _one_line(edit)) for at, edit in enumerate(network.history, 1)]
    groups.insert(2, ("Edits by hand", edits))
    return [(title, facts) for title, facts in groups if facts]


def _data(
    network: Network, rows: PageRows | None, info: Mapping[str, Any]
) -> list[tuple[str, str]]:
    codebook = network.codebook
    facts = []
    fitted = info.get("codes", {}).get("rows")
    if fitted:
        facts.append(("Training rows", f"{int(fitted):,}"))
    if rows is not None:
        n = rows.labels.shape[0]
        sample = "" if n == rows.n_source else f"{n:,} sampled from "
        facts.append(("Evaluation rows", f"{sample}{rows.n_source:,}"))
    kinds = [column.kind for column in codebook.columns]
    features = f"{kinds.count('numeric')} numeric, {kinds.count('categorical')} categorical"
    policy = "a separate value" if codebook.missing == "value" else "marginalized out"
    return [
        *facts,
        ("Target", codebook.target.name or "class"),
        ("Classes", _list([str(label) for label in codebook.classes])),
        ("Features", features),
        ("Missing values", policy),
    ]


def _model(network: Network) -> list[tuple[str, str]]:
    structure, tables = network.structure, network.tables
    cells = sum(map(n_probabilities, tables.families))
    used = set(structure.selected)
    left = [name for at, name in enumerate(structure.names) if at not in used]
    facts = [
        ("Features in the network", f"{len(used)} of {len(structure.names)}"),
        ("Edges between features", f"{sum(map(len, structure.parent_indices)):,}"),
        ("Probabilities", f"{cells + tables.log_prior.size:,}"),
        ("Tables", "probabilities" if tables.normalized else "scores (the posterior is exact)"),
    ]
    if left:
        facts.append(("Features left out", _list(left)))
    return facts


def _audit(info: Mapping[str, Any], codebook: Codebook) -> list[tuple[str, str]]:
    """Return what the audit of the columns found, those it acted on first.

    A model file tells only how columns are read.
    """
    found = [f for f in info.get("codes", {}).get("audit", ()) if isinstance(f, Mapping)]
    if not found:
        return [
            (
                name,
                "left out"
                if reading.kind == "nothing"
                else f"text read as {reading.kind}s{_style(reading.style)}",
            )
            for name, reading in list(codebook.readings.items())[:20]
        ]
    found.sort(key=lambda f: f.get("action") == "none")
    return [
        (str(f.get("column")), f"{f.get('verdict')}, {f.get('action')}: {f.get('reason')}")
        for f in found[:20]
    ]


def _style(style: str) -> str:
    """Return how texts are written, where that isn't the usual way."""
    return "" if style == "plain" else f" ({style})"


def _options(model: Any) -> list[tuple[str, str]]:
    if not hasattr(model, "get_params"):
        return []
    options = model.get_params(deep=False).items()
    return [(name, _one_line(value)) for name, value in options if name not in RUN_PARAMETERS]


def _choices(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    stages = [stage for stage in info.values() if isinstance(stage, Mapping)]
    seconds = sum(float(stage.get("seconds", 0.0)) for stage in stages)
    facts = [("Training time", f"{seconds:.2f} s")] if seconds else []
    for stage, content in info.items():
        if isinstance(content, Mapping):
            for name, value in content.items():
                if name not in _NO_CHOICE:
                    text = _choice(value)
                    if text:
                        facts.append((f"{stage}: {name.replace('_', ' ')}", text))
    return facts


def _choice(value: Any) -> str:
    """Return a choice in a few words; nothing for what is no choice to read."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, bool | int | str):
        return str(value)[:200]
    if isinstance(value, list | tuple) and 0 < len(value) <= 12:
        texts = [_choice(item) for item in value]
        return ", ".join(texts) if all(texts) and max(map(len, texts)) < 60 else ""
    return ""


def _list(names: Sequence[str], most: int = 20) -> str:
    more = f", … {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name if len(name) <= 60 else f"{name[:59]}…" for name in names[:most]) + more


def _one_line(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 300 else f"{text[:299]}…"


def render_notes(text: str) -> str:
    r"""Return notes in simple Markdown as HTML: headings, lists, paragraphs, bold, code.

    Anything else stays the text it is; no markup of the notes reaches the page.

    >>> render_notes("# Use\n\nFor **screening** only, <b>never</b> alone.")
    '<h3>Use</h3><p>For <b>screening</b> only, &lt;b&gt;never&lt;/b&gt; alone.</p>'
    """
    parts = []
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n").strip()):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        while lines and (heading := re.match(r"#{1,6}\s+(.*)", lines[0])):
            parts.append(f"<h3>{_inline(heading[1])}</h3>")
            lines = lines[1:]
        if lines and all(re.match(r"[-*]\s+", line) for line in lines):
            items = "".join(f"<li>{_inline(re.sub(r'^[-*] +', '', line))}</li>" for line in lines)
            parts.append(f"<ul>{items}</ul>")
        elif lines:
            parts.append(f"<p>{_inline(' '.join(lines))}</p>")
    return "".join(parts)


def _inline(text: str) -> str:
    text = escape(text, quote=False)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def card_markdown(**facts: Any) -> str:
    """Return the card: metadata, notes, how to use it, scores, features and facts."""
    environment = page_environment()
    environment.autoescape = False
    environment.filters.update(plain=_text, json=json.dumps)
    text: str = environment.get_template("card.md.j2").render(**facts)
    return f"{text.strip()}\n"


def _text(text: str) -> str:
    """Return a text that Markdown and HTML take as it is: names come from tables."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(visible(text).split()))
