"""What a model file may say of the estimator."""

from __future__ import annotations

import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.classifiers.fitting import RUN_PARAMETERS
from tanager.errors import ModelFileError
from tests.network.test_files import forge_one

FORGED = {
    "engine": "dask",
    "n_jobs": 512,
    "memory_limit": "1B",
    "checkpoint": "/tmp/here",
    "verbose": 5,
}


@pytest.fixture
def path(tmp_path):
    clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 5, [0, 1] * 5)
    tanager.save(clf, tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("name", RUN_PARAMETERS)
@pytest.mark.parametrize("usual", [False, True])
def test_a_file_does_not_choose_how_a_fit_is_run(path, name, usual):
    value = BayesNetClassifier().get_params()[name] if usual else FORGED[name]
    forge_one(path, lambda header: header["estimator"].update({name: value}))
    with pytest.raises(ModelFileError, match=f"parameters name '{name}'"):
        tanager.load(path)


def test_an_engine_of_several_is_refused_alike(path):
    array = {"$array": ["local", "x"], "dtype": "|O"}
    forge_one(path, lambda header: header["estimator"].update(engine=array, n_jobs=2))
    with pytest.raises(ModelFileError, match="parameters name 'engine', 'n_jobs'"):
        tanager.load(path)
