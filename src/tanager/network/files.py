"""Model files: safetensors with a versioned JSON header and a checksum.

A model file contains data, never code. The arrays of the tables are tensors, such as
``family.3.log_prob``; everything else is one JSON text in the file's metadata. The page
``docs/model-files.md`` describes both. Everything is checked before any of it is used
(`tanager.network.checks`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tanager import __version__
from tanager.atomic import replacing
from tanager.errors import ConfigurationError, ModelFileError
from tanager.network import checks
from tanager.network.network import Network
from tanager.parameters.spread import level_codes, prior_levels, table_arrays
from tanager.parameters.tables import DenseTable, GroupedTable, TreeTable

FORMAT = "tanager"
# Files use the lowest version that supports their content, so older releases can read them.
PLAIN_VERSION, GROUPED_VERSION, LARGE_VERSION = "1", "3", "4"
VERSIONS = (PLAIN_VERSION, GROUPED_VERSION, LARGE_VERSION)
HEAD_BYTES = 100_000_000  # the largest head that safetensors reads

Tensors = dict[str, NDArray[Any]]

_DTYPES = {"F64": "<f8", "I64": "<i8", "U32": "<u4", "U16": "<u2", "U8": "<u1"}
_KINDS: dict[type, str] = {DenseTable: "dense", GroupedTable: "grouped", TreeTable: "tree"}


def write_model(
    network: Network,
    path: str | os.PathLike[str],
    facts: Mapping[str, Any] | None = None,
    load: Callable[[Path], Network] | None = None,
) -> None:
    """Write a network, and plain data about its estimator, to one file.

    It's written under a temporary name, read back (with `load` if it's more than a network) and
    renamed: `path` always contains either the old file or the new one, complete and readable.
    """
    families, tensors = _take_apart(network)
    grouped = any(family["kind"] == "grouped" for family in families)
    structure = network.structure
    header: dict[str, Any] = {
        "tanager": __version__,
        "codebook": network.codebook.to_dict(),
        "structure": {"selected": structure.selected, "parents": structure.parent_indices},
        "tables": {"normalized": network.tables.normalized, "families": families},
        "history": [edit.to_dict() for edit in network.history],
        **(facts or {}),
    }
    if network.tables.spread is not None:
        header["tables"]["spread"] = prior_levels(network.tables.spread)
    for name in ("reference", "calibration"):
        if getattr(network, name) is not None:
            header[name] = getattr(network, name).to_dict()
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    metadata = {
        "format": FORMAT,
        "version": GROUPED_VERSION if grouped else PLAIN_VERSION,
        "header": text,
        "sha256": checksum(text, tensors),
    }
    with replacing(path) as part:
        part.write_bytes(_pack(metadata, tensors))
        failed = f"{path}: the model wasn't saved, because"
        try:
            found = load(part) if load else read_model(part)[0]
        except ModelFileError as error:
            raise ModelFileError(f"{failed} it couldn't be loaded again: {error}") from error
        if found.codebook != network.codebook:
            raise ModelFileError(f"{failed} loading it gives other values or classes.")


def read_model(path: str | os.PathLike[str]) -> tuple[Network, dict[str, Any]]:
    """Read a network and the entire header; raise a `ModelFileError` if anything is wrong."""
    data = Path(path).read_bytes()
    try:
        metadata, tensors = _unpack(data)
        header = _open_header(metadata, tensors)
        codebook = checks.check_codebook(header["codebook"])
        structure = checks.check_structure(header["structure"], codebook.domain.names)
        with np.errstate(over="ignore"):  # for forged logarithms, which are then rejected
            tables = checks.check_tables(header["tables"], tensors, structure, codebook.domain)
            history = checks.check_history(header.get("history", []), codebook.domain.names)
            calibration = checks.check_calibration(header.get("calibration"), len(codebook.classes))
            reference = checks.check_reference(header.get("reference"), codebook)
            network = Network(codebook, structure, tables, history, calibration, reference)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except ConfigurationError as error:
        raise ModelFileError(f"{path}: the model file is malformed: {error}") from error
    except MemoryError as error:
        raise ModelFileError(
            f"{path}: there isn't enough memory to load the model ({error}). Free some, or load it "
            "on a larger machine."
        ) from error
    except Exception as error:
        # A forged file with a valid checksum, and a shape that none of the checks anticipates.
        raise ModelFileError(
            f"{path}: the model file is malformed ({type(error).__name__}: {error}). "
            "Write it again with tanager.save."
        ) from error
    return network, header


def checksum(header: str, tensors: Tensors) -> str:
    """Return the SHA-256 of the header and of all tensors, by name."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"|{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def _take_apart(network: Network) -> tuple[list[dict[str, Any]], Tensors]:
    """Return a description of each family, and the arrays of all families."""
    tensors: Tensors = {"log_prior": _floats(network.tables.log_prior)}
    families, spread = list[dict[str, Any]](), network.tables.spread
    for at, table in enumerate(network.tables.families):
        facts: dict[str, Any] = {"kind": _KINDS[type(table)]}
        arrays = {name: _floats(array) for name, array in table_arrays(table).items()}
        if isinstance(table, GroupedTable):
            arrays["lookup"] = _narrow(table.lookup)
        elif isinstance(table, TreeTable):
            facts |= {"inherit": bool(table.inherit), "backoff": bool(table.backoff)}
            arrays |= {n: _narrow(getattr(table.contexts, n)) for n in checks.TREE_INTEGERS}
        if spread is not None:
            arrays["spread"] = level_codes(spread.families[at])
        families.append(facts)
        tensors |= {f"family.{at}.{name}": array for name, array in arrays.items()}
    return families, tensors


def _floats(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype="<f8")


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Return non-negative integers in the narrowest type that can hold them."""
    top = int(array.max(initial=0))
    kind = next(k for k in ("<u1", "<u2", "<u4", "<i8") if top <= np.iinfo(k).max)
    return np.ascontiguousarray(array, dtype=kind)


def _pack(metadata: Mapping[str, str], tensors: Tensors) -> bytes:
    """Return the bytes of a safetensors file: the library's differ for equal models."""
    head, order = _head(metadata, tensors)
    if len(head) > HEAD_BYTES:
        tensors = {**tensors, "header": np.frombuffer(metadata["header"].encode(), np.uint8)}
        short = {name: text for name, text in metadata.items() if name != "header"}
        head, order = _head({**short, "version": LARGE_VERSION}, tensors)
    if len(head) > HEAD_BYTES:
        raise ModelFileError(
            f"The network has {len(tensors):,} arrays, more than a model file can hold. Select "
            "fewer features."
        )
    return b"".join([len(head).to_bytes(8, "little"), head, *(tensors[n].tobytes() for n in order)])


def _head(metadata: Mapping[str, str], tensors: Tensors) -> tuple[bytes, list[str]]:
    """Return the JSON before the tensors, and the order of the tensors."""
    names = {dtype: name for name, dtype in _DTYPES.items()}
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    order, end = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name)), 0
    for name in order:
        array = tensors[name]
        start, end = end, end + array.nbytes
        kind = names[array.dtype.newbyteorder("<").str.replace("|", "<")]
        entries[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [start, end]}
    head = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    return head + b" " * (-len(head) % 8), order  # the tensors start at a multiple of 8


