"""A metric of an experiment as a LaTeX table."""

from __future__ import annotations

from tanager.errors import DataError
from tanager.evaluation.results import Results
from tanager.evaluation.summary import summarize
from tanager.evaluation.verdict import leading_metric

__all__ = ["write_latex"]

_SPECIAL = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def write_latex(results: Results, metric: str | None = None) -> str:
    """Return datasets by classifiers, the best of each row bold, and the mean ranks."""
    metric = metric or leading_metric(results)
    summary = summarize(results, metric)
    scores = summary.scores
    if not scores.datasets:
        raise DataError(f"no dataset has {metric!r} of every classifier: there is no table.")
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(scores.classifiers)}}}",
        r"\toprule",
        _row([results.title(metric), *scores.classifiers]),
        r"\midrule",
    ]
    for at, dataset in enumerate(scores.datasets):
        best = scores.best(at)
        cells = []
        for j, value in enumerate(scores.values[at]):
            text = f"{value:.4f}"
            text = rf"\mathbf{{{text}}}" if value == best else text
            spread = summary.spread(at, j).replace("±", r"\pm")
            cells.append(f"${text}{spread}$")
        lines.append(f"{_escaped(dataset)} & {' & '.join(cells)} \\\\")
    if len(scores.classifiers) > 1:
        ranks = [f"{summary.ranks[name]:.2f}" for name in scores.classifiers]
        lines += [r"\midrule", _row(["average rank", *ranks])]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _row(cells: list[str]) -> str:
    return f"{' & '.join(map(_escaped, cells))} \\\\"


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(char, char) for char in text)
