"""Networks as a single C header: no allocation, no state, only the standard library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tanager.errors import ConfigurationError, check_cells, invalid
from tanager.network.decisions import read_costs
from tanager.network.exports import template
from tanager.network.exports.bif import distinct
from tanager.network.exports.recipe import Input, Recipe, make_recipe

if TYPE_CHECKING:
    from tanager.network.network import Network

MAX_STACK_CELLS = 1 << 17  # of all messages, which are on the stack: 1 MiB
MAX_STEP_CELLS = 1 << 22  # terms of one sum, which only cost time
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:;=<>+\-()\[\]!#&%]")


def to_c(
    network: Network, *, name: str = "tanager", unknowns: bool = True, costs: Any = None
) -> str:
    """Return a C99 header with ``int NAME_score(const NAME_row *row, double *p)``.

    Parameters
    ----------
    network : Network
    name : str, default="tanager"
        Prefix of all names in the header; two models in one program need different ones.
    unknowns : bool, default=True
        Whether to support rows with any unknown values, which uses memory on the stack; False
        returns NaN for such rows.
    costs : optional
        As for `Network.decide`: adds ``int NAME_decide(const NAME_row *row, double *expected)``.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise invalid("name", name, "letters, digits and underscores, as for names in C")
    recipe = make_recipe(network)
    # The size of each step's message; the last of a component adds to the joint.
    messages = [
        prod(step.shape[:-1]) * recipe.n_classes if step.separator else 0 for step in recipe.steps
    ]
    sums = unknowns and recipe.sums
    if sums:
        remedy = "Export with unknowns=False: rows with unknown values then get NaN."
        recipe.check_sums(MAX_STEP_CELLS, remedy)
        what = "On the stack, summing out unknown features takes"
        check_cells(what, sum(messages), MAX_STACK_CELLS, remedy, "unknowns")
    groups = [given.groups or () for given in recipe.inputs]
    starts = accumulate(map(len, groups), initial=0)
    header = template("scorer.h.j2").render(
        literal=_literal,
        texts=lambda texts: _array([_literal(str(text)) for text in texts] or ['""']),
        numbers=_numbers,
        joined=lambda parts, digits=17: _numbers(chain.from_iterable(parts), digits),
        starts=lambda parts: _numbers(accumulate(map(len, parts), initial=0)),
        recipe=recipe,
        fields=list(map(_field, recipe.inputs, _names(recipe))),
        sums=sums,
        costs=None if costs is None else read_costs(network, costs),
        tables=[given.log_prob.ravel() for given in recipe.inputs],
        groups=groups if any(groups) else [],
        group_start=[at if some else -1 for at, some in zip(starts, groups, strict=False)],
        within=[() if x.log_within is None else x.log_within.ravel() for x in recipe.inputs],
        messages=messages,
        message_start=list(accumulate(messages, initial=0))[:-1],
    )
    return str(header).replace("@", name)


def _names(recipe: Recipe) -> list[str]:
    """Return the field name of every input; a prefix prevents clashes with C keywords."""
    words = [re.sub(r"[^A-Za-z0-9]+", "_", given.name).strip("_") for given in recipe.inputs]
    return distinct([f"x_{word}" if word else "x" for word in words])


class _Field(NamedTuple):
    """A field, and how its values are coded: by sorted texts or numbers, or by cuts (no codes)."""

    given: Input
    name: str
    values: Sequence[Any]
    codes: list[int] | None


def _field(given: Input, name: str) -> _Field:
    if given.kind == "number":
        return _Field(given, name, given.cuts, None)
    if given.kind == "text":
        # C strings end at the first NUL character, so other texts can't occur.
        known = [(v, code) for code, v in enumerate(given.values) if "\x00" not in v]
        known.sort(key=lambda pair: pair[0].encode())
    elif given.past_doubles:
        raise ConfigurationError(
            f"The column {given.name!r} has whole numbers past 2^53, which a double in C does not "
            "hold. Make the column text, and fit again."
        )
    else:
        known = sorted((float(v), code) for code, v in enumerate(given.values))
    return _Field(given, name, [v for v, _ in known], [code for _, code in known])


def _numbers(values: Iterable[Any], digits: int = 17) -> str:
    """Return integers or floats as an initialiser; an empty one contains a zero."""
    return _array([_number(value, digits) for value in values] or ["0"])


def _number(value: Any, digits: int) -> str:
    if isinstance(value, int):
        return str(value)
    shown = repr(float(value)) if digits == 17 else f"{value:.{digits}g}"
    return shown if any(mark in shown for mark in ".e") else f"{shown}.0"


def _array(shown: Sequence[str]) -> str:
    lines = (",".join(shown[at : at + 12]) for at in range(0, len(shown), 12))
    return "{{\n    {}}}".format(",\n    ".join(lines))


def _literal(text: str) -> str:
    """Return a text as a C string that all compilers read alike, in code and in comments."""
    # Octal: quotes, backslashes, trigraphs' question marks, comments' signs, the template's @.
    letters = map(chr, text.encode("utf-8", errors="replace"))
    spelled = (x if _PLAIN.fullmatch(x) else f"\\{ord(x):03o}" for x in letters)
    return f'"{"".join(spelled)}"'
