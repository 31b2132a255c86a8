"""Damaged and forged model files, from a seed."""

import json
import random

import numpy as np

from tanager.network.files import checksum

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
    """Damage a file, or forge it where it can still be taken apart."""
    if rng.random() < 0.7:
        try:
            return forge(seed.data, rng)
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
        ("tan", "pooled", y),
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
    return found
