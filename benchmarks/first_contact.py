"""What a new user waits for: one row of a DataFrame, and tables of few rows and many columns.

    python -m benchmarks.first_contact [--write]

CPU time on one thread. Rows: the least of nine batches of 300 calls on data that comes with
scikit-learn (breast cancer, 30 numbers; a column of text beside it). Wide tables: 300 rows of
normal numbers of which five tell the class, each fit in a new process, with the peak of memory
above what the imports take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.measuring import in_new_process, markdown, publish

WIDE = (
    ("tan", "hdp", 1000),
    ("tan", "hdp", 3000),
    ("auto", "layered", 1000),
    ("auto", "layered", 3000),
)
WIDE_CODE = """
import json, time
import numpy as np
from tanager import BayesNetClassifier
from tanager.engines.keeping import peak_memory_mb
rng = np.random.default_rng(0)
y = rng.integers(0, 2, 300)
X = rng.normal(size=(300, {n}))
X[:, :5] += y[:, None]
BayesNetClassifier("{s}", "{p}").fit(X[:, :5], y)
before, start = peak_memory_mb(), time.process_time()
BayesNetClassifier("{s}", "{p}").fit(X, y)
print(json.dumps(dict(seconds=time.process_time() - start, mb=peak_memory_mb() - before)))
"""


def least(work: Callable[[], Any], batches: int = 9, calls: int = 300) -> float:
    """Return CPU seconds of one call."""
    work()
    found = []
    for _ in range(batches):
        start = time.thread_time()
        for _ in range(calls):
            work()
        found.append((time.thread_time() - start) / calls)
    return min(found)


def main() -> None:
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    from tanager import BayesNetClassifier

    frame, y = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = frame.assign(where=np.where(frame["mean area"] > 600, "left", "right"))
    one, rows = frame.iloc[[7]], []
    for structure, parameters in (("tan", "hdp"), ("auto", "layered")):
        clf = BayesNetClassifier(structure, parameters).fit(frame, y)
        seconds = least(lambda clf=clf: clf.predict_proba(one))
        rows.append(
            (f"one row of a DataFrame, {structure}/{parameters}", f"{seconds * 1e6:.0f} µs")
        )
    for structure, parameters, n in WIDE:
        found = in_new_process(WIDE_CODE.format(s=structure, p=parameters, n=n))
        rows.append(
            (
                f"fit of 300 × {n:,}, {structure}/{parameters}",
                f"{found['seconds']:.1f} s, {found['mb']:.0f} MB",
            )
        )
    publish(
        "first_contact", "First contact", f"CPU time, one thread.\n\n{markdown(('what', ''), rows)}"
    )


if __name__ == "__main__":
    main()
