"""The laboratory: experiments, metrics, protocols and significance tests."""

from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager.evaluation.experiment import Experiment
from tanager.evaluation.metrics import METRICS
from tanager.evaluation.protocol import CrossValidation, LearningCurve
from tanager.evaluation.results import Results

__all__ = [
    "METRICS",
    "Contender",
    "CrossValidation",
    "Dataset",
    "Experiment",
    "LearningCurve",
    "Results",
]
