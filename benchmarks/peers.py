"""TAN and its kin, fitted and applied by other programs, on the same codes.

Needs the extra ``peers`` (``make peers``), and a JDK for Weka, whose classes are inside the package
python-weka-wrapper3; a program that is not installed is listed as such. bnclassify is a package of
R's own archive, and has no place in PyPI. Run ``python -m benchmarks.peers`` (several minutes,
nearly all of them spent in the peers).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring import ROOT, in_new_process, markdown, publish
from tanager.engines.keeping import peak_memory_mb

TRAIN, TEST = 20_000, 10_000
OURS = "Tanager, TAN, Laplace"


class Measured(NamedTuple):
    """What one program did: CPU seconds, seconds a row, MB of its process, log-loss."""

    fit: float
    row: float
    memory: float
    loss: float


class Codes(NamedTuple):
    """Integer codes from zero on, and classes likewise."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def tanager(structure: str, parameters: str) -> Callable[..., Any]:
    def run(X: np.ndarray, y: np.ndarray) -> Any:
        from tanager import BayesNetClassifier

        BayesNetClassifier(structure, parameters, categorical_features="all").fit(X[:50], y[:50])
        return lambda: BayesNetClassifier(
            structure, parameters, categorical_features="all", n_jobs=1
        ).fit(X, y)

    return run


