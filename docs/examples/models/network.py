"""
Networks
========

From 25 features on, numerous leaves of one parent share a box (``fold=False`` draws them all),
and a network too deep for a screen is drawn from top to bottom.
"""

from sklearn.datasets import load_breast_cancer

from tanager import BayesNetClassifier
from tanager.report import plot_network

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
clf = BayesNetClassifier("tan", "m-estimate(m=1)").fit(X, y)
plot_network(clf)

# %%
# A feature with several parents is placed after the most informative one. Dashed arrows come from
# the others.

few = [name for name in X.columns if name.startswith("worst")]
deeper = BayesNetClassifier("kdb(k=2)", "m-estimate(m=1)").fit(X[few], y)
plot_network(deeper)
