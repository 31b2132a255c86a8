r"""Sums over unknown inputs as ONNX operations.

Every step of the recipe sends one message,

.. math:: m(u, c) = t(c) + \log \sum_v K(u, v, c) \exp(T(u, v, c) - t(c))

as in `sql_messages`: a product of matrices where T depends on the step's own
input alone, as on trees; otherwise element by element. Arrays are (classes,
rows, values ...).
"""

from __future__ import annotations

import numpy as np

from tanager.network.exports.onnx_graph import Graph
from tanager.network.exports.recipe import Recipe, Step

__all__ = ["sum_out"]

_OUT = -1e30  # added to a value that does not agree with what is known
_SMALLEST = {np.float64: 1e-190, np.float32: 1e-30}


def sum_out(graph: Graph, recipe: Recipe, codes: str) -> str:
    """Return the log-joint (rows, classes) of codes (rows, inputs) as doubles."""
    evidence = {step.input: _evidence(graph, recipe, codes, step.input) for step in recipe.steps}
    messages: list[str] = []
    totals = []
    for step in recipe.steps:
        message = _send(graph, recipe, step, messages, evidence)
        messages.append(message)
        if not step.separator:
            totals.append(message)
    joint = graph.add("Transpose", graph.total(totals), perm=[1, 0])
    return graph.add("Add", joint, graph.reals(recipe.log_prior))


def _evidence(graph: Graph, recipe: Recipe, codes: str, i: int) -> str:
    """Return 0 for every value that agrees with what is known, (1, rows, values)."""
    arity = recipe.inputs[i].arity
    column = graph.add("Gather", codes, graph.integers(i), axis=1)
    same = graph.add("Equal", column, graph.constant(np.arange(arity), np.float64))
    unknown = graph.add("Equal", column, graph.constant([arity], np.float64))
    agrees = graph.add("Or", same, unknown)
    chosen = graph.add("Where", agrees, graph.reals([0.0]), graph.reals([_OUT]))
    return graph.add("Unsqueeze", chosen, graph.integers(0))


def _send(
    graph: Graph, recipe: Recipe, step: Step, messages: list[str], evidence: dict[int, str]
) -> str:
    """Return the message of a step, (classes, rows, *separator)."""
    beside = sorted({i for m in step.messages for i in recipe.steps[m].separator} - {step.input})
    scope = (*beside, step.input)
    parts = [_align(graph, (i,), evidence[i], scope) for i in scope]
    parts += [_align(graph, recipe.steps[m].separator, messages[m], scope) for m in step.messages]
    gathered = graph.total(parts)
    arities = [recipe.inputs[i].arity for i in step.separator]
    n_values = recipe.inputs[step.input].arity
    table = np.maximum(np.exp(recipe.step_table(step)), _SMALLEST[graph.real])
    table = np.moveaxis(table, -1, 0)  # (classes, *separator, values)
    flat = graph.reshape(gathered, 0, 0, recipe.size(scope))  # there may be no rows: no -1
    top = graph.reduce("ReduceMax", flat, 2, keep=True)
    weights = graph.add("Exp", graph.add("Sub", flat, top))
    if not beside:
        product = table.reshape(recipe.n_classes, -1, n_values).transpose(0, 2, 1)
        if not step.messages:  # the same for every class so far
            weights = graph.add("Squeeze", weights, graph.integers(0))
        sums = graph.add("MatMul", weights, graph.reals(product))
        sums = graph.add("Add", graph.add("Log", sums), top)
        return graph.reshape(sums, 0, 0, *arities)
    widths = [recipe.inputs[i].arity if i in beside else 1 for i in step.separator]
    weights = graph.reshape(weights, 0, 0, *widths, n_values)
    spread = graph.reals(np.expand_dims(table, 1))
    sums = graph.reduce("ReduceSum", graph.add("Mul", weights, spread), 2 + len(arities))
    top = graph.reshape(top, 0, 0, *(1 for _ in arities))
    return graph.add("Add", graph.add("Log", sums), top)


def _align(graph: Graph, own: tuple[int, ...], what: str, scope: tuple[int, ...]) -> str:
    """Return (classes, rows, *own) with its axes in the places of a scope."""
    order = sorted(range(len(own)), key=lambda at: scope.index(own[at]))
    if order != list(range(len(own))):
        what = graph.add("Transpose", what, perm=[0, 1, *(2 + at for at in order)])
    absent = [2 + at for at, i in enumerate(scope) if i not in own]
    return graph.add("Unsqueeze", what, graph.integers(*absent)) if absent else what
