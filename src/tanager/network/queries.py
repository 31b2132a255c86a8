"""Exact queries: any features and the class, given any others."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Codes, MatchedTable, NumericColumn
from tanager.codes.columns import column_edges, decode
from tanager.errors import ConfigurationError, DataError, check_cells, invalid, listed
from tanager.network.answers import Answer, Completion
from tanager.network.evidence import Known, check_count, names_of, one_row, read_evidence
from tanager.network.propagation import Propagation, require_probabilities
from tanager.numerics import IMPOSSIBLE, Floats, log_or_zero, log_sum_exp

if TYPE_CHECKING:
    from tanager.network.network import Network

MOST_CELLS = 1 << 24  # of an answer, including rows and classes
BATCH_ROWS = 1 << 16  # rows of codes looked up at a time


def query(network: Network, targets: str | Sequence[str], evidence: Any = None) -> Answer:
    """Return P(targets | evidence), for any features and the class given any others.

    Parameters
    ----------
    targets : str or sequence of str
        Features, and the target's name for the class (``"class"`` if it has none).
    evidence : mapping, pandas Series, table or None
        What is known: a mapping from names to raw values, `OneOf`, `Interval`, `Soft`, or
        None for a missing cell. A Series is a mapping from its index, such as ``df.iloc[3]``.
        A table of raw values asks the same question for each row; columns that aren't included
        are unknown, and a column of classes is ignored.

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
    return _answer(network, names_of(network, targets), read_evidence(network, evidence))


def _answer(network: Network, names: list[str], known: Known) -> Answer:
    """Return P(names | what is known)."""
    require_probabilities(network)
    domain, label = network.codebook.domain, network.codebook.class_name
    features = [domain.names.index(name) for name in names if name in domain.names]
    for feature in features:
        if (known.codes[feature] < domain.arities[feature]).any():
            raise ConfigurationError(
                f"{domain.names[feature]!r} is both asked about and given. Remove it from one."
            )
    logs = log_joint_with(network, features, known)
    if label in names:
        logs = np.moveaxis(logs, -1, 1 + names.index(label))
    else:
        logs = log_sum_exp(logs, axis=-1)
    total = log_sum_exp(logs.reshape(len(logs), -1), axis=1)
    refuse_impossible(total)
    shares = np.exp(logs - total.reshape(-1, *(1,) * (logs.ndim - 1)))
    labels = {domain.names[f]: tuple(network.codebook.columns[f].labels()) for f in features}
    labels[label] = tuple(map(str, network.codebook.classes))
    values = tuple(labels[name] for name in names)
    if known.single:
        return Answer(tuple(names), values, shares[0], float(total[0]))
    return Answer(tuple(names), values, shares, total)


def log_joint_with(network: Network, features: Sequence[int], known: Known) -> Floats:
    """Return log P(features, class, evidence), (n_rows, *arities of the features, n_classes)."""
    domain, n_rows = network.codebook.domain, known.codes.shape[1]
    shape = tuple(int(domain.arities[f]) for f in features)
    names = listed(domain.names[f] for f in features)
    what = f"The answer for {names}, for {n_rows:,} rows and every class, takes"
    remedy = "Ask about fewer features, or fewer rows at a time."
    check_cells(what, n_rows * prod(shape) * domain.n_classes, MOST_CELLS, remedy)
    if known.likelihoods:
        found = Propagation(network, known.fixed(network), *known.logs, tuple(features))
        with np.errstate(divide="ignore"):
            logs = np.log(found.values(found.kept, found.of_kept)) + found.log_evidence
    else:
        grid = np.indices(shape, known.codes.dtype).reshape(len(shape), prod(shape))
        codes = np.repeat(known.codes, grid.shape[1], axis=1)
        codes[list(features)] = np.tile(grid, n_rows)
        logs = _log_joint(network, replace(known, codes=codes))
    return logs.reshape(n_rows, *shape, -1)


def log_probability(network: Network, evidence: Any) -> Any:
    """Return log P(evidence): a number for one row, an array for a table of rows.

    Evidence is passed as for `query`; the likelihoods of a `Soft` are divided by their maximum.
    """
    require_probabilities(network)
    known = read_evidence(network, evidence)
    logs = log_sum_exp(_log_joint(network, known), axis=1)
    return float(logs[0]) if known.single else logs


def _log_joint(network: Network, known: Known) -> Floats:
    """Return log P(class, evidence) for every row, (n_rows, n_classes)."""
    if known.likelihoods:
        return Propagation(network, known.fixed(network), *known.logs).log_top[None]
    logs = np.empty((known.codes.shape[1], len(known.classes)))
    for low in range(0, len(logs), BATCH_ROWS):
        part = slice(low, low + BATCH_ROWS)
        logs[part] = network.log_joint_of_codes(known.codes[:, part])
    return logs + known.logs[1] if (known.classes < 1.0).any() else logs


