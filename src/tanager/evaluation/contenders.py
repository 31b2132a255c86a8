"""What is compared: classifiers as short texts or as estimators."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any, NamedTuple, NoReturn

from tanager.classifiers import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.parameters import GroupedLearner
from tanager.parameters.registry import resolve_pair
from tanager.registry import parse_call, split_outside

__all__ = ["ALIASES", "Contender"]


class Outsider(NamedTuple):
    """Another's classifier: what is imported, its options, and how it sees the table."""

    path: str
    options: Mapping[str, Any]
    encoding: str = "native"

    @property
    def package(self) -> str:
        """What would have to be installed."""
        return self.path.partition(".")[0]


# Other people's classifiers under short names. One thread each: the laboratory
# runs folds side by side.
ALIASES: Mapping[str, Outsider] = {
    "random-forest": Outsider("sklearn.ensemble.RandomForestClassifier", {"n_jobs": 1}),
    "hist-gradient-boosting": Outsider("sklearn.ensemble.HistGradientBoostingClassifier", {}),
    "logistic-regression": Outsider("sklearn.linear_model.LogisticRegression", {"max_iter": 1000}),
    "xgboost": Outsider("xgboost.XGBClassifier", {"n_jobs": 1}),
    "lightgbm": Outsider("lightgbm.LGBMClassifier", {"n_jobs": 1, "verbose": -1}),
    "catboost": Outsider(
        "catboost.CatBoostClassifier",
        {"thread_count": 1, "verbose": False, "allow_writing_files": False},
    ),
    "categorical-nb": Outsider("sklearn.naive_bayes.CategoricalNB", {}, "codes"),
}

ENCODINGS = ("native", "binned", "codes", "frame")
BINS = 5  # of "binned" and "codes" where nobody says: the cuts of least description length and 5

# Options of `BayesNetClassifier` that say what is compared. Where a fit runs, and which files
# it keeps, is the comparison's own affair, and none of an experiment file's.
OPTIONS = (
    *("audit", "bins", "categorical_features", "class_weight", "dates", "missing"),
    *("ordered", "random_state"),
)

METHODS = ("fit", "predict_proba", "get_params")  # of a classifier


