"""The library's names in messages, as the command line calls them."""

from __future__ import annotations

import re

__all__ = ["in_options"]

# What a parameter of the library is called here; `bins=foo` becomes `--bins foo`.
_PARAMETERS = {
    "bins": "--bins",
    "decimal": "--decimal",
    "dialect": "--dialect",
    "encoding": "--encoding",
    "engine": "--engine",
    "folds": "--folds",
    "loadable_rows": "--rows",
    "memory_limit": "--memory-limit",
    "missing": "--missing",
    "monotonic": "--monotonic",
    "n_jobs": "--jobs",
    "ordered": "--ordered",
    "parameters": "--parameters",
    "random_state": "--seed",
    "rounds": "--rounds",
    "seed": "--seed",
    "structure": "--structure",
}
_PHRASES = (
    ("name it in categorical_features", "give it as --categorical"),
    ("categorical_features", "--categorical"),
    ("monotonic names", "--monotonic names"),
    ("ordered names", "--ordered names"),
    ("drop names", "--drop names"),
    ("dates names", "--dates names"),
    ("dates: ", "--dates: "),
    ("na_values", "--na-values"),
    (" verbose=1 shows progress.", ""),
    ("pass audit=False", "pass --no-audit"),
    ("All findings are in info_['codes']['audit'].", "All findings: tanager audit DATA."),
    ("Name the target.", "Name the target with --target."),
    ("unknowns=False", "--complete-rows"),
    ("sample_weight", "--weight"),
    ("monotonic has", "--monotonic has"),
    (", a numpy.random.RandomState, or None for a fixed seed", ""),
    (", None for one, -1", ", or -1"),
    (", or None for half of the free memory", ""),
    (", or a learner from tanager.structure", ""),
    (", or a learner from tanager.parameters", ""),
)
_COUNT = re.compile(
    r"X has (\d+) features, but BayesNetClassifier is expecting (\d+) features as input\."
)
_ORDER_OF = re.compile(r"ordered=\{'([^']*)': \[\.\.\.\]\}")
_ENTRY = re.compile(r"(?<![-\w])(ordered|monotonic)\['[^']*'\]")
_GIVEN = re.compile(rf"(?<![\w(-])({'|'.join(_PARAMETERS)})=(?=\S)")


def in_options(text: str) -> str:
    """Return a message of the library in words of the command line.

    >>> in_options("bins='foo' is not known. Or pass audit=False.")
    "--bins 'foo' is not known. Or pass --no-audit."
    >>> in_options("monotonic names 'a'. Say the order with ordered={'a': [...]}.")
    "--monotonic names 'a'. Say the order with --ordered 'a=first,second,...'."
    """
    text = _COUNT.sub(
        r"The model knows \2 columns by their place; the table has \1, besides the target and "
        "those kept.",
        text,
    )
    text = _ORDER_OF.sub(r"--ordered '\1=first,second,...'", text)
    text = _ENTRY.sub(r"--\1", text)
    for library, here in _PHRASES:
        alone = r"(?<![-\w])" if library[0].isalpha() else ""
        text = re.sub(f"{alone}{re.escape(library)}", here, text)
    return _GIVEN.sub(lambda found: f"{_PARAMETERS[found.group(1)]} ", text)
