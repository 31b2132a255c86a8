r"""Networks as ONNX: lookups for complete rows, exact sums for those with unknown values.

Codes and their groups are matrices (rows, inputs) of doubles, in which code `arity` is unknown. One
product with a matrix of strides gives the index of every family in one long table; what codes add
to their groups is looked up in parallel::

    columns ──► codes ──► groups ──► places ──► Gather ──► sum ──► Softmax
                  └── rows where a known input has an unknown parent ──► messages ──┘

Every step of the recipe sends one message,

.. math:: m(u, c) = t(c) + \log \sum_v K(u, v, c) \exp(T(u, v, c) - t(c))

where K is the step's table, T the messages it receives for values that agree with what is known,
and t the maximum of T, so nothing underflows. Arrays are (classes, rows, groups ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from string import ascii_letters
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.errors import ConfigurationError, invalid
from tanager.network.decisions import Costs, read_costs
from tanager.network.exports.recipe import Input, Recipe, Step, make_recipe
from tanager.network.propagation import require_probabilities

if TYPE_CHECKING:
    from tanager.network.network import Network

OPSET = 21
ML_OPSET = 3
MAX_STEP_CELLS = 1 << 16  # of the sum for one row: 512 kB
ML = "ai.onnx.ml"
_OUT = -1e30  # added to values that don't agree with what is known
_LETTERS = [a for a in ascii_letters if a not in "cr"]  # for axes other than classes and rows
_SMALLEST = {np.float64: 1e-190, np.float32: 1e-30}


class Graph:
    """Collects operations; every method that adds one returns the name of its result."""

    def __init__(self, prefix: str, real: type[np.floating[Any]] = np.float64) -> None:
        self.prefix = prefix  # of every generated name
        self.real = real  # the type of all probabilities
        self.nodes: list[Any] = []  # `onnx.NodeProto`
        self.constants: dict[str, NDArray[Any]] = {}
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}  # constants by content

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add an operation with one result."""
        from onnx import helper

        output = output or f"{self.prefix}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, values: ArrayLike, dtype: Any = np.float64) -> str:
        """Add an array, unless it was added before."""
        array = np.asarray(values, dtype=dtype)
        content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        if key not in self._known:
            self._known[key] = f"{self.prefix}c{len(self.constants)}"
            self.constants[self._known[key]] = array
        return self._known[key]

    def reals(self, values: ArrayLike) -> str:
        """Add an array of probabilities or their logarithms."""
        return self.constant(values, self.real)

    def integers(self, *values: int) -> str:
        """Add a row of integers: axes, a shape."""
        return self.constant(values, np.int64)

    def reduce(self, kind: str, what: str, *axes: int, keep: bool = False) -> str:
        """Add a sum or a maximum along axes."""
        return self.add(kind, what, self.integers(*axes), keepdims=int(keep))

    def reshape(self, what: str, *shape: int) -> str:
        """Add a change of shape; 0 keeps an axis, -1 is inferred."""
        return self.add("Reshape", what, self.integers(*shape))

    def cast(self, what: str, dtype: Any) -> str:
        """Add a change of type."""
        from onnx import helper

        return self.add("Cast", what, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))

    def total(self, parts: list[str]) -> str:
        """Add the sum of results with the same shape."""
        return reduce(lambda sum_, part: self.add("Add", sum_, part), parts)

    def columns(self, matrix: str, *places: int) -> str:
        """Add a selection of columns."""
        return self.add("Gather", matrix, self.integers(*places), axis=1)

    def joined(self, parts: list[str]) -> str:
        """Add the columns of some matrices side by side."""
        return self.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]

    def look_up(self, places: str, tables: Sequence[ArrayLike], dtype: Any = np.float64) -> str:
        """Add a lookup of every column of indices, as doubles, in its own table."""
        arrays = [np.asarray(table, dtype=dtype) for table in tables]
        starts = np.cumsum([0, *map(len, arrays)])[:-1]
        moved = self.cast(self.add("Add", places, self.constant(starts)), np.int64)
        return self.add("Gather", self.constant(np.concatenate(arrays), dtype), moved)


