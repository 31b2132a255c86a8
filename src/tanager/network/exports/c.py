"""Networks as one C header: no allocation, no state, no dependency but the standard library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network.decisions import Costs, read_costs
from tanager.network.exports.bif import distinct
from tanager.network.exports.recipe import Input, Recipe, make_recipe

if TYPE_CHECKING:
    from tanager.network.network import Network

MAX_STACK_CELLS = 1 << 17  # of all messages, which stand on the stack: 1 MiB
MAX_STEP_CELLS = 1 << 22  # terms of one sum, which take time alone
_SECONDS = {
    "": "",
    "date": " seconds since 1970",
    "time": " seconds since midnight",
    "duration": " seconds",
}
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:;=<>+\-()\[\]!#&%]")


def to_c(
    network: Network, *, name: str = "tanager", unknowns: bool = True, costs: Any = None
) -> str:
    """Return a C99 header with ``int NAME_score(const NAME_row *row, double *p)``.

    Parameters
    ----------
    network : Network
    name : str, default="tanager"
        What every name in the header starts with: two models in one program
        need two names.
    unknowns : bool, default=True
        Whether rows with unknown values are scored, whichever these are. That
        takes memory on the stack; False gives NaN for such rows.
    costs : optional
        As for `Network.decide`: adds ``int NAME_decide(const NAME_row *row, double *expected)``.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ConfigurationError(
            f"name={name!r} is no name in C. Use letters, digits and underscores.", parameter="name"
        )
    recipe = make_recipe(network)
    spread = unknowns and recipe.sums
    if spread:
        remedy = "Export with unknowns=False: rows with unknown values then get NaN."
        recipe.check_width(MAX_STEP_CELLS, remedy)
        _check_stack(recipe, remedy)
    parts = [_head(recipe), _arrays(recipe)]
    grouped = any(given.groups is not None for given in recipe.inputs)
    parts += [_source("scorer.h"), _source("scorer_groups.h" if grouped else "scorer_plain.h")]
    parts.append(_coding(recipe))
    if spread:
        parts += [_steps(recipe), _source("scorer_sums.h")]
    joint = _source("scorer_joint.h")
    exact = (
        "@_begin(codes, groups, joint);\n                @_sum(groups, joint);\n"
        "                return 0;"
    )
    parts.append(joint.replace("@_ON_UNKNOWN", exact if spread else "return -1;"))
    if costs is not None:
        parts += [_costs(read_costs(network, costs)), _source("scorer_decide.h")]
    parts.append("#endif\n")
    return "\n".join(parts).replace("@", name)


def _costs(costs: Costs) -> str:
    """Return the actions, and what they cost."""
    labels = ",\n    ".join(map(_literal, costs.names))
    return (
        f"#define @_N_ACTIONS {len(costs.actions)}\n#define @_TIE {costs.tolerance!r}\n"
        f"static const char *const @_actions[@_N_ACTIONS] = {{\n    {labels}}};\n"
        + _doubles("costs", costs.matrix.ravel().tolist())
    )


def _source(name: str) -> str:
    return files("tanager.network.exports").joinpath(name).read_text(encoding="utf-8")


def _head(recipe: Recipe) -> str:
    """Return what comes before the arrays: how to call the scorer, and the struct of a row."""
    labels = [_literal(str(label)) for label in recipe.classes]
    fields = []
    for given, field in zip(recipe.inputs, _fields(recipe), strict=True):
        kind = "const char *" if given.kind == "text" else "double "
        note = _SECONDS[given.temporal if given.kind == "number" else ""]
        fields.append(f"    {kind}{field}; /* {_literal(given.name)}{note} */")
    filled = {
        "TARGET": _literal(recipe.target),
        "EXPLAINED_CLASSES": "\n".join(f" *   {at}  {label}" for at, label in enumerate(labels)),
        "CLASS_COUNT": str(recipe.n_classes),
        "FEATURE_COUNT": str(len(recipe.inputs)),
        "FIELDS": "\n".join(fields),
        "LABELS": ",\n    ".join(labels),
    }
    text = _source("scorer_head.h")
    for name, what in filled.items():
        text = text.replace(f"@@{name}", what)
    return text


def _fields(recipe: Recipe) -> list[str]:
    """Return a field's name for every input; a prefix keeps them apart from C's own words."""
    words = [re.sub(r"[^A-Za-z0-9]+", "_", given.name).strip("_") for given in recipe.inputs]
    return distinct([f"x_{word}" if word else "x" for word in words])


def _arrays(recipe: Recipe) -> str:
    """Return the tables, and what relates them."""
    families, inputs = recipe.families, recipe.inputs
    logs = [x for family in families for x in family.log_prob.ravel().tolist()]
    arrays = [
        "/* Of each feature: its codes, its groups of codes, its parents, and where its table by",
        " * groups starts. */",
        _integers("arity", [given.arity for given in inputs]),
        _integers("n_groups", [given.n_groups for given in inputs]),
        _integers("parent_start", _starts(len(family.parents) for family in families)),
        _integers("parents", [p for family in families for p in family.parents]),
        _integers("order", recipe.order),
        _doubles("log_prior", recipe.log_prior.tolist()),
        _integers("table_start", _starts(f.log_prob.size for f in families), kind="long"),
        _doubles("tables", logs, digits=15),
    ]
    return "\n".join(arrays + _group_arrays(recipe))


