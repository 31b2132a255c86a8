"""The contract between statistics that add up and the engines that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from tanager.errors import ConfigurationError
from tanager.progress import Progress

__all__ = ["Blocks", "Engine", "Pass", "Together", "resolve_engine"]

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


class Together:
    """Two passes over the same rows as one; the result is the pair of results."""

    def __init__(self, first: Pass[Any, Any, Any], second: Pass[Any, Any, Any]) -> None:
        self.passes = (first, second)

    def zero(self) -> tuple[Any, Any]:
        """Return both statistics of no rows."""
        return self.passes[0].zero(), self.passes[1].zero()

    def update(self, state: tuple[Any, Any], chunk: Any) -> tuple[Any, Any]:
        """Add the chunk to both."""
        first, second = self.passes
        return first.update(state[0], chunk), second.update(state[1], chunk)

    def merge(self, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        """Merge both."""
        return self.passes[0].merge(a[0], b[0]), self.passes[1].merge(a[1], b[1])

    def finish(self, state: tuple[Any, Any]) -> tuple[Any, Any]:
        """Finish both."""
        return self.passes[0].finish(state[0]), self.passes[1].finish(state[1])


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
    if not (hasattr(engine, "run") and hasattr(engine, "map")):
        raise ConfigurationError(
            f"engine={engine!r} is not known. Allowed: 'local', or an object with the methods "
            "`run` and `map` of tanager.engines.Engine."
        )
    return engine
