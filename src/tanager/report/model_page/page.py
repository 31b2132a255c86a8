"""The HTML report of a model: one file that shows the model and computes with it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tanager import __version__
from tanager.atomic import write_text
from tanager.classifiers.bayesnet import short_fact
from tanager.classifiers.files import load
from tanager.classifiers.fitting import RUN_PARAMETERS
from tanager.codes import Codebook
from tanager.drawing import draw_svg, plan_drawing
from tanager.errors import ConfigurationError, invalid
from tanager.escaping import cut, one_line
from tanager.network import Costs, NetworkInformation
from tanager.network.decisions import read_costs
from tanager.network.exports.javascript import scorer_source
from tanager.network.files import read_model
from tanager.network.graph import network_graph
from tanager.network.information import n_probabilities
from tanager.network.network import network_of
from tanager.network.next_question import read_prices
from tanager.report.model_page import network as page_data
from tanager.report.model_page.rows import (
    MAX_ROWS,
    Measurement,
    PageRows,
    logistic_regression,
    predict_held_out,
    read_rows,
)
from tanager.report.model_page.trust import compare_scores, describe_trust
from tanager.report.page import check_ending, page_environment, render_page

BITS = float(np.log(2.0))  # nats in a bit
INTERVAL = 0.9  # level of the intervals next to probabilities
_ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = ("dom", "effects", "network", "features", "whatif", "trust", "main")
# Internal facts of the stages, and those shown elsewhere on the page.
_NO_CHOICE = {
    *("seconds", "cpu_seconds", "passes", "peak_memory_mb"),
    *("mutual_information", "fingerprint", "rows"),
}
MOST_TEXT = 300  # characters of a fact


class _Subject:
    """A model with its measurements, as the templates and scripts read them."""

    def __init__(
        self, model: Any, file: list[tuple[str, str]], tell: Callable[[str], None]
    ) -> None:
        self.model, self.file, self.tell = model, file, tell
        self.network = network_of(model)
        self.info = getattr(model, "info_", None) or {}
        self.fitted = self.info.get("codes", {}).get("rows")
        self.information = NetworkInformation(self.network)
        self.classes = page_data.show_classes(self.network)
        self.names = self.network.structure.features
        # By feature: mutual information in bits, also in the rows with its standard error, and the
        # loss without it.
        self.bits = self.information.of_features()[list(self.network.structure.selected)] / BITS
        self.order: list[int] = np.argsort(-self.bits, kind="stable").tolist()
        self.counted: list[tuple[float, float]] = []
        self.losses: list[float | None] = []
        self.asked = page_data.asked_network(self.network, self.order)
        self.target = self.network.codebook.class_name
        self.rows: PageRows | None = None
        self.held: Measurement | None = None
        self.scores: dict[str, Any] | None = None
        self.trust: dict[str, Any] = {}
        self.costs: Costs | None = None
        self.prices: dict[str, float] = {}

    def measure(self, rows: PageRows, folds: int | None, *, with_refits: bool) -> None:
        """Evaluate the model on rows."""
        network = self.network
        self.tell("predicting")
        held = predict_held_out(self.model, rows, folds=folds, with_refits=with_refits)
        self.tell("scores")
        counts = map(rows.value_counts, network.structure.selected)
        self.counted = list(map(page_data.counted_bits, counts))
        if held.feature_losses:
            self.losses = [held.feature_losses.get(name) for name in self.names]
        logistic = logistic_regression(network, rows)
        self.scores = compare_scores(held.probabilities, logistic, rows.labels)
        trust = describe_trust(network, self.classes, rows, held.probabilities)
        self.rows, self.held, self.trust = rows, held, {**trust, "known": held.known}

    def read_costs(self, costs: Any, prices: Mapping[str, float] | float) -> None:
        """Read the costs of actions and the prices of questions."""
        self.costs = read_costs(self.network, costs)
        pairs = zip(self.network.structure.names, read_prices(self.network, prices), strict=True)
        self.prices = {name: price for name, price in pairs if price}

    @property
    def n_probabilities(self) -> int:
        """Number of probabilities in the model, including the class prior."""
        tables = self.network.tables
        return int(sum(map(n_probabilities, tables.families))) + tables.log_prior.size

    def facts(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return the groups of the card that depend on the model."""
        edits = [(str(at), cut(edit, MOST_TEXT)) for at, edit in enumerate(self.network.history, 1)]
        versions = {"Python": platform.python_version(), "NumPy": np.__version__}
        columns = column_facts(self.info, self.network.codebook)
        given = self.model.get_params(deep=False) if hasattr(self.model, "get_params") else {}
        options = [(k, cut(v, MOST_TEXT)) for k, v in given.items() if k not in RUN_PARAMETERS]
        return [
            ("Edits by hand", edits),
            ("Columns read differently from how they are stored", columns),
            ("Options", options),
            ("Training", training_facts(self.info)),
            ("Environment", [("Tanager", __version__), *versions.items()]),
        ]

    @cached_property
    def drawings(self) -> list[Any]:
        """The full network, preceded by one with leaves folded if it has many leaves."""
        graph = network_graph(self.network, self.information)
        plans = [plan_drawing(graph), plan_drawing(graph, fold=False)]
        return plans if plans[0].legend.folded else plans[1:]

    def svg(self, plan: Any) -> str:
        """Return one of the drawings."""
        label = "The network, leaves folded" if plan.legend.folded else "The network"
        return draw_svg(plan, interactive=True, label=label)

    @cached_property
    def features(self) -> list[dict[str, Any]]:
        """Facts about every feature, in detail for the most informative."""
        features, losses = [], self.losses or [None] * len(self.names)
        structure, columns = self.network.structure, self.network.codebook.columns
        for at, parents in enumerate(structure.parent_positions()):
            facts = page_data.feature_facts(columns[structure.selected[at]], parents)
            if at in self.order[: page_data.MAX_DETAILED]:
                facts |= page_data.feature_details(self.information, at, self.classes, self.rows)
            facts["bits"] = round(float(self.bits[at]), 5)
            if (loss := losses[at]) is not None:
                facts["loss"] = round(loss, 6)
            features.append(facts)
        return features

    def data(self) -> dict[str, Any]:
        """Return the data for the page's scripts."""
        network, asked, classes = self.network, self.asked, self.classes
        place = {name: at for at, name in enumerate(self.names)}
        rank = {at: i for i, at in enumerate(self.order)}
        names = asked.structure.features
        arities = network.codebook.domain.arities[list(asked.structure.selected)]
        askable = [i for i in range(len(names)) if arities[i] > 1]  # one value: no information
        prior = classes.gather(np.exp(network.log_prior))
        alone = prior[:-1] if classes.n_hidden else prior  # without the place of all other classes
        return {
            "target": self.target,
            "classes": list(classes.names),
            "prior": page_data.short_numbers(prior),
            "positive": 1 if len(classes.places) == 2 else int(alone.argmax()),
            "features": self.features,
            "edges": self._edges(),
            "order": self.order,
            "asked": sorted(askable, key=lambda i: rank[place[names[i]]]),
            "rows": self.fitted,
            "folds": self.held.folds if self.held is not None else 0,
            "scores": self.scores,
            "trust": self.trust or None,
            "prices": self.prices,
            "intervals": page_data.interval_tables(network, INTERVAL) if asked is network else None,
        }

    def _edges(self) -> list[dict[str, Any]]:
        out, carried = [], self.information.of_edges()
        folds = self.held.edge_folds if self.held is not None else {}
        for at, parents in enumerate(self.network.structure.parent_positions()):
            for parent in parents:
                edge = (self.names[parent], self.names[at])
                facts: dict[str, Any] = {"from": parent, "to": at}
                if edge in carried:
                    facts["bits"] = round(carried[edge] / BITS, 5)
                if edge in folds:
                    facts["again"] = folds[edge]
                out.append(facts)
        return out


