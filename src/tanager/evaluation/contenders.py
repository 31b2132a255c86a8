"""The classifiers to compare, as short specifications or as estimators."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any, NamedTuple, NoReturn

from tanager.classifiers.bayesnet import BayesNetClassifier
from tanager.errors import ConfigurationError
from tanager.parameters import GroupedLearner, resolve_pair
from tanager.registry import parse_call, split_outside

Options = Mapping[str, Any]


class Outsider(NamedTuple):
    """A third-party classifier: its import path, its options, and how it gets the table."""

    path: str
    options: Options
    encoding: str = "native"

    @property
    def package(self) -> str:
        """The package to install."""
        return self.path.partition(".")[0]

    @property
    def installed(self) -> bool:
        """Whether the package is installed."""
        return importlib.util.find_spec(self.package) is not None


_CATBOOST = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
# Third-party classifiers under short names. One thread each: the laboratory runs folds in parallel.
ALIASES: Mapping[str, Outsider] = {
    "random-forest": Outsider("sklearn.ensemble.RandomForestClassifier", {"n_jobs": 1}),
    "hist-gradient-boosting": Outsider("sklearn.ensemble.HistGradientBoostingClassifier", {}),
    "logistic-regression": Outsider("sklearn.linear_model.LogisticRegression", {"max_iter": 1000}),
    "xgboost": Outsider("xgboost.XGBClassifier", {"n_jobs": 1}),
    "lightgbm": Outsider("lightgbm.LGBMClassifier", {"n_jobs": 1, "verbose": -1}),
    "catboost": Outsider("catboost.CatBoostClassifier", _CATBOOST),
    "categorical-nb": Outsider("sklearn.naive_bayes.CategoricalNB", {}, "codes"),
}

ENCODINGS = ("native", "binned", "codes", "frame")
BINS = 5  # default for "binned" and "codes": bins of equal frequency, in addition to MDL's cuts

# Options of `BayesNetClassifier` that define what is compared. Where a fit runs and which files
# it writes is up to the comparison, not to an experiment file.
OPTIONS = (
    *("audit", "bins", "categorical_features", "class_weight", "dates", "missing"),
    *("ordered", "random_state"),
)
METHODS = ("fit", "predict_proba", "get_params")  # that a classifier needs


@dataclass(frozen=True)
class Contender:
    """A classifier to compare, given as a specification or as an estimator.

    Parameters
    ----------
    name : str
        Its name in results.
    use : str or estimator
        ``structure/parameters`` with options in brackets (``kdb(k=2)/hdp``); an estimator by import
        path with its options (``sklearn.svm.SVC(probability=True)``); an alias (``random-forest``);
        or an estimator itself, such as ``BayesNetClassifier("tan", "hdp")`` or a pipeline.
    options : mapping
        For a Tanager pair, further options of `BayesNetClassifier`.

    Notes
    -----
    Third-party classifiers get the table as their users would prepare it: raw numbers,
    missing values kept, categories in the classifier's own way, ids left out; a
    pipeline, also one inside a search, gets a pandas DataFrame. With ``@binned``
    (indicators) or ``@codes`` after its text, a classifier gets the bins that Tanager
    learns on the same training fold instead; with ``@frame``, a DataFrame.

    Examples
    --------
    >>> Contender.of("kdb(k=2)/m-estimate(m=1)").name
    'kdb(k=2)/m-estimate(m=1)'
    >>> Contender.of("random-forest@binned").outsider.encoding
    'binned'
    """

    name: str
    use: Any
    options: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pair is not None:
            for side in self.pair:
                parse_call(side)
            if strange := [name for name in self.options if name not in OPTIONS]:
                allowed = ", ".join(OPTIONS)
                self._refuse(f": option {strange[0]!r} is not allowed here. Allowed: {allowed}.")
        elif self.outsider is not None:
            if "." not in self.outsider.path:
                self._refuse(
                    " isn't valid. Allowed: structure/parameters, an import path such as "
                    f"sklearn.svm.SVC, or one of {', '.join(ALIASES)}."
                )
            if (encoding := self.outsider.encoding) not in ENCODINGS:
                allowed = ", ".join(ENCODINGS)
                self._refuse(f": encoding {encoding!r} isn't valid. Allowed: {allowed}.")
            if self.options:
                self._refuse(": write options in brackets after the import path.")
        elif not all(hasattr(self.use, method) for method in METHODS):
            hint = "Pass a text or a scikit-learn classifier."
            self._refuse(f" is a {type(self.use).__name__}, which has no predict_proba. {hint}")
        elif self.options:
            self._refuse(": options are only for texts. Set the estimator's parameters instead.")

    def _refuse(self, why: str) -> NoReturn:
        called = self.use if isinstance(self.use, str) else self.name
        raise ConfigurationError(f"classifier {called!r}{why}")

    @classmethod
    def of(cls, use: Any, name: str | None = None) -> Contender:
        """Make one from a text or an estimator, which is also the default name."""
        return cls(name or _text_of(use), use)

    @cached_property
    def pair(self) -> tuple[str, str] | None:
        """Structure and parameters of a Tanager pair; None for anything else."""
        sides = split_outside(self.use, "/") if isinstance(self.use, str) else []
        return (sides[0], sides[1]) if len(sides) == 2 else None

    @cached_property
    def outsider(self) -> Outsider | None:
        """What an import path or an alias refers to; None for a Tanager pair or an estimator."""
        if self.pair is not None or not isinstance(self.use, str):
            return None
        text, *encoding = split_outside(self.use, "@")
        path, options = parse_call(text)
        known = ALIASES.get(path, Outsider(path, {}))
        seen_as = encoding[0] if encoding else known.encoding
        return Outsider(known.path, {**known.options, **options}, seen_as)

    @property
    def is_ours(self) -> bool:
        """Whether it's one of Tanager's classifiers."""
        return self.pair is not None or isinstance(self.use, BayesNetClassifier)

    @property
    def imports(self) -> str | None:
        """The import path, or None for a Tanager pair, an alias or an estimator."""
        aliased = isinstance(self.use, str) and re.split(r"[(@]", self.use)[0] in ALIASES
        return None if aliased or self.outsider is None else self.outsider.path

    @property
    def takes_signs(self) -> bool:
        """Whether it supports monotonic constraints."""
        if not self.is_ours:
            return False
        sides = self.pair or (self.use.structure, self.use.parameters)
        return isinstance(resolve_pair(*sides)[1], GroupedLearner)

    @property
    def text(self) -> str:
        """The text, or an estimator's repr."""
        return _text_of(self.use)

    def to_dict(self) -> dict[str, Any]:
        """Return the description for reports and run files."""
        options = {"options": dict(self.options)} if self.options else {}
        return {"name": self.name, "use": self.text, **options}

    def check(self) -> None:
        """Reject invalid names and options; packages not installed only fail in their cells."""
        if self.pair is not None or (self.outsider is not None and self.outsider.installed):
            self.build(seed=0)

    def build(self, seed: int, bins: str | int = "auto", columns: Options | None = None) -> Any:
        """Build an unfitted estimator that takes an Arrow table and class codes.

        Numbers are cut into `bins`, unless the contender's own options say otherwise; with "auto",
        each Tanager classifier uses its default. `columns` are its options about the columns.
        """
        from sklearn.base import clone

        from tanager.evaluation.encoding import Encoded

        known = dict(columns or {})
        if self.pair is not None:
            options = {"bins": bins, **known, **self.options}
            estimator = BayesNetClassifier(*resolve_pair(*self.pair), **options)
        elif self.outsider is not None:
            cut = BINS if bins == "auto" else bins
            estimator = Encoded(self._import(self.outsider), self.outsider.encoding, cut, known)
        else:
            estimator = clone(self.use)
            if self.is_ours:  # the estimator's own column options take precedence
                usual, said = type(estimator)().get_params(), estimator.get_params()
                estimator.set_params(**{k: v for k, v in known.items() if said[k] == usual[k]})
            elif not isinstance(estimator, Encoded):
                encoding = "frame" if _reads_frames(estimator) else "native"
                estimator = Encoded(estimator, encoding, BINS, known)
        params = estimator.get_params().items()
        unset = [k for k, v in params if v is None and k.split("__")[-1] == "random_state"]
        return estimator.set_params(**dict.fromkeys(unset, seed))

    def _import(self, outsider: Outsider) -> Any:
        """Return a third-party classifier with its options."""
        module, _, name = outsider.path.rpartition(".")
        try:
            factory = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            install = f"Install it: pip install {outsider.package}"
            hint = "Check the name" if outsider.installed else install
            self._refuse(f": cannot import {outsider.path!r} ({error}). {hint}.")
        if not all(hasattr(factory, method) for method in METHODS):
            self._refuse(f": {outsider.path!r} is not a classifier with predict_proba.")
        try:
            return factory(**outsider.options)
        except TypeError as error:
            self._refuse(f": {error}.")


def _reads_frames(estimator: Any) -> bool:
    """Whether an estimator is a pipeline that prepares columns itself, also inside a search."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    kinds = (BayesNetClassifier, ColumnTransformer, Pipeline)
    return any(isinstance(part, kinds) for part in (estimator, *estimator.get_params().values()))


def _text_of(estimator: Any) -> str:
    """Return a text, or an estimator's repr on one line, with its non-default parameters."""
    if isinstance(estimator, str):
        return estimator
    # By default, estimators abbreviate a long repr.
    whole = "N_CHAR_MAX" in signature(type(estimator).__repr__).parameters
    text = estimator.__repr__(N_CHAR_MAX=100_000) if whole else repr(estimator)
    # An address differs from run to run, but a run file identifies its cells by this text.
    return " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", text).split())
