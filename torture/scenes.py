"""Work that is killed or interrupted, and how to look at what is left of it."""

from __future__ import annotations

import contextlib
import io
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from torture.concurrency import data

__all__ = [
    *("Checkpointing", "Comparing", "Distributing", "Fitting", "Predicting", "Resuming", "Saving"),
    *("Scene", "Training"),
]

INTERRUPTED = 130  # the code of the command line


class Scene(ABC):
    """Some work in a folder of its own.

    Attributes
    ----------
    folder : Path
    seconds : float
        How long the work takes, or may go on.
    """

    seconds = 0.5

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    @property
    def name(self) -> str:
        """What the page calls it."""
        return type(self).__name__.lower()

    @abstractmethod
    def work(self) -> None:
        """Do the work; some never ends by itself."""

    @abstractmethod
    def look(self) -> str | None:
        """Look at what is left, then do the work in peace; return what is wrong."""

    def temporary(self) -> list[str]:
        """Return the names of temporary files."""
        return [path.name for path in self.folder.rglob("*.part")]

    def close(self) -> None:  # noqa: B027 (most scenes start nothing that goes on)
        """End what the scene started."""

    def _measure(self, work: Any) -> Any:
        work()  # loads what is loaded late
        start = time.monotonic()
        result = work()
        self.seconds = max(0.05, time.monotonic() - start)
        return result


class Saving(Scene):
    """One of two models is saved to one path, again and again."""

    seconds = 0.25

    def __init__(self, folder: Path) -> None:
        import tanager
        from tanager import BayesNetClassifier

        super().__init__(folder)
        self.path = folder / "model.tanager"
        X, y = data(0)
        self.models = [BayesNetClassifier("kdb", p).fit(X, y) for p in ("laplace", "hdp")]
        self.rows, self.known = X[:20], [m.predict_proba(X[:20]) for m in self.models]
        tanager.save(self.models[0], self.path)

    def work(self) -> None:
        """Save one model after the other."""
        import tanager

        while True:
            for model in self.models:
                tanager.save(model, self.path)

    def look(self) -> str | None:
        """Expect one of both models, and nothing beside it after another write."""
        import tanager

        p = tanager.load(self.path).predict_proba(self.rows)
        if not any(np.array_equal(p, known) for known in self.known):
            return "the file is neither the old model nor the new one"
        if len(self.temporary()) > 1:
            return f"{len(self.temporary())} temporary files are left"
        tanager.save(self.models[0], self.path)
        if [f for f in self.folder.iterdir() if f != self.path]:
            return "the next write left what the killed one left"
        return None


class Predicting(Scene):
    """The command line writes predictions to one file, again and again."""

    def __init__(self, folder: Path) -> None:
        import pyarrow.parquet as pq

        import tanager
        from tanager import BayesNetClassifier

        super().__init__(folder)
        self.path = folder / "out.parquet"
        X, y = data(0)
        table = pa.table({f"x{i}": X[:, i] for i in range(5)})
        pq.write_table(table, folder / "t.parquet")
        tanager.save(BayesNetClassifier("tan", "laplace").fit(table, y), folder / "m")
        self._predict()
        self.whole = pq.read_table(self.path)
        self.files = {f.name for f in folder.iterdir()}

    def _predict(self) -> None:
        from tanager.cli.app import run

        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            code = run(["predict", str(self.folder / "m"), str(self.folder / "t.parquet"), "-o",
                        str(self.path), "--force"])  # fmt: skip
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise RuntimeError(quiet.getvalue())

    def work(self) -> None:
        """Predict the same rows."""
        while True:
            self._predict()

    def look(self) -> str | None:
        """Expect all rows, and nothing beside the file after another write."""
        import pyarrow.parquet as pq

        if not pq.read_table(self.path).equals(self.whole):
            return "the predictions are not whole"
        self._predict()
        if {f.name for f in self.folder.iterdir()} != self.files:
            return "the next write left what the killed one left"
        return None