def refuse_impossible(log_evidence: Floats) -> None:
    """Raise if evidence has a probability of zero, given each row's log-probability."""
    if (log_evidence < IMPOSSIBLE).any():
        at = int(np.argmin(log_evidence))
        where = "The evidence" if len(log_evidence) == 1 else f"The evidence of row {at}"
        raise DataError(f"{where} is impossible under this network: it has probability zero.")


def most_probable(
    network: Network, evidence: Any = None, n: int = 3, *, of: Sequence[str] | None = None
) -> list[Completion]:
    """Return the most probable completions of a row, best first.

    Parameters
    ----------
    evidence : mapping, Series, one-row table or None
        As for `query`.
    n : int, default=3
        How many completions to return.
    of : sequence of str, optional
        Complete only these features (or the class), and sum out the others. By default, everything
        unknown is completed jointly.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
    >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1, 1, 0, 0] * 5).network_
    >>> network.most_probable({"x1": "warm"}, n=1)[0].values
    {'x0': 'sun', 'class': '0'}
    """
    check_count("n", n, 1)
    known = one_row(network, evidence)
    if of is not None:
        answer = _answer(network, names_of(network, of), replace(known, single=True))
        best = heapq.nsmallest(n, answer._pairs(), key=lambda pair: -pair[1])
        return [Completion(dict(zip(answer.targets, one, strict=True)), p) for one, p in best]
    log_total = float(log_sum_exp(_log_joint(network, known)[0], axis=0))
    refuse_impossible(np.array([log_total]))
    out, codebook = [], network.codebook
    for log_best, label, codes in islice(_ranked(network, known), n):
        pairs = ((codebook.columns[f], code) for f, code in sorted(codes.items()))
        values = {column.name: column.labels()[code] for column, code in pairs}
        if known.classes.min() == 1.0 or np.count_nonzero(known.classes) > 1:
            values[codebook.class_name] = str(codebook.classes[label])
        out.append(Completion(values, float(np.exp(log_best - log_total))))
    return out


def _ranked(network: Network, known: Known) -> Iterator[tuple[float, int, dict[int, int]]]:
    """Yield completions in order of probability (Lawler, DOI 10.1287/mnsc.18.7.401)."""
    # All but the best are partitioned by the first variable in which they differ from it; the best
    # of each part is a candidate for the next place.
    given = fixed = known.fixed(network)
    likelihoods, _ = known.logs
    with np.errstate(divide="ignore"):
        classes = np.log(known.classes)
    order = count()
    heap: list[tuple[Any, ...]] = []

    def push(fixed: dict[int, int], likelihoods: dict[int, Floats], classes: Floats) -> None:
        found = Propagation(network, fixed, likelihoods, classes, maximise=True).best()
        if np.isfinite(found[0]) and found[0] > IMPOSSIBLE:
            heapq.heappush(heap, (-found[0], next(order), found, fixed, likelihoods, classes))

    push(fixed, likelihoods, classes)
    while heap:
        _, _, (log_best, label, codes), fixed, likelihoods, classes = heapq.heappop(heap)
        yield log_best, label, {f: code for f, code in fixed.items() if f not in given} | codes
        other = classes.copy()
        other[label] = -np.inf
        if np.isfinite(other).any():
            push(fixed, likelihoods, other)
        same = np.full_like(classes, -np.inf)
        same[label] = classes[label]
        held = dict(fixed)
        for feature, code in codes.items():
            free = np.zeros(network.codebook.columns[feature].arity)
            banned = likelihoods.get(feature, free).copy()
            banned[code] = -np.inf
            if np.isfinite(banned).any():
                push(dict(held), {**likelihoods, feature: banned}, same)
            held[feature] = code


def sample(network: Network, n: int, given: Any = None, random_state: Any = None) -> pa.Table:
    """Draw rows from P(features, class | evidence), with the columns of the training table.

    Parameters
    ----------
    n : int
    given : mapping, Series, one-row table or None
        Evidence, as for `query`.
    random_state : int, numpy.random.Generator or None

    Returns
    -------
    pyarrow.Table
        One column per feature of the network, and the class. Numbers, also those of the evidence,
        are uniform within their interval (outer ones are assumed to be as wide as their neighbours,
        the only one to contain all training numbers), and integers if all cuts are; cells drawn as
        missing are null.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
    >>> network = BayesNetClassifier("tan", "laplace").fit(X, [1, 1, 0, 0] * 5).network_
    >>> network.sample(3, given={"x0": "sun"}, random_state=0)["x0"].to_pylist()
    ['sun', 'sun', 'sun']
    """
    check_count("n", n, 0)
    rng = _generator(random_state)
    codes, labels = _draw_codes(network, one_row(network, given), int(n), rng)
    columns = {
        network.structure.names[f]: decode(
            network.codebook.columns[f], codes[f], 1.0 - rng.random(len(labels)), _ends(network, f)
        )
        for f in sorted(network.structure.selected)
    }
    columns[network.codebook.class_name] = network.codebook.target.values.take(pa.array(labels))
    return pa.table(columns)


