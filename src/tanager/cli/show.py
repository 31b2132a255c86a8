"""``tanager show`` and ``demo``: what a model has learned, and a first look at a real dataset."""

from __future__ import annotations

import time
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer

from tanager.cli.options import Model, given_flags
from tanager.cli.output import console, human_size, plain, plain_table, print_json
from tanager.codes.reading import Reading
from tanager.errors import ConfigurationError
from tanager.network import Network, NetworkInformation
from tanager.network.files import read_model
from tanager.network.information import SPOKEN_FOR, n_probabilities

BAR_WIDTH = 12
DEMO_SEED = 7


def show(
    context: typer.Context,
    model: Model,
    table: list[str] | None = None,
    sort: str = "context",
    as_json: bool = False,
) -> None:
    """Show what a model has learned: structure, features, tables.

    Options:
        table: Print a feature's probability table; may be repeated. 'all': every feature.
        sort: Order of a table's rows: context, parents or center.
    """
    if given_flags(context, "sort") and not table:
        raise ConfigurationError("--sort needs --table FEATURE.")
    network, header = read_model(model)
    names = list(network.structure.features) if table == ["all"] else table or []
    tables = [network.table(name).sorted(sort) for name in names]
    facts = _facts(network, header, model)
    if as_json:
        parts = ("feature", "given", "values", "contexts")
        facts["tables"] = [
            {part: getattr(t, part) for part in parts} | {"probabilities": t.probabilities.tolist()}
            for t in tables
        ]
        print_json(facts)
        return
    if not tables:
        _print_facts(facts)
        print_structure(network)
        console().print(f"For the full report with plots: tanager report {model}", markup=False)
    for t in tables:
        console().print(str(t), markup=False)


def _facts(network: Network, header: dict[str, Any], path: Path) -> dict[str, Any]:
    structure, codebook, info = network.structure, network.codebook, header.get("info", {})
    information = NetworkInformation(network)
    cells = [n_probabilities(table) for table in network.tables.families]
    prior, names = np.exp(network.log_prior).tolist(), codebook.domain.names
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "tanager": header.get("tanager"),
        "structure": _describe(header, "structure"),
        # An imported network wasn't fitted, whatever the estimator's parameters are.
        "parameters": _describe(header, "parameters") if info else "given",
        "max_parents": info.get("structure", {}).get("max_parents"),
        "rows": info.get("codes", {}).get("rows"),
        "missing": codebook.missing,
        "target": codebook.target.name,
        "prior": dict(zip(map(str, codebook.classes), prior, strict=True)),
        "history": [str(edit) for edit in network.history],
        "readings": {name: _how(reading) for name, reading in codebook.readings.items()},
        "monotonic": _monotonic(header, [str(label) for label in codebook.classes]),
        "n_features": codebook.domain.n_features,
        "n_selected": len(structure.selected),
        "n_edges": sum(map(len, structure.parent_indices)),
        "n_probabilities": int(sum(cells)) + len(codebook.classes),
        "features": {
            name: {
                "kind": codebook.columns[at].kind,
                "values": int(codebook.domain.arities[at]),
                "parents": list(structure.parents[name]),
                "probabilities": int(n),
            }
            for name, at, n in zip(structure.features, structure.selected, cells, strict=True)
        },
        "left_out": [name for name in structure.names if name not in set(structure.features)],
        "information": dict(zip(names, information.of_features().tolist(), strict=True)),
        "information_beyond_parents": {
            name: float(nats) if np.isfinite(nats) else None
            for name, nats in zip(names, information.beyond_parents(), strict=True)
        },
        "edges": [
            {"parent": parent, "feature": feature, "information": carried}
            for (parent, feature), carried in information.of_edges().items()
        ],
    }


def _how(reading: Reading) -> str:
    """Describe how a column is read."""
    if reading.kind == "nothing":
        return "left out"
    how = "with a" if reading.kind == "number" else "as"
    style = "" if reading.style in ("plain", "ISO") else f" written {how} {reading.style}"
    return f"read as {reading.kind}s{style}"


def _monotonic(header: dict[str, Any], classes: list[str]) -> dict[str, str]:
    """Describe for each monotonic feature which class rises or falls along it."""
    stored = (header.get("estimator") or {}).get("monotonic")
    found = {}
    for name, asked in stored.get("$map", []) if isinstance(stored, dict) else []:
        pairs = asked.get("$map", []) if isinstance(asked, dict) else [[classes[-1], asked]]
        words = [f"{label} {'rises' if sign > 0 else 'falls'}" for label, sign in pairs]
        found[str(name)] = ", ".join(words)
    return found


def _describe(header: dict[str, Any], axis: str) -> str:
    """Return a learner's specification: ``kdb`` or ``KDB(k=2)``."""
    stored = (header.get("estimator") or {}).get(axis)
    if not isinstance(stored, dict):
        return str(stored) if stored else "given"
    name = str(stored.get("$object", "")).partition(":")[2]
    if name == "Fixed":
        return "given"
    options = stored.get("parameters", {})
    return f"{name}({', '.join(f'{k}={v}' for k, v in options.items())})"


