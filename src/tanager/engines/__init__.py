"""Engines run passes over data; nothing else knows about threads or clusters."""

from tanager.engines.context import FitContext
from tanager.engines.local import LocalEngine
from tanager.engines.passes import Blocks, Engine, Pass, Together, resolve_engine

__all__ = ["Blocks", "Engine", "FitContext", "LocalEngine", "Pass", "Together", "resolve_engine"]