@dataclass(frozen=True)
class Contender:
    """A classifier to compare, given as a text or as an estimator.

    Parameters
    ----------
    name : str
        As results call it.
    use : str or estimator
        ``structure/parameters`` with options in brackets (``kdb(k=2)/hdp``); a
        scikit-learn estimator by import path with its options
        (``sklearn.svm.SVC(probability=True)``); an alias (``random-forest``); or an
        estimator itself, such as ``BayesNetClassifier("tan", "hdp")`` or a pipeline.
    options : mapping
        For a Tanager pair, further options of `BayesNetClassifier`.

    Notes
    -----
    Other people's classifiers get the table as their own users would give it: raw
    numbers, gaps as gaps, categories in the classifier's own way, ids left out; a
    pipeline, also one inside a search, gets a pandas DataFrame. ``@binned`` (indicators)
    and ``@codes`` after a text give the bins that Tanager learns on the same training
    fold instead, ``@frame`` a DataFrame.

    Examples
    --------
    >>> Contender.of("kdb(k=2)/m-estimate(m=1)").name
    'kdb(k=2)/m-estimate(m=1)'
    >>> Contender.of("random-forest@binned").encoding
    'binned'
    """

    name: str
    use: Any
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pair is not None:
            for side in self.pair:
                parse_call(side)
            strange = [name for name in self.options if name not in OPTIONS]
            if strange:
                self._refuse(
                    f": option {strange[0]!r} is not allowed here. Allowed: {', '.join(OPTIONS)}."
                )
        elif self.outsider is not None:
            if "." not in self.outsider.path:
                self._refuse(
                    " is not known. Allowed: structure/parameters, an import path such as "
                    f"sklearn.svm.SVC, or one of {', '.join(ALIASES)}."
                )
            if self.encoding not in ENCODINGS:
                self._refuse(
                    f": encoding {self.encoding!r} is not known. Allowed: {', '.join(ENCODINGS)}."
                )
            if self.options:
                self._refuse(": write options in brackets after the import path.")
        elif not all(hasattr(self.use, method) for method in METHODS):
            self._refuse(
                f" is a {type(self.use).__name__}, which has no predict_proba. "
                "Give a text, or a classifier as scikit-learn has them."
            )
        elif self.options:
            self._refuse(": options go with a text. Set the estimator's own.")

    def _refuse(self, why: str) -> NoReturn:
        called = self.use if isinstance(self.use, str) else self.name
        raise ConfigurationError(f"classifier {called!r}{why}")

    @classmethod
    def of(cls, use: Any, name: str | None = None) -> Contender:
        """Make one from a text or an estimator, which is also its name unless one is given."""
        return cls(name or (use if isinstance(use, str) else _text_of(use)), use)

    @cached_property
    def pair(self) -> tuple[str, str] | None:
        """Structure and parameters of a Tanager pair, None for anything else."""
        sides = split_outside(self.use, "/") if isinstance(self.use, str) else []
        return (sides[0], sides[1]) if len(sides) == 2 else None

    @cached_property
    def outsider(self) -> Outsider | None:
        """What an import path or an alias means; None for a Tanager pair or an estimator."""
        if self.pair is not None or not isinstance(self.use, str):
            return None
        text, *encoding = split_outside(self.use, "@")
        path, options = parse_call(text)
        known = ALIASES.get(path, Outsider(path, {}))
        seen_as = encoding[0] if encoding else known.encoding
        return Outsider(known.path, {**known.options, **options}, seen_as)

    @property
    def is_ours(self) -> bool:
        """Whether it is a classifier of Tanager's."""
        return self.pair is not None or isinstance(self.use, BayesNetClassifier)

    @property
    def imports(self) -> str | None:
        """What is imported by name, or None for a Tanager pair, an alias or an estimator."""
        aliased = isinstance(self.use, str) and re.split(r"[(@]", self.use)[0] in ALIASES
        return None if aliased or self.outsider is None else self.outsider.path

    @property
    def takes_signs(self) -> bool:
        """Whether classes can be asked to rise or fall along a feature."""
        if not self.is_ours:
            return False
        sides = self.pair or (self.use.structure, self.use.parameters)
        return isinstance(resolve_pair(*sides)[1], GroupedLearner)

    @property
    def encoding(self) -> str | None:
        """How another's classifier sees the table, if a text says what it is."""
        return self.outsider and self.outsider.encoding

    @property
    def text(self) -> str:
        """The text, or an estimator's as Python would print it."""
        return self.use if isinstance(self.use, str) else _text_of(self.use)

    def to_dict(self) -> dict[str, Any]:
        """Return the description for reports and run files."""
        facts: dict[str, Any] = {"name": self.name, "use": self.text}
        if self.options:
            facts["options"] = dict(self.options)
        return facts

    def check(self) -> None:
        """Refuse names and options that no cell could ever use, before the first one runs.

        A package that is not installed is left to the cells: the other
        classifiers' results stand without it.
        """
        if self.pair is not None:
            self._build_pair("auto", {})
        elif self.outsider is not None and importlib.util.find_spec(self.outsider.package):
            self._import(self.outsider)

    def build(
        self, seed: int, bins: str | int = "auto", columns: Mapping[str, Any] | None = None
    ) -> Any:
        """Make a fresh estimator that takes an Arrow table and class codes.

        Numbers are cut into `bins`, unless the contender's options say how; with
        "auto" each Tanager classifier cuts as it would alone. `columns` are the options of
        `BayesNetClassifier` that say what the table's columns are.
        """
        from tanager.evaluation.encoding import Encoded

        known = dict(columns or {})
        if self.pair is not None:
            estimator = self._build_pair(bins, known)
        elif self.outsider is not None:
            cut = BINS if bins == "auto" else bins
            estimator = Encoded(self._import(self.outsider), self.outsider.encoding, cut, known)
        else:
            estimator = self._build_given(known)
        unset = {
            key: seed
            for key, value in estimator.get_params().items()
            if value is None and key.split("__")[-1] == "random_state"
        }
        return estimator.set_params(**unset)

    def _build_given(self, columns: dict[str, Any]) -> Any:
        from sklearn.base import clone

        from tanager.evaluation.encoding import Encoded

        estimator = clone(self.use)
        if isinstance(estimator, Encoded):
            return estimator
        if self.is_ours:  # what the estimator says of its columns itself, stands
            usual = type(estimator)().get_params(deep=False)
            said = estimator.get_params(deep=False)
            unsaid = {k: v for k, v in columns.items() if said[k] == usual[k]}
            return estimator.set_params(**unsaid)
        encoding = "frame" if _reads_frames(estimator) else "native"
        return Encoded(estimator, encoding, BINS, columns)

    def _build_pair(self, bins: str | int, columns: Mapping[str, Any]) -> Any:
        assert self.pair is not None
        options = {"bins": bins, **columns, **self.options}
        return BayesNetClassifier(*resolve_pair(*self.pair), **options)

    def _import(self, outsider: Outsider) -> Any:
        """Return another's classifier with its options."""
        module, _, name = outsider.path.rpartition(".")
        try:
            factory = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            absent = importlib.util.find_spec(outsider.package) is None
            hint = f"Install it: pip install {outsider.package}" if absent else "Check the name"
            self._refuse(f": cannot import {outsider.path!r} ({error}). {hint}.")
        if not all(hasattr(factory, method) for method in METHODS):
            self._refuse(f": {outsider.path!r} is not a classifier with predict_proba.")
        try:
            return factory(**outsider.options)
        except TypeError as error:
            self._refuse(f": {error}.")


def _reads_frames(estimator: Any) -> bool:
    """Whether an estimator prepares columns itself, on its own or inside a search."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    kinds = (BayesNetClassifier, ColumnTransformer, Pipeline)
    return any(isinstance(part, kinds) for part in (estimator, *estimator.get_params().values()))


def _text_of(estimator: Any) -> str:
    """Return an estimator as Python prints it, in one line: what isn't the default of it."""
    # Estimators leave out the middle of a long text unless they're told.
    whole = "N_CHAR_MAX" in signature(type(estimator).__repr__).parameters
    text = estimator.__repr__(N_CHAR_MAX=100_000) if whole else repr(estimator)
    # An address differs from run to run, and a run file knows its cells by this text.
    return " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", text).split())
