"""What a classifier says of a fixed little table: the fingerprint of what it means.

A page of results is out of date once its classifiers say something else. Source
text changes without a change of meaning, and defaults change meaning without a
change of the text that names the classifier. So every classifier of a page is
fitted to the same 72 rows, and its log-probabilities of a few rows are kept:
they move where bins, counts, a default or an algorithm move, and not otherwise.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tanager
from tanager.atomic import write_text
from tanager.evaluation.contenders import Contender
from tanager_papers.generators import led, waveform

__all__ = ["TOLERANCE", "code_digest", "differs", "kept_probe", "probe", "stamp"]

N_ROWS = 72
N_ASKED = 4
# Differences of probabilities within it are those of compilers and libraries.
TOLERANCE = 2e-3


@cache
def _rows() -> tuple[Any, Any]:
    """Return features, seven of them names and four numbers, and three classes."""
    waves = waveform(N_ROWS, 0, seed=3)
    table = led(N_ROWS, seed=3).drop_columns(["class"])
    for name in ("x5", "x9", "x11", "x15"):
        table = table.append_column(name, waves[name])
    return table, np.array(waves["class"].to_pylist(), dtype=np.int64)


def probe(contender: Contender, bins: str | int = "mdl") -> list[float]:
    """Return the probabilities of the classes for a few rows, by a fit to the fixed table."""
    features, labels = _rows()
    if "neighbours" in contender.use:
        features = features.select(features.column_names[:9])  # the pixels of a square image
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a budget does not reach is told in experiments
        model = contender.build(0, bins).fit(features, labels)
        found = model.predict_proba(features.slice(0, N_ASKED))
    return [round(float(value), 5) for value in found.ravel()]


@cache
def code_digest() -> str:
    """Return a digest of the package's files, Python and compiled, that a probe rests on.

    Left out are the layers above, and other packages: what those change stays within `TOLERANCE`.
    """
    folder = Path(tanager.__file__).parent
    above = (folder / "cli", folder / "report", Path(__file__).parent)
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        code = path.suffix in (".py", ".so", ".pyd")
        if path == Path(__file__) or (code and not any(path.is_relative_to(a) for a in above)):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def kept_probe(contender: Contender, path: Path) -> list[float]:
    """Return a probe from a file, or make and keep it; probes of other code are dropped.

    Fitting the hundreds of classifiers of a paper to the little table takes minutes, and the
    answer is the same until the code changes.
    """
    key = json.dumps([contender.use, dict(contender.options)], sort_keys=True, default=repr)
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if found.get("code") != code_digest():
        found = {"code": code_digest(), "probes": {}}
    if key not in found["probes"]:
        found["probes"][key] = probe(contender)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(found, ensure_ascii=False))
    values: list[float] = found["probes"][key]
    return values


def differs(kept: list[float], now: list[float]) -> bool:
    """Tell whether two probes are further apart than `TOLERANCE`."""
    return len(kept) != len(now) or not np.allclose(kept, now, rtol=0, atol=TOLERANCE)


def stamp(use: str, values: list[float]) -> str:
    """Return a digest of a classifier's text and probe, to tell its results apart."""
    text = json.dumps([use, [round(value, 3) for value in values]])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