def write_report(
    model: Any, path: str | os.PathLike[str], X: Any = None, y: Any = None, **options: Any
) -> None:
    """Write the page of a model: one HTML file that works offline.

    It shows what the model predicts and how well and how far to trust it, plots the network and
    every feature's effect, and answers what-if queries with any inputs unknown, exactly as
    `predict_proba` does.

    Parameters
    ----------
    model : BayesNetClassifier, Network or path of a model file
    path : path
        The page; with ``.md``, only the model card, with the metadata the Hugging Face Hub reads.
    X, y : table and classes, optional
        Rows to evaluate the model on; `y` may be the name of a column of X. The page contains only
        aggregates of them. Training rows are recognised, and predicted by cross-validation.
    **options
        Those of `render_report`.

    Examples
    --------
    >>> import tempfile, os
    >>> from tanager import BayesNetClassifier
    >>> from tanager.report import write_report
    >>> X = [["a", "u"], ["b", "u"], ["a", "v"], ["b", "v"]] * 10
    >>> clf = BayesNetClassifier("tan", "laplace").fit(X, ["no", "yes", "no", "yes"] * 10)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = os.path.join(folder, "report.html")
    ...     write_report(clf, page)
    ...     os.path.getsize(page) < 200_000
    True
    """
    check_ending(path, card=True)
    if Path(path).suffix.lower() == ".md":
        options["markdown"] = True
    write_text(path, render_report(model, X, y, **options))


