r"""Sums over unknown inputs as ONNX operations.

Every step of the recipe sends one message,

.. math:: m(u, c) = t(c) + \log \sum_v K(u, v, c) \exp(T(u, v, c) - t(c))

as in `sql_messages`: a product of matrices where T depends on the step's own
input alone, as on trees; otherwise one for each combination of the places beside
it. Arrays are (classes, rows, places ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

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
