"""The contract between statistics that add up and the engines that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from tanager.errors import ConfigurationError
from tanager.progress import Progress

__all__ = ["Blocks", "Engine", "Pass", "resolve_engine"]

Block = TypeVar("Block")
Chunk = TypeVar("Chunk")
Chunk_co = TypeVar("Chunk_co", covariant=True)
Chunk_contra = TypeVar("Chunk_contra", contravariant=True)
State = TypeVar("State")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Item = TypeVar("Item")


class Blocks(Protocol[Chunk_co]):
    """A restartable sequence of pieces of data.

    `blocks` is cheap and runs in one thread; `read` decodes one block and may
    run in any thread or process.
    """

    n_rows: int

    def blocks(self) -> Iterator[Any]:
        """Iterate over handles of the pieces, from the start."""

    def read(self, block: Any) -> Chunk_co:
        """Decode one piece."""


class Pass(Protocol[Chunk_contra, State, Result_co]):
    """A statistic of all rows that can be gathered piece by piece.

    `merge` is associative and commutative, exactly and not just up to
    rounding, so that the result depends neither on the chunking nor on the
    engine.
    """

    def zero(self) -> State:
        """Return the statistic of no rows."""

    def update(self, state: State, chunk: Chunk_contra) -> State:
        """Add the rows of a chunk; `state` may be changed in place."""

    def merge(self, a: State, b: State) -> State:
        """Return the statistic of the rows of both; `a` may be changed in place."""

    def finish(self, state: State) -> Result_co:
        """Turn the statistic of all rows into the result."""


class Engine(Protocol):
    """Runs passes over data, and independent work over items."""

    def run(
        self,
        pass_: Pass[Chunk, State, Result],
        rows: Blocks[Chunk],
        progress: Progress,
        stage: str,
    ) -> Result:
        """Run one pass over all rows."""

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        progress: Progress,
        stage: str,
    ) -> list[Result]:
        """Apply a function to independent items; results in the items' order."""


def resolve_engine(engine: str | Engine, n_jobs: int | None) -> Engine:
    """Turn the estimator's `engine` and `n_jobs` into an engine."""
    from tanager.engines.local import LocalEngine

    if engine == "local":
        return LocalEngine(n_jobs)
    if isinstance(engine, str):
        raise ConfigurationError(f"engine={engine!r} is not known. Allowed: 'local'.")
    return engine
