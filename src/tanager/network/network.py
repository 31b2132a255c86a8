"""The network: a codebook, a structure and tables.

What it does beyond scoring rows is written in the module of that name, as functions of a network,
and listed in the class under the names of its methods.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codebook, Codes, Domain
from tanager.codes.rows import EqualByArrays
from tanager.errors import ConfigurationError
from tanager.network import answers, editing, graph, queries
from tanager.network.decisions import decide
from tanager.network.drift import Watch, familiarity, find_drift, surprise, watch_codebook
from tanager.network.editing import Edit
from tanager.network.exports import bif, c, javascript, onnx, sql
from tanager.network.information import TINY, NetworkInformation
from tanager.network.nearest import find_nearest
from tanager.network.next_question import find_questions
from tanager.network.reference import Reference
from tanager.network.sensitivity import find_sensitivity
from tanager.network.views import Views
from tanager.numerics import Floats, Ints
from tanager.parameters import DenseTable, FamilyTable, GroupedTable, Tables, TreeTable
from tanager.parameters.spread import table_arrays
from tanager.structure import Structure

TOLERANCE = 1e-6  # largest deviation of a distribution's sum from one
STEP = 1e-3  # resolution of the scores of held-out rows, in nats
MOST_KEPT = 1024  # scores per class
MOST_SCORE = 1_000_000
MOST_LOG = 1e9  # far beyond those of any learner; sums of such numbers are still finite


@dataclass(frozen=True, eq=False)
class Calibration(EqualByArrays):
    """How improbable the true class of each held-out row was.

    In a class with more than 1,024 rows, neighbouring scores share the highest of them.
    """

    labels: NDArray[np.int64]  # (n_scores,): the class of each score
    scores: NDArray[np.int64]  # (n_scores,): -log P(class | row) in steps, rounded up
    weights: Floats  # (n_scores,): total weight of the rows with that score
    rows: NDArray[np.int64]  # (n_classes,): held-out rows of each class

    @classmethod
    def of(cls, log_posteriors: Floats, labels: NDArray[Any], weights: Floats) -> Calibration:
        """Keep the scores of rows the model wasn't trained on."""
        own = -log_posteriors[np.arange(len(labels)), labels]
        steps = np.minimum(np.ceil(own / STEP - 1e-9), MOST_SCORE).astype(np.int64)
        kept, rows = [], np.bincount(labels[weights > 0], minlength=log_posteriors.shape[1])
        for label in np.flatnonzero(rows):
            mine = np.flatnonzero((labels == label) & (weights > 0))
            mine = mine[np.argsort(steps[mine], kind="stable")]
            for block in np.array_split(mine, min(MOST_KEPT, len(mine))):
                kept.append((label, steps[block[-1]], weights[block].sum()))
        found = np.array(kept, np.float64).reshape(-1, 3).T
        labels, scores = found[:2].astype(np.int64)
        return cls(labels, scores, found[2], rows.astype(np.int64))

    def thresholds(self, coverage: float, *, per_class: bool) -> Floats:
        """Return the highest score at which each class is in a set; infinite with few rows."""
        if not per_class:
            every = np.ones(len(self.labels), np.bool_)
            return np.full(len(self.rows), self._threshold(coverage, every, int(self.rows.sum())))
        each = enumerate(self.rows.tolist())
        return np.array([self._threshold(coverage, self.labels == c, n) for c, n in each])

    def _threshold(self, coverage: float, chosen: NDArray[np.bool_], n_rows: int) -> float:
        if n_rows == 0:
            return np.inf
        scores, weights = self.scores[chosen], self.weights[chosen]
        order = np.argsort(scores, kind="stable")
        summed = np.cumsum(weights[order])
        # Another row is to come, as heavy as the others on average.
        wanted = coverage * summed[-1] * (1.0 + 1.0 / n_rows)
        at = int(np.searchsorted(summed, wanted * (1.0 - 1e-12)))
        return np.inf if at == len(summed) else float(scores[order][at]) * STEP

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        weights = None if (self.weights == 1.0).all() else self.weights.tolist()
        lists = {name: getattr(self, name).tolist() for name in ("labels", "scores", "rows")}
        return {**lists, "weights": weights}