def to_onnx(
    network: Network,
    *,
    opset: int = OPSET,
    float32: bool = False,
    contributions: bool = False,
    unknowns: bool = True,
    missing_text: str | None = None,
    costs: Any = None,
    log_probability: bool = False,
) -> Any:
    """Return the network as an `onnx.ModelProto`; needs onnx.

    Parameters
    ----------
    network : Network
    opset : int, default=21
        At least 18.
    float32 : bool, default=False
        Read numbers and return probabilities in single precision. Cuts are rounded down, so every
        single-precision number falls into its true interval.
    contributions : bool, default=False
        Add the output ``terms``, (rows, features, classes): each feature's term in the log-joint.
        The difference between two classes is its contribution to their log-odds.
    unknowns : bool, default=True
        Whether to support rows with any unknown values. False returns NaN for such rows.
    missing_text : str, optional
        The text that means missing, as ONNX has no null. By default, the empty text.
    costs : optional
        As for `Network.decide`: adds the outputs ``decision`` (rows), the name of the best
        action, and ``expected_costs`` (rows, actions).
    log_probability : bool, default=False
        Add the output ``log_probability`` (rows): log P(row), which is low for unusual rows.

    Notes
    -----
    There is one input per column, of shape (rows, 1): texts as strings, anything else as numbers,
    NaN for missing. Outputs: ``label`` (rows) and ``probabilities`` (rows, classes).
    """
    from onnx import defs, helper, numpy_helper

    def describe(name: str, dtype: Any, shape: list[int | None]) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, shape)

    newest = defs.onnx_opset_version()
    if not isinstance(opset, int) or not 18 <= opset <= newest:
        raise invalid("opset", opset, f"an integer from 18 to {newest}, the newest installed")
    if not isinstance(missing_text, str | None):
        raise invalid("missing_text", missing_text, "a text or None")
    if log_probability:
        require_probabilities(network)
    recipe = make_recipe(network)
    _check(recipe, unknowns)
    columns, prefix = [given.name for given in recipe.inputs], "t_"
    while any(name.startswith(prefix) for name in columns):
        prefix += "_"
    graph = Graph(prefix, np.float32 if float32 else np.float64)
    codes = _add_codes(graph, recipe, missing_text)
    terms, joint = _add_look_ups(graph, recipe, codes)
    if unknowns and recipe.sums:
        terms, joint = _add_sums(graph, recipe, codes, terms, joint, contributions)
    chances = graph.add("Softmax", joint, axis=1)
    labels = np.array(recipe.classes)
    labels = labels.astype(object) if labels.dtype.kind == "U" else labels
    best = graph.add("ArgMax", joint, axis=1, keepdims=0)
    label = graph.add("Gather", graph.constant(labels, labels.dtype), best)
    outputs = []

    def put(name: str, what: str, dtype: Any, *sizes: int) -> None:
        while name in columns:
            name += "_"
        outputs.append(describe(graph.add("Identity", what, output=name), dtype, [None, *sizes]))

    put("label", label, labels.dtype)
    put("probabilities", chances, graph.real, recipe.n_classes)
    if contributions:
        put("terms", terms, graph.real, len(recipe.inputs), recipe.n_classes)
    if costs is not None:
        prices = read_costs(network, costs)
        decision, expected = _add_decision(graph, prices, chances)
        put("decision", decision, object)
        put("expected_costs", expected, graph.real, len(prices.names))
    if log_probability:
        put("log_probability", graph.reduce("ReduceLogSumExp", joint, 1), graph.real)
    inputs = []
    for one in recipe.inputs:
        kind = object if one.kind == "text" else np.int64 if one.past_doubles else graph.real
        inputs.append(describe(one.name, kind, [None, 1]))
    constants = [numpy_helper.from_array(a, name) for name, a in graph.constants.items()]
    body = helper.make_graph(graph.nodes, "tanager", inputs, outputs, constants)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(ML, ML_OPSET)]
    model = helper.make_model(body, producer_name="tanager", opset_imports=imports)
    model.ir_version = helper.find_min_ir_version_for(imports)
    return model


