"""What is compared: classifiers written as short texts, and how a text becomes an estimator."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tanager.errors import ConfigurationError
from tanager.registry import parse_call, split_outside

__all__ = ["ALIASES", "Contender", "split_pair"]

# Other people's classifiers under short names. One thread each: the laboratory
# runs folds side by side.
ALIASES: Mapping[str, str] = {
    "random-forest": "sklearn.ensemble.RandomForestClassifier(n_jobs=1)@onehot",
    "hist-gradient-boosting": "sklearn.ensemble.HistGradientBoostingClassifier()@ordinal",
    "logistic-regression": "sklearn.linear_model.LogisticRegression(max_iter=1000)@onehot",
    "xgboost": "xgboost.XGBClassifier(n_jobs=1)@onehot",
    "categorical-nb": "sklearn.naive_bayes.CategoricalNB()@ordinal",
}

PEER_BINS = 5  # per column, of classifiers that are not Tanager's
ENCODINGS = ("onehot", "ordinal", "raw")

# Options of `BayesNetClassifier` that say what is compared. Where a fit runs, and which files
# it keeps, is the comparison's own affair, and none of an experiment file's.
OPTIONS = (
    *("audit", "bins", "categorical_features", "class_weight", "dates", "missing"),
    *("ordered", "random_state"),
)

_CHECKPOINT = re.compile(r"checkpoint\s*=(?!\s*None\b)")  # also of a learner within a learner


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
                parse_call(side)
                if _CHECKPOINT.search(side):
                    raise ConfigurationError(
                        f"classifier {self.use!r}: a checkpoint is the file of one fit, and a "
                        "comparison makes many. Leave it out; the run file resumes a comparison."
                    )
            strange = [name for name in self.options if name not in OPTIONS]
            if strange:
                raise ConfigurationError(
                    f"classifier {self.use!r}: option {strange[0]!r} is not allowed here. "
                    f"Allowed: {', '.join(OPTIONS)}."
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
        return len(split_outside(self.use, "/")) == 2

    @property
    def imports(self) -> str | None:
        """What is imported by name, or None for a Tanager pair or an alias."""
        if self.is_pair or self.use.partition("(")[0] in ALIASES:
            return None
        return parse_call(self._expanded.rpartition("@")[0])[0]

    @property
    def takes_signs(self) -> bool:
        """Whether classes can be asked to rise or fall along a feature."""
        from tanager.parameters import GroupedLearner
        from tanager.parameters.registry import resolve_pair

        return self.is_pair and isinstance(resolve_pair(*split_pair(self.use))[1], GroupedLearner)

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
        pieces = split_outside(self.use, "@")
        return f"{pieces[0]}@{pieces[1] if len(pieces) > 1 else 'onehot'}"

    def describe(self) -> dict[str, Any]:
        """Return the description for reports and run files."""
        facts: dict[str, Any] = {"name": self.name, "use": self.use}
        if self.options:
            facts["options"] = dict(self.options)
        return facts

    def check(self) -> None:
        """Refuse names and options that no cell could ever use, before the first one runs.

        A package that is not installed is left to the cells: the other
        classifiers' results stand without it.
        """
        if self.is_pair:
            self._build_pair("auto", {})
            return
        path, _ = parse_call(self._expanded.rpartition("@")[0])
        if importlib.util.find_spec(path.partition(".")[0]) is not None:
            self._build_imported("auto", {})

    def build(
        self, seed: int, bins: str | int = "auto", columns: Mapping[str, Any] | None = None
    ) -> Any:
        """Make a fresh estimator that takes an Arrow table and class codes.

        Numbers are cut into `bins`, unless the contender's options say how. With
        "auto" each Tanager classifier cuts as it would alone, and other people's
        see five bins per column. `columns` are the options of
        `BayesNetClassifier` that say what the table's columns are.
        """
        make = self._build_pair if self.is_pair else self._build_imported
        estimator = make(bins, columns or {})
        unset = {
            key: seed
            for key, value in estimator.get_params().items()
            if value is None and key.split("__")[-1] == "random_state"
        }
        return estimator.set_params(**unset)

    def _build_pair(self, bins: str | int, columns: Mapping[str, Any]) -> Any:
        from tanager.classifiers import BayesNetClassifier
        from tanager.parameters.registry import resolve_pair

        structure, parameters = resolve_pair(*split_pair(self.use))
        options = {"bins": bins, **columns, **self.options}
        return BayesNetClassifier(structure, parameters, **options)

    def _build_imported(self, bins: str | int, columns: Mapping[str, Any]) -> Any:
        from tanager.evaluation.encoding import Encoded

        text, _, encoding = self._expanded.rpartition("@")
        path, options = parse_call(text)
        module, _, name = path.rpartition(".")
        try:
            factory = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            package = path.partition(".")[0]
            absent = importlib.util.find_spec(package) is None
            hint = f"Install it: pip install {package}" if absent else "Check the name"
            raise ConfigurationError(
                f"classifier {self.use!r}: cannot import {path!r} ({error}). {hint}."
            ) from error
        if not all(hasattr(factory, method) for method in ("fit", "predict_proba", "get_params")):
            raise ConfigurationError(
                f"classifier {self.use!r}: {path!r} is not a classifier with predict_proba."
            )
        own = PEER_BINS if bins == "auto" else bins
        try:
            estimator = factory(**options)
        except TypeError as error:
            raise ConfigurationError(f"classifier {self.use!r}: {error}.") from error
        return Encoded(estimator, encoding, own, dict(columns))


def split_pair(text: str) -> tuple[str, str]:
    """Separate structure and parameters at the slash outside brackets and quotes."""
    structure, parameters = split_outside(text, "/")
    return structure, parameters


def _merge_options(text: str, brackets: str) -> str:
    """Let the options written after an alias override the alias's own."""
    path, options = parse_call(text)
    _, given = parse_call(f"f{brackets}")
    return f"{path}({', '.join(f'{k}={v!r}' for k, v in {**options, **given}.items())})"
