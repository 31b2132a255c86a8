"""The table of structure learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanager.registry import Registry

if TYPE_CHECKING:
    from tanager.structure.learner import StructureLearner

STRUCTURES: Registry[StructureLearner] = Registry(
    "tanager.structure",
    "learner:StructureLearner",
    {
        "acll": "acll:ACLL",
        "differentiable": "differentiable:Differentiable",
        "fixed": "simple:Fixed",
        "greedy": "greedy:Greedy",
        "kdb": "kdb:KDB",
        "ktree": "ktree:KTree",
        "naive": "simple:Naive",
        "order": "order_based:OrderBased",
        "random": "simple:RandomTree",
        "skdb": "selective_kdb:SelectiveKDB",
        "tan": "tan:TAN",
    },
    example="kdb(k=2)",
    group="tanager.structures",
    besides=("auto",),
)


def resolve_structure(structure: Any) -> StructureLearner:
    """Return the learner itself, or look it up by name.

    >>> resolve_structure("kdb")
    KDB()
    """
    return STRUCTURES.resolve(structure)
