r"""Networks as ONNX: look-ups for complete rows, exact sums for those with unknown values.

Codes are a matrix (rows, inputs) of doubles, code `arity` for unknown, and so are groups of
codes. One product with a matrix of strides gives every family's place in one long table; what
codes add to their groups is looked up beside it::

    columns ──► codes ──► groups ──► places ──► Gather ──► sum ──► Softmax
                  └── rows where a known input has an unknown parent ──► messages ──┘

Every step of the recipe sends one message,

.. math:: m(u, c) = t(c) + \log \sum_v K(u, v, c) \exp(T(u, v, c) - t(c))

as in `sql_sums`: a product of matrices where T depends on the step's own input alone, as on
trees; otherwise one for each combination of the places beside it. Arrays are (classes, rows,
places ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.errors import ConfigurationError
from tanager.network.exports.recipe import Codes, Input, Recipe, Step, make_recipe

if TYPE_CHECKING:
    from tanager.network.network import Network


class Node(NamedTuple):
    """One operation."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    domain: str
    attributes: dict[str, Any]


class Graph:
    """Collects operations; every method that adds one returns the name of its result.

    `prefix` starts every name that is made here; `real` is the type of all
    probabilities.
    """

    def __init__(self, prefix: str, real: type[np.floating[Any]] = np.float64) -> None:
        self.prefix = prefix
        self.real = real
        self.nodes: list[Node] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}  # constants by content

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation with one result."""
        output = f"{self.prefix}{len(self.nodes)}"
        self.nodes.append(Node(kind, list(inputs), [output], domain, attributes))
        return output

    def give(self, what: str, output: str) -> None:
        """Give a result the name of an output."""
        self.nodes.append(Node("Identity", [what], [output], "", {}))

    def constant(self, values: ArrayLike, dtype: Any) -> str:
        """Add an array, once."""
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

    def reduce(self, kind: str, what: str, axis: int, keep: bool = False) -> str:
        """Add a sum or a maximum along an axis."""
        return self.add(kind, what, self.integers(axis), keepdims=int(keep))

    def reshape(self, what: str, *shape: int) -> str:
        """Add a change of shape; 0 keeps an axis, -1 is what is left."""
        return self.add("Reshape", what, self.integers(*shape))

    def cast(self, what: str, dtype: Any) -> str:
        """Add a change of type."""
        from onnx import helper

        return self.add("Cast", what, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))

    def total(self, parts: list[str]) -> str:
        """Add up results of one shape."""
        return reduce(lambda sum_, part: self.add("Add", sum_, part), parts)


_OUT = -1e30  # added to a value that does not agree with what is known
_SMALLEST = {np.float64: 1e-190, np.float32: 1e-30}


def sum_out(graph: Graph, recipe: Recipe, groups: str) -> str:
    """Return the log-joint (rows, classes) of groups (rows, inputs) as doubles."""
    messages: list[str] = []
    for step in recipe.steps:
        messages.append(_send(graph, recipe, step, messages, groups))
    pairs = zip(recipe.steps, messages, strict=True)
    totals = [message for step, message in pairs if not step.separator]
    joint = graph.add("Transpose", graph.total(totals), perm=[1, 0])
    return graph.add("Add", joint, graph.reals(recipe.log_prior))


def _evidence(graph: Graph, groups: str, i: int, view: Codes) -> str:
    """Return 0 for every place that agrees with what is known, (1, rows, places)."""
    size = max(view) + 1
    column = graph.add("Gather", groups, graph.integers(i), axis=1)
    if size < len(view):
        places = graph.cast(column, np.int64)
        column = graph.add("Gather", graph.constant([*view, size], np.float64), places)
    same = graph.add("Equal", column, graph.constant(np.arange(size), np.float64))
    unknown = graph.add("Equal", column, graph.constant([size], np.float64))
    agrees = graph.add("Or", same, unknown)
    chosen = graph.add("Where", agrees, graph.reals([0.0]), graph.reals([_OUT]))
    return graph.add("Unsqueeze", chosen, graph.integers(0))


def _send(graph: Graph, recipe: Recipe, step: Step, messages: list[str], groups: str) -> str:
    """Return the message of a step, (classes, rows, *step.shape)."""
    beside, n_groups, scope = list(step.beside), step.n_groups, step.scope
    parts = []
    for i, view in scope.items():
        evidence = _evidence(graph, groups, i, view)
        parts.append(_align(graph, {i: view}, evidence, scope))
    for m in step.messages:
        sent = dict(zip(recipe.steps[m].separator, recipe.steps[m].views, strict=True))
        parts.append(_align(graph, sent, messages[m], scope))
    gathered = graph.total(parts)
    size = prod(max(view) + 1 for view in scope.values())
    table = np.maximum(np.exp(recipe.step_table(step)), _SMALLEST[graph.real])
    table = np.moveaxis(table, -1, 0)  # (classes, *step.shape, groups)
    flat = graph.reshape(gathered, 0, 0, size)  # there may be no rows: no -1
    top = graph.reduce("ReduceMax", flat, 2, keep=True)
    weights = graph.add("Exp", graph.add("Sub", flat, top))
    if not beside:
        product = table.reshape(recipe.n_classes, -1, n_groups).transpose(0, 2, 1)
        if not step.messages:  # the same for every class so far
            weights = graph.add("Squeeze", weights, graph.integers(0))
        sums = graph.add("MatMul", weights, graph.reals(product))
        sums = graph.add("Add", graph.add("Log", sums), top)
        return graph.reshape(sums, 0, 0, *step.shape)
    return _sum_beside(graph, step, beside, table, weights, top)


def _sum_beside(
    graph: Graph,
    step: Step,
    beside: list[int],
    table: NDArray[np.float64],
    weights: str,
    top: str,
) -> str:
    """Return the message of a step whose weights vary over places beside its input too.

    One product of matrices for all these places: (rows, groups) by (groups, other places).
    """
    n_classes, n_groups = table.shape[0], table.shape[-1]
    axes = [step.separator.index(i) for i in beside]
    axes += [at for at in range(len(step.separator)) if at not in axes]
    sizes = [step.shape[at] for at in axes]
    n_beside = prod(sizes[: len(beside)])
    last = len(step.shape) + 1
    matrix = table.transpose(0, *(1 + at for at in axes), last)
    matrix = matrix.reshape(n_classes, n_beside, -1, n_groups).transpose(0, 1, 3, 2)
    weights = graph.reshape(weights, 0, 0, n_beside, n_groups)
    weights = graph.add("Transpose", weights, perm=[0, 2, 1, 3])
    sums = graph.add("MatMul", weights, graph.reals(matrix))
    sums = graph.add("Transpose", sums, perm=[0, 2, 1, 3])
    sums = graph.add("Add", graph.add("Log", sums), graph.add("Unsqueeze", top, graph.integers(3)))
    sums = graph.reshape(sums, 0, 0, *sizes)
    order = [axes.index(at) for at in range(len(axes))]
    if order == sorted(order):
        return sums
    return graph.add("Transpose", sums, perm=[0, 1, *(2 + at for at in order)])


def _align(graph: Graph, own: Mapping[int, Codes], what: str, scope: Mapping[int, Codes]) -> str:
    """Return (classes, rows, *own) with its axes in the places and the views of a scope.

    The views of a scope tell apart at least what those of its messages do.
    """
    inputs, wanted = list(own), list(scope)
    for axis, i in enumerate(inputs):
        firsts = [scope[i].index(of) for of in range(max(scope[i]) + 1)]
        places = [own[i][first] for first in firsts]
        if places != list(range(max(own[i]) + 1)):
            what = graph.add("Gather", what, graph.integers(*places), axis=2 + axis)
    order = sorted(range(len(inputs)), key=lambda at: wanted.index(inputs[at]))
    if order != list(range(len(inputs))):
        what = graph.add("Transpose", what, perm=[0, 1, *(2 + at for at in order)])
    absent = [2 + at for at, i in enumerate(wanted) if i not in own]
    return graph.add("Unsqueeze", what, graph.integers(*absent)) if absent else what


OPSET = 21
ML_OPSET = 3
MAX_STEP_CELLS = 1 << 16  # of one row's sum: 512 kB
ML = "ai.onnx.ml"
_SAFE_INTEGER = 1 << 53  # doubles hold every whole number up to here


def to_onnx(
    network: Network,
    *,
    opset: int = OPSET,
    float32: bool = False,
    contributions: bool = False,
    unknowns: bool = True,
    missing_text: str | None = None,
) -> Any:
    """Return the network as an `onnx.ModelProto`; needs onnx.

    Parameters
    ----------
    network : Network
    opset : int, default=21
        At least 18.
    float32 : bool, default=False
        Take numbers and give probabilities in single precision. Cuts are rounded
        down, so that every number of single precision gets its true interval.
    contributions : bool, default=False
        Add the output ``terms``, (rows, features, classes): each feature's part
        of the log-joint. The difference of two classes is its contribution to
        their log-odds.
    unknowns : bool, default=True
        Whether rows with unknown values are scored, whichever these are. False
        gives NaN for such rows.
    missing_text : str, optional
        The text that means missing, as ONNX has no null. By default the empty one.

    Notes
    -----
    One input a column, of shape (rows, 1): texts as strings, all else as numbers,
    NaN for missing. Outputs: ``label`` (rows) and ``probabilities`` (rows,
    classes).
    """
    from onnx import helper, numpy_helper

    if opset < 18:
        raise ConfigurationError(f"opset={opset} is too old. Use 18 or later.")
    recipe = make_recipe(network)
    check_sums(recipe, unknowns)
    graph = Graph(_prefix(recipe), np.float32 if float32 else np.float64)
    inputs, columns = [], []
    for given in recipe.inputs:
        dtype = _input_type(given, graph)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        inputs.append(helper.make_tensor_value_info(given.name, kind, [None, 1]))
        columns.append(given.name)
    scores = add_scores(graph, recipe, columns, missing_text, contributions, unknowns)
    outputs = []
    for name, what, dtype, shape in _outputs(recipe, graph, scores):
        graph.give(what, name)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        outputs.append(helper.make_tensor_value_info(name, kind, shape))
    nodes = [
        helper.make_node(n.kind, n.inputs, n.outputs, domain=n.domain, **n.attributes)
        for n in graph.nodes
    ]
    constants = [numpy_helper.from_array(a, name) for name, a in graph.constants.items()]
    body = helper.make_graph(nodes, "tanager", inputs, outputs, constants)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(ML, ML_OPSET)]
    model = helper.make_model(body, producer_name="tanager", opset_imports=imports)
    model.ir_version = helper.find_min_ir_version_for(imports)
    return model


class ResultNames(NamedTuple):
    """Names of the results of a graph."""

    probabilities: str
    label: str
    terms: str | None


def check_sums(recipe: Recipe, unknowns: bool) -> None:
    """Refuse what a graph cannot sum out."""
    if unknowns:
        remedy = "Export with unknowns=False: rows with unknown values then get NaN."
        recipe.check_probabilities("ONNX", remedy)
        recipe.check_width(MAX_STEP_CELLS, remedy)


def add_scores(
    graph: Graph,
    recipe: Recipe,
    columns: list[str],
    missing_text: str | None = None,
    contributions: bool = False,
    unknowns: bool = True,
) -> ResultNames:
    """Add everything from columns (rows, 1) to probabilities, labels and, if asked, terms."""
    codes = _add_codes(graph, recipe, columns, missing_text)
    terms, joint = _add_look_ups(graph, recipe, codes)
    if unknowns and recipe.sums:
        terms, joint = _add_sums(graph, recipe, codes, terms, joint, contributions)
    probabilities = graph.add("Softmax", joint, axis=1)
    best = graph.add("ArgMax", joint, axis=1, keepdims=0)
    labels = class_array(recipe)
    label = graph.add("Gather", graph.constant(labels, labels.dtype), best)
    return ResultNames(probabilities, label, terms if contributions else None)


def class_array(recipe: Recipe) -> NDArray[Any]:
    """Return the labels as ONNX has them: texts, int64, doubles or booleans."""
    labels = np.array(recipe.classes)
    return labels.astype(object) if labels.dtype.kind == "U" else labels


def _outputs(
    recipe: Recipe, graph: Graph, scores: ResultNames
) -> list[tuple[str, str, Any, list[Any]]]:
    names, free = {given.name for given in recipe.inputs}, []
    for name in ("label", "probabilities", "terms"):
        while name in names:
            name += "_"
        free.append(name)
    n_inputs, n_classes = len(recipe.inputs), recipe.n_classes
    labels = class_array(recipe).dtype
    found: list[tuple[str, str, Any, list[Any]]] = [
        (free[0], scores.label, labels, [None]),
        (free[1], scores.probabilities, graph.real, [None, n_classes]),
    ]
    if scores.terms is not None:
        found.append((free[2], scores.terms, graph.real, [None, n_inputs, n_classes]))
    return found


def _prefix(recipe: Recipe) -> str:
    """Return what the graph's own names start with, and no column's name does."""
    if any(not given.name for given in recipe.inputs):
        raise ConfigurationError(
            "A column has an empty name, which ONNX keeps for inputs that are left out. Rename it."
        )
    prefix = "t_"
    while any(given.name.startswith(prefix) for given in recipe.inputs):
        prefix += "_"
    return prefix


def _input_type(given: Input, graph: Graph) -> Any:
    if given.kind == "text":
        return np.dtype(object)
    if given.kind == "integer" and any(abs(v) > _SAFE_INTEGER for v in given.values):
        return np.int64
    return graph.real


def _add_codes(graph: Graph, recipe: Recipe, columns: list[str], missing_text: str | None) -> str:
    """Return the codes as doubles, (rows, inputs)."""
    numbers = [at for at, given in enumerate(recipe.inputs) if given.kind == "number"]
    others = [at for at, given in enumerate(recipe.inputs) if given.kind != "number"]
    parts = []
    if numbers:
        parts.append(_add_intervals(graph, recipe, columns, numbers))
    for at in others:
        given = recipe.inputs[at]
        wide = any(isinstance(v, int) and abs(v) > _SAFE_INTEGER for v in given.values)
        if given.kind == "text" or wide:
            parts.append(_add_labels(graph, given, columns[at], missing_text))
        else:
            parts.append(_add_values(graph, given, columns[at]))
    codes = graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    order = [*numbers, *others]
    if order == sorted(order):
        return codes
    places = graph.constant(np.argsort(order), np.int64)
    return graph.add("Gather", codes, places, axis=1)


def _add_intervals(graph: Graph, recipe: Recipe, columns: list[str], numbers: list[int]) -> str:
    """Return the codes of numbers: how many cuts are less than each."""
    inputs = [recipe.inputs[at] for at in numbers]
    values = [columns[at] for at in numbers]
    matrix = graph.add("Concat", *values, axis=1) if len(values) > 1 else values[0]
    width = max(1, *(len(given.cuts) for given in inputs))
    cuts = np.full((len(inputs), width), np.inf)
    for row, given in zip(cuts, inputs, strict=True):
        row[: len(given.cuts)] = given.cuts
    if graph.real is np.float32:  # rounded down, so that every float32 gets its true interval
        with np.errstate(over="ignore"):
            narrow = cuts.astype(np.float32)
        down = np.nextafter(narrow, np.float32(-np.inf))
        cuts = np.where(narrow.astype(np.float64) > cuts, down, narrow)
    deep = graph.add("Unsqueeze", matrix, graph.integers(2))
    above = graph.cast(graph.add("Greater", deep, graph.reals(cuts)), graph.real)
    codes = graph.cast(graph.reduce("ReduceSum", above, 2), np.float64)
    missing = graph.constant([given.missing for given in inputs], np.float64)
    return graph.add("Where", graph.add("IsNaN", matrix), missing, codes)


def _add_values(graph: Graph, given: Input, column: str) -> str:
    """Return the codes of numbers that are categories."""
    values = np.array([float(v) for v in given.values])
    order = np.argsort(values)
    values = values[order]
    known = graph.reals(np.append(values, np.nan))  # past the last there is no match
    less = graph.cast(graph.add("Greater", column, graph.reals(values)), np.int64)
    place = graph.reduce("ReduceSum", less, 1, keep=True)
    same = graph.add("Equal", graph.add("Gather", known, place), column)
    unknown = graph.constant([float(given.arity)], np.float64)
    code = graph.cast(place, np.float64)
    if (np.diff(order) < 0).any():  # an order of their own
        code = graph.add("Gather", graph.constant(np.append(order, 0), np.float64), place)
    codes = graph.add("Where", same, code, unknown)
    missing = graph.constant([float(given.missing)], np.float64)
    return graph.add("Where", graph.add("IsNaN", column), missing, codes)


def _add_labels(graph: Graph, given: Input, column: str, missing_text: str | None) -> str:
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
    found = graph.add(
        "LabelEncoder", column, domain=ML, values_int64s=codes, default_int64=given.unlisted, **keys
    )
    return graph.cast(found, np.float64)


def _add_look_ups(graph: Graph, recipe: Recipe, codes: str) -> tuple[str, str]:
    """Return every family's terms (rows, inputs, classes) and the log-joint (rows, classes).

    An unknown input adds nothing; a known one below an unknown parent makes NaN.
    """
    n, n_classes = len(recipe.inputs), recipe.n_classes
    groups, shares = _add_groups(graph, recipe, codes)
    views, groups = _add_views(graph, recipe, groups)
    strides = np.zeros((n + len(views), n))
    starts, tables, start = [], [], 0
    for at, family in enumerate(recipe.families):
        columns = [
            parent if view is None else n + views[parent, view]
            for parent, view in zip(family.parents, family.views, strict=True)
        ]
        sizes = family.log_prob.shape[:-1]
        table = np.full([*(size + 1 for size in sizes), n_classes], np.nan)
        table[tuple(slice(size) for size in sizes)] = family.log_prob
        table[..., -1, :] = 0.0
        stride = 1
        for column, size in zip(reversed([*columns, at]), reversed(sizes), strict=True):
            strides[column, at] = stride
            stride *= size + 1
        starts.append(start)
        tables.append(table.reshape(-1, n_classes))
        start += len(tables[-1])
    places = graph.add("MatMul", groups, graph.constant(strides, np.float64))
    places = graph.add("Add", places, graph.constant(starts, np.float64))
    whole = graph.reals(np.concatenate(tables))
    terms = graph.add("Gather", whole, graph.cast(places, np.int64))
    if shares is not None:
        terms = graph.add("Add", terms, shares)
    joint = graph.add("Add", graph.reduce("ReduceSum", terms, 1), graph.reals(recipe.log_prior))
    return terms, joint


def _add_groups(graph: Graph, recipe: Recipe, codes: str) -> tuple[str, str | None]:
    """Return the groups of codes, and what the codes add to them, (rows, inputs, classes)."""
    if all(given.groups is None for given in recipe.inputs):
        return codes, None
    groups: list[int] = []
    shares: list[NDArray[np.float64]] = []
    starts = []
    for given, family in zip(recipe.inputs, recipe.families, strict=True):
        starts.append(len(groups))
        groups += [*(given.groups or range(given.arity)), given.n_groups]
        logs = np.zeros((given.arity + 1, recipe.n_classes))  # an unknown code adds nothing
        if family.log_within is not None:
            logs[:-1] = family.log_within
        shares.append(logs)
    places = graph.cast(graph.add("Add", codes, graph.constant(starts, np.float64)), np.int64)
    found = graph.add("Gather", graph.constant(groups, np.float64), places)
    return found, graph.add("Gather", graph.reals(np.concatenate(shares)), places)


def _add_views(
    graph: Graph, recipe: Recipe, groups: str
) -> tuple[dict[tuple[int, Codes], int], str]:
    """Return the groups with more columns, one for each view that tables have of an input."""
    views: dict[tuple[int, Codes], int] = {}
    for family in recipe.families:
        for parent, view in zip(family.parents, family.views, strict=True):
            if view is not None:
                views.setdefault((parent, view), len(views))
    if not views:
        return views, groups
    known = [[*view, max(view) + 1] for _, view in views]  # unknown is one more
    starts = np.cumsum([0, *map(len, known)])[:-1]
    chosen = graph.add("Gather", groups, graph.integers(*(i for i, _ in views)), axis=1)
    places = graph.add("Add", chosen, graph.constant(starts, np.float64))
    flat = graph.constant([place for view in known for place in view], np.float64)
    viewed = graph.add("Gather", flat, graph.cast(places, np.int64))
    return views, graph.add("Concat", groups, viewed, axis=1)


def _add_sums(
    graph: Graph, recipe: Recipe, codes: str, terms: str, joint: str, contributions: bool
) -> tuple[str, str]:
    """Replace the NaN rows of terms and log-joint by exact ones."""
    n, n_classes = len(recipe.inputs), recipe.n_classes
    first = graph.add("Gather", joint, graph.constant(0, np.int64), axis=1)
    rows = graph.add("NonZero", graph.add("IsNaN", first))  # (1, rows with sums)
    places = graph.add("Transpose", rows, perm=[1, 0])
    some = graph.add("Gather", codes, graph.reshape(rows, -1))
    if not contributions:
        return terms, graph.add("ScatterND", joint, places, _add_joint(graph, recipe, some))
    # Each row once with nothing known, then with one input more, parents first.
    known = np.zeros((n + 1, n), dtype=bool)
    for at, feature in enumerate(recipe.order):
        known[at + 1 :, feature] = True
    arities = graph.constant([given.arity for given in recipe.inputs], np.float64)
    deep = graph.add("Unsqueeze", some, graph.integers(1))
    partial = graph.add("Where", graph.constant(known, np.bool_), deep, arities)
    sums = _add_joint(graph, recipe, graph.reshape(partial, -1, n))
    sums = graph.reshape(sums, -1, n + 1, n_classes)
    after = graph.add("Gather", sums, graph.integers(*range(1, n + 1)), axis=1)
    before = graph.add("Gather", sums, graph.integers(*range(n)), axis=1)
    steps = graph.add("Sub", after, before)
    order = graph.constant(np.argsort(recipe.order), np.int64)
    exact = graph.add("Gather", steps, order, axis=1)
    last = graph.add("Gather", sums, graph.constant(n, np.int64), axis=1)
    return (
        graph.add("ScatterND", terms, places, exact),
        graph.add("ScatterND", joint, places, last),
    )


def _add_joint(graph: Graph, recipe: Recipe, codes: str) -> str:
    """Return the log-joint (rows, classes) of codes, unknown ones summed out."""
    groups, shares = _add_groups(graph, recipe, codes)
    joint = sum_out(graph, recipe, groups)
    if shares is None:
        return joint
    return graph.add("Add", joint, graph.reduce("ReduceSum", shares, 1))
