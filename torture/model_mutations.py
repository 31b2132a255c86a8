"""Damaged, forged and rewritten model files, from a seed."""

import json
import random

import numpy as np

from tanager.network.files import checksum
from torture.names import HOSTILE

NUMBERS = [-1, 0, 1, 2, 3, 255, 65_535, 65_536, 2**31, 2**53, 2**63, -(2**63), 0.5, -0.0, 1e308]
OTHERS = [None, True, False, "", "a", "dense", "tree", [], {}, [[]], {"kind": "tree"}, "\u0000"]


def damage(data: bytes, rng: random.Random) -> bytes:
    """Change bytes anywhere: flips, cuts, insertions, repeats, zeroed stretches."""
    data = bytearray(data or b"\0")
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 9))
        elif kind == 3:
            del data[at : at + rng.randint(1, 64)]
        elif kind == 4:
            data[at : at + 8] = bytes(8)
        else:
            low = rng.randrange(min(8, len(data)))
            data[low] = rng.randrange(256)  # the length of the header
        if not data:
            break
    return bytes(data)


def forge(data: bytes, rng: random.Random) -> bytes:
    """Change the content, then sign it with a valid checksum."""
    from safetensors.numpy import load, save

    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    header = json.loads(metadata["header"])
    tensors = {name: array.copy() for name, array in load(data).items()}
    for _ in range(rng.choice([1, 1, 2, 3])):
        if rng.random() < 0.5:
            _forge_json(header, rng)
        else:
            _forge_tensor(tensors, rng)
    text = json.dumps(header)
    metadata = {**metadata, "header": text, "sha256": checksum(text, tensors)}
    return save(tensors, metadata)


def rewrite(data: bytes, rng: random.Random) -> bytes:
    """Write another model that passes every check: what reads it must then stand it."""
    from safetensors.numpy import load, save

    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    header = json.loads(metadata["header"])
    tensors = {name: array.copy() for name, array in load(data).items()}
    normalized = header["tables"]["normalized"]
    for _ in range(rng.choice([1, 2, 4])):
        if rng.random() < 0.3:
            rng.choice([_rename, _rename_values, _move_cuts, _add_history])(header, rng)
        else:
            _redraw(tensors, rng, normalized=normalized)
    text = json.dumps(header)
    metadata = {**metadata, "header": text, "sha256": checksum(text, tensors)}
    return save(tensors, metadata)


def _redraw(tensors, rng, *, normalized):
    """Replace distributions by others: certain, almost certain, or any; scores by huge ones."""
    names = [n for n in tensors if n.rpartition(".")[2] in _DISTRIBUTIONS or n == "log_prior"]
    name = rng.choice(names)
    logs = tensors[name]
    draw = np.random.default_rng(rng.getrandbits(32))
    if not normalized and rng.random() < 0.5:
        logs[draw.random(logs.shape) < 0.1] = rng.choice([-np.inf, -1e308, 1e308, 700.0, -745.0])
        return
    if name == "log_prior":
        tensors[name] = _drawn(draw, logs[None, :, None], rng)[0, :, 0]
    elif name.endswith("log_within"):
        lookup = tensors[name.replace("log_within", "lookup")]
        own = lookup[len(lookup) - len(logs) :]
        for group in np.unique(own):
            if draw.random() < 0.5:
                logs[own == group] = _drawn(draw, logs[None, own == group], rng)[0]
    else:
        flat = logs.reshape(-1, *logs.shape[-2:])
        places = draw.random(len(flat)) < 0.5
        flat[places] = _drawn(draw, flat[places], rng)


_DISTRIBUTIONS = ("log_prob", "log_group", "log_within")  # over the last axis but one


def _drawn(draw, like, rng):
    """Return logs of distributions over the middle axis, in the shape of some others."""
    kind = rng.randrange(3)
    if kind == 0:  # certain, but for next to nothing
        out = np.full(like.shape, rng.choice([-700.0, -1e5, -1e9]))
        np.put_along_axis(
            out, draw.integers(0, like.shape[1], (len(like), 1, like.shape[2])), 0.0, 1
        )
        return out
    logs = draw.normal(size=like.shape) * (500.0 if kind == 1 else 1.0)
    return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)


def _columns(header):
    return header["codebook"]["columns"]


def _rename(header, rng):
    columns = _columns(header)
    names = [column["name"] for column in columns]
    name = rng.choice(HOSTILE)
    if name not in names:
        at = rng.randrange(len(columns))
        old, columns[at]["name"] = names[at], name
        readings = header["codebook"].get("readings", {})
        if old in readings:
            readings[name] = readings.pop(old)


def _rename_values(header, rng):
    column = rng.choice([*_columns(header), header["codebook"]["target"]])
    values = column.get("values")
    if values and column.get("family") == "text":
        fresh = sorted({*rng.sample(HOSTILE, min(len(HOSTILE), len(values)))}, key=str.encode)
        if len(fresh) == len(values):
            column["values"] = fresh


