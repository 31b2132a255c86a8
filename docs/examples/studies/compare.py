"""
Comparisons
===========

Four classifiers on three tables, twice by two-fold cross-validation. The plots of
``tanager_papers`` come with ``pip install ./papers``.
"""

import pyarrow as pa
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from tanager.evaluation import CrossValidation, Dataset, Experiment


def as_table(loaded):
    columns = {name: loaded.data[name].to_numpy() for name in loaded.data}
    return pa.table({**columns, "class": loaded.target.astype(str).to_numpy()})


tables = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
results = Experiment(
    [Dataset(name, as_table(load(as_frame=True))) for name, load in tables.items()],
    ["naive/laplace", "tan/m-estimate(m=1)", "tan/hdp", "logistic-regression"],
    CrossValidation(2, 2),
    metrics=["log_loss", "accuracy", "calibration_error"],
    name="Four classifiers on three tables",
).run()

# %%
# Each classifier's result with an interval. With one table the axis is the metric itself, with
# several the average rank.

from tanager.evaluation import Results
from tanager.report import plot_comparison

one = Results(
    {**results.description, "datasets": [{"name": "wine"}]},
    [cell for cell in results.records if cell["dataset"] == "wine"],
)
plot_comparison(one, "log_loss")

# %%
# A critical difference diagram: average ranks, and which differences could be due to chance.

from tanager.evaluation.summary import summarize
from tanager_papers import plot_critical_difference

summary = summarize(results, "log_loss")
plot_critical_difference(summary.scores.classifiers, summary.nemenyi)

# %%
# Two classifiers, table by table. Above the diagonal the first wins.

from tanager_papers import plot_loss_scatter

a, b = "tan/hdp", "naive/laplace"
scores = summary.scores
plot_loss_scatter(scores.of(a), scores.of(b), (a, b), loss="log-loss", labels=scores.datasets)

# %%
# One against several:

from tanager_papers import plot_scatters

others = {name: scores.of(name) for name in scores.classifiers if name != a}
plot_scatters(scores.of(a), others, a, loss="log-loss")

# %%
# Bars side by side:

from tanager_papers import plot_bars

series = {name: scores.of(name) for name in scores.classifiers}
plot_bars(scores.datasets, series, y="log-loss")

# %%
# Accuracy by confidence, all tables together:

from tanager_papers import plot_reliability

plot_reliability({name: results.reliability(name) for name in results.classifiers})
