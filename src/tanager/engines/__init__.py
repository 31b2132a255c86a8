"""Engines run passes over data; nothing else knows about threads or clusters."""

from tanager.engines.keeping import KeptChunk
from tanager.engines.passes import (
    Engine,
    FitContext,
    LocalEngine,
    Pass,
    Piece,
    Pieces,
    Sums,
    resolve_engine,
)

__all__ = [
    "Engine",
    "FitContext",
    "KeptChunk",
    "LocalEngine",
    "Pass",
    "Piece",
    "Pieces",
    "Sums",
    "resolve_engine",
]