def _check(recipe: Recipe, unknowns: bool) -> None:
    """Raise if a graph has no inputs, one without a name, or can't sum out the unknowns."""
    if not recipe.inputs:
        raise ConfigurationError(
            "The network reads no column, and an ONNX graph without inputs has no rows. "
            "Export it to another format, or learn from columns that have values."
        )
    if any(not given.name for given in recipe.inputs):
        raise ConfigurationError(
            "A column has an empty name, which ONNX keeps for inputs that are left out. Rename it."
        )
    if unknowns:
        remedy = "Export with unknowns=False: rows with unknown values then get NaN."
        recipe.check_sums(MAX_STEP_CELLS, remedy, "ONNX")
        widest = max(len(step.separator) + 1 for step in recipe.steps)
        if widest > len(_LETTERS):
            raise ConfigurationError(
                f"{widest} columns would have to be summed out together, and ONNX has letters for "
                f"{len(_LETTERS)}. {remedy}"
            )


def _add_decision(graph: Graph, costs: Costs, probabilities: str) -> tuple[str, str]:
    """Return the action of least expected cost, the first in case of ties, and all costs."""
    expected = graph.add("MatMul", probabilities, graph.reals(costs.matrix.T))
    least = graph.reduce("ReduceMin", expected, 1, keep=True)
    bound = graph.add("Add", least, graph.reals([costs.tolerance]))
    cheap = graph.cast(graph.add("LessOrEqual", expected, bound), np.int64)
    best = graph.add("ArgMax", cheap, axis=1, keepdims=0)
    return graph.add("Gather", graph.constant(costs.names, object), best), expected


def _add_codes(graph: Graph, recipe: Recipe, missing_text: str | None) -> str:
    """Return the codes as doubles, (rows, inputs)."""
    inputs = recipe.inputs
    order = sorted(range(len(inputs)), key=lambda at: inputs[at].kind != "number")
    numbers = [given for given in inputs if given.kind == "number"]
    parts = [_add_intervals(graph, numbers)] if numbers else []
    for given in (inputs[at] for at in order[len(numbers) :]):
        if given.kind == "text" or given.past_doubles:
            parts.append(_add_labels(graph, given, missing_text))
        else:
            parts.append(_add_values(graph, given))
    codes = graph.joined(parts)
    return codes if order == sorted(order) else graph.columns(codes, *np.argsort(order).tolist())


def _add_intervals(graph: Graph, inputs: Sequence[Input]) -> str:
    """Return the codes of numbers: the number of cuts less than each."""
    matrix = graph.joined([given.name for given in inputs])
    width = max(1, *(len(given.cuts) for given in inputs))
    cuts = np.full((len(inputs), width), np.inf)
    for row, given in zip(cuts, inputs, strict=True):
        row[: len(given.cuts)] = given.cuts
    if graph.real is np.float32:  # rounded down, so every float32 falls into its true interval
        with np.errstate(over="ignore"):
            narrow = cuts.astype(np.float32)
        down = np.nextafter(narrow, np.float32(-np.inf))
        cuts = np.where(narrow.astype(np.float64) > cuts, down, narrow)
    deep = graph.add("Unsqueeze", matrix, graph.integers(2))
    above = graph.cast(graph.add("Greater", deep, graph.reals(cuts)), graph.real)
    codes = graph.cast(graph.reduce("ReduceSum", above, 2), np.float64)
    missing = graph.constant([given.missing for given in inputs])
    return graph.add("Where", graph.add("IsNaN", matrix), missing, codes)


