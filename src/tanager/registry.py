"""Learners by text: the one place where ``"kdb(k=2)"`` becomes a learner.

Installed packages add learners, exports, sources and commands through entry points, which are
looked up only when a name isn't built in; ``CONTRIBUTING.md`` lists their groups.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from itertools import accumulate
from operator import attrgetter
from typing import Any, Generic, TypeVar

from tanager.errors import ConfigurationError, nearest

MAX_LENGTH = 2_000  # characters of a text
MAX_DEPTH = 12  # of nested brackets

_NAME = re.compile(r"[A-Za-z][\w.\-]*")
_OPENING, _CLOSING = "([{", ")]}"

Learner = TypeVar("Learner")


@dataclass(frozen=True, eq=False)
class Registry(Generic[Learner]):
    """The learners of one package, by name.

    package: such as ``"tanager.structure"``; its last part is the parameter's name in errors.
    base: ``module:Class`` of the base class, or ``Class`` if it's in the package itself;
        `learners` are given likewise, by name.
    example: a learner with options, for errors; `besides` are texts handled by the caller.
    group: the entry points through which installed packages add learners.
    """

    package: str
    base: str
    learners: Mapping[str, str]
    example: str
    group: str
    besides: Sequence[str] = ()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the built-in names, sorted."""
        return iter(sorted(self.learners))

    @property
    def exports(self) -> dict[str, str]:
        """The public classes and their modules."""
        homes = (place.split(":") for place in (self.base, *self.learners.values()) if ":" in place)
        return {kind: f"{self.package}.{module}" for module, kind in homes}

    def resolve(self, given: Any) -> Learner:
        """Return the learner itself, or the one that a text (see `parse_call`) names."""
        if isinstance(given, str):
            return self._build(given)
        if isinstance(given, self._load(self.base)):
            return given
        raise self._unknown(given)

    def _build(self, text: str) -> Learner:
        name, options = parse_call(text)
        kind = self._find(name)
        if kind is None:
            raise self._unknown(text)
        names, given = kind._get_param_names(), signature(kind).parameters.values()
        nested = {key: value for key, value in options.items() if "__" in key}
        own = {key: value for key, value in options.items() if key not in nested}
        needed = [one.name for one in given if one.default is one.empty and one.name not in own]
        strange = [key for key in options if key.partition("__")[0] not in names]
        try:
            if strange:
                raise ValueError(f"{name} has no option {strange[0]!r}")
            if needed:
                written = ", ".join(f"{key}=..." for key in needed)
                raise ValueError(f"{name} requires {' and '.join(needed)}. Write {name}({written})")
            learner = kind(**own)
            return learner.set_params(**nested) if nested else learner
        except ConfigurationError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            allowed = f"Its options: {', '.join(names) or 'none'}."
            raise ConfigurationError(f"{text!r}: {error}. {allowed}") from error

    def _find(self, name: str) -> Any | None:
        """Return the class of a learner, built-in or added by an installed package."""
        if name in self.learners:
            return self._load(self.learners[name])
        kind, base = load_plugin(self.group, name), self._load(self.base)
        if kind is not None and not (isinstance(kind, type) and issubclass(kind, base)):
            raise ConfigurationError(
                f"the entry point {name!r} of {self.group} is {kind!r}, not a subclass of "
                f"{self.package}.{base.__name__}. Correct the package that declares it."
            )
        return kind

    def _load(self, place: str) -> Any:
        module, _, name = place.rpartition(":")
        home = f"{self.package}.{module}" if module else self.package
        return getattr(import_module(home), name)

    def _unknown(self, given: Any) -> ConfigurationError:
        choice = self.package.rpartition(".")[2]
        if isinstance(given, type) and issubclass(given, self._load(self.base)):
            text = f"{choice}={given.__name__}"
            told = f"{text} is a class, not a learner. Write {text}()."
            return ConfigurationError(told, parameter=choice)
        text = given if isinstance(given, str) else ""
        # Only the type of a table or the like, whose text has several lines.
        shown = repr(given) if text or "\n" not in repr(given) else f"<{type(given).__name__}>"
        known = [*(name for name in self.besides if name != text), *self]
        known += [name for name in plugin_names(self.group) if name not in self.learners]
        hint = nearest(text.partition("(")[0], known, 0.6)
        return ConfigurationError(
            f"{choice}={shown} isn't valid.{hint} Give one of {', '.join(map(repr, known))}, one "
            f"with options such as {self.example!r}, or a learner from {self.package}.",
            parameter=choice,
        )


