"""The one estimator: any structure with any parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tanager.classifiers.fitting import (
    Fit,
    KeptCounts,
    OnlyFromCounts,
    model_options,
    open_context,
    open_progress,
)
from tanager.classifiers.info import Info, warn_of_columns
from tanager.classifiers.prediction import as_table, target_among
from tanager.classifiers.predictor import NetworkPredictor
from tanager.classifiers.priors import (
    check_class_weight,
    class_shares,
    network_prior,
    set_class_shares,
    weigh_classes,
)
from tanager.codes import Codebook, Rows, encode_rows, learn_codebook
from tanager.engines import Engine, FitContext
from tanager.errors import ConfigurationError
from tanager.estimator import join_scikit_learn, with_callbacks
from tanager.network import Network
from tanager.parameters import GroupedLearner, ParameterLearner, TablePrior
from tanager.parameters.registry import resolve_pair, resolve_parameters
from tanager.progress import Progress
from tanager.structure import Constraints, StructureLearner


@dataclass(eq=False, repr=False)
class BayesNetClassifier(NetworkPredictor):
    """A Bayesian network classifier: a structure and its probability tables.

    Learns from any table, strings, numbers and gaps alike; gives calibrated
    class probabilities that split exactly into one term per feature.

    Parameters
    ----------
    structure : str or StructureLearner, default="auto"
        Which features condition which: ``"naive"``, ``"tan"``, ``"kdb"``, ... or
        a learner such as ``KDB(k=2)``. "auto" is what suits the parameters:
        ``"ktree"`` for ``"layered"``, else ``"tan(adjusted=True)"``.
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
        probability of the second, whatever known values the others have. With more, a
        mapping from a class to a sign, such as ``{"age": {"high": +1}}``: the odds of
        that class against each other class. For ``parameters="layered"``.
    constraints : Constraints or None, default=None
        What is known of the structure: arcs that must be there or must not, an order of the
        features; see `tanager.Constraints`. For every structure learner.
    prior : mapping, Network, TablePrior or None, default=None
        What is known of tables before the rows, for parameters from counts and the ridge of
        ``"discriminative"``:
        ``{"cough | smoker": table}``, or a whole network to go on from; see
        `tanager.parameters.TablePrior`.
    missing : "value" or "marginalize", default="value"
        Whether a missing value is a value of its own, or unknown and summed out.
        A value never seen in training is always summed out.
    bins : "auto", "mdl", "fine" or int, default="auto"
        How numbers are cut: where the classes separate beyond doubt (minimum
        description length), or there and into so many bins of equal frequency,
        or ("fine") into bins of equal frequency alone: about 32, 64 from 1,500 rows on,
        255 from 5,000, where a value that many rows share has a bin of its own. "auto" is
        what suits the parameters: "fine" for ``"layered"``, else "mdl".
    class_weight : None, "balanced" or dict, default=None
        What an error on each class costs, as a factor on the class's prior;
        ``"balanced"`` makes rare classes count as much as frequent ones. The rows
        count as they are, so that a rare class is not mistaken for much evidence.
        To repeat rows instead, pass `sample_weight`.
    class_prior : mapping or None, default=None
        How frequent classes are where the model is used, if not as in the training rows:
        ``{"sick": 0.02}`` for a case-control sample. Classes that are not named share the
        rest as in the rows.
    classes_ordered : sequence or None, default=None
        All classes from the lowest to the highest, such as ``["low", "mid", "high"]``, where
        they stand in an order. `classes_` and the columns of `predict_proba` then have this
        order, `predict_cumulative` adds up along it, `decide` knows how far off a class is,
        and ``monotonic={"age": +1}`` makes all higher classes more likely along a feature.
    audit : bool, default=True
        Whether columns that are not what they seem are read as what they are: dates and
        numbers written as text as dates and numbers, and what names the rows left out:
        texts of their own, and whole numbers under the name of an id. A
        `ColumnWarning` says which; ``info_["codes"]["audit"]`` has all that was found. A
        column named in `categorical_features` is left alone.
    engine : "local", "dask", distributed.Client or Engine, default="local"
        Where the passes over the data run: on threads of this process; on a Dask
        cluster, which is the client's, or for ``"dask"`` the current client's, or
        else a new one on this machine. Results do not depend on it.
    n_jobs : int, default=None
        Threads of the local engine; None is one, -1 is one a core. Results do
        not depend on it. ``"layered"`` learns from fewer than 50,000 rows on one.
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
        under ``"codes"`` also the number of rows and, where none is weighted, a
        fingerprint of their counts.

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
            A 2-D array, a list of rows or of dicts, a DataFrame (pandas, polars, Dask), an
            Arrow table, a DuckDB relation, or a path, glob or folder of Parquet, Arrow or
            CSV files, which are streamed.
        y : array-like or str
            The classes, or the name of the target's column in X. A series' name is the target's.
        sample_weight : array-like or str, default=None
            Row weights, or the name of their column in X. A row of weight 2 counts as two
            rows; weights that sum to one are one row in all. Learners that deal rows into
            folds (``"layered"``, ``"ktree"``, ...) do so by the rows' places: with
            copies instead of weights the folds are others.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    @OnlyFromCounts
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
        from counts alone: ``"hdp"``, ``"m-estimate"``, ``"friedman"``, ``"laplace"``,
        ``"ml"``, ``"acll"``.

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
            return self._fit(X, y, sample_weight, classes)
        if self._kept_counts is None:
            raise ConfigurationError(
                "partial_fit needs the counts of the first rows, which a model file does not hold. "
                "Fit again on all rows."
            )
        self._kept_counts.check(self.structure, self.parameters)
        codebook, table = self.network_.codebook, as_table(X)
        check_class_weight(self.class_weight, codebook.classes)
        with open_progress(self.verbose) as progress:
            context = self._context(progress)
            rows = encode_rows(codebook, table, y, sample_weight=sample_weight, context=context)
            structure = self.network_.structure
            with context.stage("parameters"):
                sum_out = codebook.missing == "marginalize"
                kept = self._kept_counts.add(rows, structure, context, sum_out=sum_out)
                tables = kept.tables(context)
        shares = class_shares(self.class_prior, codebook.classes, kept.classes)
        tables = set_class_shares(tables, shares, kept.classes, counted=True)
        tables = weigh_classes(tables, self.class_weight, codebook.classes, kept.classes)
        network = replace(self.network_, tables=tables)
        self.network_, self._kept_counts = network, kept
        self.info_ = self.info_.grown(rows.n_rows, context.info)
        return self

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the learners too: ``structure__k=2``.

        A learner given by name becomes the learner itself first.
        """
        parameters = params.get("parameters", self.parameters)
        resolvers: dict[str, Callable[[Any], Any]] = {
            "structure": lambda text: resolve_pair(text, parameters)[0],
            "parameters": resolve_parameters,
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
        with open_progress(self.verbose) as progress:
            context = self._context(progress)
            codebook, rows = self._encode(X, y, sample_weight, classes, context)
            fit = Fit(codebook, rows, model_options(self), context, self.checkpoint)
            structure = fit.learn_structure()
            structure, tables = fit.learn_tables(structure)
            network, kept_counts = fit.make_network(structure, tables)
            if fit.store is not None:
                fit.store.clear()
        return self._take(network, kept_counts, context.info)

    def _take(
        self, network: Network, kept_counts: KeptCounts | None, info: Mapping[str, Any]
    ) -> Self:
        """Hold a network as what was learned."""
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
        """From a table to a codebook and coded rows."""
        if y is None:
            raise ConfigurationError(
                "BayesNetClassifier requires y to be passed, but the target y is None. "
                "Give the classes, or the name of their column in X."
            )
        if not isinstance(self.audit, bool | np.bool_):
            raise ConfigurationError(f"audit={self.audit!r}. Allowed: True or False.")
        known = network_prior(self.prior)
        if known is not None:  # its tables speak of its values
            if self.classes_ordered is not None:
                raise ConfigurationError(
                    "classes_ordered has no meaning with a prior that is a network: its classes "
                    "are those of the network. Leave it out."
                )
            codebook = known.codebook.forget_numbers()
            with context.stage("codes"):
                return codebook, encode_rows(
                    codebook, as_table(X), y, sample_weight=sample_weight, context=context
                )
        bins = self.bins
        if bins == "auto":
            grouped = isinstance(resolve_parameters(self.parameters), GroupedLearner)
            bins = "fine" if grouped else "mdl"
        with context.stage("codes"):
            codebook, rows = learn_codebook(
                as_table(X),
                y,
                classes=classes,
                classes_ordered=self.classes_ordered,
                sample_weight=sample_weight,
                categorical_features=self.categorical_features,
                ordered=self.ordered,
                missing=self.missing,
                bins=bins,
                audit=self.audit,
                dates=self.dates,
                context=context,
            )
        warn_of_columns(codebook, context.info["codes"], rows.n_rows, target_among(X, y))
        return codebook, rows

    def _context(self, progress: Progress) -> FitContext:
        return open_context(
            self.engine, self.n_jobs, self.memory_limit, self.random_state, progress
        )
