"""What is compared: classifiers written as short texts, and how a text becomes an estimator."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tanager.errors import ConfigurationError

__all__ = ["ALIASES", "Contender", "parse_call", "split_pair"]

# Other people's classifiers under short names. One thread each: the laboratory
# runs folds side by side.
ALIASES: Mapping[str, str] = {
    "random-forest": "sklearn.ensemble.RandomForestClassifier(n_jobs=1)@onehot",
    "hist-gradient-boosting": "sklearn.ensemble.HistGradientBoostingClassifier()@ordinal",
    "logistic-regression": "sklearn.linear_model.LogisticRegression(max_iter=1000)@onehot",
    "xgboost": "xgboost.XGBClassifier(n_jobs=1)@onehot",
    "categorical-nb": "sklearn.naive_bayes.CategoricalNB()@ordinal",
}

ENCODINGS = ("onehot", "ordinal", "raw")

_NAME = re.compile(r"[A-Za-z][\w.\-]*")
_MAX_TEXT = 2000  # characters of a classifier's text


@dataclass(frozen=True)
class Contender:
    """A classifier by text.

    Parameters
    ----------
    name : str
        As results call it.
    use : str
        ``structure/parameters`` with options in brackets (``kdb(k=2)/hdp``); a
        scikit-learn estimator by import path with its options and an encoding
        (``sklearn.svm.SVC(probability=True)@onehot``); or an alias
        (``random-forest``).
    options : mapping
        For a Tanager pair, further options of `BayesNetClassifier`.

    Notes
    -----
    Encodings: ``onehot`` and ``ordinal`` give the estimator the same bins that
    Tanager's classifiers see, learned on the same training fold, as indicator
    columns or as codes; ``raw`` gives it numbers as they are, with categories
    coded and missing values as NaN.

    Examples
    --------
    >>> Contender.of("kdb(k=2)/m-estimate(m=1)").name
    'kdb(k=2)/m-estimate(m=1)'
    >>> Contender.of("random-forest").encoding
    'onehot'
    """

    name: str
    use: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.is_pair:
            for side in split_pair(self.use):
                _, options = parse_call(side)
                if options.get("checkpoint") is not None:
                    raise ConfigurationError(
                        f"classifier {self.use!r}: a checkpoint is the file of one fit, and a "
                        "comparison makes many. Leave it out; the run file resumes a comparison."
                    )
            return
        path, _ = parse_call(self._expanded.rpartition("@")[0])
        if "." not in path:
            raise ConfigurationError(
                f"classifier {self.use!r} is not known. Allowed: structure/parameters, an import "
                f"path such as sklearn.svm.SVC@onehot, or one of {', '.join(ALIASES)}."
            )
        if self.encoding not in ENCODINGS:
            raise ConfigurationError(
                f"classifier {self.use!r}: encoding {self.encoding!r} is not known. "
                f"Allowed: {', '.join(ENCODINGS)}."
            )
        if self.options:
            raise ConfigurationError(
                f"classifier {self.use!r}: write options in brackets after the import path."
            )

    @classmethod
    def of(cls, use: str, name: str | None = None) -> Contender:
        """Make one from its text, which is also its name unless another is given."""
        return cls(name or use, use)

    @property
    def is_pair(self) -> bool:
        """Whether it is a Tanager pair rather than an import path or an alias."""
        return len(_split_outside(self.use, "/")) == 2

    @property
    def imports(self) -> str | None:
        """What is imported by name, or None for a Tanager pair or an alias."""
        if self.is_pair or self.use.partition("(")[0] in ALIASES:
            return None
        return parse_call(self._expanded.rpartition("@")[0])[0]

    @property
    def encoding(self) -> str:
        """How the estimator sees the table."""
        return self._expanded.rpartition("@")[2]

    @property
    def _expanded(self) -> str:
        alias, bracket, rest = self.use.partition("(")
        if alias in ALIASES:
            text, _, encoding = ALIASES[alias].rpartition("@")
            return f"{_merge_options(text, bracket + rest)}@{encoding}"
        pieces = _split_outside(self.use, "@")
        return f"{pieces[0]}@{pieces[1] if len(pieces) > 1 else 'onehot'}"

    def describe(self) -> dict[str, Any]:
        """Return the description for reports and run files."""
        facts: dict[str, Any] = {"name": self.name, "use": self.use}
        if self.options:
            facts["options"] = dict(self.options)
        return facts

    def build(self, seed: int, bins: str | int = "auto") -> Any:
        """Make a fresh estimator that takes an Arrow table and class codes.

        Numbers are cut into `bins`, unless the contender's options say how. With
        "auto" each Tanager classifier cuts as it would alone, and other people's
        see the bins of the default one.
        """
        estimator = self._build_pair(bins) if self.is_pair else self._build_imported(bins)
        unset = {
            key: seed
            for key, value in estimator.get_params().items()
            if value is None and key.split("__")[-1] == "random_state"
        }
        return estimator.set_params(**unset)

    def _build_pair(self, bins: str | int) -> Any:
        from tanager.classifiers import BayesNetClassifier
        from tanager.parameters.registry import resolve_parameters
        from tanager.structure.registry import resolve_structure

        structure, parameters = split_pair(self.use)
        return BayesNetClassifier(
            structure=_learner(structure, resolve_structure),
            parameters=_learner(parameters, resolve_parameters),
            **{"bins": bins, **self.options},
        )

    def _build_imported(self, bins: str | int) -> Any:
        from tanager.evaluation.encoding import Encoded
        from tanager.parameters import Pooled

        text, _, encoding = self._expanded.rpartition("@")
        path, options = parse_call(text)
        module, _, name = path.rpartition(".")
        try:
            factory = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                f"classifier {self.use!r}: cannot import {path!r} ({error})."
            ) from error
        if not all(hasattr(factory, method) for method in ("fit", "predict_proba", "get_params")):
            raise ConfigurationError(
                f"classifier {self.use!r}: {path!r} is not a classifier with predict_proba."
            )
        own = Pooled.preferred_bins if bins == "auto" else bins
        return Encoded(factory(**options), encoding, own)


def _learner(text: str, resolve: Callable[[str], Any]) -> Any:
    name, options = parse_call(text)
    try:
        return type(resolve(name))(**options)
    except TypeError as error:
        raise ConfigurationError(f"{text!r}: {error}.") from error


def split_pair(text: str) -> tuple[str, str]:
    """Separate structure and parameters at the slash outside brackets and quotes."""
    structure, parameters = _split_outside(text, "/")
    return structure, parameters


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """Read ``name(option=literal, ...)``; values are literals and are never evaluated.

    Examples
    --------
    >>> parse_call("m-estimate(m=0.5)")
    ('m-estimate', {'m': 0.5})
    """
    text = text.strip()
    if len(text) > _MAX_TEXT:
        raise ConfigurationError(
            f"{text[:60]!r}... has {len(text):,} characters. Allowed: {_MAX_TEXT:,}."
        )
    found = _NAME.match(text)
    rest = text[found.end() :] if found else text
    if found is None or (rest and not (rest.startswith("(") and rest.endswith(")"))):
        raise ConfigurationError(f"{text!r} cannot be read. Allowed: name or name(option=value).")
    try:
        call = ast.parse(f"f{rest or '()'}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
            raise ValueError("options are written option=value")
        options = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    # Deep brackets and long rows of signs exhaust Python's own parser.
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ConfigurationError(
            f"{text!r} cannot be read ({error}). Allowed: name(option=literal)."
        ) from error
    return found.group(), options


def _merge_options(text: str, brackets: str) -> str:
    """Let the options written after an alias override the alias's own."""
    path, options = parse_call(text)
    _, given = parse_call(f"f{brackets}")
    return f"{path}({', '.join(f'{k}={v!r}' for k, v in {**options, **given}.items())})"


def _split_outside(text: str, separator: str) -> list[str]:
    """Split at a separator that is neither in brackets nor in quotes."""
    pieces, depth, quote, start = [], 0, "", 0
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == separator and depth == 0:
            pieces.append(text[start:position])
            start = position + 1
    return [*pieces, text[start:]]
