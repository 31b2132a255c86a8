"""Why one row is classified as it is: the log-odds, split by feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import MatchedTable
from tanager.codes.rows import EqualByArrays
from tanager.drawing.svg import card
from tanager.errors import ConfigurationError, DataError
from tanager.escaping import abridged, one_line
from tanager.network.answers import align_columns
from tanager.network.evidence import as_row, find_class, is_missing
from tanager.network.network import Network, network_of

BAR = 12  # characters of the longest bar
MUCH, LITTLE = 0.5, 0.2  # log-odds alone, and the share of them that remains given the parents


class ExplanationStep(NamedTuple):
    """One step from the prior to the posterior."""

    feature: str  # what is added; the first step is the prior, the last may be "12 others"
    value: str
    adds: float  # log-odds
    log_odds: float  # up to here

    @property
    def probability(self) -> float:
        """The probability up to here, of the class against the other class alone."""
        return 1.0 / (1.0 + exp(-max(-700.0, min(700.0, self.log_odds))))


@dataclass(frozen=True, eq=False)
class Explanation(EqualByArrays):
    """The log-odds of two classes for one row, split exactly.

    Attributes
    ----------
    target, against : object
        The two classes.
    prior : float
        Log-odds before any feature is known.
    features, values : tuple of str
        The network's features and the row's values; a number includes its interval, such as
        ``53, in (45, 60]``.
    contributions : ndarray of float64, shape (n_features,)
        The contribution of each feature; together with `prior`, they sum to `posterior`.
    classes : tuple
        All classes.
    probabilities : ndarray of float64, shape (n_classes,)
        The posterior of the row.
    parents : tuple of tuple of str
        The parents of each feature, in addition to the class.
    alone : ndarray of float64, shape (n_features,)
        The contribution of each feature if nothing else were known; NaN if it's too large.

    Notes
    -----
    A feature contributes the information it has beyond its parents. `alone` and `contributions`
    therefore differ; `spoken_for` lists features that are informative alone but contribute little.
    """

    target: Any
    against: Any
    prior: float
    features: tuple[str, ...]
    values: tuple[str, ...]
    contributions: NDArray[np.float64]
    classes: tuple[Any, ...]
    probabilities: NDArray[np.float64]
    parents: tuple[tuple[str, ...], ...]
    alone: NDArray[np.float64]

    @property
    def posterior(self) -> float:
        """Log-odds given the row."""
        return self.prior + float(self.contributions.sum())

    def strongest(self, n: int) -> list[int]:
        """Return the positions of the n largest contributions, largest first."""
        return np.argsort(-np.abs(self.contributions), kind="stable")[:n].tolist()

    def steps(self, most: int = 12) -> list[ExplanationStep]:
        """Return the steps from prior to posterior, the largest contributions first.

        Parameters
        ----------
        most : int, default=12
            Number of features with their own step; the others share one.
        """
        total = self.prior
        out = [ExplanationStep("prior", "", total, total)]
        for at in self.strongest(most):
            adds = float(self.contributions[at])
            total += adds
            out.append(ExplanationStep(self.features[at], self.values[at], adds, total))
        if rest := len(self.features) + 1 - len(out):
            name = "1 other" if rest == 1 else f"{rest} others"
            out.append(ExplanationStep(name, "", self.posterior - total, self.posterior))
        return out

    def spoken_for(self) -> list[int]:
        """Return the features whose information is carried by their parents, strongest alone first.

        Alone, each would add 0.5 or more to the log-odds; given its parents, less than a fifth.
        """
        alone, own = np.nan_to_num(np.abs(self.alone)), np.abs(self.contributions)
        has_parents = np.array([bool(above) for above in self.parents], bool)
        found = np.flatnonzero(has_parents & (alone >= MUCH) & (own < LITTLE * alone))
        return [int(at) for at in found[np.argsort(-alone[found], kind="stable")]]

    def why_silent(self, most: int = 3) -> str:
        """Describe which features, if any, add little because their parents say the same."""
        found = self.spoken_for()
        parts = [
            f"{abridged(self.features[at])} alone would add {self.alone[at]:+.2f}, given "
            f"{' and '.join(map(abridged, self.parents[at]))} it adds {self.contributions[at]:+.2f}"
            for at in found[:most]
        ]
        more = f"; likewise {len(found) - most} more" if len(found) > most else ""
        said = f"Some features share information with their parents: {'; '.join(parts)}{more}."
        return said if found else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        alone = [float(one) if np.isfinite(one) else None for one in self.alone]
        odds, parents = self.contributions.tolist(), map(list, self.parents)
        names = ("feature", "value", "log_odds", "alone", "parents")
        rows = zip(self.features, self.values, odds, alone, parents, strict=True)
        return {
            "target": _plain(self.target),
            "against": _plain(self.against),
            "probabilities": dict(
                zip(map(str, self.classes), self.probabilities.tolist(), strict=True)
            ),
            "prior_log_odds": self.prior,
            "posterior_log_odds": self.posterior,
            "contributions": [dict(zip(names, row, strict=True)) for row in rows],
        }

    def __repr__(self) -> str:
        order = np.argsort(-self.probabilities, kind="stable")[:6]
        chances = (f"{_fit(self.classes[at])} {self.probabilities[at]:.3f}" for at in order)
        target, against = _fit(self.target), _fit(self.against)
        rows = [("", "value", "adds", "", "so far", f"P({target})")]
        most = max(map(abs, self.contributions), default=1.0) or 1.0
        for at, step in enumerate(self.steps(20)):
            size = round(BAR * min(1.0, abs(step.adds) / most)) if at else 0
            adds = f"{step.adds:+.3f}" if at else ""
            end = (f"{step.log_odds:+.3f}", f"{step.probability:.3f}")
            rows.append((_fit(step.feature), _fit(step.value), adds, f"{'█' * size:<{BAR}}", *end))
        head = f"P(class | row): {', '.join(chances)}"
        title = f"log-odds of {target} against {against}, by feature:"
        return "\n".join([head, title, *align_columns(rows, 2)])

    def _repr_html_(self) -> str:
        order = np.argsort(-self.probabilities, kind="stable").tolist()
        return card("explanation.html.j2", why=self, steps=self.steps(), order=order)


def explain_row(model: Any, row: Any, *, target: Any = None, against: Any = None) -> Explanation:
    """Split the log-odds of one row into contributions of features.

    Parameters
    ----------
    model : BayesNetClassifier or Network
    row : mapping, Series or one-row table
        The value of every feature by name, or a table with one row.
    target : a class, optional
        By default, the most probable class of the row.
    against : a class, optional
        By default, the most probable of the others.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "a"], ["b", "a"]] * 5
    >>> clf = BayesNetClassifier("tan", "laplace").fit(X, ["yes", "no", "yes", "no"] * 5)
    >>> why = explain_row(clf, [["a", "a"]])
    >>> why
    P(class | row): yes 0.953, no 0.047
    log-odds of yes against no, by feature:
           value    adds                so far  P(yes)
    prior                               +0.000   0.500
    x0     a      +2.398  ████████████  +2.398   0.917
    x1     a      +0.606  ███           +3.004   0.953
    >>> [(step.feature, round(step.adds, 2)) for step in why.steps()]
    [('prior', 0.0), ('x0', 2.4), ('x1', 0.61)]
    """
    network, row = network_of(model), as_row(row)
    if isinstance(row, Mapping):  # of cells, or of columns
        sized = (one for one in row.values() if not isinstance(one, str | bytes))
        row = row if any(hasattr(one, "__len__") for one in sized) else [row]
    codes = network.codebook.encode(row)
    if codes.shape[1] != 1:
        raise DataError(f"explain_row takes one row; the table has {codes.shape[1]}.")
    cells = network.codebook.few.read(row)
    if cells is None:
        matched = MatchedTable.of(network.codebook, row)
        batch = next(matched.values.batches(matched.features))
        cells = [[column[0].as_py() for column in batch.columns]]
    terms = network.log_terms(codes)[0]  # (n_features, n_classes)
    log_joint = network.log_prior + terms.sum(axis=0)
    probabilities = np.exp(log_joint - log_joint.max())
    probabilities /= probabilities.sum()
    classes = _classes(network)
    best = int(np.argmax(log_joint)) if target is None else find_class(classes, target)
    others = np.where(np.arange(len(classes)) == best, -np.inf, log_joint)
    rival = int(np.argmax(others)) if against is None else find_class(classes, against)
    if best == rival:
        raise ConfigurationError(
            f"target and against are both {classes[best]!r}. Name two different classes."
        )
    structure, selected = network.structure, list(network.structure.selected)
    prior = float(network.log_prior[best] - network.log_prior[rival])
    values = tuple(_value(network, f, int(codes[f, 0]), cells[0][f]) for f in selected)
    odds = terms[selected, best] - terms[selected, rival]
    alone, parents = _alone(network, codes[:, 0], best, rival), tuple(structure.parents.values())
    facts = structure.features, values, odds, classes, probabilities, parents, alone
    return Explanation(classes[best], classes[rival], prior, *facts)


def explain_rows(model: Any, X: Any, target: Any = None, against: Any = None) -> Any:
    """Return what each feature adds to the log-odds of a class, (n_rows, n_features).

    Parameters
    ----------
    X : table
    target : a class, optional
        By default the second of two classes; with more, each row's most probable class.
    against : a class, optional
        By default the other of two classes; with more, the geometric mean of all others.

    Returns
    -------
    ndarray of float64, or a pandas DataFrame if X is one
        A row's contributions and the prior's log-odds sum exactly to the row's log-odds.
        Unknown features and those that the structure left out contribute zero.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X, y = [["a", "u"], ["b", "v"], ["a", "v"], ["b", "u"]] * 5, [0, 1, 0, 1] * 5
    >>> clf = BayesNetClassifier("naive", "laplace").fit(X, y)
    >>> clf.explain([["b", "u"]]).round(2)
    array([[2.4, 0. ]])
    """
    network = network_of(model)
    terms = network.log_terms(network.codebook.encode(X))  # (n_rows, n_features, n_classes)
    classes = _classes(network)
    if target is not None or len(classes) == 2:
        best = np.full(len(terms), 1 if target is None else find_class(classes, target))
    else:
        best = np.argmax(network.log_prior + terms.sum(axis=1), axis=1)
    own = np.take_along_axis(terms, best[:, None, None], axis=2)[..., 0]
    other = (terms.sum(axis=2) - own) / (len(classes) - 1)
    if against is not None:
        other = terms[..., find_class(classes, against)]
    added = own - other
    if type(X).__module__.partition(".")[0] == "pandas":
        import pandas as pd

        return pd.DataFrame(added, index=X.index, columns=list(network.codebook.domain.names))
    return added


def _classes(network: Network) -> tuple[Any, ...]:
    """Return the classes; raise if there is only one."""
    classes = tuple(network.codebook.classes.tolist())
    if len(classes) == 1:
        raise ConfigurationError(
            f"The model has only one class, {classes[0]!r}: there's nothing to explain."
        )
    return classes


def _alone(network: Network, codes: NDArray[Any], target: int, against: int) -> NDArray[np.float64]:
    """Return log P(x | target) - log P(x | against) of the value of each feature on its own."""
    out = np.zeros(len(network.structure.selected))
    pairs = zip(network.structure.selected, network.log_alone, strict=True)
    for at, (feature, log_given) in enumerate(pairs):
        if log_given is None:
            out[at] = np.nan
        elif (code := int(codes[feature])) < log_given.shape[0]:
            out[at] = log_given[code, target] - log_given[code, against]
    return out


def _value(network: Network, feature: int, code: int, raw: Any) -> str:
    """Return a value as text; a number includes its interval."""
    column = network.codebook.columns[feature]
    if network.codebook.leaves_out(column.name):
        return "left out"
    labels = column.labels()
    label = labels[code] if code < len(labels) else "unknown"
    if column.kind != "numeric" or is_missing(raw) or code == column.missing_code:
        return label
    shown = f"{raw:.6g}" if isinstance(raw, int | float) else str(raw).removesuffix(" 00:00:00")
    return f"{shown}, in {label}" if label.startswith("(") else f"{shown}, {label}"


def _fit(name: Any) -> str:
    """Return a name or value shortened to fit on a line, keeping its start and end."""
    return abridged(one_line(name), 36)


def _plain(label: Any) -> Any:
    return label if isinstance(label, bool | int | float | str) else str(label)
