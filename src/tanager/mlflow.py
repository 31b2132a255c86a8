"""MLflow flavor: log, register and serve classifiers; needs mlflow."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tanager import __version__
from tanager.classifiers.bayesnet import BayesNetClassifier
from tanager.classifiers.files import load, save

__all__ = ["load_model", "log_model", "save_model"]


def log_model(model: BayesNetClassifier, name: str = "model", **options: Any) -> Any:
    """Log a fitted classifier to the current MLflow run.

    Parameters
    ----------
    model : BayesNetClassifier
    name : str, default="model"
    **options
        Those of ``mlflow.pyfunc.log_model``: `registered_model_name`, `input_example`, ... MLflow
        infers a signature from `input_example` and enforces its types; without one, columns are
        matched and converted as in `predict`.

    Returns
    -------
    mlflow.models.model.ModelInfo

    Examples
    --------
    >>> import mlflow  # doctest: +SKIP
    >>> import tanager.mlflow  # doctest: +SKIP
    >>> info = tanager.mlflow.log_model(clf, "churn")  # doctest: +SKIP
    >>> mlflow.pyfunc.load_model(info.model_uri).predict(rows)  # doctest: +SKIP
    """
    import mlflow

    with TemporaryDirectory() as folder:
        return mlflow.pyfunc.log_model(name=name, **_facts(model, folder, options))


def save_model(model: BayesNetClassifier, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a fitted classifier as a folder in MLflow's format.

    Parameters are those of `log_model`, with the folder instead of a name.
    """
    import mlflow

    with TemporaryDirectory() as folder:
        mlflow.pyfunc.save_model(path=os.fspath(path), **_facts(model, folder, options))


def load_model(uri: str | os.PathLike[str]) -> BayesNetClassifier:
    """Return the classifier itself from a folder or an MLflow URI, such as ``models:/``.

    ``mlflow.pyfunc.load_model`` returns the model as served instead: its `predict` returns a
    DataFrame with the prediction and each class's probability.
    """
    import mlflow

    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=os.fspath(uri)))
    flavour = mlflow.models.Model.load(str(folder)).flavors["python_function"]
    return load(folder / flavour["data"])


def _facts(model: BayesNetClassifier, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    path = Path(folder, "model.tanager")
    save(model, path)
    needed = [f"tanager=={__version__}"]
    return {
        "loader_module": __name__,
        "data_path": str(path),
        "pip_requirements": needed,
        **options,
    }


class _Served:
    """The model that MLflow calls to predict."""

    def __init__(self, model: BayesNetClassifier) -> None:
        self._model = model

    def predict(self, model_input: Any, params: Any = None) -> Any:  # noqa: ARG002
        """Return the prediction and each class's probability as a DataFrame."""
        import pandas as pd

        model = self._model
        shares = model.predict_proba(model_input)
        frame = pd.DataFrame(shares, columns=[f"p_{label}" for label in model.classes_])
        frame.insert(0, "prediction", model.classes_[shares.argmax(axis=1)])
        return frame


def _load_pyfunc(path: str) -> _Served:
    """Load a logged model; MLflow looks for this function."""
    return _Served(load(path))