def scikit_learn(X: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.naive_bayes import CategoricalNB

    return lambda: CategoricalNB(min_categories=X.max(axis=0) + 1).fit(X, y)


def scikit_bayes(X: np.ndarray, y: np.ndarray) -> Any:
    from skbn.ande import AnDE

    return lambda: AnDE(n_dependence=1).fit(X, y)


def pyagrum_tan(X: np.ndarray, y: np.ndarray) -> Any:
    from pyagrum.lib.discreteTypeProcessor import DiscreteTypeProcessor
    from pyagrum.skbn import BNClassifier

    kinds = DiscreteTypeProcessor("NoDiscretization", defaultNumberOfBins=None)
    peer = BNClassifier(
        type_processor=kinds, learningMethod="TAN", prior="Smoothing", priorWeight=1.0
    )
    return lambda: peer.fit(X, y)


class PgmpyTan:
    """pgmpy's TAN; its inference is by general variable elimination, row by row."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        import pandas as pd
        from pgmpy.estimators import TreeSearch
        from pgmpy.models import DiscreteBayesianNetwork
        from pgmpy.parameter_estimator import DiscreteBayesianEstimator

        names = [f"x{i}" for i in range(X.shape[1])]
        frame = pd.DataFrame(X, columns=names).assign(y=y)
        search = TreeSearch(frame, root_node="x0", n_jobs=1)
        graph = search.estimate(estimator_type="tan", class_node="y", show_progress=False)
        self.model = DiscreteBayesianNetwork(graph.edges())
        self.model.fit(frame, estimator=DiscreteBayesianEstimator(prior_type="K2"))
        self.names = names

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return P(y | row)."""
        import pandas as pd

        frame = pd.DataFrame(X, columns=self.names)
        return self.model.predict_probability(frame).to_numpy()


def pgmpy_tan(X: np.ndarray, y: np.ndarray) -> Any:
    import pgmpy.estimators  # noqa: F401

    return lambda: PgmpyTan(X, y)


# Each prepares what is not timed (imports, a fit of few rows that loads compiled loops) and
# returns the fit.
PEERS: dict[str, Callable[..., Any]] = {
    OURS: tanager("tan", "laplace"),
    "Tanager, TAN, HDP": tanager("tan", "hdp"),
    "Tanager, selective kDB, HDP": tanager("skdb(smoothing='back-off')", "hdp"),
    "scikit-learn, CategoricalNB": scikit_learn,
    "scikit-bayes, AODE": scikit_bayes,
    "pyAgrum, TAN": pyagrum_tan,
    "pgmpy, TAN": pgmpy_tan,
}
TREE = "weka.classifiers.bayes.net.search.local.TAN -- -S BAYES"
SMOOTHED = "weka.classifiers.bayes.net.estimate.SimpleEstimator -- -A 1.0"
WEKA = {
    "Weka, TAN": f"weka.classifiers.bayes.BayesNet -D -Q {TREE} -E {SMOOTHED}",
    "Weka, naive Bayes": "weka.classifiers.bayes.NaiveBayes",
}
# A small process that starts another: a child's peak counts what its parent had at the time.
WATCHED = """
import json, resource, subprocess
done = subprocess.run({command!r}, capture_output=True, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(json.dumps([done.stdout + done.stderr, peak]))
"""

# Weka's own times are wall-clock, so this asks the thread: nanoseconds, then P(y | x) of each row.
TIMED = """
import java.lang.management.*;
import java.util.*;
import weka.classifiers.*;
import weka.core.Instances;
import weka.core.converters.ConverterUtils.DataSource;

public class Timed {
  static Instances read(String path) throws Exception {
    Instances found = DataSource.read(path);
    found.setClassIndex(found.numAttributes() - 1);
    return found;
  }

  public static void main(String[] given) throws Exception {
    Instances train = read(given[0]), test = read(given[1]);
    String[] options = Arrays.copyOfRange(given, 3, given.length);
    Classifier classifier = AbstractClassifier.forName(given[2], options);
    ThreadMXBean clock = ManagementFactory.getThreadMXBean();
    double[][] found = new double[test.size()][];
    long start = clock.getCurrentThreadCpuTime();
    classifier.buildClassifier(train);
    long fitted = clock.getCurrentThreadCpuTime();
    for (int i = 0; i < found.length; i++) {
      found[i] = classifier.distributionForInstance(test.get(i));
    }
    long done = clock.getCurrentThreadCpuTime();
    StringBuilder out = new StringBuilder((fitted - start) + "," + (done - fitted) + "\\n");
    for (double[] row : found) {
      String text = Arrays.toString(row);
      out.append(text, 1, text.length() - 1).append("\\n");
    }
    System.out.print(out);
  }
}
"""


def child(name: str, path: str) -> None:
    """Measure one program in this process; prints what was measured as JSON."""
    data = _read(Path(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = PEERS[name](data.X, data.y)
        start = time.process_time()
        fitted = fit()
        fit_seconds = time.process_time() - start
        start = time.process_time()
        proba = np.asarray(fitted.predict_proba(data.X_test))
        row = (time.process_time() - start) / len(proba)
    print(json.dumps([fit_seconds, row, peak_memory_mb(), _loss(proba, data.y_test)]))


def measure(name: str, path: Path) -> Measured:
    """Measure one program in a process of its own."""
    code = f"from benchmarks.peers import child; child({name!r}, {str(path)!r})"
    return Measured(*in_new_process(code, PYTHONPATH=str(ROOT)))


def measure_weka(name: str, path: Path) -> Measured:
    """Measure Weka by the CPU time of its thread, without Java's start and the reading."""
    compiler, jar = shutil.which("javac"), _weka_jar()
    if compiler is None:
        raise ModuleNotFoundError(name="javac")
    data = _read(path)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "Timed.java").write_text(TIMED)
        subprocess.run([compiler, "-cp", jar, place / "Timed.java"], check=True)
        _write_arff(place / "train.arff", data.X, data.y, data)
        _write_arff(place / "test.arff", data.X_test, data.y_test, data)
        files = [f"{place}/train.arff", f"{place}/test.arff"]
        command = ["java", "-XX:ActiveProcessorCount=1", "-cp", f"{jar}:{place}", "Timed", *files]
        told, memory = in_new_process(WATCHED.format(command=[*command, *WEKA[name].split(" ")]))
    lines = [line for line in told.splitlines() if re.fullmatch(r"[\d.E, -]+", line)]
    if len(lines) != 1 + len(data.y_test):
        raise RuntimeError(told[-2000:])
    fit, rows = (1e-9 * float(t) for t in lines[0].split(","))
    proba = np.array([[float(p) for p in line.split(",")] for line in lines[1:]])
    return Measured(fit, rows / len(proba), memory, _loss(proba, data.y_test))


def _weka_jar() -> str:
    try:
        found = [f for f in files("python-weka-wrapper3") or () if f.name == "weka.jar"]
    except PackageNotFoundError:
        raise ModuleNotFoundError(name="python-weka-wrapper3") from None
    return str(found[0].locate())


def _write_arff(path: Path, X: np.ndarray, y: np.ndarray, data: Codes) -> None:
    """Write codes as nominal attributes, with the values of all rows declared."""
    n_values = np.maximum(data.X.max(axis=0), data.X_test.max(axis=0)) + 1
    n_classes = max(data.y.max(), data.y_test.max()) + 1
    domains = [*enumerate(n_values), ("y", n_classes)]
    head = [f"@attribute x{i} {{{','.join(map(str, range(n)))}}}" for i, n in domains]
    body = [",".join(map(str, row)) for row in np.column_stack([X, y]).tolist()]
    path.write_text("\n".join(["@relation codes", *head, "@data", *body]) + "\n")


def _loss(proba: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.maximum(proba[np.arange(len(y)), y], 1e-15)).mean())


def _read(path: Path) -> Codes:
    with np.load(path) as arrays:
        return Codes(*(arrays[name] for name in Codes._fields))


def tables() -> dict[str, Codes]:
    """Return what is learned from: rows of a random TAN, and letters cut by MDL."""
    from benchmarks.foundation import random_tan
    from tanager import MDLDiscretizer
    from tanager_papers.keel import find_keel

    X, y = random_tan(TRAIN + TEST)
    title = f"{TRAIN:,} rows × {X.shape[1]} features of 2 to 8 values, 2 classes, of a random TAN"
    found = {title: Codes(X[:TRAIN], y[:TRAIN], X[TRAIN:], y[TRAIN:])}
    letter = find_keel("LetterRecognition")
    if letter is None:
        print("letter is not here: make setup, and TANAGER_KEEL=.keel")
        return found
    data = letter.load()
    order = np.random.default_rng(0).permutation(len(data.labels))
    train, test = order[:-TEST], order[-TEST:]
    numbers = np.column_stack([column.to_numpy() for column in data.features.columns])
    cut = MDLDiscretizer().fit(numbers[train], data.labels[train])
    parts = [np.asarray(cut.transform(numbers[rows])).astype(np.int64) for rows in (train, test)]
    title = f"Letter, {len(train):,} rows × {numbers.shape[1]} features cut by MDL, 26 classes"
    found[title] = Codes(parts[0], data.labels[train], parts[1], data.labels[test])
    return found


def compare(data: Codes) -> list[Sequence[str]]:
    """Measure every program on one table, Tanager's plain TAN first."""
    rows: list[Sequence[str]] = []
    ours: Measured | None = None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.npz"
        np.savez(path, **data._asdict())
        for name in (*PEERS, *WEKA):
            try:
                found = measure_weka(name, path) if name in WEKA else measure(name, path)
            except (ModuleNotFoundError, RuntimeError) as error:
                missing = re.search(r"No module named '([\w.]+)'", str(error))
                if not (missing or isinstance(error, ModuleNotFoundError)):
                    raise
                what = missing[1] if missing else error.name
                rows.append([name, f"not installed ({what})", *[""] * 5])
                continue
            ours = ours or found
            rows.append(_row(name, found, ours))
            print(" | ".join(rows[-1]), flush=True)
    return rows


def _row(name: str, found: Measured, ours: Measured) -> list[str]:
    return [
        name,
        f"{found.fit:.3f}",
        f"{found.fit / ours.fit:,.1f}×",
        f"{1e6 * found.row:,.1f}",
        f"{found.row / ours.row:,.1f}×",
        f"{found.memory:,.0f}",
        f"{found.loss:.4f}",
    ]


def main() -> None:
    head = ["Program", "Fit, s", "", "Predict, µs a row", "", "Peak memory, MB", "Log-loss"]
    parts = [
        "Every program has the same integer codes and a process of its own; CPU seconds on one "
        "thread, after imports (Weka's of the thread that learns, without Java's start and the "
        f"reading of files), and how many times those of {OURS}. Memory is that of the whole "
        f"process. {TEST:,} test rows."
    ]
    for title, data in tables().items():
        parts += [f"## {title}", markdown(head, compare(data))]
    publish("peers", "Other programs on the same rows", "\n\n".join(parts))


if __name__ == "__main__":
    main()
