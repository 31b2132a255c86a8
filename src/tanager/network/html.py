"""Networks, explanations, tables and answers in notebooks: small, self-contained HTML."""

from __future__ import annotations

from itertools import product
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.drawing import plan_drawing
from tanager.drawing.svg import card
from tanager.network.explanation import SPOKEN_FOR
from tanager.network.graph import network_graph
from tanager.network.information import NetworkInformation

if TYPE_CHECKING:
    from tanager.network.answers import Answer, LabelledTable
    from tanager.network.explanation import Explanation
    from tanager.network.network import Network

MAX_EFFECTS = 5
COMMON = 0.01  # share of rows from which a value is worth listing
MAX_ROWS, MAX_COLUMNS = 40, 30  # of a table
MAX_STEPS = 12  # of an explanation; the others are combined


def network_html(network: Network, title: str = "Network", facts: str = "") -> str:
    """Return a fitted network as an HTML fragment."""
    prior = np.exp(network.log_prior)
    target = 1 if len(prior) == 2 else int(prior.argmax())
    information = NetworkInformation(network)
    return card(
        "network.html.j2",
        title=title,
        facts=facts or network.summary(),
        network=network,
        prior=[(int(c), float(prior[c])) for c in np.argsort(-prior, kind="stable")],
        plan=plan_drawing(network_graph(network, information)),
        target=target,
        effects=_effects(information, target) if len(prior) > 1 else [],
        spoken_for=SPOKEN_FOR,
    )


def estimator_html(estimator: Any) -> str:
    """Return an estimator, fitted or not, as an HTML fragment."""
    title, network = " ".join(repr(estimator).split()), getattr(estimator, "network_", None)
    if network is None:
        return card("card.html.j2", title=title, facts="not fitted")
    stages = [stage for stage in estimator.info_.values() if isinstance(stage, dict)]
    seconds = sum(stage.get("seconds", 0.0) for stage in stages)
    fitted = f", fitted in {seconds:.2f} s" if seconds else ""  # not stored in model files
    return network_html(network, title, f"{network.summary()}{fitted}")


def _effects(information: NetworkInformation, target: int) -> list[dict[str, Any]]:
    """Return the effects of the most informative features, for and against one class."""
    bits, beyond = information.of_features() / log(2.0), information.beyond_parents() / log(2.0)
    found = []
    for feature in np.argsort(-bits, kind="stable")[:MAX_EFFECTS]:
        column = information.network.codebook.columns[feature]
        effect = information.effect(column.name, target) if bits[feature] > 0 else None
        if effect is None:
            continue
        joint = information.joint(column.name)
        common = np.ones(len(effect), bool)
        if joint is not None and len(effect) > 1:
            # With many bins, none may have that many rows; two values are always worth listing.
            shares = joint.sum(axis=1)
            common = shares >= min(COMMON, 0.5 / len(shares), np.sort(shares)[-2])
        most = int(np.where(common, effect, -np.inf).argmax())
        least, labels = int(np.where(common, effect, np.inf).argmin()), column.labels()
        ends = [(labels[at], float(effect[at])) for at in (most, least)]
        facts = {"name": column.name, "bits": bits[feature], "beyond": beyond[feature]}
        found.append({**facts, "ends": ends})
    return found


def explanation_html(explanation: Explanation) -> str:
    """Return the waterfall from prior to posterior, with the probability after each step."""
    order = np.argsort(-explanation.probabilities, kind="stable").tolist()
    steps = explanation.steps(MAX_STEPS)
    return card("explanation.html.j2", why=explanation, steps=steps, order=order)


def table_html(table: LabelledTable) -> str:
    """Return a table as a heat map with its scale."""
    return card("table.html.j2", table=table, shares=table.probabilities[:MAX_ROWS, :MAX_COLUMNS])


def answer_html(answer: Answer) -> str:
    """Return the answer to a query, with a bar per combination of values."""
    shares = answer.probabilities.ravel().tolist()
    pairs = (
        [] if answer.n_rows is not None else [*zip(product(*answer.values), shares, strict=True)]
    )
    return card("answer.html.j2", answer=answer, pairs=pairs)
