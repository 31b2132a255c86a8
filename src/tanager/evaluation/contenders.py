"""What is compared: classifiers as short texts or as estimators."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from tanager.errors import ConfigurationError
from tanager.registry import parse_call, split_outside

__all__ = ["ALIASES", "Contender", "split_pair"]

# Other people's classifiers under short names. One thread each: the laboratory
# runs folds side by side.
ALIASES: Mapping[str, str] = {
    "random-forest": "sklearn.ensemble.RandomForestClassifier(n_jobs=1)@native",
    "hist-gradient-boosting": "sklearn.ensemble.HistGradientBoostingClassifier()@native",
    "logistic-regression": "sklearn.linear_model.LogisticRegression(max_iter=1000)@native",
    "xgboost": "xgboost.XGBClassifier(n_jobs=1)@native",
    "lightgbm": "lightgbm.LGBMClassifier(n_jobs=1, verbose=-1)@native",
    "catboost": "catboost.CatBoostClassifier(thread_count=1, verbose=False, "
    "allow_writing_files=False)@native",
    "categorical-nb": "sklearn.naive_bayes.CategoricalNB()@codes",
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

_CHECKPOINT = re.compile(r"checkpoint\s*=(?!\s*None\b)")  # also of a learner within a learner


@dataclass(frozen=True)
class Contender:
    """A classifier that is compared: a text, or an estimator.

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
        if not isinstance(self.use, str):
            if not all(hasattr(self.use, method) for method in METHODS):
                raise ConfigurationError(
                    f"classifier {self.name!r} is a {type(self.use).__name__}, which has no "
                    "predict_proba. Give a text, or a classifier as scikit-learn has them."
                )
            if self.options:
                raise ConfigurationError(
                    f"classifier {self.name!r}: options go with a text. Set the estimator's own."
                )
            return
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
                f"path such as sklearn.svm.SVC, or one of {', '.join(ALIASES)}."
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
    def of(cls, use: Any, name: str | None = None) -> Contender:
        """Make one from a text or an estimator, which is also its name unless one is given."""
        return cls(name or (use if isinstance(use, str) else _text_of(use)), use)

    @property
    def is_pair(self) -> bool:
        """Whether it is a Tanager pair rather than an estimator, an import path or an alias."""
        return isinstance(self.use, str) and len(split_outside(self.use, "/")) == 2

    @property
    def is_ours(self) -> bool:
        """Whether it is a classifier of Tanager's."""
        from tanager.classifiers import BayesNetClassifier

        return self.is_pair or isinstance(self.use, BayesNetClassifier)

    @property
    def imports(self) -> str | None:
        """What is imported by name, or None for a Tanager pair, an alias or an estimator."""
        if not isinstance(self.use, str) or self.is_pair:
            return None
        if re.split(r"[(@]", self.use)[0] in ALIASES:
            return None
        return parse_call(self._expanded.rpartition("@")[0])[0]

    @property
    def takes_signs(self) -> bool:
        """Whether classes can be asked to rise or fall along a feature."""
        from tanager.parameters import GroupedLearner
        from tanager.parameters.registry import resolve_pair

        if not self.is_ours:
            return False
        sides = split_pair(self.use) if self.is_pair else (self.use.structure, self.use.parameters)
        return isinstance(resolve_pair(*sides)[1], GroupedLearner)

    @property
    def encoding(self) -> str:
        """How another's classifier sees the table."""
        return self._expanded.rpartition("@")[2]

    @property
    def _expanded(self) -> str:
        text, *encoding = split_outside(self.use, "@")
        alias, bracket, rest = text.partition("(")
        if alias not in ALIASES:
            return f"{text}@{encoding[0] if encoding else 'native'}"
        meant, _, usual = ALIASES[alias].rpartition("@")
        return f"{_merge_options(meant, bracket + rest)}@{encoding[0] if encoding else usual}"

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
        if not isinstance(self.use, str):
            return
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

        Numbers are cut into `bins`, unless the contender's options say how; with
        "auto" each Tanager classifier cuts as it would alone. `columns` are the options of
        `BayesNetClassifier` that say what the table's columns are.
        """
        if not isinstance(self.use, str):
            estimator = self._build_given(columns or {})
        else:
            make = self._build_pair if self.is_pair else self._build_imported
            estimator = make(bins, columns or {})
        unset = {
            key: seed
            for key, value in estimator.get_params().items()
            if value is None and key.split("__")[-1] == "random_state"
        }
        return estimator.set_params(**unset)

    def _build_given(self, columns: Mapping[str, Any]) -> Any:
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
        return Encoded(estimator, encoding, BINS, dict(columns))

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
        if not all(hasattr(factory, method) for method in METHODS):
            raise ConfigurationError(
                f"classifier {self.use!r}: {path!r} is not a classifier with predict_proba."
            )
        try:
            estimator = factory(**options)
        except TypeError as error:
            raise ConfigurationError(f"classifier {self.use!r}: {error}.") from error
        return Encoded(estimator, encoding, BINS if bins == "auto" else bins, dict(columns))


def split_pair(text: str) -> tuple[str, str]:
    """Separate structure and parameters at the slash outside brackets and quotes."""
    structure, parameters = split_outside(text, "/")
    return structure, parameters


def _merge_options(text: str, brackets: str) -> str:
    """Let the options written after an alias override the alias's own."""
    path, options = parse_call(text)
    _, given = parse_call(f"f{brackets}")
    return f"{path}({', '.join(f'{k}={v!r}' for k, v in {**options, **given}.items())})"


def _reads_frames(estimator: Any) -> bool:
    """Whether an estimator prepares columns itself, on its own or inside a search."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    from tanager.classifiers import BayesNetClassifier

    kinds = (BayesNetClassifier, ColumnTransformer, Pipeline)
    return any(isinstance(part, kinds) for part in (estimator, *estimator.get_params().values()))


def _text_of(estimator: Any) -> str:
    """Return an estimator as Python prints it, in one line: what isn't the default of it."""
    # Estimators leave out the middle of a long text unless they're told.
    whole = "N_CHAR_MAX" in signature(type(estimator).__repr__).parameters
    text = estimator.__repr__(N_CHAR_MAX=100_000) if whole else repr(estimator)
    # An address differs from run to run, and a run file knows its cells by this text.
    return " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", text).split())
