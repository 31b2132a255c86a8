"""What `Discriminative` allows, and the errors for the rest."""

from __future__ import annotations

from typing import Protocol

from tanager.errors import ConfigurationError
from tanager.parameters.discriminative.backoff import UNSEEN
from tanager.parameters.discriminative.objective import OBJECTIVES
from tanager.parameters.folds import N_FOLDS
from tanager.parameters.learner import ParameterLearner

__all__ = ["Options", "check_options", "n_crossfit", "resolve_base"]

MAX_FOLDS = 255  # a row's fold is one byte


class Options(Protocol):
    """The parameters of `Discriminative`."""

    form: str
    level: int
    init: str
    l2: float | str
    towards: str
    base: str | ParameterLearner
    crossfit: int | str
    correction: float | str | None
    prefixes: bool
    objective: str
    fit_prior: bool
    unseen: str
    max_iter: int
    tol: float


ALLOWED: dict[str, tuple[object, ...]] = {
    "form": ("weighted", "direct", "extended"),
    "level": (1, 2, 3, 4),
    "init": ("generative", "zero"),
    "towards": ("generative", "zero"),
    "objective": tuple(OBJECTIVES),
    "unseen": UNSEEN,
}


def check_options(options: Options) -> None:
    """Raise a ConfigurationError for what is not allowed."""
    for name, allowed in ALLOWED.items():
        given = getattr(options, name)
        if given not in allowed:
            choices = ", ".join(map(repr, allowed))
            raise ConfigurationError(f"Discriminative: {name}={given!r}. Allowed: {choices}.")
    if options.form != "weighted":
        _check_weighted_only(options)
    for name in ("l2", "correction"):
        given = getattr(options, name)
        number = isinstance(given, int | float) and not isinstance(given, bool) and given >= 0
        if not (number or given == "cv" or (name == "correction" and given is None)):
            raise ConfigurationError(
                f"Discriminative: {name}={given!r}. Allowed: a number of at least 0, or 'cv'."
            )
    folds = options.crossfit
    whole = isinstance(folds, int) and not isinstance(folds, bool)
    if folds != "auto" and not (whole and (folds == 0 or 2 <= int(folds) <= MAX_FOLDS)):
        raise ConfigurationError(
            f"Discriminative: crossfit={folds!r}. Allowed: 'auto', 0, or 2 to {MAX_FOLDS} folds."
        )
    if options.max_iter < 1 or options.tol < 0:
        raise ConfigurationError(
            f"Discriminative: max_iter={options.max_iter!r}, tol={options.tol!r}. "
            "Allowed: at least one iteration, and a tolerance of at least 0."
        )


def _check_weighted_only(options: Options) -> None:
    if options.level != 4:
        raise ConfigurationError(
            f"Discriminative: level={options.level!r} with form={options.form!r}. Levels 1 to 3 "
            "share weights on generative tables. Hint: use form='weighted'."
        )
    for name, off in (
        ("correction", (None,)),
        ("crossfit", ("auto", 0)),
        ("prefixes", (False,)),
    ):
        if getattr(options, name) not in off:
            raise ConfigurationError(
                f"Discriminative: {name}={getattr(options, name)!r} with form={options.form!r}. "
                f"It is for weights on generative tables. Hint: use form='weighted'."
            )


def n_crossfit(options: Options) -> int:
    """Return the number of folds by which tables leave a row out; 0 for none."""
    if options.crossfit == "auto":
        return 0 if options.level == 4 else N_FOLDS
    return int(options.crossfit)


def resolve_base(base: str | ParameterLearner) -> ParameterLearner:
    """Return the learner of the generative tables."""
    from tanager.parameters.registry import resolve_parameters

    if base == "m-estimate":
        from tanager.parameters import MEstimate

        return MEstimate(m=1.0)
    return resolve_parameters(base)
