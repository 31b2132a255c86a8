"""The model's own page: one HTML file that shows the model and computes with it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tanager.atomic import write_text
from tanager.classifiers import load
from tanager.drawing import DrawingPlan, draw_svg, plan_drawing
from tanager.errors import ConfigurationError
from tanager.network import Costs, Network, NetworkInformation
from tanager.network.decisions import read_costs
from tanager.network.exports.javascript import scorer_source
from tanager.network.files import read_model
from tanager.network.graph import network_graph
from tanager.network.next_question import read_prices
from tanager.report.model_page.asked import asked_network, interval_tables, scorer_json
from tanager.report.model_page.card import Group, card_markdown, describe_model, render_notes
from tanager.report.model_page.features import (
    MAX_DETAILED,
    ShownClasses,
    counted_bits,
    describe_features,
    short_numbers,
    show_classes,
)
from tanager.report.model_page.held_out import (
    Measurement,
    baseline_probabilities,
    learning_curve,
    predict_held_out,
)
from tanager.report.model_page.rows import MAX_ROWS, PageRows, read_rows
from tanager.report.model_page.trust import compare_scores, describe_trust
from tanager.report.model_page.words import Ranking, how_measured, score_bars
from tanager.report.rendering import check_ending, render_page

BITS = float(np.log(2.0))  # nats in a bit
INTERVAL = 0.9  # level of the intervals beside probabilities
_SCRIPTS = ("dom", "effects", "network", "features", "whatif", "trust", "main")


@dataclass(frozen=True, eq=False)
class _Subject:
    """A model with what was measured of it."""

    model: Any
    network: Network
    information: NetworkInformation
    classes: ShownClasses
    ranking: Ranking
    rows: PageRows | None
    held: Measurement | None
    scores: dict[str, Any] | None
    costs: Costs | None = None
    prices: dict[str, float] = field(default_factory=dict)

    @property
    def target(self) -> str:
        return self.network.codebook.target.name or "class"

    @property
    def measured(self) -> str:
        """On which rows the scores stand, in words."""
        if self.held is None or self.rows is None:
            return ""
        rows, edited = self.rows, bool(self.network.history)
        return how_measured(self.held, len(rows.labels), rows.n_source, edited=edited)


def write_report(
    model: Any, path: str | os.PathLike[str], X: Any = None, y: Any = None, **options: Any
) -> None:
    """Write the page of a model: one HTML file that works offline.

    It shows what the model predicts and how well, draws the network and what
    every feature says, lets the reader ask "what if" with any inputs unknown,
    exactly as `predict_proba` answers, and tells how far to trust it.

    Parameters
    ----------
    model : BayesNetClassifier, Network or path of a model file
    path : path
        The page; with the ending ``.md`` the model card alone, as Markdown with the metadata
        that Hugging Face's hub reads.
    X, y : table and classes, optional
        What the model is measured on; `y` may be the name of a column of X.
        The page holds aggregates of them only. Rows that the model was fitted
        on are recognised, and predicted by cross-validation.
    **options
        As `render_report` has them.

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
    loadable_rows: int = 0,
    with_learning_curve: bool = False,
    with_refits: bool = False,
    max_rows: int = MAX_ROWS,
    markdown: bool = False,
    costs: Any = None,
    prices: Mapping[str, float] | float = 0.0,
    progress: Callable[[str], None] | None = None,
) -> str:
    """Return the page of a model as HTML, or its card as Markdown.

    Parameters
    ----------
    model, X, y
        As `write_report` has them.
    title : str, optional
    notes : str, optional
        Intended use and whatever else belongs on the model card, in simple
        Markdown.
    folds : int, optional
        Folds of the cross-validation where the rows are those of the fit, by
        default 5, or as many as there are rows; 0 measures on the fitted rows
        themselves, and says so. So does a single row.
    loadable_rows : int, default=0
        So many rows are written into the page, from the first, to be loaded by
        their number. Only then does the page hold rows.
    with_learning_curve : bool, default=False
        Fit again on a sixteenth to all of the rows.
    with_refits : bool, default=False
        Beside the log-loss with a part of the inputs unknown, draw that of the estimator fitted
        again on just the known ones: four more fits per fold.
    max_rows : int, default=100_000
        Of a larger table about so many rows are drawn.
    markdown : bool, default=False
        Return the model card alone.
    costs, prices : optional
        As for `BayesNetClassifier.decide` and `next_question`: the page then says what to do,
        and ranks questions by what they save.
    progress : callable, optional
        Is told in a few words what is being done.
    """
    tell = progress or (lambda _: None)
    file = Path(model) if isinstance(model, str | os.PathLike) else None
    estimator = load(file) if file is not None else model
    if X is not None and y is None:
        raise ConfigurationError(
            "X was passed without y. Pass y: the classes, or the name of their column in X."
        )
    _check_counts(loadable_rows, folds, max_rows)
    if with_learning_curve and X is None:
        raise ConfigurationError("A learning curve needs rows to fit on: pass X and y.")
    if loadable_rows and X is None:
        raise ConfigurationError("loadable_rows needs rows: pass X and y.")
    if markdown and (loadable_rows or with_learning_curve or with_refits):
        raise ConfigurationError(
            "A model card can't contain loadable rows, a learning curve or refits. Write an "
            "HTML page instead (.html)."
        )
    if with_refits and X is None:
        raise ConfigurationError("Refits need the training data: pass X and y.")
    subject = _examine(estimator, X, y, folds, max_rows, tell, with_refits=with_refits)
    if costs is not None:
        names, each = subject.network.structure.names, read_prices(subject.network, prices)
        subject = replace(
            subject,
            costs=read_costs(subject.network, costs),
            prices={name: price for name, price in zip(names, each, strict=True) if price},
        )
    rows, held, trust = subject.rows, subject.held, None
    title = title or f"Predicting {subject.target}"
    groups = describe_model(estimator, subject.network, rows, _describe_file(file))
    if markdown:
        facts = (subject.ranking, subject.scores, subject.measured, notes)
        return card_markdown(title, groups, *facts)
    if rows is not None and held is not None:
        trust = describe_trust(subject.network, subject.classes, rows, held.probabilities)
        trust["known"] = held.known
        if with_learning_curve:
            trust["learning"] = learning_curve(estimator, rows, progress)
    tell("page")
    return _compose(subject, title, groups, notes, trust, loadable_rows)


