"""What can go wrong, as types.

Every error is a `ValueError`, as scikit-learn's users expect. A message says
what was given, what is allowed, which column or parameter it is about, and
ends in one hint.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "ApproximationWarning",
    "ColumnWarning",
    "ConfigurationError",
    "DataError",
    "EngineError",
    "MemoryBoundError",
    "ModelFileError",
    "TanagerError",
    "listed",
]


class TanagerError(ValueError):
    """Base of every error that Tanager raises on purpose."""


class DataError(TanagerError):
    """The table cannot be used as it is: a column, a value, the target, the file."""


class ConfigurationError(TanagerError):
    """A parameter, or a combination of learners, is not allowed."""


class EngineError(TanagerError):
    """A cluster lost its workers, does not answer, or runs another version."""


class MemoryBoundError(TanagerError):
    """An exact computation would exceed its memory bound."""


class ModelFileError(TanagerError):
    """A model file is damaged, hostile, or of another version."""


class ApproximationWarning(UserWarning):
    """Some results are approximate, where the exact ones would exceed a memory bound."""


class ColumnWarning(UserWarning):
    """A column is not what it seems: it is read otherwise, left out, or says nothing."""


def listed(names: Iterable[object], most: int = 20) -> str:
    """Return names for a message: quoted, and few and short enough to read.

    >>> listed(["a", "b"]), listed(range(100), most=3)
    ("'a', 'b'", '0, 1, 2 and 97 more')
    """
    shown = list(names)
    texts = [repr(name if not isinstance(name, str) else _short(name)) for name in shown[:most]]
    rest = len(shown) - len(texts)
    return ", ".join(texts) + (f" and {rest:,} more" if rest else "")


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:59]}…"
