# What editors and type checkers see: the names that __init__.py resolves on first use.
from tanager.classifiers.bayesnet import BayesNetClassifier as BayesNetClassifier
from tanager.classifiers.files import load as load
from tanager.classifiers.files import read_network as read_network
from tanager.classifiers.files import save as save
from tanager.codes import MDLDiscretizer as MDLDiscretizer
from tanager.sources import open_table as open_table
from tanager.structure import Constraints as Constraints

__all__ = [
    "BayesNetClassifier",
    "Constraints",
    "MDLDiscretizer",
    "__version__",
    "load",
    "open_table",
    "read_network",
    "save",
]

__version__: str
