"""Functions that run on the workers of a Dask cluster, and how pieces of rows are sent there."""

from __future__ import annotations

import io
import pickle
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from tanager.engines.keeping import Store
from tanager.errors import EngineError

if TYPE_CHECKING:
    from distributed import Future

WORKER_SHARE = 0.4  # share of a worker's memory for coded rows

# The stores of this worker, by name; chunks keep their store alive.
_stores: WeakValueDictionary[str, Store] = WeakValueDictionary()
_lock = threading.Lock()


class Parcel:
    """A task's result, sent as one byte string: Dask's own serialisation doesn't align arrays."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __getstate__(self) -> bytes:
        return pickle.dumps(self.content, protocol=5)

    def __setstate__(self, data: bytes) -> None:
        self.content = pickle.loads(data)

    def __sizeof__(self) -> int:
        from dask.sizeof import sizeof

        return int(sizeof(self.content))  # used by Dask to place tasks


class HeldPiece(NamedTuple):
    """Coded rows on a worker, as seen by the client."""

    future: Future
    n_rows: int
    patience: float  # seconds to wait for them

    def chunks(self) -> Iterator[Any]:
        """Fetch the rows, for learners that need all of them at once."""
        return _LocalPiece(self.future.result(timeout=self.patience).content).chunks()


class _LocalPiece(NamedTuple):
    """A `HeldPiece` on the worker that runs a task: the chunks themselves."""

    kept: Sequence[Any]

    @property
    def n_rows(self) -> int:
        return sum(one.n_rows for one in self.kept)

    def chunks(self) -> Iterator[Any]:
        return chain.from_iterable(one.chunks() for one in self.kept)


def base_of(piece: Any) -> Any:
    """Return the piece underlying a view; a piece that isn't a view is its own base."""
    while hasattr(piece, "piece"):
        piece = piece.piece
    return piece


class Address(NamedTuple):
    """A piece of rows, serialised for a worker."""

    n_rows: int  # of the underlying piece: a view's own rows aren't counted
    data: bytes  # the piece, with held pieces replaced by numbers
    futures: list[Any]  # the held pieces' chunks, passed to the task by Dask, in that order

    @classmethod
    def of(cls, piece: Any) -> Address:
        """Serialise a piece, or another object that contains some, as an address."""
        file, futures = io.BytesIO(), list[Any]()
        _Writer(file, futures).dump(piece)
        return cls(base_of(piece).n_rows, file.getvalue(), futures)


class _Writer(pickle.Pickler):
    """Pickles objects with held pieces replaced by numbers, and collects their futures."""

    def __init__(self, file: io.BytesIO, futures: list[Any]) -> None:
        super().__init__(file, protocol=5)
        self.futures = futures

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, HeldPiece):
            return None
        self.futures.append(obj.future)
        return len(self.futures) - 1


class _Reader(pickle.Unpickler):
    """Unpickles them with the chunks in place of the numbers."""

    def __init__(self, data: bytes, held: Sequence[Parcel]) -> None:
        super().__init__(io.BytesIO(data))
        self._held = held

    def persistent_load(self, pid: int) -> _LocalPiece:
        return _LocalPiece(self._held[pid].content)


def versions() -> str:
    """Return the versions that must match between client and workers."""
    from tanager import __version__

    return f"Tanager {__version__} on Python {sys.version_info[0]}.{sys.version_info[1]}"


def dump(thing: Any) -> bytes:
    """Return an object as bytes, with the versions that wrote it."""
    return pickle.dumps((versions(), pickle.dumps(thing, protocol=5)), protocol=5)


def _load(data: bytes) -> Any:
    """Undo `dump`, with the same versions only: a worker may have joined after the check."""
    wrote, thing = pickle.loads(data)
    if wrote != versions():
        raise EngineError(
            f"A worker has {versions()}, the client {wrote}. Install the same on all machines."
        )
    return pickle.loads(thing)


def read(held: bytes, name: str, limit: int, data: bytes, *chunks: Parcel) -> Parcel:
    """Read a piece and keep its chunks in this worker's store of the given name."""
    reader, piece = _load(held), _Reader(data, chunks).load()
    store = _store(name, limit)
    return Parcel([store.keep(chunk) for chunk in reader(piece)])


def _store(name: str, limit: int) -> Store:
    from distributed import get_worker

    memory = get_worker().memory_manager.memory_limit
    with _lock:
        store = _stores.get(name)
        if store is None:
            if memory:
                limit = min(limit, int(WORKER_SHARE * memory))
            taken = sum(other.memory_used for other in _stores.values())
            store = _stores[name] = Store(max(0, limit - taken))
    return store


def measure(piece: Parcel) -> Parcel:
    """Return the rows and bytes of a kept piece."""
    chunks = [kept.chunk for kept in piece.content]
    arrays = [field for chunk in chunks for field in chunk if isinstance(field, np.ndarray)]
    return Parcel((sum(one.n_rows for one in chunks), sum(array.nbytes for array in arrays)))


def gather(held: bytes, data: list[tuple[bytes, int]], *chunks: Parcel) -> Parcel:
    """Return the state of some pieces, each with the number of chunks that belong to it."""
    pass_, left = _load(held), iter(chunks)
    state = pass_.zero()
    for one, n in data:
        for chunk in _Reader(one, list(islice(left, n))).load().chunks():
            state = pass_.update(state, chunk)
    return Parcel(state)


def merge(held: bytes, *states: Parcel) -> Parcel:
    """Merge states into a fresh one, so that running a task twice doesn't count twice."""
    pass_ = _load(held)
    total = pass_.zero()
    for state in states:
        total = pass_.merge(total, state.content)
    return Parcel(total)


def apply(held: bytes, data: bytes, *chunks: Parcel) -> Parcel:
    """Apply a function to an item."""
    return Parcel(_load(held)(_Reader(data, chunks).load()))