@dataclass(frozen=True)
class Network:
    """A Bayesian network with a class node, as learned by a classifier.

    Immutable and safe to share between threads. `X` is any table that
    `BayesNetClassifier.predict` accepts.

    Attributes
    ----------
    codebook : Codebook
        How columns are coded.
    structure : Structure
        The parents of each feature.
    tables : Tables
        The class prior and the log-probabilities of each family.
    history : tuple of Edit
        Manual changes, in order: see `edit`.
    calibration : Calibration or None
        Scores of held-out rows of each class, used by `predict_set`.
    reference : Reference or None
        Counts of the training rows, for `drift` and `familiarity`.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> network = BayesNetClassifier("tan", "laplace").fit(X, [0, 0, 1, 1] * 5).network_
    >>> network
    Network(2 of 2 features, 1 edge, 2 classes)
    >>> network.log_joint([["a", "b"]]).round(3)
    array([[-3.332, -1.54 ]])
    >>> print(network.table("x1"))
    P(x1 | class, x0)
    class  x0      a      b
    0      a   0.857  0.143
    0      b   0.143  0.857
    1      a   0.143  0.857
    1      b   0.857  0.143
    """

    codebook: Codebook
    structure: Structure
    tables: Tables
    history: tuple[Edit, ...] = ()
    calibration: Calibration | None = None
    reference: Reference | None = None

    query = queries.query
    log_probability = queries.log_probability
    most_probable = queries.most_probable
    sample = queries.sample
    impute = queries.impute
    sensitivity = find_sensitivity
    table = answers.table

    familiarity = familiarity
    surprise = surprise
    drift = find_drift

    decide = decide
    next_question = find_questions
    nearest = find_nearest

    edit = editing.edit
    with_table = editing.with_table
    with_edge = editing.with_edge
    without_edge = editing.without_edge

    to_bif = bif.to_bif
    to_xmlbif = bif.to_xmlbif
    to_sql = sql.to_sql
    to_onnx = onnx.to_onnx
    to_c = c.to_c
    to_json = javascript.to_json
    to_javascript = javascript.to_javascript
    to_dot = graph.to_dot
    to_networkx = graph.to_networkx
    _repr_html_ = graph.network_html

    def __post_init__(self) -> None:
        _check_probabilities(self.tables, self.structure, self.codebook.domain)

    def _asked(self) -> Network:
        """Return the network of what decides: itself, as a classifier returns its own."""
        return self

    def __hash__(self) -> int:
        return hash((self.codebook, self.structure))

    @property
    def log_prior(self) -> Floats:
        """Log-probability of each class, shape (n_classes,)."""
        return self.tables.log_prior

    @cached_property
    def watching(self) -> tuple[list[Watch], Codebook]:
        """How raw values are compared with the training rows."""
        return watch_codebook(self)

    def log_joint(self, X: Any) -> Floats:
        """Return log P(y, x) for every class, shape (n_rows, n_classes).

        Unknown features (missing under ``missing="marginalize"``, and values never seen in
        training) are summed out exactly. If the tables are scores rather than probabilities
        (``tables.normalized`` is False), that's an approximation: an unknown feature with
        nothing known below it is assumed to sum to one.
        """
        return self.log_joint_of_codes(self.codebook.encode(X))

    def log_joint_of_codes(self, codes: Codes) -> Floats:
        """Return the log-joint of coded rows, (n_features, n_rows)."""
        arities = self.codebook.domain.arities
        codes = self.codebook.domain.check_codes(codes)
        out = self.tables.log_joint(self.structure, codes, arities)
        if (codes.max(axis=1, initial=0) >= arities).any():
            self.views.add_unknown_sums(codes, out)
        return out

    @cached_property
    def views(self) -> Views:
        """The network by groups of values that no table distinguishes."""
        return Views.of(self.tables, self.structure, self.codebook.domain.arities)

    @cached_property
    def reaches(self) -> dict[float, Any]:
        """Cache of `tanager.network.sensitivity`, by the level of the interval."""
        return {}

    @cached_property
    def log_alone(self) -> list[Floats | None]:
        """Log P(value | class) of each selected feature, (arity, n_classes); None if too large."""
        out: list[Floats | None] = []
        for joint in map(NetworkInformation(self).joint, self.structure.features):
            total = 1.0 if joint is None else np.maximum(joint.sum(axis=0), TINY)
            out.append(None if joint is None else np.log(np.maximum(joint, TINY) / total))
        return out

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def log_terms(self, codes: Codes) -> Floats:
        r"""Return each feature's term in the log-joint, (n_rows, n_features, n_classes).

        For a complete row, that's log P(x_i | y, parents). With unknown features, it's the change
        in the log-probability of what is known when the feature is added, parents before
        children: :math:`\log P(x_{\le i}, y) - \log P(x_{<i}, y)`. Either way, a row's terms and
        the log-prior sum to its log-joint.
        """
        structure, arities = self.structure, self.codebook.domain.arities
        codes = self.codebook.domain.check_codes(codes)
        selected = np.array(structure.selected, np.int64)
        out = np.zeros((codes.shape[1], arities.shape[0], self.log_prior.shape[0]))
        out[:, selected] = self.tables.terms(structure, codes, arities)
        rows = np.flatnonzero((codes[selected] >= arities[selected, None]).any(axis=0))
        if rows.size:
            partial = np.repeat(arities[:, None].astype(codes.dtype), rows.size, axis=1)
            before = self.log_joint_of_codes(partial)
            for feature in (structure.selected[at] for at in structure.topological_order()):
                partial[feature] = codes[feature, rows]
                after = self.log_joint_of_codes(partial)
                out[rows, feature] = after - before
                before = after
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to a file that `Network.load` and `tanager.load` can read."""
        from tanager.network.files import write_model

        write_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Network:
        """Read and validate a network from a file written by `save` or `tanager.save`."""
        from tanager.network.files import read_model

        return read_model(path)[0]

    def summary(self) -> str:
        """Return the number of features, edges and classes as text."""
        n_classes = len(self.codebook.classes)
        return f"{self.structure.summary()}, {n_classes:,} class{'es' if n_classes > 1 else ''}"

    def report(
        self, path: str | os.PathLike[str], X: Any = None, y: Any = None, **options: Any
    ) -> None:
        """Write a report on the network: one HTML file to explore, query and check it.

        Parameters
        ----------
        path : path
            Where to write the page.
        X, y : table and classes, optional
            Held-out rows to evaluate on: a network can't be refitted, so it must not have seen
            them in training. `BayesNetClassifier.report` cross-validates instead.
        **options
            As for `tanager.report.model_page.render_report`.
        """
        # Reports live in a higher layer, so they're imported when needed.
        import_module("tanager.report.model_page").write_report(self, path, X, y, **options)

    def __repr__(self) -> str:
        return f"Network({self.summary()})"


def network_of(model: Any) -> Network:
    """Return the network of a fitted classifier, or the network itself."""
    if hasattr(model, "_asked"):
        network: Network = model._asked()
        return network
    raise ConfigurationError(
        f"A fitted BayesNetClassifier or a Network is needed, not a {type(model).__name__}. For a "
        "pipeline or a search, pass the fitted classifier inside: pipeline[-1], "
        "search.best_estimator_."
    )


def _check_probabilities(tables: Tables, structure: Structure, domain: Domain) -> None:
    """Reject tables with wrong shapes, with logarithms out of range, or that don't sum to one."""
    n_families, n_classes, prior = len(structure.selected), domain.n_classes, tables.log_prior
    if len(tables.families) != n_families or prior.shape != (n_classes,):
        raise ConfigurationError(
            f"{len(tables.families)} tables and the prior of {prior.shape} classes do not fit "
            f"{n_families} features and {n_classes} classes. Give one table per feature."
        )
    parts: list[tuple[str, list[Floats], Iterator[Floats]]]
    parts = [("the class prior", [prior], (np.exp(logs).sum(keepdims=True) for logs in [prior]))]
    for at, table in enumerate(tables.families):
        members = (*structure.parent_indices[at], structure.selected[at])
        wanted = tuple(int(domain.arities[m]) for m in members)
        what = f"the table of {structure.names[members[-1]]!r}"
        if tuple(table.member_arities) != wanted or table.n_classes != n_classes:
            raise ConfigurationError(
                f"{what} has the shape {(*table.member_arities, table.n_classes)}; "
                f"{(*wanted, n_classes)} is expected: the parents, the feature, the classes."
            )
        parts.append((what, list(table_arrays(table).values()), _sums(table)))
    for what, arrays, sums in parts:
        # No learner returns a probability of zero, which could make a row impossible in every
        # class and leave it without a posterior. A comparison with NaN is false.
        if not all((np.abs(array) <= MOST_LOG).all() for array in arrays):
            raise ConfigurationError(
                f"{what} has a logarithm out of range. Give finite logarithms of probabilities."
            )
        if tables.normalized and not all((np.abs(s - 1.0) <= TOLERANCE).all() for s in sums):
            raise ConfigurationError(
                f"{what} does not sum to one. Divide by the sums, or mark the tables as scores: "
                "Tables(..., normalized=False)."
            )