def _move_cuts(header, rng):
    columns = [c for c in _columns(header) if c.get("cuts") and not c.get("temporal")]
    if columns:
        cuts = rng.choice(columns)["cuts"]
        edges = [-1.7e308, -5e-324, 5e-324, 1.7e308, 2.0**53]
        moved = sorted({*cuts[: -len(edges)], *edges}) if len(cuts) > len(edges) else None
        if moved is not None and len(moved) == len(cuts):
            cuts[:] = moved


def _add_history(header, rng):
    name = rng.choice(_columns(header))["name"]
    note = {"feature": name, "action": "neutralise", "details": {rng.choice(HOSTILE): [None, -1]}}
    texts = {"reason": rng.choice(HOSTILE), "author": rng.choice(HOSTILE), "when": "0000-99-99"}
    header.setdefault("history", []).append({**note, **texts})


def _forge_json(node, rng):
    """Walk down at random and change what is there."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        below = node[key]
        if isinstance(below, dict | list) and below and rng.random() < 0.85:
            node = below
            continue
        kind = rng.randrange(4)
        if kind == 0:
            node[key] = rng.choice(NUMBERS)
        elif kind == 1:
            node[key] = rng.choice(OTHERS)
        elif kind == 2:
            del node[key]
        elif isinstance(node, list):
            node.insert(key, rng.choice([below, *NUMBERS]))
        else:
            node[key] = [below]
        return


def _forge_tensor(tensors, rng):
    name = rng.choice(list(tensors))
    array = tensors[name]
    kind = rng.randrange(5)
    if kind == 0 and array.size:
        flat = array.reshape(-1)
        top = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.inf
        flat[rng.randrange(array.size)] = rng.choice([0, 1, 2, 7, top])
    elif kind == 1 and array.size:
        tensors[name] = array.reshape(-1)[: rng.randrange(array.size)].copy()
    elif kind == 2:
        tensors[name] = array.astype(rng.choice(["<f4", "<f8", "<i8", "<u2", "<u1"]))
    elif kind == 3:
        del tensors[name]
    else:
        tensors[name] = np.concatenate([array.reshape(-1), array.reshape(-1)[:3]])


def mutate(seed, rng: random.Random) -> bytes:
    """Damage a file, or forge or rewrite it where it can still be taken apart."""
    kind = rng.random()
    if kind < 0.7:
        try:
            return (forge if kind < 0.5 else rewrite)(seed.data, rng)
        except Exception:
            return damage(seed.data, rng)  # a parent that was damaged before
    return damage(seed.data, rng)


def seeds() -> list[bytes]:
    """Return model files of every kind: trees, dense, scores, dates, booleans, few and many."""
    import datetime
    import tempfile
    from pathlib import Path

    import pyarrow as pa

    import tanager
    from tanager import BayesNetClassifier
    from tanager.parameters import Discriminative, MEstimate
    from tanager.structure import Fixed

    rng = np.random.default_rng(7)
    n = 120
    codes = rng.integers(0, 9, (n, 4))
    day = datetime.date(2024, 1, 1)
    table = pa.table(
        {
            "word": [f"v{v}" if v else None for v in codes[:, 0]],
            "number": codes[:, 1] + rng.normal(size=n),
            "flag": codes[:, 2] % 2 == 0,
            "day": [day + datetime.timedelta(int(v)) for v in codes[:, 3]],
            "many": [f"w{v}" for v in rng.integers(0, 60, n)],
            "more": [f"w{v}" for v in rng.integers(0, 60, n)],
        }
    )
    y = np.where(codes[:, 0] + codes[:, 1] > 8, "yes", "no")
    # Two parents that are not joined: tables of scores, and, of many values, trees.
    immoral = Fixed({"word": ["many", "more"], "flag": ["many", "word"], "day": ["flag"]})
    pairs = [
        (immoral, MEstimate(m=1.0), y),
        (immoral, "hdp", y),
        (immoral, Discriminative(), y),
        ("tan", "hdp", codes[:, 2] % 3),
        ("tan", Discriminative(level=1), y),
        ("naive", "laplace", codes[:, 2] > 4),
        ("skdb", "m-estimate", y),
        ("tan", "discriminative", y),
    ]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        for structure, parameters, labels in pairs:
            missing = "marginalize" if structure == "tan" else "value"
            clf = BayesNetClassifier(structure, parameters, missing=missing).fit(table, labels)
            tanager.save(clf, path)
            found.append(path.read_bytes())
        clf.network_.save(path)
        found.append(path.read_bytes())
        X = rng.normal(size=(150, 3))  # whose bins are read by groups where they are parents
        clf = BayesNetClassifier("auto", "layered").fit(X, (X[:, 0] * X[:, 1] > 0).astype(int))
        tanager.save(clf, path)
        found.append(path.read_bytes())
        found += _of_many_rows(path)
    return found


def _of_many_rows(path):
    """Return the default's files where rows are many: 255 bins, and tables in two parts."""
    import tanager
    from tanager import BayesNetClassifier
    from torture.fine import make_rows

    found = []
    for classes, missing in ((2, "value"), (3, "marginalize")):
        data = make_rows(7, classes=classes)
        clf = BayesNetClassifier(missing=missing, random_state=0)
        clf.fit(data.X.select(["word", "a", "holes", "b"]), data.y)
        tanager.save(clf, path)
        found.append(path.read_bytes())
    return found
