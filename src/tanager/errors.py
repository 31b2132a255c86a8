"""Exceptions, all of them a `ValueError` as scikit-learn's users expect, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

__all__ = [
    "ApproximationWarning",
    "ColumnTypeError",
    "ColumnWarning",
    "ConfigurationError",
    "DataError",
    "EngineError",
    "MemoryBoundError",
    "ModelFileError",
    "TanagerError",
    "listed",
    "nearest",
]


class TanagerError(ValueError):
    """Base class of every error that Tanager raises on purpose.

    `parameter` names the parameter concerned, so that a front end can name its own option instead.
    """

    def __init__(self, message: str = "", *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class DataError(TanagerError):
    """The data can't be used as given: a column, a value, the target or a file."""


class ColumnTypeError(DataError, TypeError):
    """A column holds objects that have no meaning as values; also what scikit-learn raises."""


class ConfigurationError(TanagerError):
    """A parameter, or a combination of learners, isn't allowed."""


class EngineError(TanagerError):
    """A cluster lost its workers, doesn't answer, or runs another version."""


class MemoryBoundError(TanagerError):
    """An exact computation would exceed its memory bound."""


def check_cells(
    what: str, n_cells: int, most: int, remedy: str, parameter: str | None = None
) -> None:
    """Raise if an exact computation needs too many cells, numbers in memory or in a text.

    `what` is the start of a sentence about what needs them; `remedy` says how to avoid it.
    """
    if n_cells > most:
        raise MemoryBoundError(
            f"{what} {n_cells:,} cells, beyond the limit of {most:,}. {remedy}", parameter=parameter
        )


class ModelFileError(TanagerError):
    """A model file is damaged, hostile, or of another version."""


class ApproximationWarning(UserWarning):
    """Some results are approximate because exact ones would exceed a memory bound."""


class ColumnWarning(UserWarning):
    """A column is read differently from how it's stored, left out, or carries no information.

    findings: those of the audit, if the warning is about them.
    """

    def __init__(self, message: str = "", findings: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(message)
        self.findings = findings


def one_line(error: BaseException) -> str:
    """Return another library's error message, to be embedded in a sentence."""
    return " ".join(str(error).split()).rstrip(".")


@contextmanager
def explaining(what: str, hint: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors of other libraries into a DataError: what failed, why, and what to do."""
    try:
        yield
    except (TanagerError, MemoryError, ModuleNotFoundError):  # MemoryError may be Arrow's, too
        raise
    except errors as error:
        raise DataError(f"{what}: {one_line(error)}. {hint}") from error


@contextmanager
def requiring(what: str, install: str) -> Iterator[None]:
    """Say what to install if a package can't be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise DataError(
            f"{what} needs the package {error.name}. Install it: pip install {install}."
        ) from error


def invalid(parameter: str, given: object, allowed: str) -> ConfigurationError:
    """Return the error for a parameter, or for an entry of it such as ``dates['x']``."""
    message = f"{parameter}={given!r} isn't valid. Allowed: {allowed}."
    return ConfigurationError(message, parameter=parameter.partition("[")[0])


def listed(names: Iterable[object], most: int = 20) -> str:
    """Return names for a message: quoted, shortened, and not too many.

    >>> listed(["a", "b"]), listed(range(100), most=3)
    ("'a', 'b'", '0, 1, 2 and 97 more')
    """
    shown = list(names)
    short = [f"{n[:59]}…" if isinstance(n, str) and len(n) > 60 else n for n in shown[:most]]
    rest = len(shown) - len(short)
    return ", ".join(map(repr, short)) + (f" and {rest:,} more" if rest else "")


def nearest(name: object, known: Sequence[str], least: float = 0.7) -> str:
    """Return a "did you mean" with the known name most similar to a wrong one, or nothing.

    >>> nearest("Clas", ["age", "class"]), nearest("Y", ["x", "y"]), nearest("z", ["x", "y"])
    (" Did you mean 'class'?", " Did you mean 'y'?", '')
    """
    lower = [text.lower() for text in known]
    near = get_close_matches(str(name).lower(), lower, 1, least)
    return f" Did you mean {known[lower.index(near[0])]!r}?" if near else ""
