r"""Sums over unknown inputs as ONNX operations.

Every step of the recipe sends one message,

.. math:: m(u, c) = t(c) + \log \sum_v K(u, v, c) \exp(T(u, v, c) - t(c))

as in `sql_messages`: a product of matrices where T depends on the step's own
input alone, as on trees; otherwise element by element. Arrays are (classes,
rows, places ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from tanager.network.exports.onnx_graph import Graph
from tanager.network.exports.recipe import Codes, Recipe, Step

__all__ = ["sum_out"]

_OUT = -1e30  # added to a value that does not agree with what is known
_SMALLEST = {np.float64: 1e-190, np.float32: 1e-30}


def sum_out(graph: Graph, recipe: Recipe, groups: str) -> str:
    """Return the log-joint (rows, classes) of groups (rows, inputs) as doubles."""
    messages: list[str] = []
    totals = []
    for step in recipe.steps:
        message = _send(graph, recipe, step, messages, groups)
        messages.append(message)
        if not step.separator:
            totals.append(message)
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
    beside = sorted({i for m in step.messages for i in recipe.steps[m].separator} - {step.input})
    n_groups = recipe.inputs[step.input].n_groups
    views = dict(zip(step.separator, step.views, strict=True))
    scope = {i: views[i] for i in beside} | {step.input: tuple(range(n_groups))}
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
    pairs = zip(step.separator, step.shape, strict=True)
    widths = [size if i in beside else 1 for i, size in pairs]
    weights = graph.reshape(weights, 0, 0, *widths, n_groups)
    spread = graph.reals(np.expand_dims(table, 1))
    sums = graph.reduce("ReduceSum", graph.add("Mul", weights, spread), 2 + len(step.shape))
    top = graph.reshape(top, 0, 0, *(1 for _ in step.shape))
    return graph.add("Add", graph.add("Log", sums), top)


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
