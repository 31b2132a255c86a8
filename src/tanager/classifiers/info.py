"""What a fit reports, as a dictionary that a person can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

LONG = 8  # entries beyond which a list or mapping is only counted

_OF_FIRST_ROWS = frozenset(("fingerprint", "mutual_information"))


class Info(dict[str, Any]):
    """The record of a fit, by stage; printed, it shows what is short and counts what is long.

    It is a dictionary: ``info["parameters"]["members"]`` has the traces that the
    printed form only mentions.

    >>> Info({"structure": {"seconds": 0.5, "order": ["a", "b"], "trace": list(range(50))}})
    structure
      seconds  0.5
      order    a, b
      trace    50 entries, in info_['structure']['trace']
    """

    def grown(self, n_rows: int, stages: Mapping[str, Any]) -> Info:
        """Return the record after more rows, with what their stages reported.

        What was counted of the first rows alone goes: their fingerprint, and what each
        feature said of the class.
        """
        grown = {
            stage: {key: fact for key, fact in record.items() if key not in _OF_FIRST_ROWS}
            for stage, record in self.items()
        }
        n_all = grown["codes"]["rows"] + n_rows
        for stage, record in stages.items():
            grown[stage] = {**grown.get(stage, {}), **record}
        grown["codes"]["rows"] = n_all
        return Info(grown)

    def __repr__(self) -> str:
        lines: list[str] = []
        for stage, record in self.items():
            lines.append(str(stage))
            facts = record if isinstance(record, Mapping) else {"": record}
            width = max((len(str(key)) for key in facts), default=0)
            for key, value in facts.items():
                lines.append(f"  {key!s:<{width}}  {_short(value, stage, key)}")
        return "\n".join(lines)

    __str__ = __repr__


def _short(value: Any, stage: str, key: str) -> str:
    where = f"in info_[{stage!r}][{key!r}]"
    if isinstance(value, np.ndarray):
        shape = " × ".join(map(str, value.shape))
        return f"array of {shape}, {where}" if value.size > LONG else str(value.tolist())
    if isinstance(value, Mapping):
        if len(value) > LONG or not all(map(_simple, value.values())):
            return f"{len(value)} entries, {where}"
        return ", ".join(f"{k} {_short(v, stage, key)}" for k, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        if len(value) > LONG or not all(map(_simple, value)):
            return f"{len(value)} entries, {where}"
        return ", ".join(_short(item, stage, key) for item in value) or "none"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _simple(value: Any) -> bool:
    return isinstance(value, str | bool | int | float | np.generic) or value is None