def _draw_codes(
    network: Network, known: Known, n: int, rng: np.random.Generator
) -> tuple[Codes, NDArray[np.int64]]:
    """Draw codes (n_features, n) and classes (n,) from P(unknown | evidence)."""
    found = Propagation(network, known.fixed(network), *known.logs, to_draw=True)
    refuse_impossible(np.array([found.log_evidence]))
    labels = _pick(np.zeros(n, np.int64), found.log_top[None], rng).astype(np.int64)
    codes = np.repeat(known.codes, n, axis=1)
    views: dict[int, NDArray[np.int64]] = {}
    for feature, above, logs in reversed(found.steps):
        place = labels
        for other, size in zip(above, logs.shape[2:], strict=True):
            place = place * size + views[other]
        by_context = np.moveaxis(logs, 1, -1).reshape(-1, logs.shape[1])
        view = _pick(place, by_context, rng).astype(np.int64)
        views[feature] = view
        inner = found.inner[feature]
        n_views, n_values = int(inner.views.max()) + 1, len(inner.views)
        if n_views == n_values:
            codes[feature] = view
            continue
        inside = np.full((len(known.classes), n_views, n_values), -np.inf)
        inside[:, inner.views, np.arange(n_values)] = inner.logs.T
        codes[feature] = _pick(labels * n_views + view, inside.reshape(-1, n_values), rng)
    return codes, labels


def _ends(network: Network, feature: int) -> Floats | None:
    """Return the training numbers' quantiles, if the network knows them."""
    return None if network.reference is None else network.reference.ends[feature]


def _generator(random_state: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        allowed = "None, an integer of at least 0, or a numpy.random.Generator"
        raise invalid("random_state", random_state, allowed) from None


def _pick(places: NDArray[np.int64], logs: Floats, rng: np.random.Generator) -> NDArray[np.uint16]:
    """Draw one value per row from the distribution of its context, logs (n_contexts, n_values)."""
    top = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - np.where(np.isneginf(top), 0.0, top))
    out, cumulative = np.empty(len(places), np.uint16), np.cumsum(weights, axis=1)
    native.draw_values(np.ascontiguousarray(places), cumulative, rng.random(len(places)), out)
    return out


def impute(network: Network, X: Any, method: str = "mean", random_state: Any = None) -> pa.Table:
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
    if method not in ("mean", "mode", "draw"):
        raise ConfigurationError(f"method={method!r}. Allowed: 'mean', 'mode', 'draw'.")
    require_probabilities(network)
    matched = MatchedTable.of(network.codebook, X)
    codes = np.ascontiguousarray(matched.encode())
    columns = {name: matched.source.column(name) for name in matched.source.names}
    rng = _generator(random_state)
    for at in sorted(network.structure.selected):
        name, column = matched.features[at], network.codebook.columns[at]
        array = matched.values.column(name)
        gaps = np.flatnonzero(np.asarray(array.is_null(nan_is_null=True)))
        if not len(gaps):
            continue
        shares = _given_the_rest(network, codes[:, gaps], at)
        if method == "draw":
            found = _pick(np.arange(len(gaps)), log_or_zero(shares), rng)
            codes[at, gaps] = found  # for later draws: the values of a row are consistent
            values = decode(column, found, 1.0 - rng.random(len(gaps)), _ends(network, at))
        elif method == "mean" and isinstance(column, NumericColumn) and not column.temporal:
            edges = column_edges(column, _ends(network, at))
            values = pa.array(shares @ (0.5 * (edges[:-1] + edges[1:])))
        else:
            mode = shares.argmax(axis=1).astype(np.uint16)
            values = decode(column, mode, ends=_ends(network, at))
        columns[name] = _put(array, gaps, values)
    return pa.table(columns)


def _given_the_rest(network: Network, codes: Codes, feature: int) -> Floats:
    """Return P(value of a feature | the rest of each row), excluding missing."""
    column = network.codebook.columns[feature]
    n_values = column.arity - (column.missing_code is not None)
    if n_values == 0:
        return np.ones((codes.shape[1], 1))
    rest = np.repeat(codes, n_values, axis=1)
    rest[feature] = np.tile(np.arange(n_values, dtype=codes.dtype), codes.shape[1])
    everything = Known(rest, {}, np.ones(len(network.log_prior)), single=False)
    logs = log_sum_exp(_log_joint(network, everything), axis=1).reshape(-1, n_values)
    return np.asarray(np.exp(logs - log_sum_exp(logs, axis=1)[:, None]))


def _put(array: pa.Array, rows: NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return a column with some rows replaced."""
    import pyarrow.compute as pc

    mask = np.isin(np.arange(len(array)), rows)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_integer(array.type) and pa.types.is_floating(values.type):
        array = array.cast(pa.float64(), safe=False)
    kind = array.type
    values = values.cast(kind, safe=False)  # instants lose what the column's unit can't hold
    if pa.types.is_duration(kind):  # Arrow can't replace these
        array, values = array.cast(pa.int64()), values.cast(pa.int64())
    return pc.replace_with_mask(array, pa.array(mask), values).cast(kind)
