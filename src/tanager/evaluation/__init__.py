"""The laboratory: experiments, metrics, protocols and tests of significance."""

from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Dataset
from tanager.evaluation.experiment import Experiment
from tanager.evaluation.importance import loss_without_features
from tanager.evaluation.intervals import Intervals, score_intervals
from tanager.evaluation.metrics import METRICS
from tanager.evaluation.protocol import CrossValidation, LearningCurve
from tanager.evaluation.results import Results, Scores
from tanager.evaluation.runner import run_experiment

__all__ = [
    "METRICS",
    "Contender",
    "CrossValidation",
    "Dataset",
    "Experiment",
    "Intervals",
    "LearningCurve",
    "Results",
    "Scores",
    "loss_without_features",
    "run_experiment",
    "score_intervals",
]
