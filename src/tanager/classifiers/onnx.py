"""`BayesNetClassifier` in scikit-learn pipelines that skl2onnx converts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tanager.classifiers.bayesnet import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.network.exports.onnx import ML, ML_OPSET, Graph, add_scores, check_sums, class_array
from tanager.network.exports.recipe import Recipe, make_recipe


def register() -> None:
    """Teach skl2onnx to convert `BayesNetClassifier`, alone or at the end of a pipeline.

    Call it once, before ``skl2onnx.to_onnx``. The previous step must output one matrix:
    numbers, with NaN for missing, or strings, with an empty string for missing.

    Notes
    -----
    Needs skl2onnx. The graph computes in double precision and returns the probabilities of
    `predict_proba`; earlier steps in single precision may move a number across a cut.
    """
    from skl2onnx import update_registered_converter

    update_registered_converter(
        BayesNetClassifier,
        "TanagerBayesNetClassifier",
        _shapes,
        _convert,
        options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
    )


def _shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    n_rows = operator.inputs[0].get_first_dimension()
    labels = np.asarray(operator.raw_operator.classes_)
    kind = Int64TensorType if labels.dtype.kind in "biu" else StringTensorType
    operator.outputs[0].type = kind([n_rows])
    operator.outputs[1].type = DoubleTensorType([n_rows, len(labels)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.common.data_types import StringTensorType

    network = operator.raw_operator.network_
    recipe = make_recipe(network)
    check_sums(recipe, unknowns=True)
    graph = Graph(scope.get_unique_variable_name("tanager"))
    texts = isinstance(operator.inputs[0].type, StringTensorType)
    _check_matrix(recipe, texts)
    matrix = operator.inputs[0].full_name
    if not texts:
        matrix = graph.cast(matrix, np.float64)
    places = [network.structure.names.index(given.name) for given in recipe.inputs]
    columns = [graph.add("Gather", matrix, graph.integers(i), axis=1) for i in places]
    scores = add_scores(graph, recipe, columns)
    label = scores.label
    if class_array(recipe).dtype.kind == "b":
        label = graph.cast(label, np.int64)
    graph.give(label, operator.outputs[0].full_name)
    graph.give(scores.probabilities, operator.outputs[1].full_name)
    _write(graph, container)


def _check_matrix(recipe: Recipe, texts: bool) -> None:
    for given in recipe.inputs:
        if (given.kind == "text") != texts:
            held, holds = ("text", "numbers") if given.kind == "text" else ("numbers", "text")
            raise ConfigurationError(
                f"Column {given.name!r} held {held} in training, but the classifier's input matrix "
                f"holds {holds}. Convert the pipeline with the types it was fitted with."
            )
    if any(isinstance(label, float) for label in recipe.classes):
        raise ConfigurationError(
            "skl2onnx doesn't support classes that are real numbers. Use integers or strings, or "
            "network.to_onnx()."
        )


def _write(graph: Graph, container: Any) -> None:
    from onnx import numpy_helper

    for name, array in graph.constants.items():
        tensor = numpy_helper.from_array(array, name)
        if array.dtype == object:  # strings have no raw bytes to copy
            container.add_initializer(name, tensor.data_type, array.shape, array.ravel().tolist())
        else:
            container.add_initializer(name, tensor.data_type, array.shape, tensor)
    for node in graph.nodes:
        version = ML_OPSET if node.domain == ML else container.target_opset_any_domain("")
        options = {"op_domain": node.domain, "op_version": version, **node.attributes}
        container.add_node(node.kind, node.inputs, node.outputs, **options)
