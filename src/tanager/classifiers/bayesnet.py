"""The one estimator: any structure with any parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from types import MethodType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, check_random_state

from tanager.classifiers.audit import warn_of_columns
from tanager.classifiers.checkpoints import FitCheckpoint, learn_structure
from tanager.classifiers.class_weights import check_class_weight, weigh_classes
from tanager.classifiers.info import Info
from tanager.classifiers.inputs import as_table, fingerprint, has_names
from tanager.classifiers.kept_counts import KeptCounts
from tanager.classifiers.lazy import lazy_for_dask
from tanager.classifiers.monotone import read_signs
from tanager.classifiers.prediction import predict_log_joint
from tanager.codes import (
    Codebook,
    Rows,
    encode_rows,
    group_rows,
    learn_codebook,
    learn_groups,
)
from tanager.counts import Counts
from tanager.engines import Engine, FitContext, resolve_engine
from tanager.engines.memory import read_memory_limit
from tanager.errors import ConfigurationError
from tanager.network import Network, NetworkInformation
from tanager.parameters import (
    CountLearner,
    ParameterLearner,
    log_posterior,
    posterior,
    resolve_pair,
    resolve_parameters,
)
from tanager.progress import LongWork, Progress, RichProgress
from tanager.structure import Structure, StructureLearner

__all__ = ["BayesNetClassifier"]

Floats = NDArray[np.float64]

# How a fit is run is no property of its model: equal models have equal files,
# byte for byte, whatever engine and however many threads learned them.
RUN_PARAMETERS = ("engine", "n_jobs", "memory_limit", "checkpoint", "verbose")


class _OnlyFromCounts:
    """A method that is there where the parameters come from counts, and says why where not."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, classifier: Any, kind: type) -> Any:
        if classifier is None:
            return self._method
        if not isinstance(resolve_parameters(classifier.parameters), CountLearner):
            raise AttributeError(
                "partial_fit needs parameters that are estimated from counts alone, not "
                f"{classifier.parameters!r}. Use 'm-estimate', 'laplace', 'ml' or 'hdp', or fit on "
                "all rows at once."
            )
        return MethodType(self._method, classifier)


def _dropped(structure: Structure, limited: Structure) -> list[tuple[str, str]]:
    """Return the edges (parent, feature) that a learner could not afford."""
    before, after = structure.parents, limited.parents
    return [(p, f) for f, parents in before.items() for p in parents if p not in after[f]]


def _leave_out(structure: Structure, codebook: Codebook) -> Structure:
    """Return the structure without the columns that the audit leaves out."""
    names = codebook.domain.names
    left = {at for at, name in enumerate(names) if codebook.leaves_out(name)}
    rest = set(structure.selected) - left
    return structure.without(left) if 0 < len(rest) < len(structure.selected) else structure


def _grouped(counts: Counts) -> Counts:
    """Return the counts of groups of values, as parents are read."""
    pairs = zip(counts.values, counts.domain.n_ordered, strict=True)
    groups = [learn_groups(values, n_ordered) for values, n_ordered in pairs]
    return Counts(group_rows(counts.rows, groups), counts.context)


