# What editors and type checkers see: the names that __init__.py resolves on first use.
from tanager.classifiers import BayesNetClassifier as BayesNetClassifier
from tanager.classifiers import load as load
from tanager.classifiers import save as save
from tanager.codes import MDLDiscretizer as MDLDiscretizer

__all__ = ["BayesNetClassifier", "MDLDiscretizer", "__version__", "load", "save"]

__version__: str
