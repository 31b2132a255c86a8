"""Structure learners: which features condition which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanager.registry import Registry, lazy_exports
from tanager.structure.structure import FitPlan, Structure
from tanager.structure.structure import StructureLearner as StructureLearner

if TYPE_CHECKING:  # for editors and type checkers
    from tanager.structure.acll import ACLL as ACLL
    from tanager.structure.confidence import EdgeConfidence as EdgeConfidence
    from tanager.structure.confidence import edge_confidence as edge_confidence
    from tanager.structure.constraints import Constraints as Constraints
    from tanager.structure.differentiable import Differentiable as Differentiable
    from tanager.structure.greedy import Greedy as Greedy
    from tanager.structure.kdb import KDB as KDB
    from tanager.structure.kdb import SelectiveKDB as SelectiveKDB
    from tanager.structure.ktree import KTree as KTree
    from tanager.structure.order_based import OrderBased as OrderBased
    from tanager.structure.simple import Fixed as Fixed
    from tanager.structure.simple import Naive as Naive
    from tanager.structure.simple import RandomTree as RandomTree
    from tanager.structure.tan import TAN as TAN

# The learners by name; ``STRUCTURES.resolve("kdb(k=2)")`` builds one.
STRUCTURES: Registry[StructureLearner] = Registry(
    "tanager.structure",
    "structure:StructureLearner",
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
        "skdb": "kdb:SelectiveKDB",
        "tan": "tan:TAN",
    },
    example="kdb(k=2)",
    group="tanager.structures",
    besides=("auto",),
)

# Learners are loaded on first use: reading a model needs none of them, and so neither
# scikit-learn nor SciPy, whose imports take longer than everything else.
_HOMES = {
    **STRUCTURES.exports,
    "Constraints": "tanager.structure.constraints",
    "EdgeConfidence": "tanager.structure.confidence",
    "edge_confidence": "tanager.structure.confidence",
}

__all__ = ["FitPlan", "Structure", *_HOMES]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