def _add_values(graph: Graph, given: Input) -> str:
    """Return the codes of numeric categories."""
    values = np.array(given.values, np.float64)
    order = np.argsort(values)
    values = values[order]
    known = graph.reals(np.append(values, np.nan))  # there's no match past the last
    less = graph.cast(graph.add("Greater", given.name, graph.reals(values)), np.int64)
    place = graph.reduce("ReduceSum", less, 1, keep=True)
    same = graph.add("Equal", graph.add("Gather", known, place), given.name)
    code = graph.add("Gather", graph.constant(np.append(order, 0)), place)
    codes = graph.add("Where", same, code, graph.constant([given.unlisted]))
    missing = graph.constant([given.missing])
    return graph.add("Where", graph.add("IsNaN", given.name), missing, codes)


def _add_labels(graph: Graph, given: Input, missing_text: str | None) -> str:
    """Return the codes of texts, and of integers too large for a double."""
    keys: dict[str, Any] = {"keys_int64s": list(given.values)}
    codes = list(range(len(given.values)))
    if given.kind == "text":
        mark = "" if missing_text is None else missing_text
        if mark in given.values:
            raise ConfigurationError(
                f"The column {given.name!r} has the value {mark!r}, which is to mean missing. "
                "Give another text as missing_text."
            )
        keys = {"keys_strings": [*given.values, mark]}
        codes.append(given.missing)
    keys |= {"values_int64s": codes, "default_int64": given.unlisted}
    found = graph.add("LabelEncoder", given.name, domain=ML, **keys)
    return graph.cast(found, np.float64)


def _add_look_ups(graph: Graph, recipe: Recipe, codes: str) -> tuple[str, str]:
    """Return the terms of all families (rows, inputs, classes) and the log-joint (rows, classes).

    An unknown input adds nothing; a known one with an unknown parent gives NaN.
    """
    groups, shares = _add_groups(graph, recipe, codes)
    strides = np.zeros((len(recipe.inputs), len(recipe.inputs)))
    tables = []
    for at, given in enumerate(recipe.inputs):
        table = recipe.table_with_unknown(at)
        strides[[at, *given.parents[::-1]], at] = np.cumprod([1, *table.shape[-2:0:-1]])
        tables.append(table.reshape(-1, recipe.n_classes))
    terms = graph.look_up(graph.add("MatMul", groups, graph.constant(strides)), tables, graph.real)
    if shares is not None:
        terms = graph.add("Add", terms, shares)
    joint = graph.add("Add", graph.reduce("ReduceSum", terms, 1), graph.reals(recipe.log_prior))
    return terms, joint


def _add_groups(graph: Graph, recipe: Recipe, codes: str) -> tuple[str, str | None]:
    """Return the groups of codes, and what the codes add to them, (rows, inputs, classes)."""
    if all(given.groups is None for given in recipe.inputs):
        return codes, None
    groups, shares = [], []
    for given in recipe.inputs:
        groups.append([*(given.groups or range(given.arity)), given.n_groups])
        logs = np.zeros((given.arity + 1, recipe.n_classes))  # an unknown code adds nothing
        if given.log_within is not None:
            logs[:-1] = given.log_within
        shares.append(logs)
    return graph.look_up(codes, groups), graph.look_up(codes, shares, graph.real)


def _add_sums(
    graph: Graph, recipe: Recipe, codes: str, terms: str, joint: str, contributions: bool
) -> tuple[str, str]:
    """Replace the NaN rows of terms and log-joint with exact ones."""
    n = len(recipe.inputs)
    first = graph.add("Gather", joint, graph.constant(0, np.int64), axis=1)
    rows = graph.add("NonZero", graph.add("IsNaN", first))  # (1, rows with sums)
    places = graph.add("Transpose", rows, perm=[1, 0])
    some = graph.add("Gather", codes, graph.reshape(rows, -1))
    if not contributions:
        return terms, graph.add("ScatterND", joint, places, _add_joint(graph, recipe, some))
    # Each row first with nothing known, then with one more input at a time, parents first.
    known = np.zeros((n + 1, n), dtype=bool)
    for at, feature in enumerate(recipe.order):
        known[at + 1 :, feature] = True
    arities = graph.constant([given.arity for given in recipe.inputs])
    deep = graph.add("Unsqueeze", some, graph.integers(1))
    partial = graph.add("Where", graph.constant(known, np.bool_), deep, arities)
    sums = _add_joint(graph, recipe, graph.reshape(partial, -1, n))
    sums = graph.reshape(sums, -1, n + 1, recipe.n_classes)
    after = [recipe.order.index(i) + 1 for i in range(n)]
    before = graph.columns(sums, *(at - 1 for at in after))
    exact = graph.add("Sub", graph.columns(sums, *after), before)
    last = graph.add("Gather", sums, graph.constant(n, np.int64), axis=1)
    terms = graph.add("ScatterND", terms, places, exact)
    return terms, graph.add("ScatterND", joint, places, last)


