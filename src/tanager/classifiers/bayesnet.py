"""The estimator: any structure with any parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tanager.classifiers import fitting, priors
from tanager.classifiers.prediction import NetworkPredictor
from tanager.codes import Codebook, Rows, encode_rows, learn_codebook
from tanager.counts import Trees
from tanager.engines import Engine, FitContext
from tanager.errors import ConfigurationError
from tanager.estimator import join_scikit_learn, with_callbacks
from tanager.network import Network
from tanager.parameters import (
    PARAMETERS,
    GroupedLearner,
    ParameterLearner,
    TablePrior,
    resolve_pair,
)
from tanager.structure import Constraints, StructureLearner

# Parameters that decide how columns are coded, beside `bins`.
CODE_PARAMETERS = "categorical_features", "classes_ordered", "ordered", "missing", "audit", "dates"
LONG = 8  # entries beyond which a list or mapping is only counted
_OF_FIRST_ROWS = frozenset(("fingerprint", "mutual_information"))


@dataclass(eq=False, repr=False)
class BayesNetClassifier(NetworkPredictor):
    """A Bayesian network classifier: a structure and its probability tables.

    Learns from any table with strings, numbers and missing values; its calibrated
    class probabilities split exactly into one term per feature.

    Parameters
    ----------
    structure : str or StructureLearner, default="auto"
        Which features condition which: ``"naive"``, ``"tan"``, ``"kdb"``, ... or a learner such as
        ``KDB(k=2)``. "auto" is ``"ktree"`` for ``"layered"``, else
        ``"tan(root='information', adjusted=True)"``.
    parameters : str or ParameterLearner, default="layered"
        The probability tables: ``"layered"``, ``"hdp"``, ``"m-estimate"``, ... or a learner such as
        ``MEstimate(m=1.0)``.
    categorical_features : "from_dtype", "all", mask, indices or names, default="from_dtype"
        Which columns aren't discretised. ``"from_dtype"``: strings, booleans, categories and
        Arrow dictionaries.
    ordered : mapping or None, default=None
        Ordered categories, whose neighbours get similar estimates: from a feature to its values
        from first to last, such as ``{"size": ["S", "M", "L"]}``. Any other value raises an error.
        pandas' ordered categories, Arrow's ordered dictionaries and polars' enums are recognised.
    dates : None, names, or mapping of names to styles, default=None
        Text columns that are dates, if the audit can't tell: ``dates={"paid": "%d/%m/%Y"}``.
    monotonic : mapping or None, default=None
        Features along which the probability of the second of two classes rises (+1) or falls
        (-1), for any known values of the others. With more classes, a mapping from a class to
        a sign, such as ``{"age": {"high": +1}}``, for its odds against each other class. For
        ``parameters="layered"``.
    constraints : Constraints or None, default=None
        Required and forbidden arcs, and an order of the features; see `tanager.Constraints`.
    prior : mapping, Network, TablePrior or None, default=None
        Prior knowledge about tables, such as ``{"cough | smoker": table}``, or a network to
        continue from; see `tanager.parameters.TablePrior`.
    missing : "value" or "marginalize", default="value"
        Whether a missing value is a separate value, or unknown and summed out. Values never
        seen in training are always summed out.
    bins : "auto", "mdl", "fine" or int, default="auto"
        How numbers are discretised: "mdl" cuts where the classes differ (minimum description
        length), an integer also into that many bins of equal frequency, "fine" only into those:
        about 32, 64 from 1,500 rows on, 255 from 5,000, with a bin for each frequent value. "auto"
        is "fine" for ``"layered"``, else "mdl".
    class_weight : None, "balanced" or dict, default=None
        The cost of an error on each class, as a factor of its prior; ``"balanced"`` makes rare
        classes count as much as frequent ones. To reweight the rows as evidence, pass
        `sample_weight` instead.
    class_prior : mapping or None, default=None
        Class frequencies in deployment, if they differ from those of the training rows, such as
        ``{"sick": 0.02}`` for a case-control sample. Other classes share the rest in proportion to
        their rows.
    classes_ordered : sequence or None, default=None
        All classes from lowest to highest, such as ``["low", "mid", "high"]``: the order of
        `classes_`, `predict_proba`, `predict_cumulative` and the costs of `decide`.
        ``monotonic={"age": +1}`` then makes higher classes more likely along a feature.
    audit : bool, default=True
        Whether to read dates and numbers stored as text as such, and to leave out identifiers:
        unique texts, and whole numbers in a column named like an id, unless `categorical_features`
        names them. A `ColumnWarning` names the columns; ``info_["codes"]["audit"]`` has all.
    engine : "local", "dask", distributed.Client or Engine, default="local"
        Where passes over the data run: threads of this process, or a Dask cluster: the given
        client's, or for ``"dask"`` the current client's or a new local one. Results depend neither
        on this nor on the next two.
    n_jobs : int, default=None
        Threads of the local engine; None is one, -1 is one per core. ``"layered"`` uses one thread
        for fewer than 50,000 rows.
    memory_limit : str, int or None, default=None
        Memory for rows and counts without the model, such as ``"4GB"`` or a number of bytes; beyond
        it, rows and large arrays go to temporary files, counting takes more passes, and too many
        classes or values are an error. None is half the free memory.
    checkpoint : path or None, default=None
        A folder for the state of a long fit: if it's killed and restarted on the same rows,
        it resumes and gives the same model. The folder is emptied at the end.
    random_state : int, RandomState or None, default=None
        Seed for learners that use random numbers. None is a fixed seed, so fits are
        repeatable by default.
    verbose : int, default=0
        Above 0, show progress bars.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if the table has column names
    network_ : Network
        Codebook, structure and tables; immutable.
    structure_ : Structure
        ``structure_.parents`` maps each feature to its ordered parents.
    feature_importances_ : ndarray of shape (n_features,)
        Each feature's mutual information with the class, as a share of the sum.
    info_ : Info, a dict
        What each stage reports: seconds, memory, convergence, choices made; under ``"codes"``
        also the number of rows and, unless they're weighted, a fingerprint of their counts.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tanager import BayesNetClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesNetClassifier("tan", "m-estimate").fit(X, y)
    >>> clf.predict_proba(X[[0, 70]]).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 0.04, 0.96]])
    """

    structure: str | StructureLearner = "auto"
    parameters: str | ParameterLearner = "layered"
    _: KW_ONLY
    categorical_features: str | Sequence[Any] = "from_dtype"
    ordered: Mapping[Any, Sequence[Any]] | None = None
    dates: str | Sequence[str] | Mapping[str, str] | None = None
    monotonic: Mapping[Any, Any] | None = None
    constraints: Constraints | None = None
    prior: Mapping[Any, Any] | TablePrior | Network | None = None
    missing: str = "value"
    bins: str | int = "auto"
    class_weight: str | Mapping[Any, float] | None = None
    class_prior: Mapping[Any, float] | None = None
    classes_ordered: Sequence[Any] | None = None
    audit: bool = True
    engine: str | Engine = "local"
    n_jobs: int | None = None
    memory_limit: str | int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    random_state: Any = None
    verbose: int = 0

    def __post_init__(self) -> None:
        join_scikit_learn()

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | str | None = None) -> Self:
        """Learn codes, structure and tables.

        Parameters
        ----------
        X : table
            A 2-D array, list of rows or of dicts, DataFrame (pandas, polars, Dask), Arrow table,
            DuckDB relation, or a path, glob or folder of Parquet, Arrow or CSV files, streamed.
        y : array-like or str
            The classes, or the name of their column in X. A series gives the target its name.
        sample_weight : array-like or str, default=None
            Row weights, or the name of their column in X. A row of weight 2 counts as two rows, and
            weights that sum to one are one row in total. Repeating rows instead gives
            ``"layered"``, ``"ktree"``, ... other folds.
        """
        return self._fit(X, y, sample_weight)

    @fitting.OnlyFromCounts
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | str | None = None,
    ) -> Self:
        """Add rows to the counts of a learned structure.

        The first call learns codes and structure from its rows, as `fit` does; later calls, and
        calls after `fit`, keep both and add counts. Values that don't occur in the first rows stay
        unknown. Only for parameters that are estimated from counts: ``"hdp"``, ``"m-estimate"``,
        ``"friedman"``, ``"laplace"``, ``"ml"``, ``"acll"``. `drift` and `familiarity` need a single
        `fit`. `classes` are all that will ever occur; only used in the first call.
        """
        if not hasattr(self, "network_"):
            return self._fit(X, y, sample_weight, classes)
        if self._kept_counts is None:
            raise ConfigurationError(
                "partial_fit needs the counts of the first rows, which a model file doesn't store. "
                "Refit on all rows."
            )
        self._kept_counts.check(self.structure, self.parameters)
        codebook, structure = self.network_.codebook, self.network_.structure
        priors.check_class_weight(self.class_weight, codebook.classes)
        with fitting.open_progress(self.verbose) as progress:
            context = fitting.open_context(self, progress)
            rows = encode_rows(codebook, X, y, sample_weight=sample_weight, context=context)
            with context.stage("parameters"):
                sum_out = codebook.missing == "marginalize"
                kept = self._kept_counts.add(rows, structure, context, sum_out=sum_out)
                tables = kept.learner.from_counts(kept.classes, Trees(kept.families), context)
        given = codebook.classes, kept.sums
        shares = priors.class_shares(self.class_prior, *given)
        tables = priors.set_class_prior(tables, shares, self.class_weight, *given, counted=True)
        # The drift reference only covers the first rows: better none than half of one.
        network = replace(self.network_, tables=tables, reference=None)
        return self._take(network, kept, self.info_.grown(rows.n_rows, context.info))

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including those of learners given by name: ``structure__k=2``."""
        parameters = params.get("parameters", self.parameters)
        resolvers: dict[str, Callable[[Any], Any]] = {
            "structure": lambda text: resolve_pair(text, parameters)[0],
            "parameters": PARAMETERS.resolve,
        }
        for axis, resolve in resolvers.items():
            learner = params.get(axis, getattr(self, axis))
            if isinstance(learner, str) and any(key.startswith(f"{axis}__") for key in params):
                params[axis] = resolve(learner)
        return super().set_params(**params)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | str | None,
        classes: ArrayLike | None = None,
    ) -> Self:
        with fitting.open_progress(self.verbose) as progress:
            context = fitting.open_context(self, progress)
            codebook, rows = self._encode(X, y, sample_weight, classes, context)
            options = fitting.model_options(self)
            fit = fitting.FitRun(codebook, rows, options, context, self.checkpoint)
            structure, tables = fit.learn_tables(fit.learn_structure())
            network, kept_counts = fit.make_network(structure, tables)
            if fit.store is not None:
                fit.store.clear()
        return self._take(network, kept_counts, context.info)

    def _take(
        self, network: Network, kept_counts: fitting.KeptCounts | None, info: Mapping[str, Any]
    ) -> Self:
        """Set the fitted attributes from a network."""
        codebook = network.codebook
        self.network_, self._kept_counts, self.info_ = network, kept_counts, Info(info)
        self.classes_ = codebook.classes
        self.n_features_in_ = codebook.domain.n_features
        if codebook.named:
            self.feature_names_in_ = np.array(codebook.domain.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _encode(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | str | None,
        classes: ArrayLike | None,
        context: FitContext,
    ) -> tuple[Codebook, Rows]:
        """Learn a codebook and code the rows."""
        if y is None:
            raise ConfigurationError(
                "BayesNetClassifier requires y to be passed, but the target y is None. "
                "Pass the classes, or the name of their column in X."
            )
        self._allow_flags("audit")
        known = priors.network_prior(self.prior)
        if known is not None:  # its tables belong to its own codes
            if self.classes_ordered is not None:
                raise ConfigurationError(
                    "classes_ordered can't be combined with a prior that is a network, which has "
                    "its own classes. Leave it out."
                )
            codebook = known.codebook.forget_numbers()
            with context.stage("codes"):
                rows = encode_rows(codebook, X, y, sample_weight=sample_weight, context=context)
            return codebook, rows
        bins = self.bins
        if isinstance(bins, str) and bins == "auto":
            grouped = isinstance(PARAMETERS.resolve(self.parameters), GroupedLearner)
            bins = "fine" if grouped else "mdl"
        options: dict[str, Any] = {name: getattr(self, name) for name in CODE_PARAMETERS}
        options |= {"classes": classes, "sample_weight": sample_weight, "bins": bins}
        with context.stage("codes"):
            codebook, rows = learn_codebook(X, y, context=context, **options)
        fitting.warn_of_columns(codebook, context.info["codes"], rows.n_rows, X, y)
        return codebook, rows


class Info(dict[str, Any]):
    """The record of a fit, by stage; its repr shows short entries and the length of long ones.

    >>> Info({"structure": {"seconds": 0.5, "order": ["a", "b"], "trace": list(range(50))}})
    structure
      seconds  0.5
      order    a, b
      trace    50 entries, in info_['structure']['trace']
    """

    def grown(self, n_rows: int, stages: Mapping[str, Any]) -> Info:
        """Return the record after more rows, without facts that only hold for the first rows."""
        grown = {
            stage: {key: fact for key, fact in record.items() if key not in _OF_FIRST_ROWS}
            for stage, record in self.items()
        }
        n_all = grown["codes"]["rows"] + n_rows
        grown |= {stage: grown.get(stage, {}) | record for stage, record in stages.items()}
        grown["codes"]["rows"] = n_all
        return Info(grown)

    def __repr__(self) -> str:
        lines: list[str] = []
        for stage, record in self.items():
            lines.append(str(stage))
            facts = record if isinstance(record, Mapping) else {"": record}
            width = max((len(str(key)) for key in facts), default=0)
            for key, value in facts.items():
                entries = f"{len(value)} entries" if hasattr(value, "__len__") else ""
                shown = short_fact(value) or f"{entries}, in info_[{stage!r}][{key!r}]"
                lines.append(f"  {key!s:<{width}}  {shown}")
        return "\n".join(lines)

    __str__ = __repr__


def short_fact(value: Any) -> str:
    """Return a fact as text; empty if it's a long or nested list or mapping."""
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if not isinstance(plain, Mapping | list | tuple):
        return f"{plain:.4g}" if isinstance(plain, float) else str(plain)
    inside = plain.values() if isinstance(plain, Mapping) else plain
    if len(plain) > LONG or any(isinstance(one, Mapping | list | tuple) for one in inside):
        return ""
    shown = [short_fact(one) for one in inside]
    if isinstance(plain, Mapping):
        shown = [f"{name} {one}" for name, one in zip(plain, shown, strict=True)]
    return ", ".join(shown) or "none"