def render_report(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    notes: str | None = None,
    folds: int | None = None,
    max_rows: int = MAX_ROWS,
    markdown: bool = False,
    with_refits: bool = False,
    costs: Any = None,
    prices: Mapping[str, float] | float = 0.0,
    progress: Callable[[str], None] | None = None,
) -> str:
    """Return the page of a model as HTML, or its card as Markdown.

    Parameters
    ----------
    model, X, y
        As in `write_report`.
    title : str, optional
    notes : str, optional
        Intended use and other notes for the model card, as plain text.
    folds : int, optional
        Cross-validation folds if the rows are the training rows, by default 5, or the number of
        rows; 0 (or a single row) evaluates on the training rows themselves, and the page says so.
    max_rows : int, default=100_000
        From a larger table, about this many rows are sampled.
    markdown : bool, default=False
        Return only the model card.
    with_refits : bool, default=False
        Also refit the estimator on random subsets of the columns, to compare with the loss with
        only those known: four more fits per fold.
    costs, prices : optional
        As for `BayesNetClassifier.decide` and `next_question`: the page then shows decisions,
        and ranks questions by the cost they save.
    progress : callable, optional
        Called with a short description of each step.
    """
    file = Path(model) if isinstance(model, str | os.PathLike) else None
    estimator = load(file) if file is not None else model
    if folds is not None and (folds < 0 or folds == 1):
        raise invalid("folds", folds, "2 or more, or 0 to evaluate on the training rows themselves")
    if max_rows < 1:
        raise invalid("max_rows", max_rows, "1 or more")
    if X is not None and y is None:
        raise ConfigurationError(
            "X was passed without y. Pass y: the classes, or the name of their column in X."
        )
    tell = progress or (lambda _: None)
    subject = _Subject(estimator, _describe_file(file) if file is not None else [], tell)
    if X is not None:
        rows = read_rows(subject.network, X, y, max_rows=max_rows)
        subject.measure(rows, folds, with_refits=with_refits)
    if costs is not None:
        subject.read_costs(costs, prices)
    facts = {"title": title or f"Predicting {subject.target}", "page": subject, "notes": notes}
    if markdown:
        return card_markdown(**facts)
    tell("page")
    files = [(_ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS]
    data = json.dumps(subject.data(), separators=(",", ":"), allow_nan=False)
    return render_page(
        "model.html.j2",
        script="\n".join(["(() => {", scorer_source(), *files, "})();"]),
        scorer=page_data.scorer_json(subject.asked, subject.costs),
        data=data.replace("<", "\\u003c"),
        max_detailed=page_data.MAX_DETAILED,
        **facts,
    )


def _describe_file(file: Path) -> list[tuple[str, str]]:
    content = file.read_bytes()
    return [
        ("Model file", f"{len(content):,} bytes"),
        ("Written by", f"Tanager {read_model(file)[1].get('tanager', '?')}"),
        ("SHA-256 of the file", hashlib.sha256(content).hexdigest()),
    ]


def column_facts(info: Mapping[str, Any], codebook: Codebook) -> list[tuple[str, str]]:
    """Return the audit's findings, those acted on first, or how a model file's columns are read."""
    audit = info.get("codes", {}).get("audit")
    found = [f for f in audit if isinstance(f, Mapping)] if isinstance(audit, list) else []
    texts = [
        (str(f.get("column")), f"{f.get('verdict')}, {f.get('action')}: {f.get('reason')}")
        for f in sorted(found, key=lambda f: f.get("action") == "none")
    ]
    for name, one in codebook.readings.items() if not found else ():
        style = "" if one.style == "plain" else f" ({one.style})"
        how = "left out" if one.kind == "nothing" else f"text read as {one.kind}s{style}"
        texts.append((name, how))
    return texts[:20]


def training_facts(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the training time and the choices of the stages of the fit."""
    stages = {name: stage for name, stage in info.items() if isinstance(stage, Mapping)}
    seconds = sum(float(stage.get("seconds", 0.0)) for stage in stages.values())
    facts = [("Training time", f"{seconds:.2f} s")] if seconds else []
    for stage, content in stages.items():
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