def _unpack(data: bytes) -> tuple[dict[str, str], Tensors]:
    """Return metadata and tensors as views of the bytes: the library copies them, and may panic."""
    if len(data) < 8:
        _refuse(f"it has {len(data)} bytes, too few for a model")
    if data[8:9] != b"{":  # as in every safetensors file
        raise ModelFileError(
            "this isn't a model file (not a safetensors file). Models are written by tanager.save "
            "and tanager fit. Check the path."
        )
    start = 8 + int.from_bytes(data[:8], "little")
    if start > min(len(data), 8 + HEAD_BYTES):
        _refuse("it isn't a safetensors file, or is cut short")
    body = data[start:]  # outlives the header
    try:
        entries = json.loads(data[8:start])
        metadata = entries.pop("__metadata__", {})
        tensors, end = {}, 0
        for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            tensors[name] = _view(body, end, name, entry)
            end += tensors[name].nbytes
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _refuse(f"it isn't a safetensors file, or is damaged ({type(error).__name__}: {error})")
    if end != len(body):
        _refuse(f"its tensors have {end:,} of {len(body):,} bytes")
    return metadata, tensors


def _view(body: bytes, start: int, name: str, entry: dict[str, Any]) -> NDArray[Any]:
    """Return the array of a tensor, which must start where the previous one ends."""
    kind, shape = entry["dtype"], entry["shape"]
    if kind not in _DTYPES:
        _refuse(f"tensor {name!r} has the type {kind}; allowed: {', '.join(_DTYPES)}")
    dtype = np.dtype(_DTYPES[kind])
    whole = all(type(n) is int and n >= 0 for n in shape)
    end = start + math.prod(shape) * dtype.itemsize if whole else -1
    if entry["data_offsets"] != [start, end] or end > len(body):
        _refuse(f"tensor {name!r} isn't where its shape says")
    found = np.frombuffer(body, dtype, math.prod(shape), start).reshape(shape)
    return found if found.flags.aligned else found.copy()


def _open_header(metadata: Mapping[str, str], tensors: Tensors) -> dict[str, Any]:
    if metadata.get("format") != FORMAT:
        _refuse("it's a safetensors file, but not a Tanager model")
    version = metadata.get("version", "")
    if version not in VERSIONS:
        raise ModelFileError(
            f"the model file has the format version {version[:20]!r}; this Tanager "
            f"({__version__}) reads versions {', '.join(VERSIONS)}. Install the version that wrote "
            "it."
        )
    text = metadata.get("header", "")
    if version == LARGE_VERSION:
        text = tensors.pop("header", np.zeros(0, np.uint8)).tobytes().decode()
    if metadata.get("sha256") != checksum(text, tensors):
        _refuse("its checksum doesn't match its content: the file is damaged")
    header = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    if not isinstance(header, dict):
        _refuse("its header is not a JSON object")
    if lacking := {"codebook", "structure", "tables"} - header.keys():
        _refuse(f"its header lacks {', '.join(sorted(lacking))}")
    return header


def _no_constant(name: str) -> NoReturn:
    raise ModelFileError(f"its header holds the number {name}, which JSON doesn't allow.")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_constant(text[:20])


def _refuse(why: str) -> NoReturn:
    raise ModelFileError(
        f"this is not a usable model file: {why}. Save the model again, or copy it again."
    )
