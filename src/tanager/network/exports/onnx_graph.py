"""Nodes and constants of an ONNX graph, as plain lists that any writer can take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Graph", "Node"]


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
        result = parts[0]
        for part in parts[1:]:
            result = self.add("Add", result, part)
        return result
