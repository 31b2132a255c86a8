"""skops: which types of a persisted classifier to trust."""

from __future__ import annotations

from importlib import import_module

from tanager.options import MODULES

__all__ = ["trusted_types"]

# The parts of a fitted classifier other than learners and losses.
PARTS = (
    "classifiers.bayesnet.BayesNetClassifier",
    "classifiers.fitting.KeptCounts",
    "classifiers.info.Info",
    "codes.codebook.Codebook",
    "codes.columns.CategoricalColumn",
    "codes.columns.NumericColumn",
    "codes.columns.SeenNumbers",
    "codes.reading.Reading",
    "codes.rows.Domain",
    "counts.families.FamilyCounts",
    "counts.tree.Contexts",
    "network.history.Edit",
    "network.network.Network",
    "network.reference.Reference",
    "network.uncertainty.Calibration",
    "parameters.tables.DenseTable",
    "parameters.tables.GroupedTable",
    "parameters.tables.Tables",
    "parameters.tables.TreeTable",
    "structure.structure.Structure",
)


def trusted_types() -> list[str]:
    """Return the names of Tanager's types that ``skops.io.load`` may create.

    Model files (`tanager.save`) are safer: their content is checked when it's loaded.
    skops is for a classifier inside a scikit-learn pipeline or search. Types of other
    packages are for you to judge: ``skops.io.get_untrusted_types`` lists all of them.

    Examples
    --------
    >>> from tanager.skops import trusted_types
    >>> "tanager.structure.tan.TAN" in trusted_types()
    True
    """
    names = {f"tanager.{part}" for part in PARTS}
    for module in MODULES:
        home = import_module(f"tanager.{module}")
        for name in home.__all__:
            kind = getattr(home, name)
            if isinstance(kind, type):
                names.add(f"{kind.__module__}.{kind.__qualname__}")
    return sorted(names)