def _group_arrays(recipe: Recipe) -> list[str]:
    """Return the groups of codes, and what codes add to them; nothing where there are none."""
    groups = [given.groups or () for given in recipe.inputs]
    if not any(groups):
        return []
    within = [() if f.log_within is None else f.log_within.ravel() for f in recipe.families]
    return [
        "/* The group of each code, and what the code adds to it; -1 where codes are groups. */",
        _integers(
            "group_start",
            [
                at if some else -1
                for at, some in zip(_starts(map(len, groups)), groups, strict=False)
            ],
        ),
        _integers("groups", [group for some in groups for group in some]),
        _integers("within_start", _starts(map(len, within)), kind="long"),
        _doubles("within", [float(x) for part in within for x in part], digits=15),
    ]


def _coding(recipe: Recipe) -> str:
    """Return the function from a row to codes, with the arrays it looks into."""
    arrays, lines = [], []
    for at, (given, field) in enumerate(zip(recipe.inputs, _fields(recipe), strict=True)):
        if given.kind == "text":
            # A text in C ends at its first character 0: others can never come.
            known = [(v, code) for code, v in enumerate(given.values) if "\x00" not in v]
            known.sort(key=lambda pair: pair[0].encode())
            texts = ",\n    ".join(_literal(text) for text, _ in known) or '""'
            arrays.append(f"static const char *const @_texts{at}[] = {{\n    {texts}}};")
            arrays.append(_integers(f"text_codes{at}", [code for _, code in known]))
            call = f"text(@_texts{at}, @_text_codes{at}, {len(known)}"
        else:
            numbers = _numbers(given)
            order = sorted(range(len(numbers)), key=lambda code: numbers[code])
            arrays.append(_doubles(f"values{at}", [numbers[code] for code in order]))
            call = f"number(@_values{at}, {len(numbers)}"
            if given.kind != "number":
                arrays.append(_integers(f"value_codes{at}", order))
                call = f"category(@_values{at}, @_value_codes{at}, {len(numbers)}"
        unknown = "" if given.kind == "number" else f", {given.unlisted}"
        lines.append(f"    codes[{at}] = @_{call}, {given.missing}{unknown}, row->{field});")
    head = "static inline void @_code(const @_row *row, int *codes)\n{\n"
    return "\n".join(arrays) + "\n\n" + head + "\n".join(lines) + "\n}\n"


def _numbers(given: Input) -> Sequence[float]:
    if given.past_doubles:
        raise ConfigurationError(
            f"The column {given.name!r} has whole numbers past 2^53, which a double in C does not "
            "hold. Make the column text, and fit again."
        )
    return given.cuts if given.kind == "number" else [float(v) for v in given.values]


def _steps(recipe: Recipe) -> str:
    """Return how unknown features are summed out: arrays, and where messages stand."""
    steps = recipe.steps
    sizes = _message_sizes(recipe)
    arrays = [
        f"#define @_N_STEPS {len(steps)}",
        f"#define @_N_MESSAGES {max(sum(sizes), 1)}",
        _integers("step_feature", [step.input for step in steps]),
        # One more than there are: compilers unroll loops over one, and warn of a second.
        _integers("separators", [*(i for step in steps for i in step.separator), 0]),
        _integers("separator_start", _starts(len(step.separator) for step in steps)),
        _integers("step_families", [f for step in steps for f in step.families]),
        _integers("step_family_start", _starts(len(step.families) for step in steps)),
        _integers("step_messages", [m for step in steps for m in step.messages]),
        _integers("step_message_start", _starts(len(step.messages) for step in steps)),
        _integers("message_start", _starts(sizes)[:-1]),
    ]
    return "\n".join(arrays) + "\n"


def _message_sizes(recipe: Recipe) -> list[int]:
    """Return how many numbers each step sends; the last of a component adds to the joint."""
    return [
        prod(step.shape[:-1]) * recipe.n_classes if step.separator else 0 for step in recipe.steps
    ]


def _check_stack(recipe: Recipe, remedy: str) -> None:
    total = sum(_message_sizes(recipe))
    if total > MAX_STACK_CELLS:
        raise MemoryBoundError(
            f"Summing out unknown features takes {total:,} numbers on the stack, beyond the bound "
            f"of {MAX_STACK_CELLS:,}. {remedy}",
            parameter="unknowns",
        )


def _starts(sizes: Iterable[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))


def _integers(name: str, values: Sequence[int], kind: str = "int") -> str:
    return _array(name, [str(v) for v in values] or ["0"], kind)


def _doubles(name: str, values: Sequence[float], digits: int = 17) -> str:
    shown = [_double(v, digits) for v in values] or ["0.0"]
    return _array(name, shown, "double")


def _double(value: Any, digits: int) -> str:
    shown = repr(float(value)) if digits == 17 else f"{value:.{digits}g}"
    return shown if any(mark in shown for mark in ".e") else f"{shown}.0"


def _array(name: str, shown: Sequence[str], kind: str) -> str:
    lines = [",".join(shown[at : at + 12]) for at in range(0, len(shown), 12)]
    body = ",\n    ".join(lines)
    return f"static const {kind} @_{name}[] = {{\n    {body}}};"


def _literal(text: str) -> str:
    """Return a text as a C string that no compiler reads otherwise, in code and in comments.

    All but plain characters are octal: quotes, backslashes, question marks
    (trigraphs), asterisks and slashes (comments), and the @ of this template.
    """
    letters = []
    for byte in text.encode("utf-8", errors="replace"):
        letter = chr(byte)
        letters.append(letter if _PLAIN.fullmatch(letter) else f"\\{byte:03o}")
    return '"' + "".join(letters) + '"'
