"""What can go wrong, as types.

Every error is a `ValueError`, as scikit-learn's users expect. A message says
what was given, what is allowed, which column or parameter it is about, and
ends in one hint.
"""

from __future__ import annotations

__all__ = [
    "ApproximationWarning",
    "ConfigurationError",
    "DataError",
    "EngineError",
    "MemoryBoundError",
    "ModelFileError",
    "TanagerError",
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