def _check_counts(loadable_rows: int, folds: int | None, max_rows: int) -> None:
    if loadable_rows < 0:
        raise ConfigurationError(
            f"loadable_rows={loadable_rows}. Allowed: 0 or more.", parameter="loadable_rows"
        )
    if folds is not None and (folds < 0 or folds == 1):
        raise ConfigurationError(
            f"folds={folds}. Allowed: 2 or more, or 0 to measure on the training rows themselves.",
            parameter="folds",
        )
    if max_rows < 1:
        raise ConfigurationError(f"max_rows={max_rows}. Allowed: 1 or more.")


def _examine(
    model: Any,
    X: Any,
    y: Any,
    folds: int | None,
    max_rows: int,
    tell: Callable[[str], None],
    *,
    with_refits: bool,
) -> _Subject:
    network: Network = getattr(model, "network_", model)
    if not isinstance(network, Network):
        raise ConfigurationError(
            "A page needs a fitted BayesNetClassifier, a Network or a model file, not "
            f"{type(model).__name__}. Fit the classifier first."
        )
    information = NetworkInformation(network)
    bits = information.of_features()[list(network.structure.selected)] / BITS
    rows = held = scores = losses = counted = None
    features, domain = network.structure.features, network.codebook.domain
    if X is not None:
        tell("reading rows")
        rows = read_rows(network, X, y, max_rows=max_rows)
        tell("predicting")
        held = predict_held_out(model, rows, folds=folds, with_refits=with_refits)
        if held.feature_losses:
            losses = [held.feature_losses.get(name) for name in features]
        tell("scores")
        counted = [
            counted_bits(rows.value_counts(one, int(domain.arities[one]), domain.n_classes))
            for one in network.structure.selected
        ]
        baselines = baseline_probabilities(network, rows)
        scores = compare_scores(held.probabilities, baselines, rows.labels)
    order = [int(at) for at in np.argsort(-bits, kind="stable")]
    ranking = Ranking(features, bits.tolist(), losses, order, counted)
    shown = show_classes(network)
    return _Subject(model, network, information, shown, ranking, rows, held, scores)


def _compose(
    subject: _Subject,
    title: str,
    groups: list[Group],
    notes: str | None,
    trust: dict[str, Any] | None,
    loadable_rows: int,
) -> str:
    network, held = subject.network, subject.held
    asked = asked_network(network, subject.ranking.order)
    content = _data(subject, asked, trust, loadable_rows)
    script = "(() => {\n" + scorer_source()
    script += "\n".join(page_asset(f"{name}.js") for name in _SCRIPTS) + "\n})();"
    info = getattr(subject.model, "info_", None) or {}
    graph = network_graph(network, subject.information)
    whole, folded = plan_drawing(graph, fold=False), plan_drawing(graph)
    return render_page(
        "model.html.j2",
        script=script,
        title=title,
        target=subject.target,
        network=network,
        asked=asked,
        class_names=[str(label) for label in network.codebook.classes],
        classes=subject.classes,
        fitted=info.get("codes", {}).get("rows"),
        learned={"found_again": None, "held_out_loss": None, **(info.get("parameters") or {})},
        held=held,
        flattering=held is not None and held.own_rows is True and held.folds == 0,
        measured=subject.measured,
        score_bars=None if subject.scores is None else list(score_bars(subject.scores)),
        standard_error=subject.scores and subject.scores["se"],
        ranking=subject.ranking,
        drawing=_drawing(whole, folded),
        legend=folded.legend,
        inside=np.sum([f["inside"] for f in content["features"] if "inside" in f] or [[0, 0]], 0),
        max_detailed=MAX_DETAILED,
        trusted=trust is not None,
        notes=render_notes(notes) if notes else "",
        groups=groups,
        has_rows=bool(loadable_rows),
        scorer=scorer_json(asked, subject.costs),
        data=json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
    )