def _sums(table: FamilyTable) -> Iterator[Floats]:
    """Yield the sums of a table's distributions."""
    if isinstance(table, DenseTable):
        yield np.exp(table.log_prob).sum(axis=-2)
    elif isinstance(table, GroupedTable):
        inside = np.zeros(table.log_group.shape[-2:])
        np.add.at(inside, table.member_groups[-1], np.exp(table.log_within))
        yield inside
        yield np.exp(table.log_group).sum(axis=-2)
    else:
        yield _tree_sums(table)


def _tree_sums(table: TreeTable) -> Floats:
    """Return the sum of every node's distribution, without expanding it.

    Values without a cell get the escape, multiplied by the parent's probability if the node
    inherits: one minus the parent's probabilities of the node's own cells.
    """
    tree, node = table.contexts, table.contexts.cell_nodes()
    chances, keys = np.exp(table.cell_log_prob), node * tree.arity + tree.cell_value
    escapes = np.exp(np.minimum(table.node_log_escape, 700.0))

    def above(node: Ints, value: Ints) -> Floats:
        """Return the probability of each value in the node's parent; the root's is uniform."""
        out = np.full(len(node), 1.0 / tree.arity)
        inner = np.flatnonzero(node > 0)
        if inner.size:
            node, value = tree.node_parent[node[inner]], value[inner]
            wanted = node * tree.arity + value
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            lacks = keys[place] != wanted
            out[inner] = chances[place]
            out[inner[lacks]] = escapes[node[lacks]] * above(node[lacks], value[lacks])
        return out

    own = np.bincount(node, chances, tree.n_nodes)
    rest = (tree.arity - np.diff(tree.node_start)).astype(np.float64)
    if table.inherit:
        rest = np.maximum(1.0 - np.bincount(node, above(node, tree.cell_value), tree.n_nodes), 0.0)
    # Nothing remains if every value has a cell, whatever the escape is.
    return np.asarray(own + np.where(rest > TOLERANCE, escapes, 0.0) * rest)