def _add_joint(graph: Graph, recipe: Recipe, codes: str) -> str:
    """Return the log-joint (rows, classes) of codes, with unknown ones summed out."""
    groups, shares = _add_groups(graph, recipe, codes)
    messages: list[str] = []
    for step in recipe.steps:
        messages.append(_send(graph, recipe, step, messages, groups))
    pairs = zip(recipe.steps, messages, strict=True)
    total = graph.total([message for step, message in pairs if not step.separator])
    joint = graph.add("Transpose", total, perm=[1, 0])
    joint = graph.add("Add", joint, graph.reals(recipe.log_prior))
    if shares is None:
        return joint
    return graph.add("Add", joint, graph.reduce("ReduceSum", shares, 1))


def _send(graph: Graph, recipe: Recipe, step: Step, messages: list[str], groups: str) -> str:
    """Return the message of a step, (classes, rows, *step.shape[:-1])."""
    sent = [recipe.steps[m].separator for m in step.messages]
    scope = [*sorted({i for some in sent for i in some} - {step.input}), step.input]
    parts = [_align(graph, [i], _evidence(graph, recipe, groups, i), scope) for i in scope]
    pairs = zip(sent, step.messages, strict=True)
    parts += [_align(graph, inputs, messages[m], scope) for inputs, m in pairs]
    gathered = graph.total(parts)
    top = graph.reduce("ReduceMax", gathered, *range(2, 2 + len(scope)), keep=True)
    weights = graph.add("Exp", graph.add("Sub", gathered, top))
    classes = "c"
    if not step.messages:  # so far the same for every class
        weights, classes = graph.add("Squeeze", weights, graph.integers(0)), ""
    table = np.maximum(np.exp(recipe.step_table(step)), _SMALLEST[graph.real])
    letter = dict(zip((*step.separator, step.input), _LETTERS, strict=False))
    around = "".join(letter[i] for i in step.separator)
    read = "".join(letter[i] for i in scope)
    equation = f"{classes}r{read},{around}{letter[step.input]}c->cr{around}"
    sums = graph.add("Einsum", weights, graph.reals(table), equation=equation)
    return graph.add("Add", graph.add("Log", sums), graph.reshape(top, 0, 0, *(1 for _ in around)))


def _evidence(graph: Graph, recipe: Recipe, groups: str, i: int) -> str:
    """Return 0 for all groups that agree with what is known, (1, rows, groups)."""
    size, column = recipe.inputs[i].n_groups, graph.columns(groups, i)
    same = graph.add("Equal", column, graph.constant(np.arange(size)))
    agrees = graph.add("Or", same, graph.add("Equal", column, graph.constant([size])))
    chosen = graph.add("Where", agrees, graph.reals([0.0]), graph.reals([_OUT]))
    return graph.add("Unsqueeze", chosen, graph.integers(0))


def _align(graph: Graph, inputs: Sequence[int], what: str, scope: Sequence[int]) -> str:
    """Return (classes, rows, *inputs) with its axes rearranged to a scope."""
    order = sorted(range(len(inputs)), key=lambda at: scope.index(inputs[at]))
    if order != list(range(len(inputs))):
        what = graph.add("Transpose", what, perm=[0, 1, *(2 + at for at in order)])
    absent = [2 + at for at, i in enumerate(scope) if i not in inputs]
    return graph.add("Unsqueeze", what, graph.integers(*absent)) if absent else what
