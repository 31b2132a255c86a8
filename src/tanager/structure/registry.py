"""Structure learners by name: the one place where strings become learners."""

from __future__ import annotations

from importlib import import_module

from tanager.errors import ConfigurationError
from tanager.structure.learner import StructureLearner

__all__ = ["STRUCTURES", "resolve_structure"]

STRUCTURES = {
    "acll": "tanager.structure.acll:ACLL",
    "greedy": "tanager.structure.greedy:Greedy",
    "order": "tanager.structure.order_based:OrderBased",
    "differentiable": "tanager.structure.differentiable:Differentiable",
    "kdb": "tanager.structure.kdb:KDB",
    "naive": "tanager.structure.naive:Naive",
    "skdb": "tanager.structure.selective_kdb:SelectiveKDB",
    "tan": "tanager.structure.tan:TAN",
}


def resolve_structure(structure: str | StructureLearner) -> StructureLearner:
    """Return the learner itself, or the one of that name with its defaults.

    >>> resolve_structure("kdb")
    KDB()
    """
    if isinstance(structure, StructureLearner):
        return structure
    if not isinstance(structure, str) or structure not in STRUCTURES:
        allowed = ", ".join(map(repr, sorted(STRUCTURES)))
        raise ConfigurationError(
            f"structure={structure!r} is not known. Give one of {allowed}, "
            "or a learner from tanager.structure such as KDB(k=2)."
        )
    module, name = STRUCTURES[structure].split(":")
    learner: StructureLearner = getattr(import_module(module), name)()
    return learner
