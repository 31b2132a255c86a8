"""The network: a codebook, a structure and tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.codes import Codebook, Codes
from tanager.errors import ConfigurationError
from tanager.network.answers import Answer, Completion, LabelledTable, label_table
from tanager.network.decisions import Decides
from tanager.network.history import Edit
from tanager.network.propagation import require_probabilities
from tanager.network.views import Views
from tanager.numerics import Floats
from tanager.parameters import Tables
from tanager.structure import Structure

if TYPE_CHECKING:
    import pyarrow as pa

    from tanager.network.drift import Drift
    from tanager.network.reference import Reference, Watch
    from tanager.network.sensitivity import Sensitivity
    from tanager.network.uncertainty import Calibration


@dataclass(frozen=True)
class Network(Decides):
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

    def __post_init__(self) -> None:
        from tanager.network.checks import check_probabilities

        check_probabilities(self.tables, self.structure, self.codebook.domain)

    def __hash__(self) -> int:
        return hash((self.codebook, self.structure))

    @property
    def log_prior(self) -> Floats:
        """Log-probability of each class, shape (n_classes,)."""
        return self.tables.log_prior

    def query(self, targets: str | Sequence[str], evidence: Any = None) -> Answer:
        """Return P(targets | evidence), for any features and the class given any others.

        Parameters
        ----------
        targets : str or sequence of str
            Features, and the target's name for the class (``"class"`` if it has none).
        evidence : mapping, table or None
            What is known: a mapping from names to raw values, `OneOf`, `Interval`, `Soft`, or
            None for a missing cell. A table of raw values asks the same question for each row;
            columns that aren't included are unknown.

        Returns
        -------
        Answer
            A labelled table: `to_pandas`, `probabilities`.

        Notes
        -----
        Exact: features that are neither known nor queried are summed out.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> from tanager.network import OneOf
        >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
        >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1, 1, 0, 0] * 5).network_
        >>> print(network.query("x1", {"x0": "rain"}))
        P(x1 | evidence)
        x1    P
        cold  0.4509
        mild  0.4509
        warm  0.0983
        >>> network.query("class", {"x1": OneOf("cold", "mild")}).probabilities.round(3)
        array([0.378, 0.622])
        """
        from tanager.network.queries import ask

        return ask(self, targets, evidence)

    def log_probability(self, evidence: Any) -> Any:
        """Return log P(evidence): a number for a mapping, an array for a table of rows.

        Evidence is passed as for `query`.
        """
        from tanager.network.queries import log_evidence

        return log_evidence(self, evidence)

    def sensitivity(
        self, target: Mapping[str, Any], evidence: Mapping[str, Any] | None = None, *, n: int = 10
    ) -> Sensitivity:
        """Return how P(target | evidence) responds to table entries and to pieces of evidence.

        Parameters
        ----------
        target : mapping
            From one or more names to values: the queried event.
        evidence : mapping or None
            As for `query`.
        n : int, default=10
            How many table entries to return, the largest effects first.

        Returns
        -------
        Sensitivity
            `entries`: the derivative with respect to each table entry, with the other values of its
            context changing in proportion. `evidence`: the answer without each piece, and the
            range it could take if one more feature were known. `to_pandas`.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
        >>> network = BayesNetClassifier("naive", "laplace").fit(X, [1, 1, 0, 0] * 5).network_
        >>> print(network.sensitivity({"class": 1}, {"x1": "cold"}, n=3))
        P(class=1 | x1=cold) = 0.8571
        entry                      P  derivative   effect
        P(class=0)            0.5000     -0.4898  -0.1224
        P(class=1)            0.5000     +0.4898  +0.1224
        P(x1=cold | class=0)  0.0769     -1.5918  -0.1130
        x1: 0.5000 without it
        x0: 0.3529 (sun) to 0.9851 (rain)
        """
        from tanager.network.sensitivity import find_sensitivity

        return find_sensitivity(self, target, evidence, n)

    def most_probable(
        self, evidence: Any = None, n: int = 3, *, of: Sequence[str] | None = None
    ) -> list[Completion]:
        """Return the most probable completions of a row, best first.

        Parameters
        ----------
        evidence : mapping or None
            As for `query`.
        n : int, default=3
            How many completions to return.
        of : sequence of str, optional
            Complete only these features (or the class), and sum out the others. By default,
            everything unknown is completed jointly.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
        >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1, 1, 0, 0] * 5).network_
        >>> network.most_probable({"x1": "warm"}, n=1)[0].values
        {'x0': 'sun', 'class': '0'}
        """
        from tanager.network.queries import complete

        return complete(self, evidence, n, of)

    def sample(self, n: int, given: Any = None, random_state: Any = None) -> pa.Table:
        """Draw rows from P(features, class | evidence), with the columns of the training table.

        Parameters
        ----------
        n : int
        given : mapping or None
            Evidence, as for `query`.
        random_state : int, numpy.random.Generator or None

        Returns
        -------
        pyarrow.Table
            One column per feature of the network, and the class. Numbers are uniform within
            their interval (outer ones are assumed to be as wide as their neighbours), and integers
            if all cuts are; cells drawn as missing are null.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
        >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1, 1, 0, 0] * 5).network_
        >>> network.sample(3, given={"x0": "sun"}, random_state=0)["x0"].to_pylist()
        ['sun', 'sun', 'sun']
        """
        from tanager.network.queries import draw

        return draw(self, n, given, random_state)

    def impute(self, X: Any, method: str = "mean", random_state: Any = None) -> pa.Table:
        """Fill in missing cells from P(cell | the rest of the row).

        Parameters
        ----------
        X : table
        method : {"mean", "mode", "draw"}, default="mean"
            The expected number (for categories and dates, the most probable value), the most
            probable value, or a joint draw of a row's missing cells.
        random_state : int, numpy.random.Generator or None
            For ``method="draw"``.

        Returns
        -------
        pyarrow.Table

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
        >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1, 1, 0, 0] * 5).network_
        >>> network.impute([["sun", None], [None, "cold"]], "mode").to_pydict()
        {'x0': ['sun', 'rain'], 'x1': ['mild', 'cold']}
        """
        from tanager.network.queries import impute

        return impute(self, X, method, random_state)

    def familiarity(self, X: Any) -> Floats:
        """Return, per row, the share of training rows that are no more probable.

        Near 0 for a row unlike the training rows; shape (n_rows,), accurate to half a percent.

        Notes
        -----
        The probability is P(x), with the class summed out. A category never seen in training
        contributes the probability of a new category, (n1 + 1) / (n + 1) if n1 of them
        occurred once in n rows; a number outside the training range contributes 1 / (n + 1).

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [["rain", "cold"]] * 8 + [["sun", "warm"]] * 8 + [["sun", "cold"]] * 4
        >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1] * 8 + [0] * 12).network_
        >>> network.familiarity([["rain", "cold"], ["sun", "cold"], ["hail", "warm"]]).round(2)
        array([0.6, 0.2, 0. ])
        """
        from tanager.network.reference import log_probability, read_familiar, reference_of

        require_probabilities(self)
        reference = reference_of(self)
        if reference.edited:
            raise ConfigurationError(
                "The network was edited after its fit, so how probable it finds the training rows "
                "isn't known. Ask the network as it was before, or use log_probability or surprise."
            )
        rows = read_familiar(self, X)
        return reference.familiarity(log_probability(self, rows))

    def surprise(self, X: Any) -> Floats:
        """Return log P(x_i | the rest of the row), exact: which features make a row unusual.

        The lower, the more unusual the value given the others; shape (n_rows, n_features).
        Missing values that are summed out, and features the network doesn't use, are 0;
        values never seen in training count as in `familiarity`.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [["rain", "cold"]] * 8 + [["sun", "warm"]] * 8 + [["sun", "cold"]] * 4
        >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1] * 8 + [0] * 12).network_
        >>> network.surprise([["rain", "cold"], ["rain", "warm"]]).round(2)
        array([[-0.48, -0.15],
               [-2.01, -1.96]])
        """
        from tanager.network.reference import log_probability, read_familiar

        require_probabilities(self)
        rows = read_familiar(self, X)
        total, out = log_probability(self, rows), rows.log_unseen.T.copy()
        for feature in self.structure.selected:
            arity = self.codebook.columns[feature].arity
            known = np.flatnonzero(rows.codes[feature] < arity)
            others = np.ascontiguousarray(rows.codes[:, known])
            others[feature] = arity
            rest = rows._replace(codes=others, log_unseen=rows.log_unseen[:, known])
            out[known, feature] = total[known] - log_probability(self, rest)
        return out

    @cached_property
    def watching(self) -> tuple[list[Watch], Codebook]:
        """How raw values are compared with the training rows."""
        from tanager.network.reference import reference_of, watch_codebook

        return watch_codebook(self.codebook, reference_of(self))

    def drift(
        self, X: Any, y: Any = None, *, alpha: float = 0.05, least: float = 0.02, n_jobs: int = 1
    ) -> Drift:
        """Compare rows with the training rows, in one pass.

        Tests every column (values, missing rate, numbers outside the training range, categories
        never seen), every edge of the network, and the class shares.

        Parameters
        ----------
        X : table
            Read once, so paths to files larger than memory work too.
        y : array-like or str, optional
            Classes, or the name of their column in X. Class shares are then counted instead of
            estimated, and calibration and each feature's dependence on the class are tested too.
        alpha : float, default=0.05
            The probability of reporting any shift when nothing has changed.
        least : float, default=0.02
            The smallest effect to report: in large tables, even tiny changes are significant.
        n_jobs : int, default=1
            Threads; the result doesn't depend on it.

        Returns
        -------
        Drift
            ``moved``, ``shifts``, ``columns``, ``to_dict``, ``to_pandas``.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [[float(i), "ab"[i % 2]] for i in range(200)]
        >>> clf = BayesNetClassifier("tan", "laplace").fit(X, [0, 1] * 100)
        >>> print(clf.network_.drift([[100 * a, b] for a, b in X]))
        200 rows compared with 200 training rows: 1 of 7 tests found drift.
        what  how      effect        p
        x0    outside   0.990  < 0.001  99.0 % of values above 199, the largest in training
        """
        from tanager.engines import LocalEngine
        from tanager.network.drift import measure_drift

        return measure_drift(self, X, y, LocalEngine(n_jobs), alpha=alpha, least=least)

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
        if (codes.max(axis=1, initial=0) < arities).all():
            return out
        self.views.add_unknown_sums(codes, out)
        return out

    @cached_property
    def views(self) -> Views:
        """The network by groups of values that no table distinguishes."""
        return Views.of(self.tables, self.structure, self.codebook.domain.arities)

    @cached_property
    def reaches(self) -> dict[float, Any]:
        """Cache of `tanager.network.uncertainty`, by the level of the interval."""
        return {}

    @cached_property
    def log_alone(self) -> list[Floats | None]:
        """Log P(value | class) of each selected feature, (arity, n_classes); None if too large."""
        from tanager.network.information import NetworkInformation

        return NetworkInformation(self).log_given_class()

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
        n_classes = self.log_prior.shape[0]
        out = np.zeros((codes.shape[1], arities.shape[0], n_classes))
        out[:, selected] = self.tables.terms(structure, codes, arities)
        unknown = codes[selected] >= arities[selected, None]
        rows = np.flatnonzero(unknown.any(axis=0))
        if rows.size:
            gaps = np.ascontiguousarray(codes[:, rows])
            partial = np.empty_like(gaps)
            partial[:] = arities[:, None]
            before = self.log_joint_of_codes(partial)
            for at in structure.topological_order():
                feature = structure.selected[at]
                partial[feature] = gaps[feature]
                after = self.log_joint_of_codes(partial)
                out[rows, feature] = after - before
                before = after
        return out

    def edit(
        self,
        feature: str,
        *,
        effect: Mapping[str, Any] | None = None,
        smooth: int | None = None,
        neutralise: bool = False,
        forbid: bool = False,
        reason: str = "",
        author: str = "",
        when: str = "",
    ) -> Network:
        """Return a network with one feature edited manually, and the edit in its `history`.

        The history is included in the model file, summaries and exports.

        Parameters
        ----------
        feature : str
        effect : mapping, optional
            From values, as labelled in `table`, to their contribution to the log-odds: with two
            classes a number, for the second; otherwise a mapping from classes to numbers. Other
            values keep their effect.
        smooth : int, optional
            Replace the effect of each interval by the mean over this many neighbours on each
            side, weighted by their probability.
        neutralise : bool, default=False
            Remove the feature's information about the class. It stays a parent of its children.
        forbid : bool, default=False
            Remove the feature; each child's table becomes its probability given its other
            parents and the class.
        reason, author : str
            Stored in the history.
        when : str, optional
            Date and time for the history; by default, now.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "b"]] * 5
        >>> network = BayesNetClassifier("naive", "laplace").fit(X, [0, 1, 0, 1] * 5).network_
        >>> edited = network.edit("x0", neutralise=True, reason="may not be used")
        >>> odds = edited.log_terms(edited.codebook.encode([["a", "b"]]))[0]
        >>> (odds[:, 1] - odds[:, 0]).round(3)
        array([0.   , 0.606])
        >>> edited.history[0].action
        'neutralise'
        """
        from tanager.network.editing import edit_network

        request = {"effect": effect, "smooth": smooth, "neutralise": neutralise, "forbid": forbid}
        note = Edit(feature, "", reason=reason, author=author, when=when)
        return edit_network(self, feature, request, note)

    def with_table(
        self, feature: str, table: Any, *, reason: str = "", author: str = "", when: str = ""
    ) -> Network:
        """Return the network with a feature's table replaced, and the change in its `history`.

        Parameters
        ----------
        feature : str
        table : array, mapping or LabelledTable
            P(feature | class, parents), the class first and the parents in the order of
            ``structure.parents``: an array with one axis each and the feature's values last; or
            a mapping from contexts, tuples of values, to mappings from values to
            probabilities. Other contexts keep their probabilities.
        reason, author, when : str
            As in `edit`.

        Examples
        --------
        >>> from tanager import BayesNetClassifier
        >>> network = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]], [0, 1]).network_
        >>> network = network.with_table("x0", {"0": {"a": 0.9, "b": 0.1}}, author="Ada")
        >>> network.table("x0").probabilities.round(2).tolist()
        [[0.9, 0.1], [0.33, 0.67]]
        """
        from tanager.network.editing import with_table

        return with_table(self, feature, table, Edit(feature, "table", {}, reason, author, when))

    def with_edge(
        self, parent: str, feature: str, *, reason: str = "", author: str = "", when: str = ""
    ) -> Network:
        """Return the network with an edge added, and the change in its `history`.

        The joint distribution doesn't change until `with_table` defines how the feature depends
        on its new parent. Raises if the edge would close a cycle.
        """
        from tanager.network.editing import with_edge

        note = Edit(feature, "add edge", {"parent": parent}, reason, author, when)
        return with_edge(self, parent, feature, note)

    def without_edge(
        self, parent: str, feature: str, *, reason: str = "", author: str = "", when: str = ""
    ) -> Network:
        """Return the network without an edge, and the change in its `history`.

        Of all networks without the edge, it's the nearest by Kullback-Leibler divergence.
        """
        from tanager.network.editing import without_edge

        note = Edit(feature, "remove edge", {"parent": parent}, reason, author, when)
        return without_edge(self, parent, feature, note)

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
        classes = "1 class" if n_classes == 1 else f"{n_classes:,} classes"
        return f"{self.structure.summary()}, {classes}"

    def to_networkx(self) -> Any:
        """Return the graph as a `networkx.DiGraph`; needs networkx."""
        from tanager.network.graph import to_networkx

        return to_networkx(self)

    def to_bif(self) -> str:
        """Return the network in the Bayesian Interchange Format, with names spelled as words."""
        from tanager.network.exports.bif import to_bif

        return to_bif(self)

    def to_xmlbif(self) -> str:
        """Return the network as XMLBIF 0.3, with names and values unchanged."""
        from tanager.network.exports.bif import to_xmlbif

        return to_xmlbif(self)

    def to_dot(self) -> str:
        """Return the graph for Graphviz."""
        from tanager.network.graph import to_dot

        return to_dot(self)

    def to_json(self, *, unknowns: bool = True, costs: Any = None) -> str:
        """Return the network as JSON for scorers in other languages, all of which are exact.

        See `tanager.network.exports.javascript`; the schema is in the documentation.
        """
        from tanager.network.exports.javascript import to_json

        return to_json(self, unknowns=unknowns, costs=costs)

    def to_sql(
        self,
        *,
        table: str | Sequence[str] = "rows",
        dialect: str = "duckdb",
        keep: str | Sequence[str] | None = None,
        contributions: bool = False,
        unknowns: bool = True,
        costs: Any = None,
        log_probability: bool = False,
    ) -> str:
        """Return one SQL statement that scores every row of a table.

        Parameters are those of `tanager.network.exports.sql.to_sql`.
        """
        from tanager.network.exports.sql import to_sql

        return to_sql(
            self,
            table=table,
            dialect=dialect,
            keep=keep,
            contributions=contributions,
            unknowns=unknowns,
            costs=costs,
            log_probability=log_probability,
        )

    def to_javascript(
        self, *, kind: str = "script", unknowns: bool = True, costs: Any = None
    ) -> str:
        """Return the model and its scorer as a single JavaScript file, a script or a module."""
        from tanager.network.exports.javascript import to_javascript

        return to_javascript(self, kind=kind, unknowns=unknowns, costs=costs)

    def to_onnx(
        self,
        *,
        opset: int = 21,
        float32: bool = False,
        contributions: bool = False,
        unknowns: bool = True,
        missing_text: str | None = None,
        costs: Any = None,
        log_probability: bool = False,
    ) -> Any:
        """Return the network as an `onnx.ModelProto`; needs onnx.

        Parameters are those of `tanager.network.exports.onnx.to_onnx`.
        """
        from tanager.network.exports.onnx import to_onnx

        return to_onnx(
            self,
            opset=opset,
            float32=float32,
            contributions=contributions,
            unknowns=unknowns,
            missing_text=missing_text,
            costs=costs,
            log_probability=log_probability,
        )

    def to_c(self, *, name: str = "tanager", unknowns: bool = True, costs: Any = None) -> str:
        """Return a C99 header with a scorer that allocates nothing.

        Parameters are those of `tanager.network.exports.c.to_c`.
        """
        from tanager.network.exports.c import to_c

        return to_c(self, name=name, unknowns=unknowns, costs=costs)

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
        pages = import_module("tanager.report.model_page")
        pages.write_report(self, path, X, y, **options)

    def __repr__(self) -> str:
        return f"Network({self.summary()})"

    def _repr_html_(self) -> str:
        from tanager.network.html import network_html

        return network_html(self)

    def table(self, feature: str) -> LabelledTable:
        """Return P(feature | class, parents) with the labels of values, to read or plot."""
        return label_table(self.codebook, self.structure, self.tables, feature)


def network_of(model: Any) -> Network:
    """Return the network of a fitted classifier, or the network itself."""
    network = getattr(model, "network_", model)
    if isinstance(network, Network):
        return network
    raise ConfigurationError(
        f"A fitted BayesNetClassifier or a Network is needed, not a {type(model).__name__}. Fit "
        "the classifier first; for a pipeline or a search, pass the fitted classifier inside: "
        "pipeline[-1], search.best_estimator_."
    )
