"""Experiment files with wrong types, deep nests, long keys and hostile texts."""

from __future__ import annotations

import random
import re
from typing import Any

from torture.model_mutations import damage

__all__ = ["SEEDS", "mutate"]

SEEDS = (
    """
name = "two tables"
seed = 3
bins = "mdl"
datasets = ["small"]
classifiers = ["naive/laplace", "tan/m-estimate(m=1)"]
metrics = ["log_loss", "zero_one_loss"]
protocol = { rounds = 1, folds = 2, stratified = true }
""",
    """
keep = ["predictions"]
bins = 5
[protocol]
rounds = 1
folds = 2
[datasets]
s = { path = "small.parquet", target = "y", drop = ["a"], train_rows = 60 }
t = "small.parquet"
[classifiers]
nb = "naive/laplace(alpha=0.5)"
tan = { use = "tan/laplace", missing = "marginalize", bins = "mdl" }
rf = "random-forest(n_estimators=3)"
""",
    """
classifiers = ["kdb(k=1)/ml"]
[datasets.small]
target = "y"
[protocol]
sizes = [10, 20]
rounds = 1
test_share = 0.3
""",
)

_VALUES = (
    *("0", "-1", "1", "2", "1.5", "1e308", "inf", "nan", "9223372036854775807", "9" * 5000),
    *("true", '""', '"a"', '"\\u0000"', "[]", "{}", "[[]]", "[1, 'a']", "1979-05-27", "07:32:00"),
    *("1000000", '"/"', '"/dev/zero"', '"/etc/passwd"', '"../../.."', '"' + "x" * 3000 + '"'),
    *('"this.x"', '"os.system"', '"tan/hdp"', '"naive"', '"naive/"', '"/"', '"tan/laplace("'),
    *('"tan/laplace(alpha=' + "-" * 1500 + '1)"', '"tan/laplace(alpha=[' + "[" * 300 + '])"'),
    *('"tan/laplace(alpha=1e400)"', '"kdb(k=99999999)/ml"', '"kdb(k=-1)/ml"', '"naive/ml()()"'),
    *('"rot13"', '"utf-16"', '"undefined"', '["x=1,2"]', '["a=+1"]', '["a=p,q"]', '[""]', '","'),
    *('"tan/laplace(alpha=None)"', '"naive/laplace(alpha=-1)"', '"tan(score=1)/ml"', '"x@y"'),
    "[" * 200 + "]" * 200,
    "[" * 5000 + "]" * 5000,
    "{a=" * 100 + "1" + "}" * 100,
)
_KEYS = (
    *("name", "seed", "bins", "metrics", "keep", "protocol", "datasets", "classifiers", "rounds"),
    *("folds", "sizes", "path", "target", "drop", "train_rows", "use", "missing", "n_jobs", "x"),
    *('"A"', "''", '"\\n"', ".".join("a" * 40), ".".join("b" * 4000), "engine", "verbose"),
    *("encoding", "decimal", "na_values", "dates", "ordered", "monotonic", "categorical"),
    *("categorical_features", "class_weight", "random_state", "structure", "parameters"),
)


def mutate(seed: Any, rng: random.Random) -> bytes:
    """Change keys, values and lines of an experiment file, or any bytes."""
    if rng.random() < 0.1:
        return damage(seed.data, rng)
    text = seed.data.decode("utf-8", "replace")
    for _ in range(rng.choice([1, 1, 2, 3])):
        text = rng.choice(_CHANGES)(text, rng)
        if len(text) > 1 << 19:
            break
    return text.encode("utf-8", "replace")


def _change_value(text: str, rng: random.Random) -> str:
    places = list(re.finditer(r"=\s*([^\n=]+?)(?=,|\s*\}|\n)", text))
    if not places:
        return text
    found = rng.choice(places)
    return text[: found.start(1)] + rng.choice(_VALUES) + text[found.end(1) :]


def _change_item(text: str, rng: random.Random) -> str:
    places = list(re.finditer(r'"[^"\n]*"', text))
    if not places:
        return text
    found = rng.choice(places)
    return text[: found.start()] + rng.choice(_VALUES) + text[found.end() :]


def _change_key(text: str, rng: random.Random) -> str:
    places = list(re.finditer(r"(?m)^[\w.]+(?=\s*=)|(?<=\{ )\w+(?=\s*=)|(?<=, )\w+(?=\s*=)", text))
    if not places:
        return text
    found = rng.choice(places)
    return text[: found.start()] + rng.choice(_KEYS) + text[found.end() :]


def _add_line(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    lines.insert(rng.randrange(len(lines) + 1), f"{rng.choice(_KEYS)} = {rng.choice(_VALUES)}")
    return "\n".join(lines)


def _drop_line(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    del lines[rng.randrange(len(lines))]
    return "\n".join(lines)


def _add_header(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    marks = rng.choice([("[", "]"), ("[[", "]]")])
    lines.insert(rng.randrange(len(lines) + 1), f"{marks[0]}{rng.choice(_KEYS)}{marks[1]}")
    return "\n".join(lines)


_CHANGES = (
    *(_change_value, _change_value, _change_item, _change_key),
    *(_add_line, _drop_line, _add_header),
)
