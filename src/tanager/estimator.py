"""scikit-learn's estimator interface, without importing scikit-learn.

Importing it takes most of a second. The classes here implement its methods themselves, and become
subclasses of its `BaseEstimator`, for `isinstance` and routing, once it's imported anywhere.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from inspect import Parameter, signature
from math import inf
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from tanager.errors import ConfigurationError


def is_whole(value: Any, least: int) -> bool:
    """Return whether a parameter is a whole number of at least `least`."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


class _Ground:
    """A base other than `object`, which Python doesn't allow replacing in `__bases__`."""


class Estimator(_Ground):
    """Base class of the classifier and of all learners: parameters by name, including nested ones.

    `__init__` of a subclass names its parameters and only stores them.
    """

    @classmethod
    def _get_param_names(cls) -> list[str]:
        if cls.__init__ is object.__init__:
            return []
        given = list(signature(cls.__init__).parameters.values())[1:]
        return sorted(option.name for option in given if option.kind != Parameter.VAR_KEYWORD)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, also those of learners among them.

        The parameter ``k`` of ``structure`` is ``structure__k``.
        """
        join_scikit_learn()
        found = {name: getattr(self, name) for name in self._get_param_names()}
        for name, value in list(found.items() if deep else ()):
            if hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{key}": item for key, item in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, including those of learners: ``structure__k=2``."""
        nested: dict[str, dict[str, Any]] = defaultdict(dict)
        names = self._get_param_names()
        for key, value in params.items():
            name, mark, rest = key.partition("__")
            if name not in names:
                told = f"Invalid parameter {name!r} for estimator {self}. Valid parameters are"
                raise ConfigurationError(f"{told}: {names!r}.")
            if mark:
                nested[name][rest] = value
            else:
                setattr(self, name, value)
        for name, inner in nested.items():
            owner = getattr(self, name)
            if not hasattr(owner, "set_params"):
                raise ConfigurationError(
                    f"{name}={owner!r} has no parameters, so {name}__{next(iter(inner))} can't be "
                    f"set. Set {name} to a learner first.",
                    parameter=name,
                )
            owner.set_params(**inner)
        return self

    def _allow(self, name: str, is_good: bool, allowed: str) -> None:
        """Raise an error that says what is allowed, unless the parameter is valid."""
        if not is_good:
            given = f"{type(self).__name__}: {name}={getattr(self, name)!r}"
            raise ConfigurationError(f"{given}. Allowed: {allowed}.", parameter=name)

    def _choose(self, name: str, among: Iterable[str]) -> None:
        """Refuse a parameter that isn't one of the given words."""
        words, given = list(among), getattr(self, name)
        good = isinstance(given, str) and given in words
        self._allow(name, good, ", ".join(map(repr, words)))

    def _allow_flags(self, *names: str) -> None:
        """Refuse parameters that aren't True or False: a text would count as True."""
        for name in names:
            self._allow(name, isinstance(getattr(self, name), bool | np.bool_), "True or False")

    def _allow_whole(self, *names: str, least: int, none: bool = False) -> None:
        """Refuse parameters that aren't whole numbers of at least `least`, or, if allowed, None."""
        allowed = none * "None, or " + f"a whole number from {least} on"
        for name in names:
            value = getattr(self, name)
            self._allow(name, is_whole(value, least) or (none and value is None), allowed)

    def _allow_numbers(
        self,
        *names: str,
        zero: bool = False,
        none: bool = False,
        below: float = inf,
        most: float | None = None,
    ) -> None:
        """Refuse all but numbers above 0, within limits, and, if allowed, zero or None."""
        allowed = none * "None, or " + f"a number {'from 0 on' if zero else 'above 0'}"
        if most is not None:
            allowed += f", at most {most:g}"
        elif below < inf:
            allowed += f", below {below:g}"
        for name in names:
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            within = number and (value < below if most is None else value <= most)
            good = within and (value > 0 or (zero and value == 0))
            self._allow(name, good or (none and value is None), allowed)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        def show(value: Any) -> str:
            return value.__repr__(N_CHAR_MAX) if isinstance(value, Estimator) else repr(value)

        defaults = signature(type(self).__init__).parameters
        values = {name: show(getattr(self, name)) for name in self._get_param_names()}
        shown = (f"{n}={text}" for n, text in values.items() if text != repr(defaults[n].default))
        text = f"{type(self).__name__}({', '.join(shown)})"
        half = N_CHAR_MAX // 2
        return text if len(text) <= N_CHAR_MAX else f"{text[:half]}...{text[-half:]}"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        join_scikit_learn()
        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


class Classifier(Estimator):
    """Base class of the classifier."""

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.target_tags.required = True
        return tags


def join_scikit_learn() -> None:
    """Make the classes subclasses of scikit-learn's, once it's imported."""
    base = sys.modules.get("sklearn.base")
    if _Ground not in Estimator.__bases__ or not hasattr(base, "ClassifierMixin"):
        return
    assert base is not None
    Estimator.__bases__ = (base.BaseEstimator,)
    Classifier.__bases__ = (base.ClassifierMixin, Estimator)
    with suppress(ImportError):  # before scikit-learn 1.9
        from sklearn.callback import CallbackSupportMixin

        Classifier.__bases__ = (CallbackSupportMixin, base.ClassifierMixin, Estimator)
    waiting = [Estimator]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        # What scikit-learn does when one of its classes is subclassed: `set_fit_request`, ...
        base.BaseEstimator.__init_subclass__.__func__(kind)


def with_callbacks(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Make `fit` notify scikit-learn's callbacks, if any, when it begins and ends."""

    @wraps(fit)
    def told(self: Any, X: Any, y: Any = None, *more: Any, **options: Any) -> Any:
        if not hasattr(self, "_init_callback_context"):
            return fit(self, X, y, *more, **options)
        from sklearn import callback

        def run(estimator: Any) -> Any:
            context = estimator._init_callback_context()
            context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
            fitted = fit(estimator, X, y, *more, **options)
            found = {key: value for key, value in vars(fitted).items() if key.endswith("_")}
            context.call_on_fit_task_end(
                estimator=estimator, X=X, y=y, reconstruction_attributes=found
            )
            return fitted

        return callback.with_callbacks(run)(self)

    return told