class Comparing(Scene):
    """An experiment with a run file is stopped and run again to its end."""

    def __init__(self, folder: Path) -> None:
        from tanager.evaluation import CrossValidation, Dataset, Experiment

        super().__init__(folder)
        self.path = folder / "run.jsonl"
        X, y = data(1, 200)
        table = pa.table({**{f"x{i}": X[:, i] for i in range(5)}, "class": y})
        uses = ["naive/laplace", "tan/hdp"]
        self.experiment = Experiment([Dataset("d", table)], uses, CrossValidation(5, 2), seed=1)
        self.expected = self._numbers(self._measure(self.experiment.run))

    @staticmethod
    def _numbers(results: Any) -> list[Any]:
        names = ("classifier", "round", "fold", "status", *results.metrics)
        return [[r.get(name) for name in names] for r in results.records]

    def work(self) -> None:
        """Compare."""
        self.experiment.run(self.path)

    def look(self) -> str | None:
        """Expect a file that can be read, and the same numbers in the end."""
        from tanager.evaluation import Results

        if self.path.exists() and self.path.read_bytes().count(b"\n"):
            _ = Results.read(self.path).records  # a torn file can be looked at
        found = self._numbers(self.experiment.run(self.path))
        self.path.unlink()
        return None if found == self.expected else "the resumed run has other numbers"


class Checkpointing(Scene):
    """A fit with a checkpoint after every pass is stopped and run again to its end."""

    pair = ("skdb(max_k=2)", "discriminative(tol=0.001)")

    def __init__(self, folder: Path) -> None:
        from tanager.classifiers import checkpoints

        super().__init__(folder)
        checkpoints.SECONDS = 0.0
        self.X, self.y = data(4, 300)
        self.expected = self._measure(lambda: self._fit(None))
        self.seconds *= 2  # the writes take their time

    def _fit(self, checkpoint: Path | None) -> Any:
        from tanager import BayesNetClassifier

        clf = BayesNetClassifier(*self.pair, checkpoint=checkpoint, random_state=0)
        return clf.fit(self.X, self.y).predict_proba(self.X[:50])

    def work(self) -> None:
        """Fit with a checkpoint."""
        self._fit(self.folder / "state")

    def look(self) -> str | None:
        """Expect the same model in the end, and an empty folder."""
        found = self._fit(self.folder / "state")
        left = [path.name for path in (self.folder / "state").iterdir()]
        if left:
            return f"the finished fit leaves {left}"
        return None if np.array_equal(found, self.expected) else "the resumed fit differs"


class Resuming(Checkpointing):
    """The same of the default."""

    pair = ("auto", "layered")


class Training(Checkpointing):
    """The same of a training by gradient."""

    pair = ("tan", "hybrid(training__epochs=60)")


class Fitting(Scene):
    """A fit in threads is stopped; the next one in the same process is as if nothing had been."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.X, self.y = data(3, 300)
        self.expected = self._measure(self._fit)

    def _fit(self) -> Any:
        from tanager import BayesNetClassifier

        found = []
        for pair in (("tan", "discriminative"), ("kdb", "hdp"), ("auto", "layered")):
            clf = BayesNetClassifier(*pair, n_jobs=2, random_state=0).fit(self.X, self.y)
            found.append(clf.predict_proba(self.X[:50]))
        return np.array(found)

    def work(self) -> None:
        """Fit three models."""
        self._fit()

    def look(self) -> str | None:
        """Expect the same models."""
        return None if np.array_equal(self._fit(), self.expected) else "the next fit differs"


class Distributing(Scene):
    """A fit on a cluster of one worker is stopped; the cluster goes on to serve."""

    def __init__(self, folder: Path) -> None:
        from distributed import Client, LocalCluster

        super().__init__(folder)
        self._cluster = LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50,
            local_directory=str(folder),
        )  # fmt: skip
        self._client = Client(self._cluster)
        self.X, self.y = data(3, 300)
        self.expected = self._measure(self._fit)
        clf = self._classifier("local").fit(self.X, self.y)
        assert np.array_equal(clf.predict_proba(self.X[:50]), self.expected)

    @staticmethod
    def _classifier(engine: Any) -> Any:
        from tanager import BayesNetClassifier

        return BayesNetClassifier("kdb", "hdp", engine=engine, random_state=0)

    def _fit(self) -> Any:
        clf = self._classifier(self._client).fit(self.X, self.y)
        return clf.predict_proba(self.X[:50])

    def work(self) -> None:
        """Fit on the cluster."""
        self._fit()

    def look(self) -> str | None:
        """Expect the same model from the same cluster."""
        return None if np.array_equal(self._fit(), self.expected) else "the next fit differs"

    def close(self) -> None:
        """Stop the cluster."""
        self._client.close()
        self._cluster.close()