def lazy_exports(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported on first use."""

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted(import_module(package).__all__)

    return get, names


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """Parse ``name(option=value, ...)``; nothing is ever evaluated.

    A value is a Python literal, or a word or call, which is kept as text:
    ``form=direct``, ``base=hdp(shape=2)``.

    >>> parse_call("m-estimate(m=0.5)")
    ('m-estimate', {'m': 0.5})
    >>> parse_call("discriminative(form=direct, base=m-estimate(m=1))")
    ('discriminative', {'form': 'direct', 'base': 'm-estimate(m=1)'})
    """
    text = text.strip()
    shown = repr(text) if len(text) <= 100 else f"{text[:60]!r}..."
    _check_size(text, shown)
    found = _NAME.match(text)
    rest = text[found.end() :] if found else text
    if found is None or (rest and not (rest.startswith("(") and rest.endswith(")"))):
        raise ConfigurationError(f"{shown} cannot be read. Allowed: name or name(option=value).")
    source = f"f{rest or '()'}"
    try:
        call = ast.parse(source, mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
            raise ValueError("options are written option=value")
        return found.group(), {str(k.arg): _read_value(k.value, source) for k in call.keywords}
    except ConfigurationError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ConfigurationError(
            f"{shown} cannot be read ({error}). Allowed: name(option=value) with "
            "literals or words as values."
        ) from error


def _read_value(node: ast.expr, source: str) -> Any:
    if isinstance(node, ast.List):
        return [_read_value(item, source) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_read_value(item, source) for item in node.elts)
    if isinstance(node, ast.Dict):
        if None in node.keys:
            raise ValueError("a mapping is written {key: value}")
        keys = [ast.literal_eval(key) for key in node.keys if key is not None]
        return dict(zip(keys, (_read_value(item, source) for item in node.values), strict=True))
    try:
        return ast.literal_eval(node)
    except ValueError:
        text = ast.get_source_segment(source, node) or ""
        parse_call(text)  # a word, or a call as deep as the whole text allows
        return text


def _check_size(text: str, shown: str) -> None:
    if len(text) > MAX_LENGTH:
        raise ConfigurationError(f"{shown} has {len(text):,} characters. Allowed: {MAX_LENGTH:,}.")
    deepest = max(accumulate((char in _OPENING) - (char in _CLOSING) for char in text), default=0)
    if deepest > MAX_DEPTH:
        raise ConfigurationError(f"{shown} has {deepest} levels of brackets. Allowed: {MAX_DEPTH}.")


def split_outside(text: str, separator: str) -> list[str]:
    """Split at a separator that is neither in brackets nor in quotes.

    >>> split_outside("kdb(k=2)/hdp", "/")
    ['kdb(k=2)', 'hdp']
    """
    pieces, depth, quote, start = [], 0, "", 0
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
        elif char == separator and depth == 0:
            pieces.append(text[start:position])
            start = position + 1
    return [*pieces, text[start:]]


def _points(group: str, name: str | None = None) -> list[Any]:
    """Return a group's entry points, sorted: deterministic if two packages claim a name."""
    from importlib.metadata import entry_points

    found = [point for point in entry_points(group=group) if name in (None, point.name)]
    return sorted(found, key=attrgetter("value"))


def _package(point: Any) -> str:
    return str(point.module if point.dist is None else point.dist.name)


def plugin_names(group: str) -> list[str]:
    """Return the names that installed packages add to a group, sorted."""
    return sorted({point.name for point in _points(group)})


def describe_plugin(group: str, name: str) -> str:
    """Return which package a name comes from, without loading it."""
    return f"From the package {_package(_points(group, name)[0])}."


def load_plugin(group: str, name: str) -> Any | None:
    """Return the object that an installed package provides for a name, or None."""
    point = next(iter(_points(group, name)), None)
    if point is None:
        return None
    package = _package(point)
    try:
        return point.load()
    except Exception as error:
        raise ConfigurationError(
            f"{name!r} of {group} comes from the package {package}, which can't be loaded: "
            f"{type(error).__name__}: {error}. Update or uninstall {package}."
        ) from error
