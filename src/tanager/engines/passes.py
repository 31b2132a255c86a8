"""The contract between additive statistics and the engines that gather them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from tanager.errors import invalid
from tanager.progress import Progress

Chunk = TypeVar("Chunk")
Chunk_co = TypeVar("Chunk_co", covariant=True)
Chunk_contra = TypeVar("Chunk_contra", contravariant=True)
State = TypeVar("State")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Item = TypeVar("Item")


class Piece(Protocol[Chunk_co]):
    """The address of some rows, small and picklable; a view of another piece has it as `piece`."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def chunks(self) -> Iterator[Chunk_co]:
        """Read the rows, a bounded number at a time."""


class Pieces(Protocol[Chunk_co]):
    """Data as a list of addresses."""

    @property
    def n_rows(self) -> int:
        """Number of rows of all pieces."""

    def pieces(self) -> Sequence[Piece[Chunk_co]]:
        """Return the addresses, in the order of the rows; reads nothing."""


class Pass(Protocol[Chunk_contra, State, Result_co]):
    """A statistic of all rows that can be gathered chunk by chunk.

    `merge` is exactly associative and commutative, so the result depends neither on the
    chunking nor on the engine. Passes and states are picklable. An engine that may have to repeat
    a merge starts it from a fresh `zero`, so that nothing is counted twice.
    """

    def zero(self) -> State:
        """Return the statistic of no rows."""

    def update(self, state: State, chunk: Chunk_contra) -> State:
        """Add the rows of a chunk; `state` may be changed in place."""

    def merge(self, a: State, b: State) -> State:
        """Return the statistic of the rows of both; `a` may be changed in place, `b` may not."""

    def finish(self, state: State) -> Result_co:
        """Turn the statistic of all rows into the result."""


class Sums:
    """Base of passes that add up arrays, lists, or tuples of them, and return the sum.

    Numbers must have exact sums, as counts and `exact_weights` have.
    """

    def merge(self, a: Any, b: Any) -> Any:
        """Return the statistic of both."""
        if isinstance(a, tuple):
            return tuple(self.merge(mine, theirs) for mine, theirs in zip(a, b, strict=True))
        a += b
        return a

    def finish(self, state: Any) -> Any:
        """Return the statistic."""
        return state


class Passes:
    """Several passes over the same rows as one; the result is the tuple of results."""

    def __init__(self, *passes: Pass[Any, Any, Any]) -> None:
        self.passes = passes

    def zero(self) -> tuple[Any, ...]:
        """Return the statistics of no rows."""
        return tuple(one.zero() for one in self.passes)

    def update(self, state: tuple[Any, ...], chunk: Any) -> tuple[Any, ...]:
        """Add the chunk to each statistic."""
        return tuple(one.update(part, chunk) for one, part in zip(self.passes, state, strict=True))

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Merge each statistic."""
        parts = zip(self.passes, a, b, strict=True)
        return tuple(one.merge(mine, theirs) for one, mine, theirs in parts)

    def finish(self, state: tuple[Any, ...]) -> tuple[Any, ...]:
        """Finish each statistic."""
        return tuple(one.finish(part) for one, part in zip(self.passes, state, strict=True))


class Engine(Protocol):
    """Runs passes over data, maps functions over items, and keeps rows; all picklable."""

    def run(
        self, pass_: Pass[Chunk, State, Result], rows: Pieces[Chunk], progress: Progress, stage: str
    ) -> Result:
        """Run one pass over all rows."""

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        progress: Progress,
        stage: str,
    ) -> list[Result]:
        """Apply a function to independent items; results are in the order of the items."""

    def keep(
        self,
        read: Callable[[Any], Iterable[Chunk]],
        pieces: Sequence[Any],
        memory_limit: int,
        progress: Progress,
        stage: str,
    ) -> Sequence[Piece[Chunk]]:
        """Read every piece once and keep its chunks; return their addresses, in order.

        A chunk is a NamedTuple with `n_rows`. Anything over `memory_limit` bytes per machine is on
        disk.
        """


def resolve_engine(engine: Any, n_jobs: int | None) -> Engine:
    """Turn the estimator's `engine` and `n_jobs` into an engine."""
    if engine == "local":
        from tanager.engines.local import LocalEngine

        return LocalEngine(n_jobs)
    is_client = type(engine).__module__.partition(".")[0] == "distributed"
    if engine == "dask" or is_client:
        from tanager.engines.dask import DaskEngine

        return DaskEngine(None if engine == "dask" else engine)
    if not all(hasattr(engine, name) for name in ("run", "map", "keep")):
        methods = "the methods `run`, `map` and `keep` of tanager.engines.Engine"
        allowed = f"'local', 'dask', a distributed.Client, or an object with {methods}"
        raise invalid("engine", engine, allowed)
    return engine