def _print_facts(facts: dict[str, Any]) -> None:
    out = console()
    shown = list(facts["prior"].items())
    prior = ", ".join(f"{label} {p:.3f}" for label, p in shown[:8])
    more = f", … {len(shown) - 8} more" if len(shown) > 8 else ""
    most = "" if facts["max_parents"] is None else f", up to {facts['max_parents']} parents"
    lines = [
        f"{facts['model']}  {human_size(facts['bytes'])}, written by Tanager {facts['tanager']}",
        f"structure   {facts['structure']}{most}: {facts['n_selected']} of "
        f"{facts['n_features']} features, {facts['n_edges']} edges",
        f"parameters  {facts['parameters']}: {facts['n_probabilities']:,} probabilities",
        f"target      {facts['target']}: {prior}{more}",
        f"missing     {'a separate value' if facts['missing'] == 'value' else 'marginalized'}",
    ]
    if facts["rows"]:
        lines.append(f"trained on  {facts['rows']:,} rows")
    lines += [f"column      {name} {how}" for name, how in facts["readings"].items()]
    lines += [f"monotonic   {how} along {name}" for name, how in facts["monotonic"].items()]
    lines += [f"edited      {edit}" for edit in facts["history"]]
    out.print("\n".join([*lines, ""]), markup=False)


def print_structure(network: Network, most: int = 60) -> None:
    """Print each feature with its parents and their mutual information, highest first."""
    structure, arities = network.structure, network.codebook.domain.arities
    information = NetworkInformation(network)
    bits = information.of_features() / log(2.0)
    edges = information.of_edges()
    order = sorted(structure.selected, key=lambda feature: -bits[feature])
    beyond = information.beyond_parents() / log(2.0)
    columns = ("feature", "values", "bits", "", "beyond", "parents other than the class")
    table = plain_table(*columns, left=(0, 3, 5))
    top = bits.max(initial=0.0) or 1.0
    for feature in order[:most]:
        name = structure.names[feature]
        parents = [
            f"{parent} {edges[parent, name] / log(2.0):.3f}" if (parent, name) in edges else parent
            for parent in structure.parents[name]
        ]
        bar = "█" * round(BAR_WIDTH * float(bits[feature] / top))
        cells = [str(int(arities[feature])), f"{bits[feature]:.3f}", bar, f"{beyond[feature]:.3f}"]
        table.add_row(plain(name), *cells, plain(", ".join(parents)))
    out = console()
    out.print(table)
    if len(order) > most:
        out.print(f"… {len(order) - most} more; see --json")
    left = [name for name in structure.names if name not in set(structure.features)]
    if left:
        out.print(f"left out: {', '.join(left)}", markup=False)
    out.print(
        "\nBits: mutual information with the class; beyond: the same, given the feature's parents. "
        "Next to a parent: its mutual information with the feature, given the class."
    )
    out.print(SPOKEN_FOR)


def demo() -> None:
    """Train on an example dataset and show the result.

    Uses scikit-learn's breast cancer dataset: is a tumour benign or malignant?
    """
    from sklearn.datasets import load_breast_cancer

    from tanager.classifiers.bayesnet import BayesNetClassifier
    from tanager.cli.ask import print_explanation
    from tanager.cli.predict import print_sheet
    from tanager.evaluation.metrics import make_sheet
    from tanager.network.explanation import explain_row

    data = load_breast_cancer()
    table = pa.table(dict(zip(map(str, data.feature_names), data.data.T, strict=True)))
    labels = data.target_names[data.target].astype(object)
    order = np.random.default_rng(DEMO_SEED).permutation(table.num_rows)
    train, test = order[: 2 * len(order) // 3], order[2 * len(order) // 3 :]
    out = console()
    out.print("[bold]Benign or malignant? (breast cancer, scikit-learn)[/]")
    out.print(f"{len(train):,} training rows, {len(test):,} held out\n")
    estimator = BayesNetClassifier(random_state=DEMO_SEED)
    start = time.process_time()
    estimator.fit(table.take(train), labels[train])
    out.print(f"{estimator.network_.summary()}; {time.process_time() - start:.2f} CPU s\n")
    chances = estimator.predict_proba(table.take(test))
    truth = estimator.network_.codebook.encode_labels(labels[test])
    print_sheet(make_sheet(chances, truth, tuple(estimator.classes_)))
    out.print("\n[bold]What was learned[/]: which features condition which")
    print_structure(estimator.network_)
    # A row that is neither certain nor a toss-up has an explanation worth reading.
    row = int(np.argmin(np.abs(chances.max(axis=1) - 0.9)))
    one = table.slice(int(test[row]), 1)
    out.print(f"\n[bold]One held-out row, explained[/] (it is {labels[test[row]]!s})")
    print_explanation(explain_row(estimator.network_, one))
