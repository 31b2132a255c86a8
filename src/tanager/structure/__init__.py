"""Structure learners: which features condition which."""

from __future__ import annotations

from tanager.registry import lazy_exports
from tanager.structure.registry import STRUCTURES, resolve_structure
from tanager.structure.structure import Structure

# Learners are loaded on first use: reading a model needs no learner, and so neither
# scikit-learn nor SciPy, whose imports take longer than everything else.
_HOMES = {
    **STRUCTURES.exports,
    "maximum_arborescence": "tanager.structure.arborescence",
}

__all__ = ["STRUCTURES", "Structure", "resolve_structure", *_HOMES]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
