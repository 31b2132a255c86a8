"""The engine for a Dask cluster: the user's client runs the same passes on its workers.

Coded rows are results of tasks, pinned by futures: they stay on the worker that
coded them, Dask puts them on disk past its memory target, and a worker that is
lost has its rows coded again from their address by another. A pass is one task
a worker over the rows it holds, then merges of up to 16 states at a time. Merges
are exact, so the model is the one of the local engine, bit for bit.
"""

from __future__ import annotations

import io
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from tanager.engines.passes import Pass, Piece, Pieces
from tanager.errors import ConfigurationError, EngineError
from tanager.progress import Progress

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["DaskEngine"]

Chunk = TypeVar("Chunk")
State = TypeVar("State")
Result = TypeVar("Result")
Item = TypeVar("Item")

FAN_IN = 16  # states merged by one task
TRIES = 4  # of a pass whose workers are lost on the way
INSTALL = "Install it with: pip install 'tanager[dask]'."


class DaskEngine:
    """Runs passes on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client, optional
        None is the current client, or else a new cluster on this machine, one
        process a core.
    patience : float, default=300
        Seconds that may pass without a worker, or without any task ending
        while no worker is busy, before an EngineError says what was waited for.

    Notes
    -----
    The workers need the same version of Tanager, and read files themselves: a
    path must mean the same file on every machine. Tables in memory are sent to
    the workers once.

    Examples
    --------
    ::

        from distributed import Client
        from tanager import BayesNetClassifier

        client = Client("tcp://scheduler:8786")
        clf = BayesNetClassifier("tan", "hdp", engine=client)
        clf.fit("/shared/rows/", "label")
    """

    def __init__(self, client: Client | None = None, patience: float = 300.0) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ConfigurationError(
                f"engine='dask' needs Dask's distributed. {INSTALL}"
            ) from error
        if client is None:
            try:
                client = distributed.get_client()
            except ValueError:
                client = distributed.Client(threads_per_worker=1)
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise ConfigurationError(
                f"client={client!r} is not a distributed.Client that waits for its results. "
                "Pass Client(address), without asynchronous=True."
            )
        self.client = client
        self.patience = patience
        self.n_passes = 0
        self._names = (f"{uuid4().hex[:8]}-{number}" for number in count())

    @property
    def n_jobs(self) -> int:
        """Number of threads of all workers, at least one."""
        return max(1, sum(self.client.nthreads().values()))

    def run(
        self,
        pass_: Pass[Chunk, State, Result],
        rows: Pieces[Chunk],
        progress: Progress,
        stage: str,
    ) -> Result:
        """Run one pass over all rows."""
        self.n_passes += 1
        pieces = list(rows.pieces())
        progress.start(stage, rows.n_rows)
        total = self._try(lambda: self._gather(pass_, pieces, progress, stage), stage)
        result = pass_.finish(pass_.merge(pass_.zero(), total))
        progress.finish()
        return result

    def _gather(
        self, pass_: Pass[Any, State, Any], pieces: list[Any], progress: Progress, stage: str
    ) -> State:
        """Return the state of all pieces: gathered on the workers, merged in a tree."""
        held = self._submit(_hold, [_dump(pass_)], f"parameters of {stage}")
        sizes = {}
        for worker, share in self._by_worker(pieces):
            addresses, futures = _address(share)
            where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
            future = self._submit(_gather, [held, addresses, *futures], stage, **where)
            sizes[future] = sum(piece.n_rows for piece in share)
        self._wait(sizes, stage, lambda future: progress.advance(sizes[future]))
        states = list(sizes)
        while len(states) > 1:
            groups = [states[at : at + FAN_IN] for at in range(0, len(states), FAN_IN)]
            states = [self._submit(_merge, [held, *group], f"merge {stage}") for group in groups]
            self._wait(states, f"merge {stage}")
        return states[0].result(timeout=self.patience)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        progress: Progress,
        stage: str,
    ) -> list[Result]:
        """Apply a function to independent items on the workers."""
        work = list(items)
        progress.start(stage, len(work), unit="features")

        def run() -> list[Result]:
            held = self._submit(_hold, [_dump(function)], f"function of {stage}")
            futures = []
            for item in work:
                (address,), needed = _address([item], single=True)
                futures.append(self._submit(_apply, [held, address, *needed], stage))
            self._wait(futures, stage, lambda _: progress.advance(1))
            return self.client.gather(futures)

        results = self._try(run, stage)
        progress.finish()
        return results

    def keep(
        self,
        read: Callable[[Any], Iterable[Chunk]],
        pieces: Sequence[Any],
        memory_limit: int,  # noqa: ARG002 - Dask's workers have limits of their own
        progress: Progress,
        stage: str,
    ) -> list[Piece[Chunk]]:
        """Read every piece once; its chunks stay on the worker that read them."""
        self.n_passes += 1
        progress.start(stage, sum(piece.n_rows for piece in pieces))
        held = self._submit(_hold, [_dump(read)], f"codebook of {stage}")
        futures = [self._submit(_read_all, [held, _dump(piece)], stage) for piece in pieces]
        sizes = [self._submit(_count_rows, [future], f"size of {stage}") for future in futures]
        place = {future: piece.n_rows for future, piece in zip(sizes, pieces, strict=True)}
        self._wait(sizes, stage, lambda future: progress.advance(place[future]))
        progress.finish()
        rows = self.client.gather(sizes)
        return [
            HeldPiece(future, n, self.patience) for future, n in zip(futures, rows, strict=True)
        ]

    def _submit(
        self, function: Callable[..., Any], arguments: list[Any], stage: str, **where: Any
    ) -> Future:
        # A key of its own, so that no result of an earlier pass is taken for this one's.
        key = f"{stage} {next(self._names)}"
        return self.client.submit(function, *arguments, key=key, pure=False, **where)

    def _by_worker(self, pieces: list[Any]) -> Iterator[tuple[str | None, list[Any]]]:
        """Group pieces by the worker that holds them; addresses of files evenly."""
        futures = {base.future.key: base.future for piece in pieces for base in _held(piece)}
        where = self.client.who_has(list(futures.values())) if futures else {}
        workers = list(self.client.nthreads()) or [None]
        shares: dict[str | None, list[Any]] = defaultdict(list)
        for at, piece in enumerate(pieces):
            bases = _held(piece)
            holders = where.get(bases[0].future.key, ()) if bases else ()
            shares[holders[0] if holders else workers[at % len(workers)]].append(piece)
        threads = self.client.nthreads()
        for worker, share in shares.items():
            n = min(max(1, threads.get(worker, 1)), len(share))
            for k in range(n):
                yield worker, share[k::n]

    def _try(self, work: Callable[[], Result], stage: str) -> Result:
        """Do the work, again where workers were lost on the way; repeated merges are exact."""
        from distributed import CancelledError, KilledWorker
        from distributed.client import FutureCancelledError

        lost = (CancelledError, FutureCancelledError, KilledWorker)
        for _ in range(TRIES - 1):
            try:
                return work()
            except lost:
                continue
        try:
            return work()
        except lost as error:
            raise EngineError(
                f"{stage!r}: workers were lost {TRIES} times ({type(error).__name__}: {error}). "
                "Are they out of memory? Give each worker more, or use more workers."
            ) from error

    def _wait(
        self,
        futures: Iterable[Future],
        stage: str,
        report: Callable[[Future], None] = lambda _: None,
    ) -> None:
        """Wait until all tasks have ended; raise the first error; never wait without a limit."""
        from distributed import wait

        left = set(futures)
        since = time.monotonic()
        while left:
            try:
                ended = wait(left, timeout=1.0, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                ended = set()
            for future in ended:
                if future.status != "finished":
                    future.result(timeout=self.patience)  # raises what the task raised
                report(future)
            left -= ended
            if ended or (self.client.nthreads() and any(self.client.processing().values())):
                since = time.monotonic()
            if time.monotonic() - since > self.patience:
                n = len(self.client.nthreads())
                raise EngineError(
                    f"{stage!r}: {len(left)} tasks have waited {self.patience:.0f} s with {n} "
                    "workers and none at work. Is the cluster still there? Look at "
                    f"{self.client.dashboard_link}."
                )


class HeldPiece:
    """Coded rows on a worker."""

    def __init__(self, future: Future, n_rows: int, patience: float) -> None:
        self.future = future
        self.n_rows = n_rows
        self._patience = patience

    def chunks(self) -> Iterator[Any]:
        """Bring the rows here: for learners that need all of them at once."""
        return iter(self.future.result(timeout=self._patience))


class _LocalPiece:
    """What a `HeldPiece` is on the worker that runs a task: the chunks themselves."""

    def __init__(self, chunks: list[Any]) -> None:
        self._chunks = chunks

    @property
    def n_rows(self) -> int:
        return sum(chunk.n_rows for chunk in self._chunks)

    def chunks(self) -> Iterator[Any]:
        return iter(self._chunks)


def _held(piece: Any) -> list[HeldPiece]:
    """Return the held pieces inside a piece, which may be a view of one."""
    return _address([piece], single=True, collect=True)[1]


class _Addresses(pickle.Pickler):
    """Writes objects with held pieces replaced by numbers, and collects these pieces."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.found: list[HeldPiece] = []

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, HeldPiece):
            return None
        self.found.append(obj)
        return len(self.found) - 1


class _Located(pickle.Unpickler):
    """Reads them with the chunks, which Dask has brought to the task, in their places."""

    def __init__(self, data: bytes, chunks: Sequence[list[Any]]) -> None:
        super().__init__(io.BytesIO(data))
        self._chunks = chunks

    def persistent_load(self, pid: int) -> _LocalPiece:
        return _LocalPiece(self._chunks[pid])


def _address(
    pieces: list[Any], *, single: bool = False, collect: bool = False
) -> tuple[Any, list[Any]]:
    """Return pieces as bytes, and the futures of the rows that they stand for."""
    file = io.BytesIO()
    writer = _Addresses(file)
    writer.dump(pieces[0] if single else pieces)
    found: list[Any] = writer.found if collect else [piece.future for piece in writer.found]
    return ([file.getvalue()] if single else file.getvalue()), found


def _dump(thing: Any) -> bytes:
    """Return a thing as bytes, with the version that wrote it."""
    from tanager import __version__

    return pickle.dumps((__version__, pickle.dumps(thing, protocol=5)), protocol=5)


def _load(data: bytes) -> Any:
    """Undo `_dump`, by the same version only."""
    from tanager import __version__

    version, thing = pickle.loads(data)
    if version != __version__:
        raise EngineError(
            f"A worker has Tanager {__version__}, the client {version}. Install the same on all."
        )
    return pickle.loads(thing)


def _hold(data: bytes) -> bytes:
    """Give parameters of a pass as a task's result, which outlives the worker that holds it."""
    return data


def _read_all(held: bytes, piece: bytes) -> list[Any]:
    """Read a piece and return its chunks."""
    return list(_load(held)(_load(piece)))


def _count_rows(chunks: list[Any]) -> int:
    return sum(chunk.n_rows for chunk in chunks)


def _gather(held: bytes, addresses: bytes, *chunks: list[Any]) -> Any:
    """Return the state of some pieces."""
    pass_ = _load(held)
    state = pass_.zero()
    for piece in _Located(addresses, chunks).load():
        for chunk in piece.chunks():
            state = pass_.update(state, chunk)
    return state


def _merge(held: bytes, *states: Any) -> Any:
    """Merge states into a fresh one, so that a task that runs twice counts nothing twice."""
    pass_ = _load(held)
    total = pass_.zero()
    for state in states:
        total = pass_.merge(total, state)
    return total


def _apply(held: bytes, address: bytes, *chunks: list[Any]) -> Any:
    """Apply a function to an item."""
    return _load(held)(_Located(address, chunks).load())
