"""
Learning
========

A learning curve, with a band of one standard deviation. The plots come with ``pip install
./papers``.
"""

import pyarrow as pa
from sklearn.datasets import load_breast_cancer, load_iris

from tanager import BayesNetClassifier
from tanager.evaluation import Dataset, Experiment, LearningCurve
from tanager_papers import learning_curves, plot_curves

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
table = pa.table({**{name: X[name].to_numpy() for name in X}, "class": y})
grown = Experiment(
    [Dataset("breast cancer", table)],
    ["naive/laplace", "tan/hdp"],
    LearningCurve(sizes=(20, 50, 100, 200, 400), rounds=3),
    metrics=["log_loss"],
).run()
plot_curves(learning_curves(grown, "breast cancer", "log_loss"), y="log-loss")

# %%
# Convergence of gradient-based training:

from tanager_papers import plot_convergence

few = [name for name in X.columns if name.startswith("worst")]
trained = BayesNetClassifier("tan", "discriminative").fit(X[few], y)
trace = trained.info_["parameters"]["objective"]
plot_convergence({"tan": trace}, objective="negative log-likelihood")

# %%
# Training of a structure learned by gradient; ``plot_training(searched.info_["parameters"])``
# plots the training of its tables.

from tanager_papers import plot_training

X_iris, y_iris = load_iris(return_X_y=True, as_frame=True)
searched = BayesNetClassifier("differentiable", "hybrid", random_state=0).fit(X_iris, y_iris)
plot_training(searched)

# %%
# Which k and which features selective kDB kept, by leave-one-out:

from tanager_papers import plot_surface

selective = BayesNetClassifier("skdb(max_k=3)", "m-estimate(m=1)").fit(X, y)
chosen = selective.info_["structure"]
plot_surface(chosen["surface"], (chosen["k"], chosen["n_features"]))
