"""Saving and loading estimators: parameters as plain data, never as code."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tanager.classifiers.bayesnet import BayesNetClassifier
from tanager.classifiers.fitting import RUN_PARAMETERS
from tanager.classifiers.priors import network_prior
from tanager.errors import ModelFileError
from tanager.network.files import read_model, write_model
from tanager.network.general import network_of_variables
from tanager.network.readers import open_network
from tanager.options import MAX_DEPTH, dump_option, load_option, make_object
from tanager.structure import Fixed

SHORT = 16  # maximum length of a list to store

# Facts that a stage reports about the run, not about the model.
RUN_FACTS = ("seconds", "cpu_seconds", "peak_memory_mb", "passes")


def save(estimator: BayesNetClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to one file; the usual extension is ``.tanager``.

    An existing file is replaced only once the new one is complete, and stays unchanged if
    anything fails.

    Notes
    -----
    The file is data (safetensors with a JSON header and a checksum), the same on every platform. It
    lacks the counts, so a loaded model can't continue with `partial_fit`, and how the fit was run
    (engine, threads, seconds, memory), so equal models have equal files. A random generator and a
    prior that is a network become None. From `info_`, it has numbers, short lists of them, texts
    and flags.

    Examples
    --------
    >>> import tanager, tempfile, os
    >>> clf = tanager.BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]], [0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.tanager")
    ...     tanager.save(clf, path)
    ...     tanager.load(path).predict_proba([["a"]]).round(3)
    array([[0.667, 0.333]])
    """
    if not isinstance(estimator, BayesNetClassifier) or not hasattr(estimator, "network_"):
        raise ModelFileError(
            f"Only a fitted BayesNetClassifier can be saved, not {type(estimator).__name__}. "
            "Call fit first."
        )
    facts = {"estimator": plain_parameters(estimator), "info": _facts_of_model(estimator.info_)}
    write_model(estimator.network_, path, facts, lambda part: load(part).network_)


def plain_parameters(estimator: BayesNetClassifier) -> dict[str, Any]:
    """Return an estimator's parameters as stored in a model file, or raise an error."""
    parameters = estimator.get_params(deep=False)
    for name in RUN_PARAMETERS:
        del parameters[name]
    if not isinstance(parameters["random_state"], int | np.integer | None):
        parameters["random_state"] = None
    if network_prior(parameters["prior"]) is not None:
        parameters["prior"] = None
    return {name: dump_option(value, name, _refuse) for name, value in parameters.items()}


def load(path: str | os.PathLike[str]) -> BayesNetClassifier:
    """Read a classifier that `save`, `Network.save` or the command line wrote.

    Its predictions are bit for bit those of the saved one. The file of a bare `Network` gives
    a classifier with that network's structure, as `Fixed`.

    Notes
    -----
    Everything is checked before use: format version, checksum, shapes and types, finite and
    normalised probabilities, parents without a cycle. A file that fails raises a
    `tanager.errors.ModelFileError`. Nothing in a file is ever executed.
    """
    network, header = read_model(path)
    try:
        estimator = _restore(header, network.structure.parents)
        info = _check_info(header.get("info", {}))
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    return estimator._take(network, None, info)


def read_network(
    path: str | os.PathLike[str],
    *,
    target: str,
    hidden: str | Sequence[str] = (),
    format: str | None = None,  # noqa: A002
) -> BayesNetClassifier:
    """Read a discrete Bayesian network written by another program, as a fitted classifier.

    Parameters
    ----------
    path : str or path-like
        A file in BIF, XMLBIF, GeNIe's XDSL or Hugin's NET, or any of them with ``.gz``.
    target : str
        The node to predict: the class. It may be anywhere in the network.
    hidden : str or sequence of str, default=()
        Nodes that are never observed, summed out once and for all. All others are features; those
        that a table lacks are summed out at prediction time.
    format : {"bif", "xmlbif", "xdsl", "net"}, default=None
        By default given by the file's extension.

    Notes
    -----
    The class becomes the root, by exact elimination; a network whose tables would exceed 16
    million cells on the way raises an error. Probabilities that sum to one within 1e-3 are
    rescaled. Zeros stay zeros; if a row rules out every class, the least contradicted one wins.

    Examples
    --------
    >>> import pathlib, tempfile, tanager
    >>> text = '''network n { }
    ... variable rain { type discrete [ 2 ] { no, yes }; }
    ... variable wet { type discrete [ 2 ] { no, yes }; }
    ... probability ( rain ) { table 0.8, 0.2; }
    ... probability ( wet | rain ) { (no) 0.9, 0.1; (yes) 0.2, 0.8; }'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rain.bif")
    ...     _ = path.write_text(text)
    ...     clf = tanager.read_network(path, target="rain")
    >>> clf.predict_proba([{"wet": "yes"}]).round(3)
    array([[0.333, 0.667]])
    """
    variables, notes = open_network(path, format)
    network = network_of_variables(variables, target, hidden=hidden, notes=notes)
    parents = {name: list(above) for name, above in network.structure.parents.items()}
    return BayesNetClassifier(Fixed(parents))._take(network, None, {})


def _check_info(info: Any) -> dict[str, Any]:
    """Return a file's facts about the fit after checking their types."""
    if not isinstance(info, dict) or not all(isinstance(stage, dict) for stage in info.values()):
        raise ModelFileError("the facts about the fit aren't an object of objects.")
    kept = _facts_of_model(info)
    rows = kept.get("codes", {}).get("rows", 0)
    if type(rows) is not int or not 0 <= rows < 2**63:
        raise ModelFileError(f"the fit's number of rows is {str(rows)[:40]!r}.")
    return kept


def _restore(head: Mapping[str, Any], parents: Mapping[str, tuple[str, ...]]) -> BayesNetClassifier:
    stored = head.get("estimator")
    if stored is None:
        return BayesNetClassifier(Fixed(dict(parents)))
    if not isinstance(stored, dict):
        raise ModelFileError("the estimator's parameters are not an object.")
    chosen = ", ".join(repr(name) for name in RUN_PARAMETERS if name in stored)
    if chosen:
        raise ModelFileError(
            f"the estimator's parameters name {chosen}, which no model has. The file was written "
            "by another version of Tanager, or forged."
        )
    parameters = {name: load_option(value) for name, value in stored.items()}
    return make_object(BayesNetClassifier, parameters)


def _refuse(value: Any, name: str) -> NoReturn:
    raise ModelFileError(
        f"The parameter {name!r} is a {type(value).__name__}, which a model file can't store, only "
        "numbers, strings, lists, mappings and Tanager's own learners. Save just the network "
        "with estimator.network_.save(path)."
    )


def _facts_of_model(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stages' facts about the model, without those about the run."""
    return {
        stage: _scalars({key: value for key, value in record.items() if key not in RUN_FACTS})
        for stage, record in info.items()
    }


def _scalars(info: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return the numbers, short lists of numbers, texts and flags of nested reports."""
    kept: dict[str, Any] = {}
    for key, value in info.items():
        plain = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        if isinstance(plain, Mapping):
            kept[str(key)] = _scalars(plain, depth + 1) if depth < MAX_DEPTH else {}
            continue
        short = plain if isinstance(plain, list) and len(plain) <= SHORT else [plain]
        if isinstance(plain, str) or plain is None or all(map(_is_number, short)):
            kept[str(key)] = plain
    return kept


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
