"""The answer to a question: a table of probabilities with the names of its values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes.rows import EqualByArrays

__all__ = ["Answer", "Completion"]

SHOWN = 40  # combinations that are printed


@dataclass(frozen=True, eq=False)
class Answer(EqualByArrays):
    """P(targets | evidence).

    Attributes
    ----------
    targets : tuple of str
        The features, and the class, that were asked about.
    values : tuple of tuple of str
        The values of each.
    probabilities : ndarray of float64, shape ``(*n_values)`` or ``(n_rows, *n_values)``
        They sum to one over the targets' axes. Rows where the evidence was a table.
    log_evidence : float or ndarray of float64, shape (n_rows,)
        log P(evidence).
    """

    targets: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    probabilities: NDArray[np.float64]
    log_evidence: Any

    @property
    def n_rows(self) -> int | None:
        """Number of rows of evidence; None where it was a mapping."""
        many = self.probabilities.ndim > len(self.targets)
        return len(self.probabilities) if many else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "targets": list(self.targets),
            "values": [list(names) for names in self.values],
            "probabilities": self.probabilities.tolist(),
            "log_evidence": np.asarray(self.log_evidence).tolist(),
        }

    def to_pandas(self) -> Any:
        """Return a DataFrame, one row per combination, or one per row of evidence; needs pandas."""
        import pandas as pd

        if len(self.targets) == 1:
            index: Any = pd.Index(self.values[0], name=self.targets[0])
        else:
            index = pd.MultiIndex.from_product(self.values, names=self.targets)
        if self.n_rows is None:
            return pd.DataFrame({"probability": self.probabilities.ravel()}, index=index)
        return pd.DataFrame(self.probabilities.reshape(self.n_rows, -1), columns=index)

    def __str__(self) -> str:
        title = f"P({', '.join(self.targets)} | evidence)"
        if self.n_rows is not None:
            sizes = " × ".join(str(len(names)) for names in self.values)
            return f"{title}: {self.n_rows:,} rows, {sizes} values"
        pairs = list(zip(product(*self.values), self.probabilities.ravel().tolist(), strict=True))
        lines = [[*names, f"{p:.4f}"] for names, p in pairs[:SHOWN]]
        head = [*self.targets, "P"]
        widths = [max(len(line[at]) for line in [head, *lines]) for at in range(len(head))]
        shown = [
            "  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip()
            for line in [head, *lines]
        ]
        rest = len(pairs) - len(lines)
        return "\n".join([title, *shown, *([f"... {rest:,} more"] if rest else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from tanager.network.views import answer_html

        return answer_html(self)


@dataclass(frozen=True)
class Completion:
    """One way to fill in what is unknown.

    Attributes
    ----------
    values : dict of str to str
        The value of every feature that was unknown, and of the class.
    probability : float
        Of these values together, given the evidence.
    """

    values: dict[str, str]
    probability: float