class BayesNetClassifier(ClassifierMixin, BaseEstimator):
    """A Bayesian network classifier: a structure and its probability tables.

    Learns from any table, strings, numbers and gaps alike; gives calibrated
    class probabilities that split exactly into one term per feature.

    Parameters
    ----------
    structure : str or StructureLearner, default="auto"
        Which features condition which: ``"naive"``, ``"tan"``, ``"kdb"``, ... or
        a learner such as ``KDB(k=2)``. "auto" is what suits the parameters:
        ``"ktree"`` for ``"layered"``, else ``"tan"``.
    parameters : str or ParameterLearner, default="layered"
        The probability tables: ``"layered"``, ``"hdp"``, ``"m-estimate"``,
        ``"discriminative"``, ... or a learner such as ``MEstimate(m=1.0)``.
    categorical_features : "from_dtype", "all", mask, indices or names, default="from_dtype"
        Which columns are taken as they are. ``"from_dtype"``: strings, booleans,
        categories and Arrow dictionaries; every number is discretised.
    ordered : mapping or None, default=None
        Categories that stand in an order: from a feature to its values, the first to
        the last, such as ``{"size": ["S", "M", "L"]}``. Neighbours then say similar
        things. pandas' ordered categories, Arrow's ordered dictionaries and polars'
        enums have an order already. A value that is not in the list is an error.
    dates : None, names, or mapping of names to styles, default=None
        Columns of text that are dates. The audit finds most by itself; this is for
        those in doubt: ``dates={"paid": "%d/%m/%Y"}``.
    monotonic : mapping or None, default=None
        Features along which the class rises (+1) or falls (-1): with two classes the
        probability of the second, whatever the other features are. With more, a
        mapping from a class to a sign, such as ``{"age": {"high": +1}}``: the odds of
        that class against each other class. For ``parameters="layered"``.
    missing : "value" or "marginalize", default="value"
        Whether a missing value is a value of its own, or unknown and summed out.
        A value never seen in training is always summed out.
    bins : "auto", "mdl", "fine" or int, default="auto"
        How numbers are cut: where the classes separate beyond doubt (minimum
        description length), or there and into so many bins of equal frequency,
        or ("fine") into about 32 of equal frequency alone, where a value that many
        rows share has a bin of its own. "auto" is what suits the parameters:
        "fine" for ``"layered"``, 5 for ``"pooled"``, else "mdl".
    class_weight : None, "balanced" or dict, default=None
        What an error on each class costs, as a factor on the class's prior;
        ``"balanced"`` makes rare classes count as much as frequent ones. The rows
        count as they are, so that a rare class is not mistaken for much evidence.
        To repeat rows instead, pass `sample_weight`.
    audit : bool, default=True
        Whether columns of text that are not what they seem are read as what they are:
        dates and numbers written as text as dates and numbers, and texts that name the
        rows (ids) left out. A `ColumnWarning` says which; ``info_["codes"]["audit"]``
        has all that was found. A column named in `categorical_features` is left alone.
    engine : "local", "dask", distributed.Client or Engine, default="local"
        Where the passes over the data run: on threads of this process; on a Dask
        cluster, which is the client's, or for ``"dask"`` the current client's, or
        else a new one on this machine. Results do not depend on it.
    n_jobs : int, default=None
        Threads of the local engine; None is one, -1 is one a core. Results do
        not depend on it.
    memory_limit : str, int or None, default=None
        Memory that rows and counts may take besides the model, such as ``"4GB"`` or a
        number of bytes; more rows go to a temporary file, more counts take more passes.
        None is half of what is free. Results do not depend on it.
    checkpoint : path or None, default=None
        A folder for the state of a fit that takes long: one that was killed, and is
        started again on the same rows, goes on from there to the same model. It is
        emptied when the fit is done.
    random_state : int, RandomState or None, default=None
        Only learners that draw random numbers use it. None is a fixed seed:
        a fit is repeatable unless asked otherwise.
    verbose : int, default=0
        Above 0, progress bars.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where the table names its columns
    network_ : Network
        Codebook, structure and tables; immutable.
    structure_ : Structure
        ``structure_.parents`` maps each feature to its ordered parents.
    feature_importances_ : ndarray of shape (n_features,)
        Each feature's share of what the features, one by one, say about the class.
    info_ : Info, a dict
        What each stage reports: seconds, memory, convergence, choices made;
        under ``"codes"`` also the number of rows and a fingerprint of their counts.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tanager import BayesNetClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesNetClassifier("tan", "m-estimate").fit(X, y)
    >>> clf.predict_proba(X[[0, 70]]).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 0.03, 0.97]])
    """

    network_: Network
    classes_: NDArray[Any]
    _kept_counts: KeptCounts | None

    def __init__(
        self,
        structure: str | StructureLearner = "auto",
        parameters: str | ParameterLearner = "layered",
        *,
        categorical_features: str | Sequence[Any] = "from_dtype",
        ordered: Mapping[Any, Sequence[Any]] | None = None,
        dates: str | Sequence[str] | Mapping[str, str] | None = None,
        monotonic: Mapping[Any, Any] | None = None,
        missing: str = "value",
        bins: str | int = "auto",
        class_weight: str | Mapping[Any, float] | None = None,
        audit: bool = True,
        engine: str | Engine = "local",
        n_jobs: int | None = None,
        memory_limit: str | int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.structure = structure
        self.parameters = parameters
        self.categorical_features = categorical_features
        self.ordered = ordered
        self.dates = dates
        self.monotonic = monotonic
        self.missing = missing
        self.bins = bins
        self.class_weight = class_weight
        self.audit = audit
        self.engine = engine
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | str | None = None) -> Self:
        """Learn codes, structure and tables.

        Parameters
        ----------
        X : table
            A 2-D array, a DataFrame (pandas, polars, Dask), an Arrow table, a DuckDB
            relation, or a path, glob or folder of Parquet, Arrow or CSV files,
            which are streamed.
        y : array-like or str
            The classes, or the name of the target's column in X.
        sample_weight : array-like or str, default=None
            Row weights, or the name of their column in X.

        Returns
        -------
        self
        """
        with self._progress() as progress:
            context = self._context(progress)
            codebook, rows = self._encode(X, y, sample_weight, context)
            self._learn(codebook, rows, context)
        return self._remember_columns(X, codebook)

    @_OnlyFromCounts
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | str | None = None,
    ) -> Self:
        """Add rows to the counts of the structure already learned.

        The first call learns codes and structure from its rows, as `fit` does;
        later calls, and calls after `fit`, keep both and add counts. Values that
        the first rows did not have stay unknown. Only where the parameters come
        from counts alone: ``"m-estimate"``, ``"laplace"``, ``"ml"``, ``"hdp"``.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, default=None
            All classes that will ever occur; read on the first call only.

        Returns
        -------
        self
        """
        if not hasattr(self, "network_"):
            with self._progress() as progress:
                context = self._context(progress)
                codebook, rows = self._encode(X, y, sample_weight, context, classes)
                self._learn(codebook, rows, context)
            return self._remember_columns(X, codebook)
        if self._kept_counts is None:
            raise ConfigurationError(
                "partial_fit needs the counts of the first rows, which a model file does not hold. "
                "Fit again on all rows."
            )
        with self._progress() as progress:
            context = self._context(progress)
            codebook, table = self.network_.codebook, as_table(X)
            rows = encode_rows(codebook, table, y, sample_weight=sample_weight, context=context)
            structure = self.network_.structure
            with context.stage("parameters"):
                kept = self._kept_counts.add(rows, structure, context)
                tables = kept.tables(context)
        self._kept_counts = kept
        tables = weigh_classes(tables, self.class_weight, codebook.classes, kept.classes)
        self.network_ = Network(codebook, structure, tables)
        self.info_ = Info(context.info)
        return self

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the learners too: ``structure__k=2``.

        A learner given by name becomes the learner itself first.
        """
        resolvers: dict[str, Callable[[Any], Any]] = {
            "structure": lambda text: resolve_pair(text, self.parameters)[0],
            "parameters": resolve_parameters,
        }
        for axis, resolve in resolvers.items():
            learner = params.get(axis, getattr(self, axis))
            if isinstance(learner, str) and any(key.startswith(f"{axis}__") for key in params):
                params[axis] = resolve(learner)
        return super().set_params(**params)

    @lazy_for_dask
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self.predict_joint_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    @lazy_for_dask
    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of the second class, or with more classes each one's log-probability.

        Shape (n_rows,) or (n_rows, n_classes): what scikit-learn's curves and
        thresholds take. Above zero, or the greatest, is what `predict` gives.
        """
        joint = self.predict_joint_log_proba(X)
        return joint[:, 1] - joint[:, 0] if joint.shape[1] == 2 else log_posterior(joint)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | str | None = None) -> float:
        """Return the share of rows that are classified right.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`: `y` may be the name of the target's column in X, and X the
            path of a file.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"a": ["x", "y"] * 5, "label": ["no", "yes"] * 5})
        >>> BayesNetClassifier("naive", "laplace").fit(table, "label").score(table, "label")
        1.0
        """
        check_is_fitted(self)
        if y is None:
            raise ConfigurationError(
                "score requires the true classes. Pass y, or the name of their column in X."
            )
        if not isinstance(y, str):
            return float(super().score(X, y, sample_weight))
        codebook, context = self.network_.codebook, self._context(Progress())
        right = total = 0.0
        for chunk in encode_rows(
            codebook, as_table(X), y, sample_weight=sample_weight, context=context
        ).chunks():
            best = self.network_.log_joint_of_codes(chunk.codes).argmax(axis=1)
            weights = np.ones(len(best)) if chunk.weights is None else chunk.weights
            right += float(weights[best == chunk.labels].sum())
            total += float(weights.sum())
        return right / total

    @lazy_for_dask
    def predict_proba(self, X: Any) -> Floats:
        """Return P(class | row), shape (n_rows, n_classes): the model's posterior."""
        return posterior(self.predict_joint_log_proba(X))

    @lazy_for_dask
    def predict_log_proba(self, X: Any) -> Floats:
        """Return log P(class | row), shape (n_rows, n_classes)."""
        return log_posterior(self.predict_joint_log_proba(X))

    @lazy_for_dask
    def predict_joint_log_proba(self, X: Any) -> Floats:
        """Return log P(class, row), shape (n_rows, n_classes)."""
        if not hasattr(self, "network_"):  # checking costs as much as a short row
            check_is_fitted(self)
        network = self.network_
        few = network.codebook.encode_few(X)
        if few is not None:
            return network.log_joint_of_codes(few)
        engine = resolve_engine(self.engine, self.n_jobs)
        return predict_log_joint(network, as_table(X), engine)

    def explain(self, X: Any) -> Floats:
        """Return each feature's part of the joint, (n_rows, n_features, n_classes).

        Entry (r, i, c) is log P(x_i | class c, parents) of row r. Summed over the
        features, with the class's log-prior, it is `predict_joint_log_proba`; the
        difference between two classes splits their log-odds exactly. Unknown
        features, and those the structure left out, contribute nothing.
        """
        check_is_fitted(self)
        network = self.network_
        return network.log_terms(network.codebook.encode(as_table(X)))

    def report(
        self, path: str | os.PathLike[str], X: Any = None, y: Any = None, **options: Any
    ) -> None:
        """Write the model's own page: one HTML file to see it, ask it and trust it.

        Parameters
        ----------
        path : path
            The page.
        X, y : table and classes, optional
            Rows to measure on; `y` may be the name of a column of X. Rows of the
            fit itself are recognised, and predicted by cross-validation.
        **options
            As `tanager.report.render_model_report` has them.
        """
        check_is_fitted(self)
        # Pages are made above this layer, so the name is looked up when it is needed.
        pages = import_module("tanager.report.model_page")
        pages.write_model_report(self, path, X, y, **options)

    @property
    def structure_(self) -> Structure:
        """The learned structure."""
        check_is_fitted(self)
        return self.network_.structure

    @property
    def feature_importances_(self) -> Floats:
        """Each feature's mutual information with the class, as shares of their sum.

        The information is that of the network: what the feature, known alone,
        says about the class. It needs no data, and features that say the same
        count alike. A feature that the structure left out has zero. What the
        model would lose without a feature is another question, and wants rows
        that it has not seen: `tanager.evaluation.loss_without_features`.
        """
        check_is_fitted(self)
        information = NetworkInformation(self.network_).of_features()
        total = information.sum()
        return information / total if total > 0 else information

    def _learn(self, codebook: Codebook, rows: Rows, context: FitContext) -> None:
        """From coded rows to a network."""
        check_class_weight(self.class_weight, codebook.classes)
        structure_learner, learner = resolve_pair(self.structure, self.parameters)
        context.carry["signs"] = self._signs(learner, codebook)
        counts = Counts(rows, context)
        store = None
        if self.checkpoint is not None:
            data = fingerprint(counts.classes, counts.values)
            store = FitCheckpoint(self.checkpoint, self._model_options(), data, context)
        with context.stage("structure") as record:
            read = _grouped(counts) if learner.groups_parents else counts
            carried = set(context.carry)
            structure = learn_structure(structure_learner, read, context, store)
            # Tables that were learned together with the structure would no longer fit it.
            if set(context.carry) == carried:
                structure = _leave_out(structure, codebook)
            context.carry["structure_learner"] = structure_learner
            informed = zip(codebook.domain.names, counts.mi().tolist(), strict=True)
            record["mutual_information"] = dict(informed)
        context.record("codes")["rows"] = rows.n_rows
        context.record("codes")["fingerprint"] = fingerprint(counts.classes, counts.values)
        limited = learner.affordable(structure, read.domain)
        if limited != structure:
            context.record("structure")["dropped"] = _dropped(structure, limited)
            structure = limited
        if store is not None:
            # With counts of its own, this stage has the same passes whether the one
            # before it was run or read.
            store.begin("parameters")
            counts = Counts(rows, context)
        with context.stage("parameters"):
            if isinstance(learner, CountLearner):
                learner = learner.choose(structure, counts, context).learner
            structure, tables = learner.learn_network(structure, counts, context)
        tables = weigh_classes(tables, self.class_weight, codebook.classes, counts.classes)
        self.network_ = Network(codebook, structure, tables)
        self._kept_counts = KeptCounts.start(learner, structure, counts)
        self.info_ = Info(context.info)
        if store is not None:
            store.clear()

    def _model_options(self) -> dict[str, Any]:
        """Return all parameters but those that say how a fit is run."""
        return {k: v for k, v in self.get_params().items() if k not in RUN_PARAMETERS}

    def _encode(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | str | None,
        context: FitContext,
        classes: ArrayLike | None = None,
    ) -> tuple[Codebook, Rows]:
        """From a table to a codebook and coded rows."""
        if y is None:
            raise ConfigurationError(
                "BayesNetClassifier requires y to be passed, but the target y is None. "
                "Give the classes, or the name of their column in X."
            )
        with context.stage("codes"):
            codebook, rows = learn_codebook(
                as_table(X),
                y,
                classes=classes,
                sample_weight=sample_weight,
                categorical_features=self.categorical_features,
                ordered=self.ordered,
                missing=self.missing,
                bins=self._bins(),
                audit=self.audit,
                dates=self.dates,
                context=context,
            )
        warn_of_columns(codebook, context.info["codes"], rows.n_rows)
        return codebook, rows

    def _signs(self, learner: ParameterLearner, codebook: Codebook) -> Mapping[int, Any]:
        """Return along which features classes rise or fall."""
        if self.monotonic and not learner.takes_signs:
            raise ConfigurationError(
                f"monotonic has no meaning for parameters={self.parameters!r}. Use 'layered'."
            )
        return read_signs(self.monotonic, codebook)

    def _bins(self) -> str | int:
        if self.bins == "auto":
            return resolve_parameters(self.parameters).preferred_bins
        return self.bins

    def _remember_columns(self, X: Any, codebook: Codebook) -> Self:
        self.classes_ = codebook.classes
        self.n_features_in_ = codebook.domain.n_features
        if has_names(X):
            self.feature_names_in_ = np.array(codebook.domain.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _context(self, progress: Progress) -> FitContext:
        state = self.random_state
        if state is None or isinstance(state, (int, np.integer)):
            seed = np.random.SeedSequence(0 if state is None else int(state))
        else:
            seed = np.random.SeedSequence(check_random_state(state).randint(2**31))
        engine = resolve_engine(self.engine, self.n_jobs)
        limit = read_memory_limit(self.memory_limit)
        return FitContext(engine, seed, progress, memory_limit=limit)

    def _progress(self) -> AbstractContextManager[Progress]:
        return RichProgress() if self.verbose > 0 else LongWork()

    def _repr_html_(self) -> str:
        from tanager.network.html import estimator_html

        return estimator_html(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
