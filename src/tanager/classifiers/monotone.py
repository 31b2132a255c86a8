"""What is asked of the classes along a feature: that they rise, or fall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codebook
from tanager.codes.asked import feature_index
from tanager.errors import ConfigurationError, listed

MOST_VALUES = 256  # of an ordered feature


def parse_signs(texts: Sequence[str]) -> dict[str, Any]:
    """Return what is asked in texts, as `BayesNetClassifier` takes it.

    >>> parse_signs(["age=+1", "price=low:-1,high:+1"])
    {'age': 1, 'price': {'low': -1, 'high': 1}}
    """
    found: dict[str, Any] = {}
    signs = {"+1": 1, "1": 1, "+": 1, "-1": -1, "-": -1}
    for text in texts:
        name, equals, asked = text.rpartition("=")
        parts = [part.strip().rpartition(":") for part in asked.split(",")]
        good = all(sign in signs for _, _, sign in parts)
        if not (equals and name and good and (len(parts) == 1 or all(p[1] for p in parts))):
            raise ConfigurationError(
                f"monotonic={text!r}. Allowed: a column, an equals sign, and +1 or -1, such as "
                "age=+1; or classes with their signs, such as age=low:-1,high:+1.",
                parameter="monotonic",
            )
        by_class = {label: signs[sign] for label, colon, sign in parts if colon}
        found[name] = by_class or signs[parts[0][2]]
    return found


def read_signs(monotonic: Any, codebook: Codebook) -> dict[int, NDArray[np.int8]]:
    """Return the sign of each class along each feature that is asked about, (n_classes,)."""
    if monotonic is None:
        return {}
    if not isinstance(monotonic, Mapping):
        raise ConfigurationError(
            f"monotonic={monotonic!r}. Allowed: a mapping from a feature to +1 or -1, or None.",
            parameter="monotonic",
        )
    found = {}
    for key, asked in monotonic.items():
        at = feature_index(codebook.domain.names, key, "monotonic")
        name, n_ordered = codebook.domain.names[at], codebook.domain.n_ordered[at]
        if n_ordered == 0:
            raise ConfigurationError(
                f"monotonic names {name!r}, whose values have no order. Numbers, dates, booleans "
                f"and ordered categories have. Say the order with ordered={{{name!r}: [...]}}.",
                parameter="monotonic",
            )
        if n_ordered > MOST_VALUES:
            raise ConfigurationError(
                f"monotonic names {name!r}, which has {n_ordered:,} ordered values. Allowed: at "
                f"most {MOST_VALUES}. Use fewer bins, or join values.",
                parameter="monotonic",
            )
        signs = _class_signs(name, asked, codebook.classes, ordered=codebook.target.ordered)
        if n_ordered > 1 and len(signs) > 1:
            found[at] = signs
    return found


def _class_signs(
    name: str, asked: Any, classes: NDArray[Any], *, ordered: bool
) -> NDArray[np.int8]:
    """Return the sign of each class along one feature.

    Of ordered classes the highest rises against every other and the lowest falls, so that
    the odds of being above any class rise.
    """
    signs = np.zeros(len(classes), np.int8)
    if not isinstance(asked, Mapping):
        _check_sign(name, asked)
        if ordered and len(classes) > 2:
            signs[0] = -asked
        elif len(classes) > 2:
            raise ConfigurationError(
                f"monotonic[{name!r}] is {asked!r}, but there are {len(classes)} classes. Say "
                f"which one rises or falls: {{{name!r}: {{{classes.tolist()[0]!r}: {asked!r}}}}}.",
                parameter="monotonic",
            )
        signs[-1] = asked
        return signs
    for label, sign in asked.items():
        _check_sign(name, sign)
        place = [at for at, one in enumerate(classes.tolist()) if label in (one, str(one))]
        if not place:
            raise ConfigurationError(
                f"monotonic[{name!r}] names the class {label!r}. The classes are: "
                f"{listed(classes.tolist())}.",
                parameter="monotonic",
            )
        signs[place[0]] = sign
    if not signs.any() or (signs > 0).sum() > 1 or (signs < 0).sum() > 1:
        raise ConfigurationError(
            f"monotonic[{name!r}] is {dict(asked)!r}. Allowed: one class that rises (+1), one that "
            "falls (-1), or both. Where one probability rises, others must fall.",
            parameter="monotonic",
        )
    return signs


def _check_sign(name: str, sign: Any) -> None:
    if isinstance(sign, bool) or not (isinstance(sign, int | float | np.number) and abs(sign) == 1):
        raise ConfigurationError(
            f"monotonic[{name!r}] is {sign!r}. Allowed: +1 (rises), -1 (falls), or with more than "
            "two classes a mapping from a class to one of them.",
            parameter="monotonic",
        )