def _describe_file(file: Path | None) -> list[tuple[str, str]]:
    if file is None:
        return []
    content = file.read_bytes()
    return [
        ("Model file", f"{len(content):,} bytes"),
        ("Written by", f"Tanager {read_model(file)[1].get('tanager', '?')}"),
        ("SHA-256 of the file", hashlib.sha256(content).hexdigest()),
    ]


def _data(
    subject: _Subject, asked: Network, trust: dict[str, Any] | None, loadable_rows: int
) -> dict[str, Any]:
    """Return what the page's scripts read."""
    network, held, classes = subject.network, subject.held, subject.classes
    ranking, order = subject.ranking, list(subject.ranking.order)
    features = describe_features(network, subject.information, classes, subject.rows, order)
    for at, facts in enumerate(features):
        facts["bits"] = round(ranking.bits[at], 5)
        loss = ranking.losses[at] if ranking.losses is not None else None
        if loss is not None:
            facts["loss"] = round(loss, 6)
    place = {name: at for at, name in enumerate(network.structure.features)}
    rank = {at: i for i, at in enumerate(order)}
    names = asked.structure.features
    arities = network.codebook.domain.arities[list(asked.structure.selected)]
    askable = [i for i in range(len(names)) if arities[i] > 1]  # one value says nothing
    by_use = sorted(askable, key=lambda i: rank[place[names[i]]])
    info = (getattr(subject.model, "info_", None) or {}).get("codes", {})
    prior = classes.gather(np.exp(network.log_prior))
    alone = prior[:-1] if classes.n_hidden else prior  # without the class that stands for the rest
    data: dict[str, Any] = {
        "target": subject.target,
        "classes": list(classes.names),
        "prior": short_numbers(prior),
        "positive": 1 if len(classes.places) == 2 else int(alone.argmax()),
        "features": features,
        "edges": _edges(subject),
        "order": order,
        "asked": by_use,
        "rows": info.get("rows"),
        "folds": held.folds if held is not None else 0,
        "scores": subject.scores,
        "trust": trust,
        "prices": subject.prices,
        "intervals": interval_tables(network, INTERVAL) if asked is network else None,
    }
    if loadable_rows and subject.rows is not None:
        first = np.argsort(subject.rows.index, kind="stable")[:loadable_rows]
        codes = subject.rows.codes[list(asked.structure.selected)][:, first].T
        labels = subject.rows.labels[first].tolist()
        data["loadable"] = [[y, x] for y, x in zip(labels, codes.tolist(), strict=True)]
    return data


def _edges(subject: _Subject) -> list[dict[str, Any]]:
    structure, held = subject.network.structure, subject.held
    place = {feature: at for at, feature in enumerate(structure.selected)}
    carried = subject.information.of_edges()
    out = []
    for at, parents in enumerate(structure.parent_indices):
        for parent in parents:
            edge = (structure.names[parent], structure.features[at])
            facts: dict[str, Any] = {"from": place[parent], "to": at}
            if edge in carried:
                facts["bits"] = round(carried[edge] / BITS, 5)
            if held is not None and edge in held.edge_losses:
                facts["loss"] = round(held.edge_losses[edge], 6)
            if held is not None and edge in held.edge_folds:
                facts["again"] = held.edge_folds[edge]
            out.append(facts)
    return out


def _drawing(whole: DrawingPlan, folded: DrawingPlan) -> str:
    """Return the network with many leaves folded, where there are many, and whole."""
    svgs = [draw_svg(whole, interactive=True, legend=False)]
    if folded.legend.folded:
        label = "The network, leaves folded"
        svgs.insert(0, draw_svg(folded, interactive=True, legend=False, label=label))
    return "".join(svgs)


@cache
def page_asset(name: str) -> str:
    """Return a file that pages are made of."""
    return files("tanager.report.model_page").joinpath("assets", name).read_text(encoding="utf-8")
