"""The engine for a Dask cluster: the user's client runs the same passes on its workers.

Coded rows are task results pinned by futures: they stay on the worker that coded them, in memory up
to a limit and then in a temporary file, and if a worker is lost another one codes its rows again
from their address. A pass is one task per thread of a worker, over the rows held by that worker,
then merges of up to 16 states at a time. Merges are exact, so the model is bit-identical to that of
the local engine.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from tanager.engines import dask_tasks as tasks
from tanager.engines.dask_tasks import HeldPiece
from tanager.engines.keeping import KeptChunk
from tanager.engines.passes import (
    Chunk,
    Item,
    LocalEngine,
    Pass,
    Piece,
    Pieces,
    Reader,
    Result,
    State,
)
from tanager.errors import ConfigurationError, EngineError
from tanager.progress import Progress

if TYPE_CHECKING:
    from distributed import Client, Future

FAN_IN = 16  # states merged by one task
FEW = 4  # up to this many states are merged here, without a task
TRIES = 4  # attempts if workers are lost
SMALL_PIECE = 1 << 16  # bytes of an address; larger ones contain rows
INLINE = 1 << 22  # total bytes sent with the tasks of a pass; more is sent by a separate task
PLACED_SECONDS = 2.0  # how long the placement of rows is cached
SMALL = 1 << 25  # bytes of rows for which sending costs more than the work
INSTALL = "Install it: pip install 'dask[dataframe]' distributed."


class DaskEngine(LocalEngine):
    """Runs passes on the workers of a Dask cluster.

    client: None uses the current one, or else a new cluster on this machine, one process per core.
    small: rows of at most this many bytes are processed by threads of this process: a pass over
        them takes less time than a round trip to a worker. 0 sends everything to the workers.
    patience: seconds without a worker, or without progress, before an EngineError is raised.

    Workers need the same version of Tanager, and read files themselves: a path must refer to the
    same file on every machine. A table in memory is sent to them.
    """

    def __init__(
        self, client: Client | None = None, *, small: int = SMALL, patience: float = 300.0
    ) -> None:
        super().__init__(-1)
        self.client = _resolve_client(client)
        self.small, self.patience = small, patience
        self._name = uuid4().hex[:8]
        self._numbers = count()
        self._placed: tuple[float, frozenset[Any], Any] = (0.0, frozenset(), None)
        self._check_versions()

    @property
    def n_jobs(self) -> int:
        """Total number of threads of all workers, at least one."""
        return max(1, sum(self.client.nthreads().values()))

    def _gather(
        self, pass_: Pass[Chunk, State, Any], rows: Pieces[Chunk], progress: Progress, stage: str
    ) -> list[State]:
        addresses = self._addresses(rows.pieces())
        if addresses is None:
            return super()._gather(pass_, rows, progress, stage)
        progress.start(stage, sum(address.n_rows for address in addresses))
        return self._try(lambda: self._reduce(pass_, addresses, progress, stage), addresses)

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item], progress: Progress, stage: str
    ) -> list[Result]:
        """Apply a function to independent items, on the workers if they are addresses of rows."""
        given = list(items)
        are_rows = all(hasattr(item, "n_rows") for item in given)
        addresses = self._addresses(given) if are_rows else None
        if addresses is None:
            return super().map(work, given, progress, stage)
        progress.start(stage, len(given), unit="features")

        def apply() -> list[Result]:
            held = self._hold(work, stage, len(addresses))
            asked = [[held, one.data, *one.futures] for one in addresses]
            futures = [self._submit(tasks.apply, arguments, stage) for arguments in asked]
            self._wait(futures, stage, lambda _: progress.advance(1))
            return self._fetch(futures)

        results = self._try(apply, addresses)
        progress.finish()
        return results

    def keep(
        self, read: Reader[Chunk], pieces: Sequence[Any], limit: int, progress: Progress, stage: str
    ) -> Sequence[Piece[Chunk]]:
        """Read every piece once and keep its chunks on the worker that read them."""
        addresses = self._addresses(pieces)
        if addresses is None:
            return super().keep(read, pieces, limit, progress, stage)
        self.n_passes += 1
        progress.start(stage, sum(address.n_rows for address in addresses))
        work = partial(self._read, read, addresses, limit, progress, stage)
        futures, sizes = self._try(work, addresses)
        progress.finish()
        if sum(n_bytes for _, n_bytes in sizes) <= min(self.small, limit):
            parts = self._try(lambda: self._fetch(futures), ())
            return [KeptChunk(chunk) for part in parts for one in part for chunk in one.chunks()]
        pairs = zip(futures, sizes, strict=True)
        return [HeldPiece(future, n_rows, self.patience) for future, (n_rows, _) in pairs]

    def _read(
        self, read: Any, addresses: list[tasks.Address], limit: int, progress: Progress, stage: str
    ) -> tuple[list[Future], list[tuple[int, int]]]:
        """Read all pieces; return their chunks' futures, and the rows and bytes of each."""
        held = self._hold(read, stage, len(addresses))
        hosts = Counter(urlsplit(worker).hostname for worker in self.client.nthreads())
        limit //= max([1, *hosts.values()])
        name = f"{self._name}-{next(self._numbers)}"
        given = [[held, name, limit, one.data, *one.futures] for one in addresses]
        futures = [self._submit(tasks.read, arguments, stage) for arguments in given]
        n_rows = {future: one.n_rows for future, one in zip(futures, addresses, strict=True)}
        self._wait(futures, stage, lambda future: progress.advance(n_rows[future]))
        sizes = [self._submit(tasks.measure, [one], f"size of {stage}") for one in futures]
        self._wait(sizes, f"size of {stage}")
        return futures, self._fetch(sizes)

    def _reduce(
        self, pass_: Any, addresses: list[tasks.Address], progress: Progress, stage: str
    ) -> list[Any]:
        """Gather the states of all pieces on the workers; return those left to merge."""
        shares = list(self._shares(addresses))
        held = self._hold(pass_, stage, len(shares))
        sizes = {}
        for worker, share in shares:
            data = [(one.data, len(one.futures)) for one in share]
            futures = [future for one in share for future in one.futures]
            where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
            task = self._submit(tasks.gather, [held, data, *futures], stage, **where)
            sizes[task] = sum(one.n_rows for one in share)
        self._wait(sizes, stage, lambda future: progress.advance(sizes[future]))
        states = list(sizes)
        while len(states) > FEW:
            groups = [states[at : at + FAN_IN] for at in range(0, len(states), FAN_IN)]
            merging = f"merge {stage}"
            states = [self._submit(tasks.merge, [held, *group], merging) for group in groups]
            self._wait(states, merging)
        return self._fetch(states)

    def _shares(
        self, addresses: Sequence[tasks.Address]
    ) -> Iterator[tuple[str | None, list[tasks.Address]]]:
        """Distribute pieces among threads: held ones to their worker, the others evenly."""
        where, threads = self._placement([f for one in addresses for f in one.futures])
        slots = [(worker, k) for worker, n in threads.items() for k in range(n)] or [(None, 0)]
        load = dict.fromkeys(slots, 0)
        shares: dict[Any, list[tasks.Address]] = defaultdict(list)
        for one in sorted(addresses, key=lambda one: -one.n_rows):
            holder = where.get(one.futures[0].key) if one.futures else None
            allowed = [(holder, k) for k in range(threads.get(holder, 0))] or slots
            slot = min(allowed, key=load.__getitem__)
            load[slot] += one.n_rows
            shares[slot].append(one)
        for (worker, _), share in shares.items():
            yield worker, share

    def _placement(self, futures: list[Future]) -> tuple[dict[Any, str], dict[Any, int]]:
        """Return each future's worker, and every worker's threads; cached for a few seconds."""
        keys = frozenset(future.key for future in futures)
        since, known, found = self._placed
        if known != keys or time.monotonic() - since > PLACED_SECONDS:
            held = self.client.who_has(futures) if futures else {}
            where = {key: workers[0] for key, workers in held.items() if workers}
            found = where, self.client.nthreads()
            self._placed = time.monotonic(), keys, found
        return found

    def _addresses(self, pieces: Sequence[Any]) -> list[tasks.Address] | None:
        """Return the pieces for workers; None if they are chunks or small data of this process."""
        if all(isinstance(tasks.base_of(piece), KeptChunk) for piece in pieces):
            return None
        addresses = [tasks.Address.of(piece) for piece in pieces]
        n_bytes = sum(len(one.data) for one in addresses)
        is_data = n_bytes > SMALL_PIECE * len(addresses)
        return None if is_data and n_bytes <= self.small else addresses

    def _hold(self, thing: Any, stage: str, n_tasks: int) -> Any:
        """Return an object as bytes or, if large, as a task's result, which outlives its worker."""
        data = tasks.dump(thing)
        if len(data) * n_tasks <= INLINE:
            return data
        import dask

        # Dask warns about tasks over 10 MB: workers should read rows. These are parameters.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": len(data) * 2}):
            return self._submit(bytes, [data], f"send {stage}")

    def _submit(
        self, function: Callable[..., Any], arguments: list[Any], stage: str, **where: Any
    ) -> Future:
        # A unique key, so that no result of an earlier pass is reused. Dask's dashboard shows it up
        # to the first dash before a number.
        key = f"{stage}-{self._name}-{next(self._numbers)}"
        return self.client.submit(function, *arguments, key=key, pure=False, **where)

    def _fetch(self, futures: Sequence[Future]) -> list[Any]:
        """Fetch results, all at once, within the time limit."""
        gather = partial(self.client.gather, list(futures), asynchronous=True)
        found: list[tasks.Parcel] = self.client.sync(gather, callback_timeout=self.patience)
        return [parcel.content for parcel in found]

    def _try(self, work: Callable[[], Result], addresses: Sequence[tasks.Address]) -> Result:
        """Run the work, again if workers were lost meanwhile; repeated merges are exact."""
        from distributed import CancelledError, KilledWorker
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError

        lost = (CancelledError, FutureCancelledError, KilledWorker, CommClosedError)
        for left in reversed(range(TRIES)):
            try:
                return work()
            except lost as error:
                if self.client.status != "running":
                    raise EngineError(
                        f"The scheduler of the cluster was lost ({self.client.status}). Start it "
                        "and fit again; with checkpoint=, the fit goes on from its last stage."
                    ) from error
                if not left:
                    raise EngineError(
                        f"Workers were lost {TRIES} times ({type(error).__name__}: {error}). Are "
                        "they out of memory? Give each worker more, or use more workers."
                    ) from error
                self._placed = (0.0, frozenset(), None)
                broken = [f for one in addresses for f in one.futures if f.status == "error"]
                self.client.retry(broken)
        raise AssertionError("unreachable")

    def _wait(
        self, futures: Iterable[Future], stage: str, report: Callable[..., Any] = lambda _: None
    ) -> None:
        """Wait until all tasks have finished; raise the first error; never wait indefinitely."""
        from distributed import wait

        left = set(futures)
        since = time.monotonic()
        while left:
            try:
                with self.client.as_current():
                    ended = wait(left, timeout=1.0, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                ended = set()
            for future in ended:
                if future.status != "finished":
                    future.result(timeout=self.patience)  # reraises the task's error
                report(future)
            left -= ended
            if ended or (self.client.nthreads() and any(self.client.processing().values())):
                since = time.monotonic()
            if time.monotonic() - since > self.patience:
                n = len(self.client.nthreads())
                raise EngineError(
                    f"{stage!r}: {len(left)} tasks have waited {self.patience:.0f} s with {n} "
                    "workers and none at work. Is the cluster still there, and have its workers "
                    f"memory enough? Look at {self.client.dashboard_link}."
                )

    def _check_versions(self) -> None:
        """Refuse workers with a different version of Tanager, or without it."""
        here = tasks.versions()
        try:
            found = self.client.run(tasks.versions, on_error="return")
        except OSError:
            return  # a worker was lost meanwhile; every task checks the versions too
        for worker, there in found.items():
            if there != here and not isinstance(there, OSError):
                raise EngineError(
                    f"The worker {worker} has {there!r}, this process {here!r}. Install the same "
                    "versions of Python and Tanager on all machines."
                )


def _resolve_client(client: Any) -> Client:
    """Return the given client, the current one, or one for a new cluster on this machine."""
    try:
        import distributed
    except ImportError as error:
        raise ConfigurationError(
            f"engine='dask' needs Dask's distributed. {INSTALL}", parameter="engine"
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
    return client
